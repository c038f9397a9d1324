"""Risk before a run: the audit as a page, whose findings are decided on before the download."""

from __future__ import annotations


def test_findings_are_decided_from_the_audit_to_the_download(person, visits):
    page, expect = person.page, person.expect
    person.opens(visits)
    page.get_by_label("Role of person").select_option("insensitive")
    person.waits_for_policy(lambda policy: policy["attributes"]["person"]["role"] == "insensitive")
    person.goes_to("Risk")
    page.get_by_text("Is the table a sample?").click()
    page.get_by_label("Share of the population").fill("0.1")
    page.get_by_role("button", name="Look at the risk").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#found")).to_contain_text("are unique on")
    expect(page.get_by_role("table", name="Each column alone")).to_contain_text("zip")
    expect(page.get_by_role("table", name="Unique in the population of 6,000")).to_contain_text("(chosen)")
    finding = page.locator("[data-finding=isolating-columns]")
    expect(finding).to_have_attribute("data-decided", "no")
    finding.get_by_label("Reason to accept").fill("nobody knows these numbers")
    page.keyboard.press("Enter")
    expect(finding).to_have_attribute("data-decided", "yes")
    assert person.policy()["accept"][0]["reason"] == "nobody knows these numbers"
    person.runs()
    page.get_by_role("link", name="Report and download").click()
    expect(page.locator("[data-finding=isolating-columns]")).to_contain_text("Accepted: nobody knows these numbers")
    page.get_by_role("button", name="Take it back (isolating-columns)").click()
    expect(page.locator("main")).to_contain_text("run it again before you share the release")


def test_a_technique_a_weight_and_missing_values_have_their_controls(person, visits):
    page, expect = person.page, person.expect
    person.opens(visits)
    row = page.locator("#column-1")  # age
    row.get_by_text("Technique").click()
    row.get_by_label("Change its values before anything else").select_option("rounding")
    base = row.get_by_label("base", exact=True)
    base.fill("-5")
    page.keyboard.press("Enter")
    expect(row.get_by_role("alert")).to_contain_text("must be more than 0")
    assert "technique" not in person.policy()["attributes"]["age"]
    base.fill("5")
    page.keyboard.press("Enter")
    person.waits_for_policy(lambda policy: policy["attributes"]["age"].get("technique") == {"rounding": {"base": 5}})
    row.get_by_label("Change its values before anything else").select_option("noise")
    row.get_by_label("laplace scale").fill("2")
    row.get_by_role("button", name="Save the technique of age").click()
    noise = {"noise": {"laplace": {"scale": 2}}}
    person.waits_for_policy(lambda policy: policy["attributes"]["age"].get("technique") == noise)
    row.get_by_label("How much its detail matters").fill("3")
    page.keyboard.press("Tab")
    person.waits_for_policy(lambda policy: policy["attributes"]["age"].get("weight") == 3)
    page.get_by_text("Questions about the whole table").click()
    page.get_by_label("Missing values").select_option("drop")
    page.get_by_role("button", name="Save what becomes of missing values").click()
    person.waits_for_policy(lambda policy: policy["missing"] == "drop")

"""The import step: types, markers of what is missing, decimal commas and people, shown at once on every page."""

from __future__ import annotations

from pathlib import Path


def write_bank(path: Path) -> Path:
    """Customers as a bank writes them: semicolons, decimal commas, codes with zeros, N and -9 for what is not known."""
    lines = ["customer;branch;grade;balance;smoker;income"]
    for n in range(240):
        grade, smoker, income = "0123"[n % 4] + "1", ("yes", "no", "N")[n % 3], -9 if n % 8 == 0 else 900 + n % 60
        lines.append(f"{n // 2:05};0{n % 7:03};{grade};{n % 50},{n % 10}5;{smoker};{income}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_types_and_markers_are_chosen_and_every_page_shows_them(person, tmp_path: Path):
    page, expect = person.page, person.expect
    person.opens(write_bank(tmp_path / "bank.csv"))
    person.goes_to("Import")
    expect(page.get_by_label("-9 means missing in income")).to_be_checked()
    expect(page.get_by_label("decimal comma")).to_be_checked()
    marker = page.get_by_label("N means missing in smoker")
    expect(marker).not_to_be_checked()
    marker.focus()
    page.keyboard.press("Space")
    page.get_by_label("-9 means missing in income").uncheck()
    page.get_by_label("Type of grade").select_option("number")
    page.get_by_role("button", name="Read the columns this way").click()
    expect(page.get_by_label("N means missing in smoker")).to_be_checked()
    expect(page.get_by_label("Type of grade")).to_have_value("number")
    policy = person.policy()
    assert policy["source"]["missing_in"] == {"smoker": ["N"]}
    assert policy["source"]["decimal_comma"] == ["balance"]
    person.goes_to("Columns")
    row = page.locator("tr", has=page.locator(".column-name", has_text="smoker"))
    expect(row).to_contain_text("80 missing (33.3%)")
    expect(page.locator("tr", has=page.locator(".column-name", has_text="income"))).to_contain_text("none missing")
    expect(page.locator("tr", has=page.locator(".column-name", has_text="branch"))).to_contain_text("7 values")

    page.goto(page.url.replace("/columns", "/policy"))  # and what is written there shows as well
    text = page.get_by_label("Policy", exact=True)
    text.fill(text.input_value().replace('smoker: ["N"]', 'smoker: ["N", "yes"]'))
    page.get_by_role("button", name="Save", exact=True).click()
    person.goes_to("Columns")
    expect(row).to_contain_text("160 missing (66.7%)")


def test_people_and_the_separator(person, watch, tmp_path: Path):
    page, expect = person.page, person.expect
    person.opens(write_bank(tmp_path / "bank.csv"))
    person.goes_to("Import")
    page.get_by_label("Which column names the person?").select_option("customer")
    page.get_by_label("Publish one record per person").check()
    page.get_by_role("button", name="Save who the people are").click()
    policy = person.waits_for_policy(lambda policy: policy.get("unit") == "customer")
    assert policy["sample"] == {"one_per": "unit"}
    page.get_by_label("Character between fields").fill(",")
    page.get_by_role("button", name="Read the file again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Failed")  # the lines have commas in other places
    watch.forgive("422")
    page.go_back()
    page.get_by_label("Character between fields").fill(";")
    page.get_by_role("button", name="Read the file again").click()
    person.waits_for_policy(lambda policy: policy["source"].get("delimiter") == ";")

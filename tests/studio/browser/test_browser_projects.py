"""Projects: saved as one file without rows, opened again with the table, duplicated."""

from __future__ import annotations

import json
from pathlib import Path


def test_a_project_is_saved_opened_again_and_duplicated(person, visits, tmp_path: Path):
    page, expect = person.page, person.expect
    person.opens(visits)
    page.get_by_label("Meaning of sex").fill("as in the register")
    page.keyboard.press("Tab")
    person.waits_for_policy(lambda policy: policy["attributes"]["sex"].get("description"))
    person.runs()
    page.get_by_role("link", name="Save project").focus()
    with page.expect_download() as taken:
        page.keyboard.press("Enter")
    file = tmp_path / taken.value.suggested_filename
    taken.value.save_as(file)
    assert file.name == "visits.shoal"
    saved = json.loads(file.read_text())
    assert [run["name"] for run in saved["runs"]] == ["Solution 1"]
    assert "P00000" not in file.read_text()  # nobody's row

    page.get_by_role("link", name="Open", exact=True).click()
    person.chooses(file, lambda: page.get_by_text("Choose a file", exact=True).click())
    expect(page.locator("main")).to_contain_text("now choose its table, visits.csv (600 rows)")
    person.chooses(visits, lambda: page.get_by_text("Choose a file", exact=True).click())
    person.sees_columns()
    expect(page.locator("main")).to_contain_text("is open again with the same table")
    assert person.policy()["attributes"]["sex"]["description"] == "as in the register"
    person.goes_to("Run")
    expect(page.get_by_role("table", name="Figures of earlier runs")).to_contain_text("Solution 1")
    page.get_by_role("button", name="Use its policy again").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Policy as YAML")

    page.get_by_role("link", name="Open", exact=True).click()
    page.get_by_role("button", name="Duplicate visits.csv").first.click()
    person.sees_columns()
    expect(page.locator(".opened")).to_contain_text("visits.csv, copy")
    page.get_by_label("Role of sex").select_option("insensitive")
    person.waits_for_policy(lambda policy: policy["attributes"]["sex"]["role"] == "insensitive")
    page.get_by_role("link", name="Open", exact=True).click()
    page.get_by_role("link", name="visits.csv", exact=True).first.click()
    expect(page.get_by_label("Role of sex")).to_have_value("quasi")


def test_a_table_that_differs_and_a_file_that_is_no_project_are_told(person, visits, watch, tmp_path: Path):
    page, expect = person.page, person.expect
    (tmp_path / "broken.shoal").write_text('{"shoal_project": 1}')
    page.locator("#file").set_input_files(tmp_path / "broken.shoal")
    expect(person.notices).to_contain_text("broken.shoal is not a project file")
    watch.forgive("422")
    person.opens(visits)
    file = person.downloads("Save project", tmp_path)
    page.get_by_role("link", name="Open", exact=True).click()
    page.locator("#file").set_input_files(file)
    expect(page.locator("main")).to_contain_text("now choose its table")
    other = tmp_path / "visits.csv"
    other.write_text("\n".join(visits.read_text().splitlines()[:401]) + "\n")
    page.locator("#file").set_input_files(other)
    person.sees_columns()
    expect(page.locator("main")).to_contain_text("it has 400 rows, the saved one had 600")

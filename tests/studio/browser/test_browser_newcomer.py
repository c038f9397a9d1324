"""Somebody who types faster than the studio answers, asks for too much, or brings a file of another machine."""

from __future__ import annotations

from pathlib import Path


def _until_asked(page, held: list) -> None:
    """Wait until a request is held back, so that its answer comes after what the test does now."""
    while not held:
        page.wait_for_timeout(20)


def test_what_is_typed_while_a_change_is_saved_is_not_lost(person, visits):
    person.opens(visits)
    person.goes_to("Guarantees")
    page = person.page
    held = []
    page.route("**/guarantees/change", lambda route: route.continue_() if held else held.append(route))
    k = page.locator("[data-model=k-anonymity] input[name=k]")
    k.fill("7")
    k.blur()
    page.locator("[data-model=entropy-l-diversity] input[name=l]").fill("1.5")  # and stays there, unfinished
    _until_asked(page, held)
    held[0].continue_()
    person.waits_for_policy(lambda policy: policy["privacy"][0] == {"k-anonymity": {"k": 7}})
    l_field = page.locator("[data-model=entropy-l-diversity] input[name=l]")
    person.expect(l_field).to_have_value("1.5")
    person.expect(l_field).to_be_focused()
    l_field.blur()
    person.waits_for_policy(lambda policy: policy["privacy"][1]["entropy-l-diversity"]["l"] == 1.5)


def test_two_changes_at_once_are_both_saved(person, visits):
    person.opens(visits)
    person.goes_to("Guarantees")
    page = person.page
    held = []
    page.route("**/guarantees/change", lambda route: route.continue_() if held else held.append(route))
    page.locator("[data-model=k-anonymity] input[name=k]").fill("7")
    page.locator("[data-model=entropy-l-diversity] input[name=l]").fill("1.5")
    page.keyboard.press("Tab")
    _until_asked(page, held)
    held[0].continue_()
    saved = person.waits_for_policy(lambda policy: policy["privacy"][1]["entropy-l-diversity"]["l"] == 1.5)
    assert saved["privacy"][0] == {"k-anonymity": {"k": 7}}


def test_what_is_typed_before_the_script_is_there_is_saved_too(person, visits):
    person.opens(visits)
    page, held = person.page, []
    page.route("**/static/studio.js", lambda route: held.append(route))
    page.goto(page.url.replace("/columns", "/guarantees"), wait_until="commit")
    k = page.locator("[data-model=k-anonymity] input[name=k]")
    k.fill("7")
    k.blur()
    _until_asked(page, held)
    held[0].continue_()
    person.waits_for_policy(lambda policy: policy["privacy"][0] == {"k-anonymity": {"k": 7}})


def test_a_button_that_is_pressed_before_the_script_is_there_changes_its_part_of_the_page(person, visits):
    person.opens(visits)
    person.runs()
    page, held = person.page, []
    page.route("**/static/studio.js", lambda route: held.append(route))
    page.goto(page.url, wait_until="commit")
    page.get_by_role("table", name="Columns that changed").get_by_role("button", name="age", exact=True).click()
    _until_asked(page, held)
    held[0].continue_()
    person.is_told("Column shown")
    person.expect(page.get_by_role("heading", level=1)).to_contain_text("Results: ")


def test_a_file_that_is_chosen_before_the_script_is_there_is_opened_too(person, studio, visits):
    page, held = person.page, []
    page.route("**/static/upload.js", lambda route: held.append(route))
    page.goto(studio.origin, wait_until="commit")
    page.locator("#file").set_input_files(visits)
    _until_asked(page, held)
    held[0].continue_()
    person.sees_columns()
    page.unroute("**/static/upload.js")
    page.go_back()  # and is not opened once more
    person.expect(page.get_by_role("heading", level=1)).to_have_text("Open a table about people")
    assert page.locator("#file").evaluate("each => each.files.length") == 0


def test_a_run_that_asks_for_too_much_leads_to_where_it_is_mended(person, visits):
    person.opens(visits)
    person.goes_to("Guarantees")
    k = person.page.locator("[data-model=k-anonymity] input[name=k]")
    k.fill("1000000")
    k.blur()
    person.waits_for_policy(lambda policy: policy["privacy"][0] == {"k-anonymity": {"k": 1_000_000}})
    person.goes_to("Run")
    person.expect(person.page.locator("#start")).to_contain_text("auto, with k-anonymity (k = 1000000)")
    person.page.get_by_role("button", name="Start the run").click()
    person.expect(person.page.locator("[data-state=failed]")).to_contain_text("only 600 records")
    person.page.get_by_role("link", name="Ask for less").click()
    person.expect(person.page.get_by_role("heading", level=1)).to_have_text("Guarantees")


def test_a_file_of_an_older_machine_is_opened_once_its_encoding_is_said(person, watch, tmp_path: Path):
    table = tmp_path / "kunden.csv"
    table.write_bytes(b"Ort;Alter\n" + "Köln;40\nFürth;41\n".encode("windows-1252") * 30)
    person.chooses(table, lambda: person.page.get_by_text("Choose a file", exact=True).click())
    person.expect(person.notices).to_contain_text("set its character encoding under More about text files")
    person.expect(person.page.get_by_label("Character encoding")).to_be_focused()
    person.page.keyboard.type("windows-1252")
    person.page.get_by_role("button", name="Open kunden.csv again").click()
    person.sees_columns()
    assert person.policy()["source"]["encoding"] == "cp1252"
    watch.forgive("422")

"""Somebody who types faster than the studio answers, asks for too much, or brings a file of another machine."""

from __future__ import annotations


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


def test_a_button_that_is_pressed_before_the_script_is_there_changes_its_part_of_the_page(person, visits):
    person.opens(visits)
    person.runs()
    page, held = person.page, []
    page.route("**/static/studio.js", lambda route: held.append(route))
    page.goto(page.url, wait_until="commit")
    page.get_by_role("table", name="Changed columns").get_by_role("button", name="age", exact=True).click()
    _until_asked(page, held)
    held[0].continue_()
    person.is_told("Column shown")
    person.expect(page.get_by_role("heading", level=1)).to_contain_text("Results: ")

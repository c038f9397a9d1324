"""The level explorer in a browser: by keyboard, by mouse, and to a verified release with the chosen levels."""

from __future__ import annotations

import json
import re
from zipfile import ZipFile


def test_levels_are_chosen_by_keyboard_and_by_mouse_and_run(person, visits, tmp_path):
    page, expect = person.page, person.expect
    person.opens(visits)
    person.goes_to("Levels")
    lattice, node = page.locator("#lattice-state"), page.locator("#node-state")
    expect(lattice).to_have_attribute("data-state", "settled")
    optimum = lattice.get_attribute("data-optimum").split(",")
    sliders, age = page.get_by_role("slider"), page.get_by_role("slider", name="age")

    def shows(levels):
        assert sliders.count() == len(levels)
        for place, level in enumerate(levels):
            expect(sliders.nth(place)).to_have_value(level)

    shows(optimum)
    expect(node).to_contain_text("the optimum")
    expect(node).to_have_attribute("data-holds", "yes")
    said = node.get_attribute("data-said")

    age.focus()
    page.keyboard.press("Home")
    expect(node).to_have_attribute("data-holds", "no")
    expect(age).to_have_attribute("aria-valuetext", re.compile("^level 0: "))
    expect(age).to_be_focused()
    expect(node).to_contain_text("would have to be suppressed; the policy allows 0")
    expect(page.get_by_role("button", name="Run these levels")).to_be_disabled()
    expect(page.locator("#levels-said")).to_have_text(node.get_attribute("data-said"))
    assert node.get_attribute("data-said") != said

    box = age.bounding_box()
    page.mouse.click(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    expect(age).to_have_value(age.get_attribute("max"))
    expect(age).to_have_attribute("aria-valuetext", re.compile(r"\*, 1 value$"))

    page.get_by_role("button", name="Go to the optimum").focus()
    page.keyboard.press("Enter")
    shows(optimum)
    expect(node).to_have_attribute("data-said", said)
    age.focus()
    page.keyboard.press("ArrowLeft")
    expect(node).to_have_attribute("data-holds", "no")  # else it would be the optimum
    here, best = page.locator("#here"), page.locator(".levels-plot polygon")
    expect(here).to_have_attribute("cx", node.get_attribute("data-x"))
    best.click()
    shows(optimum)

    page.get_by_text("that hold, as a table").click()
    table = page.get_by_role("table", name="Combinations that hold, the best first")
    table.get_by_role("button", name="Go to number 2", exact=True).click()
    expect(page.locator("#node h2 .badge")).to_have_count(0)
    expect(node).to_have_attribute("data-holds", "yes")
    chosen = [sliders.nth(place).input_value() for place in range(len(optimum))]
    assert chosen != optimum
    page.get_by_role("button", name="Run these levels").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Run")
    levels = person.policy()["method"]["incognito"]["levels"]
    assert [str(level) for level in levels.values()] == chosen
    person.runs()
    page.get_by_role("link", name="Report and download").click()
    page.get_by_role("button", name="Verify and prepare the download").click()
    with ZipFile(person.downloads("Download the release", tmp_path)) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("public/manifest.json")]
        assert json.loads(archive.read(name))["levels"] == levels

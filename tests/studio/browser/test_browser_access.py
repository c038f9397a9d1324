"""Every page for everybody: names, headings, landmarks, contrast, targets, narrow screens, and no mouse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

CHECKS = Path(__file__).with_name("accessibility.js").read_text(encoding="utf-8")
PAGES = {
    "open": "/",
    "columns": "{project}/columns",
    "taxonomies": "{project}/taxonomies",
    "intervals": "{project}/taxonomies/1",
    "tree": "{project}/taxonomies/4",
    "guarantees": "{project}/guarantees",
    "levels": "{project}/levels",
    "run": "{project}/run",
    "results": "{project}/results",
    "compare": "{project}/compare",
    "attacks": "{project}/attacks",
    "release": "{project}/release",
    "policy": "{project}/policy",
    "internal-report": "{project}/release/{run}/internal/report.html",
    "public-report": "{project}/release/{run}/public/report.html",
    "not-found": "{project}/nowhere",
}
VIEWS = {"light-wide": ("light", 1280), "dark-narrow": ("dark", 390)}


@dataclass(frozen=True)
class Solved:
    """A table that was opened, run, compared and attacked."""

    project: str
    run: str


@pytest.fixture(scope="module")
def solved(chromium, studio, somebody, visits) -> Iterator[Solved]:
    context = chromium.new_context()
    context.add_cookies([studio.enter()])
    person = somebody(context.new_page())
    page, expect = person.page, person.expect
    page.set_default_timeout(60_000)
    page.goto(studio.origin)
    person.opens(visits)
    project = page.url.removeprefix(studio.origin).removesuffix("/columns")
    page.goto(f"{studio.origin}{project}/taxonomies/4")
    page.get_by_label("Kind", exact=True).select_option("tree")
    page.get_by_role("button", name="Start with this kind").click()
    expect(page.get_by_role("tree")).to_be_visible()
    page.goto(f"{studio.origin}{project}/taxonomies/1")
    page.get_by_role("button", name="Move the edges by hand").click()
    expect(page.get_by_role("slider").first).to_be_visible()
    person.runs()
    run = page.url.rsplit("/", 1)[1]
    person.goes_to("Compare")
    page.get_by_label("k-anonymity.k", exact=True).fill("3, 10")
    page.get_by_role("button", name="Compare", exact=True).click()
    person.goes_to("Attacks")
    page.get_by_label("People that each attack is tried on").fill("100")
    page.get_by_role("button", name="Attack", exact=True).click()
    expect(page.get_by_role("table", name="Correct guesses")).to_be_visible()
    person.goes_to("Compare")
    expect(page.get_by_role("table", name="Ranked by the stated weights")).to_be_visible()
    yield Solved(project, run)
    context.close()


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_is_named_ordered_visible_and_wide_enough(context, studio, solved, watch, view):
    scheme, width = VIEWS[view]
    page = context.new_page()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    found = []
    for name, path in PAGES.items():
        page.goto(studio.origin + path.format(project=solved.project, run=solved.run))
        wrong = page.evaluate(CHECKS, {"report": name.endswith("report"), "width": width})
        found += [f"{name}: {each}" for each in wrong]
    watch.forgive("status of 404")
    assert not found, "\n".join(found)


FOCUSED = """() => {
    const focused = document.activeElement;
    const labels = [...(focused.labels ?? [])].map((label) => label.textContent).join(' ');
    return (focused.getAttribute('aria-label') || labels || focused.textContent).replace(/\\s+/g, ' ').trim();
}"""


def tabs_to(page, words: str) -> None:
    """Press Tab until what has the focus is called so."""
    passed = []
    for _ in range(150):
        page.keyboard.press("Tab")
        passed.append(page.evaluate(FOCUSED))
        if passed[-1] == words:
            return
    raise AssertionError(f"no {words} among {passed}")


def test_from_a_file_to_the_download_without_a_mouse(person, visits, tmp_path):
    page, expect = person.page, person.expect
    heading = page.get_by_role("heading", level=1)
    tabs_to(page, "Skip to the page")
    page.keyboard.press("Enter")
    tabs_to(page, "Choose a file")
    person.chooses(visits, lambda: page.keyboard.press("Enter"))
    person.sees_columns()
    tabs_to(page, "Role of sex")
    page.keyboard.press("ArrowDown")
    changed = person.waits_for_policy(lambda policy: policy["attributes"]["sex"]["role"] != "quasi")
    page.keyboard.press("ArrowUp")
    person.waits_for_policy(lambda policy: policy["attributes"]["sex"]["role"] == "quasi")
    assert changed["attributes"]["sex"]["role"] in ("identifier", "sensitive", "insensitive")
    assert page.evaluate(FOCUSED) == "Role of sex"

    page.reload()
    tabs_to(page, "Guarantees")
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Guarantees")
    tabs_to(page, "k")
    page.keyboard.press("Control+a")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    person.waits_for_policy(lambda policy: {"k-anonymity": {"k": 7}} in policy["privacy"])
    tabs_to(page, "Continue to the run")
    page.keyboard.press("Enter")
    expect(heading).to_have_text("Run")
    tabs_to(page, "Utility measures")
    page.keyboard.press("ArrowDown")
    tabs_to(page, "Start the run")
    page.keyboard.press("Space")
    expect(heading).to_contain_text("Results: ")
    tabs_to(page, "Report and download")
    page.keyboard.press("Enter")
    expect(heading).to_contain_text("Report and download")
    tabs_to(page, "Verify and prepare the download")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Download the release")).to_be_visible()
    tabs_to(page, "Download the release")
    with page.expect_download() as taken:
        page.keyboard.press("Enter")
    taken.value.save_as(tmp_path / "release.zip")
    assert any(name.endswith("public/manifest.json") for name in ZipFile(tmp_path / "release.zip").namelist())

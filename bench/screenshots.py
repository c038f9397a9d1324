"""Pictures of every page of the studio for the guide: ``python -m bench.screenshots [docs/screenshots]``.

The story of the demo data is played in Chromium. Pictures have few colours, so that they stay small.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from bench.studio import entered

WIDE: ViewportSize = {"width": 1280, "height": 900}
NARROW: ViewportSize = {"width": 390, "height": 844}
PATIENCE = 180_000


class Camera:
    """Takes a page's picture as it stands, wide or narrow, light or dark."""

    def __init__(self, page: Page, folder: Path) -> None:
        """Write pictures of the page into *folder*."""
        self.page, self.folder = page, folder

    def take(self, name: str, *, dark: bool = False, narrow: bool = False, at: str = "") -> None:
        """Write NAME.png; *at* is what shall be at the top of the picture."""
        page = self.page
        page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.set_viewport_size(NARROW if narrow else WIDE)
        page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
        if at:
            page.locator(at).first.evaluate("each => window.scrollTo(0, each.getBoundingClientRect().top - 16)")
        page.wait_for_timeout(300)
        path = self.folder / f"{name}.png"
        path.write_bytes(page.screenshot())
        smaller(path)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(WIDE)
        print(path.name, f"{path.stat().st_size / 1000:.0f} KB")


def smaller(path: Path) -> None:
    """Write a picture again with a palette."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def step(page: Page, title: str) -> None:
    """Go to a page by the list of steps."""
    steps = page.get_by_role("navigation", name="Steps")
    steps.get_by_role("link", name=title, exact=True).click()
    expect(steps.locator("[aria-current=page]")).to_have_text(title)


def story(page: Page, camera: Camera) -> None:
    """Go the whole way, from the first page to the download."""
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_have_text("Open a table about people")
    camera.take("01-open")
    page.get_by_role("button", name="Try the demo data").click()
    expect(heading).to_contain_text("What does each column say")
    camera.take("02-columns", at="section")
    camera.take("02-columns-narrow", narrow=True, at="section")

    step(page, "Import")
    camera.take("14-import")
    step(page, "Taxonomies")
    camera.take("03-taxonomies")
    page.get_by_role("link", name="age", exact=True).first.click()
    page.get_by_role("button", name="Move the edges by hand").click()
    expect(page.get_by_role("slider").first).to_be_visible()
    camera.take("04-intervals")
    page.get_by_role("link", name="occupation", exact=True).click()
    page.get_by_label("Kind", exact=True).select_option("tree")
    page.get_by_role("button", name="Start with this kind").click()
    tree = page.get_by_role("tree")
    for group, jobs in {
        "crafts": ("builder", "electrician"),
        "offices": ("accountant", "administrator", "clerk"),
    }.items():
        for job in jobs:
            tree.locator(f"[data-label={job}] > .line").click(modifiers=["Control"])
        page.get_by_label("Name", exact=True).fill(group)
        page.get_by_role("button", name="New group").click()
        expect(tree.locator(f"[data-label={group}] [data-label={jobs[-1]}]")).to_be_visible()
    camera.take("05-tree", at="#edit-title")

    step(page, "Guarantees")
    expect(page.locator("#feasibility")).to_contain_text("estimate from the table")
    camera.take("06-guarantees")
    camera.take("06-guarantees-dark", dark=True)

    step(page, "Risk")
    page.get_by_role("button", name="Look at the risk").click()
    expect(page.get_by_role("heading", name="To decide before the download")).to_be_visible()
    camera.take("15-risk", at="#found")
    step(page, "Levels")
    expect(page.locator("#lattice-state")).to_have_attribute("data-state", "settled")
    camera.take("16-levels", at="#levels")
    step(page, "Run")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("progressbar").nth(1)).to_be_visible()
    camera.take("07-run")
    expect(heading).to_contain_text("Results: ")
    camera.take("08-results")
    camera.take("09-before-after", at="#compared")

    step(page, "Compare")
    page.get_by_label("k-anonymity.k", exact=True).fill("5, 10, 25")
    page.get_by_role("button", name="Compare", exact=True).click()
    step(page, "Attacks")
    page.get_by_role("button", name="Attack", exact=True).click()
    expect(page.get_by_role("table", name="Correct guesses")).to_be_visible()
    camera.take("11-attacks")
    step(page, "Compare")
    expect(page.get_by_role("table", name="Ranked by the stated weights")).to_be_visible()
    camera.take("10-compare", at="#found")
    camera.take("10-compare-dark", dark=True, at="#found")

    step(page, "Report & download")
    page.get_by_role("button", name="Verify and prepare the download").click()
    expect(page.get_by_role("link", name="Download the release")).to_be_visible()
    camera.take("12-report")
    page.locator("#policy-panel summary, .policy summary").first.click()
    page.get_by_role("link", name="Edit the YAML").click()
    expect(heading).to_have_text("Policy as YAML")
    camera.take("13-policy")


def main(folder: Path) -> None:
    """Start a studio, play the story, end the studio."""
    folder.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=PATIENCE)
    with entered() as studio, sync_playwright() as driver:
        arguments = ["--no-sandbox"] if os.getuid() == 0 else []
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=program, args=arguments)
        page = browser.new_page(viewport=WIDE)
        page.set_default_timeout(PATIENCE)
        name, value = studio.cookie.split("=", 1)
        page.context.add_cookies([{"name": name, "value": value, "url": f"http://{studio.address}"}])
        page.goto(f"http://{studio.address}/")
        story(page, Camera(page, folder))
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/screenshots"))

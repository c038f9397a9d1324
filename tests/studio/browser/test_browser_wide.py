"""Fifty columns: all on one screen, searched, selected and given roles together; a run after at most 15 clicks."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

LABS = [f"lab_{number:02}" for number in range(1, 31)]
OTHERS = [f"item_{number:02}" for number in range(1, 15)]


@pytest.fixture(scope="module")
def encounters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encounters of repeated patients, with codes that begin with zeros and markers for what is missing."""
    path, chance = tmp_path_factory.mktemp("wide") / "encounters.csv", random.Random(5)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["patient_id", "age", "sex", "postcode", "ward", "diagnosis", *LABS, *OTHERS])
        for _ in range(800):
            person = chance.randint(1, 300)
            table.writerow(
                [
                    f"{person:05}",
                    20 + person % 60,
                    "FM"[person % 2],
                    f"0{1000 + person % 40}",
                    f"{chance.randint(1, 12):03}",
                    chance.choice(["J10", "E11", "I20", "K35", "?"]),
                    *(chance.choice([*range(40, 60), -9]) for _ in LABS),
                    *(chance.choice("abcN") for _ in OTHERS),
                ]
            )
    return path


class Clicks:
    """Counts the clicks of a person."""

    def __init__(self, page) -> None:
        self.page, self.n = page, 0

    def __call__(self, what) -> None:
        what.click()
        self.n += 1


def test_from_opening_to_a_run_in_fifteen_clicks(person, encounters):
    page, expect = person.page, person.expect
    click = Clicks(page)
    person.opens(encounters)
    click.n += 1
    lines = page.locator("#dense li[data-name]")
    expect(lines).to_have_count(50)
    page.wait_for_load_state()  # with its styles
    last = lines.nth(49).bounding_box()
    assert all(lines.nth(place).bounding_box()["y"] >= 0 for place in (0, 24, 25))
    assert last["y"] + last["height"] <= page.locator("#policy-panel").bounding_box()["y"]  # on one screen
    for text in ("lab", "item", "ward"):
        page.get_by_label("Search for columns").fill(text)
        expect(page.locator("#dense li[data-name]:visible").first).to_contain_text(text)
        click(page.get_by_label("Select all shown"))
        page.get_by_label("Role for all selected").select_option("insensitive")
        click.n += 1
        click(page.get_by_role("button", name="Set role"))
        person.waits_for_policy(
            lambda policy, text=text: all(
                entry["role"] == "insensitive" for name, entry in policy["attributes"].items() if name.startswith(text)
            )
        )
    click(person.steps.get_by_role("link", name="Run", exact=True))
    page.get_by_label("Utility measures").select_option("quick")
    click.n += 1
    click(page.get_by_role("button", name="Start the run"))
    expect(page.get_by_role("region", name="Run in progress")).to_be_visible()
    assert click.n <= 15
    page.get_by_role("button", name="Cancel").click()

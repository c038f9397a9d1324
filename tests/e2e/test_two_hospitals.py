"""The walk-through of two hospitals and an agency runs as it is printed: every command, in order, with its output."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.walkthrough import Step, check_steps, read_steps, run_steps

PAGE = Path(__file__).parents[2] / "docs" / "two-hospitals.md"


@pytest.fixture(scope="module")
def stated() -> list[Step]:
    return read_steps(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two-hospitals")


@pytest.fixture(scope="module")
def happened(stated: list[Step], folder: Path) -> list[tuple[str, int]]:
    """Run the whole page in one shell; return output and exit code of each command."""
    return run_steps(stated, folder)


def test_every_command_of_the_page_was_run(stated: list[Step], happened: list[tuple[str, int]]) -> None:
    assert len(stated) > 20
    assert len(happened) == len(stated)


def test_every_command_ends_and_says_what_the_page_says(stated: list[Step], happened: list[tuple[str, int]]) -> None:
    check_steps(stated, happened)


def test_the_agency_was_told_no_rows(folder: Path, happened: list[tuple[str, int]]) -> None:
    assert happened
    patients = [line.split(",")[0].encode() for line in (folder / "shared.csv").read_text().splitlines()[1:]]
    kept = b"".join(path.read_bytes() for path in folder.glob("agency.*"))
    tokens = [path.read_bytes().strip() for path in folder.glob("*.token")]
    assert len(kept) > 10_000
    assert len(tokens) == 4
    assert not any(secret in kept for secret in (*patients, *tokens))
    assert not (folder / "north" / "too-early").exists()
    assert sorted(path.name for path in (folder / "north" / "agreed" / "public").iterdir()) == [
        "README.md",
        "data.csv",
        "manifest.json",
        "plan.json",
        "report.html",
        "verify.sql",
    ]


def test_the_figures_of_the_table_are_those_of_the_releases(folder: Path, happened: list[tuple[str, int]]) -> None:
    assert happened
    (table,) = re.findall(r"^\| \| each alone \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE.read_text(), flags=re.MULTILINE)
    kept = {
        kind: " and ".join(
            f"{json.loads((folder / name / kind / 'internal' / 'evidence.json').read_text())['utility']['um']:.0%}"
            for name in ("north", "south")
        )
        for kind in ("alone", "agreed")
    }
    assert f"| precision of labels, `um` | {kept['alone']} | {kept['agreed']} |" in table
    shared = [line.partition(",")[2] for line in (folder / "shared.csv").read_text().splitlines()[1:]]
    for name in ("north", "south"):
        stays = {line.partition(",")[2] for line in (folder / name / "stays.csv").read_text().splitlines()}
        assert len(shared) == 1000
        assert stays.issuperset(shared)
    young = Counter(
        row["diagnosis"]
        for name in ("north", "south")
        for row in csv.DictReader((folder / name / "agreed" / "public" / "data.csv").read_text().splitlines())
        if row["class"] == "1"
    )
    assert young.most_common(1)[0][1] / young.total() == pytest.approx(2 / 3, abs=0.03)

"""One decision record: terminal, JSON, report and pages of the studio show the same verdict, figures and sentences."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli import app
from shoal.studio.pages.run import folder_of


def read_text(page: str) -> str:
    """Return the words of a page or of a terminal, without markup and line ends."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def list_texts(decision: dict[str, Any]) -> list[str]:
    """Return all that every page must show."""
    risks = [text for one in decision["risk"] for text in (one["figure"], one["sentence"])]
    return [decision["verdict"], decision["headline"], *decision["reasons"], *risks]


@pytest.fixture
def folder(solved) -> Iterator[Path]:
    """The release's folder, left as it was."""
    internal = folder_of(solved.run) / "internal"
    before = {path.name: path.read_bytes() for path in internal.iterdir()}
    yield internal.parent
    for path in internal.iterdir():
        path.unlink()
    for name, content in before.items():
        (internal / name).write_bytes(content)


@pytest.mark.parametrize("attacked", [False, True])
def test_every_page_shows_the_same_record(solved, folder: Path, attacked: bool) -> None:
    shown = {}
    if attacked:
        options = ["--source", str(solved.table), "--attack", "singling-out", "--attack", "homogeneity"]
        asked = ["attack", str(folder), *options, "--targets", "60", "--seed", "1", "--record"]
        shown["terminal"] = CliRunner().invoke(app, asked).output
    decision = json.loads((folder / "internal" / "decision.json").read_text())
    if attacked:
        assert decision["attacks"]["identity"]["name"] == "singling-out"
    elif decision["attacks"] is None:  # no other test recorded attacks
        assert solved.run.answer["decision"] == decision
    shown["report"] = (folder / "internal" / "report.html").read_text()
    at = f"/projects/{solved.project.id}"
    for page in ("results", "release"):
        shown[page] = solved.browser.get(f"{at}/{page}/{solved.run.id}").text
    for name, page in shown.items():
        words = read_text(page).lower()
        for text in list_texts(decision):
            assert " ".join(text.split()).lower() in words, (name, text)

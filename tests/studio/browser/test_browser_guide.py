"""The guide of the studio shows every page, with pictures that are there and small, and tells every option."""

from __future__ import annotations

import re
from pathlib import Path

from shoal.studio.answers import places

DOCS = Path(__file__).parents[3] / "docs"
GUIDE = (DOCS / "studio.md").read_text(encoding="utf-8")
MOST = 150_000


def test_the_pictures_of_the_guide_are_all_used_small_and_described():
    shown = re.findall(r"!\[([^\]]*)\]\(screenshots/([^)]+)\)", GUIDE)
    assert all(words for words, _ in shown)
    there = {path.name: path.read_bytes() for path in (DOCS / "screenshots").iterdir()}
    assert sorted(name for _, name in shown) == sorted(there)
    for name, picture in there.items():
        assert picture.startswith(b"\x89PNG"), name
        assert len(picture) <= MOST, name


def test_the_guide_has_every_step_in_its_order():
    titles = re.findall(r"^### \d+ (.+)$", GUIDE, flags=re.MULTILINE)
    assert titles == ["Open", *(place.title for place in places())]


def test_the_guide_tells_every_option_and_the_story_takes_every_picture():
    from typer.main import get_command

    from shoal.cli import app

    command = get_command(app).commands["studio"]
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts) if name[0] == "-"}
    assert options - {"--browser", "--help"} <= set(re.findall(r"--[a-z-]+", GUIDE))
    script = (DOCS.parent / "bench" / "screenshots.py").read_text(encoding="utf-8")
    taken = set(re.findall(r'camera\.take\("([^"]+)"', script))
    assert {f"{name}.png" for name in taken} == {path.name for path in (DOCS / "screenshots").iterdir()}

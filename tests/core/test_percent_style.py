"""One style of percentages wherever a person reads them: 12%, without a space."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Not the end of a template's tag, not the remainder of a division by a number, and no directive such as %d.
SPACED = re.compile(r"(?:\d|\}|%\.\d[fg])\s%%?(?!\}|\s?\d|[bd] )|\"(?:\s|&nbsp;)%\"")
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md")),
    *(
        path
        for folder in ("src", "docs", "bench", "experiments")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".html", ".md", ".js", ".yaml", ".svg", ".ipynb"}
    ),
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("12 % of", True),
        ("12\n% of", True),
        ("{share:.0f} %", True),
        ('"%.1f %%"|format(share)', True),
        ('.replace("%", " %")', True),
        ("12% of", False),
        ("{% if n > 12 %}", False),
        ("row // 60 % 4", False),
    ],
)
def test_the_spaced_form_is_recognized(text: str, found: bool) -> None:
    assert bool(SPACED.search(text)) is found


def test_no_page_has_a_space_before_the_percent_sign() -> None:
    spaced = {
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
        for path in PAGES
        for text in [path.read_text(encoding="utf-8")]
        for match in SPACED.finditer(text)
    }
    assert not spaced

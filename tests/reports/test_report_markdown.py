"""Names, descriptions and values in the README: shown as they are, never a picture, a link or HTML."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

import shoal
from shoal.core.wording import code, code_cell, unmark, words
from shoal.reports.pages import public_readme
from shoal.reports.templates import mark, sentences

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "![seen](http://evil.example/x.png)",
    "[click](http://evil.example)",
    "a`<b>`c``d",
    "`" * 3 + "<svg>",
    "a|b\\|c|<i>",
    "\\<b>\\",
    "**x** *y*",
    "&lt;b&gt; &amp; R&D",
    "two\nlines\n\n# head",
    "<!-- gone",
)


def tokens(text: str) -> list[Token]:
    """Everything that a reader of Markdown makes of a text, inline parts included."""
    found: list[Token] = []
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        found += [token, *(token.children or ())]
    return found


def shown(text: str) -> str:
    return "".join(token.content for token in tokens(text) if token.type in ("text", "code_inline", "text_special"))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_shown_as_it_is(text: str) -> None:
    line = " ".join(text.splitlines())
    assert shown(f"x {words(text)}") == f"x {line}"
    assert shown(f"x {code(text)}") == f"x {line}"
    assert unmark(words(text)) == line
    table = f"| a | b |\n|---|---|\n| {words(text)} | {code_cell(text)} |\n"
    kinds = [token.type for token in tokens(table)]
    assert kinds.count("td_open") == 2
    assert not {"html_inline", "html_block", "image", "link_open", "em_open", "strong_open"} & set(kinds)
    assert shown(table).startswith(f"ab{line}")


@pytest.mark.parametrize("text", HOSTILE)
def test_pages_show_the_same_as_the_readme(text: str) -> None:
    from html import unescape

    line = " ".join(text.splitlines())
    for stated in (mark(code(text)), sentences([f"- {code(text)}"])):
        assert f"<code>{line}</code>" in unescape(stated)
    assert unescape(mark(f"x {words(text)}.")) == f"x {line}."
    assert "<img" not in mark(words(text)) + mark(code(text))


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    """Of a release whose names, descriptions and values are all hostile."""
    values = list(HOSTILE) * 6
    names = [f"{name} {place}" for place, name in enumerate(HOSTILE)][:4]
    table = pa.table({names[0]: values, names[1]: range(len(values)), names[2]: values[::-1], names[3]: values})
    attributes = {
        names[0]: {"role": "quasi", "description": HOSTILE[0]},
        names[1]: {"role": "quasi", "description": HOSTILE[1]},
        names[2]: {"role": "sensitive", "description": HOSTILE[3]},
        names[3]: {"role": "insensitive", "technique": {"swapping": {"share": 0.5, "within": [names[0]]}}},
    }
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 3}}], "method": "mondrian"}
    return dict(shoal.anonymize(table, policy, seed=1).manifest)


def test_nothing_in_a_readme_is_html_a_picture_or_a_link(manifest: dict[str, Any]) -> None:
    found = tokens(public_readme(manifest))
    assert [token.content for token in found if token.type in ("html_inline", "html_block", "image", "link_open")] == []
    said = "\n".join(token.content for token in found if token.type == "inline")
    for name in manifest["attributes"]:
        assert words(name) in said

"""The template environment of all pages: one escaping function and one way of writing numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from shoal.core import wording

if TYPE_CHECKING:
    from jinja2 import Environment

HOME = Path(__file__).parent / "templates"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_NUMERIC = re.compile(r"[<>]?-?[\d,.]+(e[-+]?\d+)?%?|–")
_MARKED = re.compile(
    r"(?<!\\)(?:(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*]+)\*)"
)


def escape_text(text: str) -> Markup:
    """Return a text escaped for elements and attributes of HTML and XML; markup is returned unchanged.

    >>> escape_text('<b a="1">' + chr(0))
    Markup('&lt;b a=&#34;1&#34;&gt;\ufffd')
    """
    return text if isinstance(text, Markup) else escape(_NOT_XML.sub("\ufffd", text))


@cache
def environment(*folders: Path) -> Environment:
    """Return the environment of templates: those in *folders* first, then the shared ones.

    Values in pages are escaped unless they are markup. In Markdown and CSS they are not: names and values of records
    have to pass through the filters ``words``, ``code`` and ``code_cell``.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_eval_context, select_autoescape

    @pass_eval_context
    def readable(context: Any, value: Any) -> Any:
        return escape_text(value) if context.autoescape and isinstance(value, str) else value

    made = Environment(
        loader=FileSystemLoader([*folders, HOME]),
        autoescape=select_autoescape(["html"]),
        finalize=readable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "attack": wording.attack_text,
        "code": wording.code,
        "code_cell": wording.code_cell,
        "counted": wording.count_noun,
        "join_words": wording.join_words,
        "number": number,
        "number_columns": number_columns,
        "percent": wording.percent,
        "sentences": sentences,
        "thousands": lambda count: f"{count:,}",
        "words": wording.words,
    }
    return made


def render(template: str, **content: Any) -> Markup:
    """Fill a template; the result is not escaped again."""
    return Markup(environment().get_template(template).render(content))  # noqa: S704  escaped by the environment


def mark(text: str) -> Markup:
    """Return a sentence of Markdown as HTML with its code and emphasis; everything else is escaped.

    >>> mark("see `a<b` and **stop**")
    Markup('see <code>a&lt;b</code> and <strong>stop</strong>')
    """
    found, end = Markup(), 0
    for match in _MARKED.finditer(text):
        found += escape_text(wording.unmark(text[end : match.start()]))
        kind = next(kind for kind in ("code", "strong", "em") if match[kind])
        inside = match[kind] if kind == "code" else wording.unmark(match[kind])
        if len(match["ticks"] or "") > 1:
            inside = inside[1:-1]  # blanks separate the backticks inside from the outer ones
        found += Markup("<{0}>{1}</{0}>").format(kind, escape_text(inside))
        end = match.end()
    return found + escape_text(wording.unmark(text[end:]))


def sentences(lines: Iterable[str]) -> Markup:
    """Return lines of Markdown, paragraphs and items of lists, as HTML.

    >>> sentences(["One.", "", "- `a`", "- b", "", "Two."])
    Markup('<p>One.</p><ul><li><code>a</code></li><li>b</li></ul><p>Two.</p>')
    """
    found, in_list = Markup(), False
    for line in [*lines, ""]:
        item = line.startswith("- ")
        if item != in_list:
            found += Markup("<ul>") if item else Markup("</ul>")
            in_list = item
        if line:
            found += Markup("<li>{}</li>").format(mark(line[2:])) if item else Markup("<p>{}</p>").format(mark(line))
    return found


def number(value: float | None) -> str:
    """Return a number as people read it; a dash for None.

    >>> number(1234567), number(0.123456), number(None)
    ('1,234,567', '0.1235', '–')
    """
    if value is None:
        return "–"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1000 else f"{value:.4g}"


def number_columns(rows: Sequence[Sequence[str]], n_columns: int) -> list[bool]:
    """Return which columns contain only numbers, shares and dashes, and so are aligned to the right.

    >>> number_columns([("age", "12.5%"), ("sex", "–")], 2)
    [False, True]
    """
    return [bool(rows) and all(_NUMERIC.fullmatch(row[column]) for row in rows) for column in range(n_columns)]

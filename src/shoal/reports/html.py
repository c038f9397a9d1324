"""The one place that makes HTML of texts: whatever is not made here is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shoal.core.wording import unmarked
from shoal.reports.plots.plot import Plot, number_columns
from shoal.reports.plots.svg import escaped

_MARKED = re.compile(
    r"(?<!\\)(?:(?P<ticks>`+)(?P<code>.+?)(?<!`)(?P=ticks)(?!`)|\*\*(?P<strong>[^*]+)\*\*|\*(?P<em>[^*]+)\*)"
)

_KINDS = ("code", "strong", "em")


class Html(str):
    """Text that is HTML already; only this module and ``style`` make some."""

    __slots__ = ()


def shown(text: str) -> Html:
    """Return a text as HTML, escaped unless it is HTML."""
    return text if isinstance(text, Html) else Html(escaped(text))


def tag(name: str, *inside: str, **attributes: str) -> Html:
    """Return an element; a trailing underscore in a name of an attribute is left out, others become hyphens.

    >>> tag("a", "1 < 2", href='#"x"', class_="far")
    '<a href="#&quot;x&quot;" class="far">1 &lt; 2</a>'
    """
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escaped(text)}"' for key, text in attributes.items())
    return Html(f"<{name}{given}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Return several parts as one, each escaped unless it is HTML."""
    return Html("".join(map(shown, parts)))


def paragraph(*inside: str, class_: str = "") -> Html:
    """Return a paragraph."""
    return tag("p", *inside, class_=class_) if class_ else tag("p", *inside)


def code(text: str) -> Html:
    """Return a word of code."""
    return tag("code", text)


def block(text: str, label: str) -> Html:
    """Return lines of code that can be scrolled by keyboard."""
    return tag("pre", tag("code", text), tabindex="0", role="region", aria_label=label)


def marked(text: str) -> Html:
    """Return a sentence of ours with its code and bold words, everything else escaped.

    >>> marked("see `a<b` and **stop**")
    'see <code>a&lt;b</code> and <strong>stop</strong>'
    """
    parts: list[str] = []
    end = 0
    for found in _MARKED.finditer(text):
        parts.append(unmarked(text[end : found.start()]))
        kind, inside = next((kind, found[kind]) for kind in _KINDS if found[kind])
        if kind == "code":
            apart = len(found["ticks"]) > 1  # blanks keep backticks of its own from those around it
            parts.append(code(inside[1:-1] if apart else inside))
        else:
            parts.append(tag(kind, unmarked(inside)))
        end = found.end()
    return joined((*parts, unmarked(text[end:])))


def sentences(lines: Iterable[str]) -> Html:
    """Return lines of our Markdown, paragraphs and items of lists, as HTML.

    >>> sentences(["One.", "", "- `a`", "- b", "", "Two."])
    '<p>One.</p><ul><li><code>a</code></li><li>b</li></ul><p>Two.</p>'
    """
    parts: list[str] = []
    items: list[Html] = []
    for line in [*lines, ""]:
        if line.startswith("- "):
            items.append(marked(line[2:]))
            continue
        if items:
            parts.append(bullets(items))
            items = []
        if line:
            parts.append(paragraph(marked(line)))
    return joined(parts)


def bullets(items: Iterable[str]) -> Html:
    """Return a list."""
    return tag("ul", *(tag("li", item) for item in items))


def details(summary: str, *inside: str) -> Html:
    """Return what is shown only if asked for, and always in print."""
    return tag("details", tag("summary", summary), *inside)


def figure(plot: Plot) -> Html:
    """Return a plot with its description and its table."""
    return Html(plot.figure())


def verdict(ok: bool) -> Html:
    """Return a coloured word."""
    return tag("span", "holds", class_="good") if ok else tag("span", "fails", class_="bad")


def number(value: float | None) -> str:
    """Return a number as people read it, a dash if there is none."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share as people read it.

    >>> percent(0.25), percent(0.00012), percent(0.0)
    ('25.0%', '0.012%', '0.0%')
    """
    return f"{100 * share:.2g}%" if 0 < share < 0.001 else f"{share:.1%}"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    """Return a table whose first column names the rows; columns of numbers stand to the right."""
    cells = list(rows)
    kinds = [{"class_": "number"} if numeric else {} for numeric in number_columns(cells, len(head))]
    kinds[0] = {}
    heads = (tag("th", text, scope="col", **kind) for text, kind in zip(head, kinds, strict=True))
    lines = (
        tag(
            "tr",
            tag("th", row[0], scope="row"),
            *(tag("td", text, **kind) for text, kind in zip(row[1:], kinds[1:], strict=True)),
        )
        for row in cells
    )
    body = Html("\n".join(lines))
    shown_table = tag(
        "table", tag("caption", tag("span", caption)), tag("thead", tag("tr", *heads)), tag("tbody", body)
    )
    return tag("div", shown_table, class_="wide")


def size_range(low: int, high: int) -> str:
    """Return a range of sizes in words.

    >>> size_range(1, 1), size_range(1024, 2047)
    ('1', '1,024 to 2,047')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"

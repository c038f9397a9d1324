"""A report as one page: its head, its contents and its sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.report.html import Html, joined, paragraph, shown, tag
from shoal.report.style import STYLE


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading of its own."""

    name: str  # the anchor
    title: str
    inside: tuple[str, ...]

    @classmethod
    def of(cls, name: str, title: str, *inside: str | Iterable[str]) -> Section:
        """Put parts together, single ones and several at once."""
        parts: list[str] = []
        for part in inside:
            parts += [part] if isinstance(part, str) else part
        return cls(name, title, tuple(part for part in parts if part))

    def html(self) -> Html:
        """Return the section."""
        heading = tag("h2", self.title, id=f"{self.name}-title")
        return tag("section", heading, "\n", *self.inside, id=self.name, aria_labelledby=f"{self.name}-title")


def whole_page(title: str, audience: str, sections: Sequence[Section]) -> str:
    """Return a page that needs nothing but itself: no script, no other file, no network."""
    entries = (tag("li", tag("a", section.title, href=f"#{section.name}")) for section in sections)
    contents = tag("nav", tag("h2", "Contents", id="contents"), tag("ol", *entries), aria_labelledby="contents")
    head = joined(
        (
            Html('<meta charset="utf-8">'),
            tag("title", title),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta http-equiv="Content-Security-Policy" content="'),
            shown("default-src 'none'; style-src 'unsafe-inline'"),
            Html('">'),
            tag("style", Html(STYLE)),
        )
    )
    body = joined(
        (
            tag("a", "Skip to the report", href="#report", class_="skip"),
            tag("header", tag("h1", title), paragraph(audience, class_="note")),
            contents,
            tag("main", *(joined((section.html(), "\n")) for section in sections), id="report"),
        )
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'

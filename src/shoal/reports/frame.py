"""A report as one page: its head, its contents and its sections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shoal.reports.html import Html, joined, paragraph, shown, tag
from shoal.reports.plots.look import STYLE as PLOTS

STYLE = (
    """
:root { color-scheme: light dark; --ground: #fff; --ink: #1f2328; --soft: #57606a; --line: #d0d7de; --tint: #f6f8fa;
  --good: #1a7f37; --bad: #b42318; --link: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --ground: #15181d; --ink: #e9ecf0; --soft: #aeb7c1; --line: #3d444d;
  --tint: #1f242b; --good: #57c877; --bad: #ff8a80; --link: #79b8ff; } }
header, main, nav, footer, pre, table, .note, .verdict { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0; }
header, main, nav, footer { max-width: 58rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; } footer { padding-bottom: 2rem; color: var(--soft); }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .2rem 0 .6rem; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; overflow-wrap: anywhere; }
p, li, dd { max-width: 46rem; } a { color: var(--link); }
nav ol { columns: 2 18rem; padding-left: 1.4rem; } nav h2 { margin-top: 1rem; }
.skip { position: absolute; left: -100vw; }
.skip:focus { left: 1rem; top: 1rem; background: var(--ground); padding: .5rem; }
.note { border-left: .3rem solid var(--line); background: var(--tint); padding: .5rem .8rem; }
.verdict { border: 1px solid var(--line); border-left: .4rem solid var(--good); background: var(--tint);
  padding: .7rem 1rem; font-size: 1.1rem; }
.verdict.refused { border-left-color: var(--bad); }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; min-width: min(100%, 32rem); }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem; }
caption span { display: inline-block; max-width: min(100%, calc(100vw - 2rem)); }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; }
td:not(.number) { min-width: 6.5rem; }
thead th { border-bottom: 2px solid var(--line); } tbody th { font-weight: 500; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
code, pre { font: .9em/1.45 ui-monospace, monospace; } code { overflow-wrap: anywhere; }
pre { overflow: auto; border: 1px solid var(--line); background: var(--tint); padding: .7rem; }
pre code { overflow-wrap: normal; font-size: 1em; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
.plot-figure summary { font-weight: 400; } .plot-figure table { min-width: 0; }
.sign table { width: 100%; } .sign td { height: 2.6rem; min-width: 6rem; }
@media (max-width: 40rem) { table { font-size: .9rem; } th, td { padding: .3rem .4rem; } }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@page { size: A4; margin: 18mm 16mm; }
@media print {
  :root { --ground: #fff; --ink: #000; --soft: #444; --line: #999; --tint: #fff; --good: #1a7f37; --bad: #b42318;
    --link: #000; color-scheme: light; }
  body { font-size: 10.5pt; } header, main, nav, footer { max-width: none; padding: 0; }
  h2, h3, caption, summary { break-after: avoid; } tr, svg, figcaption, .verdict, .note, .sign { break-inside: avoid; }
  thead { display: table-header-group; } tbody tr:first-child { break-before: avoid; }
  svg { break-after: avoid; } .wide, pre { overflow: visible; }
  pre { break-inside: avoid; white-space: pre-wrap; overflow-wrap: anywhere; } p, li { orphans: 3; widows: 3; }
  .skip { display: none; } a { text-decoration: none; } p, li, dd { max-width: none; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  #sign-off { break-before: page; }
}
"""
    + PLOTS
)


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

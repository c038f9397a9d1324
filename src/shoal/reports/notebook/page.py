"""The frame of everything that is shown in a notebook: a stylesheet that touches nothing else, and small parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shoal.reports.plots.look import DARK, LIGHT, STYLE, variables
from shoal.reports.plots.plot import Plot
from shoal.reports.plots.plot import table as plain_table
from shoal.reports.plots.svg import element, escaped

# JupyterLab tells its own theme, which may differ from that of the system; others follow the system.
_THEMES = f"""
.shoal-output {{ {variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ .shoal-output {{ {variables(DARK)} }} }}
[data-jp-theme-light="true"] :is(.shoal-output, .plot, .plot-figure) {{ {variables(LIGHT)} }}
[data-jp-theme-light="false"] :is(.shoal-output, .plot, .plot-figure) {{ {variables(DARK)} }}
@media print {{ .shoal-output {{ {variables(LIGHT)} }} }}
"""
_RULES = """
.shoal-output { color: var(--plot-ink); background: var(--plot-ground); padding: .6rem .9rem; border-radius: .3rem;
  font: 14px/1.5 system-ui, sans-serif; overflow-x: auto; }
.shoal-output h3 { font-size: 1.15rem; margin: .1rem 0 .4rem; } .shoal-output p { margin: .3rem 0; max-width: 44rem; }
.shoal-output .soft { color: var(--plot-soft); }
.shoal-output .plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 24rem), 1fr));
  gap: 0 2rem; max-width: 72rem; }
.shoal-output table { border-collapse: collapse; margin: .4rem 0; color: inherit; font-size: inherit; }
.shoal-output caption { text-align: left; font-weight: 600; padding: .2rem 0; color: inherit; }
.shoal-output tr, .shoal-output tbody tr:nth-child(odd), .shoal-output tbody tr:hover { background: none; }
.shoal-output th, .shoal-output td { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0;
  border-bottom: 1px solid var(--plot-grid); font-weight: normal; white-space: normal; max-width: 30rem; }
.shoal-output thead th { font-weight: 600; }
.shoal-output .number { text-align: right; font-variant-numeric: tabular-nums; }
.shoal-output summary { cursor: pointer; } .shoal-output ul { margin: 0; padding-left: 1.3rem; list-style: none; }
.shoal-output progress { width: 14rem; accent-color: var(--plot-after); }
"""
INTERNAL = "These figures are for the data holder; the folder to share is the public one."


def output(*parts: str) -> str:
    """Return parts of HTML in their frame, with the stylesheet."""
    return f'<div class="shoal-output"><style>{STYLE}{_THEMES}{_RULES}</style>{"".join(parts)}</div>'


def heading(words: str) -> str:
    """Return the heading of an output."""
    return element("h3", escaped(words))


def paragraph(words: str, kind: str | None = None) -> str:
    """Return a paragraph."""
    return element("p", escaped(words), class_=kind)


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table, or nothing if it has no rows."""
    cells = [tuple(row) for row in rows]
    return plain_table(caption, heads, cells) if cells else ""


def plots(drawn: Iterable[Plot]) -> str:
    """Return plots side by side where there is room."""
    figures = "".join(plot.figure() for plot in drawn)
    return f'<div class="plots">{figures}</div>' if figures else ""


def folded(summary: str, *parts: str) -> str:
    """Return parts that are shown when somebody asks for them, or nothing if there are none."""
    inside = "".join(parts)
    return f"<details><summary>{escaped(summary)}</summary>{inside}</details>" if inside else ""

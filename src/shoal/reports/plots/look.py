"""The one look of all plots: a stylesheet for pages, and one that a drawing takes along as a file of its own."""

from __future__ import annotations

import re

LIGHT = {
    "ground": "#ffffff",
    "ink": "#1f2328",
    "soft": "#57606a",
    "grid": "#d8dee4",
    "axis": "#848d97",
    "before": "#b35900",
    "before-fill": "#fff1e0",
    "after": "#0067a8",
    "after-fill": "#0067a8",
}
DARK = {
    "ground": "#15181d",
    "ink": "#e9ecf0",
    "soft": "#aeb7c1",
    "grid": "#343a42",
    "axis": "#7d8792",
    "before": "#f0a04b",
    "before-fill": "#3b2a16",
    "after": "#6cb8f0",
    "after-fill": "#6cb8f0",
}

_MARKS = """
.plot text { font: 13px/1 system-ui, sans-serif; fill: var(--plot-ink); }
.plot .plot-label { paint-order: stroke; stroke: var(--plot-ground); stroke-width: 3; stroke-linejoin: round; }
.plot .plot-soft { fill: var(--plot-soft); }
.plot .plot-grid { stroke: var(--plot-grid); stroke-width: 1; }
.plot .plot-axis { stroke: var(--plot-axis); stroke-width: 1; }
.plot .plot-before { fill: var(--plot-before-fill); stroke: var(--plot-before); stroke-width: 1.5; }
.plot .plot-after { fill: var(--plot-after-fill); stroke: var(--plot-after); stroke-width: 1.5; }
.plot .plot-flat { fill: var(--plot-after-fill); }
.plot .plot-hollow { fill: var(--plot-ground); stroke: var(--plot-after); stroke-width: 2; }
.plot .plot-worse { fill: var(--plot-ground); stroke: var(--plot-soft); stroke-width: 2; }
.plot .plot-range { stroke: var(--plot-after); stroke-width: 2.5; fill: none; }
.plot .plot-thin { stroke: var(--plot-soft); stroke-width: 1; fill: none; }
.plot .plot-frontier { stroke: var(--plot-after); stroke-width: 2; fill: none; stroke-dasharray: 5 4; }
"""

_PAGE = """
.plot { display: block; width: 100%; height: auto; max-width: 34rem; break-inside: avoid; }
.plot-small { max-width: 15rem; }
.plot a:hover circle, .plot a:focus circle, .plot a:hover polygon, .plot a:focus polygon
  { stroke: var(--plot-ink); stroke-width: 4; }
.plot a:focus { outline: 2px solid var(--plot-ink); outline-offset: 2px; }
.plot a:hover text, .plot a:focus text { text-decoration: underline; }
.plot-figure { margin: 1rem 0; max-width: 34rem; break-inside: avoid; color: var(--plot-ink); }
.plot-figure figcaption { margin: .3rem 0; line-height: 1.4; }
.plot-figure details { margin: .3rem 0; overflow-x: auto; }
.plot-figure summary { cursor: pointer; color: var(--plot-soft); }
.plot-figure table { border-collapse: collapse; margin: .4rem 0; width: auto; max-width: 100%; font-size: .9em; }
.plot-figure caption { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
.plot-figure th, .plot-figure td { text-align: left; font-weight: normal; padding: .15rem .8rem .15rem 0;
  border-bottom: 1px solid var(--plot-grid); vertical-align: top; overflow-wrap: break-word; }
.plot-figure thead th { font-weight: 600; }
.plot-figure .number { text-align: right; font-variant-numeric: tabular-nums; }
@media print {
  .plot-figure summary { display: none; }
  .plot-figure details::details-content { content-visibility: visible; display: block; height: auto; }
}
"""


def variables(colours: dict[str, str]) -> str:
    """Return colours as declarations of CSS."""
    return " ".join(f"--plot-{name}: {colour};" for name, colour in colours.items())


def _with_colours(rules: str, colours: dict[str, str]) -> str:
    return re.sub(r"var\(--plot-([a-z-]+)\)", lambda found: colours[found[1]], rules)


STYLE = f"""
.plot, .plot-figure {{ {variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ .plot, .plot-figure {{ {variables(DARK)} }} }}
@media print {{ .plot, .plot-figure {{ {variables(LIGHT)} }} }}
{_MARKS.strip()}
{_PAGE.strip()}
"""

# Programs that draw SVG files know classes, but many do not know variables.
_FILE = "svg.plot { background: var(--plot-ground); }" + _MARKS
STANDALONE = f"{_with_colours(_FILE, LIGHT)}@media (prefers-color-scheme: dark) {{ {_with_colours(_FILE, DARK)} }}"

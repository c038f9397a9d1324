"""How much of each attribute's information is lost."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.reports.plots.plot import Plot, drawn
from shoal.reports.plots.rows import AFTER, Bars, bars
from shoal.reports.plots.svg import percent


def attribute_loss(losses: Mapping[str, float]) -> Plot:
    """Draw the loss of each attribute, from 0 (values as they were) to 1 (nothing is told), largest first."""
    ordered = sorted(losses.items(), key=lambda entry: (-entry[1], entry[0]))
    parts, height = bars(
        [Bars(name, (loss,)) for name, loss in ordered],
        ((AFTER[0], "lost"),),
        title="information lost: 0% is exact, 100% tells nothing",
        value_text=percent,
        tick_text=percent,
        least=1.0,
    )
    rows = [(name, percent(loss)) for name, loss in ordered]
    return drawn("Information lost by attribute", _words(ordered), parts, height, ("attribute", "lost"), rows)


def _words(ordered: list[tuple[str, float]]) -> str:
    if not ordered:
        return "No attribute was measured."
    lost = [(name, loss) for name, loss in ordered if loss > 0]
    exact = len(ordered) - len(lost)
    if not lost:
        return "Every attribute is exact."
    name, loss = lost[0]
    words = f"{name} loses most ({percent(loss)})"
    if len(lost) > 1:
        words += f", {lost[-1][0]} least of those that change ({percent(lost[-1][1])})"
    return words + (f"; {exact} {'is' if exact == 1 else 'are'} exact." if exact else ".")

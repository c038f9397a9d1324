"""How easily records are found by their class, before and after."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.core.wording import counted_text
from shoal.reports.plots.plot import Plot, drawn
from shoal.reports.plots.rows import AFTER, BEFORE, Bars, bars
from shoal.reports.plots.svg import count_text, percent


def risks(before: Mapping[str, Any], after: Mapping[str, Any]) -> Plot:
    """Draw what searchers find, as shares of records; the sizes behind them are in the table."""
    whom = "people" if "counts" in before else "records"
    shares = {name: (share, _shares(after)[name]) for name, share in _shares(before).items()}
    parts, height = bars(
        [Bars(name, values) for name, values in shares.items()],
        (BEFORE, AFTER),
        title=f"risk, or share of {whom}",
        value_text=percent,
        tick_text=percent,
        least=1.0,
    )
    description = (
        f"The smallest class has {_size(before)} before and {_size(after)} after. Whoever knows that somebody is in "
        f"the table and knows all quasi values is right with probability {percent(before['prosecutor_highest'])} "
        f"at most before and {percent(after['prosecutor_highest'])} after. "
        f"{whom.capitalize()} unique by their quasi-identifiers: {count_text(before['unique_records'])} before, "
        f"{count_text(after['unique_records'])} after."
    )
    counts = [
        (name, count_text(before[key]), count_text(after[key]))
        for name, key in (
            (whom, "records"),
            ("classes", "classes"),
            ("smallest class", "smallest_class"),
            (f"unique {whom}", "unique_records"),
        )
    ]
    told = [(name, *map(percent, values)) for name, values in shares.items()]
    heads = ("measure", "before", "after")
    return drawn("Risk of being found", description, parts, height, heads, [*counts, *told])


def _shares(told: Mapping[str, Any]) -> dict[str, float]:
    return {
        "highest risk": told["prosecutor_highest"],
        "mean risk": told["prosecutor_mean"],
        "found by a marketer": told["marketer"],
        "share of uniques": told["unique_records"] / told["records"],
    }


def _size(told: Mapping[str, Any]) -> str:
    one, several = ("person", "people") if "counts" in told else ("record", "records")
    return counted_text(told["smallest_class"], one, several)

"""What whoever receives a differentially private table must know before counting anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.reports.text import code

_NOBODY = (
    "**No row is a person.** Rows were drawn at random from counts of the original table, to which noise was added "
    "first. Whoever is looked for will not be found: that a row is there says no more about anybody than is claimed "
    "below. The number of rows is not that of people."
)
_KEPT = (
    "Up to the noise, the table keeps how often each value of a column occurs, and how often values of these pairs of "
    "columns occur together:"
)
_ALONE = (
    "Up to the noise, the table keeps how often each value of a column occurs. Columns are independent of each other: "
    "no pair of them was kept."
)
_LOST = (
    "Other pairs are linked only through these. What depends on three columns at once is not kept, and rare values are "
    "lost in the noise: do not look for either."
)


def drawn(manifest: Mapping[str, Any]) -> str:
    """Return what the rows are."""
    return (
        f"{manifest['rows']:,} rows, drawn with shoal {manifest['shoal_version']} (method `{manifest['method']}`). "
        + _NOBODY
    )


def kept(manifest: Mapping[str, Any]) -> list[str]:
    """Return what the table keeps of the original one, and what it does not."""
    pairs = manifest["synthetic"]["tree"]
    lines = [f"- {code(first)} and {code(second)}" for first, second in pairs]
    return ["## What is kept", "", *([_KEPT, "", *lines, "", _LOST] if pairs else [_ALONE]), ""]

"""How many records are in classes or buckets of which size, before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shoal.core.wording import counted_text
from shoal.reports.plots.plot import Plot, drawn
from shoal.reports.plots.rows import AFTER, BEFORE, Bars, bars
from shoal.reports.plots.svg import count_text, percent, short_count_text


def class_sizes(before: Sequence[Mapping[str, int]] | None, after: Sequence[Mapping[str, int]]) -> Plot:
    """Draw the records by the size of their class or bucket; the original, if it is given, beside the release."""
    groups = "buckets" if after and "buckets" in after[0] else "classes"
    one = "bucket" if groups == "buckets" else "class"
    earlier = {entry["from"]: entry for entry in before or ()}
    later = {entry["from"]: entry for entry in after}
    ends = {entry["from"]: entry["to"] for entry in (*(before or ()), *after)}
    sizes = {low: _range_text(low, ends[low]) for low in sorted(ends)}
    legend = (AFTER,) if before is None else (BEFORE, AFTER)
    sides = (later,) if before is None else (earlier, later)
    parts, height = bars(
        [Bars(name, tuple(_records(side, low) for side in sides)) for low, name in sizes.items()],
        legend,
        title=f"records, by the size of their {one}",
        value_text=count_text,
        tick_text=short_count_text,
    )
    heads = [f"size of the {one}"]
    for told, side in ((" before", before), ("", after) if before is None else (" after", after)):
        heads += [] if side is None else [f"{_groups(side)}{told}", f"records{told}"]
    rows = [[name, *(cell for side in sides for cell in _cells(side, low))] for low, name in sizes.items()]
    told = _alone(after, one)
    words = f"{told[0].upper()}{told[1:]}." if before is None else f"Before, {_alone(before)}. After, {told}."
    return drawn(f"{one.capitalize()} sizes", words, parts, height, heads, rows)


def _alone(entries: Sequence[Mapping[str, int]], one: str = "class") -> str:
    """Return in words how many records stand alone, and where most are."""
    every = sum(entry["records"] for entry in entries)
    if not every:
        return "there are no records"
    alone = sum(entry["records"] for entry in entries if entry["to"] == 1)
    most = max(entries, key=lambda entry: entry["records"])
    size = _range_text(most["from"], most["to"])
    told = f"{alone:,} of {counted_text(every, 'record')} ({percent(alone / every)})" if alone else "no record"
    told += f" {'is' if alone < 2 else 'are'} alone in {'its' if alone < 2 else 'their'} {one}"
    groups = "buckets" if one == "bucket" else "classes"
    share = most["records"] / every
    where = f"most ({percent(share)}) are" if share > 0.5 else f"the largest part ({percent(share)}) is"
    return told if most["to"] == 1 else f"{told}; {where} in {groups} of {size}"


def _range_text(low: int, high: int) -> str:
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _records(side: Mapping[int, Mapping[str, int]], low: int) -> int:
    return side[low]["records"] if low in side else 0


def _groups(entries: Sequence[Mapping[str, int]]) -> str:
    return "buckets" if entries and "buckets" in entries[0] else "classes"


def _cells(side: Mapping[int, Mapping[str, int]], low: int) -> tuple[str, str]:
    entry = side.get(low, {})
    return count_text(entry.get("classes", entry.get("buckets", 0))), count_text(entry.get("records", 0))

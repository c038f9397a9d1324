"""Looking at a table: a few of its rows, and how often a column has which value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.wording import attack_text
from shoal.release.release import PUBLIC, received
from shoal.reports.plots import Interval, Plot, histogram, intervals
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.shelf import Opened, Readable
from shoal.taxonomies.parse import decimal_numbers, texts

MOST_BARS = 20
MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Rows:
    """The first rows of a table that fit a filter, as texts; *more* says that there are others."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Bars:
    """How often a column has which value, or lies in which interval; *others* are values without a bar."""

    labels: tuple[str, ...]
    counts: tuple[int, ...]
    n_others: int = 0
    n_distinct: int = 0


def open_released(folder: Path) -> tuple[Opened, Mapping[str, Any]]:
    """Return the published rows of a release and its manifest."""
    found = received(folder)
    if found is None:
        raise FileNotFoundError(folder.name)
    place, manifest = found
    path, options = place / Path(str(manifest["data"]["file"])).name, SourceOptions(missing=[""])
    source = open_source(path, options)
    return Opened(source, path, options, tuple(source.schema.names)), manifest


def first_rows(table: Readable, columns: Sequence[str], most: int, filters: Mapping[str, str] | None = None) -> Rows:
    """Return the first rows whose columns contain the texts of *filters*, whatever the case of their letters."""
    wanted = {name: text for name, text in (filters or {}).items() if text and name in table.schema.names}
    names = list(dict.fromkeys([*columns, *wanted]))
    found: list[list[list[str]]] = []  # of some rows: of each column: texts
    held = 0
    for batch in table.batches(names, dictionary=names):
        some = batch
        for name, text in wanted.items():
            some = some.take(pa.array(_containing(some.column(name), text)))
        some = some.slice(0, most + 1 - held)
        found.append([_shown(some.column(name)) for name in columns])
        held += some.num_rows
        if held > most:
            break
    rows = [row for part in found for row in zip(*part, strict=True)]
    return Rows(tuple(columns), tuple(rows[:most]), more=held > most)


def _containing(column: pa.Array, text: str) -> IntArray:
    """Return the rows whose value contains a text; each value is looked at once, however many rows have it."""
    indices, values = factor_column(column)
    matching = pc.match_substring(texts(values), text, ignore_case=True).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(matching, False)[indices])  # -1, which is missing, is the last


def _shown(column: pa.Array) -> list[str]:
    return [MISSING if text is None else str(text) for text in texts(column).to_pylist()]


def bars_of(table: Readable, column: str, order: Sequence[str] = ()) -> Bars:
    """Count the values of a column: numbers by intervals where there are many, others by frequency.

    Values that *order* names come in that order, the most frequent ones of them if there are too many.
    """
    distinct, records, n_missing = _counted(table, column)
    if not order and len(distinct) > MOST_BARS:
        numbers, numeric = decimal_numbers(distinct)
        if numeric.all():
            return _intervals(numbers, records, n_missing)
    tally = pa.table({"name": texts(distinct), "records": records})
    keys = [("records", "descending"), ("name", "ascending")]
    most = tally.take(pc.select_k_unstable(tally, MOST_BARS, keys)).to_pydict()
    frequent = list(zip(most["name"], most["records"], strict=True))
    if order:
        place = {name: rank for rank, name in enumerate(order)}
        frequent.sort(key=lambda bar: (place.get(bar[0], len(place)), bar[0]))
    n_others = len(distinct) - len(frequent)
    if n_missing:
        frequent.append((MISSING, n_missing))
    return Bars(tuple(name for name, _ in frequent), tuple(count for _, count in frequent), n_others, len(distinct))


def _counted(table: Readable, column: str) -> tuple[pa.Array, IntArray, int]:
    """Return the distinct values of a column, (n_distinct,) the records of each, and those without a value."""
    dictionary, counts = GrowingDictionary(), np.zeros(1, dtype=np.int64)
    for batch in table.batches([column], dictionary=[column]):
        indices, values = factor_column(batch.column(0))
        codes = dictionary.codes(values).astype(np.int64)
        counts = np.pad(counts, (0, dictionary.size - len(counts)))
        present = np.bincount(indices + 1, minlength=len(values) + 1)
        counts[codes] += np.append(present[1:], present[0])
    used = counts[1:] > 0
    return dictionary.values.filter(pa.array(used)), counts[1:][used], int(counts[0])


def _intervals(numbers: np.ndarray[Any, Any], records: np.ndarray[Any, Any], n_missing: int) -> Bars:
    """Count numbers in intervals of equal width."""
    counts, edges = np.histogram(numbers, bins=MOST_BARS, weights=records)
    labels = [f"{low:.6g} to {high:.6g}" for low, high in pairwise(edges)]
    found = [int(count) for count in counts]
    if n_missing:
        labels, found = [*labels, MISSING], [*found, n_missing]
    return Bars(tuple(labels), tuple(found), 0, len(numbers))


def label_order(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the labels of an attribute of a manifest in the order of what they cover, as far as that has one."""
    labels: Mapping[str, Mapping[str, Any]] = entry.get("labels") or {}

    def lowest(label: str) -> tuple[int, float, str]:
        start = labels[label].get("from")
        if isinstance(start, int | float):
            return 0, float(start), label
        return (
            (0, float("-inf"), label) if "below" in labels[label] and start is None else (1, 0.0, str(start or label))
        )

    return tuple(sorted(labels, key=lowest))


def public_files(folder: Path) -> tuple[Path, ...]:
    """Return the public files of a release."""
    return tuple(sorted(path for path in (folder / PUBLIC).iterdir() if path.is_file() and not path.is_symlink()))


def distribution(bars: Bars, title: str) -> Plot:
    """Return how often a column has which value."""
    return histogram(bars.labels, bars.counts, title)


def attack_plot(found: Mapping[str, Any]) -> Plot | None:
    """Return the risks that attacks found, the greatest first; None if none was tried."""
    tried = sorted(found.get("attacks", ()), key=lambda one: -one["risk"]["value"])
    rows = [Interval(attack_text(one), one["risk"]["value"], one["risk"]["low"], one["risk"]["high"]) for one in tried]
    return intervals(rows, "Risk by attack") if rows else None

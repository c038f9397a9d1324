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

from shoal.release import PUBLIC, received
from shoal.sources import Source, SourceOptions, open_source
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


def open_released(folder: Path) -> tuple[Source, Mapping[str, Any]]:
    """Return the published rows of a release and its manifest."""
    found = received(folder)
    if found is None:
        raise FileNotFoundError(folder.name)
    place, manifest = found
    options = SourceOptions(missing=[""])
    return open_source(place / Path(str(manifest["data"]["file"])).name, options), manifest


def first_rows(source: Source, columns: Sequence[str], most: int, filters: Mapping[str, str] | None = None) -> Rows:
    """Return the first rows whose columns contain the texts of *filters*, whatever the case of their letters."""
    wanted = {name: text for name, text in (filters or {}).items() if text and name in source.schema.names}
    names = list(dict.fromkeys([*columns, *wanted]))
    found: list[pa.Table] = []
    held = 0
    for batch in source.batches(names):
        some = batch
        for name, text in wanted.items():
            shown = pc.fill_null(texts(some.column(name)), "")
            some = some.filter(pc.match_substring(shown, text, ignore_case=True))
        if some.num_rows:
            found.append(pa.Table.from_batches([some.slice(0, most + 1 - held)]))
            held += found[-1].num_rows
        if held > most:
            break
    if not found:
        return Rows(tuple(columns), (), more=False)
    table = pa.concat_tables(found).select(list(columns))
    shown_columns = [_shown(column.combine_chunks()) for column in table.columns]
    return Rows(tuple(columns), tuple(zip(*shown_columns, strict=True))[:most], more=held > most)


def _shown(column: pa.Array) -> list[str]:
    return [MISSING if text is None else str(text) for text in texts(column).to_pylist()]


def bars_of(source: Source, column: str, order: Sequence[str] = ()) -> Bars:
    """Count the values of a column: numbers by intervals where there are many, others by frequency.

    Values that *order* names come in that order, the most frequent ones of them if there are too many.
    """
    counted = pa.concat_tables(pa.Table.from_batches([batch]) for batch in source.batches([column])).column(column)
    values = counted.combine_chunks()
    n_missing = values.null_count
    tally = values.drop_null().value_counts()
    distinct, records = tally.field("values"), np.asarray(tally.field("counts"), dtype=np.int64)
    if not order and len(distinct) > MOST_BARS:
        numbers, numeric = decimal_numbers(distinct)
        if numeric.all():
            return _intervals(numbers, records, n_missing)
    names = _shown(distinct)
    place = {name: rank for rank, name in enumerate(order)}
    frequent = sorted(range(len(names)), key=lambda i: (-records[i], names[i]))[:MOST_BARS]
    if order:
        frequent.sort(key=lambda i: (place.get(names[i], len(place)), names[i]))
    labels, counts = [names[i] for i in frequent], [int(records[i]) for i in frequent]
    if n_missing:
        labels, counts = [*labels, MISSING], [*counts, n_missing]
    return Bars(tuple(labels), tuple(counts), len(names) - len(frequent), len(names))


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
    """Return the files of a release that may leave the house."""
    return tuple(sorted(path for path in (folder / PUBLIC).iterdir() if path.is_file() and not path.is_symlink()))

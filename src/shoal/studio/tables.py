"""Looking at tables: a few rows, and how often a column has which value.

Tables that were read once stay in memory, as dictionary codes, as long as they fit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.release.release import find_release
from shoal.sources.base import Source, SourceOptions
from shoal.sources.frames import ArrowSource, open_arrow
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import decimal_numbers, texts

MOST_BYTES = 384 << 20  # of all tables together
MOST_TABLES = 8
MOST_BARS = 20
MISSING = "missing"


@dataclass(frozen=True, slots=True, eq=False)
class OpenedTable:
    """Some columns of a table that was opened: the source, where it lies and how it is read."""

    source: Source
    path: Path
    options: SourceOptions
    columns: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """A key that is another one whenever the file, how it is read, or what is asked of it is another."""
        found = self.path.stat()
        version = f"{found.st_mtime_ns} {found.st_size}"
        return str(self.path), version, self.options.model_dump_json(), *self.columns

    def read(self, most_bytes: int) -> ArrowSource | None:
        """Read the table, with one dictionary for each column of texts; None if it takes more memory than that."""
        batches: list[pa.RecordBatch] = []
        n_bytes = 0
        for batch in self.source.batches(self.columns, dictionary=self.columns):
            batches.append(batch)
            n_bytes += batch.nbytes
            if n_bytes > most_bytes:
                return None
        table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        return open_arrow(table, SourceOptions(missing=[]), self.source.name, table.num_rows)


class TableCache:
    """The tables that were looked at last; together they stay below a number of bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Begin empty."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, ...], ArrowSource | None] = OrderedDict()  # None: too large to be held

    def find(self, opened: OpenedTable) -> Source:
        """Return the table as it is held, or else its source, which reads it."""
        return self._held.get(opened.key) or opened.source

    def take(self, opened: OpenedTable) -> Source:
        """Return the table as it is held, after reading it if it is not; its source if it is too large."""
        with self._lock:
            key = opened.key
            if key not in self._held:
                self._held[key] = opened.read(self._most)
            self._held.move_to_end(key)
            found = self._held[key]
            while self.n_bytes > self._most or len(self._held) > MOST_TABLES:
                self._held.popitem(last=False)
            return found or opened.source

    def forget(self, path: Path) -> None:
        """Let go of a table, or of all tables of a folder."""
        with self._lock:
            for key in [key for key in self._held if Path(key[0]).is_relative_to(path)]:
                del self._held[key]

    @property
    def n_bytes(self) -> int:
        """Memory that the held tables take."""
        return sum(held.table.nbytes for held in self._held.values() if held is not None)


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


def open_released(folder: Path) -> tuple[OpenedTable, Mapping[str, Any]]:
    """Return the published rows of a release and its manifest."""
    found = find_release(folder)
    if found is None:
        raise FileNotFoundError(folder.name)
    place, manifest = found
    path, options = place / Path(str(manifest["data"]["file"])).name, SourceOptions(missing=[""])
    source = open_source(path, options)
    return OpenedTable(source, path, options, tuple(source.schema.names)), manifest


def first_rows(table: Source, columns: Sequence[str], most: int, filters: Mapping[str, str] | None = None) -> Rows:
    """Return the first rows whose columns contain the texts of *filters*, whatever the case of their letters."""
    wanted = {name: text for name, text in (filters or {}).items() if text and name in table.schema.names}
    names = list(dict.fromkeys([*columns, *wanted]))
    found: list[list[list[str]]] = []  # of some rows: of each column: texts
    held = 0
    for batch in table.batches(names, dictionary=names):
        some = batch
        for name, text in wanted.items():  # each value is looked at once, however many rows have it
            indices, values = factor_column(some.column(name))
            matching = pc.match_substring(texts(values), text, ignore_case=True).to_numpy(zero_copy_only=False)
            some = some.filter(pa.array(np.append(matching, False)[indices]))  # -1, which is missing, is the last
        some = some.slice(0, most + 1 - held)
        found.append([texts(some.column(name)).fill_null(MISSING).to_pylist() for name in columns])
        held += some.num_rows
        if held > most:
            break
    rows = [row for part in found for row in zip(*part, strict=True)]
    return Rows(tuple(columns), tuple(rows[:most]), more=held > most)


def bars_of(table: Source, column: str, order: Sequence[str] = ()) -> Bars:
    """Count the values of a column: numbers by intervals where there are many, others by frequency.

    Values that *order* names come in that order, the most frequent ones of them if there are too many.
    """
    distinct, records, n_missing = _count_values(table, column)
    if not order and len(distinct) > MOST_BARS:
        numbers, numeric = decimal_numbers(distinct)
        if numeric.all():
            tall, edges = np.histogram(numbers, bins=MOST_BARS, weights=records)
            ranges = [f"{low:.6g} to {high:.6g}" for low, high in pairwise(edges)]
            return _make_bars(zip(ranges, tall.astype(int).tolist(), strict=True), n_missing, 0, len(distinct))
    tally = pa.table({"name": texts(distinct), "records": records})
    keys = [("records", "descending"), ("name", "ascending")]
    most = tally.take(pc.select_k_unstable(tally, MOST_BARS, keys)).to_pydict()
    frequent = list(zip(most["name"], most["records"], strict=True))
    if order:
        place = {name: rank for rank, name in enumerate(order)}
        frequent.sort(key=lambda bar: (place.get(bar[0], len(place)), bar[0]))
    return _make_bars(frequent, n_missing, len(distinct) - len(frequent), len(distinct))


def _make_bars(found: Iterable[tuple[str, int]], n_missing: int, n_others: int, n_distinct: int) -> Bars:
    labels, counts = zip(*found, *([(MISSING, n_missing)] if n_missing else ()), strict=True)
    return Bars(labels, counts, n_others, n_distinct)


def _count_values(table: Source, column: str) -> tuple[pa.Array, IntArray, int]:
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

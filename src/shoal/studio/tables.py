"""Looking at tables: a few of their rows.

Tables that were read once stay in memory, as dictionary codes, as long as they fit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.dictionaries import factor_column
from shoal.release.release import find_release
from shoal.sources.base import Source, SourceOptions
from shoal.sources.frames import ArrowSource, open_arrow
from shoal.sources.opening import open_source
from shoal.taxonomies.parse import texts

MOST_BYTES = 384 << 20  # of all tables together
MOST_TABLES = 8
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

"""Tables that were read once and stay in memory, as dictionary codes, for as long as there is room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from shoal.sources.base import Source, SourceOptions

MOST_BYTES = 384 << 20  # of all tables together
MOST_TABLES = 8


class Readable(Protocol):
    """What can be looked at: a source, or a table that is held."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows in their order; texts may come as dictionaries."""


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """All rows of a table; each column of texts has one dictionary."""

    schema: pa.Schema
    table: pa.Table

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        dictionary: Collection[str] = (),  # noqa: ARG002 - texts have theirs already
    ) -> Iterator[pa.RecordBatch]:
        """Give the rows as they are held."""
        yield from self.table.select(list(columns or self.schema.names)).to_batches()


@dataclass(frozen=True, slots=True, eq=False)
class Opened:
    """Some columns of a table that was opened: the source, where it lies and how it is read."""

    source: Source
    path: Path
    options: SourceOptions
    columns: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """A key that is another one whenever the file, how it is read, or what is asked of it is another."""
        found = self.path.stat()
        return (
            str(self.path),
            f"{found.st_mtime_ns} {found.st_size}",
            self.options.model_dump_json(),
            *self.columns,
        )

    def held(self, most_bytes: int) -> Held | None:
        """Read the table; None if it takes more memory than that."""
        batches: list[pa.RecordBatch] = []
        n_bytes = 0
        for batch in self.source.batches(self.columns, dictionary=self.columns):
            batches.append(batch)
            n_bytes += batch.nbytes
            if n_bytes > most_bytes:
                return None
        table = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks()
        return Held(pa.schema([self.source.schema.field(name) for name in self.columns]), table)


class Shelf:
    """The tables that were looked at last; together they stay below a number of bytes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        """Begin empty."""
        self._most = most_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, ...], Held | None] = OrderedDict()  # None: too large to be held

    def known(self, opened: Opened) -> Readable:
        """Return the table as it is held, or else its source, which reads it."""
        return self._held.get(opened.key) or opened.source

    def take(self, opened: Opened) -> Readable:
        """Return the table as it is held, after reading it if it is not; its source if it is too large."""
        with self._lock:
            key = opened.key
            if key not in self._held:
                self._held[key] = opened.held(self._most)
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

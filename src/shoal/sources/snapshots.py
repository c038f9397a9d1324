"""Rows that can be had only once, or are slow to parse, kept in an anonymous temporary file for every later pass.

The file has no name from the moment it is made: it vanishes with the process, however that ends.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import weakref
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

import pyarrow as pa

from shoal.core.errors import InputError, UsageError
from shoal.core.randomness import explain_file_errors
from shoal.sources.base import DerivedSource, Source
from shoal.sources.columns import UNCHANGED
from shoal.sources.frames import digest_rows

BATCH_ROWS = 1 << 16
explain_full_disk = partial(explain_file_errors, "the variable TMPDIR names a folder with more space")


class RowFile:
    """A temporary file without a name, closed with its last user."""

    def __init__(self, folder: Path | None = None) -> None:
        with explain_full_disk():
            self.raw: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed by the finalizer
        self.close = weakref.finalize(self, _close_file, self.raw)


class Snapshot:
    """The rows as they were read once, in batches of the same size however they came."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Keep the rows of all batches, which are read now and only now."""
        self.schema = schema
        self.n_rows = 0
        self.file = RowFile()
        try:
            self.sha256 = digest_rows(self._keep(batches), schema)
        except BaseException:
            self.file.close()
            raise

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns, in the order of the schema, from the first row on; many readers may do so at once."""
        wanted = [place for place, name in enumerate(self.schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        with pa.ipc.open_file(pa.PythonFile(_Window(self.file), mode="r"), options=options) as reader:
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)

    def _keep(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with explain_full_disk():
            writer = pa.ipc.new_file(self.file.raw, self.schema, options=options)
        try:
            for batch in _even(batches, self.schema):
                self.n_rows += batch.num_rows
                with explain_full_disk():
                    writer.write_batch(batch)
                yield batch
            with explain_full_disk():
                writer.close()
                self.file.raw.flush()
        finally:
            with contextlib.suppress(OSError, pa.ArrowException):  # the end of a broken file goes nowhere
                writer.close()


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotSource(Source):
    """Rows of a snapshot; numbers that turned out whole are handed on as integers."""

    snapshot: Snapshot
    sha256: str
    refused: Mapping[str, str] = field(default_factory=dict)  # unreadable columns: what they hold and what to do
    meanings: Mapping[str, str] = field(default_factory=dict)  # of columns, as the file tells them

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows as every source does, or say which column cannot be read."""
        for name in self.schema.names if columns is None else columns:
            if name in self.refused:
                raise InputError(f"column {name!r} of {self.name} {self.refused[name]}")
        return Source.batches(self, columns, dictionary=dictionary)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        schema = pa.schema([self.schema.field(name) for name in columns])
        for batch in self.snapshot.batches(columns):
            arrays = [batch.column(field.name).cast(field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def meaning(self, column: str) -> str | None:
        return self.meanings.get(column)

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of the rows as they were read from a database."""
        return self.sha256


@dataclass(frozen=True, slots=True, eq=False)
class KeptSource(DerivedSource):
    """The rows of a source that is slow to parse: the first pass keeps them, text as codes, for those that follow."""

    columns: frozenset[str]  # that are kept
    codes: frozenset[str]  # those among them that are kept as dictionaries
    folder: Path | None  # where they are kept; None: the system's temporary folder
    files: list[RowFile] = field(default_factory=list)  # one file, once all rows are in it

    @classmethod
    def of(cls, given: Source, columns: Collection[str], codes: Collection[str], folder: Path | None) -> KeptSource:
        return cls(
            given.name, given.schema, given.n_rows, UNCHANGED, given, frozenset(columns), frozenset(codes), folder
        )

    def meaning(self, column: str) -> str | None:
        return self.given.meaning(column)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        if not self.columns.issuperset(columns):
            yield from self.given.batches(columns, dictionary=coded)
        elif not self.files:
            for batch in self._keep():
                yield batch.select(columns)
        else:
            places = [place for place, name in enumerate(self._names) if name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            with pa.ipc.open_stream(pa.PythonFile(_Window(self.files[0]), mode="r"), options=options) as reader:
                yield from reader

    @property
    def _names(self) -> list[str]:
        return [name for name in self.schema.names if name in self.columns]

    def _keep(self) -> Iterator[pa.RecordBatch]:
        """Read all that is kept; only a pass that came to the last row serves those that follow.

        Where there is no room for the rows, they are not kept, and every pass parses anew.
        """
        file, writer = None, None
        with contextlib.suppress(UsageError):
            file = RowFile(self.folder)
        for batch in self.given.batches(self._names, dictionary=self.codes):
            if file is not None:
                try:
                    with explain_full_disk():
                        if writer is None:
                            options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
                            writer = pa.ipc.new_stream(file.raw, batch.schema, options=options)
                        writer.write_batch(batch)
                except UsageError:
                    file.close()
                    file = None
            yield batch
        if file is not None and writer is not None:
            with contextlib.suppress(UsageError), explain_full_disk():
                writer.close()
                file.raw.flush()
                self.files.append(file)


class _Window(io.RawIOBase):
    """One reader's place in a file, which it keeps open."""

    def __init__(self, file: RowFile) -> None:
        self._file = file
        self._place = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = os.pread(self._file.raw.fileno(), size, self._place)
        self._place += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        start = (0, self._place, os.fstat(self._file.raw.fileno()).st_size)[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place


def _even(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of one size, but for the last."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        waiting.append(batch)
        n_waiting += batch.num_rows
        if n_waiting >= BATCH_ROWS:
            rows = pa.Table.from_batches(waiting, schema)
            whole = n_waiting - n_waiting % BATCH_ROWS
            for start in range(0, whole, BATCH_ROWS):
                yield _one(rows.slice(start, BATCH_ROWS))
            waiting = rows.slice(whole).to_batches()
            n_waiting -= whole
    if n_waiting:
        yield _one(pa.Table.from_batches(waiting, schema))


def _one(rows: pa.Table) -> pa.RecordBatch:
    """Copy rows, even if they are whole already: what lies beside a slice in memory would go into the digest."""
    arrays = [pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)]) for column in rows.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def _close_file(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now; the file goes anyway
        file.close()

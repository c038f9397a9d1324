"""Rows that can be read only once or are slow to parse, kept in a temporary file for later passes.

The file never has a name, so it disappears when the process ends for any reason.
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
from shoal.sources.base import DerivedSource, Source, even_batches
from shoal.sources.columns import UNCHANGED
from shoal.sources.frames import digest_rows

BATCH_ROWS = 1 << 16
explain_full_disk = partial(explain_file_errors, "the variable TMPDIR names a folder with more space")


class RowFile:
    """An unnamed temporary file that is closed when it is garbage collected."""

    def __init__(self, folder: Path | None = None) -> None:
        with explain_full_disk():
            self.raw: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  closed by the finalizer
        self.close = weakref.finalize(self, close_quietly, self.raw)

    def open(self) -> pa.PythonFile:
        """Return an independent reader of the file."""
        return pa.PythonFile(_Window(self), mode="r")


class Snapshot:
    """Rows that were read once, in batches whose size does not depend on the batches that came."""

    def __init__(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        """Read all batches, once, and keep their rows."""
        self.schema = schema
        self.n_rows = 0
        self.file = RowFile()
        try:
            self.sha256 = digest_rows(self._keep(batches), schema)
        except BaseException:
            self.file.close()
            raise

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns in the order of the schema; several readers may be active."""
        wanted = [place for place, name in enumerate(self.schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
        with pa.ipc.open_file(self.file.open(), options=options) as reader:
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)

    def _keep(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with explain_full_disk():
            writer = pa.ipc.new_file(self.file.raw, self.schema, options=options)
        try:
            for batch in even_batches(batches, self.schema, BATCH_ROWS):
                self.n_rows += batch.num_rows
                with explain_full_disk():
                    writer.write_batch(batch)
                yield batch
            with explain_full_disk():
                writer.close()
                self.file.raw.flush()
        finally:
            with contextlib.suppress(OSError, pa.ArrowException):  # the file is not used after an error
                writer.close()


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotSource(Source):
    """The rows of a snapshot, cast to the types of ``schema``: numbers that were all whole become integers."""

    snapshot: Snapshot
    sha256: str
    refused: Mapping[str, str] = field(default_factory=dict)  # unreadable columns, with the rest of the error message
    meanings: Mapping[str, str] = field(default_factory=dict)  # descriptions of columns in the file

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows as every source does; raise if a column has an unreadable type."""
        for name in self.schema.names if columns is None else columns:
            if name in self.refused:
                raise InputError(f"column {name!r} of {self.name} {self.refused[name]}")
        return Source.batches(self, columns, dictionary=dictionary)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        schema = pa.schema([self.schema.field(name) for name in columns])
        for batch in self.snapshot.batches(columns):
            yield batch.select(columns).cast(schema)

    def meaning(self, column: str) -> str | None:
        return self.meanings.get(column)

    def digest(self) -> str:
        """Return the SHA-256 of the file or, for a database, of the rows."""
        return self.sha256


@dataclass(frozen=True, slots=True, eq=False)
class KeptSource(DerivedSource):
    """A source that is slow to parse; the first pass keeps the rows, with text as codes, for later passes."""

    columns: frozenset[str]  # the columns that are kept
    codes: frozenset[str]  # the columns that are kept as dictionaries
    folder: Path | None  # for the temporary file; None: the system's temporary folder
    files: list[RowFile] = field(default_factory=list)  # one file, as soon as it has all rows

    @classmethod
    def of(cls, given: Source, columns: Collection[str], codes: Collection[str], folder: Path | None) -> KeptSource:
        return cls(
            given.name, given.schema, given.n_rows, UNCHANGED, given, frozenset(columns), frozenset(codes), folder
        )

    def meaning(self, column: str) -> str | None:
        return self.given.meaning(column)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        names = [name for name in self.schema.names if name in self.columns]
        if not self.columns.issuperset(columns):
            yield from self.given.batches(columns, dictionary=coded)
        elif not self.files:
            for batch in self._keep(names):
                yield batch.select(columns)
        else:
            places = [place for place, name in enumerate(names) if name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            with pa.ipc.open_stream(self.files[0].open(), options=options) as reader:
                yield from reader

    def _keep(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Yield the kept columns, and keep them if the pass reaches the last row.

        If the disk has no space for them, every pass parses the source again.
        """
        file, writer = None, None
        with contextlib.suppress(UsageError):
            file = RowFile(self.folder)
        for batch in self.given.batches(names, dictionary=self.codes):
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
    """The position of one reader in a file, which stays open as long as its readers."""

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


def close_quietly(file: IO[bytes]) -> None:
    with contextlib.suppress(OSError):  # buffered rows that did not fit on the disk are not needed
        file.close()

"""Writers of files that contain the given rows and no other information.

A file is created, never overwritten. Until it is complete only its owner can read it; after an error it is removed.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from shoal.core.errors import UsageError
from shoal.sources import columns

Format = Literal["csv", "parquet"]
_LARGEST_DICTIONARY = 1 << 26  # bytes of repeated numbers

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_BUFFER_BYTES = 1 << 20
_CSV_ROWS = 1 << 16  # their text is far below the 2 GiB that an Arrow string array can hold


class TableWriter(ABC):
    """An open file for batches; ``rows`` counts the rows written.

    Leaving the context closes the file, or removes it after an exception.
    """

    def __init__(self, path: Path, schema: pa.Schema, sink: _Sink) -> None:
        self.path = path
        self.rows = 0
        self._columns = schema.names
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of *batch*, which must have the columns of the schema in the same order."""
        if batch.schema.names != self._columns:
            self.discard()
            raise UsageError(f"{self.path.name} has columns {self._columns}, a batch has {batch.schema.names}")
        if batch.num_rows:
            with self._discarding():
                self._write(batch)
            self.rows += batch.num_rows

    def close(self) -> None:
        """Finish the file, flush it to the disk and make it readable for others."""
        if not self._sink.closed:
            with self._discarding():
                self._finish()
                self._sink.publish()

    @property
    def sha256(self) -> str:
        return self._sink.digest.hexdigest()

    @contextlib.contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise _cannot_write(self.path, error) from None
            raise

    def discard(self) -> None:
        """Remove the file, unless it is closed."""
        if self._sink.closed:
            return
        self._sink.drop()
        with contextlib.suppress(OSError, pa.ArrowException):  # the sink discards the end of the file
            self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    @abstractmethod
    def _write(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a nonempty batch."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the end of the format; may be called again."""


class CsvWriter(TableWriter):
    """A CSV file in UTF-8 with LF and a header, quoted only where needed; gzip if the name ends in ``.gz``.

    Missing values are empty and empty texts are a pair of quotes. Floats have the shortest text that reads back to the
    same number. A single quote precedes texts that a spreadsheet may run (``=1+1``).
    """

    def __init__(self, path: Path, schema: pa.Schema, sink: _Sink) -> None:
        super().__init__(path, schema, sink)
        self._gzip: gzip.GzipFile | None = None
        if path.suffix == ".gz":
            self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0)
        self._emit(header_line(schema.names))

    def _write(self, batch: pa.RecordBatch) -> None:
        parts = [batch.slice(start, _CSV_ROWS) for start in range(0, batch.num_rows, _CSV_ROWS)]
        with ThreadPoolExecutor(2) as pool:
            for first in range(0, len(parts), 4):  # texts of a few parts at a time, for memory
                for text in pool.map(lines, parts[first : first + 4]):
                    self._emit(text)

    def _emit(self, data: bytes | memoryview) -> None:
        (self._gzip or self._sink).write(data)

    def _finish(self) -> None:
        if self._gzip is not None:
            self._gzip.close()


class ParquetWriter(TableWriter):
    """A Parquet file with a row group per batch, without statistics, page index, key-value metadata or Arrow schema.

    Each dictionary has the entries that its row group uses, sorted.
    """

    def __init__(self, path: Path, schema: pa.Schema, sink: _Sink, *, repeated: bool = False) -> None:
        super().__init__(path, schema, sink)
        coded = [pt.is_dictionary(field.type) and columns.is_text(field.type) for field in schema]
        kinds = [
            columns.CODES if code else columns.normal_type(field.type)
            for field, code in zip(schema, coded, strict=True)
        ]
        self._schema = pa.schema(list(zip(schema.names, kinds, strict=True)))
        self._parquet = pq.ParquetWriter(
            pa.PythonFile(self._sink, mode="w"),
            self._schema,
            compression="zstd",
            use_dictionary=repeated or [field.name for field in self._schema if field.type == columns.CODES],
            dictionary_pagesize_limit=_LARGEST_DICTIONARY if repeated else None,
            store_schema=False,
            write_statistics=False,
            write_page_index=False,
        )

    def _write(self, batch: pa.RecordBatch) -> None:
        arrays = []
        for field, given in zip(self._schema, batch.columns, strict=True):
            coded = field.type == columns.CODES
            ready = coded and pt.is_dictionary(given.type)
            array = given if ready else columns.normal_column(given, coded=coded)
            arrays.append(columns.compact(array) if coded else array)
        rows = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._parquet.write_batch(rows, row_group_size=rows.num_rows)

    def _finish(self) -> None:
        self._parquet.close()


def open_writer(
    path: Path,
    schema: pa.Schema,
    format: Format,  # noqa: A002
    *,
    private: bool = False,
    repeated: bool = False,
) -> TableWriter:
    """Create *path*, which must not exist, for rows of this schema; others cannot read a *private* file.

    With *repeated*, Parquet stores numbers by dictionaries, which saves space if they repeat often.
    """
    columns.check_flat(schema, schema.names, path.name)
    sink = None
    try:
        sink = _Sink(path, private=private)
        if format == "csv":
            return CsvWriter(path, schema, sink)
        return ParquetWriter(path, schema, sink, repeated=repeated)
    except BaseException as error:
        if sink is not None:
            sink.drop()
        if isinstance(error, OSError):
            raise _cannot_write(path, error) from None
        raise


def _cannot_write(path: Path, error: OSError) -> UsageError:
    if isinstance(error, FileExistsError):
        return UsageError(f"{path.name} exists already; shoal never overwrites: remove it or choose another place")
    if error.errno in _NO_SPACE:
        return UsageError(f"no space left on the disk while writing {path.name}; nothing was published")
    return UsageError(f"cannot write {path.name}: {error.strerror or 'input or output error'}; nothing was published")


class _Sink:
    """A new file; after ``drop`` it is removed and later writes are discarded."""

    def __init__(self, path: Path, *, private: bool) -> None:
        self._path, self._private = path, private
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        self._raw: IO[bytes] | None = os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES)
        self._size = 0
        self.digest = hashlib.sha256()

    @property
    def closed(self) -> bool:
        return self._raw is None

    def write(self, data: bytes | memoryview) -> int:
        if self._raw is not None:
            self._raw.write(data)
        self.digest.update(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        if self._raw is not None:
            self._raw.flush()

    def close(self) -> None:
        """Do nothing: libraries close their files, but only ``publish`` and ``drop`` close this one."""

    def publish(self) -> None:
        if self._raw is None:
            return
        self._raw.flush()
        os.fsync(self._raw.fileno())
        if not self._private:
            self._path.chmod(0o644)
        self._raw.close()
        self._raw = None

    def drop(self) -> None:
        raw, self._raw = self._raw, None
        if raw is None:
            return
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the buffer may not fit on the disk
            raw.close()


def header_line(names: Sequence[str]) -> bytes:
    """Return the header of a CSV file.

    >>> header_line(["age", "sex, at birth"])
    b'age,"sex, at birth"\\n'
    """
    return (",".join(_quote(pa.array(names, pa.string())).to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> memoryview:
    """Return the rows as the lines of a CSV file.

    >>> bytes(lines(pa.record_batch({"a": ["x", None, ""], "b": [0.1, 2.0, None]})))
    b'x,0.1\\n,2\\n"",\\n'
    """
    *others, last = batch.columns
    rows = pc.binary_join_element_wise(*map(_fields, others), _fields(last, "\n"), ",")
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)
    text = memoryview(rows.buffers()[2])
    return text[offsets[rows.offset] : offsets[rows.offset + len(rows)]]


def _fields(column: pa.Array, end: str = "") -> pa.Array:
    """Return (n_rows,) the texts of a column's fields, each followed by *end*; null is an empty field."""
    if columns.is_text(column.type) and pt.is_dictionary(column.type):
        coded = columns.encode_text(column)
        return _close(_quote(columns.guard_formulas(coded.dictionary)), end).take(coded.indices).fill_null(end)
    plain = columns.normal_column(column, coded=False)
    texts = _quote(columns.guard_formulas(plain)) if columns.is_text(column.type) else plain.cast(pa.string())
    return _close(texts, end).fill_null(end)


def _close(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, "", end) if end else texts  # joins with an empty text, and *end* between


def _quote(texts: pa.Array) -> pa.Array:
    needed = pc.match_substring_regex(texts, '[,"\r\n]|^$')
    if not pc.any(needed).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)

"""Writers whose files hold the rows they were given and nothing else.

A file appears only whole: it is created, never overwritten, readable by its owner alone until it is closed,
and removed if anything goes wrong.
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
_CSV_ROWS = 1 << 16  # keeps the text of one step far below the 2 GiB that an Arrow string array can hold


class TableWriter(ABC):
    """An open file that takes batches; ``rows`` counts those written.

    Leaving its context closes the file, or removes it if an exception is on its way.
    """

    def __init__(self, path: Path, schema: pa.Schema, sink: _Sink) -> None:
        self.path = path
        self.rows = 0
        self._columns = schema.names
        self._sink = sink

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of *batch*, whose columns are those of the schema in the same order."""
        if batch.schema.names != self._columns:
            self.discard()
            raise UsageError(f"{self.path.name} has columns {self._columns}, a batch has {batch.schema.names}")
        if batch.num_rows:
            with self._discarding():
                self._write(batch)
            self.rows += batch.num_rows

    def close(self) -> None:
        """Finish the file, see it onto the disk and make it readable for others."""
        if not self._sink.closed:
            with self._discarding():
                self._finish()
                self._sink.publish()

    @property
    def sha256(self) -> str:
        return self._sink.digest.hexdigest()

    @contextlib.contextmanager
    def _discarding(self) -> Iterator[None]:
        """Remove the file if something goes wrong."""
        try:
            yield
        except BaseException as error:
            self.discard()
            if isinstance(error, OSError):
                raise _cannot_write(self.path, error) from None
            raise

    def discard(self) -> None:
        """Remove the file, whatever state it is in; nothing happens to a closed one."""
        if self._sink.closed:
            return
        self._sink.drop()
        with contextlib.suppress(OSError, pa.ArrowException):  # the end of a broken file goes nowhere
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
        """Write the rows of a batch that has some."""

    @abstractmethod
    def _finish(self) -> None:
        """Write what the format wants at the end; may be called again."""


class CsvWriter(TableWriter):
    """UTF-8 text with LF and a header, quoted only where needed; gzip if the name ends in ``.gz``.

    Missing values are empty, empty texts are a pair of quotes, and floats are the shortest text that reads
    back to the same number. A text that a spreadsheet may run (``=1+1``) stands behind a single quote.
    """

    def __init__(self, path: Path, schema: pa.Schema, sink: _Sink) -> None:
        super().__init__(path, schema, sink)
        self._gzip: gzip.GzipFile | None = None
        if path.suffix == ".gz":
            self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0)
        self._header: bytes | None = header_line(schema.names)

    def _write(self, batch: pa.RecordBatch) -> None:
        self._write_header()
        parts = [batch.slice(start, _CSV_ROWS) for start in range(0, batch.num_rows, _CSV_ROWS)]
        with ThreadPoolExecutor(2) as pool:
            for first in range(0, len(parts), 4):  # texts of a few parts at a time, for memory
                for text in pool.map(lines, parts[first : first + 4]):
                    self._emit(text)

    def _write_header(self) -> None:
        if self._header is not None:
            header, self._header = self._header, None
            self._emit(header)

    def _emit(self, data: bytes | memoryview) -> None:
        (self._gzip or self._sink).write(data)

    def _finish(self) -> None:
        self._write_header()
        if self._gzip is not None:
            self._gzip.close()


class ParquetWriter(TableWriter):
    """Parquet with one row group a batch, without statistics, page index, key-value metadata or Arrow schema.

    Each dictionary holds the entries that its row group uses, sorted.
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
    """Create *path*, which must not exist, for rows of this schema; a *private* file stays its owner's alone.

    Numbers that are *repeated* often take less space in Parquet.
    """
    columns.check_flat(schema, schema.names, path.name)
    try:
        sink = _Sink(path, private=private)
    except OSError as error:
        raise _cannot_write(path, error) from None
    try:
        if format == "csv":
            return CsvWriter(path, schema, sink)
        return ParquetWriter(path, schema, sink, repeated=repeated)
    except BaseException:
        sink.drop()
        raise


def _cannot_write(path: Path, error: OSError) -> UsageError:
    if isinstance(error, FileExistsError):
        return UsageError(f"{path.name} exists already; shoal never overwrites: remove it or choose another place")
    if error.errno in _NO_SPACE:
        return UsageError(f"no space left on the disk while writing {path.name}; nothing was published")
    return UsageError(f"cannot write {path.name}: {error.strerror or 'input or output error'}; nothing was published")


class _Sink:
    """A new file that can turn into nothing: once dropped it swallows what its users still want to write."""

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
        """Do nothing when a user of the file is done with it; only publish and drop end it."""

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
        with contextlib.suppress(OSError):  # what was still buffered does not fit on the disk either
            raw.close()


def header_line(names: Sequence[str]) -> bytes:
    """Return the line of column names.

    >>> header_line(["age", "sex, at birth"])
    b'age,"sex, at birth"\\n'
    """
    return (",".join(_quote(pa.array(names, pa.string())).to_pylist()) + "\n").encode()


def lines(batch: pa.RecordBatch) -> memoryview:
    """Return the bytes of all rows, each with its end of line.

    >>> bytes(lines(pa.record_batch({"a": ["x", None, ""], "b": [0.1, 2.0, None]})))
    b'x,0.1\\n,2\\n"",\\n'
    """
    *others, last = batch.columns
    rows = pc.binary_join_element_wise(*map(_fields, others), _fields(last, "\n"), ",")
    offsets = np.frombuffer(rows.buffers()[1], dtype=np.int32)
    text = memoryview(rows.buffers()[2])
    return text[offsets[rows.offset] : offsets[rows.offset + len(rows)]]


def _fields(column: pa.Array, end: str = "") -> pa.Array:
    """Return (n_rows,) the texts between delimiters, each with its *end*; null is empty."""
    if columns.is_text(column.type) and pt.is_dictionary(column.type):
        coded = columns.encode_text(column)
        return _close(_quote(columns.guard_formulas(coded.dictionary)), end).take(coded.indices).fill_null(end)
    plain = columns.normal_column(column, coded=False)
    texts = _quote(columns.guard_formulas(plain)) if columns.is_text(column.type) else plain.cast(pa.string())
    return _close(texts, end).fill_null(end)


def _close(texts: pa.Array, end: str) -> pa.Array:
    return pc.binary_join_element_wise(texts, "", end) if end else texts  # the "separator" before nothing ends a text


def _quote(texts: pa.Array) -> pa.Array:
    needed = pc.match_substring_regex(texts, '[,"\r\n]|^$')
    if not pc.any(needed).as_py():
        return texts
    doubled = pc.replace_substring(texts, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)

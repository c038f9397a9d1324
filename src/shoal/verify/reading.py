"""The published rows, wherever they are: in Parquet, CSV or memory, and whether their form is the declared one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.kernels import kernel
from shoal.sources.base import ahead, read_ahead
from shoal.verify.result import Check

# All that reading a broken file raises; memory that runs out says nothing about a file and passes through.
FAULTS = (
    pa.ArrowCapacityError,
    pa.ArrowNotImplementedError,
    pa.ArrowSerializationError,
    OSError,
    ValueError,
    TypeError,
    OverflowError,
    LookupError,
)
BATCH = 1 << 18  # rows
_BLOCK, _SHORT_BLOCK = 16 << 20, 1 << 16  # bytes of a CSV file that are parsed at a time; to know its columns only
_CODES = pa.dictionary(pa.int32(), pa.string())
_FORMULAS = (r"[=@\t\r]", r"[+-].*[(|!\"']")  # what a spreadsheet may run, from its first character on


class SpellingError(ValueError):
    """A file has another form than the writer gives it; the message says which, and quotes no value."""


class PublishedRows(ABC):
    """The rows of a release as Arrow batches."""

    columns: tuple[str, ...]
    schema: pa.Schema

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; text may come as dictionaries, a new one for every batch."""

    def list_unused(self) -> tuple[str, ...]:
        """Return the columns, among those read so far, whose stored dictionaries hold entries of no row."""
        return ()


class MemoryRows(PublishedRows):
    """A release that was never written."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in table.schema.types]
        self.schema = pa.schema(zip(table.column_names, kinds, strict=True))
        self.columns = tuple(table.column_names)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=BATCH)


class CsvRows(PublishedRows):
    """Rows of a CSV file, every value as text, an empty one as missing."""

    def __init__(self, path: Path, dictionary: Collection[str]) -> None:
        self._path = path
        self._dictionary = dictionary
        self.columns = self._read_names()
        self.schema = pa.schema([(name, pa.string()) for name in self.columns])

    def _read_names(self) -> tuple[str, ...]:
        with suppress(pa.ArrowInvalid), self._open(None, _SHORT_BLOCK) as reader:  # unless a row is longer
            return tuple(reader.schema.names)
        with self._open(None) as reader:
            return tuple(reader.schema.names)

    def _open(self, columns: Sequence[str] | None, block: int = _BLOCK) -> pa_csv.CSVStreamingReader:
        kinds = {name: _CODES if name in self._dictionary else pa.string() for name in columns or ()}
        return pa_csv.open_csv(
            self._path,
            read_options=pa_csv.ReadOptions(block_size=block),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=pa_csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(columns or ()),
                check_utf8=False,  # of texts that recur, once a batch is enough: see _as_published
                strings_can_be_null=False,
            ),
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._open(columns) as reader:
            for batch in read_ahead(reader):
                yield pa.RecordBatch.from_arrays([_as_published(column) for column in batch.columns], columns)


def _as_published(column: pa.Array) -> pa.Array:
    """Return the texts of a CSV file as they were before they were written, empty ones as missing.

    >>> _as_published(pa.array(["b", "", "'=1", "b"]).dictionary_encode()).to_pylist()
    ['b', None, '=1', 'b']
    """
    if not pa.types.is_dictionary(column.type):
        column.validate(full=True)  # raises if they are not UTF-8
        empty = pc.equal(column, "")
        return _drop_guards(pc.if_else(empty, None, column) if pc.any(empty).as_py() else column)
    codes, texts = column.indices, _as_published(column.dictionary)
    if texts.null_count:  # the place of the empty text, which no code may have
        places = np.cumsum(texts.is_valid().to_numpy(zero_copy_only=False)) - 1
        codes = pa.array(places.astype(np.int32), mask=texts.is_null().to_numpy(zero_copy_only=False)).take(codes)
        texts = texts.drop_null()
    return pa.DictionaryArray.from_arrays(codes, texts)


def _drop_guards(column: pa.Array) -> pa.Array:
    """Return the texts of a CSV file without the quote before those that a spreadsheet may take for a formula.

    >>> _drop_guards(pa.array(["'=1+1", "'t Hart", "''@a", "'-1", "'+b(c)"])).to_pylist()
    ['=1+1', "'t Hart", "'@a", "'-1", '+b(c)']
    """
    if not pc.any(pc.starts_with(column, "'")).as_py():
        return column
    guarded = [pc.match_substring_regex(column, f"(?s)^'+{formula}") for formula in _FORMULAS]
    return pc.if_else(pc.or_(*guarded), pc.utf8_slice_codeunits(column, 1), column)


_SPECIAL = (b'"', b"\r", b"=", b"@", b"\t", b"(", b"|", b"!", b"'")
_START, _PLAIN, _QUOTED, _CLOSED = range(4)  # where a scan of a CSV file is: in which part of a field


@kernel
def _scan_fields(block: NDArray[np.uint8], state: IntArray, allow_empty: bool) -> bool:
    """Whether all fields of a block are as the writer writes them; *state* holds where the last block ended.

    Lines end with LF. Quotes enclose only texts with a comma, a quote or a line end, and empty texts if there are any.
    A text that a spreadsheet may run begins with a single quote. The names of columns in the first line have none.
    """
    where, needed, size, signed, line = state[0], state[1], state[2], state[3], state[4]
    for byte in block:
        text = byte
        if where == _QUOTED:
            if byte == 34:  # a quote, which ends the field or is doubled
                where = _CLOSED
                continue
            if byte in (44, 13, 10):
                needed = 1
        elif where == _CLOSED and byte == 34:
            where, needed = _QUOTED, 1
        elif byte in (44, 10):
            if where == _CLOSED and not needed and (size > 0 or not allow_empty):
                return False
            where, needed, size, signed = _START, 0, 0, 0
            line += byte == 10
            continue
        elif byte == 34 and where == _START:
            where = _QUOTED
            continue
        elif byte in (13, 34) or where == _CLOSED:
            return False
        else:
            where = _PLAIN
        if line > 0 and ((size == 0 and text in (61, 64, 9, 13)) or (signed and text in (40, 124, 33, 34, 39))):
            return False
        signed = (size == 0 and text in (43, 45)) or (size > 0 and signed)
        size += 1
    state[0], state[1], state[2], state[3], state[4] = where, needed, size, signed, line
    return True


def is_canonical_csv(path: Path, *, allow_empty: bool) -> bool:
    """Whether the bytes of a CSV file are those that the writer writes for its fields."""
    state, ended = np.zeros(5, dtype=np.int64), False
    with path.open("rb") as file:
        while block := file.read(1 << 20) + file.readline():
            ended = block.endswith(b"\n")
            if state[0] == _START and ended and not any(byte in block for byte in _SPECIAL):
                state[4] = 1  # most blocks have nothing to look at
            elif not _scan_fields(np.frombuffer(bytearray(block), dtype=np.uint8), state, allow_empty):
                return False
    return bool(state[0] == _START and state[4]) and ended


class ParquetRows(PublishedRows):
    """Rows of a Parquet file, text with the dictionaries that the file itself holds."""

    def __init__(self, path: Path, row_groups: Sequence[int] | None = None) -> None:
        """Read a file, or only some row groups of it."""
        with pq.ParquetFile(path) as file:
            self.schema = file.schema_arrow
            self.columns = tuple(file.schema_arrow.names)
            self._row_groups = range(file.num_row_groups) if row_groups is None else row_groups
        self._path = path
        self._unused: dict[str, None] = {}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        texts = [name for name in columns if self.schema.field(name).type in (pa.string(), pa.large_string())]
        with pq.ParquetFile(self._path, read_dictionary=texts, pre_buffer=True) as file:
            for group in self._row_groups:
                # of each text, the dictionaries in turn, and which of their entries rows have
                met: dict[str, list[tuple[pa.Array, BoolArray]]] = {name: [] for name in texts}
                for batch in file.iter_batches(BATCH, row_groups=[group], columns=list(columns)):
                    batch.validate(full=True)  # codes beyond their dictionary would reach compiled code
                    for name, own in met.items():
                        entries, codes = batch.column(name).dictionary, batch.column(name).indices.drop_null()
                        if not own or not own[-1][0].equals(entries):
                            own.append((entries, np.zeros(len(entries), dtype=np.bool_)))
                        own[-1][1][np.bincount(np.asarray(codes), minlength=len(entries)) > 0] = True
                    yield batch
                self._unused |= {name: None for name, own in met.items() if not all(used.all() for _, used in own)}

    def list_unused(self) -> tuple[str, ...]:
        return tuple(self._unused)


def encode(column: pa.Array) -> tuple[pa.Array, CodeArray]:
    """Return the distinct values of a column and (n,) where each row's value is; missing = one past the last.

    >>> values, places = encode(pa.array(["b", None, "b"]))
    >>> values.to_pylist(), places.tolist()
    (['b'], [0, 1, 0])
    """
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    elif column.dictionary.null_count or len(column.dictionary) > 2 * len(column):
        column = column.dictionary_decode().dictionary_encode()
    values = column.dictionary
    places = column.indices.fill_null(len(values)) if column.null_count else column.indices
    return values, np.asarray(places).astype(np.int32, copy=False)


def public_folder(folder: Path) -> Path:
    """Return the folder that holds the manifest: the one given, or ``public`` in it."""
    for place in (folder / "public", folder):
        if (place / "manifest.json").is_file():
            return place
    what = "has no manifest.json, nor has its folder public" if folder.is_dir() else "is not a folder"
    raise InputError(f"{folder} {what}; give the folder that shoal anonymize wrote")


def find_witness(public: Path) -> Path | None:
    """Return the file with the bucket or class of every source row, in ``internal`` beside ``public``, if it is there.

    While a release waits to be published its folder is called ``unverified``.
    """
    path = public.parent / "internal" / "witness.parquet"
    return path if public.name in ("public", "unverified") and path.is_file() else None


def read_labelled(public: Path) -> pa.Table | None:
    """Return what publishing keeps in ``internal`` of the values under labels; None if there is nothing."""
    path = public.parent / "internal" / "labels.parquet"
    return pq.read_table(path) if public.name in ("public", "unverified") and path.is_file() else None


def report_unreadable(fault: BaseException) -> Check:
    """Return the failed check of a file that cannot be read."""
    if isinstance(fault, SpellingError):
        return Check("spelling", False, str(fault))
    # The text of such an error can quote the row it failed on, so only its kind is named.
    return Check("file", False, f"the rows cannot be read ({type(fault).__name__})")


Batch = TypeVar("Batch")
Result = TypeVar("Result")
WORKERS = max(2, min(8, os.cpu_count() or 1))


def prepare_ahead(
    batches: Iterator[Batch], prepare: Callable[[Batch], Result], threads: int | None = None
) -> Iterator[Result]:
    """Yield prepare(batch) of every batch in turn; other threads prepare ahead.

    At most one batch more than there are threads is held, so memory stays bounded; without a number there are WORKERS.
    """
    n_threads = threads or WORKERS
    try:
        with ThreadPoolExecutor(n_threads) as pool:
            yield from ahead(pool, batches, prepare, n_threads)
    finally:
        pa.default_memory_pool().release_unused()

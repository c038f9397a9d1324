"""Sources of records, the options by which they are read, and digests of files."""

from __future__ import annotations

import codecs
import hashlib
import importlib
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar

import pyarrow as pa
from pydantic import Field, ValidationInfo, field_validator, model_validator

from shoal.core.documents import Parameters
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.sources.columns import CODES, Cleaning, check_flat, is_text, normal_column

T = TypeVar("T")
R = TypeVar("R")
_SETTLED = 5_000_000_000  # nanoseconds; after a more recent change, the next one may leave the file's times unchanged


@dataclass(frozen=True, slots=True, eq=False)
class Source(ABC):
    """A table that can be read any number of times, always with the same rows in the same order.

    ``name`` is used in messages. ``schema`` has normal types (see :mod:`shoal.sources.columns`), which are all text
    for delimited files. ``n_rows`` is None if it is not known before the rows are read.
    """

    parses: ClassVar[bool] = False  # whether every pass parses text again, which is slow

    name: str
    schema: pa.Schema
    n_rows: int | None
    cleaning: Cleaning

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows in batches with *columns* in the given order; null means missing.

        Text columns in *dictionary* have the type ``dictionary<int32, string>`` with distinct entries and a new
        dictionary in every batch. All other columns have the type in ``schema``. An empty source is an error.
        """
        wanted = list(self.schema.names if columns is None else columns)
        if not wanted:
            raise UsageError(f"no column of {self.name} was requested; name at least one")
        known = self.schema.names
        for name in (*wanted, *dictionary):
            if name not in known:
                raise InputError(f"column {name!r} is not in {self.name}{did_you_mean(name, known)}")
        check_flat(self.schema, wanted, self.name)
        coded = frozenset(name for name in dictionary if is_text(self.schema.field(name).type))
        return self._normal_batches(wanted, coded)

    def _normal_batches(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        kinds = [CODES if name in coded else self.schema.field(name).type for name in columns]
        schema = pa.schema(list(zip(columns, kinds, strict=True)))
        some = False
        try:
            for batch in self._read(columns, coded):
                if batch.num_rows:
                    some = True
                    arrays = [
                        normal_column(batch.column(name), coded=name in coded, cleaning=self.cleaning, column=name)
                        for name in columns
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except OSError as error:
            raise InputError(f"cannot read {self.name}: {error.strerror or 'input or output error'}") from None
        if not some:
            raise InputError(f"{self.name} has no rows")

    def meaning(self, column: str) -> str | None:  # noqa: ARG002
        """Return the source's own description of a column, which drafts of policies include."""
        return None

    @abstractmethod
    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Yield batches with these columns, in any order and in the text types that are cheapest to read."""

    @abstractmethod
    def digest(self) -> str:
        """Return the SHA-256 of the source, by which evidence names the data of a release."""


@dataclass(frozen=True, slots=True, eq=False)
class DerivedSource(Source):
    """The rows of another source after a change or a selection; the digest is the other source's."""

    given: Source

    def digest(self) -> str:
        return self.given.digest()


def read_ahead(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yield items while another thread prepares up to *depth* more."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, items, None) for _ in range(depth))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, items, None))
            yield item


def ahead(pool: ThreadPoolExecutor, items: Iterable[T], work: Callable[[T], R], depth: int) -> Iterator[R]:
    """Yield ``work(item)`` in order while up to *depth* later items are being worked on.

    >>> with ThreadPoolExecutor(2) as pool:
    ...     list(ahead(pool, [1, 2, 3], lambda number: number * number, depth=1))
    [1, 4, 9]
    """
    waiting: deque[Future[R]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > depth:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def join_batches(batches: Iterable[pa.RecordBatch], n_rows: int, n_bytes: float = math.inf) -> Iterator[pa.Table]:
    """Yield the batches as tables with at least *n_rows* or *n_bytes*, except for the last."""
    waiting: list[pa.RecordBatch] = []
    for batch in itertools.chain(batches, [None]):
        if batch is not None:
            waiting.append(batch)
        enough = sum(one.num_rows for one in waiting) >= n_rows
        if waiting and (enough or batch is None or sum(one.get_total_buffer_size() for one in waiting) >= n_bytes):
            yield pa.Table.from_batches(waiting)
            waiting = []


def even_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of *n_rows*, except for the last, copied to new arrays without unused content."""
    rest = pa.Table.from_batches([], schema)
    for joined in join_batches(batches, n_rows):
        rows = pa.concat_tables([rest, joined])
        whole = rows.num_rows - rows.num_rows % n_rows
        for start in range(0, whole, n_rows):
            yield _copy(rows.slice(start, n_rows))
        rest = rows.slice(whole)
    if rest.num_rows:
        yield _copy(rest)


def _copy(rows: pa.Table) -> pa.RecordBatch:
    arrays = [pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)]) for column in rows.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


def layers(source: Source) -> Iterator[Source]:
    """Yield the source, the source it is derived from, and so on to the original one."""
    yield source
    while isinstance(source, DerivedSource):
        source = source.given
        yield source


class SourceOptions(Parameters):
    """Properties of a source that its data do not show: a text file's dialect, a sheet, the texts that mean missing.

    >>> SourceOptions(delimiter=";", missing=["", "?"]).missing
    ['', '?']
    """

    delimiter: str | None = Field(
        default=None, description="character between fields; without it, found among comma, semicolon, tab and |"
    )
    quote: str = Field(default='"', description="character around quoted fields; empty if fields are never quoted")
    encoding: str = Field(default="utf-8", description="character encoding; a UTF-8 byte order mark is dropped")
    header: bool = Field(default=True, description="whether the first record holds the column names")
    names: list[str] | None = Field(
        default=None, description="column names; without them the header's, or c1, c2, ... without a header"
    )
    missing: list[str] = Field(
        default=[""], description="texts that mean missing in every column; surrounding blanks matter, but see trim"
    )
    missing_in: dict[str, list[str]] = Field(
        default={}, description="texts and numbers that mean missing in one column only, by column: {income: ['-9']}"
    )
    decimal_comma: list[str] = Field(
        default=[], description="text columns whose numbers are written like 1.234,50; they are read as 1234.50"
    )
    trim: bool = Field(default=False, description="whether blanks around texts are dropped")
    sheet: str | None = Field(default=None, description="sheet of an Excel file that has several")
    labels: Literal["texts", "codes"] = Field(
        default="texts", description="whether labelled values of Stata and SPSS files are read as their labels"
    )

    @property
    def cleaning(self) -> Cleaning:
        own = {name: tuple(markers) for name, markers in self.missing_in.items()}
        return Cleaning(tuple(self.missing), own, frozenset(self.decimal_comma), self.trim)

    @property
    def reading(self) -> dict[str, object]:
        """The entries, apart from ``missing``, that a manifest needs for reading the same values again."""
        return self.model_dump(include={"missing_in", "decimal_comma", "trim"}, exclude_defaults=True)

    def check_columns(self, source: Source) -> None:
        known = source.schema.names
        for name in (*self.missing_in, *self.decimal_comma):
            if name not in known:
                near = did_you_mean(name, known)
                raise InputError(
                    f"column {name!r}, which the options of the source name, is not in {source.name}{near}"
                )

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError(f"unknown text encoding {encoding!r}") from None
        name = codecs.lookup(encoding).name
        return "utf-8" if name == "utf-8-sig" else name

    @field_validator("delimiter", "quote")
    @classmethod
    def _check_character(cls, character: str | None, field: ValidationInfo) -> str | None:
        if character is None or (character == "" and field.field_name == "quote"):
            return character
        if len(character) != 1 or not character.isascii() or character in "\r\n\0":
            raise ValueError(f"{field.field_name} must be one ASCII character other than a line end, got {character!r}")
        return character

    @model_validator(mode="after")
    def _check_different(self) -> Self:
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        return self


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A source's file and its state when it was opened.

    A run reads its source several times and needs the digest at the end. The digest is returned only if the file has
    not changed since it was opened; then it is the digest of the bytes that were read.
    """

    path: Path
    state: tuple[int, ...]
    sha256: str  # only of a file that was changed just before, whose times may not show another change; otherwise empty
    taken: list[str] = field(default_factory=list, compare=False)  # the digest, once it was computed

    @classmethod
    def of(cls, path: Path) -> OpenedFile:
        state = _state(path)
        lately = time.time_ns() - max(state[-2:]) < _SETTLED
        return cls(path, state, file_digest(path) if lately else "")

    def digest(self) -> str:
        """Return the SHA-256 of the file's bytes, or raise if the file changed since it was opened."""
        try:
            if self.sha256 or not self.taken:
                self.taken[:] = [file_digest(self.path)]
            same = _state(self.path) == self.state and self.sha256 in ("", *self.taken)
        except OSError as error:
            raise InputError(f"cannot read {self.path.name}: {error.strerror or 'input or output error'}") from None
        if not same:
            raise InputError(f"{self.path.name} changed while it was being read; nothing was published")
        return self.taken[0]


def _state(path: Path) -> tuple[int, ...]:
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def import_optional(module: str, use: str, extra: str) -> Any:
    """Import a module of an optional dependency; raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0].replace("_", "-")
        raise UsageError(f"{use} needs the package {package}; install shoal[{extra}]") from None

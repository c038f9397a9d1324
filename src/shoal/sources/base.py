"""What a source of records is, how it is read as options say, and the digests of files."""

from __future__ import annotations

import codecs
import hashlib
import importlib
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
_SETTLED = 5_000_000_000  # nanoseconds after a change; sooner, another one may leave a file's times as they are


@dataclass(frozen=True, slots=True, eq=False)
class Source(ABC):
    """A table that can be read any number of times, always with the same rows in the same order.

    ``name`` stands in messages; ``schema`` holds normal types (see :mod:`shoal.sources.columns`), for
    delimited files text only; ``n_rows`` is None where only reading would tell.
    """

    parses: ClassVar[bool] = False  # whether every pass takes texts apart again, which is slow

    name: str
    schema: pa.Schema
    n_rows: int | None
    cleaning: Cleaning

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, columns in the order asked; null is missing; at least one row or an error.

        Text columns named in *dictionary* come as ``dictionary<int32, string>`` with distinct entries, each
        batch with a dictionary of its own; all other columns come in the type that ``schema`` says.
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
        """Return what the source itself says of a column, for a draft of a policy; most say nothing."""
        return None

    @abstractmethod
    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read batches that hold these columns, in any order and in whatever text types are cheapest."""

    @abstractmethod
    def digest(self) -> str:
        """Return the SHA-256 of the source, so that evidence can say which data a release came from."""


@dataclass(frozen=True, slots=True, eq=False)
class DerivedSource(Source):
    """The rows of another source, changed or fewer; its digest is that of the rows as they were given."""

    given: Source

    def digest(self) -> str:
        """Return the digest of the rows as they were given."""
        return self.given.digest()


def read_ahead(batches: Iterator[pa.RecordBatch], depth: int = 2) -> Iterator[pa.RecordBatch]:
    """Yield batches while another thread reads or makes the next ones, at most *depth*."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(depth))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, batches, None))
            yield batch


def ahead(pool: ThreadPoolExecutor, items: Iterable[T], work: Callable[[T], R], depth: int) -> Iterator[R]:
    """Yield ``work(item)`` in order while up to *depth* later ones are under way.

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


def layers(source: Source) -> Iterator[Source]:
    """Yield the source, what it is derived from, and so on to the one that was given."""
    yield source
    while isinstance(source, DerivedSource):
        source = source.given
        yield source


class SourceOptions(Parameters):
    """What cannot be seen from the data itself: the dialect of a text file, a sheet, and the texts that mean missing.

    >>> SourceOptions(delimiter=";", missing=["", "?"]).missing
    ['', '?']
    """

    delimiter: str | None = Field(
        default=None, description="character between fields; without it, found among comma, semicolon, tab and |"
    )
    quote: str = Field(default='"', description="character around quoted fields; empty: there is no quoting")
    encoding: str = Field(default="utf-8", description="character encoding; a UTF-8 byte order mark is dropped")
    header: bool = Field(default=True, description="whether the first record holds the column names")
    names: list[str] | None = Field(
        default=None, description="column names, in place of the header's or of c1, c2, ... if there is no header"
    )
    missing: list[str] = Field(
        default=[""], description="texts that mean missing, in every column; blanks around them count, but see trim"
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
        """What is done to values as they are read."""
        own = {name: tuple(markers) for name, markers in self.missing_in.items()}
        return Cleaning(tuple(self.missing), own, frozenset(self.decimal_comma), self.trim)

    @property
    def reading(self) -> dict[str, object]:
        """What a manifest must say, besides the texts that mean missing everywhere, to read the same values again."""
        return self.model_dump(include={"missing_in", "decimal_comma", "trim"}, exclude_defaults=True)

    def check_columns(self, source: Source) -> None:
        """Raise if a column is named that the source does not have."""
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
            raise ValueError(f"{field.field_name} must be one ASCII character that ends no line, got {character!r}")
        return character

    @model_validator(mode="after")
    def _check_different(self) -> Self:
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        return self


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file of a source as it was when it was opened, before any of it was read.

    A run reads its source several times. Its digest is asked for once the release is verified, and given only of a file
    that is still the same: then it is the digest of the bytes that were read. Who asks before has it taken earlier.
    """

    path: Path
    state: tuple[int, ...]
    sha256: str  # of a file that had changed just before, whose times may not tell that it changes again; else empty
    taken: list[str] = field(default_factory=list, compare=False)  # once: the digest

    @classmethod
    def of(cls, path: Path) -> OpenedFile:
        """Remember what a file is now."""
        state = _state(path)
        lately = time.time_ns() - max(state[-2:]) < _SETTLED
        return cls(path, state, file_digest(path) if lately else "")

    def digest(self) -> str:
        """Return the SHA-256 of the file's bytes, or raise if they may be others than those that were read."""
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
    """Return a module that an extra installs; without it, say what to install."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        package = module.partition(".")[0].replace("_", "-")
        raise UsageError(f"{use} needs the package {package}; install shoal[{extra}]") from None

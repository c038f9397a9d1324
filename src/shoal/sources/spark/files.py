"""Parquet files that workers read by themselves, each partition some row groups of them.

Nothing of them has to be kept: a task that runs again reads again, and refuses a file that is no longer the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.errors import InputError, UsageError
from shoal.sources.options import SourceOptions
from shoal.sources.parquet import ENDINGS, ParquetSource, open_parquet
from shoal.sources.spark.session import told
from shoal.sources.spark.source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHARES = 8  # partitions of a small table
FEWEST_ROWS, MOST_ROWS = 1 << 19, 1 << 21  # of a partition, as far as row groups allow


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a file, and what tells whether it is still the same."""

    path: Path
    size: int
    modified: int
    row_groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FileForm:
    """How workers read the row groups of their partitions."""

    source: ParquetSource
    schema: pa.Schema
    parts: tuple[tuple[FilePart, ...], ...]

    def opened(self, number: int, batches: Iterator[pa.RecordBatch]) -> ParquetSource:
        """Return the rows of a partition as a source; what Spark sends is only a number."""
        for _ in batches:  # a worker that does not hear Spark out is not used again
            pass
        parts = self.parts[number]
        for part in parts:
            _check_same(part, self.source.name)
        return ParquetSource(
            self.source.name,
            self.schema,
            None,
            self.source.missing,
            self.source.path,
            tuple(part.path for part in parts),
            self.source.batch_rows,
            (),
            {part.path: part.row_groups for part in parts},
        )


@dataclass(frozen=True, slots=True, eq=False)
class SparkFiles(SparkSource):
    """Parquet files that the driver and all workers see under the same paths."""

    file: ParquetSource
    parts: tuple[tuple[FilePart, ...], ...]

    def selected(self, columns: Sequence[str]) -> tuple[DataFrame, FileForm]:
        """Return a number for each partition, and what workers must know to read these columns of it."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return self.frame, FileForm(self.file, schema, self.parts)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        yield from self.file._read(columns, coded)  # noqa: SLF001  of the same family

    def digest(self) -> str:
        """Return the digest of the files."""
        return self.file.digest()

    def forget(self) -> None:
        """Do nothing: files are not kept."""


def open_spark_files(path: Path, session: SparkSession, options: SourceOptions | None = None) -> SparkFiles:
    """Open a Parquet file or a folder of them, which the driver and all workers must see under the same path."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if not path.is_dir() and path.suffix.lower() not in ENDINGS:
        raise UsageError(f"the Spark engine reads Parquet, not {path.name}; convert it, or take the local engine")
    file = open_parquet(path.absolute(), options or SourceOptions())
    with told(file.name):
        parts, rows = _divided(file)
        frame = session.range(0, len(parts), 1, len(parts))
    return SparkFiles(file.name, file.schema, file.n_rows, file.missing, frame, rows, file, parts)


def _divided(file: ParquetSource) -> tuple[tuple[tuple[FilePart, ...], ...], tuple[int, ...]]:
    """Return the parts of each partition, neighbours in the order of the rows, and how many rows each has.

    The number of cores decides nothing, so that a run with a seed can be repeated elsewhere.
    """
    assert file.n_rows is not None  # noqa: S101  a footer tells
    wanted = min(max(-(-file.n_rows // _SHARES), FEWEST_ROWS), MOST_ROWS)
    found = [(path, path.stat(), group, rows) for path in file.paths for group, rows in enumerate(_group_rows(path))]
    before = itertools.accumulate((rows for *_, rows in found), initial=0)
    parts, rows = [], []
    for _, numbered in itertools.groupby(zip(before, found, strict=False), key=lambda one: one[0] // wanted):
        groups = [one for _, one in numbered]
        by_path = itertools.groupby(groups, key=lambda one: (one[0], one[1].st_size, one[1].st_mtime_ns))
        parts.append(tuple(FilePart(*of_file, tuple(one[2] for one in some)) for of_file, some in by_path))
        rows.append(sum(one[3] for one in groups))
    return tuple(parts), tuple(rows)


def _group_rows(path: Path) -> list[int]:
    with pq.ParquetFile(path) as file:
        return [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]


def _check_same(part: FilePart, name: str) -> None:
    try:
        found = part.path.stat()
    except OSError as error:
        raise InputError(
            f"a worker cannot read {name}: {error.strerror}; all workers must see it under the path of the driver"
        ) from None
    if (found.st_size, found.st_mtime_ns) != (part.size, part.modified):
        raise InputError(f"{name} changed while it was being read; nothing was published")

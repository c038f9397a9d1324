"""Spark DataFrames and Parquet files as sources that always have the same rows in the same partitions.

A DataFrame is computed and cached once, because a query may give another result when it runs again. Files are not
cached: a repeated task reads its file again, and raises if the file has changed.
"""

from __future__ import annotations

import contextlib
import itertools
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.errors import InputError, UsageError
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import UNCHANGED, check_names, normal_schema
from shoal.sources.parquet import ENDINGS, ParquetSource, open_parquet
from shoal.sources.spark import shipping
from shoal.sources.spark.session import explain_failures

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_SHARES = 8  # partitions of a small table
FEWEST_ROWS, MOST_ROWS = 1 << 19, 1 << 21  # per partition, if row groups allow it


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource(Source):
    """A table whose partitions always have the same rows."""

    frame: DataFrame  # the input of the tasks
    partitions: tuple[int, ...]  # (n_partitions,) rows

    @abstractmethod
    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.Form]:
        """Return the input of the tasks, and the form by which they read these columns from it."""

    @abstractmethod
    def forget(self) -> None:
        """Remove the cached rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkFrame(SparkSource):
    """A Spark DataFrame that was computed once and whose packed rows Spark keeps."""

    waiting: shipping.HeldPieces
    places: Mapping[str, int]  # of columns among the packed ones, which are all but nested columns
    sha256: str

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.PackedForm]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        places = tuple(self.places[name] for name in columns)
        return self.frame.select("message"), shipping.PackedForm(self.name, schema, self.cleaning, places)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with explain_failures(self.name):
            for _, batch in self.waiting.batches([self.places[name] for name in columns]):
                yield batch

    def digest(self) -> str:
        """Return the SHA-256 of the sums of all row hashes, which do not depend on the order of rows or partitions."""
        return self.sha256

    def forget(self) -> None:
        forget(self.frame)


def open_spark(frame: DataFrame, options: SourceOptions | None = None, name: str = "the Spark DataFrame") -> SparkFrame:
    """Compute a DataFrame once and keep its rows, because a query may give another result when it runs again."""
    if frame.isStreaming:
        raise UsageError("a streaming DataFrame has no end; write it to a table first, and give that")
    check_names(frame.columns, name)
    with explain_failures(name):
        schema = normal_schema(shipping.arrow_schema(frame))
        flat = [place for place, field in enumerate(schema) if not pa.types.is_nested(field.type)]
        names = [schema.names[place] for place in flat]
        form = shipping.PartitionForm(name, pa.schema([schema.field(place) for place in flat]), UNCHANGED)
        pieces = keep(shipping.on_partitions(_add_hashes(frame, flat), shipping.PackPartition(form), shipping.PACKED))
        waiting = shipping.HeldPieces.of(pieces)
        sums = pieces.select("sums").toArrow().column(0).to_pylist()
    if not waiting.numbers:
        raise InputError(f"{name} has no rows")
    rows = dict(zip(waiting.numbers, waiting.entries, strict=True))
    return SparkFrame(
        name,
        schema,
        sum(waiting.entries),
        (options or SourceOptions()).cleaning,
        pieces,
        tuple(rows.get(number, 0) for number in range(max(rows) + 1)),
        waiting,
        {each: place for place, each in enumerate(names)},
        shipping.digest_of(schema.names, sum(waiting.entries), sums),
    )


def _add_hashes(frame: DataFrame, places: Sequence[int]) -> DataFrame:
    """Return the columns at these places, followed by the SHA-256 of each row's columns."""
    from pyspark.sql import functions

    rows = shipping.by_places(frame)
    text = functions.to_json(functions.struct(*rows.columns), {"timeZone": "UTC"})
    hashed = functions.unhex(functions.sha2(functions.encode(text, "UTF-8"), 256))
    return rows.select(*(str(place) for place in places), hashed.alias("hash"))


def keep(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame once, and cut its lineage.

    If the session has a checkpoint folder, the rows are kept there. Otherwise the workers keep them, and a lost worker
    ends the run.
    """
    folder = frame.sparkSession.conf.get("spark.checkpoint.dir", None)
    return frame.checkpoint(eager=True) if folder else frame.localCheckpoint(eager=True)


def forget(frame: DataFrame) -> None:
    """Remove the rows that :func:`keep` keeps from workers and checkpoint folder; Spark Connect does so itself."""
    java = getattr(frame, "_jdf", None)
    if java is None:
        return
    with contextlib.suppress(Exception):  # if Spark has ended, nothing can be removed
        rows = java.queryExecution().logical().rdd()
        rows.unpersist(False)
        file = rows.getCheckpointFile()
        if file.isDefined():
            virtual_machine = frame.sparkSession.sparkContext._jvm  # noqa: SLF001  the only access to Hadoop's files
            path = virtual_machine.org.apache.hadoop.fs.Path(file.get())  # type: ignore[union-attr]
            path.getFileSystem(java.sparkSession().sparkContext().hadoopConfiguration()).delete(path, True)


@dataclass(frozen=True, slots=True)
class FilePart:
    """Some row groups of a file, and the size and time by which a change is noticed."""

    path: Path
    size: int
    modified: int
    row_groups: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FileForm:
    """The form of partitions that are row groups of files."""

    source: ParquetSource
    schema: pa.Schema
    parts: tuple[tuple[FilePart, ...], ...]

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> ParquetSource:
        """Return the rows of a partition; Spark's batches only contain its number."""
        for _ in batches:  # Spark does not reuse a worker that has not read its input
            pass
        parts = self.parts[number]
        for part in parts:
            _check_same(part, self.source.name)
        groups = {part.path: part.row_groups for part in parts}
        return replace(self.source, schema=self.schema, n_rows=None, paths=tuple(groups), files=(), row_groups=groups)


@dataclass(frozen=True, slots=True, eq=False)
class SparkFiles(SparkSource):
    """Parquet files that the driver and all workers can read under the same paths."""

    file: ParquetSource
    parts: tuple[tuple[FilePart, ...], ...]

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, FileForm]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        return self.frame, FileForm(self.file, schema, self.parts)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        yield from self.file._read(columns, coded)  # noqa: SLF001  of the same family

    def digest(self) -> str:
        return self.file.digest()

    def forget(self) -> None:
        """Do nothing: rows of files are not cached."""


def open_spark_files(path: Path, session: SparkSession, options: SourceOptions | None = None) -> SparkFiles:
    """Open a Parquet file or folder, which the driver and all workers must be able to read under the same path."""
    if not path.exists():
        raise InputError(f"there is no file {path}")
    if not path.is_dir() and path.suffix.lower() not in ENDINGS:
        raise UsageError(f"the Spark engine reads Parquet, not {path.name}; convert it, or use the local engine")
    file = open_parquet(path.absolute(), options or SourceOptions())
    (options or SourceOptions()).check_columns(file)
    with explain_failures(file.name):
        parts, rows = _divide(file)
        frame = session.range(0, len(parts), 1, len(parts))
    return SparkFiles(file.name, file.schema, file.n_rows, file.cleaning, frame, rows, file, parts)


def _divide(file: ParquetSource) -> tuple[tuple[tuple[FilePart, ...], ...], tuple[int, ...]]:
    """Return the file parts of each partition, in the order of the rows, and the number of rows of each.

    The result does not depend on the number of cores, so a run with a seed can be repeated on another machine.
    """
    assert file.n_rows is not None  # noqa: S101  Parquet files have it
    wanted = min(max(-(-file.n_rows // _SHARES), FEWEST_ROWS), MOST_ROWS)
    found = []
    for path in file.paths:
        about = pq.read_metadata(path)
        found += [(path, path.stat(), n, about.row_group(n).num_rows) for n in range(about.num_row_groups)]
    before = itertools.accumulate((rows for *_, rows in found), initial=0)
    parts, rows = [], []
    for _, numbered in itertools.groupby(zip(before, found, strict=False), key=lambda one: one[0] // wanted):
        groups = [one for _, one in numbered]
        by_path = itertools.groupby(groups, key=lambda one: (one[0], one[1].st_size, one[1].st_mtime_ns))
        parts.append(tuple(FilePart(*of_file, tuple(one[2] for one in some)) for of_file, some in by_path))
        rows.append(sum(one[3] for one in groups))
    return tuple(parts), tuple(rows)


def _check_same(part: FilePart, name: str) -> None:
    try:
        found = part.path.stat()
    except OSError as error:
        raise InputError(
            f"a worker cannot read {name}: {error.strerror}; all workers must see it under the path of the driver"
        ) from None
    if (found.st_size, found.st_mtime_ns) != (part.size, part.modified):
        raise InputError(f"{name} changed while it was being read; nothing was published")


class SparkRows:
    """The rows of a DataFrame that Spark has computed and keeps."""

    def __init__(self, frame: DataFrame) -> None:
        with explain_failures("the release"):
            self.schema = shipping.arrow_schema(frame)
        self.columns = tuple(self.schema.names)
        self._frame = frame

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.PartitionForm]:
        places = [self.schema.get_field_index(name) for name in columns]
        wanted = shipping.by_places(shipping.by_places(self._frame).select(*(str(place) for place in places)))
        return wanted, shipping.PartitionForm(
            "the release", pa.schema([self.schema.field(place) for place in places]), UNCHANGED
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns, texts with a new dictionary in every batch."""
        wanted, form = self.select_columns(columns)
        with explain_failures("the release"):
            for _, batch in shipping.stream_pieces(shipping.pieces_of(wanted, shipping.ShipPartition(form))):
                yield batch

"""Spark DataFrames and Parquet files as sources, always with the same rows in the same partitions.

A DataFrame is kept once: a query that runs twice may answer twice. Of files nothing has to be kept: a task that runs
again reads again, and refuses a file that is no longer the same.
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
FEWEST_ROWS, MOST_ROWS = 1 << 19, 1 << 21  # of a partition, as far as row groups allow


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource(Source):
    """A table in partitions, always with the same rows in the same partitions."""

    frame: DataFrame  # what Spark sends to the tasks of all partitions
    partitions: tuple[int, ...]  # rows of each

    @abstractmethod
    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.Form]:
        """Return what Spark sends to the tasks of all partitions, and what workers must know to read these columns."""

    @abstractmethod
    def forget(self) -> None:
        """Remove what is kept of the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkFrame(SparkSource):
    """A Spark DataFrame that was computed once; its rows are kept by Spark, packed."""

    waiting: shipping.HeldPieces
    places: Mapping[str, int]  # of columns among those that are packed: all but nested ones, which nobody reads
    sha256: str

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.PackedForm]:
        """Return the pieces, and how some columns of them are read."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        places = tuple(self.places[name] for name in columns)
        return self.frame.select("message"), shipping.PackedForm(self.name, schema, self.cleaning, places)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with explain_failures(self.name):
            for _, batch in self.waiting.batches([self.places[name] for name in columns]):
                yield batch

    def digest(self) -> str:
        """Return the SHA-256 of the sums of all rows' SHA-256, which no order and no partitioning changes."""
        return self.sha256

    def forget(self) -> None:
        forget(self.frame)


def open_spark(frame: DataFrame, options: SourceOptions | None = None, name: str = "the Spark DataFrame") -> SparkFrame:
    """Compute a DataFrame once and keep its rows: a query that runs twice may answer twice."""
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
    """Return the columns at these places, and last the SHA-256 of all columns of each row."""
    from pyspark.sql import functions

    rows = shipping.by_places(frame)
    text = functions.to_json(functions.struct(*rows.columns), {"timeZone": "UTC"})
    hashed = functions.unhex(functions.sha2(functions.encode(text, "UTF-8"), 256))
    return rows.select(*(str(place) for place in places), hashed.alias("hash"))


def keep(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame now, once, and forget what it came from.

    Where the session has a checkpoint folder the rows wait there and outlive a worker; else with the workers, and
    losing one of these ends the run.
    """
    folder = frame.sparkSession.conf.get("spark.checkpoint.dir", None)
    return frame.checkpoint(eager=True) if folder else frame.localCheckpoint(eager=True)


def forget(frame: DataFrame) -> None:
    """Remove what :func:`keep` keeps, from the workers and from the checkpoint folder; Spark Connect does so itself."""
    java = getattr(frame, "_jdf", None)
    if java is None:
        return
    with contextlib.suppress(Exception):  # where Spark has ended there is nothing to remove it with
        rows = java.queryExecution().logical().rdd()
        rows.unpersist(False)
        file = rows.getCheckpointFile()
        if file.isDefined():
            virtual_machine = frame.sparkSession.sparkContext._jvm  # noqa: SLF001  pyspark has no other way to files
            path = virtual_machine.org.apache.hadoop.fs.Path(file.get())  # type: ignore[union-attr]
            path.getFileSystem(java.sparkSession().sparkContext().hadoopConfiguration()).delete(path, True)


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

    def open(self, number: int, batches: Iterator[pa.RecordBatch]) -> ParquetSource:
        """Return the rows of a partition as a source; what Spark sends is only a number."""
        for _ in batches:  # a worker that does not hear Spark out is not used again
            pass
        parts = self.parts[number]
        for part in parts:
            _check_same(part, self.source.name)
        groups = {part.path: part.row_groups for part in parts}
        return replace(self.source, schema=self.schema, n_rows=None, paths=tuple(groups), files=(), row_groups=groups)


@dataclass(frozen=True, slots=True, eq=False)
class SparkFiles(SparkSource):
    """Parquet files that the driver and all workers see under the same paths."""

    file: ParquetSource
    parts: tuple[tuple[FilePart, ...], ...]

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, FileForm]:
        """Return a number for each partition, and what workers must know to read these columns of it."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        return self.frame, FileForm(self.file, schema, self.parts)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        yield from self.file._read(columns, coded)  # noqa: SLF001  of the same family

    def digest(self) -> str:
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
    (options or SourceOptions()).check_columns(file)
    with explain_failures(file.name):
        parts, rows = _divide(file)
        frame = session.range(0, len(parts), 1, len(parts))
    return SparkFiles(file.name, file.schema, file.n_rows, file.cleaning, frame, rows, file, parts)


def _divide(file: ParquetSource) -> tuple[tuple[tuple[FilePart, ...], ...], tuple[int, ...]]:
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


class SparkRows:
    """The rows of a DataFrame that Spark has computed once and keeps, a partition at a time."""

    def __init__(self, frame: DataFrame) -> None:
        with explain_failures("the release"):
            self.schema = shipping.arrow_schema(frame)
        self.columns = tuple(self.schema.names)
        self._frame = frame

    def select_columns(self, columns: Sequence[str]) -> tuple[DataFrame, shipping.PartitionForm]:
        """Return these columns, named by their places, and how they are read."""
        places = [self.schema.get_field_index(name) for name in columns]
        wanted = shipping.by_places(shipping.by_places(self._frame).select(*(str(place) for place in places)))
        return wanted, shipping.PartitionForm(
            "the release", pa.schema([self.schema.field(place) for place in places]), UNCHANGED
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; texts come as dictionaries, a new one for every batch."""
        wanted, form = self.select_columns(columns)
        with explain_failures("the release"):
            for _, batch in shipping.stream_pieces(shipping.pieces_of(wanted, shipping.ShipPartition(form))):
                yield batch

"""Spark DataFrames as sources: kept once, so that every pass sees the same rows in the same partitions."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.errors import InputError, UsageError
from shoal.sources.base import Source
from shoal.sources.columns import check_names, normal_schema
from shoal.sources.options import SourceOptions
from shoal.sources.spark.packing import PACKED, PackedForm, PackPartition, digest_of
from shoal.sources.spark.session import told
from shoal.sources.spark.shipping import (
    Form,
    HeldPieces,
    PartitionForm,
    arrow_schema,
    by_places,
    on_partitions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource(Source):
    """A table in partitions, always with the same rows in the same partitions."""

    frame: DataFrame  # what Spark sends to the tasks of all partitions
    partitions: tuple[int, ...]  # rows of each

    @abstractmethod
    def selected(self, columns: Sequence[str]) -> tuple[DataFrame, Form]:
        """Return what Spark sends to the tasks of all partitions, and what workers must know to read these columns."""

    @abstractmethod
    def forget(self) -> None:
        """Remove what is kept of the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class SparkFrame(SparkSource):
    """A Spark DataFrame that was computed once; its rows are kept by Spark, packed."""

    waiting: HeldPieces
    places: Mapping[str, int]  # of columns among those that are packed: all but nested ones, which nobody reads
    sha256: str

    def selected(self, columns: Sequence[str]) -> tuple[DataFrame, PackedForm]:
        """Return the pieces, and how some columns of them are read."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        places = tuple(self.places[name] for name in columns)
        return self.frame.select("message"), PackedForm(self.name, schema, self.missing, places)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with told(self.name):
            for _, batch in self.waiting.batches([self.places[name] for name in columns]):
                yield batch

    def digest(self) -> str:
        """Return the SHA-256 of the sums of all rows' SHA-256, which no order and no partitioning changes."""
        return self.sha256

    def forget(self) -> None:
        """Remove what is kept of the rows."""
        forget(self.frame)


def open_spark(frame: DataFrame, options: SourceOptions | None = None, name: str = "the Spark DataFrame") -> SparkFrame:
    """Compute a DataFrame once and keep its rows: a query that runs twice may answer twice."""
    if frame.isStreaming:
        raise UsageError("a streaming DataFrame has no end; write it to a table first, and give that")
    check_names(frame.columns, name)
    with told(name):
        schema = normal_schema(arrow_schema(frame))
        flat = [place for place, field in enumerate(schema) if not pa.types.is_nested(field.type)]
        names = [schema.names[place] for place in flat]
        form = PartitionForm(name, pa.schema([schema.field(place) for place in flat]), ())
        pieces = kept(on_partitions(_hashed(frame, flat), PackPartition(form), PACKED))
        waiting = HeldPieces.of(pieces)
        sums = pieces.select("sums").toArrow().column(0).to_pylist()
    if not waiting.numbers:
        raise InputError(f"{name} has no rows")
    rows = dict(zip(waiting.numbers, waiting.entries, strict=True))
    return SparkFrame(
        name,
        schema,
        sum(waiting.entries),
        tuple((options or SourceOptions()).missing),
        pieces,
        tuple(rows.get(number, 0) for number in range(max(rows) + 1)),
        waiting,
        {each: place for place, each in enumerate(names)},
        digest_of(schema.names, sum(waiting.entries), sums),
    )


def _hashed(frame: DataFrame, places: Sequence[int]) -> DataFrame:
    """Return the columns at these places, and last the SHA-256 of all columns of each row."""
    from pyspark.sql import functions

    rows = by_places(frame)
    text = functions.to_json(functions.struct(*rows.columns), {"timeZone": "UTC"})
    hashed = functions.unhex(functions.sha2(functions.encode(text, "UTF-8"), 256))
    return rows.select(*(str(place) for place in places), hashed.alias("hash"))


def kept(frame: DataFrame) -> DataFrame:
    """Compute a DataFrame now, once, and forget what it came from.

    Where the session has a checkpoint folder the rows wait there and outlive a worker; else with the workers, and
    losing one of these ends the run.
    """
    folder = frame.sparkSession.conf.get("spark.checkpoint.dir", None)
    return frame.checkpoint(eager=True) if folder else frame.localCheckpoint(eager=True)


def forget(frame: DataFrame) -> None:
    """Remove what :func:`kept` keeps, from the workers and from the checkpoint folder; Spark Connect does so itself."""
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

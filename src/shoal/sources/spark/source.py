"""Spark DataFrames as sources: kept once, so that every pass sees the same rows in the same partitions."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.errors import InputError, UsageError
from shoal.sources.base import Source
from shoal.sources.columns import check_names, normal_schema
from shoal.sources.options import SourceOptions
from shoal.sources.spark.session import told
from shoal.sources.spark.shipping import (
    Form,
    PartitionForm,
    ShipPartition,
    arrow_schema,
    by_places,
    pieces_of,
    streamed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DIGITS = 15  # hexadecimal digits of a row's hash that are summed at a time: they fit into 64 bits


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource(Source):
    """A Spark DataFrame that was computed once and is kept by Spark."""

    frame: DataFrame  # its columns are named by their places
    partitions: tuple[int, ...]  # rows of each

    def selected(self, columns: Sequence[str]) -> tuple[DataFrame, Form]:
        """Return what Spark sends to the tasks of all partitions, and what workers must know to read these columns."""
        return self._selected(columns)

    def _selected(self, columns: Sequence[str]) -> tuple[DataFrame, PartitionForm]:
        """Return some columns, named by their places in *columns*, and how they are read."""
        places = [self.schema.get_field_index(name) for name in columns]
        schema = pa.schema([self.schema.field(place) for place in places])
        frame = self.frame.select(*(str(place) for place in places))
        return by_places(frame), PartitionForm(self.name, schema, self.missing)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        wanted, form = self._selected(columns)
        with told(self.name):
            for _, batch in streamed(pieces_of(wanted, ShipPartition(form))):
                yield batch

    def digest(self) -> str:
        """Return the SHA-256 of the sums of all rows' SHA-256, which no order and no partitioning changes."""
        from pyspark.sql import functions

        text = functions.to_json(functions.struct(*self.frame.columns), {"timeZone": "UTC"})
        hashed = functions.sha2(functions.encode(text, "UTF-8"), 256)

        def summed(start: int) -> Column:
            number = functions.conv(functions.substring(hashed, start, _DIGITS), 16, 10)
            return functions.sum(number.cast("decimal(38,0)"))

        sums = [summed(1 + _DIGITS * place).alias(str(place)) for place in range(4)]
        with told(self.name):
            (row,) = self.frame.agg(functions.count(functions.lit(1)).alias("rows"), *sums).collect()
        content = "\n".join([*self.schema.names, *(str(value) for value in row)])
        return hashlib.sha256(content.encode()).hexdigest()

    def forget(self) -> None:
        """Remove what is kept of the rows."""
        forget(self.frame)


def open_spark(
    frame: DataFrame, options: SourceOptions | None = None, name: str = "the Spark DataFrame"
) -> SparkSource:
    """Compute a DataFrame once and keep its rows: a query that runs twice may answer twice."""
    from pyspark.sql import functions

    if frame.isStreaming:
        raise UsageError("a streaming DataFrame has no end; write it to a table first, and give that")
    check_names(frame.columns, name)
    with told(name):
        fixed = kept(by_places(frame))
        schema = normal_schema(arrow_schema(frame))
        number = functions.spark_partition_id().alias("partition")
        rows = {row["partition"]: row["count"] for row in fixed.groupBy(number).count().collect()}
    if not rows:
        raise InputError(f"{name} has no rows")
    partitions = tuple(rows.get(number, 0) for number in range(max(rows) + 1))
    return SparkSource(name, schema, sum(partitions), tuple((options or SourceOptions()).missing), fixed, partitions)


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

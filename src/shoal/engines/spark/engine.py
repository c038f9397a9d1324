"""The Spark engine: what the local engine does to all batches, done where the partitions are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Progress
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.spark.counting import LocatePartition, count_partitions, sample_partitions
from shoal.plan.counted import LocatedBatch, Thinning
from shoal.sources.base import Source
from shoal.sources.spark.session import explain_failures, quiet, spark_session
from shoal.sources.spark.shipping import pieces_of, stream_pieces
from shoal.sources.spark.source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Found = TypeVar("Found", CountedCells, SampledCells)


class SparkEngine(LocalEngine):
    """Counts and locates the rows of Spark DataFrames on Spark, and those of other sources on the driver."""

    def count(self, source: Source, columns: Sequence[str], progress: Progress) -> CountedCells:
        """Reduce the source to the distinct combinations of *columns*: the same cells as the local engine finds."""
        if not isinstance(source, SparkSource):
            return super().count(source, columns, progress)
        with progress.step("counting", source.n_rows) as step:
            counted = count_partitions(source, columns)
            assert counted is not None  # noqa: S101  there was no limit
            step.advance(counted.n_rows)
        return _complete(counted, source)

    def look(
        self, source: Source, columns: Sequence[str], progress: Progress, thinning: Thinning
    ) -> CountedCells | SampledCells:
        """Count the source, or draw a sample of it where it has more cells than the driver may hold."""
        if not isinstance(source, SparkSource):
            return super().look(source, columns, progress, thinning)
        with progress.step("counting", source.n_rows) as step:
            counted = count_partitions(source, columns, thinning.most_cells)
            if counted is not None:
                step.advance(counted.n_rows)
                return _complete(counted, source)
            looked = sample_partitions(source, columns, thinning.share_of(source.n_rows or 0), thinning.secret())
            step.advance(looked.n_rows)
        return _complete(looked, source)

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Yield the batches of all partitions, in their order, with the cell of every row."""
        if not isinstance(source, SparkSource):
            yield from super().locate(source, counted, carried, progress)
            return
        wanted, form = source.select_columns(list(dict.fromkeys([*counted.columns, *carried])))
        work = LocatePartition(form, counted, tuple(carried))
        with explain_failures(source.name), progress.step("rewriting", counted.n_rows) as step:
            for _, batch in stream_pieces(pieces_of(wanted, work)):
                rest = batch.select(list(range(1, batch.num_columns))).rename_columns(list(carried))
                yield LocatedBatch(rest, np.array(batch.column(0)).astype(np.int64))
                step.advance(batch.num_rows)


def _complete(counted: Found, source: SparkSource) -> Found:
    if counted.n_rows != source.n_rows:
        raise InputError(f"{source.name} changed while it was being read; nothing was published")
    return counted


# Workers that are ready before the first row is read.

_ROWS = 1 << 12  # no fewer than there are cores: Spark makes a partition for each of them


def ready_session(master: str | None) -> SparkSession:
    """Return the session on a master, all of whose workers have shoal in this version."""
    session = spark_session(master)
    make_ready(session)
    return session


def make_ready(session: SparkSession) -> None:
    """Have a worker for each core load shoal, so that no step waits for it; raise if they have another version."""
    from shoal import __version__ as here

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            import shoal.engines.spark.rewriting  # it loads everything that tasks need

            found = shoal.__version__
        except ImportError:
            found = "none"
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [found]})

    with quiet(), explain_failures("its workers"):
        found = session.range(_ROWS).mapInArrow(load, "version string").toArrow().column("version")
    others = sorted({*found.to_pylist()} - {here})
    if others:
        raise UsageError(f"every worker of Spark needs shoal {here}, as the driver has it; found: {', '.join(others)}")

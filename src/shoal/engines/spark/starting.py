"""Workers that are ready before the first row is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.errors import UsageError
from shoal.sources.spark.session import quiet, spark_session, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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

    with quiet(), told("its workers"):
        found = session.range(_ROWS).mapInArrow(load, "version string").toArrow().column("version")
    others = sorted({*found.to_pylist()} - {here})
    if others:
        raise UsageError(f"every worker of Spark needs shoal {here}, as the driver has it; found: {', '.join(others)}")

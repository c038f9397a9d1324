"""One anonymization on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal.anonymizing import Run, refuse_unverified
from shoal.errors import UsageError
from shoal.publishing import GeneralizedPublication, Publication, PublishedRows
from shoal.release import Release
from shoal.sources import Source, open_source
from shoal.sources.base import layers
from shoal.sources.frames import is_spark_frame
from shoal.sources.options import SourceOptions
from shoal.spark.engine import SparkEngine
from shoal.spark.rewriting import rewritten
from shoal.spark.rows import SparkRows
from shoal.spark.session import quiet, spark_session, told
from shoal.spark.source import SparkSource, open_spark_files
from shoal.verify import verify_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkRun(Run):
    """Counts and rewrites on Spark what is there as Spark gave it; what techniques or samples change, on the driver."""

    __slots__ = ()

    @classmethod
    def _opened(cls, data: object, options: SourceOptions) -> Source:
        """Open a DataFrame, or Parquet files, on Spark."""
        if isinstance(data, str | Path):
            return open_spark_files(Path(data), spark_session(), options)
        if isinstance(data, Source) or is_spark_frame(data):
            return open_source(data, options)
        raise UsageError(f"the Spark engine reads Spark DataFrames and Parquet files, not {type(data).__name__}")

    @property
    def engine(self) -> SparkEngine:
        """The engine; its threads are for what the driver reads itself."""
        return SparkEngine(self.budget.threads)

    def _rows(self, publication: Publication, folder: Path | None) -> PublishedRows:
        """Return the published rows, rewritten on Spark if each of them is one record."""
        frame = self._rewritten(publication)
        return super()._rows(publication, folder) if frame is None else PublishedRows(_batches(frame))

    def _in_memory(self, publication: Publication, manifest: dict[str, Any], data: object) -> Release:
        """Verify what Spark keeps, and hand that out."""
        if not is_spark_frame(data):
            return super()._in_memory(publication, manifest, data)
        with self._timed("apply"):
            frame = self._rewritten(publication)
        if frame is None:
            release = super()._in_memory(publication, manifest, data)
            return Release(release.manifest, release.evidence, release.verification, data=self._shared(release.data))
        with self._timed("verify"):
            verification = verify_table(
                SparkRows(frame), manifest, source=self.given, populations=self.populations, progress=self.progress
            )
        refuse_unverified(verification)
        evidence = self._evidence(publication, manifest, verification)
        return Release(manifest, evidence, verification, data=frame)

    def _rewritten(self, publication: Publication) -> DataFrame | None:
        source = self.source
        if not isinstance(source, SparkSource) or type(publication) is not GeneralizedPublication:
            return None
        with self.progress.step("rewriting", publication.n_rows) as step:
            frame = rewritten(publication, source, self.chance)
            step.advance(publication.n_rows)
        return frame

    def _shared(self, rows: object) -> DataFrame:
        """Return rows that the driver made as a DataFrame."""
        given = list(layers(self.given))[-1]
        assert isinstance(given, SparkSource) and isinstance(rows, pa.Table)  # noqa: S101, PT018  a frame was given
        with quiet(), told(given.name):
            return given.frame.sparkSession.createDataFrame(rows)


def _batches(frame: DataFrame) -> Iterator[pa.RecordBatch]:
    rows = SparkRows(frame)
    return rows.batches(rows.columns)

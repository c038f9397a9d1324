"""One anonymization on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from shoal.anonymizing import Run
from shoal.errors import UsageError
from shoal.publishing import GeneralizedPublication, Publication, PublishedRows
from shoal.refusing import refuse_unverified
from shoal.release import Release
from shoal.sources import Source, open_source
from shoal.sources.base import layers
from shoal.sources.frames import is_spark_frame
from shoal.sources.options import SourceOptions
from shoal.sources.spark.session import quiet, spark_session, told
from shoal.sources.spark.shipping import streamed
from shoal.sources.spark.source import SparkSource, forget, open_spark_files
from shoal.spark.engine import SparkEngine
from shoal.spark.rewriting import rewritten, rewritten_pieces
from shoal.spark.rows import SparkRows
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

    def finish(self, data: object) -> Release:
        """Do all of it, and remove what was kept of the source, whatever happens."""
        given = self.given
        try:
            return super().finish(data)
        finally:
            if isinstance(given, SparkSource) and data is not given:
                forget(given.frame)

    def _rows(self, publication: Publication, folder: Path | None) -> PublishedRows:
        """Return the published rows, rewritten on Spark if each of them is one record."""
        source = self.source
        if not _on_spark(publication) or not isinstance(source, SparkSource):
            return super()._rows(publication, folder)
        with self.progress.step("rewriting", publication.n_rows) as step:
            pieces = rewritten_pieces(publication, source, self.dealing)
            step.advance(publication.n_rows)
        self.held.callback(forget, pieces)
        if source.file is not None:
            self.given = source.file  # the verifier looks at the files themselves: no order of rows matters to it
        return PublishedRows(_written(pieces, publication))

    def _in_memory(self, publication: Publication, manifest: dict[str, Any], data: object) -> Release:
        """Verify what Spark keeps, and hand that out."""
        if not is_spark_frame(data):
            return super()._in_memory(publication, manifest, data)
        source = self.source
        if not _on_spark(publication) or not isinstance(source, SparkSource):
            release = super()._in_memory(publication, manifest, data)
            return replace(release, data=self._shared(release.data))
        with self._timed("apply"), self.progress.step("rewriting", publication.n_rows) as step:
            frame = rewritten(publication, source, self.dealing)
            step.advance(publication.n_rows)
        with self._timed("verify"):
            verification = verify_table(
                SparkRows(frame), manifest, source=self.given, populations=self.populations, progress=self.progress
            )
        refuse_unverified(verification)
        evidence = self._evidence(publication, manifest, verification)
        return Release(manifest, evidence, verification, data=frame)

    def _shared(self, rows: object) -> DataFrame:
        """Return rows that the driver made as a DataFrame."""
        given = list(layers(self.given))[-1]
        assert isinstance(given, SparkSource) and isinstance(rows, pa.Table)  # noqa: S101, PT018  a frame was given
        with quiet(), told(given.name):
            return given.frame.sparkSession.createDataFrame(rows)


def _on_spark(publication: Publication) -> TypeGuard[GeneralizedPublication]:
    """Whether rows are published one by one: then workers can rewrite them."""
    return type(publication) is GeneralizedPublication


def _written(pieces: DataFrame, publication: GeneralizedPublication) -> Iterator[pa.RecordBatch]:
    with told(publication.source.name):
        for _, batch in streamed(pieces):
            yield batch

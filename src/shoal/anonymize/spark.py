"""One anonymization on Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import pyarrow as pa

from shoal.anonymize.refusing import refuse_unverified
from shoal.anonymize.run import Run
from shoal.core.errors import UsageError
from shoal.engines.local import SampledCells
from shoal.engines.spark.engine import SparkEngine
from shoal.engines.spark.regions import LargerOnSpark, RowsOnSpark
from shoal.engines.spark.rewriting import rewrite_frame, rewrite_rows
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.publication import Publication, PublishedRows
from shoal.release.regions import RegionalPublication
from shoal.release.release import Release
from shoal.release.witness import ROW, Witness
from shoal.sources.base import Source, SourceOptions, layers
from shoal.sources.frames import is_spark_frame
from shoal.sources.opening import open_source
from shoal.sources.spark.session import explain_failures, quiet, spark_session
from shoal.sources.spark.shipping import by_places
from shoal.sources.spark.source import SparkSource, open_spark_files
from shoal.verify.passes import Means
from shoal.verify.spark import SparkRows
from shoal.verify.verifier import verify_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkRun(Run):
    """Counts and rewrites on Spark what is there as Spark gave it; what techniques or samples change, on the driver."""

    __slots__ = ()
    keeps_order = False

    @classmethod
    def _open(cls, data: object, options: SourceOptions) -> Source:
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

    @property
    def verifying(self) -> SparkSession | None:
        """The session, if it has workers elsewhere: on one machine the verifier alone is faster."""
        given = list(layers(self.given))[-1]
        session = given.frame.sparkSession if isinstance(given, SparkSource) else None
        return None if session is None or _is_local(session) else session

    def finish(self, data: object) -> Release:
        """Do all of it, and remove what was kept of the source, whatever happens."""
        given = self.given
        try:
            return super().finish(data)
        finally:
            if isinstance(given, SparkSource) and data is not given:
                given.forget()

    def _by_regions(self, looked: SampledCells) -> Publication:
        """Plan a table larger than the driver's memory on Spark, if that is where its rows are."""
        if not isinstance(self.source, SparkSource):
            return super()._by_regions(looked)
        larger = LargerOnSpark(self.policy, self.source, looked, self.budget, self.dealing, self.progress)
        with self._time("plan"):
            return larger.publication(self.held)

    def _rows(self, publication: Publication, folder: Path | None) -> PublishedRows:
        """Return the published rows, rewritten on Spark if each of them is one record."""
        source = self.source
        if not _on_spark(publication) or not isinstance(source, SparkSource):
            return super()._rows(publication, folder)
        with self.progress.step("rewriting", publication.n_rows) as step:
            rows = rewrite_rows(publication, source, self.dealing, self.held)
            step.advance(publication.n_rows)
        return PublishedRows(rows)

    def _in_memory(self, publication: Publication, manifest: dict[str, Any], data: object) -> Release:
        """Verify what Spark keeps, and hand that out."""
        if not is_spark_frame(data):
            return super()._in_memory(publication, manifest, data)
        with self._time("apply"):
            placed = self._frame(publication)
        if placed is None:
            release = super()._in_memory(publication, manifest, data)
            return replace(release, data=self._share(release.data))
        witness = Witness.of(manifest, publication.n_source_rows)
        labelled = [name for name in placed.columns[:-1] if "labels" in manifest["attributes"][name]]
        for _ in witness.watch(SparkRows(placed).batches([*labelled, ROW])):
            pass  # the rows stay where they are
        frame = by_places(placed).select(*map(str, range(len(placed.columns) - 1))).toDF(*placed.columns[:-1])
        with self._time("verify"):
            verification = verify_table(
                SparkRows(frame),
                manifest,
                source=self.given,
                populations=self.populations,
                witness=witness.numbers,
                labelled=publication.tabulate_labels(),
                progress=self.progress,
                means=Means.of(self.budget.limit, spark=self.verifying),
            )
        refuse_unverified(verification)
        for batch in SparkRows(frame).batches(self.counts.columns) if self.counts.columns else ():
            self.counts.add(batch)
        findings = self._find(publication, manifest)
        evidence = self._evidence(publication, verification, findings)
        return Release(manifest, evidence, verification, data=frame)

    def _frame(self, publication: Publication) -> DataFrame | None:
        """Return the published rows, and last their places, as Spark keeps them; None: the driver has to make them."""
        source = self.source
        if not isinstance(source, SparkSource):
            return None
        with self.progress.step("rewriting", publication.n_rows) as step:
            if isinstance(publication, RegionalPublication) and isinstance(publication.waiting, RowsOnSpark):
                frame = publication.waiting.frame(publication)
            elif _on_spark(publication):
                frame = rewrite_frame(publication, source, self.dealing)
            else:
                return None
            step.advance(publication.n_rows)
        return frame

    def _share(self, rows: object) -> DataFrame:
        """Return rows that the driver made as a DataFrame."""
        given = list(layers(self.given))[-1]
        assert isinstance(given, SparkSource) and isinstance(rows, pa.Table)  # noqa: S101, PT018  a frame was given
        with quiet(), explain_failures(given.name):
            return given.frame.sparkSession.createDataFrame(rows)


def _is_local(session: SparkSession) -> bool:
    return (session.conf.get("spark.master", None) or "").startswith("local")


def _on_spark(publication: Publication) -> TypeGuard[GeneralizedPublication]:
    """Whether rows are published one by one: then workers can rewrite them."""
    return type(publication) is GeneralizedPublication

"""One anonymization on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from shoal.anonymize.run import Described, Run
from shoal.audit.marginals import MOST_ROWS
from shoal.core.arrays import IntArray
from shoal.core.errors import UsageError
from shoal.engines.local import SampledCells
from shoal.engines.spark.engine import SparkEngine, ready_session
from shoal.engines.spark.regions import LargerOnSpark
from shoal.engines.spark.rewriting import RowsOnSpark, heaps_for, rewrite
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.publication import ClassPublication, Publication, PublishedRows
from shoal.release.regions import RegionalPublication
from shoal.release.release import Release
from shoal.release.witness import ROW, Witness
from shoal.sources.base import Source, SourceOptions, layers
from shoal.sources.frames import is_spark_frame
from shoal.sources.opening import open_source
from shoal.sources.spark.session import explain_failures, quiet, spark_session
from shoal.sources.spark.shipping import by_places
from shoal.sources.spark.source import SparkRows, SparkSource, open_spark_files


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
    def _on_this_machine(self) -> bool:
        """Whether the source's workers, if it has any, are processes of this machine."""
        given = list(layers(self.given))[-1]
        session = given.frame.sparkSession if isinstance(given, SparkSource) else None
        return session is None or (session.conf.get("spark.master", None) or "").startswith("local")

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
        """Return the published rows, rewritten on Spark if each is one record; on one machine it only finds cells."""
        here = self._on_this_machine and not isinstance(publication, RegionalPublication)
        waiting = None if here else self._wait(publication, heaps_for(publication.n_rows))
        if waiting is None or not isinstance(publication, ClassPublication):
            return super()._rows(publication, folder)
        return PublishedRows(publication.publish_heaps(waiting.heaps(), self.progress))

    def _wait(self, publication: Publication, n_heaps: int) -> RowsOnSpark | None:
        """Return rows that wait on Spark; None: the driver has to make them."""
        if isinstance(publication, RegionalPublication) and isinstance(publication.waiting, RowsOnSpark):
            return publication.waiting
        if type(publication) is GeneralizedPublication and isinstance(self.source, SparkSource):
            return rewrite(publication, self.source, self.dealing, n_heaps)
        return None

    def _apply(
        self, publication: Publication, describing: Described, data: object
    ) -> tuple[pa.Table | SparkRows, IntArray | None, Callable[[], object]]:
        """Return what Spark keeps, and hand that out, if a DataFrame was given."""
        given = list(layers(self.given))[-1]
        if not is_spark_frame(data) or not isinstance(given, SparkSource):
            return super()._apply(publication, describing, data)
        waiting = self._wait(publication, len(given.partitions))
        if waiting is None or not isinstance(publication, ClassPublication):
            table, numbers, give_back = super()._apply(publication, describing, None)
            with quiet(), explain_failures(given.name):
                frame = given.frame.sparkSession.createDataFrame(give_back())
                return table, numbers, lambda: frame
        manifest = describing.result()
        with self.progress.step("rewriting", publication.n_rows) as step:
            placed = waiting.frame(publication)
            step.advance(publication.n_rows)
        witness = Witness.of(manifest, publication.n_source_rows)
        labelled = [name for name in placed.columns[:-1] if "labels" in manifest["attributes"][name]]
        for _ in witness.watch(SparkRows(placed).batches([*labelled, ROW])):
            pass  # the rows stay where they are
        frame = by_places(placed).select(*map(str, range(len(placed.columns) - 1))).toDF(*placed.columns[:-1])
        for batch in SparkRows(frame).batches(self.counts.columns) if self.counts.columns else ():
            self.counts.add(batch)
        share = 1.2 * MOST_ROWS / max(publication.n_rows, 1)  # a few more than are kept
        for batch in SparkRows(frame if share >= 1 else frame.sample(False, share, seed=0)).batches(frame.columns):
            self.sample.add(batch)
        return SparkRows(frame), witness.numbers, lambda: frame


def start_session(data: object, master: str | None) -> dict[str, float]:
    """Have a session and its workers ready; return the seconds that this took. DataFrames have theirs already."""
    began = time.perf_counter()
    if is_spark_frame(data):
        return {}
    ready_session(master)
    return {"start": round(time.perf_counter() - began, 3)}

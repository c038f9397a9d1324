"""A table larger than the driver's memory on Spark: cut on a sample, routed, and planned by a task for each region."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.engines.local import SampledCells
from shoal.engines.partitions.budget import Budget
from shoal.engines.partitions.dividing import Division
from shoal.engines.partitions.routing import RegionCounts
from shoal.engines.partitions.settling import Settled
from shoal.engines.spark.regional_planning import FINDINGS, OrderRows, PlanRegion, PublishRows, findings_of
from shoal.engines.spark.regional_routing import COUNTS, RoutePartition, add_counts
from shoal.policy.policy import Policy
from shoal.release.regions import Numbering, Pooled, RegionalPublication, Renumbering
from shoal.sources.spark.exchange import exchanged, routed
from shoal.sources.spark.session import told
from shoal.sources.spark.shipping import on_partitions, pieces_of, streamed, unpacked_message
from shoal.sources.spark.source import SparkSource, kept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MOST_REGIONS = 1 << 14  # each of them is a task


@dataclass(frozen=True, slots=True, eq=False)
class LargerOnSpark:
    """A table with more cells than the driver holds, and what is needed to publish it region by region on Spark.

    All that tasks draw follows from a secret and from the number of their partition or region, and the pieces that they
    make are functions of what they are sent: a piece that is lost with its worker is made again as it was.
    """

    policy: Policy
    source: SparkSource
    looked: SampledCells
    budget: Budget
    chance: Chance
    progress: Progress

    def publication(self, held: ExitStack) -> RegionalPublication:
        """Plan all regions; the rows wait with the workers until *held* is left."""
        division = Division.of(self.policy, self.looked, self.budget, MOST_REGIONS)
        with told(self.source.name), ExitStack() as routing:
            with self.progress.step("routing", self.looked.n_rows) as step:
                rows = self._persisted(self._routed(division), routing)
                counts = self._counts(division, rows)
                step.advance(self.looked.n_rows)
            regions = division.settled(counts)
            n_records = int(counts.sizes.sum())
            with self.progress.step("planning regions", n_records, unit="records") as step:
                n_heaps = max(-(-n_records // self.budget.heap_rows), 1)
                secret = self.chance.keys(4).tobytes()
                work = PlanRegion(division.planner(counts), regions, n_heaps, secret)
                sent = exchanged(_to_regions(rows, len(division.tree.leaves), regions), len(regions))
                planned = self._persisted(routed(sent, work), held)
                pooled = Pooled(division.trees, len(self.policy.names("quasi")))
                numbering = Numbering(self.policy, division.trees, self.looked)
                renumbering = _added(planned, len(regions), pooled, numbering)
                step.advance(n_records)
        waiting = RowsOnSpark(planned, n_heaps, OrderRows(renumbering, secret))
        return RegionalPublication(
            self.policy,
            self.source,
            self.looked,
            pooled,
            numbering.columns(pooled.published),
            waiting,
            counts.n_dropped,
        )

    def _routed(self, division: Division) -> DataFrame:
        carried = self.policy.names("insensitive")
        wanted, form = self.source.selected(list(dict.fromkeys([*self.looked.columns, *carried])))
        looked, n_rows = self.looked.without_cells(), self.source.partitions
        return routed(wanted, RoutePartition(form, looked, division.router(), carried, n_rows))

    def _counts(self, division: Division, rows: DataFrame) -> RegionCounts:
        """Return the counts of all partitions, which are those of all rows."""
        tally = division.router().tally()
        for message in for_driver(rows, COUNTS).values():
            add_counts(tally, message)
        if int(tally.sizes.sum()) + tally.n_dropped != self.looked.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")
        return tally.counts()

    @staticmethod
    def _persisted(pieces: DataFrame, held: ExitStack) -> DataFrame:
        """Keep pieces with the workers, for they are used twice; a lost one is made again, the same."""
        found = pieces.persist()
        held.callback(_let_go, found)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class RowsOnSpark:
    """The rows of all planned regions, which Spark keeps until they are published."""

    planned: DataFrame
    n_heaps: int
    order: OrderRows

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows in random order, for the driver to write."""
        with told("the release"):
            for _, batch in streamed(pieces_of(self._sent(), self.order)):
                yield pa.table(batch)

    def frame(self, publication: RegionalPublication) -> DataFrame:
        """Return the published rows in random order as a DataFrame that is computed, kept, and knows no source."""
        from pyspark.sql.pandas.types import from_arrow_schema

        (names,) = publication.parts
        work = PublishRows(self.order, publication.columns, tuple(names))
        with told(publication.source.name):
            rows = on_partitions(self._sent(), work, from_arrow_schema(work.schema(publication.source.schema)))
            frame = kept(rows.toDF(*names))
            if frame.count() != publication.n_rows:
                raise InputError(f"{publication.source.name} changed while it was being read; nothing was published")
        return frame

    def _sent(self) -> DataFrame:
        from pyspark.sql import functions

        return exchanged(self.planned.where(functions.col("destination") != FINDINGS), self.n_heaps)


def _let_go(pieces: DataFrame) -> None:
    with contextlib.suppress(Exception):  # where Spark has ended there is nothing to remove
        pieces.unpersist()


def _to_regions(rows: DataFrame, n_boxes: int, regions: Sequence[Settled]) -> DataFrame:
    """Return the pieces of all boxes that are in some region, with the region's number in place of the box's."""
    from pyspark.sql import functions

    region_of = [-1] * n_boxes
    for number, region in enumerate(regions):
        for leaf in region.leaves:
            region_of[leaf] = number
    box = functions.col("destination")
    table = functions.from_json(functions.lit(json.dumps(region_of)), "array<int>")  # one literal, however many boxes
    return rows.where(box != COUNTS).withColumn("destination", functions.get(table, box))


def _added(planned: DataFrame, n_regions: int, pooled: Pooled, numbering: Numbering) -> list[Renumbering]:
    """Add up what all regions found, in their order; return what the numbers of each become."""
    messages = for_driver(planned, FINDINGS)
    if sorted(messages) != list(range(n_regions)):
        raise InputError("not every region was planned; nothing was published")
    renumbering = []
    for number in range(n_regions):
        findings = findings_of(messages[number])
        pooled.add(findings)
        renumbering.append(numbering.add(findings.quasi, findings.sensitive))
        if findings.labelled is not None:
            pooled.labelled.append(renumbering[-1].rows(findings.labelled))
    return renumbering


def for_driver(pieces: DataFrame, destination: int) -> dict[int, pa.RecordBatch]:
    """Return what each partition tells the driver."""
    from pyspark.sql import functions

    found = pieces.where(functions.col("destination") == destination).select("partition", "message").toArrow()
    numbers, messages = found.column("partition").to_pylist(), found.column("message")
    return {number: unpacked_message(one.as_buffer()) for number, one in zip(numbers, messages, strict=True)}

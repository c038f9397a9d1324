"""Planning a table larger than the driver's memory on Spark: each region is planned by a task."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.errors import InputError, ShoalError
from shoal.core.progress import Progress, Silent
from shoal.core.randomness import Chance
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.regions.budget import Budget
from shoal.engines.regions.planning import Division, PlannedRegion, RegionPlanner, Settled
from shoal.engines.regions.routing import RegionCounts, Routed, Router, part_rows
from shoal.engines.spark.rewriting import RowsOnSpark, chance_for, scatter
from shoal.policy.policy import Policy
from shoal.release.figures import Findings
from shoal.release.regions import RegionalPublication
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import (
    Form,
    exchange,
    receive,
    route,
    unpack_message,
)
from shoal.sources.spark.source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


MOST_REGIONS = 1 << 14  # each of them is a task


@dataclass(frozen=True, slots=True, eq=False)
class LargerOnSpark:
    """A table with too many cells for the driver, and everything needed to publish it by regions on Spark.

    Draws of tasks follow from a secret and the number of the partition or region, so the pieces of a task depend only
    on its input: if a worker is lost, Spark makes its pieces again.
    """

    policy: Policy
    source: SparkSource
    looked: SampledCells
    budget: Budget
    chance: Chance
    progress: Progress

    def publication(self, held: ExitStack) -> RegionalPublication:
        """Plan all regions; the workers keep the rows until *held* is closed."""
        division = Division.of(self.policy, self.looked, self.budget, MOST_REGIONS)
        with explain_failures(self.source.name), ExitStack() as routing:
            with self.progress.step("routing", self.looked.n_rows) as step:
                rows = self._persist(self._route(division), routing)
                counts = self._counts(division, rows)
                step.advance(self.looked.n_rows)
            regions = division.settle(counts)
            n_records = int(counts.sizes.sum())
            with self.progress.step("planning regions", n_records, unit="records") as step:
                n_heaps = max(-(-n_records // self.budget.heap_rows), 1)
                secret = self.chance.keys(4).tobytes()
                work = PlanRegion(division.planner(counts), regions, n_heaps, secret)
                sent = exchange(_to_regions(rows, len(division.tree.leaves), regions), len(regions))
                planned = self._persist(route(sent, work), held)
                messages = collect_messages(planned, FINDINGS)
                if sorted(messages) != list(range(len(regions))):
                    raise InputError("not every region was planned; nothing was published")
                findings = reduce(add, (read_findings(messages[number]) for number in range(len(regions))))
                step.advance(n_records)
        waiting = RowsOnSpark(self.source.name, planned.where(f"destination != {FINDINGS}"), n_heaps, secret)
        return RegionalPublication.of(
            self.policy, self.source, self.looked, division.trees, findings, counts.n_dropped, waiting
        )

    def _route(self, division: Division) -> DataFrame:
        carried = self.policy.names("insensitive")
        wanted, form = self.source.select_columns(list(dict.fromkeys([*self.looked.columns, *carried])))
        looked, n_rows = self.looked.without_cells(), self.source.partitions
        return route(wanted, RoutePartition(form, looked, division.router(), carried, n_rows))

    def _counts(self, division: Division, rows: DataFrame) -> RegionCounts:
        """Return the sums of all partitions' counts."""
        counts = division.router().counts()
        for message in collect_messages(rows, COUNTS).values():
            add_counts(counts, message)
        if int(counts.sizes.sum()) + counts.n_dropped != self.looked.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")
        return counts

    @staticmethod
    def _persist(pieces: DataFrame, held: ExitStack) -> DataFrame:
        """Cache pieces that are used twice; Spark makes lost pieces again."""
        found = pieces.persist()
        held.callback(_unpersist, found)
        return found


def _unpersist(pieces: DataFrame) -> None:
    with contextlib.suppress(Exception):  # if Spark has ended, nothing can be removed
        pieces.unpersist()


def _to_regions(rows: DataFrame, n_boxes: int, regions: Sequence[Settled]) -> DataFrame:
    """Return the pieces of all boxes in regions, with the region's number as destination."""
    from pyspark.sql import functions

    region_of = [-1] * n_boxes
    for number, region in enumerate(regions):
        for leaf in region.leaves:
            region_of[leaf] = number
    box = functions.col("destination")
    table = functions.from_json(functions.lit(json.dumps(region_of)), "array<int>")  # one literal, however many boxes
    return rows.where(box != COUNTS).withColumn("destination", functions.get(table, box))


def collect_messages(pieces: DataFrame, destination: int) -> dict[int, pa.RecordBatch]:
    """Return the messages of partitions to this destination."""
    from pyspark.sql import functions

    found = pieces.where(functions.col("destination") == destination).select("partition", "message").toArrow()
    numbers, messages = found.column("partition").to_pylist(), found.column("message")
    return {number: unpack_message(one.as_buffer()) for number, one in zip(numbers, messages, strict=True)}


# Routing: every partition sends its rows to the boxes that contain them, and counts them.

COUNTS = -1  # destination of counts: the driver
ROWS_AT_ONCE = 1 << 20  # are cut into pieces together, which makes few and large pieces


@dataclass(frozen=True, slots=True, eq=False)
class RoutePartition:
    """Cuts the rows of a partition into one piece per nonempty box."""

    form: Form
    looked: SampledCells
    router: Router
    carried: tuple[str, ...]
    n_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield boxes with the keys and carried columns of their rows, and last the counts for the driver."""
        source = self.form.open(number, batches)
        if source is None:
            return
        counts, waiting, first_row = self.router.counts(), list[Routed](), sum(self.n_rows[:number])
        mine = replace(self.looked, n_rows=self.n_rows[number])
        for part in LocalEngine(1).locate_keys(source, mine, self.carried, Silent(), self.router.route_batch):
            counts.add(part)
            waiting.append(replace(part, rows=part.place_rows(first_row)))
            first_row += len(part.region)
            if sum(one.rows.num_rows for one in waiting) >= ROWS_AT_ONCE:
                yield from _pieces(waiting)
                waiting = []
        yield from _pieces(waiting)
        yield COUNTS, counts_message(counts)


def _pieces(waiting: list[Routed]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each box in the order of the source."""
    if not waiting:
        return
    sizes = np.sum([np.diff(routed.first) for routed in waiting], axis=0)
    for box in np.flatnonzero(sizes).tolist():
        parts = [one.rows.slice(one.first[box], one.first[box + 1] - one.first[box]) for one in waiting]
        for batch in pa.Table.from_batches(parts).combine_chunks().to_batches():
            yield box, batch


def counts_message(counts: RegionCounts) -> pa.RecordBatch:
    """Return a partition's counts as one row of lists: the places and values of nonzero counts in each table."""
    tables = [counts.sizes, *counts.values.values()]
    lists = [list_ for table in tables for list_ in (np.flatnonzero(table), table[table != 0])]
    columns = [pa.ListArray.from_arrays(pa.array([0, len(one)], pa.int32()), pa.array(one)) for one in lists]
    columns.append(pa.array([counts.n_dropped], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def add_counts(counts: RegionCounts, message: pa.RecordBatch) -> None:
    """Add a partition's counts."""
    *lists, dropped = message.columns
    arrays = [column.flatten().to_numpy() for column in lists]
    for table, places, records in zip([counts.sizes, *counts.values.values()], arrays[::2], arrays[1::2], strict=True):
        table.reshape(-1)[places] += records
    counts.n_dropped += int(dropped[0].as_py())


# Planning: each region has a task, which runs the code of the local engine.

FINDINGS = -1  # destination of findings: the driver


@dataclass(frozen=True, slots=True, eq=False)
class PlanRegion:
    """Plans the region of a task, and sends its rows to random heaps, which shuffle them."""

    planner: RegionPlanner
    regions: Sequence[Settled]
    n_heaps: int
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the findings or an error, and then the rows."""
        rows = [batch for _, batch in receive(batches)]
        try:
            planned = self._plan(number, rows)
        except ShoalError as error:
            yield FINDINGS, _pickle(error)
            return
        yield FINDINGS, _pickle(planned.findings)
        for place, batch in enumerate(planned.batches(chance_for(self.secret, f"deal {number}"))):
            yield from scatter(batch, self.n_heaps, self.secret, number, place)

    def _plan(self, number: int, rows: list[pa.RecordBatch]) -> PlannedRegion:
        region, looked = self.regions[number], self.planner.looked
        if sum(batch.num_rows for batch in rows) != region.n_records:
            raise InputError("rows of a region were lost on their way to its task; nothing was published")
        n_words, at_once = looked.layout.n_words, self.planner.budget.heap_rows
        rng = chance_for(self.secret, f"plan {number}").generator
        return self.planner.plan(region, lambda: part_rows(rows, n_words, at_once), rng)


def read_findings(message: pa.RecordBatch) -> Findings:
    """Return the findings of a region, or raise its error."""
    found = pickle.loads(message.column(0)[0].as_py())  # noqa: S301  packed by a task of this run
    if isinstance(found, ShoalError):
        raise found
    if not isinstance(found, Findings):
        raise TypeError("a planning task did not return findings")
    return found


def _pickle(found: Findings | ShoalError) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"findings": pa.array([pickle.dumps(found)], pa.binary())})

"""A table larger than the driver's memory on Spark: cut on a sample, routed, and planned by a task for each region."""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.errors import InputError, ShoalError
from shoal.core.progress import Progress, Silent
from shoal.core.randomness import Chance
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.regions.budget import Budget
from shoal.engines.regions.planning import Division, PlannedRegion, RegionPlanner, Settled
from shoal.engines.regions.routing import RegionCounts, RegionTally, Routed, Router, part_rows
from shoal.engines.spark.ordering import chance_for, order_rows, scatter
from shoal.policy.policy import Policy
from shoal.release.columns import without_dictionary
from shoal.release.regions import Findings, Numbering, Pooled, RegionalColumns, RegionalPublication, Renumbering
from shoal.release.witness import ROW
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import (
    Form,
    exchange,
    on_partitions,
    pieces_of,
    receive,
    route,
    stream_pieces,
    unpack_message,
)
from shoal.sources.spark.source import SparkSource, keep

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
                pooled = Pooled(division.trees, len(self.policy.names("quasi")))
                numbering = Numbering(self.policy, division.trees, self.looked)
                renumbering = _add_findings(planned, len(regions), pooled, numbering)
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

    def _route(self, division: Division) -> DataFrame:
        carried = self.policy.names("insensitive")
        wanted, form = self.source.select_columns(list(dict.fromkeys([*self.looked.columns, *carried])))
        looked, n_rows = self.looked.without_cells(), self.source.partitions
        return route(wanted, RoutePartition(form, looked, division.router(), carried, n_rows))

    def _counts(self, division: Division, rows: DataFrame) -> RegionCounts:
        """Return the counts of all partitions, which are those of all rows."""
        tally = division.router().tally()
        for message in collect_messages(rows, COUNTS).values():
            add_counts(tally, message)
        if int(tally.sizes.sum()) + tally.n_dropped != self.looked.n_rows:
            raise InputError(f"{self.source.name} changed while it was being read; nothing was published")
        return tally.counts()

    @staticmethod
    def _persist(pieces: DataFrame, held: ExitStack) -> DataFrame:
        """Keep pieces with the workers, for they are used twice; a lost one is made again, the same."""
        found = pieces.persist()
        held.callback(_unpersist, found)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class RowsOnSpark:
    """The rows of all planned regions, which Spark keeps until they are published."""

    planned: DataFrame
    n_heaps: int
    order: OrderRows

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows in random order, for the driver to write."""
        with explain_failures("the release"):
            for _, batch in stream_pieces(pieces_of(self._send(), self.order)):
                yield pa.table(batch)

    def frame(self, publication: RegionalPublication) -> DataFrame:
        """Return the published rows in random order, and last their places in the source; Spark keeps them."""
        from pyspark.sql.pandas.types import from_arrow_schema

        (names,) = publication.parts
        work = PublishRows(self.order, publication.columns, tuple(names))
        with explain_failures(publication.source.name):
            rows = on_partitions(self._send(), work, from_arrow_schema(work.schema(publication.source.schema)))
            frame = keep(rows.toDF(*names, ROW))
            if frame.count() != publication.n_rows:
                raise InputError(f"{publication.source.name} changed while it was being read; nothing was published")
        return frame

    def _send(self) -> DataFrame:
        from pyspark.sql import functions

        return exchange(self.planned.where(functions.col("destination") != FINDINGS), self.n_heaps)


def _unpersist(pieces: DataFrame) -> None:
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


def _add_findings(planned: DataFrame, n_regions: int, pooled: Pooled, numbering: Numbering) -> list[Renumbering]:
    """Add up what all regions found, in their order; return what the numbers of each become."""
    messages = collect_messages(planned, FINDINGS)
    if sorted(messages) != list(range(n_regions)):
        raise InputError("not every region was planned; nothing was published")
    renumbering = []
    for number in range(n_regions):
        findings = read_findings(messages[number])
        pooled.add(findings)
        renumbering.append(numbering.add(findings.quasi, findings.sensitive))
        if findings.labelled is not None:
            pooled.labelled.append(renumbering[-1].rows(findings.labelled))
    return renumbering


def collect_messages(pieces: DataFrame, destination: int) -> dict[int, pa.RecordBatch]:
    """Return what each partition tells the driver."""
    from pyspark.sql import functions

    found = pieces.where(functions.col("destination") == destination).select("partition", "message").toArrow()
    numbers, messages = found.column("partition").to_pylist(), found.column("message")
    return {number: unpack_message(one.as_buffer()) for number, one in zip(numbers, messages, strict=True)}


# Rows on their way to regions: every partition sends its rows to the boxes they lie in, and counts them exactly.

COUNTS = -1  # the destination of what is counted: the driver
ROWS_AT_ONCE = 1 << 20  # that are cut into pieces together, so that pieces are few and large


@dataclass(frozen=True, slots=True, eq=False)
class RoutePartition:
    """Cuts the rows of a partition into pieces, one for each box that has some."""

    form: Form
    looked: SampledCells
    router: Router
    carried: tuple[str, ...]
    n_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield boxes and the keys and carried columns of their rows; last, for the driver, all counts."""
        source = self.form.open(number, batches)
        if source is None:
            return
        tally, waiting, first_row = self.router.tally(), list[Routed](), sum(self.n_rows[:number])
        mine = replace(self.looked, n_rows=self.n_rows[number])
        for part in LocalEngine(1).locate_keys(source, mine, self.carried, Silent(), self.router.route_batch):
            tally.add(part)
            waiting.append(replace(part, rows=part.place_rows(first_row)))
            first_row += len(part.region)
            if sum(one.rows.num_rows for one in waiting) >= ROWS_AT_ONCE:
                yield from _pieces(waiting)
                waiting = []
        yield from _pieces(waiting)
        yield COUNTS, counts_message(tally)


def _pieces(waiting: list[Routed]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each box in the order of the source."""
    if not waiting:
        return
    sizes = np.sum([np.diff(routed.first) for routed in waiting], axis=0)
    for box in np.flatnonzero(sizes).tolist():
        parts = [one.rows.slice(one.first[box], one.first[box + 1] - one.first[box]) for one in waiting]
        for batch in pa.Table.from_batches(parts).combine_chunks().to_batches():
            yield box, batch


def counts_message(tally: RegionTally) -> pa.RecordBatch:
    """Return what a partition counted as one row of lists: all that is not zero, by places in the tables."""
    tables = [tally.sizes, *tally.values.values()]
    lists = [list_ for table in tables for list_ in (np.flatnonzero(table), table[table != 0])]
    columns = [pa.ListArray.from_arrays(pa.array([0, len(one)], pa.int32()), pa.array(one)) for one in lists]
    columns.append(pa.array([tally.n_dropped], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def add_counts(tally: RegionTally, message: pa.RecordBatch) -> None:
    """Add what a partition counted."""
    *lists, dropped = message.columns
    arrays = [column.flatten().to_numpy() for column in lists]
    for table, places, records in zip([tally.sizes, *tally.values.values()], arrays[::2], arrays[1::2], strict=True):
        table.reshape(-1)[places] += records
    tally.n_dropped += int(dropped[0].as_py())


# Regions planned in parallel, each by a task of its own: the code of the local engine, on rows sent to the task.

FINDINGS = -1  # the destination of what a region adds to the whole: the driver


@dataclass(frozen=True, slots=True, eq=False)
class PlanRegion:
    """Plans the region of a task, and sends its rows to random heaps, where they will be put in order."""

    planner: RegionPlanner
    regions: Sequence[Settled]
    n_heaps: int
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the findings, or why there are none, and then the rows under the region's own numbers."""
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
    """Return what a region adds to the whole; raise what its task was refused for."""
    found = pickle.loads(message.column(0)[0].as_py())  # noqa: S301  what a task of this run has just made
    if isinstance(found, ShoalError):
        raise found
    if not isinstance(found, Findings):
        raise TypeError("a task of planning has told something else than findings")
    return found


def _pickle(found: Findings | ShoalError) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"findings": pa.array([pickle.dumps(found)], pa.binary())})


@dataclass(frozen=True, slots=True, eq=False)
class OrderRows:
    """Puts the rows of a heap in random order, under the numbers of the whole table."""

    renumbering: Sequence[Renumbering]  # of each region
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all of them as they wait to be published."""
        pieces = [self.renumbering[region].rows(batch) for region, batch in receive(batches)]
        yield from order_rows(pieces, self.secret, number)


@dataclass(frozen=True, slots=True, eq=False)
class PublishRows:
    """Puts rows in order and writes out what they publish."""

    order: OrderRows
    columns: RegionalColumns
    names: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield published rows, the columns named by their places."""
        for batch in self.order(number, batches):
            yield self._publish(pa.table(batch))

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Return the types of what is published, given those of the source."""
        n_numbers = len(self.columns.quasi) + len(self.columns.sensitive)
        numbers = [pa.field(f"published {place}", pa.int32()) for place in range(n_numbers)]
        carried = [source.field(name) for name in self.columns.carried]
        waiting = pa.schema([*numbers, *carried, pa.field(ROW, pa.int64())])
        return self._publish(pa.Table.from_batches([], waiting)).schema

    def _publish(self, waiting: pa.Table) -> pa.RecordBatch:
        published = self.columns.publish(waiting, self.names)
        arrays = [without_dictionary(column) for column in published.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

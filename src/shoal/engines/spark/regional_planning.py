"""Regions planned in parallel, each by a task of its own: the code of the local engine, on rows sent to the task."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shoal.core.errors import InputError, ShoalError
from shoal.engines.partitions.planning import PlannedRegion, RegionPlanner
from shoal.engines.partitions.routing import parted_rows
from shoal.engines.partitions.settling import Settled
from shoal.engines.spark.ordering import chance_for, in_order, scattered
from shoal.release.columns import without_dictionary
from shoal.release.regions import Findings, RegionalColumns, Renumbering
from shoal.sources.spark.exchange import received

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
        rows = [batch for _, batch in received(batches)]
        try:
            planned = self._planned(number, rows)
        except ShoalError as error:
            yield FINDINGS, _pickled(error)
            return
        yield FINDINGS, _pickled(planned.findings)
        for place, batch in enumerate(planned.batches(chance_for(self.secret, f"deal {number}"))):
            yield from scattered(batch, self.n_heaps, self.secret, number, place)

    def _planned(self, number: int, rows: list[pa.RecordBatch]) -> PlannedRegion:
        region, looked = self.regions[number], self.planner.looked
        if sum(batch.num_rows for batch in rows) != region.n_records:
            raise InputError("rows of a region were lost on their way to its task; nothing was published")
        n_words, at_once = looked.layout.n_words, self.planner.budget.heap_rows
        rng = chance_for(self.secret, f"plan {number}").generator
        return self.planner.plan(region, lambda: parted_rows(rows, n_words, at_once), rng)


def findings_of(message: pa.RecordBatch) -> Findings:
    """Return what a region adds to the whole; raise what its task was refused for."""
    found = pickle.loads(message.column(0)[0].as_py())  # noqa: S301  what a task of this run has just made
    if isinstance(found, ShoalError):
        raise found
    if not isinstance(found, Findings):
        raise TypeError("a task of planning has told something else than findings")
    return found


def _pickled(found: Findings | ShoalError) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"findings": pa.array([pickle.dumps(found)], pa.binary())})


@dataclass(frozen=True, slots=True, eq=False)
class OrderRows:
    """Puts the rows of a heap in random order, under the numbers of the whole table."""

    renumbering: Sequence[Renumbering]  # of each region
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield all of them as they wait to be published."""
        pieces = [self.renumbering[region].rows(batch) for region, batch in received(batches)]
        yield from in_order(pieces, self.secret, number)


@dataclass(frozen=True, slots=True, eq=False)
class PublishRows:
    """Puts rows in order and writes out what they publish."""

    order: OrderRows
    columns: RegionalColumns
    names: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield published rows, the columns named by their places."""
        for batch in self.order(number, batches):
            yield self._published(pa.table(batch))

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Return the types of what is published, given those of the source."""
        n_numbers = len(self.columns.quasi) + len(self.columns.sensitive)
        numbers = [pa.field(f"published {place}", pa.int32()) for place in range(n_numbers)]
        waiting = pa.schema([*numbers, *(source.field(name) for name in self.columns.carried)])
        return self._published(pa.Table.from_batches([], waiting)).schema

    def _published(self, waiting: pa.Table) -> pa.RecordBatch:
        published = self.columns.published(waiting, self.names)
        arrays = [without_dictionary(column) for column in published.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

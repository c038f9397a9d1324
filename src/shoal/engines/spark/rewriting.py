"""Rewriting rows by a plan where their partitions are, and shuffling them.

Spark may run a task twice, after losing a worker or because it is slow. Therefore all draws of a task follow from a
secret of the run and the number of its partition or heap, and both runs make the same rows. Each row goes to a random
heap, and each heap is shuffled by the task that receives it: every order is equally likely.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Silent
from shoal.core.randomness import Chance
from shoal.engines.local import CountedCells, LocalEngine
from shoal.plan.plan import SPLIT, Assignment, Dealer
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.publication import ClassPublication, Publication, RegionalPublication
from shoal.release.rows import RowColumns, RowNumbers, plain_batch
from shoal.release.witness import ROW
from shoal.sources.base import Source, layers
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import (
    Form,
    Shared,
    by_places,
    collect_pieces,
    exchange,
    on_partitions,
    pieces_of,
    receive,
    route,
    stream_pieces,
)
from shoal.sources.spark.source import SparkRows, SparkSource, keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_PER_HEAP = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """All cells, the classes of their records, and the numbers by which rows wait."""

    counted: CountedCells
    assignment: Assignment
    numbers: RowNumbers


@dataclass(frozen=True, slots=True, eq=False)
class TallyPartition:
    """Counts a partition's records of the cells whose records go to several classes."""

    form: Form
    planned: Shared[Planned]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the numbers of the split cells that occur, and their records."""
        source = self.form.open(number, batches)
        if source is None:
            return
        counted, split_cells = self.planned.value.counted, self.planned.value.assignment.split_cells
        number_of = np.full(len(counted.run.counts), -1, dtype=np.int64)
        number_of[split_cells] = np.arange(len(split_cells))
        records = np.zeros(len(split_cells), dtype=np.int64)
        for located in LocalEngine(1).locate(source, counted, (), Silent()):
            found = number_of[located.cells]
            records += np.bincount(found[found >= 0], minlength=len(records))
        cells = np.flatnonzero(records)
        yield pa.RecordBatch.from_arrays([pa.array(cells), pa.array(records[cells])], names=["cell", "records"])


@dataclass(frozen=True, slots=True, eq=False)
class RewritePartition:
    """Assigns the rows of a partition to classes, and sends each to a random heap."""

    form: Form
    planned: Shared[Planned]
    quotas: Mapping[int, PartitionQuotas]
    carried: tuple[str, ...]
    n_heaps: int
    secret: bytes
    n_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield heaps and their rows."""
        source = self.form.open(number, batches)
        if source is None:
            return
        planned = self.planned.value
        mine = self.quotas.get(number, PartitionQuotas(np.zeros(0, np.int64), np.zeros(0, np.int64)))
        assignment = replace(planned.assignment, quota=mine.of(len(planned.assignment.quota)))
        dealer = Dealer(assignment, chance_for(self.secret, f"deal {number}"))
        first_row = sum(self.n_rows[:number])
        for place, located in enumerate(LocalEngine(1).locate(source, planned.counted, self.carried, Silent())):
            rows = first_row + np.arange(len(located.cells))
            first_row += len(located.cells)
            beside = dict(zip(self.carried, located.batch.columns, strict=True)) | {ROW: pa.array(rows)}
            waiting = planned.numbers.wait(located.cells, dealer.deal(located.cells), beside)
            yield from scatter(waiting, self.n_heaps, self.secret, number, place)


@dataclass(frozen=True, slots=True, eq=False)
class OrderHeap:
    """Shuffles the rows of a heap."""

    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from order_rows([batch for _, batch in receive(batches)], self.secret, number)


@dataclass(frozen=True, slots=True, eq=False)
class PublishHeap:
    """Shuffles the rows of a heap, and writes their published values."""

    order: OrderHeap
    columns: Shared[RowColumns]
    names: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for waiting in self.order(number, batches):
            yield self._publish(waiting)

    def schema(self, source: pa.Schema) -> pa.Schema:
        """Return the schema of the published rows, given the source's schema."""
        columns = self.columns.value
        n_numbers = (1 if columns.by_class else len(columns.quasi)) + len(columns.sensitive)
        numbers = [pa.array([], pa.int32())] * n_numbers
        beside = {name: pa.array([], source.field(name).type) for name in columns.carried}
        arrays = [*numbers, *beside.values(), pa.array([], pa.int64())]
        names = [*(str(place) for place in range(n_numbers)), *beside, ROW]
        return self._publish(pa.RecordBatch.from_arrays(arrays, names=names)).schema

    def _publish(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        published = plain_batch(self.columns.value.publish(waiting, self.names))
        return published.rename_columns([str(place) for place in range(published.num_columns)])


@dataclass(frozen=True, slots=True, eq=False)
class RowsOnSpark:
    """Rows with random heaps as destinations, which Spark computes when they are published."""

    name: str  # of the source
    pieces: DataFrame
    n_heaps: int
    secret: bytes

    def heaps(self) -> Iterator[pa.Table]:
        """Yield all rows in random order."""
        with explain_failures(self.name):
            for _, batch in stream_pieces(pieces_of(exchange(self.pieces, self.n_heaps), OrderHeap(self.secret))):
                yield pa.table(batch)

    def frame(self, publication: ClassPublication) -> DataFrame:
        """Return the published rows in random order, with their places in the source as last column."""
        from pyspark.sql.pandas.types import from_arrow_schema

        names = publication.column_names
        work = PublishHeap(OrderHeap(self.secret), Shared(publication.columns), tuple(names))
        with explain_failures(self.name):
            schema = from_arrow_schema(work.schema(publication.source.schema))
            rows = on_partitions(exchange(self.pieces, self.n_heaps), work, schema)
            frame = keep(rows.toDF(*names, ROW))
            if frame.count() != publication.n_rows:
                raise InputError(f"{self.name} changed while it was being read; nothing was published")
        return frame


def rewrite(publication: GeneralizedPublication, source: SparkSource, chance: Chance, n_heaps: int) -> RowsOnSpark:
    """Return all rows with their numbers in the driver's plan."""
    with explain_failures(source.name):
        wanted, work = prepare_partition_work(publication, source, chance, n_heaps)
        return RowsOnSpark(source.name, route(wanted, work), n_heaps, work.secret)


def is_on_this_machine(source: Source) -> bool:
    """Whether the workers of a source are processes of this machine, or the source has no workers."""
    *_, given = layers(source)
    session = given.frame.sparkSession if isinstance(given, SparkSource) else None
    return session is None or (session.conf.get("spark.master", None) or "").startswith("local")


def rewrite_on_spark(publication: Publication, chance: Chance, n_heaps: int) -> RowsOnSpark | None:
    """Return rows that wait on Spark; None if the driver must make them."""
    if isinstance(publication, RegionalPublication) and isinstance(publication.waiting, RowsOnSpark):
        return publication.waiting
    if type(publication) is GeneralizedPublication and isinstance(publication.source, SparkSource):
        return rewrite(publication, publication.source, chance, n_heaps)
    return None


@dataclass(frozen=True, slots=True, eq=False)
class KeptOnSpark:
    """A released DataFrame whose last column is the place of each row in the source."""

    placed: DataFrame
    n_rows: int

    @property
    def frame(self) -> DataFrame:
        """The DataFrame without the places."""
        *names, _ = self.placed.columns
        return by_places(self.placed).select(*map(str, range(len(names)))).toDF(*names)

    @property
    def rows(self) -> SparkRows:
        """The rows as the verifier reads them."""
        return SparkRows(self.frame)

    def place(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, and last the place of each row in the source."""
        return SparkRows(self.placed).batches([*columns, ROW])

    def draw(self, n_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield about *n_rows* random rows, or all rows."""
        share, frame = n_rows / max(self.n_rows, 1), self.frame
        return SparkRows(frame if share >= 1 else frame.sample(False, share, seed=0)).batches(frame.columns)


def prepare_partition_work(
    publication: GeneralizedPublication, source: SparkSource, chance: Chance, n_heaps: int
) -> tuple[DataFrame, RewritePartition]:
    """Return the input of the tasks, and their work on each partition."""
    counted, carried = publication.counted, publication.columns.carried
    assignment = publication.plan.assignment.relocate(len(counted.run.counts), publication.encoding.kept)
    planned = Shared(Planned(counted, assignment, publication.numbers))
    wanted, form = source.select_columns(list(dict.fromkeys([*counted.columns, *carried])))
    quotas = _quotas(source, planned, chance)
    secret = chance.keys(4).tobytes()
    return wanted, RewritePartition(form, planned, quotas, carried, n_heaps, secret, source.partitions)


def _quotas(source: SparkSource, planned: Shared[Planned], chance: Chance) -> dict[int, PartitionQuotas]:
    assignment = planned.value.assignment
    if not bool((assignment.class_of == SPLIT).any()):
        return {}
    wanted, form = source.select_columns(planned.value.counted.columns)
    with explain_failures(source.name):
        found = collect_pieces(pieces_of(wanted, TallyPartition(form, planned)))
    held_by = {number: (np.array(batch.column(0)), np.array(batch.column(1))) for number, batch in found}
    return draw_quotas(assignment, held_by, np.random.default_rng(chance.keys(4)))


# Shuffling the rows of all tasks, with the same result whenever a task is repeated.


def heaps_for(n_rows: int) -> int:
    return max(-(-n_rows // ROWS_PER_HEAP), 1)


def scatter(
    batch: pa.RecordBatch, n_heaps: int, secret: bytes, number: int, place: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield heaps and their rows in the batch at *place* of the partition *number*."""
    heaps = _heaps(chance_for(secret, f"heap {number} {place}").keys(batch.num_rows), n_heaps)
    first, order = kernels.group_items(heaps, n_heaps)
    ordered = batch.take(pa.array(order))
    for heap in np.flatnonzero(np.diff(first)).tolist():
        yield heap, ordered.slice(first[heap], first[heap + 1] - first[heap])


def order_rows(pieces: Sequence[pa.RecordBatch], secret: bytes, heap: int) -> Iterator[pa.RecordBatch]:
    """Yield the shuffled rows of a heap, given its pieces in an order that is always the same."""
    if pieces:
        rows = pa.Table.from_batches(pieces).combine_chunks()
        order = chance_for(secret, f"order {heap}").order(rows.num_rows)
        yield from rows.take(pa.array(order)).combine_chunks().to_batches()


def chance_for(secret: bytes, use: str) -> Chance:
    """Return the randomness for one use."""
    own = hashlib.shake_256(secret + use.encode()).digest(32)
    return Chance(np.random.default_rng(int.from_bytes(own)), own)


def _heaps(keys: KeyArray, n_heaps: int) -> CodeArray:
    """Return (n_rows,) ``key * n_heaps / 2**64``, rounded down.

    >>> _heaps(np.array([0, 2**63 - 1, 2**63, 2**64 - 1], dtype=np.uint64), 4).tolist()
    [0, 1, 2, 3]
    """
    half, low_bits, number = np.uint64(32), np.uint64(0xFFFFFFFF), np.uint64(n_heaps)
    low = (keys & low_bits) * number >> half
    return (((keys >> half) * number + low) >> half).astype(np.int32)


# The quotas of each partition: how many of its records go to each class, for cells with several classes.

_MOST_RECORDS = 1_000_000_000  # NumPy's limit for draws from one cell


@dataclass(frozen=True, slots=True, eq=False)
class PartitionQuotas:
    """The nonzero quotas of a partition."""

    places: IntArray  # (n,) among the assignment's quotas
    records: IntArray  # (n,)

    def of(self, n_quotas: int) -> IntArray:
        """Return (n_quotas,) all quotas."""
        quotas = np.zeros(n_quotas, dtype=np.int64)
        quotas[self.places] = self.records
        return quotas


def draw_quotas(
    assignment: Assignment, held: dict[int, tuple[IntArray, IntArray]], rng: np.random.Generator
) -> dict[int, PartitionQuotas]:
    """Divide the quotas of split cells among the partitions, given each partition's cells and their records.

    If all records of a cell took places in random order, the places of a partition's records would be drawn without
    replacement from the remaining ones: a multivariate hypergeometric distribution. Each partition then assigns its
    places to its own records, so every arrangement that the quotas allow is equally likely.

    >>> assignment = Assignment.of_pieces(1, np.array([0, 0]), np.array([0, 1]), np.array([2, 1]))
    >>> hold = {0: (np.array([0]), np.array([1])), 1: (np.array([0]), np.array([2]))}
    >>> dealt = draw_quotas(assignment, hold, np.random.default_rng(1))
    >>> sum(part.of(2) for part in dealt.values()).tolist()
    [2, 1]
    """
    remaining = assignment.quota.copy()
    if len(remaining) and int(remaining.max()) >= _MOST_RECORDS:
        raise UsageError("a cell has a billion records or more in one class; publish the table in parts")
    dealt = {}
    for number in sorted(held):
        taken = _draw_places(assignment.first, remaining, *held[number], rng)
        remaining -= taken
        places = np.flatnonzero(taken)
        dealt[number] = PartitionQuotas(places, taken[places])
    if remaining.any():
        raise InputError("the source changed while it was being read; nothing was published")
    return dealt


def _draw_places(
    first: IntArray, remaining: IntArray, cells: IntArray, records: IntArray, rng: np.random.Generator
) -> IntArray:
    """Return (n_quotas,) the places of a partition in each quota; each round draws one quota per cell."""
    taken = np.zeros_like(remaining)
    totals = np.add.reduceat(remaining, first[:-1])
    behind, wanted = totals[cells], records.copy()  # (n_cells,) places in later quotas, and places still to draw
    if bool((wanted > behind).any()):
        raise InputError("the source changed while it was being read; nothing was published")
    place = first[cells].copy()
    active = np.flatnonzero(wanted)
    while len(active):
        here = remaining[place[active]]
        behind[active] -= here
        if int(behind[active].max()) >= _MOST_RECORDS:
            raise UsageError("a cell has a billion records or more; publish the table in parts")
        drawn = rng.hypergeometric(here, behind[active], wanted[active])
        taken[place[active]] = drawn
        wanted[active] -= drawn
        place[active] += 1
        active = active[wanted[active] > 0]
    return taken

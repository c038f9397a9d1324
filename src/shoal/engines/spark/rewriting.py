"""Rewriting rows by a plan where their partitions are.

A task may run twice: a worker is lost, or Spark tries a slow one again. So nothing in a partition is drawn anew: deals
and orders follow from one secret of the run and from the partition's number, and both runs make the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Silent
from shoal.core.randomness import Chance
from shoal.engines.local import CountedCells, LocalEngine
from shoal.engines.spark.ordering import chance_for, heaps_for, order_rows, scatter
from shoal.plan.plan import SPLIT, WITHHELD, Assignment, Dealer
from shoal.release.columns import CellColumn, SensitiveColumn, encode_values, without_dictionary
from shoal.release.forms.classes import GeneralizedPublication
from shoal.release.witness import ROW
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import (
    Form,
    Shared,
    collect_pieces,
    exchange,
    hold,
    on_partitions,
    pieces_of,
    receive,
    route,
)
from shoal.sources.spark.source import SparkSource, keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """All cells and where their records go."""

    counted: CountedCells
    assignment: Assignment


@dataclass(frozen=True, slots=True, eq=False)
class TallyPartition:
    """Counts a partition's records of the cells that split."""

    form: Form
    planned: Shared[Planned]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the numbers, among the split cells, of those that occur, and their records."""
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
    """Deals the rows of a partition to classes, and sends each to a random heap."""

    form: Form
    planned: Shared[Planned]
    quotas: Mapping[int, PartitionQuotas]
    sensitive: tuple[str, ...]
    carried: tuple[str, ...]
    n_heaps: int
    secret: bytes
    n_rows: tuple[int, ...]  # of each partition

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield heaps and the rows that go there, as :class:`RowColumns` takes them."""
        source = self.form.open(number, batches)
        if source is None:
            return
        counted, assignment = self.planned.value.counted, self.planned.value.assignment
        mine = self.quotas.get(number, PartitionQuotas(np.zeros(0, np.int64), np.zeros(0, np.int64)))
        assignment = replace(assignment, quota=mine.of(len(assignment.quota)))
        dealer = Dealer(assignment, chance_for(self.secret, f"deal {number}"))
        sensitive = [CellColumn.of(counted, name).index for name in self.sensitive]
        first_row = sum(self.n_rows[:number])
        for place, located in enumerate(LocalEngine(1).locate(source, counted, self.carried, Silent())):
            targets = dealer.deal(located.cells)
            shown = np.flatnonzero(targets != WITHHELD)
            cells, carried = located.cells[shown], located.batch.take(pa.array(shown)).columns
            rows = RowColumns.waiting(targets[shown], [index[cells] for index in sensitive], carried, first_row + shown)
            first_row += len(targets)
            yield from scatter(rows, self.n_heaps, self.secret, number, place)


@dataclass(frozen=True, slots=True, eq=False)
class OrderHeap:
    """Puts the rows of a heap in random order."""

    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield them as they came otherwise."""
        yield from order_rows([batch for _, batch in receive(batches)], self.secret, number)


@dataclass(frozen=True, slots=True, eq=False)
class PublishHeap:
    """Puts the rows of a heap in random order, and spells out what they publish."""

    ordered: OrderHeap
    columns: Shared[RowColumns]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield published rows."""
        for waiting in self.ordered(number, batches):
            yield self.columns.value.plain(waiting)


def rewrite_frame(publication: GeneralizedPublication, source: SparkSource, chance: Chance) -> DataFrame:
    """Return the published rows in random order, and last their places in the source; Spark keeps them."""
    from pyspark.sql.pandas.types import from_arrow_schema

    with explain_failures(source.name):
        columns = RowColumns.of(publication)
        sent, work = _send_rows(publication, source, chance, len(source.partitions))
        rows = on_partitions(
            sent, PublishHeap(OrderHeap(work.secret), Shared(columns)), from_arrow_schema(columns.schema())
        )
        frame = keep(rows.toDF(*columns.names, ROW))
        _check(frame.count(), publication, source)
    return frame


def rewrite_rows(
    publication: GeneralizedPublication, source: SparkSource, chance: Chance, holding: ExitStack
) -> Iterator[pa.RecordBatch]:
    """Return the published rows in random order for the driver to write; they wait in Spark until *holding* is left."""
    with explain_failures(source.name):
        sent, work = _send_rows(publication, source, chance, heaps_for(publication.n_rows))
        waiting = holding.enter_context(hold(pieces_of(sent, OrderHeap(work.secret))))
        _check(sum(waiting.entries), publication, source)

    def batches() -> Iterator[pa.RecordBatch]:
        columns = RowColumns.of(publication)
        with explain_failures(source.name):
            for _, batch in waiting.batches():
                yield columns.publish(batch)

    return batches()


def _check(n_rows: int, publication: GeneralizedPublication, source: SparkSource) -> None:
    if n_rows != publication.n_rows:
        raise InputError(f"{source.name} changed while it was being read; nothing was published")


def _send_rows(
    publication: GeneralizedPublication, source: SparkSource, chance: Chance, n_heaps: int
) -> tuple[DataFrame, RewritePartition]:
    """Return all rows at their heaps, and the work that sends them there."""
    wanted, work = prepare_partition_work(publication, source, chance, n_heaps)
    return exchange(route(wanted, work), n_heaps), work


def prepare_partition_work(
    publication: GeneralizedPublication, source: SparkSource, chance: Chance, n_heaps: int
) -> tuple[DataFrame, RewritePartition]:
    """Return what Spark sends to the tasks, and what is done in each partition."""
    counted = publication.counted
    assignment = publication.plan.assignment.relocate(len(counted.run.counts), publication.encoding.kept)
    planned = Shared(Planned(counted, assignment))
    carried = tuple(publication.policy.names("insensitive"))
    wanted, form = source.select_columns(list(dict.fromkeys([*counted.columns, *carried])))
    return wanted, RewritePartition(
        form=form,
        planned=planned,
        quotas=_quotas(source, planned, chance),
        sensitive=tuple(one.name for one in publication.encoding.problem.sensitive),
        carried=carried,
        n_heaps=n_heaps,
        secret=chance.keys(4).tobytes(),
        n_rows=source.partitions,
    )


def _quotas(source: SparkSource, planned: Shared[Planned], chance: Chance) -> dict[int, PartitionQuotas]:
    assignment = planned.value.assignment
    if not bool((assignment.class_of == SPLIT).any()):
        return {}
    wanted, form = source.select_columns(planned.value.counted.columns)
    with explain_failures(source.name):
        found = collect_pieces(pieces_of(wanted, TallyPartition(form, planned)))
    held_by = {number: (np.array(batch.column(0)), np.array(batch.column(1))) for number, batch in found}
    return draw_quotas(assignment, held_by, np.random.default_rng(chance.keys(4)))


@dataclass(frozen=True, slots=True, eq=False)
class SensitiveRows:
    """What rows publish of one sensitive attribute."""

    own: pa.Array
    generalized: SensitiveColumn | None

    def values(self, targets: CodeArray, index: CodeArray) -> pa.Array:
        """Return the values of rows, given their targets and the places of their own values."""
        return encode_values(index, self.own) if self.generalized is None else self.generalized.values(targets, index)


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """All published columns.

    A row waits as its target, the places of its sensitive values, what is carried, and its place in the source.
    """

    class_of_target: CodeArray | None
    quasi: Mapping[str, pa.Array]  # what each class publishes
    sensitive: Mapping[str, SensitiveRows]
    carried: pa.Schema
    names: tuple[str, ...]

    @classmethod
    def of(cls, publication: GeneralizedPublication) -> RowColumns:
        """Write down what all classes publish."""
        problem, plan, counted = publication.encoding.problem, publication.plan, publication.counted
        everything = np.arange(plan.n_classes, dtype=np.int32)
        columns = zip(problem.sensitive, publication.sensitive_columns, strict=True)
        carried = publication.policy.names("insensitive")
        return cls(
            class_of_target=None if plan.targets is None else plan.targets.class_of,
            quasi={column.attribute.name: column.values(everything) for column in publication.columns},
            sensitive={
                one.name: SensitiveRows(counted.dictionaries[counted.columns.index(one.name)].values, labels)
                for one, labels in columns
            },
            carried=pa.schema([publication.source.schema.field(name) for name in carried]),
            names=tuple(publication.parts[0]),
        )

    @staticmethod
    def waiting(
        targets: CodeArray, sensitive: Sequence[CodeArray], carried: Sequence[pa.Array], rows: IntArray
    ) -> pa.RecordBatch:
        """Return rows as they wait."""
        arrays = [pa.array(targets), *map(pa.array, sensitive), *map(without_dictionary, carried), pa.array(rows)]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

    def publish(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        """Return what rows that wait publish; texts by dictionaries."""
        targets, *sensitive = (column.to_numpy() for column in waiting.columns[: 1 + len(self.sensitive)])
        classes = pa.array(targets if self.class_of_target is None else self.class_of_target[targets])
        arrays = {name: values.take(classes) for name, values in self.quasi.items()}
        for (name, column), index in zip(self.sensitive.items(), sensitive, strict=True):
            arrays[name] = column.values(targets, index)
        names = [*self.names, ROW]
        arrays |= dict(zip([*self.carried.names, ROW], waiting.columns[1 + len(self.sensitive) :], strict=True))
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=names)

    def plain(self, waiting: pa.RecordBatch) -> pa.RecordBatch:
        """Return the same spelled out, columns named by their places."""
        arrays = [without_dictionary(column) for column in self.publish(waiting).columns]
        return pa.RecordBatch.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])

    def schema(self) -> pa.Schema:
        """Return the types of what is published, columns named by their places."""
        nothing = np.zeros(0, dtype=np.int32)
        carried = [pa.array([], field.type) for field in self.carried]
        rows = np.zeros(0, dtype=np.int64)
        return self.plain(self.waiting(nothing, [nothing] * len(self.sensitive), carried, rows)).schema


# Which partition fills how many places of each class: the quotas of cells whose records go to several.

_MOST_RECORDS = 1_000_000_000  # of one cell: beyond that NumPy does not draw


@dataclass(frozen=True, slots=True, eq=False)
class PartitionQuotas:
    """The quotas of one partition: those that are not zero."""

    places: IntArray  # (n,) among the assignment's quotas
    records: IntArray  # (n,)

    def of(self, n_quotas: int) -> IntArray:
        """Return (n_quotas,) all of them."""
        quotas = np.zeros(n_quotas, dtype=np.int64)
        quotas[self.places] = self.records
        return quotas


def draw_quotas(
    assignment: Assignment, held: dict[int, tuple[IntArray, IntArray]], rng: np.random.Generator
) -> dict[int, PartitionQuotas]:
    """Deal the quotas of split cells to the partitions, given how many records of which of these cells each holds.

    If all records of a cell took places in random order, the places of a partition's records would be a draw without
    replacement from those that are left: multivariate hypergeometric. Each partition then deals its places among its
    own records, and together every arrangement that the quotas allow is equally likely.

    >>> assignment = Assignment.of_pieces(1, np.array([0, 0]), np.array([0, 1]), np.array([2, 1]))
    >>> hold = {0: (np.array([0]), np.array([1])), 1: (np.array([0]), np.array([2]))}
    >>> dealt = draw_quotas(assignment, hold, np.random.default_rng(1))
    >>> sum(part.of(2) for part in dealt.values()).tolist()
    [2, 1]
    """
    remaining = assignment.quota.copy()
    if len(remaining) and int(remaining.max()) >= _MOST_RECORDS:
        raise UsageError("a cell has a thousand million records or more in one class; publish the table in parts")
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
    """Return (n_quotas,) how many of each quota's places go to a partition; each round settles one quota of a cell."""
    taken = np.zeros_like(remaining)
    totals = np.add.reduceat(remaining, first[:-1])
    behind, wanted = totals[cells], records.copy()  # (n_cells,) places in the quotas to come, and how many of them
    if bool((wanted > behind).any()):
        raise InputError("the source changed while it was being read; nothing was published")
    place = first[cells].copy()
    active = np.flatnonzero(wanted)
    while len(active):
        here = remaining[place[active]]
        behind[active] -= here
        drawn = _hypergeometric(here, behind[active], wanted[active], rng)
        taken[place[active]] = drawn
        wanted[active] -= drawn
        place[active] += 1
        active = active[wanted[active] > 0]
    return taken


def _hypergeometric(good: IntArray, bad: IntArray, drawn: IntArray, rng: np.random.Generator) -> IntArray:
    if len(bad) and int(bad.max()) >= _MOST_RECORDS:
        raise UsageError("a cell has a thousand million records or more; publish the table in parts")
    return rng.hypergeometric(good, bad, drawn)

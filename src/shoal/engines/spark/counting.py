"""Cells, or a sample of them, counted where the partitions are and merged as a tree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import GrowingDictionary
from shoal.core.progress import Silent
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.spark.ordering import chance_for
from shoal.plan.cells import KeyLayout, Run, RunStack
from shoal.plan.counted import Thinning, factor_batch, pack_keys
from shoal.sources.spark.session import explain_failures, quiet
from shoal.sources.spark.shipping import (
    CHUNK_ROWS,
    PIECES,
    Form,
    collect_pieces,
    hold,
    make_piece,
    pieces_of,
    spark_schema,
    unpack_message,
)
from shoal.sources.spark.source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FAN_IN = 8  # pieces that a worker merges into one


class Merger:
    """Adds up cells that were counted apart; values keep the order in which they come."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._dictionaries = tuple(GrowingDictionary() for _ in columns)
        self._stack = RunStack()
        self._layout = KeyLayout.of_bits([1] * len(columns))
        self._n_rows = 0

    def add(self, cells: pa.RecordBatch) -> None:
        """Take cells: a column of coded values for each attribute, and their records."""
        factors = factor_batch(cells.select(list(range(len(self._columns)))))
        tables = [dictionary.codes(values) for dictionary, (_, values) in zip(self._dictionaries, factors, strict=True)]
        sizes = [dictionary.size for dictionary in self._dictionaries]
        if not self._layout.holds(sizes):
            wider = KeyLayout.roomy(sizes)
            if self._n_rows:
                self._stack.relay(self._layout, wider)
            self._layout = wider
        counts = np.array(cells.column(len(self._columns)), dtype=np.int64)
        run = Run(pack_keys(factors, tables, self._layout), counts)
        self._stack.push(run.lay_out(self._layout, self._layout))  # in order: the codes are new
        self._n_rows += int(counts.sum())

    def exceeds(self, most_cells: int) -> bool:
        """Whether there are more cells than that."""
        return self._stack.n_held > most_cells and len(self._stack.total().counts) > most_cells

    def total(self) -> CountedCells:
        """Return all of them."""
        return CountedCells(self._columns, self._dictionaries, self._layout, self._stack.total(), self._n_rows)


def count_partitions(source: SparkSource, columns: Sequence[str], most_cells: int | None = None) -> CountedCells | None:
    """Return the cells of all rows; None if there are more than *most_cells*, which no process will hold then."""
    wanted, form = source.select_columns(columns)
    most = sys.maxsize if most_cells is None else most_cells
    with explain_failures(source.name):
        pieces = pieces_of(wanted, CountPartition(form, tuple(columns)))
        n_pieces = len(source.partitions)
        while n_pieces > FAN_IN:
            pieces = _merge_cells(pieces, tuple(columns), most)
            n_pieces = -(-n_pieces // FAN_IN)
        with hold(pieces) as waiting:
            if max(waiting.entries) > most:
                return None
            merger = Merger(columns)
            for _, cells in waiting.batches():
                merger.add(cells)
                if merger.exceeds(most):
                    return None
            return merger.total()


def _merge_cells(pieces: DataFrame, columns: tuple[str, ...], most_cells: int) -> DataFrame:
    """Return one piece, or a few large ones, for each few neighbours; one without cells if there are too many."""

    def merge(group: pa.Table) -> pa.Table:
        merger = Merger(columns)
        number = group.column("partition")[0].as_py() // FAN_IN
        for entries, message in zip(*group.sort_by("partition").select(["entries", "message"]).columns, strict=True):
            if entries.as_py() <= most_cells:
                merger.add(unpack_message(message.as_buffer()))
            if entries.as_py() > most_cells or merger.exceeds(most_cells):
                return _too_many(number, most_cells + 1)
        return pa.Table.from_batches([make_piece(number, batch) for batch in cell_batches(merger.total())])

    return merge_neighbours(pieces, merge)


def merge_neighbours(pieces: DataFrame, merge: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Have each few neighbouring pieces merged by a task, so that values keep the order of the rows."""
    from pyspark.sql import functions

    with quiet():
        neighbours = functions.floor(functions.col("partition") / FAN_IN).alias("neighbours")
        return pieces.groupBy(neighbours).applyInArrow(merge, spark_schema(PIECES))


def _too_many(number: int, entries: int) -> pa.Table:
    """Return a piece without cells that says how many there are at least."""
    arrays = [pa.array([number], pa.int32()), pa.array([entries], pa.int64()), pa.array([b""], pa.binary())]
    return pa.table(arrays, names=["partition", "entries", "message"])


# What the engine does inside a partition: the work of the local engine, on a source that is this partition.


@dataclass(frozen=True, slots=True, eq=False)
class CountPartition:
    """Reduces a partition to its cells."""

    form: Form
    columns: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells: a column of coded values for each attribute, and their records."""
        source = self.form.open(number, batches)
        if source is not None:
            yield from cell_batches(LocalEngine(1).count(source, self.columns, Silent()))


@dataclass(frozen=True, slots=True, eq=False)
class LocatePartition:
    """Finds the cell of every row of a partition."""

    form: Form
    counted: CountedCells
    carried: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of rows, and beside them the columns that are carried along."""
        source = self.form.open(number, batches)
        if source is None:
            return
        for located in LocalEngine(1).locate(source, self.counted, self.carried, Silent()):
            columns = [pa.array(located.cells.astype(np.int32)), *located.batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def cell_batches(counted: CountedCells) -> Iterator[pa.RecordBatch]:
    """Yield cells as coded values and their records, some at a time."""
    columns = []
    for place, dictionary in enumerate(counted.dictionaries):
        codes = counted.codes(place).astype(np.int32) - np.int32(1)
        columns.append(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), dictionary.values))
    columns.append(pa.array(counted.run.counts))
    batch = pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    for start in range(0, batch.num_rows, CHUNK_ROWS):
        yield batch.slice(start, CHUNK_ROWS)


# A sample of a table with too many cells for the driver, drawn where the partitions are and merged as a tree.
#
# What a partition tells is one message: every value of each column with its records, and the sampled cells in terms of
# these values.


@dataclass(frozen=True, slots=True, eq=False)
class SamplePartition:
    """Draws the same share of every partition; a task that runs twice draws the same records."""

    form: Form
    columns: tuple[str, ...]
    share: float
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one message."""
        source = self.form.open(number, batches)
        if source is None:
            return
        rng = chance_for(self.secret, f"sample {number}").generator
        thinning = Thinning.of_share(self.share, len(self.columns), lambda: rng)
        looked = LocalEngine(1).look(source, self.columns, Silent(), thinning)
        assert isinstance(looked, SampledCells)  # noqa: S101  with a fixed share it always is
        yield sample_message(looked)


class SampleMerger:
    """Adds up samples of the same share; values keep the order in which they come."""

    def __init__(self, columns: Sequence[str], share: float) -> None:
        self._columns, self._share = tuple(columns), share
        self._dictionaries = tuple(GrowingDictionary() for _ in columns)
        self._tallies: list[IntArray] = [np.zeros(1, dtype=np.int64) for _ in columns]
        self._layout = KeyLayout.roomy([1] * len(columns))
        self._stack = RunStack()
        self._n_rows = 0

    def add(self, message: pa.RecordBatch) -> None:
        """Take what one partition, or several together, tell."""
        tables, factors = [], []
        for place, dictionary in enumerate(self._dictionaries):
            values, records, codes = (message.column(3 * place + part).flatten() for part in range(3))
            table = dictionary.codes(values)
            longer = dictionary.size - len(self._tallies[place])
            self._tallies[place] = np.pad(self._tallies[place], (0, longer))
            self._tallies[place][table.astype(np.int64)] += records.to_numpy()
            tables.append(table)
            factors.append((codes.to_numpy(), values))
        sizes = [dictionary.size for dictionary in self._dictionaries]
        if not self._layout.holds(sizes):
            wider = KeyLayout.roomy(sizes)
            self._stack.relay(self._layout, wider)
            self._layout = wider
        counts = message.column(3 * len(self._columns)).flatten().to_numpy()
        run = Run(pack_keys(factors, tables, self._layout), counts)
        self._stack.push(run.lay_out(self._layout, self._layout))  # in order: the codes are new
        self._n_rows += int(message.column(3 * len(self._columns) + 1)[0].as_py())

    def total(self) -> SampledCells:
        """Return all of it."""
        run = self._stack.total()
        sample = CountedCells(self._columns, self._dictionaries, self._layout, run, int(run.counts.sum()))
        return SampledCells.of(sample, self._share, tuple(self._tallies), self._n_rows)


def sample_message(looked: SampledCells) -> pa.RecordBatch:
    """Return a sample as one row of lists.

    For each column its values, the records of each and last of those without one, and the sampled cells' indices among
    the values, -1 for none; then the cells' records, and how many rows were read.
    """
    lists: list[pa.Array] = []
    for place, dictionary in enumerate(looked.dictionaries):
        codes = looked.sample.codes(place).astype(np.int32) - np.int32(1)
        lists += [dictionary.values, pa.array(np.roll(looked.tallies[place], -1)), pa.array(codes)]
    lists.append(pa.array(looked.sample.run.counts))
    columns = [pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values) for values in lists]
    columns.append(pa.array([looked.n_rows], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def sample_partitions(source: SparkSource, columns: Sequence[str], share: float, secret: bytes) -> SampledCells:
    """Return all values of *columns* with their records, and a *share* of the records as cells."""
    wanted, form = source.select_columns(columns)
    with explain_failures(source.name):
        pieces = pieces_of(wanted, SamplePartition(form, tuple(columns), share, secret))
        n_pieces = len(source.partitions)
        while n_pieces > FAN_IN:
            pieces = _merge_samples(pieces, tuple(columns), share)
            n_pieces = -(-n_pieces // FAN_IN)
        merger = SampleMerger(columns, share)
        for _, message in collect_pieces(pieces):
            merger.add(message)
    return merger.total()


def _merge_samples(pieces: DataFrame, columns: tuple[str, ...], share: float) -> DataFrame:
    """Return one message for each few neighbours."""

    def merge(group: pa.Table) -> pa.Table:
        merger = SampleMerger(columns, share)
        for message in group.sort_by("partition").column("message"):
            merger.add(unpack_message(message.as_buffer()))
        number = group.column("partition")[0].as_py() // FAN_IN
        return pa.Table.from_batches([make_piece(number, sample_message(merger.total()))])

    return merge_neighbours(pieces, merge)

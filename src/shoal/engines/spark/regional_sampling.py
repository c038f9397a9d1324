"""A sample of a table with too many cells for the driver, drawn where the partitions are and merged as a tree.

What a partition tells is one message: every value of each column with its records, and the sampled cells in terms of
these values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from shoal.plan.counted import Thinning
from shoal.plan.passes import packed
from shoal.sources.spark.session import quiet, told
from shoal.sources.spark.shipping import (
    PIECES,
    Form,
    collected,
    piece,
    pieces_of,
    unpacked_message,
)
from shoal.sources.spark.source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FAN_IN = 8  # messages that a worker merges into one


@dataclass(frozen=True, slots=True, eq=False)
class SamplePartition:
    """Draws the same share of every partition; a task that runs twice draws the same records."""

    form: Form
    columns: tuple[str, ...]
    share: float
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one message."""
        source = self.form.opened(number, batches)
        if source is None:
            return
        rng = chance_for(self.secret, f"sample {number}").generator
        thinning = Thinning.fixed(self.share, len(self.columns), lambda: rng)
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
        run = Run(packed(factors, tables, self._layout), counts)
        self._stack.push(run.relaid(self._layout, self._layout))  # in order: the codes are new
        self._n_rows += int(message.column(3 * len(self._columns) + 1)[0].as_py())

    def total(self) -> SampledCells:
        """Return all of it."""
        run = self._stack.total()
        sample = CountedCells(self._columns, self._dictionaries, self._layout, run, int(run.counts.sum()))
        return SampledCells(sample, self._share, tuple(self._tallies), self._n_rows)


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


def sampled(source: SparkSource, columns: Sequence[str], share: float, secret: bytes) -> SampledCells:
    """Return all values of *columns* with their records, and a *share* of the records as cells."""
    wanted, form = source.selected(columns)
    with told(source.name):
        pieces = pieces_of(wanted, SamplePartition(form, tuple(columns), share, secret))
        n_pieces = len(source.partitions)
        while n_pieces > FAN_IN:
            pieces = _merged(pieces, tuple(columns), share)
            n_pieces = -(-n_pieces // FAN_IN)
        merger = SampleMerger(columns, share)
        for _, message in collected(pieces):
            merger.add(message)
    return merger.total()


def _merged(pieces: DataFrame, columns: tuple[str, ...], share: float) -> DataFrame:
    """Return one message for each few neighbours, so that values keep the order of the rows."""
    from pyspark.sql import functions

    def merge(group: pa.Table) -> pa.Table:
        merger = SampleMerger(columns, share)
        for message in group.sort_by("partition").column("message"):
            merger.add(unpacked_message(message.as_buffer()))
        number = group.column("partition")[0].as_py() // FAN_IN
        return pa.Table.from_batches([piece(number, sample_message(merger.total()))])

    with quiet():
        neighbours = functions.floor(functions.col("partition") / FAN_IN).alias("neighbours")
        return pieces.groupBy(neighbours).applyInArrow(merge, PIECES)

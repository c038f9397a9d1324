"""Cells of partitions, merged as a tree."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.dictionaries import GrowingDictionary
from shoal.engines.local import CountedCells
from shoal.engines.spark.partitions import CountPartition, cell_batches
from shoal.plan.cells import KeyLayout, Run, RunStack
from shoal.plan.passes import factor, packed
from shoal.sources.spark.session import quiet, told
from shoal.sources.spark.shipping import (
    PIECES,
    held,
    piece,
    pieces_of,
    unpacked_message,
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
        factors = factor(cells.select(list(range(len(self._columns)))))
        tables = [dictionary.codes(values) for dictionary, (_, values) in zip(self._dictionaries, factors, strict=True)]
        sizes = [dictionary.size for dictionary in self._dictionaries]
        if not self._layout.holds(sizes):
            wider = KeyLayout.roomy(sizes)
            if self._n_rows:
                self._stack.relay(self._layout, wider)
            self._layout = wider
        counts = np.array(cells.column(len(self._columns)), dtype=np.int64)
        run = Run(packed(factors, tables, self._layout), counts)
        self._stack.push(run.relaid(self._layout, self._layout))  # in order: the codes are new
        self._n_rows += int(counts.sum())

    def exceeds(self, most_cells: int) -> bool:
        """Whether there are more cells than that."""
        return self._stack.n_held > most_cells and len(self._stack.total().counts) > most_cells

    def total(self) -> CountedCells:
        """Return all of them."""
        return CountedCells(self._columns, self._dictionaries, self._layout, self._stack.total(), self._n_rows)


def count_partitions(source: SparkSource, columns: Sequence[str], most_cells: int | None = None) -> CountedCells | None:
    """Return the cells of all rows; None if there are more than *most_cells*, which no process will hold then."""
    wanted, form = source.selected(columns)
    most = sys.maxsize if most_cells is None else most_cells
    with told(source.name):
        pieces = pieces_of(wanted, CountPartition(form, tuple(columns)))
        n_pieces = len(source.partitions)
        while n_pieces > FAN_IN:
            pieces = _merged(pieces, tuple(columns), FAN_IN, most)
            n_pieces = -(-n_pieces // FAN_IN)
        with held(pieces) as waiting:
            if max(waiting.entries) > most:
                return None
            merger = Merger(columns)
            for _, cells in waiting.batches():
                merger.add(cells)
                if merger.exceeds(most):
                    return None
            return merger.total()


def _merged(pieces: DataFrame, columns: tuple[str, ...], fan_in: int, most_cells: int) -> DataFrame:
    """Return one piece, or a few large ones, for each *fan_in* neighbours; one without cells if there are too many."""
    from pyspark.sql import functions

    def merge(group: pa.Table) -> pa.Table:
        merger = Merger(columns)
        number = group.column("partition")[0].as_py() // fan_in
        for entries, message in zip(*group.sort_by("partition").select(["entries", "message"]).columns, strict=True):
            if entries.as_py() <= most_cells:
                merger.add(unpacked_message(message.as_buffer()))
            if entries.as_py() > most_cells or merger.exceeds(most_cells):
                return _too_many(number, most_cells + 1)
        return pa.Table.from_batches([piece(number, batch) for batch in cell_batches(merger.total())])

    with quiet():
        neighbours = functions.floor(functions.col("partition") / fan_in).alias("neighbours")
        return pieces.groupBy(neighbours).applyInArrow(merge, PIECES)


def _too_many(number: int, entries: int) -> pa.Table:
    """Return a piece without cells that says how many there are at least."""
    arrays = [pa.array([number], pa.int32()), pa.array([entries], pa.int64()), pa.array([b""], pa.binary())]
    return pa.table(arrays, names=["partition", "entries", "message"])

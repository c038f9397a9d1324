"""Cells of partitions, merged as a tree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.cells import KeyLayout, Run, RunStack
from shoal.engines.dictionaries import GrowingDictionary
from shoal.engines.local import CountedCells
from shoal.engines.passes import factor, packed
from shoal.sources.spark.session import quiet, told
from shoal.sources.spark.shipping import (
    PIECES,
    piece,
    pieces_of,
    streamed,
    unpacked_message,
)
from shoal.sources.spark.source import SparkSource
from shoal.spark.partitions import CountPartition, cell_batches

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

    def total(self) -> CountedCells:
        """Return all of them."""
        return CountedCells(self._columns, self._dictionaries, self._layout, self._stack.total(), self._n_rows)


def count_partitions(
    source: SparkSource, columns: Sequence[str], too_many: Callable[[int], bool] = lambda _: False
) -> CountedCells | None:
    """Return the cells of all rows; None if the driver would hold *too_many* while it merges them."""
    from pyspark.sql import functions

    wanted, form = source.selected(columns)
    with told(source.name):
        pieces = pieces_of(wanted, CountPartition(form, tuple(columns)))
        n_pieces = len(source.partitions)
        while n_pieces > FAN_IN:
            pieces = _merged(pieces, tuple(columns), FAN_IN)
            n_pieces = -(-n_pieces // FAN_IN)
        kept = pieces.persist()
        try:
            n_cells = kept.agg(functions.sum("entries")).collect()[0][0]
            if too_many(n_cells):
                return None
            merger = Merger(columns)
            for _, cells in sorted(streamed(kept), key=lambda found: found[0]):
                merger.add(cells)
            return merger.total()
        finally:
            kept.unpersist()


def _merged(pieces: DataFrame, columns: tuple[str, ...], fan_in: int) -> DataFrame:
    """Return one piece, or a few large ones, for each *fan_in* neighbours."""
    from pyspark.sql import functions

    def merge(group: pa.Table) -> pa.Table:
        merger = Merger(columns)
        ordered = group.sort_by("partition")
        for message in ordered.column("message"):
            merger.add(unpacked_message(message.as_buffer()))
        number = group.column("partition")[0].as_py() // fan_in
        return pa.Table.from_batches([piece(number, batch) for batch in cell_batches(merger.total())])

    with quiet():
        neighbours = functions.floor(functions.col("partition") / fan_in).alias("neighbours")
        return pieces.groupBy(neighbours).applyInArrow(merge, PIECES)

"""Rows on their way to regions: every partition sends its rows to the boxes they lie in, and counts them exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.partitions.routing import RegionTally, Routed, Router
from shoal.sources.spark.shipping import Form

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
        source = self.form.opened(number, batches)
        if source is None:
            return
        tally, waiting = self.router.tally(), list[Routed]()
        mine = replace(self.looked, n_rows=self.n_rows[number])
        for routed in LocalEngine(1).keyed(source, mine, self.carried, Silent(), self.router.routed):
            tally.add(routed)
            waiting.append(routed)
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

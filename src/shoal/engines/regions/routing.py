"""One pass that sends every row to the file of its region, and counts exactly what the models look at."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa

from shoal.core import kernels as shared
from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.randomness import explain_file_errors
from shoal.engines.local import SampledCells
from shoal.engines.regions.tree import RegionTree, route, tally
from shoal.models.base import ValueModel
from shoal.policy.binding import Combinations, WholeTable
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.columns import without_dictionary
from shoal.release.witness import ROW

_MOST_COMBINATIONS = 1 << 16


@dataclass(slots=True, eq=False)
class RegionCounts:
    """The records of each leaf of the region tree, and those of each value that some model looks at."""

    sizes: IntArray  # (n_leaves,)
    values: Mapping[tuple[str, ...], IntArray]  # (n_leaves, n_values) by the attributes' names
    n_leaves: Mapping[str, int]  # of the sensitive attributes' taxonomies
    n_dropped: int = 0  # rows without some value, where those are left out

    def add(self, routed: Routed) -> None:
        """Take the rows of one batch."""
        self.sizes += np.diff(routed.first)
        self.n_dropped += len(routed.region) - int(routed.first[-1])
        for names, values in routed.values.items():
            tally(routed.region, values, self.values[names])

    @property
    def whole(self) -> WholeTable:
        """All regions together."""
        total = {names: counts.sum(axis=0) for names, counts in self.values.items()}
        joint = {
            names: _combinations(counts, tuple(self.n_leaves[name] for name in names))
            for names, counts in total.items()
            if len(names) > 1
        }
        values = {names[0]: counts for names, counts in total.items() if len(names) == 1}
        return WholeTable(int(self.sizes.sum()), values, joint)


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """The rows of one batch by their regions."""

    rows: pa.RecordBatch
    first: IntArray  # (n_leaves + 1,)
    region: CodeArray  # (n_rows,) in the order of the source
    values: Mapping[tuple[str, ...], CodeArray]  # (n_rows,)
    order: IntArray | CodeArray  # (n_routed_rows,) the places of the rows in the batch

    def place_rows(self, first_row: int) -> pa.RecordBatch:
        """Return the rows with their places in the source, given that of the batch's first row."""
        return self.rows.append_column(ROW, pa.array(first_row + self.order.astype(np.int64)))


class Router:
    """Finds the regions of rows by their keys."""

    def __init__(self, looked: SampledCells, trees: Sequence[Tree], policy: Policy, tree: RegionTree) -> None:
        layout = looked.layout
        self._by_name = {one.attribute.name: one for one in trees}
        places = [looked.columns.index(one.attribute.name) for one in trees]
        self._number = {name: number for number, name in enumerate(self._by_name)}
        self._where = np.array([(layout.word[place], layout.shift[place]) for place in places], dtype=np.int64)
        self._masks = np.array([(1 << layout.bits[place]) - 1 for place in places], dtype=np.uint64)
        self._first = np.cumsum([0, *(len(one.leaf) for one in trees)]).astype(np.int64)
        self._leaf = np.concatenate([one.leaf for one in trees]).astype(np.int32)
        self._tree = tree.table()
        self._complete = policy.missing == "drop"
        self._looked_at = list_counted_values(policy)
        self._n_boxes = len(tree.leaves)
        self._n_leaves = {name: one.attribute.taxonomy.n_leaves for name, one in self._by_name.items()}
        for names in self._looked_at:
            _refuse_many(names, self._n_values(names))

    def counts(self) -> RegionCounts:
        """Return what counts the rows that are routed, of which there are none yet."""
        values = {names: np.zeros((self._n_boxes, self._n_values(names)), np.int64) for names in self._looked_at}
        return RegionCounts(np.zeros(self._n_boxes, dtype=np.int64), values, self._n_leaves)

    def route_batch(self, carried: pa.RecordBatch, keys: KeyArray) -> Routed:
        """Put the rows of a batch in the order of their regions: their keys, and the columns that are carried along."""
        region = route(keys, self._where, self._masks, self._first, self._leaf, self._tree, self._complete)
        first, order = shared.group_items(region, self._n_boxes)
        values = {names: self._values(keys, names) for names in self._looked_at}
        taken = carried.take(pa.array(order)) if carried.num_columns else carried
        arrays = [*(pa.array(word[order]) for word in keys), *map(without_dictionary, taken.columns)]
        names = [*(f"word {word}" for word in range(len(keys))), *carried.schema.names]
        return Routed(pa.RecordBatch.from_arrays(arrays, names=names), first, region, values, order)

    def _values(self, keys: KeyArray, names: tuple[str, ...]) -> CodeArray:
        """Return (n_rows,) the number of the combination of these attributes' leaves."""
        leaves = []
        for name in names:
            number = self._number[name]
            out = np.empty(keys.shape[1], dtype=np.int32)
            word, shift = self._where[number].tolist()
            table = self._by_name[name].leaf.astype(np.int32)
            shared.translate_codes(keys[word], shift, int(self._masks[number]), table, out)
            leaves.append(out)
        if len(names) == 1:
            return leaves[0]
        return shared.pack(leaves, [self._n_leaves[name] for name in names]).astype(np.int32)

    def _n_values(self, names: tuple[str, ...]) -> int:
        return prod(self._n_leaves[name] for name in names)


def list_counted_values(policy: Policy) -> tuple[tuple[str, ...], ...]:
    """Return the sensitive attributes, and the combinations of them, that some model looks at."""
    found: dict[tuple[str, ...], None] = {}
    for model in policy.privacy:
        if isinstance(model, ValueModel):
            if len(model.attributes) > 1:
                found[model.attributes] = None
            else:
                found |= {(name,): None for name in model.attributes or policy.names("sensitive")}
    return tuple(found)


def _refuse_many(names: tuple[str, ...], n_values: int) -> None:
    if len(names) > 1 and n_values > _MOST_COMBINATIONS:
        raise UsageError(
            f"{', '.join(map(repr, names))} together have up to {n_values:,} combinations of values, more than the "
            f"{_MOST_COMBINATIONS:,} that a table larger than memory is counted for; allow more memory with --memory"
        )


def _combinations(counts: IntArray, n_leaves: tuple[int, ...]) -> Combinations:
    occurring = np.flatnonzero(counts)
    place = np.full(len(counts), -1, dtype=np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    return Combinations(place, counts[occurring], n_leaves)


class RegionFiles:
    """The keys and the carried columns of rows, region by region."""

    def __init__(self, n_regions: int, n_words: int, folder: Path | None) -> None:
        """Open a file for each region in *folder* (None: the system's temporary folder)."""
        self._n_words = n_words
        self._folder = folder
        self._files: list[IO[bytes] | None] = [None] * n_regions
        self._writers: list[pa.RecordBatchStreamWriter | None] = [None] * n_regions

    def write(self, rows: pa.RecordBatch, first: IntArray) -> None:
        """Take rows in the order of their regions; those of region r begin at ``first[r]``."""
        with explain_file_errors():
            for region in np.flatnonzero(np.diff(first)).tolist():
                writer = self._writers[region]
                if writer is None:
                    file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  closed in __exit__
                    writer = pa.ipc.new_stream(file, rows.schema)
                    self._files[region], self._writers[region] = file, writer
                writer.write_batch(rows.slice(first[region], first[region + 1] - first[region]))

    def finish(self) -> None:
        """Say that no rows come any more."""
        with explain_file_errors():
            for writer, file in zip(self._writers, self._files, strict=True):
                if writer is not None and file is not None:
                    writer.close()
                    file.flush()
        self._writers = []

    def read(self, regions: Sequence[int], n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
        """Yield the keys and the carried columns of all rows of some regions, about *n_rows* at a time."""
        return part_rows(self._batches(regions), self._n_words, n_rows)

    def drop(self, regions: Sequence[int]) -> None:
        for region in regions:
            file = self._files[region]
            if file is not None:
                file.close()

    def __enter__(self) -> RegionFiles:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files:
            if file is not None:
                with contextlib.suppress(OSError):  # what did not fit on the disk does not fit now
                    file.close()

    def _batches(self, regions: Sequence[int]) -> Iterator[pa.RecordBatch]:
        for region in regions:
            file = self._files[region]
            if file is not None:
                with explain_file_errors():
                    file.seek(0)
                    yield from pa.ipc.open_stream(file)


def part_rows(batches: Iterable[pa.RecordBatch], n_words: int, n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
    """Yield the keys and the carried columns of rows that waited, about *n_rows* at a time."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= n_rows:
            yield _part(waiting, n_words)
            waiting = []
    if waiting:
        yield _part(waiting, n_words)


def _part(batches: list[pa.RecordBatch], n_words: int) -> tuple[KeyArray, pa.Table]:
    table = pa.Table.from_batches(batches)
    words = [table.column(word).combine_chunks().to_numpy() for word in range(n_words)]
    return np.stack(words), table.select(range(n_words, table.num_columns))

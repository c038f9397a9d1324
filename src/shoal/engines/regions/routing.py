"""Sending every row to the file of its region, and counting the values that models need, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa

from shoal.core import kernels as shared
from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.randomness import BatchFile
from shoal.engines.local import SampledCells
from shoal.engines.regions.tree import RegionTree, route, tally
from shoal.models.base import ValueModel
from shoal.policy.binding import Combinations, WholeTable
from shoal.policy.encoding import Tree
from shoal.policy.policy import Policy
from shoal.release.columns import without_dictionary
from shoal.release.witness import ROW
from shoal.sources.base import join_batches

_MOST_COMBINATIONS = 1 << 16


@dataclass(slots=True, eq=False)
class RegionCounts:
    """The records of each leaf of the region tree, and of each value that a model needs."""

    sizes: IntArray  # (n_leaves,)
    values: Mapping[tuple[str, ...], IntArray]  # (n_leaves, n_values) by names of attributes
    n_leaves: Mapping[str, int]  # of the sensitive attributes' taxonomies
    n_dropped: int = 0  # rows that are left out because of missing values

    def add(self, routed: Routed) -> None:
        """Add the rows of a batch."""
        self.sizes += np.diff(routed.first)
        self.n_dropped += len(routed.region) - int(routed.first[-1])
        for names, values in routed.values.items():
            tally(routed.region, values, self.values[names])

    @property
    def whole(self) -> WholeTable:
        """The sums over all regions."""
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
    """The rows of a batch, sorted by region."""

    rows: pa.RecordBatch
    first: IntArray  # (n_leaves + 1,)
    region: CodeArray  # (n_rows,) in the order of the batch
    values: Mapping[tuple[str, ...], CodeArray]  # (n_rows,)
    order: IntArray | CodeArray  # (n_routed_rows,) places of the rows in the batch

    def place_rows(self, first_row: int) -> pa.RecordBatch:
        """Return the rows with their places in the source."""
        return self.rows.append_column(ROW, pa.array(first_row + self.order.astype(np.int64)))


class Router:
    """Finds the regions of rows from their keys."""

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
            if len(names) > 1 and (n_values := self._n_values(names)) > _MOST_COMBINATIONS:
                raise UsageError(
                    f"{', '.join(map(repr, names))} together have up to {n_values:,} combinations of values, more than "
                    f"the {_MOST_COMBINATIONS:,} that can be counted for a table larger than memory; allow more memory "
                    "with --memory"
                )

    def counts(self) -> RegionCounts:
        """Return counts of zero."""
        values = {names: np.zeros((self._n_boxes, self._n_values(names)), np.int64) for names in self._looked_at}
        return RegionCounts(np.zeros(self._n_boxes, dtype=np.int64), values, self._n_leaves)

    def route_batch(self, carried: pa.RecordBatch, keys: KeyArray) -> Routed:
        """Sort the rows of a batch by region; the result has their keys and the carried columns."""
        region = route(keys, self._where, self._masks, self._first, self._leaf, self._tree, self._complete)
        first, order = shared.group_items(region, self._n_boxes)
        values = {names: self._values(keys, names) for names in self._looked_at}
        taken = carried.take(pa.array(order)) if carried.num_columns else carried
        arrays = [*(pa.array(word[order]) for word in keys), *map(without_dictionary, taken.columns)]
        names = [*(f"word {word}" for word in range(len(keys))), *carried.schema.names]
        return Routed(pa.RecordBatch.from_arrays(arrays, names=names), first, region, values, order)

    def _values(self, keys: KeyArray, names: tuple[str, ...]) -> CodeArray:
        """Return (n_rows,) the numbers of the combinations of these attributes' leaves."""
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
    """Return the sensitive attributes and combinations of them that models need."""
    found: dict[tuple[str, ...], None] = {}
    for model in policy.privacy:
        if isinstance(model, ValueModel):
            if len(model.attributes) > 1:
                found[model.attributes] = None
            else:
                found |= {(name,): None for name in model.attributes or policy.names("sensitive")}
    return tuple(found)


def _combinations(counts: IntArray, n_leaves: tuple[int, ...]) -> Combinations:
    occurring = np.flatnonzero(counts)
    place = np.full(len(counts), -1, dtype=np.int32)
    place[occurring] = np.arange(len(occurring), dtype=np.int32)
    return Combinations(place, counts[occurring], n_leaves)


class RegionFiles:
    """Temporary files with the keys and the carried columns of the rows of each region."""

    def __init__(self, n_regions: int, n_words: int, folder: Path | None) -> None:
        """Prepare files in *folder*, or in the system's temporary folder."""
        self._n_words = n_words
        self._files = [BatchFile(folder) for _ in range(n_regions)]

    def write(self, rows: pa.RecordBatch, first: IntArray) -> None:
        """Write rows that are sorted by region; region r begins at ``first[r]``."""
        for region in np.flatnonzero(np.diff(first)).tolist():
            self._files[region].write(rows.slice(first[region], first[region + 1] - first[region]))

    def read(self, regions: Sequence[int], n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
        """Yield the keys and the carried columns of the rows of some regions, about *n_rows* at a time."""
        batches = chain.from_iterable(self._files[region].read() for region in regions)
        return part_rows(batches, self._n_words, n_rows)

    def drop(self, regions: Iterable[int]) -> None:
        for region in regions:
            self._files[region].close()

    def __enter__(self) -> RegionFiles:
        return self

    def __exit__(self, *exc: object) -> None:
        self.drop(range(len(self._files)))


def part_rows(batches: Iterable[pa.RecordBatch], n_words: int, n_rows: int) -> Iterator[tuple[KeyArray, pa.Table]]:
    """Yield the keys and the carried columns of rows, about *n_rows* at a time."""
    for table in join_batches(batches, n_rows):
        words = [table.column(word).combine_chunks().to_numpy() for word in range(n_words)]
        yield np.stack(words), table.select(range(n_words, table.num_columns))

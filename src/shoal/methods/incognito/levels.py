"""Generalization levels as tables: what each occurring value becomes, attribute by attribute and level by level."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.plan.cells import KeyLayout
from shoal.plan.problem import Problem
from shoal.taxonomies.tree import Taxonomy

Levels = tuple[int, ...]  # one level for each quasi attribute, 0 = original


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """The levels of one attribute, over the values that occur: ``codes[h]`` sends leaf code to level h's code.

    The codes of a level count its nodes in leaf order; code c of level h covers the leaves ``lo[h][c]:hi[h][c]``.
    """

    taxonomy: Taxonomy
    records: IntArray  # (n_codes of level 0,) records of each occurring value
    codes: tuple[CodeArray, ...]  # n_levels x (n_codes of level 0,)
    lo: tuple[CodeArray, ...]  # n_levels x (n_codes of the level,)
    hi: tuple[CodeArray, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, occurring: CodeArray, records: IntArray) -> Ladder:
        """Tabulate the levels for the leaves that occur, which are given in ascending order."""
        codes, lows, highs = [], [], []
        for height in range(taxonomy.levels() + 1):
            nodes = taxonomy.node_at(height)[occurring]
            _, first, code = np.unique(taxonomy.lo[nodes], return_index=True, return_inverse=True)
            codes.append(code.reshape(-1).astype(np.int32))
            lows.append(taxonomy.lo[nodes[first]])
            highs.append(taxonomy.hi[nodes[first]])
        return cls(taxonomy, records, tuple(codes), tuple(lows), tuple(highs))

    @property
    def top(self) -> int:
        """The highest level."""
        return len(self.codes) - 1

    def width(self, level: int) -> int:
        """Return how many different values there are at a level."""
        return len(self.lo[level])

    def step(self, start: int, end: int) -> KeyArray:
        """Return (width(start),) the code at level *end* of each code of level *start*."""
        table = np.zeros(self.width(start), dtype=np.uint64)
        table[self.codes[start]] = self.codes[end].astype(np.uint64)
        return table

    def records_at(self, level: int) -> IntArray:
        """Return (width,) how many records have each value of a level."""
        return np.bincount(self.codes[level], weights=self.records, minlength=self.width(level)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ladders:
    """The levels of all quasi attributes, and where each attribute's code stands in a packed key."""

    rungs: tuple[Ladder, ...]
    layout: KeyLayout
    weights: tuple[float, ...]
    n_records: int

    @classmethod
    def of(cls, problem: Problem) -> tuple[Ladders, KeyArray]:
        """Tabulate the levels of a problem; also return (n_cells, n_words) the packed keys of its cells."""
        rungs, columns = [], []
        for attribute, leaves in zip(problem.quasi, problem.quasi_codes, strict=True):
            n_leaves = attribute.taxonomy.n_leaves
            present = np.bincount(leaves, minlength=n_leaves) > 0
            occurring = np.flatnonzero(present).astype(np.int32)
            place = np.cumsum(present) - 1
            records = np.bincount(leaves, weights=problem.cells.counts, minlength=n_leaves).astype(np.int64)
            rungs.append(Ladder.of(attribute.taxonomy, occurring, records[occurring]))
            columns.append(place.astype(np.uint64)[leaves])
        layout = KeyLayout.of_bits([max((rung.width(0) - 1).bit_length(), 1) for rung in rungs])
        keys = np.zeros((problem.cells.n_cells, layout.n_words), dtype=np.uint64)
        for column, word, shift in zip(columns, layout.word, layout.shift, strict=True):
            keys[:, word] |= column << np.uint64(shift)
        weights = tuple(attribute.weight for attribute in problem.quasi)
        return cls(tuple(rungs), layout, weights, problem.cells.n_records), keys

    @property
    def n_attributes(self) -> int:
        """Number of quasi attributes."""
        return len(self.rungs)

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each attribute: the lattice as an array."""
        return tuple(rung.top + 1 for rung in self.rungs)

    @property
    def top(self) -> Levels:
        """The node where everything is generalized."""
        return tuple(rung.top for rung in self.rungs)

    def n_labels(self, levels: Levels) -> int:
        """Return how many combinations of values a node can have."""
        return math.prod(rung.width(level) for rung, level in zip(self.rungs, levels, strict=True))

    def field(self, attribute: int) -> tuple[int, int, int]:
        """Return word, shift and mask of an attribute's code in the key."""
        return (
            self.layout.word[attribute],
            self.layout.shift[attribute],
            (1 << self.layout.bits[attribute]) - 1,
        )

    def ranges(self, keys: KeyArray, levels: Levels) -> tuple[CodeArray, CodeArray]:
        """Return (n_groups, n_attributes) the leaf ranges that keys of a node stand for."""
        lo = np.empty((len(keys), self.n_attributes), dtype=np.int32)
        hi = np.empty_like(lo)
        for j, (rung, level) in enumerate(zip(self.rungs, levels, strict=True)):
            word, shift, mask = self.field(j)
            code = ((keys[:, word] >> np.uint64(shift)) & np.uint64(mask)).astype(np.int64)
            lo[:, j], hi[:, j] = rung.lo[level][code], rung.hi[level][code]
        return lo, hi

"""Groups of records at the nodes of the lattice, rolled up from the smallest finer grouping that is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel
from shoal.models.base import ClassHistograms
from shoal.plan.cells import KeyLayout
from shoal.plan.judging import Judge, people_of_classes
from shoal.plan.problem import Problem, Requirement
from shoal.taxonomies.tree import Taxonomy

Levels = tuple[int, ...]  # one level for each quasi attribute, 0 = original

_DENSE_ENTRIES = 1 << 24  # of the largest histogram that is kept
_KEPT_ENTRIES = 1 << 26  # of all arrays that are kept
_LARGE = 2048  # groups of a source for which intermediate groupings pay off
_STEPS = (2, 4)  # numbers of the widest attributes that intermediate groupings generalize


@dataclass(slots=True, eq=False)
class Grouping:
    """The groups of one node: packed keys, records, people of each population, and the source of the groups."""

    levels: Levels
    keys: KeyArray  # (n_groups, n_words)
    tallies: IntArray  # (n_groups, 1 + n_populations) records, then people
    source: Grouping | None  # None for the grouping of the cells, and if it was discarded
    group_of: CodeArray  # (n groups of the source, or n_cells) the group here
    histograms: dict[int, IntArray] = field(default_factory=dict)  # by the identity of the values

    @property
    def n_groups(self) -> int:
        """Number of different combinations, including combinations of the population only."""
        return len(self.keys)

    @property
    def sizes(self) -> IntArray:
        """(n_groups,) records."""
        return self.tallies[:, 0]

    @property
    def n_entries(self) -> int:
        """Total entries of its arrays."""
        return self.keys.size + self.tallies.size + len(self.group_of) + sum(h.size for h in self.histograms.values())


class Groupings:
    """Creates groupings of nodes, and keeps those from which others can be derived cheaply."""

    def __init__(self, problem: Problem) -> None:
        self.ladders, keys = Ladders.of(problem)
        self._counts = problem.cells.counts
        self.populations: dict[str, int] = {}  # the column of each in tallies
        columns = [self._counts]
        for requirement in problem.requirements:
            if requirement.population is not None and requirement.population_name not in self.populations:
                self.populations[requirement.population_name] = len(columns)
                columns.append(requirement.population)
        layout = self.ladders.layout
        self._fields = (
            np.array(layout.word, dtype=np.int64),
            np.array(layout.shift, dtype=np.uint64),
            np.array([(1 << bits) - 1 for bits in layout.bits], dtype=np.uint64),
        )
        bottom = (0,) * self.ladders.n_attributes
        group_of, keys, tallies = self._roll_up(keys, np.stack(columns, axis=1), bottom, bottom)
        self._widest = sorted(range(len(bottom)), key=lambda j: -self.ladders.rungs[j].widths[0])
        self.base = Grouping(bottom, keys, tallies, None, group_of)
        self._forget()

    def _forget(self) -> None:
        """Keep only the grouping of the cells."""
        self._kept = [self.base]
        self._levels = np.zeros((1, self.ladders.n_attributes), dtype=np.int64)
        self._groups = np.array([self.base.n_groups], dtype=np.int64)
        self._entries = self.base.n_entries

    def at(self, levels: Levels, source: Grouping | None = None) -> Grouping:
        """Return the grouping of a node; one derived from a given finer *source* is not kept.

        Large groupings are first generalized in their widest attributes only. Few nodes differ in these, so the
        intermediate grouping serves many others as well.
        """
        if source is not None:
            return self._make(source, levels)
        finer = np.flatnonzero((self._levels <= np.array(levels)).all(axis=1))
        source = self._kept[int(finer[self._groups[finer].argmin()])]
        for n_widest in _STEPS:
            if source.n_groups < _LARGE:
                break
            between = tuple(level if j in self._widest[:n_widest] else 0 for j, level in enumerate(levels))
            if any(now < then for now, then in zip(source.levels, between, strict=True)):
                meeting = tuple(map(max, source.levels, between))
                source = self._keep(self._make(source, between if source is self.base else meeting), source)
        return source if source.levels == levels else self._keep(self._make(source, levels), source)

    def _make(self, source: Grouping, levels: Levels) -> Grouping:
        group_of, keys, tallies = self._roll_up(source.keys, source.tallies, source.levels, levels)
        return Grouping(levels, keys, tallies, source, group_of)

    def group_of_cells(self, grouping: Grouping) -> CodeArray:
        """Return (n_cells,) the group of each cell.

        Groups are numbered in order of first occurrence, which does not depend on intermediate groupings.
        """
        if grouping is self.base:
            return self.base.group_of
        return self._make(self.base, grouping.levels).group_of[self.base.group_of]

    def people(self, grouping: Grouping, name: str) -> IntArray:
        """Return (n_groups,) the people of one population."""
        return grouping.tallies[:, self.populations[name]]

    def blocks(
        self, grouping: Grouping, requirement: Requirement, chosen: BoolArray
    ) -> Iterator[tuple[IntArray, ClassHistograms]]:
        """Yield the chosen groups, in blocks, with their histograms for the requirement's model."""
        wanted = np.flatnonzero(chosen)
        people = None if requirement.population is None else self.people(grouping, requirement.population_name)
        if requirement.values is None and requirement.people is None:
            yield wanted, ClassHistograms(grouping.sizes[wanted], None, None if people is None else people[wanted])
            return
        counts = self.dense(grouping, requirement)
        if counts is not None:
            yield (
                wanted,
                ClassHistograms(grouping.sizes[wanted], counts[wanted] if len(wanted) < len(counts) else counts),
            )
            return
        place = np.full(grouping.n_groups, -1, dtype=np.int32)
        place[wanted] = np.arange(len(wanted), dtype=np.int32)
        first, order = kernels.group_items(place[self.group_of_cells(grouping)], len(wanted))
        if requirement.people is not None:
            blocks = people_of_classes(requirement, first, order)
        else:
            judge = Judge.of(requirement, self._counts)
            blocks = judge.histograms(first, requirement.values_at(order), self._counts[order])
        done = 0
        for classes in blocks:
            yield wanted[done : done + len(classes.sizes)], classes
            done += len(classes.sizes)

    def dense(self, grouping: Grouping, requirement: Requirement) -> IntArray | None:
        """Return (n_groups, n_values) records of each sensitive value; None if too large or not needed."""
        if requirement.values is None or requirement.people is not None:
            return None
        known = grouping.histograms.get(id(requirement.values))
        if known is not None or grouping.n_groups * requirement.n_values > _DENSE_ENTRIES:
            return known
        of_source = None if grouping.source is None else self.dense(grouping.source, requirement)
        if of_source is not None:
            made = np.zeros((grouping.n_groups, requirement.n_values), dtype=np.int64)
            add_rows(grouping.group_of, of_source, made)
        else:
            entry = self.group_of_cells(grouping) * np.int64(requirement.n_values) + requirement.values
            entries = np.bincount(entry, self._counts, grouping.n_groups * requirement.n_values)
            made = entries.astype(np.int64).reshape(grouping.n_groups, requirement.n_values)
        grouping.histograms[id(requirement.values)] = made
        self._entries += made.size
        return made

    def _roll_up(
        self, keys: KeyArray, tallies: IntArray, start: Levels, end: Levels
    ) -> tuple[CodeArray, KeyArray, IntArray]:
        """Return the group at *end* of each key at *start*, and the keys and tallies of these groups."""
        levels = enumerate(zip(self.ladders.rungs, start, end, strict=True))
        changed = [j for j, (rung, low, high) in levels if rung.widths[high] != rung.widths[low]]
        tables = [self.ladders.rungs[j].step(start[j], end[j]) for j in changed]
        first = np.cumsum([0, *map(len, tables)])[:-1]
        fields = Fields._make((*(column[changed] for column in self._fields), first))
        made = recode_keys(keys, fields, np.concatenate([np.zeros(0, dtype=np.uint64), *tables]))
        places, of_group = kernels.number_rows(made)
        total = np.zeros((len(places), tallies.shape[1]), dtype=np.int64)
        add_rows(of_group, tallies, total)
        return of_group, made[places], total

    def _keep(self, made: Grouping, source: Grouping) -> Grouping:
        """Keep a grouping much smaller than its source; if memory is exhausted, discard all others but the first."""
        if 2 * made.n_groups > source.n_groups:
            return made
        if self._entries + made.n_entries > _KEPT_ENTRIES:
            self._forget()
            made.source, made.group_of = None, made.group_of[:0]
        self._kept.append(made)
        self._entries += made.n_entries
        self._levels = np.vstack([self._levels, made.levels])
        self._groups = np.append(self._groups, made.n_groups)
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """The levels of one attribute over the values that occur; ``codes[h]`` maps leaf codes to codes of level h.

    The codes of a level number its nodes in leaf order; code c of level h covers the leaves ``lo[h][c]:hi[h][c]``.
    """

    taxonomy: Taxonomy
    records: IntArray  # (n_codes of level 0,) records of each occurring value
    widths: tuple[int, ...]  # different values of each level
    codes: tuple[CodeArray, ...]  # n_levels x (n_codes of level 0,)
    lo: tuple[CodeArray, ...]  # n_levels x (n_codes of the level,)
    hi: tuple[CodeArray, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, occurring: CodeArray, records: IntArray) -> Ladder:
        """Tabulate the levels for the leaves that occur, in ascending order."""
        codes, lows, highs = [], [], []
        for height in range(taxonomy.height + 1):
            nodes = taxonomy.node_at(height)[occurring]
            _, first, code = np.unique(taxonomy.lo[nodes], return_index=True, return_inverse=True)
            codes.append(code.reshape(-1).astype(np.int32))
            lows.append(taxonomy.lo[nodes[first]])
            highs.append(taxonomy.hi[nodes[first]])
        return cls(taxonomy, records, tuple(map(len, lows)), tuple(codes), tuple(lows), tuple(highs))

    @property
    def top(self) -> int:
        return len(self.codes) - 1

    def step(self, start: int, end: int) -> KeyArray:
        """Return (widths[start],) the code at level *end* of each code of level *start*."""
        table = np.zeros(self.widths[start], dtype=np.uint64)
        table[self.codes[start]] = self.codes[end].astype(np.uint64)
        return table

    def records_at(self, level: int) -> IntArray:
        return np.bincount(self.codes[level], weights=self.records, minlength=self.widths[level]).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ladders:
    """The levels of all quasi attributes, and the layout of their packed keys."""

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
        layout = KeyLayout.of_bits([max((rung.widths[0] - 1).bit_length(), 1) for rung in rungs])
        keys = np.zeros((problem.cells.n_cells, layout.n_words), dtype=np.uint64)
        for column, word, shift in zip(columns, layout.word, layout.shift, strict=True):
            keys[:, word] |= column << np.uint64(shift)
        weights = tuple(attribute.weight for attribute in problem.quasi)
        return cls(tuple(rungs), layout, weights, problem.cells.n_records), keys

    @property
    def n_attributes(self) -> int:
        return len(self.rungs)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(rung.top + 1 for rung in self.rungs)

    @property
    def top(self) -> Levels:
        return tuple(rung.top for rung in self.rungs)

    def codes(self, keys: KeyArray, attribute: int) -> IntArray:
        """Return (n_groups,) the codes of an attribute in packed keys."""
        shifted = keys[:, self.layout.word[attribute]] >> np.uint64(self.layout.shift[attribute])
        return (shifted & np.uint64((1 << self.layout.bits[attribute]) - 1)).astype(np.int64)

    def ranges(self, keys: KeyArray, levels: Levels) -> tuple[CodeArray, CodeArray]:
        """Return (n_groups, n_attributes) the leaf ranges of the keys of a node."""
        lo = np.empty((len(keys), self.n_attributes), dtype=np.int32)
        hi = np.empty_like(lo)
        for j, (rung, level) in enumerate(zip(self.rungs, levels, strict=True)):
            code = self.codes(keys, j)
            lo[:, j], hi[:, j] = rung.lo[level][code], rung.hi[level][code]
        return lo, hi


class Fields(NamedTuple):
    """The places of some attributes' codes in packed keys."""

    word: IntArray  # (n_fields,)
    shift: KeyArray  # (n_fields,)
    mask: KeyArray  # (n_fields,)
    first: IntArray  # (n_fields,) where the new codes of each begin in a table


@kernel
def recode_keys(keys: KeyArray, fields: Fields, table: KeyArray) -> KeyArray:
    """Replace code v of each field c of packed keys by ``table[first[c] + v]``."""
    word, shift, mask, first = fields
    made = keys.copy()
    for i in range(len(keys)):
        for c in range(len(first)):
            code = (made[i, word[c]] >> shift[c]) & mask[c]
            made[i, word[c]] ^= (code ^ table[first[c] + np.int64(code)]) << shift[c]
    return made


@kernel
def add_rows(group_of: CodeArray, histograms: IntArray, total: IntArray) -> None:
    """Add the histograms of old groups to their new groups."""
    for i in range(len(group_of)):
        group = group_of[i]
        for v in range(histograms.shape[1]):
            total[group, v] += histograms[i, v]

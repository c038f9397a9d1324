"""Groups of records at a node of the lattice: levels as tables, and roll-up from the smallest finer grouping known."""

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

_DENSE_ENTRIES = 1 << 24  # of one histogram that is kept
_KEPT_ENTRIES = 1 << 26  # of all arrays that the store keeps
_LARGE = 2048  # groups from which on a detour may pay
_STEPS = (2, 4)  # so many of the widest attributes at a time


@dataclass(slots=True, eq=False)
class Grouping:
    """The groups of one node: packed keys, records, people of each population, and how they came about."""

    levels: Levels
    keys: KeyArray  # (n_groups, n_words)
    tallies: IntArray  # (n_groups, 1 + n_populations) records, then people
    source: Grouping | None  # None for the grouping of the cells themselves, and where it was forgotten
    group_of: CodeArray  # (n groups of the source, or n_cells) the group here
    histograms: dict[int, IntArray] = field(default_factory=dict)  # by the identity of the values

    @property
    def n_groups(self) -> int:
        """Number of different combinations, those that only a population has included."""
        return len(self.keys)

    @property
    def sizes(self) -> IntArray:
        """(n_groups,) records."""
        return self.tallies[:, 0]

    @property
    def n_entries(self) -> int:
        """Entries of all arrays that stay in memory with it."""
        return self.keys.size + self.tallies.size + len(self.group_of) + sum(h.size for h in self.histograms.values())


class Groupings:
    """Makes groupings of nodes, and keeps those from which others can be made cheaply."""

    def __init__(self, problem: Problem) -> None:
        self.ladders, keys = Ladders.of(problem)
        self._counts = problem.cells.counts
        self._populations: dict[str, int] = {}
        columns = [self._counts]
        for requirement in problem.requirements:
            if requirement.population is not None and requirement.population_name not in self._populations:
                self._populations[requirement.population_name] = len(columns)
                columns.append(requirement.population)
        layout = self.ladders.layout
        self._fields = (
            np.array(layout.word, dtype=np.int64),
            np.array(layout.shift, dtype=np.uint64),
            np.array([(1 << bits) - 1 for bits in layout.bits], dtype=np.uint64),
        )
        self._tables: dict[tuple[int, int, int], KeyArray] = {}
        self._masks = [((1 << bits) - 1) << shift for bits, shift in zip(layout.bits, layout.shift, strict=True)]
        bottom = (0,) * self.ladders.n_attributes
        group_of, keys, tallies = self._roll_up(keys, np.stack(columns, axis=1), bottom, bottom)
        self._widest = sorted(range(len(bottom)), key=lambda j: -self.ladders.rungs[j].widths[0])
        self.base = Grouping(bottom, keys, tallies, None, group_of)
        self._forget()

    def _forget(self) -> None:
        """Keep nothing but the first grouping."""
        self._kept = [self.base]
        self._levels = np.zeros((1, self.ladders.n_attributes), dtype=np.int64)
        self._groups = np.array([self.base.n_groups], dtype=np.int64)
        self._entries = self.base.n_entries

    def at(self, levels: Levels, source: Grouping | None = None) -> Grouping:
        """Return the grouping of a node, made from a finer one if that is given, and not kept then.

        On the way from a large grouping to a node only the widest attributes are generalized at first: few nodes
        differ in these, so that what comes out serves many others too.
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

        Groups are numbered as they first occur, on whatever way they are rolled up; so the way need not be kept.
        """
        if grouping is self.base:
            return self.base.group_of
        return self._make(self.base, grouping.levels).group_of[self.base.group_of]

    def people(self, grouping: Grouping, name: str) -> IntArray:
        """Return (n_groups,) the people of one population."""
        return grouping.tallies[:, self._populations[name]]

    @property
    def population_names(self) -> tuple[str, ...]:
        return tuple(self._populations)

    def blocks(
        self, grouping: Grouping, requirement: Requirement, chosen: BoolArray
    ) -> Iterator[tuple[IntArray, ClassHistograms]]:
        """Yield the chosen groups and what the requirement's model sees of them, some at a time."""
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
        """Return (n_groups, n_values) records of each sensitive value; None if too large or if none is looked at."""
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
        """Return the groups that keys of one node become at another, and the keys and tallies of these."""
        kept = [(1 << 64) - 1] * keys.shape[1]  # bits of each word that are not lost where all become one
        recoded, tables, most = [], [], 1
        for j, (rung, low, high) in enumerate(zip(self.ladders.rungs, start, end, strict=True)):
            width = rung.widths[high]
            most *= width
            if width == 1:
                kept[self.ladders.layout.word[j]] ^= self._masks[j]
            elif width != rung.widths[low]:
                recoded.append(j)
                tables.append(self._table(j, low, high))
        first = np.zeros(len(tables), dtype=np.int64)
        np.cumsum([len(table) for table in tables[:-1]], out=first[1:])
        table = np.concatenate(tables) if tables else np.zeros(1, dtype=np.uint64)
        fields = Fields._make((*(column[recoded] for column in self._fields), first))
        most, of_group = min(most, len(keys)), np.empty(len(keys), dtype=np.int32)
        slots = np.full(1 << max(2 * most - 1, 15).bit_length(), -1, dtype=np.int32)
        made = np.empty((most + 1, keys.shape[1]), dtype=np.uint64)
        n = roll_up(keys, np.array(kept, dtype=np.uint64), fields, table, slots, of_group, made)
        total = np.zeros((n, tallies.shape[1]), dtype=np.int64)
        add_rows(of_group, tallies, total)
        return of_group, made[:n].copy(), total

    def _table(self, attribute: int, start: int, end: int) -> KeyArray:
        known = self._tables.get((attribute, start, end))
        if known is None:
            known = self._tables[attribute, start, end] = self.ladders.rungs[attribute].step(start, end)
        return known

    def _keep(self, made: Grouping, source: Grouping) -> Grouping:
        """Keep what is much smaller than its source; when there is too much, forget all others but the first."""
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
    """The levels of one attribute, over the values that occur: ``codes[h]`` sends leaf code to level h's code.

    The codes of a level count its nodes in leaf order; code c of level h covers the leaves ``lo[h][c]:hi[h][c]``.
    """

    taxonomy: Taxonomy
    records: IntArray  # (n_codes of level 0,) records of each occurring value
    widths: tuple[int, ...]  # different values of each level
    codes: tuple[CodeArray, ...]  # n_levels x (n_codes of level 0,)
    lo: tuple[CodeArray, ...]  # n_levels x (n_codes of the level,)
    hi: tuple[CodeArray, ...]

    @classmethod
    def of(cls, taxonomy: Taxonomy, occurring: CodeArray, records: IntArray) -> Ladder:
        """Tabulate the levels for the leaves that occur, which are given in ascending order."""
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
        """Return (n_groups, n_attributes) the leaf ranges that keys of a node stand for."""
        lo = np.empty((len(keys), self.n_attributes), dtype=np.int32)
        hi = np.empty_like(lo)
        for j, (rung, level) in enumerate(zip(self.rungs, levels, strict=True)):
            code = self.codes(keys, j)
            lo[:, j], hi[:, j] = rung.lo[level][code], rung.hi[level][code]
        return lo, hi


class Fields(NamedTuple):
    """Where the codes of some attributes stand in packed keys."""

    word: IntArray  # (n_fields,)
    shift: KeyArray  # (n_fields,)
    mask: KeyArray  # (n_fields,)
    first: IntArray  # (n_fields,) where the new codes of each start in a table


@kernel
def roll_up(
    keys: KeyArray,
    kept: KeyArray,
    fields: Fields,
    table: KeyArray,
    slots: CodeArray,
    group_of: CodeArray,
    made: KeyArray,
) -> int:
    """Recode some fields of packed keys and put equal ones together; return how many groups there are.

    Bits that are not *kept* become 0, and code v of field c becomes ``table[first[c] + v]``. Fills in the new group of
    each old one, and the new groups' keys, which have room for one more. *slots* are a hash table, all -1.
    """
    word, shift, mask, first = fields
    n, n_words = keys.shape
    last, n_groups = np.uint64(len(slots) - 1), 0
    for i in range(n):
        for w in range(n_words):  # the key stands where it belongs if it is new
            made[n_groups, w] = keys[i, w] & kept[w]
        for c in range(len(first)):
            w = word[c]
            code = (made[n_groups, w] >> shift[c]) & mask[c]
            made[n_groups, w] ^= (code ^ table[first[c] + np.int64(code)]) << shift[c]
        mixed = np.uint64(0)
        for w in range(n_words):
            mixed = (mixed ^ made[n_groups, w]) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        slot = mixed & last
        while True:
            group = slots[slot]
            if group < 0:
                group = n_groups
                slots[slot] = group
                n_groups += 1
                break
            same = True
            for w in range(n_words):
                if made[group, w] != made[n_groups, w]:
                    same = False
                    break
            if same:
                break
            slot = (slot + np.uint64(1)) & last
        group_of[i] = group
    return n_groups


@kernel
def add_rows(group_of: CodeArray, histograms: IntArray, total: IntArray) -> None:
    """Add the histograms of old groups to those of their new ones."""
    for i in range(len(group_of)):
        group = group_of[i]
        for v in range(histograms.shape[1]):
            total[group, v] += histograms[i, v]

"""An adversary's beliefs about the sensitive values of a person with known quasi values, given a sliced table.

Models judge groups in whole numbers, and mixtures of groups with a safety margin.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from shoal.core import kernels as counting
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import Pairs, count_pairs, inline_kernel, kernel, place_of, same_rows
from shoal.models.base import ClassHistograms, ValueModel
from shoal.plan.judging import Judge
from shoal.plan.problem import Problem, Requirement
from shoal.plan.slices import Part, Pieces, link_parts

_RESCALE = 300.0
_BLOCK_ENTRIES = 1 << 21


class Clues(NamedTuple):
    """The information of parts, and of the separators that link overlapping parts, about each tuple."""

    numbers: IntArray  # (n_tuples, n_parts) the tuples' values
    separators: IntArray  # (n_tuples, n_separators)
    n_sizes: int  # power of the bucket's size in the denominator
    informed: IntArray  # (n_parts,) 1 if the part has the sensitive attribute
    between: IntArray  # (n_separators,) the same for separators


@dataclass(frozen=True, slots=True, eq=False)
class _View:
    """The parts that are informative about one sensitive attribute."""

    entries: Entries
    clues: Clues
    lists: tuple[Pairs, ...]  # of the parts, then of the separators
    chosen: int  # the first informed part

    @property
    def groups(self) -> Pairs:
        """The groups of the first part that has the sensitive attribute."""
        return self.lists[self.chosen]

    @property
    def joins(self) -> bool:
        """Whether several parts contain the sensitive attribute; then a group alone does not determine the belief."""
        return bool(self.clues.informed.sum() > 1)


class Beliefs:
    """p(t,.) of every distinct tuple of quasi values, over all buckets of one slicing.

    Li, Li, Zhang, Molloy, "Slicing", Section 3.2. A tuple is given by its values in all parts. For each part, ``lists``
    has the buckets of each value. Such a pair of value and bucket is a *group*: the records of one bucket with the same
    value of one part.
    """

    def __init__(
        self,
        problem: Problem,
        parts: Sequence[Part],
        pieces: Pieces,
        n_buckets: int,
        published: IntArray | None = None,
    ) -> None:
        """Prepare the tuples; *published* are the records of every cell, if the pieces are only some of them."""
        self._problem = problem
        self._parts = tuple(parts)
        self._pieces = pieces
        self._n_buckets = n_buckets
        sizes = counting.sum_groups(pieces.bucket, pieces.records, n_buckets)
        self._log_size = np.log(np.maximum(sizes, 1).astype(np.float64))
        self.lists = [self._list(part.values[pieces.cell], part.n_values) for part in parts]
        first, self.tuple_of = same_rows([part.values[pieces.cell] for part in parts])  # (n_pieces,)
        self._tuples = np.stack([part.values[pieces.cell[first]] for part in parts], axis=1).astype(np.int64)
        if published is None:
            published = counting.sum_groups(pieces.cell.astype(np.int32), pieces.records, problem.cells.n_cells)
        self._judges = [Judge.of(requirement, published) for requirement in problem.requirements]
        links = link_parts([part.members for part in parts])
        if links is None:
            raise ValueError("the parts do not form a tree")
        self._links = [link.shared for link in links]
        self._views: dict[frozenset[int], _View] = {}

    @property
    def n_tuples(self) -> int:
        return len(self._tuples)

    def _list(self, values: CodeArray, n_values: int) -> Pairs:
        return count_pairs(values, n_values, self._pieces.bucket, self._n_buckets, self._pieces.records)

    def failing(self) -> BoolArray:
        """Return (n_tuples,) which tuples do not provably satisfy all requirements on values."""
        out = np.zeros(self.n_tuples, dtype=np.bool_)
        rows = np.arange(self.n_tuples, dtype=np.int64)
        for judge in self._judges:
            model = judge.requirement.model
            if not isinstance(model, ValueModel):
                continue
            view = self._view(judge.requirement)
            unsure = rows
            if not view.joins:
                holds = judge.holds(*self._groups(judge, view))
                matches, least = self._match(rows, view, holds.astype(np.float64))
                out[rows[(least < 1) & (matches == 1)]] = True
                unsure = rows[(least < 1) & (matches > 1)]
            for some, shares in self._shares(unsure, view, judge.requirement):
                out[some] |= ~model.holds_surely(shares, judge.whole)
        return out

    def pieces_that_fail(self) -> BoolArray:
        """Return (n_pieces,) which pieces are in failing groups or, if parts join, belong to failing tuples.

        If all groups hold, every tuple that the buckets could form holds as a mixture of groups, even if the table
        lacks it.
        """
        out = np.zeros(len(self._pieces.cell), dtype=np.bool_)
        for judge in self._judges:
            if judge.requirement.values is not None:
                view = self._view(judge.requirement)
                if view.joins:
                    return self.failing()[self.tuple_of]
                out |= ~judge.holds(*self._groups(judge, view))[view.groups.pair_of]
        return out

    def worst(self, place: int) -> float:
        """Return the strongest main parameter of a requirement on values that all tuples satisfy.

        A mixture reaches at least the exact figure of its weakest group, but its own figure is rounded. So only
        mixtures with a group weaker than all tuples of one group can be the weakest, and there are none if some tuple
        has only a weakest group.
        """
        judge = self._judges[place]
        model, view = judge.requirement.model, self._view(judge.requirement)
        sign = 1.0 if model.achieved_is == "at least" else -1.0
        rows = np.arange(self.n_tuples, dtype=np.int64)
        least = np.full(self.n_tuples, -np.inf)
        if not view.joins:
            figures = sign * judge.reach(*self._groups(judge, view))
            matches, least = self._match(rows, view, figures)
            weakest_alone = least[matches == 1].min(initial=np.inf)
            rows = rows[(matches > 1) & (least < weakest_alone)]
        for some, shares in self._shares(rows, view, judge.requirement):
            reached = sign * model.reach(ClassHistograms.of_shares(shares), judge.whole)
            least[some] = np.maximum(least[some], reached)
        return sign * float(least.min())

    def _match(self, rows: IntArray, view: _View, figures: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return for tuples the number of matching buckets, and the minimum figure of their groups there."""
        everywhere = np.zeros(len(view.entries.bucket), dtype=np.float64)
        first = view.entries.first_entry[view.chosen]
        everywhere[first : first + len(figures)] = figures
        return match(rows, view.clues.numbers, view.entries, view.chosen, everywhere)

    def _groups(self, judge: Judge, view: _View) -> tuple[IntArray, CodeArray, IntArray]:
        """Return where the groups of the sensitive part begin, and the values and records in their order."""
        order = view.groups.order
        return view.groups.begin, judge.requirement.values_at(self._pieces.cell[order]), self._pieces.records[order]

    def _shares(self, rows: IntArray, view: _View, requirement: Requirement) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield blocks of tuples with (n, n_values) the belief about each."""
        if not len(rows):
            return
        groups = self._histograms(view, requirement)
        step = max(_BLOCK_ENTRIES // max(requirement.n_values, 1), 1)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            weights = mix(some, view.clues, view.entries, self._log_size, groups, requirement.n_values)
            yield some, weights / weights.sum(axis=1, keepdims=True)

    def _histograms(self, view: _View, requirement: Requirement) -> Pairs:
        """Return the sensitive values of all entries of informed parts and separators."""
        values = requirement.values_at(self._pieces.cell).astype(np.int32)
        informed = np.flatnonzero(np.concatenate([view.clues.informed, view.clues.between])).tolist()
        entries = [view.lists[place].pair_of + view.entries.first_entry[place] for place in informed]
        return count_pairs(
            np.concatenate(entries).astype(np.int32),
            len(view.entries.bucket),
            np.tile(values, len(informed)),
            requirement.n_values,
            np.tile(self._pieces.records, len(informed)),
        )

    def _view(self, requirement: Requirement) -> _View:
        wanted = self._problem.sensitive_places(requirement)
        if wanted in self._views:
            return self._views[wanted]
        informed = [wanted <= set(part.sensitive) for part in self._parts]
        relevant = [i for i, part in enumerate(self._parts) if part.n_values > 1 or informed[i]]
        separators = [link for link in self._links if link]
        codes = []  # n_separators x (n_pieces,)
        for link in separators:
            columns = [self._problem.value_codes[place][self._pieces.cell] for place in link if place >= 0]
            codes.append(same_rows(columns)[1] if columns else np.zeros(len(self._pieces.cell), dtype=np.int32))
        between = [self._list(values, int(values.max()) + 1) for values in codes]
        lists = (*(self.lists[i] for i in relevant), *between)
        entries = Entries.of(lists)
        numbers = np.zeros((self.n_tuples, len(codes)), dtype=np.int64)
        for place, values in enumerate(codes):
            numbers[self.tuple_of, place] = values + entries.offset[len(relevant) + place]
        linking = {-1 - place for place in wanted}
        clues = Clues(
            numbers=self._tuples[:, relevant] + entries.offset[: len(relevant)],
            separators=numbers,
            n_sizes=len(self._links) - len(separators) + 1 - (len(self._parts) - len(relevant)),
            informed=np.array([informed[i] for i in relevant], dtype=np.int64),
            between=np.array([linking <= set(link) for link in separators], dtype=np.int64),
        )
        view = self._views[wanted] = _View(entries, clues, lists, [informed[i] for i in relevant].index(True))
        return view


class Entries(NamedTuple):
    """The lists of several parts one after another, as plain arrays for compiled loops.

    Value v of part i is number ``offset[i] + v``; its entries are ``start[number]:stop[number]``.
    """

    offset: IntArray  # (n_parts,)
    start: IntArray  # (n_numbers,)
    stop: IntArray  # (n_numbers,)
    bucket: CodeArray  # (n_entries,)
    log_count: FloatArray  # (n_entries,)
    first_entry: IntArray  # (n_parts,) where the entries of each part begin

    @classmethod
    def of(cls, lists: Sequence[Pairs]) -> Entries:
        """Concatenate lists."""
        values = np.array([len(one.start) - 1 for one in lists], dtype=np.int64)
        entries = np.array([len(one.second) for one in lists], dtype=np.int64)
        first = np.cumsum(entries) - entries
        return cls(
            offset=np.cumsum(values) - values,
            start=np.concatenate([one.start[:-1] + shift for one, shift in zip(lists, first, strict=True)]),
            stop=np.concatenate([one.start[1:] + shift for one, shift in zip(lists, first, strict=True)]),
            bucket=np.concatenate([one.second for one in lists]),
            log_count=np.log(np.concatenate([one.records for one in lists]).astype(np.float64)),
            first_entry=first,
        )


@inline_kernel
def _shortest_part(entries: Entries, mine: IntArray) -> int:
    """Return the part in which the tuple's value occurs in the smallest number of buckets."""
    best = 0
    for part in range(1, len(mine)):
        length = entries.stop[mine[part]] - entries.start[mine[part]]
        if length < entries.stop[mine[best]] - entries.start[mine[best]]:
            best = part
    return best


@inline_kernel
def _find_all(entries: Entries, mine: IntArray, shortest: int, entry: int, places: IntArray) -> bool:
    """Whether the bucket of an entry has all values of a tuple; *places* become their entries, by parts."""
    for part in range(len(mine)):
        found = entry
        if part != shortest:
            low, high = entries.start[mine[part]], entries.stop[mine[part]]
            found = place_of(entries.bucket, low, high, entries.bucket[entry])
            if found < 0:
                return False
        places[part] = found
    return True


@kernel
def match(
    rows: IntArray, numbers: IntArray, entries: Entries, chosen: int, figures: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return the number of buckets that match each tuple, and the minimum figure of the tuple's groups there.

    ``numbers[t]`` are tuple t's values. The entries of part *chosen* are the groups, and *figures* has one for each.
    """
    matches = np.zeros(len(rows), dtype=np.int64)
    least = np.full(len(rows), np.inf, dtype=np.float64)
    places = np.empty(numbers.shape[1], dtype=np.int64)
    for row in range(len(rows)):
        mine = numbers[rows[row]]
        shortest = _shortest_part(entries, mine)
        for entry in range(entries.start[mine[shortest]], entries.stop[mine[shortest]]):
            if _find_all(entries, mine, shortest, entry, places):
                matches[row] += 1
                least[row] = min(least[row], figures[places[chosen]])
    return matches, least


@kernel
def mix(
    rows: IntArray, clues: Clues, entries: Entries, log_size: FloatArray, groups: Pairs, n_values: int
) -> FloatArray:
    """Return (n_rows, n_values) the belief about tuples, not yet normalized.

    The weight of a bucket is the expected number of its records that equal the tuple: the counts of the parts' values
    over the counts of separators, and over the bucket's size to the power ``n_sizes``. For parts and separators with
    the sensitive attribute, the counts are per sensitive value, from the pairs of entry and value in *groups*.
    """
    n_parts, n_separators = clues.numbers.shape[1], clues.separators.shape[1]
    out = np.zeros((len(rows), n_values), dtype=np.float64)
    places = np.empty(n_parts, dtype=np.int64)
    joints = np.empty(n_separators, dtype=np.int64)
    for row in range(len(rows)):
        mine, separators = clues.numbers[rows[row]], clues.separators[rows[row]]
        shortest = _shortest_part(entries, mine)
        reference, first = 0.0, True
        for entry in range(entries.start[mine[shortest]], entries.stop[mine[shortest]]):
            if not _find_all(entries, mine, shortest, entry, places):
                continue
            # the factors of parts and separators without the sensitive attribute
            here = entries.bucket[entry]
            log_weight = -clues.n_sizes * log_size[here]
            for part in range(n_parts):
                if clues.informed[part] == 0:
                    log_weight += entries.log_count[places[part]]
            for joint in range(n_separators):
                low, high = entries.start[separators[joint]], entries.stop[separators[joint]]
                joints[joint] = place_of(entries.bucket, low, high, here)
                if clues.between[joint] == 0:
                    log_weight -= entries.log_count[joints[joint]]
            # weights are relative to a reference, to avoid overflow
            if first:
                reference, first = log_weight, False
            elif log_weight - reference > _RESCALE:
                out[row] *= math.exp(reference - log_weight)
                reference = log_weight
            _add_values(clues, groups, places, joints, math.exp(log_weight - reference), out[row])
    return out


@inline_kernel
def _add_values(
    clues: Clues, groups: Pairs, places: IntArray, joints: IntArray, weight: float, out: FloatArray
) -> None:
    """Add the factors of the informed parts and separators of one bucket for each sensitive value."""
    lead = 0
    while clues.informed[lead] == 0:
        lead += 1
    for item in range(groups.start[places[lead]], groups.start[places[lead] + 1]):
        value = groups.second[item]
        share = weight * groups.records[item]
        for part in range(lead + 1, len(places)):
            if clues.informed[part] == 1:
                low, high = groups.start[places[part]], groups.start[places[part] + 1]
                found = place_of(groups.second, low, high, value)
                share = 0.0 if found < 0 else share * groups.records[found]
        for joint in range(len(joints)):
            if clues.between[joint] == 1 and share > 0.0:
                low, high = groups.start[joints[joint]], groups.start[joints[joint] + 1]
                share /= groups.records[place_of(groups.second, low, high, value)]
        out[value] += share

"""Checks whether a node of the lattice satisfies every requirement, and with which suppressed records.

The published part of a coarse class at a finer node is a union of classes that satisfy the model, so it satisfies a
merge-monotone model, too. A coarse class that fails must therefore lose enough records for the rest to satisfy it, and
the sum over classes is a lower bound of the suppression at every finer node. This sum is easy to compute for models
with a curve, and for t-closeness with the equal distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.kernels import kernel
from shoal.methods.incognito.groups import Grouping, Groupings, Levels
from shoal.methods.incognito.measures import NodeMeasure
from shoal.models.base import TableModel, Whole
from shoal.models.t_closeness import TCloseness
from shoal.plan.problem import Problem, Requirement

_ROUNDING = 1e-6  # of the number of records, a margin for rounding errors

_ORDER = {"sizes": 0, "population": 1, "values": 2}


class Finding(Enum):
    """The result of checking a node."""

    HOLDS = "it satisfies every requirement"
    DEARER = "it costs more than the best known node, whether or not it satisfies the requirements"
    FAILS = "it fails, which implies nothing about other nodes"
    FAILS_DOWN = "it fails, and so do all finer nodes"


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """A checked node: the suppressed groups with which it satisfies the requirements, and its cost."""

    levels: Levels
    finding: Finding
    passes: bool  # whether the cheap tests passed, as they then do for all coarser nodes
    plain: float  # cost without suppression, a lower bound for coarser nodes
    cost: float = np.inf
    suppressed: BoolArray | None = None  # (n_groups,) if it holds


class Judge:
    """Checks nodes: cheap tests first, models last; exact under suppression.

    The records of failing classes are suppressed, and the smallest classes while a model of all classes together fails.
    For models that compare with the whole table, the whole is the remaining table; classes that fail against it are
    suppressed repeatedly until all remaining ones hold. Models that are not merge-monotone permit no suppression, and
    must also hold for labels that only a population has.
    """

    def __init__(self, problem: Problem, groupings: Groupings, measure: NodeMeasure, budget: int) -> None:
        self.groupings = groupings
        self.measure = measure
        self.of_all = [one.model for one in problem.requirements if isinstance(one.model, TableModel)]
        requirements = [one for one in problem.requirements if not isinstance(one.model, TableModel)]
        self.asked = sorted(
            ((requirement, requirement.whole(problem.cells.counts)) for requirement in requirements),
            key=lambda one: (one[0].model.relative_to_whole, _ORDER[one[0].model.sees]),
        )
        self.monotone = all(r.merge_monotone for r in requirements)  # table models always are
        self.relative = any(r.model.relative_to_whole for r in requirements)
        # whether remaining classes stay valid; the remaining table cannot be counted in people
        bears = all(r.model.merge_monotone and not (r.people and r.model.relative_to_whole) for r in requirements)
        self.budget = budget if bears else 0
        self.smallest = max((r.model.smallest_class for r in requirements), default=1)
        self.n_checked = 0
        self._bounded = [(requirement, whole) for requirement, whole in self.asked if has_bound(requirement)]
        self._several = int(np.count_nonzero(groupings.base.sizes)) > 1

    def check(self, levels: Levels, best: float = np.inf, source: Grouping | None = None) -> Verdict:
        """Check a node; stop early if it cannot cost less than *best*."""
        self.n_checked += 1
        grouping = self.groupings.at(levels, source)
        sizes = grouping.sizes
        nothing = np.zeros(len(sizes), dtype=np.bool_)
        plain = self.measure.cost(grouping, nothing)
        n_small = int(sizes[sizes < self.smallest].sum())
        if n_small > self.budget:
            return Verdict(levels, Finding.FAILS_DOWN, False, plain)
        failing = nothing
        if n_small:
            failing = (sizes > 0) & (sizes < self.smallest)
            if self.measure.cost(grouping, failing) > best:
                return Verdict(levels, Finding.DEARER, True, plain)
        if self.budget and self._surely_fails(grouping):
            return Verdict(levels, Finding.FAILS_DOWN, False, plain)
        suppressed = self._suppress(grouping, failing)
        if suppressed is None:
            down = self.monotone and not self.budget
            return Verdict(levels, Finding.FAILS_DOWN if down else Finding.FAILS, True, plain)
        kept = int(np.count_nonzero((sizes > 0) & ~suppressed))
        if not kept or (kept == 1 and self.relative and self._several):
            return Verdict(
                levels, Finding.FAILS, True, plain
            )  # one class equals the whole table and would satisfy relative models trivially
        return Verdict(levels, Finding.HOLDS, True, plain, self.measure.cost(grouping, suppressed), suppressed)

    def find_failing(self, grouping: Grouping) -> list[tuple[Requirement, Whole, BoolArray]]:
        """Return the requirements that groups fail without suppression, and (n_groups,) which groups fail each."""
        found = []
        for requirement, whole in self.asked:
            failing = np.zeros(grouping.n_groups, dtype=np.bool_)
            self._judge(grouping, requirement, whole, failing)
            if failing.any():
                found.append((requirement, whole, failing))
        return found

    def _surely_fails(self, grouping: Grouping) -> bool:
        """Whether this node and all finer ones need more suppression than the budget allows."""
        for requirement, whole in self._bounded:
            counts = self.groupings.dense(grouping, requirement)
            if counts is not None:
                least = least_suppressed(requirement, whole, grouping.sizes, counts, self.smallest, self.budget)
                if least > self.budget:
                    return True
        return False

    def _suppress(self, grouping: Grouping, failing: BoolArray) -> BoolArray | None:
        """Return the groups that have to be suppressed, or None if they exceed the budget."""
        failing = failing.copy()
        relative = [(requirement, whole) for requirement, whole in self.asked if requirement.model.relative_to_whole]
        for requirement, whole in self.asked[: len(self.asked) - len(relative)]:
            self._judge(grouping, requirement, whole, failing)
            if self._exceeds(grouping, failing):
                return None
        changed = bool(relative)
        while changed:
            before = int(np.count_nonzero(failing))
            remaining = [self._remaining(grouping, requirement, whole, failing) for requirement, whole in relative]
            for (requirement, _), whole in zip(relative, remaining, strict=True):
                self._judge(grouping, requirement, whole, failing)
                if self._exceeds(grouping, failing):
                    return None
            changed = int(np.count_nonzero(failing)) > before
        return self._suppress_smallest(grouping, failing) if self.of_all else failing

    def _suppress_smallest(self, grouping: Grouping, failing: BoolArray) -> BoolArray | None:
        """Suppress the smallest classes, as few as possible, until the others together hold; None if over budget."""
        kept = np.flatnonzero(~failing & (grouping.sizes > 0))
        sizes = np.sort(grouping.sizes[kept])
        left = max(self.budget - int(grouping.sizes[failing].sum()), 0)

        def holds(n_gone: int) -> bool:
            return all(model.holds_together(sizes[n_gone:]) for model in self.of_all)

        most = min(int(np.searchsorted(np.cumsum(sizes), left, side="right")), len(sizes) - 1)
        if not len(sizes) or holds(0):
            return failing
        if most < 1 or self.relative or not holds(most):
            return None
        low = 0
        while most - low > 1:
            middle = (low + most) // 2
            low, most = (low, middle) if holds(middle) else (middle, most)
        order = np.lexsort((*grouping.keys[kept].T, grouping.sizes[kept]))  # independent of the order of rows
        failing[kept[order[:most]]] = True
        return failing

    def _judge(self, grouping: Grouping, requirement: Requirement, whole: Whole, failing: BoolArray) -> None:
        """Mark groups that fail a model; groups without records matter only for models that are not merge-monotone."""
        chosen = ~failing
        if requirement.model.merge_monotone:
            chosen &= grouping.sizes > 0
        elif requirement.population is not None:
            chosen &= (grouping.sizes > 0) | (self.groupings.people(grouping, requirement.population_name) > 0)
        for groups, histograms in self.groupings.blocks(grouping, requirement, chosen):
            failing[groups[~requirement.model.holds(histograms, whole)]] = True

    def _exceeds(self, grouping: Grouping, failing: BoolArray) -> bool:
        if not self.budget:
            return bool(failing.any())
        return int(grouping.sizes[failing].sum()) > self.budget

    def _remaining(self, grouping: Grouping, requirement: Requirement, whole: Whole, failing: BoolArray) -> Whole:
        """Return the whole table without the suppressed groups."""
        if whole.counts is None or not failing.any():
            return whole
        counts = whole.counts.copy()
        for _, histograms in self.groupings.blocks(grouping, requirement, failing):
            if histograms.counts is not None:
                counts -= histograms.counts.sum(axis=0)
        return replace(whole, size=int(counts.sum()), counts=counts)


def has_bound(requirement: Requirement) -> bool:
    """Whether `least_suppressed` has a bound for a requirement."""
    model = requirement.model
    if requirement.people is not None:
        return False
    if isinstance(model, TCloseness):
        return model.distance == "equal"
    curve = model.curve
    return (
        requirement.values is not None
        and curve is not None
        and (curve.distinct > 1 or min(curve.limits, default=1) < 1)
    )


def least_suppressed(
    requirement: Requirement, whole: Whole, sizes: IntArray, counts: IntArray, smallest: int, budget: int
) -> float:
    """Return a lower bound of the records that this node and any finer one must suppress.

    t-closeness is measured against the remaining table, which has at least the records beyond the budget.
    """
    enough = budget + _ROUNDING * whole.size
    if isinstance(requirement.model, TCloseness):
        kept_share = 1.0 - budget / max(whole.size, 1)
        reference = whole.counts if whole.counts is not None else counts.sum(axis=0)
        if kept_share <= 0.0:
            return 0.0
        found = surely_distant(sizes, counts, reference, smallest, requirement.model.t, kept_share, enough)
    else:
        curve = requirement.model.curve
        if curve is None:
            return 0.0
        limits = np.array([float(limit) for limit in curve.limits], dtype=np.float64)
        found = surely_uneven(sizes, counts, smallest, limits, curve.distinct, enough)
    return math.floor(found - _ROUNDING * whole.size)


@kernel
def surely_distant(
    sizes: IntArray, counts: IntArray, whole: IntArray, smallest: int, t: float, kept_share: float, enough: float
) -> float:
    """Return a lower bound of the records to suppress for t-closeness to the remaining table.

    Let S be the values that are more frequent in a class than in the table: they have c of its n records and a share w
    of the table. Their share of the remaining table is at most w / kept_share, and suppressing x records of S helps
    most, which requires (c - x) / (n - x) <= t + w / kept_share. Classes below *smallest* are suppressed completely.
    The sum stops once it exceeds *enough*.
    """
    total = 0.0
    n_all = 0
    for v in range(len(whole)):
        n_all += whole[v]
    for i in range(len(sizes)):
        n = sizes[i]
        if n < smallest:
            total += n
            continue
        inside, outside = 0, 0
        for v in range(len(whole)):
            if counts[i, v] * n_all > n * whole[v]:
                inside += counts[i, v]
                outside += whole[v]
        limit = t + outside / n_all / kept_share
        if limit < 1.0 and inside > limit * n:
            total += (inside - limit * n) / (1.0 - limit)
        if total > enough:
            break
    return total


@kernel
def surely_uneven(
    sizes: IntArray, counts: IntArray, smallest: int, limits: FloatArray, distinct: int, enough: float
) -> float:
    """Return a lower bound of the records to suppress until the k most frequent values satisfy ``limits[k - 1]``.

    Suppressing x records of these k values, which have r of n records, helps most: r - x <= limit (n - x). Classes with
    fewer than *distinct* values or *smallest* records are suppressed completely. The sum stops once it exceeds
    *enough*.
    """
    total = 0.0
    n_limits = len(limits)
    largest = np.zeros(n_limits, dtype=np.int64)  # descending
    for i in range(len(sizes)):
        n = sizes[i]
        if n < smallest:
            total += n
            continue
        present = 0
        largest[:] = 0
        for v in range(counts.shape[1]):
            count = counts[i, v]
            present += count > 0
            if n_limits and count > largest[n_limits - 1]:
                place = n_limits - 1
                while place > 0 and largest[place - 1] < count:
                    largest[place] = largest[place - 1]
                    place -= 1
                largest[place] = count
        if present < distinct:
            total += n
            continue
        together, surplus = 0, 0.0
        for k in range(n_limits):
            together += largest[k]
            if limits[k] < 1.0:
                surplus = max(surplus, (together - limits[k] * n) / (1.0 - limits[k]))
        total += surplus
        if total > enough:
            break
    return total

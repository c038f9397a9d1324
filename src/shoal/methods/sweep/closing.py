"""The defended sweep: a label closes with all free records under it or not at all, and every class lifts its records.

A reader who has everyone's quasi values counts a record that left a class with that class. So the sweep judges groups
by the true values of all their records (docs/adr/0007-transparent-reader.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.methods.sweep.kernels import can_label
from shoal.methods.sweep.rules import Models, Parts, caps_of
from shoal.models.base import ClassHistograms, ValueModel
from shoal.plan.problem import Problem, Requirement

_ENTRIES = 1 << 22  # of the histograms of groups that are judged in one batch
_LARGEST = 64  # records: the minimum size is never searched beyond this


class Remainder:
    """The records that no class has taken. A group closes only if the remaining records hold as one class.

    Every class that closes uses some of the room between the frequent values and their limits. A group may use at most
    *pace* times its proportional part of this room; otherwise early groups would leave none to later ones. A group in
    which more than a share of *labelled* records would publish labels waits for a larger group.
    """

    def __init__(self, problem: Problem, models: Models, pace: float, labelled: Fraction) -> None:
        self._problem, self._models, self._pace, self._labelled = problem, models, pace, labelled
        parts = Parts.of(problem)
        self._wholes = [requirement.whole(problem.cells.counts) for requirement in problem.requirements]
        people = [np.array([one.population.sum()]) for one in problem.requirements if one.population is not None]
        self._most_labelled = [Fraction(1) if share is None else share for share in problem.max_generalized]
        self._most_labelled += [Fraction(1)] * (len(problem.sensitive) - len(self._most_labelled))
        self._uneven = models.uneven  # with equal weights, labels for all records make all values equally frequent
        self._left = self._tally(np.array([0, len(parts.cell)]), parts, people)
        self._limits = [limit_values(requirement, problem) for requirement in problem.requirements]

    def smallest_group(self) -> int:
        """Return the size below which no group can close, because it would need too many labels.

        Among groups of n records, a group of n different values needs the smallest number of labels.
        """
        found = self._models.rules.plain_records
        for requirement, limits, left in zip(self._problem.requirements, self._limits, self._left, strict=True):
            place = requirement.place
            if place is None or limits is None or left.counts is None or not self._problem.may_generalize(place):
                continue
            most = min(self._labelled, self._most_labelled[place])
            if most < 1 and not self._uneven[place]:
                values = np.flatnonzero(left.counts[0])
                values = values[np.argsort(-limits[values], kind="stable")][:_LARGEST]
                counts = np.zeros((len(values), len(limits)), dtype=np.int64)
                counts[:, values] = np.tri(len(values), dtype=np.int64)
                classes = ClassHistograms(counts.sum(axis=1), counts)
                able = self._can_label(place, classes, most)
                found = max(found, 1 + int(np.argmax(np.append(able, True))))
        return found

    def close(self, first: IntArray, parts: Parts, population: Sequence[IntArray]) -> IntArray:
        """Return (n_groups,) the records of each group that closes, or 0; they leave the remainder.

        Group g has the parts ``first[g]:first[g + 1]``. *population* has, for every model of a population, the people
        under the labels of all groups. The order of the groups must not depend on sensitive values.
        """
        found = np.zeros(len(first) - 1, dtype=np.int64)
        widest = max((one.n_values for one in self._problem.requirements), default=1)
        step = max(_ENTRIES // max(widest, 1), 1)
        for start in range(0, len(found), step):
            edges = first[start : start + step + 1]
            groups = self._tally(edges, parts, [people[start : start + step] for people in population])
            closing = np.flatnonzero(self._choose(groups))
            found[start + closing] = groups[0].sizes[closing]
        return found

    def _tally(self, first: IntArray, parts: Parts, population: Sequence[IntArray]) -> list[ClassHistograms]:
        """Return the histograms of groups of parts for each requirement."""
        sizes = np.add.reduceat(parts.records[: first[-1]], first[:-1])
        people, found = iter(population), []
        for requirement in self._problem.requirements:
            counts = None
            if requirement.values is not None:
                counts = np.zeros((len(sizes), requirement.n_values), dtype=np.int64)
                kernels.tally_classes(first, requirement.values[parts.cell], parts.records, counts)
            found.append(ClassHistograms(sizes, counts, None if requirement.population is None else next(people)))
        return found

    def _hold(self, groups: Sequence[ClassHistograms], labelled: Fraction = Fraction(1)) -> BoolArray:
        """Return (n_groups,) whether groups satisfy every model with labels for at most a share of their records."""
        verdict = np.ones(len(groups[0].sizes), dtype=np.bool_)
        for requirement, classes, whole in zip(self._problem.requirements, groups, self._wholes, strict=True):
            model, place = requirement.model, requirement.place
            if not isinstance(model, ValueModel) or place is None or not self._problem.may_generalize(place):
                verdict &= model.holds(classes, whole)
                continue
            verdict &= model.holds_true(classes, whole)
            most = min(labelled, self._most_labelled[place])
            if most < 1 or self._uneven[place]:
                verdict[verdict] = self._can_label(place, _take(classes, verdict), most)
        return verdict

    def _can_label(self, place: int, classes: ClassHistograms, share: Fraction) -> BoolArray:
        """Return (n_groups,) whether labels of an attribute for a share of the records make each group hold."""
        models, n_leaves = self._models, self._problem.sensitive[place].taxonomy.n_leaves
        most = classes.sizes * share.numerator // share.denominator
        counts = np.zeros((0, n_leaves), dtype=np.int64) if classes.counts is None else classes.counts
        return can_label(models.rules, np.array(models.of_place[place]), models.steps[place], counts, most)

    def _choose(self, groups: Sequence[ClassHistograms]) -> BoolArray:
        """Return (n_groups,) which groups close, one after the other; they leave the remainder."""
        closing, waiting = np.zeros(len(groups[0].sizes), dtype=np.bool_), self._may_leave(groups)
        waiting = waiting[self._hold([_take(one, waiting) for one in groups], self._labelled)]  # slow, so last
        while len(waiting):
            together = [_add_up(_take(one, waiting)) for one in groups]
            holds = self._hold_without(together)
            n = len(waiting) if holds.all() else int(np.argmin(holds))
            closing[waiting[:n]] = True
            self._left = self._without([_take(one, np.array([n - 1])) for one in together])
            waiting = waiting[n + 1 :]
            waiting = waiting[self._may_leave([_take(one, waiting) for one in groups])]
        return closing

    def _may_leave(self, groups: Sequence[ClassHistograms]) -> IntArray:
        able = np.flatnonzero(self._within_pace(groups))
        return able[self._hold_without([_take(one, able) for one in groups])]

    def _without(self, groups: Sequence[ClassHistograms]) -> list[ClassHistograms]:
        """Return the remainder without each group."""
        found = []
        for left, one in zip(self._left, groups, strict=True):
            counts = None if left.counts is None or one.counts is None else left.counts - one.counts
            found.append(replace(left, sizes=left.sizes - one.sizes, counts=counts))
        return found

    def _hold_without(self, groups: Sequence[ClassHistograms]) -> BoolArray:
        rest = self._without(groups)
        return np.asarray(self._hold(rest) | (rest[0].sizes == 0))

    def _within_pace(self, groups: Sequence[ClassHistograms]) -> BoolArray:
        """Return (n_groups,) whether each group leaves enough room below the limits of values."""
        verdict = np.ones(len(groups[0].sizes), dtype=np.bool_)
        for limits, left, one in zip(self._limits, self._left, groups, strict=True):
            if limits is not None and left.counts is not None and one.counts is not None:
                room = limits - left.counts[0] / max(int(left.sizes[0]), 1)
                used = limits - one.counts / one.sizes[:, np.newaxis]
                verdict &= (used <= self._pace * np.maximum(room, 1e-300)).all(axis=1)
        return verdict


def limit_values(requirement: Requirement, problem: Problem) -> FloatArray | None:
    """Return (n_values,) the maximum share of each value in a class, or None if the model has no such limit."""
    if requirement.place is not None and problem.may_generalize(requirement.place):
        return np.array([float(cap) for cap in caps_of(requirement, problem)])
    curve = requirement.model.curve
    return None if curve is None or not curve.limits else np.full(requirement.n_values, float(curve.limits[0]))


def _take(classes: ClassHistograms, which: IntArray | BoolArray) -> ClassHistograms:
    counts, people = classes.counts, classes.population
    return replace(
        classes,
        sizes=classes.sizes[which],
        counts=None if counts is None else counts[which],
        population=None if people is None else people[which],
    )


def _add_up(classes: ClassHistograms) -> ClassHistograms:
    counts = None if classes.counts is None else classes.counts.cumsum(axis=0)
    return replace(classes, sizes=classes.sizes.cumsum(), counts=counts)

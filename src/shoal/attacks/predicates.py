"""Conjunctions over quasi attributes, read off a release and tried on people: how many isolate somebody."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from shoal.attacks import kernels
from shoal.attacks.base import Attack, People, Tally, Trials
from shoal.attacks.parts import Labels
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray

NOTHING, WITHIN, AT_LEAST, BELOW = 0, 1, 2, 3  # what is asked of an attribute
ROUNDS = 2000
_MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """Conjunctions over quasi attributes, each by what it asks of an attribute, and by which of its labels."""

    relation: IntArray  # (n, n_known) NOTHING, WITHIN the label, AT_LEAST where it begins, or BELOW where it ends
    label: IntArray  # (n, n_known)

    def __len__(self) -> int:
        return len(self.relation)

    def some(self, n: int, rng: np.random.Generator) -> Predicates:
        """Return n of them, or all if there are fewer."""
        few = rng.permutation(len(self))[:n]
        return Predicates(self.relation[few], self.label[few])

    def elsewhere(self, view: ReleaseView, rng: np.random.Generator) -> Predicates:
        """Return predicates of the same form, with every label drawn from all that its attribute has in the release."""
        label = self.label.copy()
        for a in range(len(view.known)):
            own = np.flatnonzero(self.relation[:, a])
            if len(own):
                label[own, a] = rng.choice(_usable(view, a), len(own))
        return Predicates(self.relation, label)

    @classmethod
    def multivariate(
        cls, view: ReleaseView, labels: CodeArray, rows: AnyIntArray, used: BoolArray, sided: BoolArray
    ) -> Predicates:
        """Read one predicate off each of some records, given (n, n_known) which of its attributes are used.

        Where *sided* says so, a number above the median is asked to be at least the record's own, any other at most.
        """
        relation = np.where(used, WITHIN, NOTHING)
        for a, stated in enumerate(view.asked):
            middles = middles_of(stated)[labels[:, a]]
            if np.isfinite(middles).any():
                side = np.where(middles[rows] >= np.nanmedian(middles), AT_LEAST, BELOW)
                relation[:, a] = np.where(used[:, a] & sided & np.isfinite(middles[rows]), side, relation[:, a])
        return cls(relation, labels[rows].astype(np.int64))

    @classmethod
    def univariate(cls, view: ReleaseView, labels: CodeArray) -> Predicates:
        """Return all predicates about one attribute: labels that were published once, and both ends of numbers."""
        asked = []
        for a, stated in enumerate(view.asked):
            count = np.bincount(labels[:, a], minlength=len(stated.low))
            asked += [(a, WITHIN, label) for label in np.flatnonzero((count == 1) & _tells(view, a)).tolist()]
            ended = np.flatnonzero(np.isfinite(stated.spans).all(axis=1))
            if len(ended):
                asked.append((a, BELOW, int(ended[stated.spans[ended, 1].argmin()])))
                asked.append((a, AT_LEAST, int(ended[stated.spans[ended, 0].argmax()])))
        attribute, relation, label = np.array(asked, dtype=np.int64).reshape(-1, 3).T
        found = np.zeros((2, len(asked), len(view.known)), dtype=np.int64)
        found[:, np.arange(len(asked)), attribute] = relation, label
        return cls(*found)

    def count(self, view: ReleaseView, people: People, most: int) -> IntArray:
        """Return (n,) how many of the people fulfil each, counted up to *most*.

        Labels are ranges of an attribute's codes; ends of numbers, of places between all ends that are asked for.
        """
        predicate, column = np.nonzero(self.relation)  # of each condition
        attribute, relation, label = column.copy(), self.relation[predicate, column], self.label[predicate, column]
        low, high = np.zeros(len(column), dtype=np.int64), np.full(len(column), np.iinfo(np.int32).max, dtype=np.int64)
        gaps, places = np.full(len(column), -1, dtype=np.int64), []
        for a, stated in enumerate(view.asked):
            own = attribute == a
            at_least, below = own & (relation == AT_LEAST), own & (relation == BELOW)
            within = np.flatnonzero(own & (relation == WITHIN))
            if stated.by_number:
                at_least[within] = below[within] = True
            else:
                of = label[within]
                low[within], high[within], gaps[within] = stated.low[of], stated.high[of], stated.gaps[of]
            begins, ends = stated.spans[label[at_least], 0], stated.spans[label[below], 1]
            edges, numbers = np.unique(np.concatenate([begins, ends])), people.numbers[:, a]
            low[at_least] = np.searchsorted(edges, begins) + 1
            high[below] = np.searchsorted(edges, ends) + 1
            column[at_least | below] += len(view.asked)
            places.append(np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right"), -1))
        start = np.searchsorted(predicate, np.arange(len(self) + 1))
        columns = np.concatenate([people.codes.T, np.stack(places).astype(np.int32), people.person[np.newaxis]])
        asked = kernels.Conditions(start, column, low, high, gaps)
        return count_fulfilling(columns, asked, view.space.bits, most)


def count_fulfilling(columns: CodeArray, asked: kernels.Conditions, bits: KeyArray, most: int) -> IntArray:
    """Return (n_predicates,) how many people fulfil each predicate; see the kernel, which runs in threads."""
    n = len(asked.start) - 1
    size = max(1, -(-n // (4 * (os.cpu_count() or 1))))

    def block(begin: int) -> IntArray:
        own = asked._replace(start=asked.start[begin : begin + size + 1])
        return kernels.count_fulfilling(columns, own, bits, most)

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return np.concatenate(list(threads.map(block, range(0, n, size))))


def middles_of(stated: Labels) -> FloatArray:
    """Return (n_labels,) the middle of what each label covers, NaN for categories and labels without ends."""
    ends = np.where(np.isfinite(stated.spans), stated.spans, np.nan)
    return np.asarray((ends[:, 0] + ends[:, 1]) / 2)


def telling(view: ReleaseView, labels: CodeArray) -> BoolArray:
    """Return (n, n_known) which labels of records say anything: one that covers everything does not."""
    return np.stack([_tells(view, a)[own] for a, own in enumerate(labels.T)], axis=1)


def _tells(view: ReleaseView, attribute: int) -> BoolArray:
    stated = view.asked[attribute]
    return np.asarray(stated.high - stated.low < view.widths[attribute])


def _usable(view: ReleaseView, attribute: int) -> IntArray:
    """Return the labels of an attribute that say anything, and have ends if they are of numbers."""
    labels = np.flatnonzero(_tells(view, attribute))
    spans = view.asked[attribute].spans[labels]
    ended = np.isfinite(spans).all(axis=1) | np.isnan(spans).all(axis=1)
    return labels[ended] if ended.any() else labels


Count: TypeAlias = Callable[[People, int], IntArray]  # of predicates, how many people fulfil each, up to a number


class PredicateAttack(Attack):
    """Isolates people: counts the predicates that exactly one person of the source fulfils.

    On the control group the attack's own predicates are tried.
    """

    question = "singling out"
    of_people = False

    @abstractmethod
    def ask(
        self, view: ReleaseView, everybody: People, rng: np.random.Generator
    ) -> tuple[dict[str, tuple[Count, Count]], list[str]]:
        """Return predicates and those of the baseline, by name, the ones that count first; and notes."""

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Try predicates on all people of the source and of the control group."""
        asked, notes = self.ask(view, targets, rng)
        n_source, n_control = targets.n_people, 0 if control is None else control.n_people
        if control is not None and n_control < n_source:
            notes.append(
                f"the control group has {n_control:,} people and the source {n_source:,}: how many predicates would "
                "isolate somebody among as many others was estimated"
            )
        found = {}
        for name, (count, by_chance) in asked.items():
            elsewhere = None
            if control is not None:
                most = max(_MOST, int(_MOST * n_control / n_source))
                elsewhere = estimate_isolated(count(control, most), n_source / n_control)
            success, baseline = (
                Tally(int((each == 1).sum()), len(each)) for each in (count(targets, 2), by_chance(targets, 2))
            )
            found[name] = Trials(name, success, elsewhere, baseline)
        first = next(iter(found.values()))
        return replace(first, attack=self.name, variants={} if self.name in found else found, notes=tuple(notes))


def estimate_isolated(counts: IntArray, share: float) -> Tally:
    """Count the predicates that isolate one of as many people as the source has, none of whom is in the data.

    *counts* says how many of the control group fulfil each; the source has *share* times as many people.
    """
    if share <= 1:
        # Of X who fulfil it, each is among the first n with chance q: exactly one is with X q (1 - q)^(X - 1).
        chance = float((counts * share * (1 - share) ** np.maximum(counts - 1, 0)).mean())
        return Tally(round(chance * len(counts)), len(counts))
    trials = max(1, round(len(counts) / share**2))  # what a smaller group tells is worth fewer trials
    return Tally(round(extrapolate_isolated(counts, share) * trials), trials)


def extrapolate_isolated(counts: IntArray, share: float) -> float:
    """Return the share of predicates that isolate one among *share* times as many people as were counted.

    The expected numbers behind the counts are taken as a mixture, fitted by maximum likelihood over a fine grid. In
    simulations its standard error is about that of so many trials as *share* squared goes into the predicates.

    >>> counts = np.random.default_rng(1).poisson(0.5, 20000)
    >>> bool(abs(extrapolate_isolated(counts, 2.0) - np.exp(-1)) < 0.02)
    True
    """
    most = int(counts.max(initial=0)) + 1
    seen = np.bincount(counts, minlength=most + 1).astype(np.float64)
    grid = np.concatenate([[0.0], np.geomspace(0.01, most + 1.0, 80)])
    number = np.arange(most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    chance = np.exp(number[:, None] * np.log(np.maximum(grid, 1e-300)) - grid - logs[:, None])  # (n_counts, n_grid)
    weight = np.full(len(grid), 1 / len(grid))
    for _ in range(ROUNDS):
        joint = chance * weight
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        weight = seen @ joint / seen.sum()
    return float(weight @ (share * grid * np.exp(-share * grid)))

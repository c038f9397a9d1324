"""Conjunctions over quasi attributes, read off a release and tried on people: how many isolate somebody."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from shoal.attacks import kernels
from shoal.attacks.base import Tally
from shoal.attacks.parts import Labels
from shoal.attacks.view import People, ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import gather_entries

WITHIN, AT_LEAST, BELOW = 0, 1, 2
ROUNDS = 2000
_MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Sketch:
    """Predicates as lists of conditions: of an attribute, what about it, and which of its labels."""

    start: IntArray  # (n_predicates + 1,)
    attribute: IntArray  # (n_conditions,)
    relation: IntArray  # (n_conditions,) WITHIN the label, AT_LEAST where it begins, or BELOW where it ends
    label: IntArray  # (n_conditions,)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, predicates: AnyIntArray) -> Sketch:
        _, place = gather_entries(self.start, predicates)
        start = np.concatenate([[0], np.cumsum(np.diff(self.start)[predicates])])
        return Sketch(start, self.attribute[place], self.relation[place], self.label[place])

    def some(self, n: int, rng: np.random.Generator) -> Sketch:
        """Return n of them, or all if there are fewer."""
        return self[rng.permutation(len(self))[:n]]

    def elsewhere(self, view: ReleaseView, rng: np.random.Generator) -> Sketch:
        """Return predicates of the same form, with every label drawn from all that its attribute has in the release."""
        usable = [_usable(view, a) for a in range(len(view.known))]
        label = self.label.copy()
        for a, labels in enumerate(usable):
            own = np.flatnonzero(self.attribute == a)
            label[own] = rng.choice(labels, len(own)) if len(own) else label[own]
        return Sketch(self.start, self.attribute, self.relation, label)

    @classmethod
    def multivariate(
        cls, view: ReleaseView, labels: CodeArray, rows: AnyIntArray, used: BoolArray, sided: BoolArray
    ) -> Sketch:
        """Read one predicate off each of some records, given (n, n_known) which of its attributes are used.

        Where *sided* says so, a number above the median is asked to be at least the record's own, any other at most.
        """
        own = labels[rows]
        form = np.zeros(own.shape, dtype=np.int64)
        for a, told in enumerate(view.asked):
            middles = middles_of(told)
            if np.isfinite(middles).any():
                side = np.where(middles[own[:, a]] >= np.nanmedian(middles[labels[:, a]]), AT_LEAST, BELOW)
                form[:, a] = np.where(sided & np.isfinite(middles[own[:, a]]), side, WITHIN)
        predicate, attribute = np.nonzero(used)
        start = np.searchsorted(predicate, np.arange(len(rows) + 1))
        return cls(start, attribute, form[predicate, attribute], own[predicate, attribute].astype(np.int64))

    @classmethod
    def univariate(cls, view: ReleaseView, labels: CodeArray) -> Sketch:
        """Return all predicates about one attribute: labels that were published once, and both ends of numbers."""
        conditions = []
        for a, told in enumerate(view.asked):
            count = np.bincount(labels[:, a], minlength=len(told.low))
            conditions += [(a, WITHIN, label) for label in np.flatnonzero((count == 1) & _tells(view, a)).tolist()]
            ended = np.flatnonzero(np.isfinite(told.spans).all(axis=1))
            if len(ended):
                conditions.append((a, BELOW, int(ended[told.spans[ended, 1].argmin()])))
                conditions.append((a, AT_LEAST, int(ended[told.spans[ended, 0].argmax()])))
        columns = np.array(conditions, dtype=np.int64).reshape(-1, 3)
        return cls(np.arange(len(columns) + 1), columns[:, 0], columns[:, 1], columns[:, 2])


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """Predicates as ranges of codes: of an attribute's codes, or of the places of numbers between all edges in use."""

    view: ReleaseView
    conditions: kernels.Conditions  # the column is the attribute, or n_known more for its numbers
    edges: tuple[FloatArray, ...]  # of each attribute, ascending

    @classmethod
    def of(cls, view: ReleaseView, sketch: Sketch) -> Predicates:
        """Look up what the labels cover."""
        n = len(sketch.attribute)
        low, high = np.zeros(n, dtype=np.int64), np.full(n, np.iinfo(np.int32).max, dtype=np.int64)
        gaps, column, edges = np.full(n, -1, dtype=np.int64), sketch.attribute.copy(), []
        for a, told in enumerate(view.asked):
            own = sketch.attribute == a
            at_least, below = own & (sketch.relation == AT_LEAST), own & (sketch.relation == BELOW)
            within = np.flatnonzero(own & (sketch.relation == WITHIN))
            if told.by_number:
                at_least[within] = below[within] = True
            else:
                label = sketch.label[within]
                low[within], high[within], gaps[within] = told.low[label], told.high[label], told.gaps[label]
            begins, ends = told.spans[sketch.label[at_least], 0], told.spans[sketch.label[below], 1]
            edges.append(np.unique(np.concatenate([begins, ends])))
            low[at_least] = np.searchsorted(edges[-1], begins) + 1
            high[below] = np.searchsorted(edges[-1], ends) + 1
            column[at_least | below] += len(view.asked)
        return cls(view, kernels.Conditions(sketch.start, column, low, high, gaps), tuple(edges))

    def count(self, people: People, most: int) -> IntArray:
        """Return (n_predicates,) how many of the people fulfil each, counted up to *most*."""
        places = [_places(*both) for both in zip(self.edges, people.numbers.T, strict=True)]
        columns = np.concatenate([people.codes.T, np.stack(places), people.person[np.newaxis]])
        return count_fulfilling(columns, self.conditions, self.view.space.bits, most)


def count_fulfilling(columns: CodeArray, asked: kernels.Conditions, bits: KeyArray, most: int) -> IntArray:
    """Return (n_predicates,) how many people fulfil each predicate; see the kernel, which runs in threads."""
    n = len(asked.start) - 1
    size = max(1, -(-n // (4 * (os.cpu_count() or 1))))

    def block(begin: int) -> IntArray:
        own = asked._replace(start=asked.start[begin : begin + size + 1])
        return kernels.count_fulfilling(columns, own, bits, most)

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return np.concatenate(list(threads.map(block, range(0, n, size))))


def middles_of(told: Labels) -> FloatArray:
    """Return (n_labels,) the middle of what each label covers, NaN for categories and labels without ends."""
    ends = np.where(np.isfinite(told.spans), told.spans, np.nan)
    return np.asarray((ends[:, 0] + ends[:, 1]) / 2)


def _places(edges: FloatArray, numbers: FloatArray) -> CodeArray:
    """Return between which edges numbers lie, -1 for what is no number."""
    return np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right"), -1).astype(np.int32)


def telling(view: ReleaseView, labels: CodeArray) -> BoolArray:
    """Return (n, n_known) which labels of records say anything: one that covers everything does not."""
    return np.stack([_tells(view, a)[own] for a, own in enumerate(labels.T)], axis=1)


def _tells(view: ReleaseView, attribute: int) -> BoolArray:
    told = view.asked[attribute]
    return np.asarray(told.high - told.low < view.widths[attribute])


def _usable(view: ReleaseView, attribute: int) -> IntArray:
    """Return the labels of an attribute that say anything, and have ends if they are of numbers."""
    labels = np.flatnonzero(_tells(view, attribute))
    spans = view.asked[attribute].spans[labels]
    ended = np.isfinite(spans).all(axis=1) | np.isnan(spans).all(axis=1)
    return labels[ended] if ended.any() else labels


def count_isolated(counts: IntArray) -> Tally:
    """Count the predicates that one person alone fulfils, given how many people fulfil each."""
    return Tally(int((counts == 1).sum()), len(counts))


def limit_counting(n_control: int, n_source: int) -> int:
    """Return how far people of a control group who fulfil a predicate must be counted."""
    return max(_MOST, int(_MOST * n_control / n_source))


def smaller_control(n_control: int, n_source: int) -> str:
    """Return the note on a control group that is smaller than the source."""
    return (
        f"the control group has {n_control:,} people and the source {n_source:,}: how many predicates would isolate "
        "somebody among as many others was estimated"
    )


def estimate_isolated(counts: IntArray, n_control: int, n_source: int) -> Tally:
    """Count the predicates that isolate one of as many people as the source has, none of whom is in the data.

    *counts* says how many of the control group fulfil each.
    """
    share = n_source / n_control
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

"""Conjunctions over attributes, read off a release and tried on people: how many isolate somebody."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from shoal.attacks import kernels
from shoal.attacks.base import ALARMS, Attack, People, Tally, Trials
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray

NOTHING = -1  # label of an attribute that a predicate does not name
DEPTHS = (100, 500, 1000)  # of the likeliest predicates, each of which is reported
OF_DEPTH = ALARMS / 20  # the worst of some depths is chosen, and predicates that overlap are right or wrong together
ROUNDS = 2000
_MOST = 64


@dataclass(frozen=True, slots=True, eq=False)
class Predicates:
    """Conjunctions over attributes, each by the labels that it names and how far a number may be from its label."""

    label: CodeArray  # (n, n_known) or NOTHING
    reach: FloatArray  # (n, n_known) 0: what the label covers; else the numbers that are at most so far from its middle

    def __len__(self) -> int:
        return len(self.label)

    def draw_elsewhere(self, view: ReleaseView, rng: np.random.Generator) -> Predicates:
        """Return predicates of the same form, with every label drawn from all that its attribute has in the release."""
        label = self.label.copy()
        for a, stated in enumerate(view.labels):
            usable = np.flatnonzero(stated.tells)
            for asked in (self.reach[:, a] == 0, self.reach[:, a] > 0):
                own = np.flatnonzero(asked & (label[:, a] != NOTHING))
                if len(own):
                    label[own, a] = rng.choice(usable, len(own))
                usable = np.flatnonzero(np.isfinite(stated.middles))
        return Predicates(label, self.reach)

    def count(self, view: ReleaseView, people: People, most: int) -> IntArray:
        """Return (n,) how many of the people fulfil each, counted up to *most*.

        Labels are ranges of an attribute's codes; numbers near a label, of places between all ends that are asked for.
        """
        predicate, attribute = np.nonzero(self.label != NOTHING)  # of each condition
        label, reach = self.label[predicate, attribute], self.reach[predicate, attribute]
        column, gaps = attribute.copy(), np.full(len(attribute), -1, dtype=np.int64)
        low, high, places = np.zeros_like(gaps), np.zeros_like(gaps), []
        for a, stated in enumerate(view.labels):
            within, near = (np.flatnonzero((attribute == a) & asked) for asked in (reach == 0, reach > 0))
            of, middles = label[within], stated.middles[label[near]]
            low[within], high[within], gaps[within] = stated.low[of], stated.high[of], stated.gaps[of]
            begins, ends = middles - reach[near], np.nextafter(middles + reach[near], np.inf)
            edges, numbers = np.unique(np.concatenate([begins, ends])), people.numbers[:, a]
            low[near], high[near] = np.searchsorted(edges, begins) + 1, np.searchsorted(edges, ends) + 1
            column[near] += len(view.labels)
            places.append(np.where(np.isfinite(numbers), np.searchsorted(edges, numbers, side="right"), -1))
        start = np.searchsorted(predicate, np.arange(len(self) + 1))
        columns = np.concatenate([people.codes.T, np.stack(places).astype(np.int32), people.person[np.newaxis]])
        asked = kernels.Conditions(start, column, low, high, gaps)
        return count_fulfilling(columns, asked, view.space.bits, most)


def count_fulfilling(columns: CodeArray, asked: kernels.Conditions, bits: KeyArray, most: int) -> IntArray:
    """Return (n_predicates,) how many people fulfil each predicate, up to *most*.

    ``columns`` is (n_columns + 1, n_records), in the last row whose record it is. Only records that meet a predicate's
    rarest condition are looked at; every predicate has a condition.
    """
    n_predicates, size = len(asked.start) - 1, columns.shape[1]
    order = np.empty(columns.shape, dtype=np.int32)
    begin, end = np.zeros(len(asked.column), dtype=np.int64), np.zeros(len(asked.column), dtype=np.int64)
    for column in np.unique(asked.column):
        order[column] = np.argsort(columns[column], kind="stable")
        ranked, own = columns[column][order[column]], asked.column == column
        begin[own], end[own] = np.searchsorted(ranked, asked.low[own]), np.searchsorted(ranked, asked.high[own])
    predicate = np.repeat(np.arange(n_predicates), np.diff(asked.start))
    rarest = np.lexsort((end - begin, predicate))[asked.start[:-1]]
    leads = np.stack([asked.column[rarest] * size + begin[rarest], asked.column[rarest] * size + end[rarest]], axis=1)
    block = max(1, -(-n_predicates // (4 * (os.cpu_count() or 1))))

    def count(first: int) -> IntArray:
        own = asked._replace(start=asked.start[first : first + block + 1])
        return kernels.count_fulfilling(columns, order.reshape(-1), leads[first : first + block], own, bits, most)

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        return np.concatenate(list(threads.map(count, range(0, n_predicates, block))))


Count: TypeAlias = Callable[[People, int], IntArray]  # of predicates, how many people fulfil each, up to a number


class PredicateAttack(Attack):
    """Isolates people: counts the predicates that exactly one person of the source fulfils.

    On the control group the attack's own predicates are tried. What counts is the worst of several depths: some
    people stand out, and how many do is not to be watered down by all others.
    """

    question = "singling out"
    of_people = False

    @abstractmethod
    def ask(self, view: ReleaseView, everybody: People, rng: np.random.Generator) -> tuple[Count, Count]:
        """Return how predicates are counted, the likeliest first, and those of the baseline."""

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Try predicates on all people of the source and of the control group."""
        count, count_by_chance = self.ask(view, targets, rng)
        share, notes, beside = 1.0, [], None
        if control is not None:
            n_source, n_control = targets.n_people, control.n_people
            share = n_source / n_control
            beside = count(control, max(_MOST, int(_MOST / share)))
            if share > 1:
                notes.append(
                    f"the control group has {n_control:,} people and the source {n_source:,}: how many predicates "
                    "would isolate somebody among as many others was estimated"
                )
        right, blind = (counted == 1 for counted in (count(targets, 2), count_by_chance(targets, 2)))
        found = {}
        for depth in [*(depth for depth in DEPTHS if depth < len(right)), len(right)]:
            success, baseline = (Tally(int(each[:depth].sum()), depth) for each in (right, blind))
            elsewhere = None if beside is None else estimate_isolated(beside[:depth], share)
            name = f"depth {depth}" if depth < len(right) else "all"
            found[depth] = Trials(name, success, elsewhere, baseline, alarms=OF_DEPTH)
        worst = max(found, key=lambda depth: found[depth].risk.low)
        if worst < len(right):
            notes.append(f"of {len(right):,} predicates the {worst:,} likeliest count: they show the most, surely")
        variants = {each.attack: each for each in found.values()}
        return replace(found[worst], attack=self.name, variants=variants, notes=tuple(notes))


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

"""Risks beyond the average: of the people whom an adversary is surest about, and of the subgroup that fares worst."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from shoal.attacks.base import FEWEST, People, Subgroup, Tally, Trials
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray

SHARE = 0.01  # of the targets, who are called the most exposed
LEAST = 20  # people of whom a risk of some is stated
ALARMS = (
    0.003  # share of runs in which the most exposed, or any subgroup, may seem at risk where nothing is to be found
)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Of each of n people: whether the answer is right, how much the adversary believes in it, and their labels."""

    right: BoolArray
    belief: FloatArray  # only its order counts
    labels: CodeArray  # (n, n_known) the narrowest published label of each quasi value, -1 for none
    blind: BoolArray | None = None  # whether the answer without the release is right

    @property
    def surest(self) -> IntArray:
        """All people, the one in whose answer the adversary believes most first."""
        return np.argsort(-self.belief, kind="stable")

    def tally(self, rows: AnyIntArray) -> Tally:
        """Count the right answers about some."""
        return Tally(int(self.right[rows].sum()), len(rows))

    def compare(self, like: Trials, rows: AnyIntArray, others: Tally | None, alarms: float) -> Trials:
        """Return the trials of some, beside those of *others*, with an interval that alarms falsely so often only."""
        blindly = None if self.blind is None else Tally(int(self.blind[rows].sum()), len(rows))
        confidence = find_confidence(alarms, len(rows), len(rows) if others is None else others.trials)
        found = Trials(like.attack, self.tally(rows), others, blindly)
        return replace(found, decides=like.decides, about=like.about, confidence=confidence)


def find_confidence(alarms: float, n: int, m: int) -> float:
    """Return the confidence of two Wilson intervals, of n and m trials, that lie apart by chance in so many cases.

    Where rates are equal, standard errors go by the roots of n and m, and their sum is more than that of a difference.

    >>> round(find_confidence(0.003, 20, 20), 3)  # of one interval it would be 0.994
    0.948
    """
    apart = math.sqrt(1 / n + 1 / m) / (math.sqrt(1 / n) + math.sqrt(1 / m))
    return 2 * NormalDist().cdf(NormalDist().inv_cdf(1 - alarms) * apart) - 1


def expose(trials: Trials, view: ReleaseView, inside: Outcomes, outside: Outcomes | None) -> Trials:
    """Return trials with the risks of the most exposed, and of the worst subgroup, where enough people are there.

    The control group, if there is one, is taken in the same order and by the same labels.
    """
    subgroup = find_worst_subgroup(trials, view, inside, outside)
    most = max(LEAST, math.ceil(SHARE * len(inside.right)))
    if trials.exposed is not None or len(inside.right) <= most:
        return replace(trials, subgroup=subgroup)
    there = None
    if outside is not None:
        share = most / len(inside.right)
        there = outside.tally(outside.surest[: max(1, round(share * len(outside.right)))])
    exposed = inside.compare(trials, inside.surest[:most], there, ALARMS)
    return replace(trials, exposed=exposed, subgroup=subgroup)


def find_worst_subgroup(
    trials: Trials, view: ReleaseView, inside: Outcomes, outside: Outcomes | None
) -> Subgroup | None:
    """Return the published label whose people have the risk with the greatest lower bound, or None if all are rare.

    Each interval is so wide that all of them together alarm falsely no more often than one would (Bonferroni).
    """
    groups: list[tuple[int, int, IntArray, Tally | None]] = []
    for attribute, own in enumerate(inside.labels.T):
        for label in np.flatnonzero(np.bincount(own[own >= 0]) >= LEAST).tolist():
            rows, there = np.flatnonzero(own == label), None
            if outside is not None:
                beside = np.flatnonzero(outside.labels[:, attribute] == label)
                if len(beside) < FEWEST:
                    continue
                there = outside.tally(beside)
            if len(rows) < len(own):
                groups.append((attribute, label, rows, there))
    if not groups:
        return None
    tried = [inside.compare(trials, rows, there, ALARMS / len(groups)) for _, _, rows, there in groups]
    worst = max(range(len(groups)), key=lambda place: tried[place].risk.low)
    attribute, label = groups[worst][:2]
    texts = {number: text for text, number in view.labels[attribute].number.items()}
    return Subgroup(view.known[attribute], texts[label], tried[worst], len(groups))


def find_labels(view: ReleaseView, people: People) -> CodeArray:
    """Return (n, n_known) the narrowest published label that covers each quasi value, -1 where there is none."""
    columns = [find_narrowest(view, a, own) for a, own in enumerate(people.codes.T)]
    return np.stack([np.where(own < len(view.labels[a].low), own, -1) for a, own in enumerate(columns)], axis=1)


def find_narrowest(view: ReleaseView, attribute: int, codes: CodeArray) -> CodeArray:
    """Return (n,) the narrowest label that covers each code, or one beyond all labels."""
    stated = view.labels[attribute]
    label_of = np.full(int(view.widths[attribute]) + 1, len(stated.low), dtype=np.int32)  # unknown ones come last
    for widest in np.argsort(stated.low - stated.high, kind="stable").tolist():
        label_of[stated.low[widest] : stated.high[widest]] = widest
    return np.asarray(label_of[codes])

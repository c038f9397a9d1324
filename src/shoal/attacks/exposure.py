"""Risks beyond the average: of the people about whom an adversary is surest, and of the worst subgroup."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from shoal.attacks.base import ALARMS, FEWEST, People, Subgroup, Tally, Trials
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray

SHARE = 0.01  # of the targets are the most exposed
LEAST = 20  # people in the smallest group whose risk is stated
OF_SOME = ALARMS / 2  # false alarms for the most exposed, and for any subgroup; with the average 6 of 1,000 runs


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Of each of n people: whether the answer is right, how sure the adversary is, and the person's labels."""

    right: BoolArray
    belief: FloatArray  # only its order counts
    labels: CodeArray  # (n, n_known) the narrowest published label of each quasi value, -1 for none
    blind: BoolArray | None = None  # whether the guess without the release is right

    @property
    def surest(self) -> IntArray:
        """All people, those about whom the adversary is surest first."""
        return np.argsort(-self.belief, kind="stable")

    def tally(self, rows: AnyIntArray) -> Tally:
        return Tally.of(self.right[rows])

    def compare(self, rows: AnyIntArray, others: Tally | None, alarms: float, like: Trials) -> Trials:
        """Return the trials of some people, compared with *others*, at a false-alarm rate of *alarms*."""
        blindly = None if self.blind is None else Tally.of(self.blind[rows])
        return replace(like, success=self.tally(rows), control=others, baseline=blindly, alarms=alarms)


def judge(name: str, view: ReleaseView, inside: Outcomes, outside: Outcomes | None, *, decides: bool = False) -> Trials:
    """Return the trials of all people, of the most exposed, and of the worst subgroup, if each has enough people.

    The control group, if there is one, is ordered and grouped in the same way.
    """
    people, n = inside.surest, len(inside.right)
    like = Trials(name, inside.tally(people), decides=decides)
    trials = inside.compare(people, None if outside is None else outside.tally(outside.surest), ALARMS, like)
    subgroup = find_worst_subgroup(like, view, inside, outside)
    most, there = max(LEAST, math.ceil(SHARE * n)), None
    if n <= most:
        return replace(trials, subgroup=subgroup)
    if outside is not None:
        there = outside.tally(outside.surest[: max(1, round(most / n * len(outside.right)))])
    return replace(trials, exposed=inside.compare(people[:most], there, OF_SOME, like), subgroup=subgroup)


def find_worst_subgroup(like: Trials, view: ReleaseView, inside: Outcomes, outside: Outcomes | None) -> Subgroup | None:
    """Return the published label whose people have the risk with the greatest lower bound, or None if all are rare.

    The intervals are widened so that all of them together have the false-alarm rate of one (Bonferroni).
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
    tried = [inside.compare(rows, there, OF_SOME / len(groups), like) for _, _, rows, there in groups]
    worst = max(range(len(groups)), key=lambda place: tried[place].risk.low)
    attribute, label = groups[worst][:2]
    texts = {number: text for text, number in view.labels[attribute].number.items()}
    return Subgroup(view.known[attribute], texts[label], tried[worst], len(groups))


def find_labels(view: ReleaseView, people: People) -> CodeArray:
    """Return (n, n_known) the narrowest published label that covers each quasi value, -1 if no label does."""
    columns = [find_narrowest(view, a, own) for a, own in enumerate(people.codes.T)]
    return np.stack([np.where(own < len(view.labels[a].low), own, -1) for a, own in enumerate(columns)], axis=1)


def find_narrowest(view: ReleaseView, attribute: int, codes: CodeArray) -> CodeArray:
    """Return (n,) the narrowest label that covers each code, or a number beyond all labels."""
    stated = view.labels[attribute]
    label_of = np.full(int(view.widths[attribute]) + 1, len(stated.low), dtype=np.int32)  # the last is UNKNOWN
    span = stated.high - stated.low
    for widest in np.argsort(-span, kind="stable")[: np.count_nonzero(span > 1)].tolist():
        label_of[stated.low[widest] : stated.high[widest]] = widest
    alone = np.flatnonzero(span == 1)
    label_of[stated.low[alone]] = alone
    return np.asarray(label_of[codes])

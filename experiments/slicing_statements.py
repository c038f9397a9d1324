"""What Li, Li, Zhang and Molloy found in Figures 3 to 5, statement by statement, beside what was measured here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.slicing import Result, TableResult
from experiments.slicing_learning import BUCKETIZATION, CLASSIFIERS, GENERALIZATION, ORIGINAL, SLICING, TARGETS
from experiments.writing import Statement, verdict_of

Way = Literal["own", "unseen"]
WAYS: dict[Way, str] = {"own": "published rows", "unseen": "unseen records"}
OCCUPATION, EDUCATION = TARGETS
SLIGHTLY = 0.1  # of the accuracy
CLEAR = 2.0  # standard errors of a difference


class Comparisons:
    """The accuracies of one table, tested in one way, set against each other."""

    def __init__(self, table: TableResult, result: Result, way: Way) -> None:
        self._table, self._way = table, way
        self.l, self.c, self.n_records = result.l, result.c, table.records

    def value(self, technique: str, target: str, classifier: str, l: int, c: int = 2) -> float | None:
        """Return one accuracy, if there is one."""
        found = self._table.accuracy(technique, target, classifier, l, c)
        return found.own if self._way == "own" else found.unseen

    def against(self, ours: str, rival: str, target: str, *, l: Sequence[int] = (), c: Sequence[int] = (2,)) -> Contest:
        """Set two techniques against each other wherever both have an accuracy; without *l*, for every l."""
        both = (
            (self.value(ours, target, classifier, one_l, one_c), self.value(rival, target, classifier, one_l, one_c))
            for classifier in CLASSIFIERS
            for one_l in l or self.l
            for one_c in c
        )
        return Contest(
            ours, rival, target, [(a, b) for a, b in both if a is not None and b is not None], self.n_records
        )


@dataclass(frozen=True, slots=True)
class Contest:
    """The accuracies of two techniques, pair by pair; a difference within chance is a draw."""

    ours: str
    rival: str
    target: str
    pairs: list[tuple[float, float]]
    n_records: int

    @property
    def wins(self) -> int:
        """How often ours is clearly ahead."""
        return sum(ours - theirs > self._chance(ours, theirs) for ours, theirs in self.pairs)

    @property
    def losses(self) -> int:
        """How often ours is clearly behind."""
        return sum(theirs - ours > self._chance(ours, theirs) for ours, theirs in self.pairs)

    @property
    def told(self) -> str:
        """The outcome in words."""
        if not self.pairs:
            return f"{self.ours} and {self.rival}: nothing to compare"
        ours, theirs = (float(np.mean(side)) for side in zip(*self.pairs, strict=True))
        return (
            f"{self.target}, {self.ours} and {self.rival}: clearly ahead in {self.wins} of {len(self.pairs)}, "
            f"behind in {self.losses}, mean {ours:.3f} against {theirs:.3f}"
        )

    def _chance(self, *accuracies: float) -> float:
        return CLEAR * math.sqrt(_variance(accuracies, self.n_records))


def learning_statements(table: TableResult, result: Result, way: Way) -> list[Statement]:
    """Judge what section 6.2 says of Figures 3 to 5 on one table."""
    found = Comparisons(table, result, way)
    first = found.l[:1]
    return [
        _ahead(
            3,
            "Learning Occupation, slicing outperforms both generalization and bucketization in all experiments.",
            [found.against(SLICING, rival, OCCUPATION) for rival in (GENERALIZATION, BUCKETIZATION)],
        ),
        _ahead(
            3,
            "Bucketization performs even slightly worse than generalization.",
            [found.against(GENERALIZATION, BUCKETIZATION, OCCUPATION)],
        ),
        _slower_decline(found),
        _ahead(
            4,
            "Learning Education, bucketization and slicing perform much better than generalization.",
            [found.against(ours, GENERALIZATION, EDUCATION) for ours in (BUCKETIZATION, SLICING)],
        ),
        _ahead(
            4,
            "Both are less accurate than the original data.",
            [found.against(ORIGINAL, rival, EDUCATION) for rival in (BUCKETIZATION, SLICING)],
        ),
        _slightly_with_c(found),
        _ahead(
            5,
            "Slicing is more accurate than generalization with every c.",
            [found.against(SLICING, GENERALIZATION, target, l=first, c=found.c) for target in TARGETS],
        ),
        _ahead(
            5,
            "Learning Occupation, slicing is better than bucketization with every c.",
            [found.against(SLICING, BUCKETIZATION, OCCUPATION, l=first, c=found.c)],
        ),
    ]


def _ahead(figure: int, claim: str, contests: Sequence[Contest]) -> Statement:
    """The claim holds if ours is clearly ahead everywhere."""
    wins = sum(contest.wins for contest in contests)
    trials = sum(len(contest.pairs) for contest in contests)
    return Statement(figure, claim, verdict_of(wins, trials), "; ".join(contest.told for contest in contests) + ".")


def _slower_decline(found: Comparisons) -> Statement:
    claim = "As l grows, generalization and bucketization deteriorate much faster than slicing."
    texts, wins, trials = [], 0, 0
    for classifier in CLASSIFIERS:
        lost: dict[str, float] = {}
        spread: dict[str, float] = {}
        for technique in (SLICING, GENERALIZATION, BUCKETIZATION):
            ends = [found.value(technique, OCCUPATION, classifier, l) for l in (found.l[0], found.l[-1])]
            known = [value for value in ends if value is not None]
            if len(known) == len(ends):
                lost[technique] = known[0] - known[1]
                spread[technique] = _variance(known, found.n_records)
        texts.append(f"{classifier}: " + ", ".join(f"{technique} {value:+.3f}" for technique, value in lost.items()))
        for rival in lost.keys() - {SLICING} if SLICING in lost else ():
            trials += 1
            wins += lost[rival] - lost[SLICING] > CLEAR * math.sqrt(spread[rival] + spread[SLICING])
    measured = f"Lost from l = {found.l[0]} to {found.l[-1]}, " + "; ".join(texts) + "."
    return Statement(3, claim, verdict_of(wins, trials), measured)


def _slightly_with_c(found: Comparisons) -> Statement:
    claim = f"Accuracy decreases only slightly as c grows (here: by less than {SLIGHTLY:.0%} of it)."
    texts, wins, trials = [], 0, 0
    for target in TARGETS:
        for classifier in CLASSIFIERS:
            values = [found.value(SLICING, target, classifier, found.l[0], c) for c in found.c]
            if values[0] is None or values[-1] is None:
                continue
            trials += 1
            wins += values[-1] > values[0] * (1 - SLIGHTLY)
            listed = ", ".join("-" if value is None else f"{value:.3f}" for value in values)
            texts.append(f"{target}, {classifier}: {listed}")
    listed_c = ", ".join(str(c) for c in found.c)
    return Statement(5, claim, verdict_of(wins, trials), f"With c = {listed_c}: " + "; ".join(texts) + ".")


def _variance(accuracies: Sequence[float], n_records: int) -> float:
    """Return the variance of a sum or difference of accuracies, each a share of that many records."""
    return sum(accuracy * (1 - accuracy) for accuracy in accuracies) / n_records

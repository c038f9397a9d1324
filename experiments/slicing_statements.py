"""What Li, Li, Zhang and Molloy found, statement by statement, beside what was measured here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from experiments.figures import Statement, Verdict, find_verdict
from experiments.slicing import FIVE, SIX_QUASI, TWO, Matching, Result, TableResult
from experiments.slicing_learning import (
    BUCKETIZATION,
    CLASSIFIERS,
    GENERALIZATION,
    LOCAL_RECODING,
    MULTISETS,
    ORIGINAL,
    RANDOM_BUCKETIZATION,
    RANDOM_SLICING,
    SLICING,
    TARGETS,
)

Way = Literal["own", "unseen"]
WAYS: dict[Way, str] = {"own": "published rows", "unseen": "unseen records"}
OCCUPATION, EDUCATION = TARGETS
RANDOM, PRUNINGS, SAME_BUCKETS = "random buckets", "prunings", "section 2.2"
SLIGHTLY = 0.1  # of the accuracy
CLEAR = 2.0  # standard errors of a difference
NEAR = 0.1  # of the paper's number
ALMOST_ALL = 0.9
TIMES = 10
PAPER_FAKES = 87_936
PAPER_FAKES_MANY = 5_325
PAPER_ORIGINALS_MANY = 31_452
_STATED_ON = "occ-7"
_STATED_SIZE = 100
_JUDGED = f"Judged on the nearest partition, within {NEAR:.0%}."


class Comparisons:
    """The accuracies of one table, tested in one way, set against each other."""

    def __init__(self, table: TableResult, result: Result, way: Way) -> None:
        self._table, self._way = table, way
        self.l, self.c, self.n_records = result.l, result.c, table.records

    def value(self, technique: str, target: str, classifier: str, l: int, c: int = 2) -> float | None:
        """Return one accuracy, if there is one."""
        found = self._table.accuracy(technique, target, classifier, l, c)
        return found.own if self._way == "own" else found.unseen

    def against(
        self,
        ours: str,
        rival: str,
        target: str,
        *,
        l: Sequence[int] = (),
        c: Sequence[int] = (2,),
        classifiers: Sequence[str] = CLASSIFIERS,
    ) -> Contest:
        """Set two techniques against each other wherever both have an accuracy; without *l*, for every l."""
        both = (
            (self.value(ours, target, classifier, one_l, one_c), self.value(rival, target, classifier, one_l, one_c))
            for classifier in classifiers
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
    def summary(self) -> str:
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


def judge_learning(table: TableResult, result: Result, way: Way) -> list[Statement]:
    """Judge what section 6.2 says of Figures 3 to 5 on one table."""
    found = Comparisons(table, result, way)
    first = found.l[:1]
    trees = list(dict.fromkeys(one.classifier for one in table.prunings))
    return [
        _ahead(
            "3",
            "Learning Occupation, slicing outperforms both generalization and bucketization in all experiments.",
            [found.against(SLICING, rival, OCCUPATION) for rival in (GENERALIZATION, BUCKETIZATION)],
        ),
        _ahead(
            "3",
            "Bucketization performs even slightly worse than generalization.",
            [found.against(GENERALIZATION, BUCKETIZATION, OCCUPATION)],
        ),
        _slower_decline(found),
        _ahead(
            "4",
            "Learning Education, bucketization and slicing perform much better than generalization.",
            [found.against(ours, GENERALIZATION, EDUCATION) for ours in (BUCKETIZATION, SLICING)],
        ),
        _ahead(
            "4",
            "Both are less accurate than the original data.",
            [found.against(ORIGINAL, rival, EDUCATION) for rival in (BUCKETIZATION, SLICING)],
        ),
        _slightly_with_c(found, SLICING),
        _ahead(
            "5",
            "Slicing is more accurate than generalization with every c.",
            [found.against(SLICING, GENERALIZATION, target, l=first, c=found.c) for target in TARGETS],
        ),
        _ahead(
            "5",
            "Learning Occupation, slicing is better than bucketization with every c.",
            [found.against(SLICING, BUCKETIZATION, OCCUPATION, l=first, c=found.c)],
        ),
        *_judge_random_buckets(found),
        _ahead(
            PRUNINGS,
            "Learning Occupation, slicing outperforms generalization, however the tree is pruned.",
            [found.against(SLICING, GENERALIZATION, OCCUPATION, l=first, classifiers=trees)],
        ),
        _ahead(
            PRUNINGS,
            "Learning Occupation, slicing outperforms bucketization, however the tree is pruned.",
            [found.against(SLICING, BUCKETIZATION, OCCUPATION, l=first, classifiers=trees)],
        ),
        _ahead(
            SAME_BUCKETS,
            "Slicing teaches classifiers more than local recoding of the same buckets.",
            [found.against(SLICING, LOCAL_RECODING, target, l=first) for target in TARGETS],
        ),
        _ahead(
            SAME_BUCKETS,
            "Slicing teaches classifiers more than multisets of the same buckets.",
            [found.against(SLICING, MULTISETS, target, l=first) for target in TARGETS],
        ),
    ]


def _judge_random_buckets(found: Comparisons) -> Iterator[Statement]:
    """Judge the same statements where both techniques have random buckets; generalization has none that keep much."""
    for rival in (RANDOM_BUCKETIZATION, GENERALIZATION):
        yield _ahead(
            RANDOM,
            f"Learning Occupation, slicing outperforms {rival.split()[0]}.",
            [found.against(RANDOM_SLICING, rival, OCCUPATION)],
        )
    yield _ahead(
        RANDOM,
        "Learning Education, slicing performs much better than generalization.",
        [found.against(RANDOM_SLICING, GENERALIZATION, EDUCATION)],
    )
    yield _slightly_with_c(found, RANDOM_SLICING)


def judge_pairs(table: TableResult) -> list[Statement]:
    """Judge section 2.2 by how near the pairs of attributes stay to the original ones, worst draw against best."""
    by_name = {one.technique: one for one in table.distances}
    statements = []
    for ours, rival in ((SLICING, LOCAL_RECODING), (SLICING, MULTISETS), (MULTISETS, LOCAL_RECODING)):
        both = [by_name[name] for name in (ours, rival) if name in by_name]
        measured = "; ".join(f"{one.technique} {one.least:.4f} to {one.greatest:.4f}" for one in both)
        wins = int(len(both) > 1 and both[0].greatest < both[1].least)
        claim = f"On the same buckets, {ours} preserve{'s' * (ours == SLICING)} more information than {rival}."
        verdict = find_verdict(wins, len(both) // 2)
        statements.append(Statement(SAME_BUCKETS, claim, verdict, f"Distance of pairs, {measured}."))
    return statements


def _ahead(where: str, claim: str, contests: Sequence[Contest]) -> Statement:
    """The claim holds if ours is clearly ahead everywhere, and goes both ways if it is clearly behind somewhere too."""
    wins = sum(contest.wins for contest in contests)
    trials = sum(len(contest.pairs) for contest in contests)
    both = wins and any(contest.losses for contest in contests)
    verdict: Verdict = "goes both ways" if both else find_verdict(wins, trials)
    return Statement(where, claim, verdict, "; ".join(contest.summary for contest in contests) + ".")


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
    return Statement("3", claim, find_verdict(wins, trials), measured)


def _slightly_with_c(found: Comparisons, technique: str) -> Statement:
    claim = f"Accuracy decreases only slightly as c grows (here: by less than {SLIGHTLY:.0%} of it)."
    texts, wins, trials = [], 0, 0
    for target in TARGETS:
        for classifier in CLASSIFIERS:
            values = [found.value(technique, target, classifier, found.l[0], c) for c in found.c]
            if values[0] is None or values[-1] is None:
                continue
            trials += 1
            wins += values[-1] > values[0] * (1 - SLIGHTLY)
            listed = ", ".join("-" if value is None else f"{value:.3f}" for value in values)
            texts.append(f"{target}, {classifier}: {listed}")
    listed_c = ", ".join(str(c) for c in found.c)
    where = "5" if technique == SLICING else RANDOM
    return Statement(where, claim, find_verdict(wins, trials), f"With c = {listed_c}: " + "; ".join(texts) + ".")


def _variance(accuracies: Sequence[float], n_records: int) -> float:
    """Return the variance of a sum or difference of accuracies, each a share of that many records."""
    return sum(accuracy * (1 - accuracy) for accuracy in accuracies) / n_records


def judge_membership(table: TableResult) -> list[Statement]:
    """Judge what section 6.3 says of Figures 6 and 7 on one table; some numbers are stated for one table only."""
    return [
        _alone(table),
        *_nearly_twice(table),
        _grows_with_size(table),
        _more_with_c(table),
        _more_than_originals(table),
        *_fakes_with_many(table),
        _closer(table),
        _originals_have_more(table),
    ]


def _alone(table: TableResult) -> Statement:
    verdict: Verdict = "holds" if table.alone == 1 else "holds in part" if table.alone >= 0.5 else "does not hold"
    claim = "Each combination of QI values occurs once, so bucketization tells who is in the table."
    return Statement("6", claim, verdict, f"Of {table.alone:.1%} of the records nobody else has the QI values.")


def _nearly_twice(table: TableResult) -> Iterator[Statement]:
    for one in _stated(table):
        if one.columns == SIX_QUASI and one.n_fakes is not None:
            yield Statement(
                "6",
                f"With p = {_STATED_SIZE} and c = 2 there are {PAPER_FAKES:,} fake tuples, nearly twice the originals.",
                find_verdict(int(_near(one.n_fakes, PAPER_FAKES)), 1),
                "; ".join(
                    f"{other.columns}: {_count(other.n_fakes)} fakes for {other.n_records:,} records"
                    for other in _stated(table)
                )
                + f". {_JUDGED}",
            )


def _grows_with_size(table: TableResult) -> Statement:
    steps = [
        (before.n_fakes, after.n_fakes)
        for group in _by_columns(table).values()
        for before, after in itertools.pairwise(group)
        if before.n_fakes is not None and after.n_fakes is not None
    ]
    wins = sum(after > before for before, after in steps)
    return Statement(
        "6",
        "The number of fake tuples grows with the bucket size.",
        find_verdict(wins, len(steps)),
        f"It does in {wins} of {len(steps)} steps from one size to the next.",
    )


def _more_with_c(table: TableResult) -> Statement:
    groups = _by_columns(table)
    ratios = [
        five.n_fakes / two.n_fakes
        for two, five in zip(groups[TWO], groups[FIVE], strict=True)
        if two.n_fakes and five.n_fakes is not None
    ]
    measured = f"{min(ratios):,.0f} to {max(ratios):,.0f} times as many with c = 5 as with c = 2." if ratios else ""
    claim = f"Fake tuples become exponentially more with the number of columns (here: at least {TIMES} times as many)."
    return Statement("6", claim, find_verdict(sum(ratio >= TIMES for ratio in ratios), len(ratios)), measured)


def _more_than_originals(table: TableResult) -> Statement:
    counted = [one for one in table.matchings if one.n_fakes is not None]
    wins = sum((one.n_fakes or 0) > one.n_records for one in counted)
    return Statement(
        "6",
        "In almost all experiments there are more fake tuples than original ones.",
        find_verdict(wins, len(counted), ALMOST_ALL),
        f"So it is in {wins} of {len(counted)} (here: at least {ALMOST_ALL:.0%}).",
    )


def _fakes_with_many(table: TableResult) -> Iterator[Statement]:
    for one in _stated(table):
        if one.columns == SIX_QUASI and one.fakes_with_many is not None:
            fakes, records = (
                _near(one.fakes_with_many, PAPER_FAKES_MANY),
                _near(one.records_with_many, PAPER_ORIGINALS_MANY),
            )
            yield Statement(
                "7",
                f"With p = {_STATED_SIZE} and c = 2, {PAPER_FAKES_MANY:,} fake and {PAPER_ORIGINALS_MANY:,} original "
                "tuples have more than 20 matching buckets.",
                find_verdict(fakes + records, 2),
                "; ".join(
                    f"{other.columns}: {_count(other.fakes_with_many)} and {other.records_with_many:,}"
                    for other in _stated(table)
                )
                + f". {_JUDGED}",
            )


def _closer(table: TableResult) -> Statement:
    groups = {name: [_distance(one) for one in group] for name, group in _by_columns(table).items()}
    steps = [pair for group in groups.values() for pair in itertools.pairwise(group)]
    steps += list(zip(groups[TWO], groups[FIVE], strict=True))
    known = [(before, after) for before, after in steps if before is not None and after is not None]
    wins = sum(after < before for before, after in known)
    measured = f"They are in {wins} of {len(known)} steps to the next size or to five columns."
    if not known:
        measured = _few(table)
    claim = "These two numbers come closer with larger p and c."
    return Statement("7", claim, find_verdict(wins, len(known)), measured)


def _originals_have_more(table: TableResult) -> Statement:
    shares = [
        (one.records_with_many / one.n_records, one.fakes_with_many / one.n_fakes)
        for one in table.matchings
        if one.fakes_with_many is not None and one.n_fakes and (one.records_with_many or one.fakes_with_many)
    ]
    wins = sum(ours > theirs for ours, theirs in shares)
    measured = _few(table)
    if shares:
        ours, theirs = (float(np.mean(side)) for side in zip(*shares, strict=True))
        measured = (
            f"On average {ours:.1%} of the records and {theirs:.2%} of the fakes; the former are ahead in {wins} of "
            f"{len(shares)}."
        )
    claim = "A large fraction of original tuples has more than 20 matching buckets, only a small one of fake tuples."
    return Statement("7", claim, find_verdict(wins, len(shares)), measured)


def _few(table: TableResult) -> str:
    """Say why no tuple has many matching buckets: it cannot have more than its rarest column value has records."""
    groups = _by_columns(table).items()
    limits = " and ".join(f"{group[0].most} with {columns}" for columns, group in groups)
    return f"No tuple has more than 20 matching buckets; none could have more than {limits} (see Figure 7)."


def _distance(one: Matching) -> float | None:
    """How far apart fakes and originals with many matching buckets are, as the logarithm of their ratio."""
    if not one.fakes_with_many or not one.records_with_many:
        return None
    return abs(math.log(one.fakes_with_many / one.records_with_many))


def _by_columns(table: TableResult) -> dict[str, list[Matching]]:
    groups: dict[str, list[Matching]] = {}
    for one in sorted(table.matchings, key=lambda one: one.size):
        groups.setdefault(one.columns, []).append(one)
    return groups


def _stated(table: TableResult) -> list[Matching]:
    """Return the groupings that the paper gives numbers for, whichever two columns it took."""
    if table.name != _STATED_ON:
        return []
    return [one for one in table.matchings if one.size == _STATED_SIZE and one.columns in (TWO, SIX_QUASI)]


def _near(ours: int, theirs: int) -> bool:
    return abs(ours - theirs) <= NEAR * theirs


def _count(number: int | None) -> str:
    return "too many to count" if number is None else f"{number:,}"

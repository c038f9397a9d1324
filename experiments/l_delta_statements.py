"""What Rameshwar and Tandon say, statement by statement, and what became of it here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from experiments.figures import Statement, find_verdict
from experiments.l_delta import Point, Result
from experiments.l_delta_simulation import (
    AGENCY,
    ALONE,
    COARSE,
    GEOMETRIC,
    N_QUASI,
    PAPER,
    RELEASES,
    TIGHTER,
    Failure,
    Linkage,
    marginal,
)
from shoal.attacks.base import Tally

SURE = 0.999  # confidence with which a failure rate must lie above its bound to speak against it
CLOSE = 0.9  # share of the values, or of the people, that must be kept to count as about the same


def judge_statements(result: Result) -> list[Statement]:
    """Judge every statement by the figures of one run."""
    return [*_judge_numbers(result), *_judge_bounds(result), *_judge_linking(result)]


def _judge_numbers(result: Result) -> Iterator[Statement]:
    """Judge what section 5 says of N, and the bounds on the number of classes."""
    uniform = [*result.of("1a"), *result.of("1b")]
    largest = max(abs(point.m * point.l * point.p - 1) for point in uniform)
    yield _count_trials(
        "Figure 1",
        "With uniform diseases N does not vary with l, for m l = 1/p.",
        [len({point.records for point in same}) == 1 for same in _group_points(uniform, lambda p: (p.beta, p.delta))],
        "pairs of equal N",
        f" m l p differs from 1 by at most {largest:.0e}.",
    )
    for figures, of in (("Figure 1", uniform), ("Figure 2", [*result.of("2a"), *result.of("2b")])):
        yield _count_trials(
            figures,
            "N decreases as delta increases.",
            _falls(of, lambda p: (p.beta, p.l), lambda p: p.delta),
            "steps of delta",
        )
    yield _count_trials(
        "Figure 1",
        "Smaller values of p require more samples.",
        _falls(uniform, lambda p: (p.delta, p.l), lambda p: p.p),
        "steps of p",
    )
    p_1 = float(marginal(GEOMETRIC)[0])
    yield Statement(
        "Figure 2",
        "rho = 0.95 gives rise to p_1 = 0.054.",
        "holds" if round(p_1, 3) == 0.054 else "does not hold",
        f"p_1 = {p_1:.6f}.",
    )
    yield _count_trials(
        "Figure 2",
        "Larger values of l require more samples.",
        _falls(result.of("2b"), lambda p: (p.beta, p.delta), lambda p: -p.l),
        "steps of l",
    )
    yield _count_trials(
        "Lemma 4.3",
        "There are at most m classes.",
        [point.classes <= point.m * (1 + 1e-12) for point in result.points],  # m was rounded to floating point
        "points",
    )
    betas = {Fraction(str(point.beta)): point.classes for point in result.points}
    whole = sum((N_QUASI * beta).denominator == 1 for beta in betas)
    yield _count_trials(
        "Corollary 4.8",
        "With equally likely quasi-identifiers there are floor(p_l / p) classes.",
        [classes == math.floor(1 / beta) for beta, classes in betas.items()],
        "values of beta",
        f" Before rounding, the class size is a whole number in {whole} of them; elsewhere fewer classes may fit.",
    )
    saved = [1 - point.tighter_records / point.records for point in result.points]
    yield _count_trials(
        "ours",
        "The tighter N is never larger than the paper's.",
        [point.tighter_records <= point.records for point in result.points],
        "points",
        f" It saves {min(saved):.0%} to {max(saved):.0%} of the records.",
    )


def _judge_bounds(result: Result) -> Iterator[Statement]:
    """Judge Theorems 4.4 and 4.5 by what was simulated."""
    for where, claim, rule, releases in (
        ("Theorem 4.4", "A release fails with a probability of at most delta.", PAPER, RELEASES[:1]),
        ("Theorem 4.5", "t linked releases fail with a probability of at most t delta.", PAPER, RELEASES[1:]),
        ("ours", "With the tighter N, t releases fail with a probability of at most t delta.", TIGHTER, RELEASES),
    ):
        of = [one for one in result.failures if one.rule == rule and one.releases in releases]
        nearest = max(of, key=lambda one: one.rate.value / one.bound)
        none = sum(one.failed == 0 for one in of)
        yield _count_trials(
            where,
            claim,
            [Tally(one.failed, one.trials).rate(SURE).low <= one.bound for one in of],
            "settings",
            f" Not one failure in {none} of them. Nearest to its bound: {_failure(nearest)}.",
        )


def _judge_linking(result: Result) -> Iterator[Statement]:
    """Judge what linking leaves."""
    alone, coarse, agency = (
        [one for one in result.linkages if one.way == way and one.releases > 1] for way in (ALONE, COARSE, AGENCY)
    )
    at_n = [one for one in alone if one.share == 1]
    yield _count_trials(
        "Proposition 3.1",
        "No linkage of t l-diverse releases leaves less than the worst case.",
        [one.least >= one.worst_case for one in (*alone, *coarse, *agency)],
        "linkages",
    )
    yield _count_trials(
        "section 3",
        "Pure l-diversity degrades upon linkage (in the worst case; here: in ordinary samples of N records).",
        [one.least < one.l for one in at_n],
        "linkages leave somebody fewer than l diseases",
        " " + _left(at_n),
    )
    yield _count_trials(
        "section 3",
        "Linkage can reveal the exact value (here: in ordinary samples of N records, where the worst case is 1).",
        [one.least == 1 for one in at_n if one.worst_case == 1],
        "linkages leave somebody one disease",
    )
    yield _count_trials(
        "section 4.2",
        "Unlike pure l-diversity, (l,delta)-diversity is roughly preserved upon linkage.",
        [one.below == 0 for one in agency],
        "linkages by the agency's classes leave everybody l diseases",
        f" Owners by themselves: {sum(one.below == 0 for one in at_n)} of {len(at_n)} with N records.",
    )
    at_least_n = [one for one in coarse if one.share >= 1]
    yield _count_trials(
        "ours",
        "Owners whose own classes are about as coarse as the agency's keep l upon linkage too, though nothing "
        "promises it.",
        [one.below == 0 for one in at_least_n],
        "linkages with N records or more leave everybody l diseases",
        f" They made {min(one.classes for one in at_least_n):.0f} to {max(one.classes for one in at_least_n):.0f} "
        f"classes, the agency {agency[0].classes:.0f}, free owners up to {max(one.classes for one in alone):,.0f}.",
    )
    yield _conjecture(alone, [one for one in result.linkages if one.way == ALONE and one.releases == 1])


def _conjecture(linked: Sequence[Linkage], single: Sequence[Linkage]) -> Statement:
    most = max(one.share for one in linked)
    before = {(one.distribution, one.l): one.least for one in single if one.share == most}
    at_most = [one for one in linked if one.share == most]
    kept = [f"{before[one.distribution, one.l]} to {one.least}" for one in at_most]
    settings = list(dict.fromkeys((one.distribution, one.l) for one in linked))
    texts = []
    for releases in RELEASES[1:]:
        of_setting = [
            [one for one in linked if (one.releases, one.distribution, one.l) == (releases, *setting)]
            for setting in settings
        ]
        shares = [_enough(of) for of in of_setting]
        texts.append(f"{releases} linked, " + ", ".join("-" if share is None else f"{share:g}" for share in shares))
    named = ", ".join(f"{distribution} l = {l}" for distribution, l in settings)
    return _count_trials(
        "section 5, conjecture",
        "With enough records, owners who anonymize by themselves lose little of l upon linkage (here: of the least "
        f"number of diseases that anybody is left with, {1 - CLOSE:.0%} at most).",
        [one.least >= CLOSE * before[one.distribution, one.l] for one in at_most],
        f"linkages with {most:g} N records",
        f" The least went from {', '.join(kept)}. Classes cannot become finer than single quasi-identifiers, and then "
        f"fill up. Multiple of N from which on {CLOSE:.0%} of the people keep the l asked for ({named}): "
        f"{'; '.join(texts)}.",
    )


def _enough(of: Sequence[Linkage]) -> float | None:
    """Return the least share of N from which on nearly everybody keeps l values."""
    found = None
    for one in sorted(of, key=lambda one: -one.share):
        if one.people - one.below < CLOSE * one.people:
            break
        found = one.share
    return found


def _left(of: Sequence[Linkage]) -> str:
    texts = [
        f"{one.distribution} l = {one.l}, {one.releases} linked: {one.below / one.people:.1%} below l, "
        f"{one.disclosed / one.people:.1%} with one disease"
        for one in of
    ]
    return "; ".join(texts) + "."


def _failure(one: Failure) -> str:
    rate = one.rate
    return (
        f"{one.distribution} diseases, l = {one.l}, beta = {one.beta:g}, t = {one.releases}, {rate.value:.4f} "
        f"({rate.low:.4f} to {rate.high:.4f}) where {one.bound:g} is allowed"
    )


def _count_trials(where: str, claim: str, trials: Iterable[bool], of_what: str, more: str = "") -> Statement:
    """The claim holds if it does in every trial."""
    outcomes = list(trials)
    wins = sum(outcomes)
    return Statement(where, claim, find_verdict(wins, len(outcomes)), f"{wins} of {len(outcomes)} {of_what}.{more}")


def _group_points(points: Iterable[Point], key: Callable[[Point], tuple[float, ...]]) -> list[list[Point]]:
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        groups.setdefault((point.figure, *key(point)), []).append(point)
    return list(groups.values())


def _falls(
    points: Iterable[Point], key: Callable[[Point], tuple[float, ...]], by: Callable[[Point], float]
) -> Iterator[bool]:
    """Yield, for each two neighbours that differ only in *by*, whether N falls as that grows."""
    for same in _group_points(points, key):
        for one, next_one in pairwise(sorted(same, key=by)):
            yield next_one.records < one.records

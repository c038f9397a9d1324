"""From a distribution and a promise to a plan: classes, and the number of records to wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from shoal.agency.classes import (
    Classes,
    check_l_and_p,
    gathered_classes,
    greedy_classes,
    independent_classes,
)
from shoal.agency.distribution import JointDistribution
from shoal.agency.samples import bound_of, check_delta, p_for_samples, paper_samples, surely, tight_samples
from shoal.errors import UsageError

Arrangement: TypeAlias = Literal["contiguous", "gathered", "independent"]
ARRANGEMENTS: dict[Arrangement, Callable[[JointDistribution, int, Fraction], Classes]] = {
    "contiguous": greedy_classes,
    "gathered": gathered_classes,
    "independent": independent_classes,
}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Classes and numbers under which every owner's release obeys (l,delta)-diversity."""

    distribution: JointDistribution
    arrangement: Arrangement
    classes: Classes
    l: int
    delta: Fraction
    p: Fraction
    eta: Fraction
    m: Fraction
    n: int
    n_tight: int


def make_plan(
    distribution: JointDistribution,
    *,
    l: int,
    delta: Fraction,
    p: Fraction | None = None,
    samples: int | None = None,
    eta: Fraction = Fraction(0),
    arrangement: Arrangement = "contiguous",
) -> Plan:
    """Plan with a given p, or with the p that makes the most classes from a given number of samples.

    Without either, the samples are as many as were counted. A p that was chosen is then raised as far as the classes
    stay the same, so that fewer records are enough.
    """
    check_delta(delta)
    if p is not None and samples is not None:
        raise UsageError("give p or the number of samples, not both")
    if p is None and samples is None:
        if not distribution.counted:
            raise UsageError("give p or a number of samples: probabilities do not say how many records there will be")
        samples = distribution.total
    if arrangement not in ARRANGEMENTS:
        raise UsageError(f"unknown arrangement {arrangement!r}; known are {', '.join(ARRANGEMENTS)}")
    make = ARRANGEMENTS[arrangement]
    chosen = p if p is not None else p_for_samples(distribution, l, delta, samples or 0, eta)
    check_l_and_p(distribution, l, chosen)
    surely(chosen, eta)
    classes = make(distribution, l, chosen)
    if p is None:
        chosen = distribution.probability(classes.weakest())
    m = bound_of(distribution, l, chosen)
    n = paper_samples(m, l, chosen, delta, eta)
    n_tight = min(n, tight_samples(distribution, classes, delta, eta))
    return Plan(distribution, arrangement, classes, l, delta, chosen, eta, m, n, n_tight)

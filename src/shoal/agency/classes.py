"""Equivalence classes made from a distribution, before any record is seen.

A class is safe to plan with if at least l sensitive values have a probability of at least p in it (Rameshwar and
Tandon, Algorithm 1, step 3). Every function here returns such classes or raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.agency.distribution import JointDistribution
from shoal.agency.gathering import by_gain, from_queues
from shoal.agency.kernels import close_classes, likeliest
from shoal.arrays import CodeArray, IntArray
from shoal.errors import UnreachableError, UsageError

MOST_CANDIDATES = 128
FEWEST_CANDIDATES = 8
COMPARISONS = 3 * 10**8  # of entries with sums, about: a second or two


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Which class each point is in, and the l likeliest sensitive values of each class: what its promise rests on.

    Where a promise names no values, l is 0 here.
    """

    number: CodeArray  # (n_points,) from 0
    weights: IntArray  # (n_classes, l) of the l likeliest values, the likeliest first
    values: CodeArray  # (n_classes, l) these values, ascending

    @property
    def n_classes(self) -> int:
        """|Q-bar|."""
        return len(self.weights)

    def weakest(self) -> int:
        """Return the smallest weight that the promise rests on: classes are the same for every p up to it."""
        return int(self.weights[:, -1].min())


def check_l_and_p(distribution: JointDistribution, l: int, p: Fraction) -> None:
    """Raise unless 1 <= l <= |S| and 0 < p <= p_l, without which not even one class exists (Lemma 4.2)."""
    check_l(distribution, l)
    if p <= 0:
        raise UsageError(f"p must be above 0, got {float(p):g}")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    if p > highest:
        raise UnreachableError(
            f"p = {float(p):.6g} is above p_l = {float(highest):.6g}, the probability of the value of "
            f"{distribution.sensitive!r} that is number {l} by frequency: no class could have {l} such values; "
            f"take p <= {_rounded_down(highest)}"
        )


def check_l(distribution: JointDistribution, l: int) -> None:
    """Raise unless 1 <= l <= |S|."""
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l}")
    if l > distribution.n_values:
        raise UnreachableError(
            f"l = {l} is more than the {distribution.n_values} values of {distribution.sensitive!r}; take a smaller l"
        )


def greedy_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Close a class as soon as l values have P >= p: the most classes that runs of points along the order can make.

    GREEDY-GENERALIZE, Algorithm 2 as meant: the last point counts, and an unfinished tail joins the class before it.
    """
    check_l_and_p(distribution, l, p)
    number = close_classes(
        distribution.starts,
        distribution.codes,
        distribution.weights,
        distribution.n_values,
        l,
        distribution.threshold(p),
    )
    return checked(distribution, number, l, p)


def independent_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Make all classes equally long, which suffices where quasi and sensitive values are independent.

    GENERALIZE-IND, Algorithm 3 with T rounded up and the tail merged. Where the values are not independent, so that
    a class misses the requirement, it raises.
    """
    check_l_and_p(distribution, l, p)
    rarest = distribution.probability(int(distribution.point_weights().min()))
    if not rarest:
        raise UnreachableError("a point with probability 0 leaves no length of classes; use the greedy classes")
    highest = distribution.probability(int(distribution.marginal()[l - 1]))
    length = -((-p / (rarest * highest)).__floor__())  # |Q| p / (theta p_l) with theta = |Q| min P_Q
    n_classes = max(distribution.n_points // length, 1)
    number = np.minimum(np.arange(distribution.n_points) // length, n_classes - 1).astype(np.int32)
    return checked(distribution, number, l, p)


def gathered_classes(distribution: JointDistribution, l: int, p: Fraction) -> Classes:
    """Gather points from anywhere so that values which miss each other meet; never fewer classes than the greedy.

    The best of the greedy and two heuristics for covering: see ``docs/adr/0016-l-delta.md``. Such classes are sets of
    points, no ranges.
    """
    greedy = greedy_classes(distribution, l, p)
    entries = distribution.starts, distribution.codes, distribution.weights, distribution.n_values
    threshold = distribution.threshold(p)
    candidates = max(FEWEST_CANDIDATES, min(MOST_CANDIDATES, COMPARISONS // len(distribution.codes)))
    gathered = (from_queues(*entries, l, threshold), by_gain(*entries, l, threshold, candidates))
    number = max(gathered, key=lambda each: int(each.max()))
    return checked(distribution, number, l, p) if int(number.max()) >= greedy.n_classes else greedy


def checked(distribution: JointDistribution, number: CodeArray, l: int, p: Fraction) -> Classes:
    """Count each class anew, whatever made it, and raise unless it has l values with P >= p."""
    order = np.argsort(number, kind="stable")
    weights, values = likeliest(
        distribution.starts,
        distribution.codes,
        distribution.weights,
        distribution.n_values,
        l,
        order,
        number,
        int(number.max()) + 1,
    )
    if short := int((weights[:, -1] < distribution.threshold(p)).sum()):
        raise UnreachableError(
            f"{short:,} of {len(weights):,} classes have fewer than {l} values of {distribution.sensitive!r} with "
            f"probability {float(p):.6g}; use the greedy classes or a smaller p"
        )
    return Classes(number, weights, values)


def without_values(number: CodeArray) -> Classes:
    """Return classes whose promise rests on no particular values."""
    n_classes = int(number.max()) + 1
    return Classes(number, np.empty((n_classes, 0), dtype=np.int64), np.empty((n_classes, 0), dtype=np.int32))


def _rounded_down(value: Fraction) -> str:
    """Write a probability with six digits, never more than it is."""
    text = f"{float(value):.6g}"
    return text if Fraction(text) <= value else f"{float(value) * (1 - 1e-5):.6g}"

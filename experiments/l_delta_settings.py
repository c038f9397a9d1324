"""Section 5 of Rameshwar and Tandon: 3,000 quasi-identifiers, 50 diseases, and how many records they take."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np

from shoal.agency.samples import class_bound, paper_samples, smallest
from shoal.core.arrays import FloatArray, IntArray

DOMAIN = {"postal code": 10, "gender": 3, "age": 100}  # in the order of the quasi-identifiers
SENSITIVE = "disease"
N_QUASI = math.prod(DOMAIN.values())
N_VALUES = 50
RATIO = Fraction(19, 20)
UNIFORM = "uniform"
GEOMETRIC = "geometric"
DISTRIBUTIONS = (UNIFORM, GEOMETRIC)


@cache
def chances(distribution: str) -> tuple[Fraction, ...]:
    """Return the exact chances of the diseases, the likeliest first."""
    powers = [RATIO**place if distribution == GEOMETRIC else Fraction(1) for place in range(N_VALUES)]
    return tuple(power / sum(powers) for power in powers)


@cache
def marginal(distribution: str) -> FloatArray:
    """Return (50,) the same in floating point.

    >>> round(float(marginal(GEOMETRIC)[0]), 3)
    0.054
    """
    found = np.array([float(chance) for chance in chances(distribution)])
    found.setflags(write=False)
    return found


@dataclass(frozen=True, slots=True)
class Setting:
    """One requirement: l values in every class of the distribution, with p = beta * p_l.

    Quasi-identifiers are equally likely and independent of the disease: with the marginals of section 5 that is the
    joint distribution for which Corollary 4.8 tells the best classes.

    >>> Setting(UNIFORM, l=10, beta=0.01).records(0.01)
    65606
    """

    distribution: str
    l: int
    beta: float

    @property
    def p(self) -> Fraction:
        """The least chance of the l values that each class must have."""
        return Fraction(str(self.beta)) * chances(self.distribution)[self.l - 1]

    @property
    def m(self) -> Fraction:
        """The bound of Lemma 4.3 on the number of classes."""
        return class_bound(N_QUASI, chances(self.distribution), self.l, self.p)

    @property
    def class_sizes(self) -> IntArray:
        """(n_classes,) quasi-identifiers of each class of Algorithm 3, its class size rounded up, its tail merged.

        The size is |Q| * beta, in exact arithmetic: p = P(class, s) must count as reached.

        >>> Setting(UNIFORM, l=10, beta=0.35).class_sizes.tolist()
        [1050, 1950]
        """
        size = math.ceil(N_QUASI * Fraction(str(self.beta)))
        sizes = np.full(N_QUASI // size, size, dtype=np.int64)
        sizes[-1] += N_QUASI % size
        return sizes

    @property
    def joint(self) -> FloatArray:
        """(n_classes, 50) the chances of a class with a disease."""
        return np.outer(self.class_sizes / N_QUASI, marginal(self.distribution))

    def bound(self, records: int) -> float:
        """Return the paper's bound on the failure probability with so many records (Theorem 4.4)."""
        return float(self.m * self.l) * math.exp(records * math.log1p(-float(self.p)))

    def tighter_bound(self, records: int) -> float:
        """Return the same, summed over the classes that there are and their l likeliest values."""
        sizes, times = np.unique(self.class_sizes, return_counts=True)
        likeliest = np.outer(sizes / N_QUASI, marginal(self.distribution)[: self.l])  # in descending order
        return float(times @ np.exp(records * np.log1p(-likeliest)).sum(axis=1))

    def records(self, delta: float) -> int:
        """Return the paper's N, rounded up."""
        return paper_samples(self.m, self.l, self.p, Fraction(str(delta)))

    def tighter_records(self, delta: float) -> int:
        """Return the least number of records with which the tighter bound is at most *delta*."""
        return smallest(self.tighter_bound, Fraction(str(delta)))

"""Worked examples of others: special uniques as sdcMicro's own tests have them, and estimators by exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import comb

import numpy as np
import pytest

from shoal.audit.uniqueness import disclosure, special_uniques
from shoal.models.population import Spectrum, estimate_zayatz


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_contributions_of_the_example_in_sdcmicros_tests(order):
    """tests/testthat/test_suda2.R: three records, contributions 50, 37.5 and 37.5 percent in any order of columns."""
    table = {"a": np.array([2, 1, 1]), "b": np.array([0, 3, 0]), "c": np.array([0, 6, 0])}
    found = special_uniques({name: table[name] for name in order})
    assert found.contributions == {"a": 0.5, "b": 0.375, "c": 0.375}
    assert found.scores.tolist() == [2, 4, 2]


def test_the_scores_of_elliot_manning_and_ford():
    """One record alone by one of n = 6 attributes, sets of up to m = 3: (n - 1)(n - 2)(n - 3)."""
    table = {name: np.array([0, 0, 0]) for name in "abcdef"} | {"a": np.array([1, 0, 0])}
    found = special_uniques(table, largest=3)
    assert found.scores.tolist() == [5 * 4 * 3, 0, 0]
    assert found.by_size() == (1, 0, 0, 0)


def test_disclosure_of_skinner_and_elliot():
    """A share f of n1 singles, against the records of pairs: n1 f / (n1 f + 2 n2 (1 - f)) with n2 pairs."""
    assert disclosure(50, 2 * 10, 0.2) == pytest.approx(10 / (10 + 16))
    assert disclosure(50, 20, 1) == 1
    assert disclosure(0, 20, 0.5) == 0


@pytest.mark.parametrize("fraction", [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)])
def test_estimate_zayatz_by_exact_hypergeometric_probabilities(fraction):
    times = {1: 12, 2: 7, 3: 2, 6: 1, 9: 1}
    n = sum(size * count for size, count in times.items())
    population = round(n / fraction)
    shows = {j: Fraction(j * comb(population - j, n - 1), comb(population, n)) for j in times}
    whole = sum(count * shows[j] for j, count in times.items())
    expected = 12 * (12 * shows[1] / whole) * Fraction(population, n)
    sample = Spectrum.of(np.repeat(list(times), list(times.values())), float(fraction))
    assert sample.population == population
    assert estimate_zayatz(sample) == pytest.approx(float(expected), rel=1e-12)

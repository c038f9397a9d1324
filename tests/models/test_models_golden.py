"""Worked examples of the papers, by table and figure."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.models.base import ClassHistograms, Whole
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.t_closeness import Ground, TCloseness
from shoal.models.tau_l_diversity import TauLDiversity

# salaries 3K to 11K of the t-closeness paper's Table 3, one person each
SALARIES = Whole.of([1] * 9)
LOW_SALARIES = [1, 1, 1, 0, 0, 0, 0, 0, 0]  # {3K, 4K, 5K}
SPREAD_SALARIES = [0, 0, 0, 1, 0, 1, 0, 0, 1]  # {6K, 8K, 11K}

# the 3-diverse inpatient table: each class has three values, one of them twice
INPATIENTS = ClassHistograms.of([[1, 1, 2], [2, 1, 1], [1, 2, 1]])
ALL_INPATIENTS = Whole.of([4, 4, 4])


def test_inpatient_table_is_2_8_diverse_by_entropy() -> None:
    reached = EntropyLDiversity(l=1).reach(INPATIENTS, ALL_INPATIENTS)
    assert reached == pytest.approx([2 * 2**0.5] * 3, rel=1e-14)
    assert EntropyLDiversity(l=2.8).holds(INPATIENTS, ALL_INPATIENTS).all()
    assert EntropyLDiversity(l=2.8284271247461).holds(INPATIENTS, ALL_INPATIENTS).all()
    assert not EntropyLDiversity(l=2.8284271247462).holds(INPATIENTS, ALL_INPATIENTS).any()
    assert not EntropyLDiversity(l=3).holds(INPATIENTS, ALL_INPATIENTS).any()


@pytest.mark.parametrize("n_values", range(1, 60))
def test_uniform_over_exactly_l_values_is_l_diverse(n_values: int) -> None:
    classes = ClassHistograms.of([[1] * n_values, [7] * n_values, [10**9] * n_values])
    whole = Whole.of([10**10] * n_values)
    model = EntropyLDiversity(l=n_values)
    assert model.holds(classes, whole).all()
    assert (model.reach(classes, whole) == n_values).all()
    assert not EntropyLDiversity(l=n_values + 1e-9).holds(classes, whole).any()


def test_unequal_counts_can_tie_exactly() -> None:
    # half in one value, an eighth in each of four: two bits of entropy, as four equal values have
    classes = ClassHistograms.of([[4, 1, 1, 1, 1], [400, 100, 100, 100, 100], [401, 100, 100, 100, 99]])
    assert EntropyLDiversity(l=4).holds(classes, Whole.of([900] * 5)).tolist() == [True, True, False]


@pytest.mark.parametrize(("salaries", "distance"), [(LOW_SALARIES, Fraction(3, 8)), (SPREAD_SALARIES, Fraction(1, 6))])
def test_salary_classes_of_the_t_closeness_paper(salaries: list[int], distance: Fraction) -> None:
    ground = Ground.of_ranks(SALARIES.counts)
    moved = ground.work(np.array([salaries]), np.array([3]), SALARIES.counts, SALARIES.size)
    assert Fraction(int(moved[0]), ground.unit * 3 * 9) == distance
    classes = ClassHistograms.of(salaries)
    assert TCloseness(t=0, distance="ordered").reach(classes, SALARIES)[0] == float(distance)


def test_salary_limits_are_exact() -> None:
    classes = ClassHistograms.of([LOW_SALARIES, SPREAD_SALARIES])
    for t, expected in [(0.375, [True, True]), (0.3749999999, [False, True]), (0.1666666666, [False, False])]:
        assert TCloseness(t=t, distance="ordered").holds(classes, SALARIES).tolist() == expected


def test_equal_distance_of_the_salary_classes_is_two_thirds() -> None:
    moved = Ground.of_equals(9).work(np.array([LOW_SALARIES]), np.array([3]), SALARIES.counts, SALARIES.size)
    assert Fraction(int(moved[0]), 2 * 3 * 9) == Fraction(2, 3)


def test_tau_l_figure_2b_holds_for_a_half_and_three() -> None:
    # frequencies .5 .25 .25 0, so F = .5 .75 1 1 and psi = .5 .75 1 1: equal at every k
    classes = ClassHistograms.of([[2, 1, 1, 0], [0, 1, 2, 1], [8, 4, 0, 4]])
    whole = Whole.of([10, 6, 3, 5])
    assert TauLDiversity(tau=0.5, l=3).holds(classes, whole).all()
    assert TauLDiversity(tau=0.5, l=3).reach(classes, whole).tolist() == [0.5, 0.5, 0.5]
    assert not TauLDiversity(tau=0.4999, l=3).holds(classes, whole).any()
    assert not TauLDiversity(tau=0.5, l=4).holds(classes, whole).any()


def test_recursive_diversity_is_strict_and_l_1_always_holds() -> None:
    classes = ClassHistograms.of([[4, 2, 2], [4, 2, 3]])
    whole = Whole.of([8, 4, 5])
    assert RecursiveCLDiversity(c=2, l=3).holds(classes, whole).tolist() == [False, False]
    assert RecursiveCLDiversity(c=2.001, l=3).holds(classes, whole).tolist() == [True, True]
    assert RecursiveCLDiversity(c=0.01, l=1).holds(ClassHistograms.of([[9, 0, 0]]), whole).all()

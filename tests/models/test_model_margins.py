"""Distributions that are known as rounded shares only: a model holds if it surely does, and refuses in doubt."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.models.base import SHARE_MARGIN, SHARE_UNITS, ClassHistograms, ValueModel, Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.recursive_cl_diversity import RecursiveCLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.tau_l_diversity import TauLDiversity

MODELS: list[ValueModel] = [
    SimpleLDiversity(l=2),
    SimpleLDiversity(l=1.0000001),
    EntropyLDiversity(l=1.5),
    RecursiveCLDiversity(c=1e6, l=2),
    TauLDiversity(tau=0.5, l=3, psi=(0.5, 0.9999999, 1)),
    DistinctLDiversity(l=3),
]


@given(
    model=st.sampled_from(MODELS),
    weights=st.lists(st.integers(0, 12), min_size=2, max_size=5).filter(any),
    powers=st.lists(st.integers(0, 40), min_size=5, max_size=5),
)
def test_what_surely_holds_does(model: ValueModel, weights: list[int], powers: list[int]) -> None:
    counts = np.array([[weight << power for weight, power in zip(weights, powers, strict=False)]])
    whole = Whole.of([1] * len(weights))
    if model.holds_surely(counts / counts.sum(), whole)[0]:
        assert model.holds(ClassHistograms.of(counts), whole)[0]


@pytest.mark.parametrize("magnitude", [10**4, 10**6])
def test_a_share_that_rounding_favours_is_in_doubt(magnitude: int) -> None:
    """The rare value has too small a share, but the nearest whole count would be enough."""
    c = next(c for c in range(magnitude, magnitude + 50) if 0.6 < SHARE_UNITS / (c + 1) % 1 < 0.8)
    share = (SHARE_UNITS // (c + 1) + 0.55) / SHARE_UNITS
    assert Fraction(share) < Fraction(1, c + 1)
    model = RecursiveCLDiversity(c=c, l=2)
    shares = np.array([[1 - share, share]])
    assert model.holds(ClassHistograms.of_shares(shares), Whole.of([1, 1]))[0]
    assert not model.holds_surely(shares, Whole.of([1, 1]))[0]


@pytest.mark.parametrize("model", [SimpleLDiversity(l=2), EntropyLDiversity(l=2), TauLDiversity(tau=0.5, l=2)], ids=str)
def test_the_margin_is_no_larger_than_said(model: ValueModel) -> None:
    whole = Whole.of([1, 1, 1])
    near = 0.5 - 2 * SHARE_MARGIN
    assert model.holds_surely(np.array([[near, near, 1 - 2 * near]]), whole)[0]
    assert not model.holds_surely(np.array([[0.5, 0.5, 0.0]]), whole)[0]


def test_a_value_that_occurs_counts_however_rare_it_is() -> None:
    shares = np.array([[1.0, 1e-200, 0.0], [0.5, 0.3, 0.2]])
    assert DistinctLDiversity(l=2).holds_surely(shares, Whole.of([1, 1, 1])).tolist() == [True, True]
    assert DistinctLDiversity(l=3).holds_surely(shares, Whole.of([1, 1, 1])).tolist() == [False, True]

"""Counts, rates and risk: in one place, and as Wilson and the definitions have them."""

from __future__ import annotations

import math

import pytest

from shoal.attacks.base import ALARMS, Tally, Trials, compare, find_chance


@pytest.mark.parametrize(
    ("success", "trials", "low", "high"), [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)]
)
def test_wilson_intervals_of_newcombe(success: int, trials: int, low: float, high: float) -> None:
    """Newcombe (1998), "Two-sided confidence intervals for the single proportion", Table I, method 3."""
    rate = Tally(success, trials).rate()
    assert (round(rate.low, 4), round(rate.high, 4)) == (low, high)


def test_the_risk_is_the_share_of_what_was_hidden() -> None:
    assert compare(Tally(60, 100), Tally(20, 100)).value == pytest.approx(0.5)
    assert compare(Tally(20, 100), Tally(20, 100)).value == 0
    assert compare(Tally(100, 100), Tally(20, 100)).value == 1
    assert compare(Tally(0, 100), Tally(90, 100)).value == -1  # nothing is said below
    assert compare(Tally(0, 100), Tally(20, 100)).value == pytest.approx(-0.25)


def test_the_interval_has_what_both_wilson_intervals_allow() -> None:
    attack, beside = Tally(60, 100), Tally(20, 100)
    a, c = attack.rate(), beside.rate()
    risk = compare(attack, beside)
    assert risk.low == pytest.approx((a.low - c.high) / (1 - c.high))
    assert risk.high == pytest.approx((a.high - c.low) / (1 - c.low))
    more = compare(Tally(6000, 10_000), Tally(2000, 10_000))
    assert risk.low < more.low < more.high < risk.high


@pytest.mark.parametrize("one", [Tally(0, 30), Tally(7, 30), Tally(30, 30)])
@pytest.mark.parametrize("other", [Tally(0, 30), Tally(7, 30), Tally(30, 30)])
def test_estimates_lie_in_their_intervals(one: Tally, other: Tally) -> None:
    for estimate in (compare(one, other), compare(one, other, decides=True)):
        assert -1 <= estimate.low <= estimate.value <= estimate.high <= 1


@pytest.mark.parametrize(("n", "m"), [(8, 8), (12, 30), (30, 9)])
def test_an_interval_above_0_is_as_rare_as_stated_where_there_is_nothing_to_find(n: int, m: int) -> None:
    """Exact, over all ways in which as many successes fall on the people of both groups."""
    for both in range(n + m + 1):
        ways = {k: math.comb(n, k) * math.comb(m, both - k) for k in range(max(0, both - m), min(n, both) + 1)}
        alarms = [k for k in ways if compare(Tally(k, n), Tally(both - k, m)).low > 0]
        assert sum(ways[k] for k in alarms) <= ALARMS * math.comb(n + m, both)
        for k in ways:
            above = sum(ways[other] for other in ways if other >= k) / math.comb(n + m, both)
            assert find_chance(Tally(k, n), Tally(both - k, m)) == pytest.approx(above)


def test_the_risk_is_beside_the_control_group_or_else_the_baseline() -> None:
    both = Trials("x", Tally(8, 10), control=Tally(2, 10), baseline=Tally(5, 10))
    assert both.risk.value == pytest.approx(0.75)
    assert Trials("x", Tally(8, 10), baseline=Tally(5, 10)).risk.value == pytest.approx(0.6)
    assert Trials("x", Tally(8, 10)).risk.value == 0.8
    assert Trials("x", Tally(8, 10), control=Tally(2, 10), decides=True).risk.value == pytest.approx(0.6)

"""Owners who wait for the planned number of records fail no more often than promised.

Each test draws 2,000 releases. The assertion fails by chance with probability below 1e-6 if the true rate is delta:
the number of failures is compared with a binomial quantile (mean plus five deviations).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.agency.classes import greedy_classes
from shoal.agency.distribution import JointDistribution, read_distribution
from shoal.agency.planning import entropy_samples, make_plan
from shoal.agency.samples import classes_of_weight, enough_samples, least_linked, sum_classes
from shoal.core.errors import UsageError
from shoal.release.forms.agreed import ENTROPY, K_ANONYMITY, L_DIVERSITY, Promise

TRIALS = 2000
DELTA = Fraction("0.1")
MOST = float(DELTA) * TRIALS + 5 * math.sqrt(TRIALS * float(DELTA) * (1 - float(DELTA)))


def population() -> tuple[JointDistribution, np.ndarray]:
    rng = np.random.default_rng(11)
    counts = rng.integers(1, 30, size=(24, 5))
    point, value = np.indices(counts.shape)
    rows = pa.table({"q": point.ravel(), "s": value.ravel().astype(str), "count": counts.ravel()})
    return read_distribution(rows, "s"), counts


def samples(number: np.ndarray, counts: np.ndarray, n: int) -> np.ndarray:
    """Return (trials, n_classes, n_values) counts of n records drawn independently."""
    grouped = np.zeros((int(number.max()) + 1, counts.shape[1]))
    np.add.at(grouped, number, counts)
    drawn = np.random.default_rng(12).multinomial(n, grouped.ravel() / counts.sum(), size=TRIALS)
    return drawn.reshape(TRIALS, *grouped.shape)


def test_distinct_values() -> None:
    known, counts = population()
    classes = greedy_classes(known, 3, Fraction("0.02"))
    assert classes.n_classes > 3
    n = enough_samples(known, classes.weights, 1, DELTA)
    fails = ((samples(classes.number, counts, n) > 0).sum(axis=2) < 3).any(axis=1).sum()
    assert fails <= MOST
    fewer = ((samples(classes.number, counts, n // 4) > 0).sum(axis=2) < 3).any(axis=1).sum()
    assert fewer > fails  # the test can see failures

    def hidden(n: int) -> int:
        shown = samples(classes.number, counts, n) > 0
        named = np.take_along_axis(shown, np.broadcast_to(classes.values, (TRIALS, *classes.values.shape)), axis=2)
        return int((~named).any(axis=(1, 2)).sum())

    assert fails < hidden(n) <= MOST  # the values that the plan names, on which linkage rests
    assert hidden(n * 3 // 4) > MOST


def test_k_records() -> None:
    known, counts = population()
    number = classes_of_weight(known, Fraction("0.1"))
    n = enough_samples(known, sum_classes(known.point_weights(), number), 5, DELTA)
    fails = (samples(number, counts, n).sum(axis=2) < 5).any(axis=1).sum()
    assert 0 < fails <= MOST  # the bound is nearly met
    assert (samples(number, counts, n * 3 // 4).sum(axis=2) < 5).any(axis=1).sum() > MOST


@pytest.mark.parametrize("given", [{"p": Fraction("0.1")}, {"samples": 3000}])
def test_k_records_of_linked_releases(given: dict[str, Any]) -> None:
    """Linking two releases leaves the smaller count of every class and value; it may fail twice as often."""
    known, counts = population()
    plan = make_plan(known, promise=Promise(K_ANONYMITY, 5), delta=DELTA, records="linked", **given)
    number, n = plan.classes.number, plan.records
    assert int(number.max()) >= 2
    assert n <= given.get("samples", n)
    assert least_linked(known, number, n, DELTA) >= 5 > least_linked(known, number, n - 1, DELTA)

    def fails(n: int) -> int:
        drawn = samples(number, counts, n).reshape(-1, 2, *samples(number, counts, n).shape[1:])  # pairs of releases
        return int((drawn.min(axis=1).sum(axis=2) < 5).any(axis=1).sum())

    assert fails(n) <= MOST
    assert fails(n // 4) > MOST  # the bound is far from tight, but the test sees failures
    alone = make_plan(known, promise=Promise(K_ANONYMITY, 5), delta=DELTA, p=plan.p)
    assert alone.records < n


def test_quantiles_of_linked_counts_are_exact() -> None:
    """Beside fractions: a count is below its quantile with at most its share of delta, and the next one is not."""
    rows = pa.table({"q": ["a", "a", "b"], "s": ["x", "y", "x"], "count": [3, 5, 12]})
    known, share = read_distribution(rows, "s"), DELTA / 3

    def below(a: int, n: int, p: Fraction) -> Fraction:
        return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(a)), Fraction(0))

    for n in (1, 7, 20, 60, 200):
        low = {
            weight: max(a for a in range(n + 1) if below(a, n, Fraction(weight, 20)) <= share) for weight in (3, 5, 12)
        }
        wanted = min(low[3] + low[5], low[12])
        assert least_linked(known, np.array([0, 1], dtype=np.int32), n, DELTA) == wanted
        one = least_linked(known, np.array([0, 0], dtype=np.int32), n, DELTA)  # x has 15 of 20, y has 5, of half each
        assert one == sum(
            max(a for a in range(n + 1) if below(a, n, Fraction(weight, 20)) <= DELTA / 2) for weight in (15, 5)
        )


@pytest.mark.parametrize("model", [L_DIVERSITY, ENTROPY])
def test_linked_numbers_are_of_records_only(model: str) -> None:
    with pytest.raises(UsageError, match="are for k-anonymity"):
        make_plan(population()[0], promise=Promise(model, 2), delta=DELTA, samples=3000, records="linked")


def test_entropy() -> None:
    known, counts = population()
    number = classes_of_weight(known, Fraction("0.2"))
    n = entropy_samples(known, number, 3.0, DELTA)
    assert low_entropies(number, counts, n) <= MOST
    assert low_entropies(number, counts, n // 64) > MOST  # the bound is far from tight, but the test sees failures


def low_entropies(number: np.ndarray, counts: np.ndarray, n: int) -> int:
    drawn = samples(number, counts, n)
    shares = drawn / np.maximum(drawn.sum(axis=2, keepdims=True), 1)
    entropy = -(shares * np.log(np.where(shares > 0, shares, 1))).sum(axis=2)
    return int((entropy < math.log(3.0)).any(axis=1).sum())

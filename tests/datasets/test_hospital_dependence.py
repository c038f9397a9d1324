"""The hospital's columns depend on each other as documented, and not otherwise.

Every test draws fresh tables of a fixed size from seeds that Hypothesis chooses; the rate of false alarms is
given beside each assertion, per table.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.datasets.hospital import stays

N = 40_000
seeds = st.integers(min_value=0, max_value=2**32)
few = settings(max_examples=8)


class Stays:
    """A table as NumPy arrays, text as codes."""

    def __init__(self, seed: int, n: int = N) -> None:
        self.table = pa.Table.from_batches(stays(n, seed=seed)).combine_chunks()
        self.age = np.asarray(self.table["age"])
        self.month = np.asarray(self.table["admitted"]).astype("datetime64[M]").astype(int) % 12 + 1
        self.weekday = (np.asarray(self.table["admitted"]).astype("datetime64[D]").astype(int) + 3) % 7
        self.cost = np.asarray(self.table["cost"])

    def codes(self, name: str) -> np.ndarray:
        return np.asarray(self.table[name].chunk(0).indices.fill_null(-1))

    def are(self, name: str, *values: str) -> np.ndarray:
        words = self.table[name].chunk(0).dictionary.to_pylist()
        return np.isin(self.codes(name), [words.index(value) for value in values])


def g_statistic(left: np.ndarray, right: np.ndarray) -> tuple[float, int]:
    """Return 2 n times the mutual information, and its degrees of freedom under independence."""
    _, left = np.unique(left, return_inverse=True)
    _, right = np.unique(right, return_inverse=True)
    shape = (left.max() + 1, right.max() + 1)
    joint = np.bincount(left * shape[1] + right, minlength=shape[0] * shape[1]).reshape(shape)
    expected = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0) / joint.sum()
    seen = joint > 0
    statistic = 2 * float((joint[seen] * np.log(joint[seen] / expected[seen])).sum())
    return statistic, (joint.shape[0] - 1) * (joint.shape[1] - 1)


def chi_squared_bound(freedom: int, log_rate: float) -> float:
    """Return what a chi-squared variable exceeds at most once in exp(log_rate) (Laurent and Massart 2000)."""
    return freedom + 2 * math.sqrt(freedom * log_rate) + 2 * log_rate


@few
@given(seeds)
def test_facts_without_exception(seed: int) -> None:
    """No false alarms: these hold for every record."""
    drawn = Stays(seed)
    women = drawn.are("sex", "F")
    births = drawn.are("diagnosis", "Natural birth", "Caesarean birth", "Preterm labour", "Miscarriage")
    assert births.sum() > 0
    assert women[births].all()
    assert ((drawn.age[births] >= 15) & (drawn.age[births] <= 49)).all()
    assert not women[drawn.are("diagnosis", "Prostate cancer", "Enlarged prostate", "Testicular cancer")].any()
    newborn = drawn.are("diagnosis", "Healthy newborn", "Premature newborn", "Newborn jaundice")
    assert newborn.sum() > 0
    assert (drawn.age[newborn] == 0).all()
    assert (drawn.age[drawn.are("occupation", "preschool child")] <= 5).all()
    pupils = drawn.age[drawn.are("occupation", "pupil")]
    assert pupils.min() >= 6
    assert pupils.max() <= 19
    assert drawn.age[drawn.are("occupation", "retired")].min() > 52
    assert drawn.age[drawn.are("occupation", "physician")].min() >= 25


@few
@given(seeds)
def test_mutual_information(seed: int) -> None:
    """Dependent pairs exceed, independent pairs stay below, what independence exceeds once in 10^9.

    False alarms: 10^-9 for each independent pair; the weakest dependent one (region, decade) is expected
    more than six standard deviations of its statistic above the bound.
    """
    drawn = Stays(seed)
    columns = {name: drawn.codes(name) for name in ("sex", "occupation", "insurance", "diagnosis")}
    columns |= {"decade": drawn.age // 10, "season": drawn.month % 12 // 3}
    columns["region"] = drawn.table["postcode"].cast(pa.string()).to_numpy().astype("U2")
    log_rate = 9 * math.log(10)
    dependent = [
        ("decade", "diagnosis"),
        ("sex", "diagnosis"),
        ("season", "diagnosis"),
        ("decade", "occupation"),
        ("sex", "occupation"),
        ("region", "occupation"),
        ("occupation", "insurance"),
        ("decade", "insurance"),
        ("region", "decade"),
    ]
    for left, right in dependent:
        statistic, freedom = g_statistic(columns[left], columns[right])
        assert statistic > chi_squared_bound(freedom, log_rate), (left, right)
    # In nats per stay, far above chance (about 0.01 here): age tells much about the diagnosis.
    assert g_statistic(columns["decade"], columns["diagnosis"])[0] / (2 * N) > 0.2
    for left, right in [("sex", "season"), ("season", "insurance"), ("region", "season"), ("sex", "region")]:
        statistic, freedom = g_statistic(columns[left], columns[right])
        assert statistic < chi_squared_bound(freedom, log_rate), (left, right)

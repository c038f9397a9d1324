"""IL1s and eigenvalues against sums over records, taken by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.builders.intervals import NumbersTaxonomy
from shoal.utility.analyses import measure_numbers

PLACES = [0.0, 1.0, 2.0, 5.0, 9.0, 20.0]


def test_two_numbers_by_hand() -> None:
    line = NumbersTaxonomy().build(pa.array(PLACES))
    x, y, counts = np.array([0, 1, 3, 5]), np.array([5, 4, 1, 0]), np.array([2, 1, 3, 1])
    problem = Problem((Attribute("x", line), Attribute("y", line)), (), Cells((x, y), counts), ())
    lo = np.array([[0, 4], [3, 0]], dtype=np.int32)
    hi = np.array([[2, 6], [6, 2]], dtype=np.int32)
    plan = Plan.of_cells(lo, hi, np.array([0, 0, 1, 1], dtype=np.int32), counts)
    own = np.array([[PLACES[a], PLACES[b]] for a, b, n in zip(x, y, counts, strict=True) for _ in range(n)])
    read = np.array([[0.5, 14.5]] * 3 + [[12.5, 0.5]] * 4)
    spread = own.std(axis=0)
    found = measure_numbers(problem, plan)
    assert found["il1s"] == pytest.approx(np.mean(np.abs(own - read) / (np.sqrt(2) * spread)))
    before, after = (np.linalg.eigvalsh(np.cov((each / spread).T, ddof=0)) for each in (own, read))
    assert found["eigenvalue-loss"] == pytest.approx(np.abs(before - after).sum() / before.sum())


def test_averages_are_read_as_they_are_published() -> None:
    rng = np.random.default_rng(1)
    people = pa.table({"age": rng.integers(18, 90, 300), "wage": rng.integers(10, 90, 300)})
    policy = {
        "attributes": {name: {"role": "quasi"} for name in people.column_names},
        "privacy": [{"k-anonymity": {"k": 3}}],
    }
    few, many = (
        shoal.anonymize(
            people,
            policy | {"privacy": [{"k-anonymity": {"k": k}}], "method": {"microaggregation": {}}},
            utility="full",
        ).utility
        for k in (3, 40)
    )
    assert 0 < few["il1s"] < 0.1 < many["il1s"] < 1
    assert 0 < few["eigenvalue-loss"] < many["eigenvalue-loss"] < 1

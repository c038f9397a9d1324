"""Regressions and means of subgroups: against least squares on single records, and releases of every form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.tables import attributes, original_rows, people

import shoal
from shoal.plan.cells import Cells
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.utility.analyses import analyse, find_intervals, score_bins
from shoal.utility.marginals import Comparison
from shoal.utility.rows import Column, Rows

AGE = IntervalsTaxonomy(min=0, max=15, widths=(5,)).build(None)
SEX = from_nested({"*": ["f", "m"]})


def table(n: int = 500) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(1)
    age, sex = rng.integers(0, 16, n), (rng.random(n) < 0.4).astype(int)
    pay = np.clip(np.rint(age / 2 + 3 * sex + rng.normal(0, 2, n)), 0, 15).astype(int)
    codes = np.stack([age, sex, pay]).astype(np.int32)
    quasi = Attribute("age", AGE), Attribute("sex", SEX)
    return Problem(quasi, (Attribute("pay", AGE),), Cells(tuple(codes), np.ones(n, dtype=np.int64)), ()), codes


def test_intervals_are_those_of_least_squares() -> None:
    problem, codes = table()
    compared = Comparison.of(problem, original_rows(problem))
    low, high = find_intervals(compared.count, score_bins(problem, compared), [0, 1, 2])
    values = codes.astype(float)
    values[1] = values[1] == np.bincount(codes[1]).argmax()
    one, other, outcome = ((column - column.mean()) / column.std() for column in values)
    x = np.stack([np.ones(len(one)), one, other], axis=1)
    slopes, (left,), _, _ = np.linalg.lstsq(x, outcome, rcond=None)
    error = 1.96 * np.sqrt(left / (len(one) - 3) * np.diag(np.linalg.inv(x.T @ x)))
    assert (low + high) / 2 == pytest.approx(slopes[1:])
    assert (high - low) / 2 == pytest.approx(error[1:], rel=1e-6)


def test_the_source_itself_overlaps_wholly_and_shuffled_columns_hardly() -> None:
    problem, codes = table()
    same = analyse(problem, original_rows(problem))
    assert same["regression-overlap"] == pytest.approx(1)
    assert same["subgroup-error-95"] == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(2)
    sizes = (16, 2, 16)
    columns = tuple(Column.of_leaves(rng.permutation(own), size) for own, size in zip(codes, sizes, strict=True))
    shuffled = analyse(problem, Rows(columns, np.ones(codes.shape[1])))
    assert shuffled["regression-overlap"] < 0.1
    assert shuffled["subgroup-error"] > 0.3


FORMS: dict[str, dict[str, Any]] = {
    "mondrian": {"privacy": [{"k-anonymity": {"k": 5}}]},
    "microaggregation": {"privacy": [{"k-anonymity": {"k": 5}}]},
    "plain": {"privacy": []},
    "slicing": {"privacy": [{"distinct-l-diversity": {"l": 2}}]},
    "anatomy": {"privacy": [{"distinct-l-diversity": {"l": 2}}]},
}


@pytest.mark.parametrize("method", FORMS)
def test_what_is_kept_lies_between_nothing_and_all_in_every_form(method: str) -> None:
    policy = {"attributes": attributes("age sex zip illness"), "method": {method: {}}, **FORMS[method]}
    release = shoal.anonymize(people(200), policy, seed=1, utility="full")
    utility = release.evidence["utility"]
    assert 0 <= utility["association-kept"] <= 1
    assert 0 <= utility["regression-overlap"] <= 1
    assert 0 <= utility["subgroup-error"] <= utility["subgroup-error-95"]
    assert 0 <= utility["count-error-10"] <= utility["count-error-10-95"]
    assert all(0 <= one[name] <= 1000 + 1e-9 for one in release.evidence["marginals"] for name in ("release", "fresh"))
    if method == "plain":
        assert utility["association-kept"] == pytest.approx(1)
    assert "utility" not in release.manifest

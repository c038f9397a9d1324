"""um and ncp on tables small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.tree import Taxonomy
from shoal.utility.base import measure

CITY = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d", "e"]}})  # 5 leaves
AGE = IntervalsTaxonomy(min=0, max=10, widths=(5,)).build(pa.array([]))  # 11 leaves, 0 to 10
ILL = from_nested({"*": ["x", "y"]})


def problem(counts: list[int], codes: list[list[int]], taxonomies: list[Taxonomy]) -> Problem:
    *quasi, sensitive = taxonomies
    cells = Cells(tuple(np.array(column, dtype=np.int32) for column in codes), np.array(counts, dtype=np.int64))
    return Problem(
        tuple(Attribute(f"q{j}", taxonomy) for j, taxonomy in enumerate(quasi)), (Attribute("s", sensitive),), cells, ()
    )


def plan(lo: list[list[int]], hi: list[list[int]], class_of: list[int], counts: list[int]) -> Plan:
    arrays = (np.array(part, dtype=np.int32) for part in (lo, hi, class_of))
    return Plan.of_cells(*arrays, np.array(counts, dtype=np.int64))


COUNTS = [3, 1, 2, 4]
CODES = [[0, 1, 2, 4], [0, 3, 7, 10], [0, 1, 0, 1]]


def test_two_classes_by_hand() -> None:
    # class 0: city {a, b}, age 0 to 4; class 1: city c to e, age 5 to 10
    table = problem(COUNTS, CODES, [CITY, AGE, ILL])
    made = plan([[0, 0], [2, 5]], [[2, 5], [5, 11]], [0, 0, 1, 1], COUNTS)
    found = measure(table, made)
    # 4 records keep 1/2 + 1/5 + 1, 6 records keep 1/3 + 1/6 + 1, of 3 attributes
    assert found["um"] == pytest.approx((4 * (1 / 2 + 1 / 5 + 1) + 6 * (1 / 3 + 1 / 6 + 1)) / (10 * 3), abs=1e-15)
    # widths: city 1/4 and 2/4, age 4/10 and 5/10
    assert found["ncp"] == pytest.approx((4 * (1 / 4 + 4 / 10) / 2 + 6 * (2 / 4 + 5 / 10) / 2) / 10, abs=1e-15)


def test_withheld_records_are_lost() -> None:
    table = problem(COUNTS, CODES, [CITY, AGE, ILL])
    made = plan([[0, 0], [2, 5]], [[2, 5], [5, 11]], [0, WITHHELD, 1, 1], COUNTS)
    found = measure(table, made)
    assert found["um"] == pytest.approx((3 * (1 / 2 + 1 / 5 + 1) + 6 * (1 / 3 + 1 / 6 + 1)) / (10 * 3), abs=1e-15)
    assert found["ncp"] == pytest.approx((3 * 0.325 + 6 * 0.5 + 1) / 10, abs=1e-15)


def test_nothing_changed_and_all_lost() -> None:
    table = problem(COUNTS, CODES, [CITY, AGE, ILL])
    rows = [list(pair) for pair in zip(*CODES[:2], strict=True)]
    same = plan(rows, [[a + 1, b + 1] for a, b in rows], [0, 1, 2, 3], COUNTS)
    assert measure(table, same) == {
        "attribute-loss": 0.0,
        "class-size": 10 / 4,
        "discernibility": 9 + 1 + 4 + 16,
        "loss": 0.0,
        "ncp": 0.0,
        "non-uniform-entropy": 0.0,
        "um": 1.0,
    }
    root = plan([[0, 0]], [[5, 11]], [0, 0, 0, 0], COUNTS)
    bits = [-count * np.log2(count / 10) for count in COUNTS]  # every value of both attributes is in one cell only
    assert measure(table, root) == {
        "attribute-loss": pytest.approx(1),
        "class-size": 10,
        "discernibility": 100,
        "loss": pytest.approx(1),
        "ncp": pytest.approx(1),
        "non-uniform-entropy": pytest.approx(2 * sum(bits)),
        "um": pytest.approx((1 / 5 + 1 / 11 + 1) / 3),
    }


@pytest.mark.parametrize("seed", range(5))
def test_brute_force_over_records(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 6, 30)
    cuts = np.sort(rng.choice(np.arange(1, 11), 3, replace=False))
    edges = [0, *cuts.tolist(), 11]
    age = rng.integers(0, 11, 30)
    group = np.searchsorted(cuts, age, side="right")
    group[rng.random(30) < 0.2] = WITHHELD
    codes = [rng.integers(0, 5, 30).tolist(), age.tolist(), rng.integers(0, 2, 30).tolist()]
    table = problem(counts.tolist(), codes, [CITY, AGE, ILL])
    lo, hi = [[0, low] for low in edges[:-1]], [[5, high] for high in edges[1:]]
    found = measure(table, plan(lo, hi, group.tolist(), counts.tolist()))
    um = ncp = 0.0
    for cell in range(30):
        for _ in range(counts[cell]):
            if group[cell] == WITHHELD:
                ncp += 1
                continue
            low, high = edges[group[cell]], edges[group[cell] + 1]
            um += (1 / 5 + 1 / (high - low) + 1) / 3
            ncp += (1 + (high - 1 - low) / 10) / 2
    assert found["um"] == pytest.approx(um / counts.sum())
    assert found["ncp"] == pytest.approx(ncp / counts.sum())

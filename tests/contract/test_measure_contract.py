"""What every measure of utility must keep, for every measure that the package has."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

from shoal.core.registry import discover
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.builders.intervals import NumbersTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.utility.base import Measure, measure

MEASURES = discover("shoal.utility", Measure)
MONOTONE = [name for name, kind in MEASURES.items() if kind.monotone]
NUMBER = NumbersTaxonomy().build(pa.array([0, 1, 2, 5, 9, 20]))
CITY = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d", "e"]}})
ILL = from_nested({"*": ["x", "y", "z"]})
N_CELLS = 40


def problem_of(codes: tuple[np.ndarray, ...], counts: np.ndarray) -> Problem:
    quasi = (Attribute("number", NUMBER), Attribute("city", CITY))
    requirement = Requirement(
        TauLDiversity(tau=0.9, l=2), 0, values=codes[2].astype(np.int32), n_values=3, taxonomy=ILL, place=0
    )
    return Problem(quasi, (Attribute("s", ILL),), Cells(codes, counts), (requirement,))


def table(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    codes = (rng.integers(6, size=N_CELLS), rng.integers(5, size=N_CELLS), rng.integers(3, size=N_CELLS))
    return problem_of(codes, rng.integers(1, 9, size=N_CELLS))


def boxed(problem: Problem, cuts: tuple[list[int], list[int]], withheld: int = 0) -> Plan:
    """Classes are the boxes of a grid that have cells; the first *withheld* cells are withheld."""
    group = np.zeros(problem.cells.n_cells, dtype=np.int64)
    edges = [[0, *cut, attribute.taxonomy.n_leaves] for cut, attribute in zip(cuts, problem.quasi, strict=True)]
    for column, edge in zip(problem.quasi_codes, edges, strict=True):
        group = group * (len(edge) - 1) + np.searchsorted(edge[1:], column, side="right")
    grid = [(i, j) for i in range(len(edges[0]) - 1) for j in range(len(edges[1]) - 1)]
    lo = np.array([[edges[0][i], edges[1][j]] for i, j in grid], dtype=np.int32)
    hi = np.array([[edges[0][i + 1], edges[1][j + 1]] for i, j in grid], dtype=np.int32)
    group[:withheld] = WITHHELD
    used, class_of = np.unique(group, return_inverse=True)
    class_of = class_of.reshape(-1) - (used[0] == WITHHELD)
    used = used[used >= 0]
    return Plan.of_cells(lo[used], hi[used], class_of.astype(np.int32), problem.cells.counts)


FINEST = ([1, 2, 3, 4, 5], [1, 2, 3, 4])
MIDDLE = ([2, 4], [2])
COARSEST: tuple[list[int], list[int]] = ([], [])


def worse(kind: type[Measure], value: float, than: float) -> bool:
    return value < than if kind.better == "higher" else value > than


def test_measures_are_found_and_named() -> None:
    assert set(MEASURES) == {
        "association-kept",
        "attribute-loss",
        "class-size",
        "count-error",
        "discernibility",
        "excessive-protection",
        "il1s",
        "loss",
        "ncp",
        "non-uniform-entropy",
        "regression-overlap",
        "um",
    }
    for name, kind in MEASURES.items():
        assert kind.name == name
        assert kind.title
        assert kind.better in ("higher", "lower")
        assert kind.cost in ("cheap", "expensive")
        assert 0 <= kind.within[0] < kind.within[1]


@pytest.mark.parametrize(("name", "seed"), cover(MEASURES, range(3)))
def test_values_are_finite_and_within_the_declared_bounds(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    for cuts in (FINEST, MIDDLE, COARSEST):
        for withheld in (0, 7):
            value = kind().of(problem, boxed(problem, cuts, withheld))
            assert type(value) is float
            assert math.isfinite(value)
            assert kind.within[0] <= value <= kind.within[1]


@pytest.mark.parametrize(("name", "seed"), cover(MONOTONE, range(3)))
def test_coarser_is_worse(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    values = [kind().of(problem, boxed(problem, cuts)) for cuts in (FINEST, MIDDLE, COARSEST)]
    assert worse(kind, values[1], values[0])
    assert worse(kind, values[2], values[1])


@pytest.mark.parametrize(
    ("name", "seed"), cover([name for name, kind in MEASURES.items() if kind.counts_withheld], range(3))
)
def test_withheld_records_count_as_lost(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    values = [kind().of(problem, boxed(problem, MIDDLE, withheld)) for withheld in (0, 5, 20)]
    assert worse(kind, values[1], values[0])
    assert worse(kind, values[2], values[1])


# An unchanged table still has classes of equal records, and may protect more or less than is asked for.
@pytest.mark.parametrize(
    ("name", "seed"), cover(sorted(set(MEASURES) - {"class-size", "discernibility", "excessive-protection"}), range(3))
)
def test_an_unchanged_table_is_the_best_there_is(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    best = 1.0 if kind.better == "higher" else 0.0
    assert kind().of(problem, boxed(problem, FINEST)) == pytest.approx(best, abs=1e-12)


def mixed(problem: Problem, plan: Plan, times: int) -> tuple[Problem, Plan]:
    """The same table with its cells in another order and every record *times* times."""
    order = np.random.default_rng(1).permutation(N_CELLS)
    other = problem_of(tuple(column[order] for column in problem.cells.codes), problem.cells.counts[order] * times)
    return other, Plan.of_cells(plan.lo, plan.hi, plan.assignment.class_of[order], other.cells.counts)


@pytest.mark.parametrize("name", MEASURES)
def test_the_order_of_cells_does_not_matter(name: str) -> None:
    problem, kind = table(4), MEASURES[name]
    plan = boxed(problem, MIDDLE, 3)
    assert kind().of(*mixed(problem, plan, 1)) == pytest.approx(kind().of(problem, plan), rel=1e-12)


# What is chance, and which counts are small, depends on how many records there are.
@pytest.mark.parametrize("name", sorted(set(MEASURES) - {"association-kept", "count-error", "regression-overlap"}))
def test_more_equal_records_change_it_as_declared(name: str) -> None:
    problem, kind = table(4), MEASURES[name]
    plan = boxed(problem, MIDDLE, 3)
    expected = kind().of(problem, plan) * 7**kind.grows_with
    assert kind().of(*mixed(problem, plan, 7)) == pytest.approx(expected, rel=1e-9)


# A split cell makes more classes, so they are smaller on average.
@pytest.mark.parametrize("name", sorted(set(MONOTONE) - {"class-size"}))
def test_a_split_cell_counts_in_both_its_classes(name: str) -> None:
    problem, kind = table(5), MEASURES[name]
    fine, coarse = boxed(problem, MIDDLE), boxed(problem, COARSEST)
    lo, hi = np.concatenate([fine.lo, coarse.lo]), np.concatenate([fine.hi, coarse.hi])
    half = problem.cells.counts // 2
    cells = np.tile(np.arange(N_CELLS), 2)
    classes = np.concatenate([fine.assignment.class_of, np.full(N_CELLS, fine.n_classes)])
    split = Plan.of_pieces(lo, hi, N_CELLS, cells, classes, np.concatenate([half, problem.cells.counts - half]))
    value = kind().of(problem, split)
    assert worse(kind, value, kind().of(problem, fine))
    assert worse(kind, kind().of(problem, coarse), value)


def test_measures_that_do_not_apply_are_left_out() -> None:
    problem = table(1)
    alone = replace(
        problem, quasi=problem.quasi[:1], sensitive=(), cells=Cells(problem.cells.codes[:1], problem.cells.counts)
    )
    lo, hi = np.zeros((1, 1), dtype=np.int32), np.full((1, 1), 6, dtype=np.int32)
    plan = Plan.of_cells(lo, hi, np.zeros(N_CELLS, dtype=np.int32), alone.cells.counts)
    found = set(measure(replace(alone, requirements=()), plan, expensive=True))
    assert found & set(MEASURES) == set(MEASURES) - {"association-kept", "regression-overlap", "excessive-protection"}

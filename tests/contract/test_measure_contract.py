"""What every measure of utility must keep, for every measure that the package has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shoal.cells import Cells
from shoal.plan import WITHHELD, Plan
from shoal.problem import Attribute, Problem
from shoal.registry import discover
from shoal.taxonomies.builders.numbers import NumbersTaxonomy
from shoal.taxonomies.nested import from_nested
from shoal.utility.base import Measure, measured

MEASURES = discover("shoal.utility", Measure)
NUMBER = NumbersTaxonomy().build(pa.array([0, 1, 2, 5, 9, 20]))
CITY = from_nested({"*": {"north": ["a", "b"], "south": ["c", "d", "e"]}})
N_CELLS = 40


def table(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    codes = (rng.integers(6, size=N_CELLS), rng.integers(5, size=N_CELLS), rng.integers(3, size=N_CELLS))
    cells = Cells(codes, rng.integers(1, 9, size=N_CELLS))
    quasi = (Attribute("number", NUMBER), Attribute("city", CITY))
    return Problem(quasi, (Attribute("s", from_nested({"*": ["x", "y", "z"]})),), cells, ())


def boxed(problem: Problem, cuts: tuple[list[int], list[int]], withheld: int = 0) -> Plan:
    """Classes are the boxes of a grid; the first *withheld* cells are withheld."""
    group = np.zeros(N_CELLS, dtype=np.int64)
    edges = [[0, *cut, attribute.taxonomy.n_leaves] for cut, attribute in zip(cuts, problem.quasi, strict=True)]
    for column, edge in zip(problem.quasi_codes, edges, strict=True):
        group = group * (len(edge) - 1) + np.searchsorted(edge[1:], column, side="right")
    grid = [(i, j) for i in range(len(edges[0]) - 1) for j in range(len(edges[1]) - 1)]
    lo = np.array([[edges[0][i], edges[1][j]] for i, j in grid], dtype=np.int32)
    hi = np.array([[edges[0][i + 1], edges[1][j + 1]] for i, j in grid], dtype=np.int32)
    group[:withheld] = WITHHELD
    return Plan.of_cells(lo, hi, group.astype(np.int32), problem.cells.counts)


FINEST = ([1, 2, 3, 4, 5], [1, 2, 3, 4])
MIDDLE = ([2, 4], [2])
COARSEST: tuple[list[int], list[int]] = ([], [])


def worse(kind: type[Measure], value: float, than: float) -> bool:
    return value < than if kind.better == "higher" else value > than


def test_measures_are_found_and_named() -> None:
    assert set(MEASURES) >= {"um", "ncp"}
    for name, kind in MEASURES.items():
        assert kind.name == name
        assert kind.title
        assert kind.better in ("higher", "lower")


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("seed", range(3))
def test_coarser_is_worse(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    values = [kind().of(problem, boxed(problem, cuts)) for cuts in (FINEST, MIDDLE, COARSEST)]
    assert all(0 <= value <= 1 for value in values)
    assert worse(kind, values[1], values[0])
    assert worse(kind, values[2], values[1])


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("seed", range(3))
def test_withheld_records_count_as_lost(name: str, seed: int) -> None:
    problem, kind = table(seed), MEASURES[name]
    values = [kind().of(problem, boxed(problem, MIDDLE, withheld)) for withheld in (0, 5, 20)]
    assert worse(kind, values[1], values[0])
    assert worse(kind, values[2], values[1])


@pytest.mark.parametrize("name", MEASURES)
def test_an_unchanged_table_is_the_best_there_is(name: str) -> None:
    problem, kind = table(0), MEASURES[name]
    best = 1.0 if kind.better == "higher" else 0.0
    assert kind().of(problem, boxed(problem, FINEST)) == best


@pytest.mark.parametrize("name", MEASURES)
def test_the_order_of_cells_and_the_number_of_records_do_not_matter(name: str) -> None:
    problem, kind = table(4), MEASURES[name]
    plan = boxed(problem, MIDDLE)
    order = np.random.default_rng(1).permutation(N_CELLS)
    mixed = Problem(
        problem.quasi,
        problem.sensitive,
        Cells(tuple(column[order] for column in problem.cells.codes), problem.cells.counts[order] * 7),
        (),
    )
    moved = Plan.of_cells(plan.lo, plan.hi, plan.assignment.class_of[order], mixed.cells.counts)
    assert kind().of(mixed, moved) == pytest.approx(kind().of(problem, plan), abs=1e-12)


@pytest.mark.parametrize("name", MEASURES)
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


def test_measured_gives_all_as_plain_numbers() -> None:
    problem = table(1)
    found = measured(problem, boxed(problem, MIDDLE))
    assert set(found) == set(MEASURES)
    assert all(type(value) is float for value in found.values())

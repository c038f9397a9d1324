"""Measures of sliced plans against those of generalized ones, and against answers from the published rows."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from tests import releases
from tests.tables import tabulate_leaves

from shoal.core.arrays import CodeArray
from shoal.plan.cells import Cells
from shoal.plan.problem import Attribute, Problem
from shoal.plan.slices import Part, Pieces, SlicedPlan
from shoal.release.sliced.estimating import estimate_query
from shoal.release.sliced.query import Query
from shoal.release.sliced.table import SlicedTable, name_columns
from shoal.taxonomies.files import from_nested
from shoal.utility.rows import SlicedRows

SIZES = (4, 5, 3, 3)  # leaves of three quasi attributes and a sensitive one
NAMES = ("q0", "q1", "q2", "s")
DISJOINT = [(0, 1), (2, 3)]
OVERLAPPING = [(0, 1), (1, 2), (2, 3)]


def tree(n_leaves: int) -> object:
    return from_nested({"*": {"low": ["0", "1"], "high": [str(leaf) for leaf in range(2, n_leaves)]}})


def random_problem(rng: np.random.Generator, n_records: int = 60) -> Problem:
    codes = np.stack([rng.integers(0, size, n_records) for size in SIZES])
    codes[3] = np.where(rng.random(n_records) < 0.7, codes[0] % 3, codes[3])
    distinct, counts = np.unique(codes, axis=1, return_counts=True)
    cells = Cells(tuple(row.astype(np.int32) for row in distinct), counts.astype(np.int64))
    attributes = [Attribute(name, tree(size)) for name, size in zip(NAMES, SIZES, strict=True)]
    return Problem(tuple(attributes[:3]), (attributes[3],), cells, ())


def sliced_plan(
    problem: Problem,
    parts: list[tuple[int, ...]],
    bucket: CodeArray,
    regions: tuple[CodeArray, CodeArray] | None = None,
) -> SlicedPlan:
    """A plan from the bucket of each cell, -1 being withheld; *regions* are published by the first part."""
    cells = problem.cells
    made = []
    for number, places in enumerate(parts):
        quasi = tuple(place for place in places if place < 3)
        known = np.stack([np.zeros_like(cells.codes[0]), *(cells.codes[place] for place in quasi)])
        _, values = np.unique(known, axis=1, return_inverse=True)
        lo = hi = None
        if regions is not None and number == 0:
            values, lo, hi = np.arange(cells.n_cells), *regions
        values = values.reshape(-1).astype(np.int32)
        made.append(Part(quasi, (0,) if 3 in places else (), (), values, int(values.max()) + 1, lo, hi))
    pieces = Pieces(np.arange(cells.n_cells), bucket.astype(np.int32), cells.counts)
    return SlicedPlan.of_pieces(tuple(made), cells.counts, pieces, int(bucket.max()) + 1)


def published(problem: Problem, parts: list[tuple[int, ...]], bucket: CodeArray) -> SlicedTable:
    """The rows of a plan without regions, as leaves."""
    rows = np.repeat(np.arange(problem.cells.n_cells), problem.cells.counts)
    rows = rows[bucket[rows] >= 0]
    rows = rows[np.argsort(bucket[rows], kind="stable")]
    names = [[NAMES[place] for place in part] for part in parts]
    columns = {"bucket": pa.array(bucket[rows] + 1)}
    for part, listed in zip(parts, name_columns(names), strict=True):
        columns |= {name: pa.array(problem.cells.codes[p][rows]) for p, name in zip(part, listed, strict=True)}
    return SlicedTable.of(pa.table(columns), names)


ENTRIES = releases.state({"attributes": {name: {"role": "quasi", "kind": "number"} for name in NAMES}}).attributes


@pytest.mark.parametrize(
    ("parts", "sets"),
    [
        (DISJOINT, [*itertools.combinations(range(4), 2), *itertools.permutations(range(4), 3)]),
        ([(0,), (1,), (2,), (3,)], [*itertools.combinations(range(4), 2), (2, 0, 3)]),
        (OVERLAPPING, [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 0, 1)]),  # not the ends: linked by buckets alone
    ],
)
def test_expected_tables_are_those_of_the_published_rows(
    parts: list[tuple[int, ...]], sets: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(22)
    problem = random_problem(rng)
    bucket = rng.integers(0, 4, problem.cells.n_cells)
    tables = tabulate_leaves(SlicedRows.of(problem, sliced_plan(problem, parts, bucket)))
    table = published(problem, parts, bucket)
    for places in sets:
        answer = estimate_query(table, ENTRIES, Query(by=tuple(NAMES[place] for place in places)))
        assert isinstance(answer, pa.Table)
        expected = np.zeros([SIZES[place] for place in places])
        for row in answer.to_pylist():
            expected[tuple(row[NAMES[place]] for place in places)] = row["value"]
        assert tables.expect(places) == pytest.approx(expected, abs=1e-9)

"""Random COUNT queries and the tables that they are asked of."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.files import from_nested
from shoal.utility import rows as rows_module
from shoal.utility.accuracy_ratio import AccuracyRatio, hold_out
from shoal.utility.association_kept import AssociationKept, contingency
from shoal.utility.query_error import N_IN_SET, N_SETS, Queries, QueryError
from shoal.utility.rows import MOST_BINS, Column, Rows, bin_edges, original_rows, rows_published

LEAVES = (9, 4, 3, 2)


def flat(n_leaves: int) -> Attribute:
    return Attribute(f"of {n_leaves}", from_nested({"*": [f"v{leaf}" for leaf in range(n_leaves)]}))


def problem(n_sensitive: int, n_cells: int = 200, leaves: tuple[int, ...] = LEAVES) -> Problem:
    rng = np.random.default_rng(7)
    attributes = tuple(flat(n_leaves) for n_leaves in leaves)
    codes = tuple(rng.integers(n_leaves, size=n_cells) for n_leaves in leaves)
    place = len(leaves) - n_sensitive
    return Problem(attributes[:place], attributes[place:], Cells(codes, rng.integers(1, 5, n_cells)), ())


def one_class(of: Problem) -> Plan:
    hi = np.array([[attribute.taxonomy.n_leaves for attribute in of.quasi]], dtype=np.int32)
    return Plan.of_cells(np.zeros_like(hi), hi, np.zeros(of.cells.n_cells, dtype=np.int32), of.cells.counts)


def test_there_are_ten_thousand_queries() -> None:
    assert N_SETS * N_IN_SET == 10_000


@pytest.mark.parametrize("n_sensitive", [0, 1, 2])
def test_queries_ask_for_one_to_three_quasi_attributes_and_a_sensitive_one(n_sensitive: int) -> None:
    rng = np.random.default_rng(0)
    table = problem(n_sensitive)
    n_quasi = len(table.quasi)
    numbers, sensitive = set(), set()
    for _ in range(60):
        queries = Queries.draw(table, 20, rng)
        quasi = [place for place in queries.places.tolist() if place < n_quasi]
        others = [place for place in queries.places.tolist() if place >= n_quasi]
        assert len(set(quasi)) == len(quasi)
        assert len(others) == min(n_sensitive, 1)
        numbers.add(len(quasi))
        sensitive.update(others)
        tops = np.array([LEAVES[place] for place in queries.places])[:, np.newaxis]
        assert (queries.starts >= 0).all()
        assert (queries.starts < queries.stops).all()
        assert (queries.stops <= tops).all()
    assert numbers == set(range(1, min(n_quasi, 3) + 1))
    assert len(sensitive) == n_sensitive


def test_every_range_is_drawn_about_equally_often() -> None:
    table = problem(0, leaves=(3,))
    queries = Queries.draw(table, 12_000, np.random.default_rng(1))
    pairs, times = np.unique(queries.starts[0] * 4 + queries.stops[0], return_counts=True)
    assert len(pairs) == 6
    # 2,000 each with a standard deviation of 41: six of them pass 6 standard deviations once in 10^8 runs
    assert abs(times - 2000).max() < 250


def test_the_same_queries_are_drawn_without_a_generator_and_others_with_one() -> None:
    table = problem(1)
    plan = one_class(table)
    measure = QueryError()
    assert measure.of(table, plan) == measure.of(table, plan)
    figures = measure.figures(table, plan, np.random.default_rng(5))
    assert figures["query-error"] != measure.of(table, plan)
    assert 0 < figures["query-error"] < figures["query-error-95"]


def test_small_counts_are_judged_by_the_sanity_bound() -> None:
    # 10,000 records of one value and 1 of the other: the root tells 5,000.5 of each
    table = Problem((flat(2),), (), Cells((np.array([0, 1]),), np.array([10_000, 1])), ())
    figures = QueryError().figures(table, one_class(table), np.random.default_rng(0))
    # a third of the queries each: all (0), the first (4,999.5 / 10,000), the second (4,999.5 / 10.001)
    assert figures["query-error"] == pytest.approx(4_999.5 / 10_000)
    assert figures["query-error-95"] == pytest.approx(4_999.5 / 10.001)


def test_tables_of_few_and_of_many_combinations_are_projected_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    table = original_rows(problem(1))
    few = table.project([2, 0])
    monkeypatch.setattr(rows_module, "_DENSE", 0)
    many = table.project([2, 0])
    assert few.records.sum() == table.records.sum()
    assert few.records.tolist() == many.records.tolist()
    for one, other in zip(few.columns, many.columns, strict=True):
        assert one.item.tolist() == other.item.tolist()


def test_bins_are_leaves_as_long_as_there_are_few() -> None:
    assert bin_edges(3).tolist() == [0, 1, 2, 3]
    for n_leaves in (MOST_BINS, MOST_BINS + 1, 1000):
        edges = bin_edges(n_leaves)
        assert (edges[0], edges[-1], len(edges)) == (0, n_leaves, MOST_BINS + 1)
        assert set(np.diff(edges).tolist()) <= {n_leaves // MOST_BINS, n_leaves // MOST_BINS + 1}


def test_wide_attributes_are_compared_in_bins() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(1000, size=3000)
    table = Problem((flat(1000), flat(1000)), (), Cells((first, first), np.ones(3000, dtype=np.int64)), ())
    assert original_rows(table).cross(0, 1).shape == (MOST_BINS, MOST_BINS)
    leaves = np.unique(first)
    ends = np.stack([leaves, leaves], axis=1).astype(np.int32)
    same = Plan.of_cells(ends, ends + 1, np.searchsorted(leaves, first).astype(np.int32), table.cells.counts)
    assert AssociationKept().of(table, same) == pytest.approx(1)
    assert AssociationKept().of(table, one_class(table)) == pytest.approx(0, abs=1e-6)


def test_contingency_tables_by_hand() -> None:
    # rows 2 and 2, columns 3 and 1: expected 1.5 and 0.5, each off by a half
    assert contingency(np.array([[2.0, 0.0], [1.0, 1.0]])) == pytest.approx((0.25 / 1.5 * 2 + 0.25 / 0.5 * 2) / 4)
    assert contingency(np.zeros((2, 2))) == 0


def test_gaps_in_what_occurs_get_no_records() -> None:
    # leaves 0, 2 and 3 occur; a record published as 0 to 2 is half at 0 and half at 2
    below = np.array([0.0, 1, 1, 2, 3])
    column = Column.of_ranges(np.array([0, 3]), np.array([3, 4]), below)
    other = Column.of_leaves(np.array([0, 1]), 2)
    table = Rows((column, other), np.array([4.0, 1.0])).cross(0, 1)
    assert table.tolist() == [[2, 0], [0, 0], [2, 0], [0, 1]]


def test_a_third_of_the_records_is_held_out_whatever_their_order() -> None:
    table = problem(1, 5000)
    asked = hold_out(table.cells.codes, table.cells.counts)
    assert (asked >= table.cells.counts // 3).all()
    assert (asked <= (table.cells.counts + 2) // 3).all()
    assert asked.sum() == pytest.approx(table.cells.n_records / 3, rel=0.05)
    again = hold_out(tuple(codes[::-1].astype(np.uint8) for codes in table.cells.codes), table.cells.counts[::-1])
    assert again.tolist() == asked[::-1].tolist()


def test_what_can_be_learned_from_the_original_is_lost_at_the_root() -> None:
    # the sensitive value is the quasi value: 4 values, 100 records each
    codes = np.arange(4)
    table = Problem((flat(4),), (flat(4),), Cells((codes, codes), np.full(4, 99)), ())
    ends = codes[:, np.newaxis].astype(np.int32)
    same = Plan.of_cells(ends, ends + 1, codes.astype(np.int32), table.cells.counts)
    assert AccuracyRatio().of(table, same) == 1
    assert AccuracyRatio().of(table, one_class(table)) == pytest.approx(1 / 4)


def test_rows_that_are_equal_are_counted_once() -> None:
    table = problem(1)
    published = rows_published(table, one_class(table))
    assert len(published.records) == LEAVES[-1]
    assert published.records.sum() == table.cells.n_records


def test_half_and_95_percent_of_the_queries_err_less() -> None:
    table = problem(1)
    plan = one_class(table)
    before, after = original_rows(table), rows_published(table, plan)
    rng = np.random.default_rng(9)
    errors = []
    for _ in range(N_SETS):
        queries = Queries.draw(table, N_IN_SET, rng)
        true = queries.answer(before)
        errors.append(abs(queries.answer(after) - true) / np.maximum(true, table.cells.n_records / 1000))
    below = np.concatenate(errors)
    figures = QueryError().figures(table, plan, np.random.default_rng(9))
    for name, share in (("query-error", 0.5), ("query-error-95", 0.95)):
        assert np.mean(below < figures[name]) <= share <= np.mean(below <= figures[name] * (1 + 1e-12)) + 1e-4

"""Errors of counts, and the tables that counts and predictions are taken from."""

from __future__ import annotations

import numpy as np
import pytest
from tests.tables import tabulate_leaves

from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.files import from_nested
from shoal.utility.analyses import CountError, contingency
from shoal.utility.rows import Column, Rows


def flat(n_leaves: int) -> Attribute:
    return Attribute(f"of {n_leaves}", from_nested({"*": [f"v{leaf}" for leaf in range(n_leaves)]}))


def one_class(of: Problem) -> Plan:
    hi = np.array([[attribute.taxonomy.n_leaves for attribute in of.quasi]], dtype=np.int32)
    return Plan.of_cells(np.zeros_like(hi), hi, np.zeros(of.cells.n_cells, dtype=np.int32), of.cells.counts)


def test_errors_of_counts_by_their_size_by_hand() -> None:
    # 10,000 records of one value, 400 and 20 of two others: the root tells 3,473.33 of each
    table = Problem((flat(3),), (), Cells((np.arange(3),), np.array([10_000, 400, 20])), ())
    figures = CountError().figures(table, one_class(table))
    each = 10_420 / 3
    small, middle, large = each / 20 - 1, each / 400 - 1, 1 - each / 10_000
    assert figures["count-error"] == pytest.approx(middle)
    assert figures["count-error-10"] == figures["count-error-10-95"] == pytest.approx(small)
    assert figures["count-error-100"] == pytest.approx(middle)
    assert figures["count-error-1000"] == pytest.approx(large)


def test_contingency_tables_by_hand() -> None:
    # rows 2 and 2, columns 3 and 1: expected 1.5 and 0.5, each off by a half
    assert contingency(np.array([[2.0, 0.0], [1.0, 1.0]])) == pytest.approx((0.25 / 1.5 * 2 + 0.25 / 0.5 * 2) / 4)
    assert contingency(np.zeros((2, 2))) == 0


def test_gaps_in_what_occurs_get_no_records() -> None:
    # leaves 0, 2 and 3 occur; a record published as 0 to 2 is half at 0 and half at 2
    below = np.array([0.0, 1, 1, 2, 3])
    column = Column.of_ranges(np.array([0, 3]), np.array([3, 4]), below)
    other = Column.of_leaves(np.array([0, 1]), 2)
    table = tabulate_leaves(Rows((column, other), np.array([4.0, 1.0]))).expect((0, 1))
    assert table.tolist() == [[2, 0], [0, 0], [2, 0], [0, 1]]

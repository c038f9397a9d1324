"""Quotas are dealt to partitions as if all records of a cell took places in random order."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InputError
from shoal.engines.spark.rewriting import draw_quotas
from shoal.plan.plan import Assignment

Quotas = list[list[int]]  # of each split cell


def assigned(quotas: Quotas) -> Assignment:
    cells = np.repeat(np.arange(len(quotas)), [len(own) for own in quotas])
    classes = np.concatenate([np.arange(len(own)) for own in quotas])
    return Assignment.of_pieces(len(quotas), cells, classes, np.concatenate(quotas))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Quotas, dict[int, tuple[np.ndarray, np.ndarray]]]:
    """Quotas of some cells, and how their records lie in partitions."""
    quotas = draw(st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=5), min_size=1, max_size=6))
    n_partitions = draw(st.integers(1, 5))
    held = {number: {} for number in range(n_partitions)}
    for cell, own in enumerate(quotas):
        where = draw(st.lists(st.integers(0, n_partitions - 1), min_size=sum(own), max_size=sum(own)))
        for number, records in Counter(where).items():
            held[number][cell] = records
    return quotas, {
        number: (np.array(list(cells), dtype=np.int64), np.array(list(cells.values()), dtype=np.int64))
        for number, cells in held.items()
    }


@given(tables(), st.integers(0, 2**32))
def test_every_partition_gets_a_place_for_each_record_and_every_quota_is_used_up(table, seed: int) -> None:
    quotas, held = table
    assignment = assigned(quotas)
    dealt = draw_quotas(assignment, held, np.random.default_rng(seed))
    parts = {number: part.of(len(assignment.quota)) for number, part in dealt.items()}
    assert np.array_equal(sum(parts.values()), assignment.quota)
    for number, (cells, records) in held.items():
        places = np.add.reduceat(parts[number], assignment.first[:-1])
        expected = np.zeros(len(quotas), dtype=np.int64)
        expected[cells] = records
        assert np.array_equal(places, expected)
        assert parts[number].min() >= 0


def test_shares_are_those_of_all_orders_of_the_places() -> None:
    """Three partitions with 2, 1 and 2 records of a cell of quotas 1, 2, 2: against all 120 orders, a fixed seed."""
    orders = Counter(
        tuple(tuple(sorted(order[start:stop])) for start, stop in ((0, 2), (2, 3), (3, 5)))
        for order in permutations([0, 1, 1, 2, 2])
    )
    n_trials = 20_000  # as many cells, all alike
    assignment, cells = assigned([[1, 2, 2]] * n_trials), np.arange(n_trials)
    held = {number: (cells, np.full(n_trials, records)) for number, records in enumerate((2, 1, 2))}
    dealt = draw_quotas(assignment, held, np.random.default_rng(7))
    drawn = np.stack([dealt[number].of(3 * n_trials).reshape(n_trials, 3) for number in range(3)], axis=1)
    outcomes, times = np.unique(drawn, axis=0, return_counts=True)
    found = {
        tuple(tuple(np.repeat([0, 1, 2], part).tolist()) for part in outcome): number
        for outcome, number in zip(outcomes, times.tolist(), strict=True)
    }
    assert set(found) == set(orders)
    for outcome, n_orders in orders.items():
        share = n_orders / 120
        assert abs(found[outcome] / n_trials - share) < 5 * np.sqrt(share * (1 - share) / n_trials)


def test_rows_more_or_fewer_than_were_counted_are_noticed() -> None:
    assignment, one = assigned([[2, 2]]), np.array([0])
    for records in ((2, 1), (2, 3)):
        held = {number: (one, np.array([count])) for number, count in enumerate(records)}
        with pytest.raises(InputError, match="changed while it was being read"):
            draw_quotas(assignment, held, np.random.default_rng(1))

"""Chance where it protects people: every arrangement and every order equally likely.

Each test compares frequencies with the uniform distribution by a chi-square statistic. Limits are the quantile
of 1 - 1e-6 of the distribution, by Wilson and Hilferty's approximation: a correct implementation with fresh
generators would fail one of these tests about once in 100,000 runs of the file. Seeds are fixed, so that a
failure means a change of the code.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shoal.core import randomness
from shoal.core.randomness import Chance, Shuffler
from shoal.plan.plan import WITHHELD, Assignment, Dealer

Z = 4.753424  # normal quantile of 1 - 1e-6


def chi_square_limit(freedom: int) -> float:
    part = 2 / (9 * freedom)
    return freedom * (1 - part + Z * part**0.5) ** 3


def check_uniform(seen: Counter[Hashable], possible: int) -> None:
    trials = seen.total()
    expected = trials / possible
    assert expected >= 20, "too few trials for the approximation"
    assert len(seen) == possible
    statistic = sum((count - expected) ** 2 for count in seen.values()) / expected
    assert statistic < chi_square_limit(possible - 1)


@pytest.mark.parametrize("batch", [1, 2, 5])
@pytest.mark.parametrize("quotas", [{0: 2, 1: 3}, {0: 1, 1: 2, WITHHELD: 2}])
def test_every_arrangement_of_a_cell_is_equally_likely(batch: int, quotas: dict[int, int]) -> None:
    chance = Chance.of(17)
    n_targets = len(quotas)
    assignment = Assignment.of_pieces(
        1, np.zeros(n_targets, dtype=np.int64), np.array(list(quotas)), np.array(list(quotas.values()))
    )
    rows = np.zeros(5, dtype=np.int64)
    possible = set(itertools.permutations([target for target, quota in quotas.items() for _ in range(quota)]))
    seen: Counter[Hashable] = Counter()
    for _ in range(3000):
        dealer = Dealer(assignment, chance)
        parts = [dealer.deal(rows[start : start + batch]).tolist() for start in range(0, 5, batch)]
        seen[tuple(itertools.chain(*parts))] += 1
    assert set(seen) == possible
    check_uniform(seen, len(possible))


@pytest.mark.parametrize("per_heap", [1 << 20, 3, 2, 1])
def test_every_order_of_rows_is_equally_likely(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, per_heap: int) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", per_heap)
    chance = Chance.of(29)
    batches = pa.table({"row": range(4)}).to_batches(max_chunksize=3)
    seen: Counter[Hashable] = Counter()
    for _ in range(1200):
        with Shuffler(4, chance, tmp_path) as shuffler:
            for batch in batches:
                shuffler.add(batch)
            seen[tuple(itertools.chain(*(heap["row"].to_pylist() for heap in shuffler.heaps())))] += 1
    check_uniform(seen, 24)


def test_a_place_says_nothing_about_the_origin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 5)
    chance = Chance.of(31)
    batches = pa.table({"row": range(20)}).to_batches(max_chunksize=7)
    seen: Counter[Hashable] = Counter()
    for _ in range(600):
        with Shuffler(20, chance, tmp_path) as shuffler:
            for batch in batches:
                shuffler.add(batch)
            order = itertools.chain(*(heap["row"].to_pylist() for heap in shuffler.heaps()))
            seen.update((place // 5, row // 5) for place, row in enumerate(order))
    check_uniform(seen, 16)  # rows of one run depend on each other, which makes the statistic smaller, not larger

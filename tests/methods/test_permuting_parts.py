"""Chance in sliced releases: every order of every part equally likely, whatever the order of the other parts.

Frequencies are compared with the uniform distribution by a chi-square statistic. Its limit is the quantile of
1 - 1e-6, by Wilson and Hilferty's approximation. Without a seed the orders come from the operating system, so
tests of these are not repeatable: each fails a correct implementation about once in a million runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.progress import Silent
from shoal.core.randomness import Chance
from shoal.engines.local import LocalEngine
from shoal.plan.slices import Part, Pieces, SlicedPlan
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.release.forms.slices import Slices
from shoal.sources.frames import plain
from shoal.sources.opening import open_source

Z = 4.753424  # normal quantile of 1 - 1e-6
SEEDS = pytest.mark.parametrize("seed", [None, 11], ids=["operating system", "seed"])


def check_uniform(seen: Counter[Hashable], possible: int) -> None:
    expected = seen.total() / possible
    assert expected >= 20, "too few trials for the approximation"
    assert len(seen) == possible
    statistic = sum((count - expected) ** 2 for count in seen.values()) / expected
    part = 2 / (9 * (possible - 1))
    assert statistic < (possible - 1) * (1 - part + Z * part**0.5) ** 3


def ranks(block: np.ndarray) -> list[tuple[int, ...]]:
    """Return the order of each row of a block, in which the smallest is 0."""
    return [tuple(row) for row in np.argsort(np.argsort(block, axis=1), axis=1).tolist()]


@SEEDS
@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_every_order_within_a_group_is_equally_likely(size: int, seed: int | None) -> None:
    n_groups = 12_000
    groups = np.tile(np.arange(n_groups, dtype=np.int32), size)
    order = Chance.of(seed).order_within(groups, n_groups)
    assert (groups[order] == np.repeat(np.arange(n_groups), size)).all()
    check_uniform(Counter(ranks(order.reshape(n_groups, size))), [1, 1, 2, 6, 24, 120][size])


@SEEDS
def test_orders_of_two_parts_and_numbers_of_buckets_are_independent(seed: int | None) -> None:
    """Buckets of three records: 6 orders of the one part times 6 of the other, the same for low and high numbers."""
    n_buckets = 4_000
    number = np.arange(3 * n_buckets)
    table = pa.table({"a": number, "b": number.astype(str), "x": number, "y": number})
    attributes = {
        "a": {"role": "quasi"},
        "b": {"role": "quasi", "taxonomy": {"flat": {}}},
        "x": {"role": "insensitive"},
        "y": {"role": "insensitive"},
    }
    policy = Policy.load({"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]})
    source = open_source(table)
    counted = LocalEngine().count(source, ("a", "b"), Silent())
    encoding = encode(counted, policy)
    codes = np.asarray(encoding.problem.quasi_codes[0])  # of each cell: its record
    n_cells = len(codes)
    ones = np.ones(n_cells, dtype=np.int64)
    places = np.arange(n_cells, dtype=np.int32)
    parts = (Part((0,), (), ("x",), places, n_cells), Part((1,), (), ("y",), places, n_cells))
    pieces = Pieces(np.arange(n_cells), (codes // 3).astype(np.int32), ones)
    plan = SlicedPlan.of_pieces(parts, encoding.problem.cells.counts, pieces, n_buckets)
    publication = Slices.prepare(policy, source, counted, encoding, plan)
    rows = plain(pa.Table.from_batches(publication.rows(LocalEngine(), Chance.of(seed), None, Silent()).batches))
    assert rows["a"].to_pylist() == rows["x"].to_pylist()
    assert rows["b"].to_pylist() == [str(value) for value in rows["y"].to_pylist()]
    one, other = (rows[name].to_numpy().reshape(n_buckets, 3) for name in ("x", "y"))
    assert (one[:, 0] // 3 == other[:, 0] // 3).all()
    high = one[:, 0] // 3 >= n_buckets // 2  # in the order of the plan
    late = np.arange(n_buckets) >= n_buckets // 2  # in the order of the file
    check_uniform(Counter(zip(ranks(one), ranks(other), strict=True)), 36)
    check_uniform(Counter(zip(ranks(one), late.tolist(), strict=True)), 12)
    assert abs(int((high & late).sum()) - n_buckets / 4) < 5 * (n_buckets / 16) ** 0.5  # hypergeometric deviation: 15.8


def test_keys_of_the_operating_system_leave_the_generator_alone() -> None:
    chance = Chance.of(None)
    before = chance.generator.bit_generator.state
    assert len(set(chance.keys(1_000).tolist())) == 1_000
    assert chance.generator.bit_generator.state == before
    seeded = Chance.of(5)
    assert seeded.keys(3).tolist() == Chance.of(5).keys(3).tolist()
    assert Chance.of(5, "one table").keys(3).tolist() != Chance.of(5, "another").keys(3).tolist()
    assert seeded.keys(3).tolist() != Chance.of(5).keys(3).tolist()  # each key is for one use

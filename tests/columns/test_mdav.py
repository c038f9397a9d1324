"""Microaggregation: what groups share, blocks, refusals, and Adult."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.columns.microaggregation.mdav import (
    Grouping,
    Space,
    group_means,
    group_medians,
    group_modes,
    microaggregate,
    sum_squares,
)
from shoal.core.errors import InputError, UnreachableError

GROUPING = Grouping(np.array([0, 0, 0, 1, 1, 1, 1], dtype=np.int32), 2)


def test_what_groups_share() -> None:
    numbers = np.array([1.0, 2.0, 9.0, 4.0, 1.0, 2.0, 3.0])
    assert group_means(numbers, GROUPING).tolist() == [4.0, 2.5]
    assert group_medians(numbers, GROUPING).tolist() == [2.0, 2.0]
    codes = np.array([0, 1, 2, 0, 0, 3, 3], dtype=np.int32)
    assert group_modes(codes, GROUPING).tolist() == [0, 0]


def test_weights_decide_what_is_kept_apart() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=400), rng.normal(size=400)
    left = []
    for weight in (0.01, 100.0):
        grouping = microaggregate(Space.of([x, y], [], weights=[weight, 1.0]), 5)
        left.append(float(np.var(x - group_means(x, grouping)[grouping.group])))
    assert left[1] < left[0] / 20


@pytest.mark.parametrize("block", [40, 100, 999])
def test_blocks_keep_the_sizes(block: int) -> None:
    rng = np.random.default_rng(5)
    space = Space.of([rng.normal(size=1000)], [rng.integers(0, 4, 1000).astype(np.int32)])
    grouping = microaggregate(space, 7, block_records=block)
    assert grouping.sizes.min() >= 7
    assert grouping.sizes.max() <= 13
    assert grouping.sizes.sum() == 1000
    within, whole = sum_squares(space, grouping)
    at_once, _ = sum_squares(space, microaggregate(space, 7))
    assert within < 2 * at_once < 0.2 * whole


def test_too_few_records_are_refused() -> None:
    with pytest.raises(UnreachableError, match="k = 5 but the table has only 4"):
        microaggregate(Space.of([np.arange(4.0)], []), 5)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(InputError, match="2 are missing or not finite"):
        Space.of([np.array([1.0, np.nan, np.inf])], [])

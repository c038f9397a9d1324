"""What holds beyond the (l,delta)-diversity paper: groups of records, linkage of k and entropy, masked counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiments.l_delta_beyond import (
    DELTA,
    MARKS,
    Groups,
    add_messages,
    bound_counts,
    joint_chances,
    link,
    make_tables,
    mask_counts,
)

PAGE = Path(__file__).parents[2] / "docs" / "l-delta-beyond.md"
SECRETS = {(a, b): f"{a} and {b}".encode() for a in range(3) for b in range(a + 1, 3)}


def test_the_page_has_the_tables_that_this_code_makes() -> None:
    assert make_tables().strip() == PAGE.read_text(encoding="utf-8").split(MARKS[0])[1].split(MARKS[1])[0].strip()


@pytest.mark.parametrize(("size", "alike"), [(1, 0.0), (3, 0.0), (3, 0.4), (3, 1.0)])
def test_a_group_misses_a_value_as_often_as_the_formula_says(size: int, alike: float) -> None:
    rng, chance, groups = np.random.default_rng(5), 0.1, Groups(size, alike)
    missed = 0
    for _ in range(4000):
        first, anew = rng.random(), rng.random((size - 1, 2))
        drawn = np.where(anew[:, 0] < alike, first, anew[:, 1])
        missed += bool(first >= chance and (drawn >= chance).all())
    assert missed / 4000 == pytest.approx(float(groups.miss(np.array(chance), size)), abs=0.02)


def test_linked_counts_lie_between_the_ends() -> None:
    low, high = bound_counts(2000, DELTA)
    linked = link(2000, 2, 500, np.random.default_rng(3))
    outside = ((linked < low) | (linked > high)).any(axis=(1, 2)).mean()
    mean = 2000 * joint_chances()[0]
    assert (low < mean).all()
    assert (high > mean).all()
    assert outside <= 2 * DELTA


def test_masks_cancel_in_the_sum_of_all_messages_and_in_no_other() -> None:
    rng = np.random.default_rng(11)
    counts = [rng.integers(0, 100, 5000) for _ in range(3)]
    messages = mask_counts(counts, SECRETS)
    assert (add_messages(messages) == sum(counts)).all()
    assert not (add_messages(messages[:2]) == counts[0] + counts[1]).any()


def test_messages_are_uniform_whatever_the_counts_are() -> None:
    for message in mask_counts([np.zeros(20_000, dtype=np.int64)] * 3, SECRETS):
        bits = np.unpackbits(message.view(np.uint8)).reshape(-1, 64).mean(axis=0)
        assert abs(bits - 0.5).max() < 0.02  # more than five standard errors

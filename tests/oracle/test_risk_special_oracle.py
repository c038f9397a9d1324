"""Special uniques against looking at every set of every record."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.audit.uniqueness import disclosure, record_disclosure, special_uniques

NAMES = "abcdef"


def minimal_uniques(rows: list[tuple[int, ...]], largest: int) -> list[list[tuple[int, ...]]]:
    """The minimal sample uniques of every row, as sets of columns."""
    width = len(rows[0])
    counts = {
        places: Counter(tuple(row[place] for place in places) for row in rows)
        for size in range(1, width + 1)
        for places in combinations(range(width), size)
    }
    found: list[list[tuple[int, ...]]] = []
    for row in rows:
        alone = {places for places in counts if counts[places][tuple(row[place] for place in places)] == 1}
        minimal = [
            places
            for places in alone
            if len(places) <= largest
            and not any(part in alone for size in range(1, len(places)) for part in combinations(places, size))
        ]
        found.append(minimal)
    return found


def columns_of(rows: list[tuple[int, ...]]) -> dict[str, np.ndarray]:
    return {NAMES[place]: np.array([row[place] for row in rows]) for place in range(len(rows[0]))}


tables = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, 3)] * width), min_size=1, max_size=14)
)


@given(rows=tables, largest=st.integers(1, 6), order=st.randoms(use_true_random=False))
def test_every_minimal_sample_unique_is_found_and_nothing_else(rows, largest, order):
    width = len(rows[0])
    found = special_uniques(columns_of(rows), largest=largest)
    expected = minimal_uniques(rows, largest)
    sets = Counter(places for minimal in expected for places in minimal)
    assert {one.attributes: one.records for one in found.sets} == {
        tuple(NAMES[place] for place in places): count for places, count in sets.items()
    }
    top = min(largest, width, width - 1) if width > 1 else 0

    def weight(size: int) -> int:
        return prod(width - number for number in range(size, top + 1))

    assert found.scores.tolist() == [sum(weight(len(places)) for places in minimal) for minimal in expected]
    assert found.smallest.tolist() == [min(map(len, minimal), default=0) for minimal in expected]
    whole = sum(weight(len(places)) for minimal in expected for places in minimal)
    assert found.score == whole
    for place in range(width):
        part = sum(weight(len(places)) for minimal in expected for places in minimal if place in places)
        assert found.contributions[NAMES[place]] == (part / whole if whole else 0.0)
    times = Counter(rows)
    assert found.unique.tolist() == [times[row] == 1 for row in rows]
    assert found.pairs == sum(times[row] == 2 for row in rows)
    assert sum(found.by_size()) == sum(times[row] == 1 for row in rows)
    shuffled = list(range(width))
    order.shuffle(shuffled)
    again = special_uniques({NAMES[p]: columns_of(rows)[NAMES[p]] for p in shuffled}, largest=largest)
    assert again.scores.tolist() == found.scores.tolist()


@given(rows=tables, fraction=st.sampled_from([0.01, 0.2, 0.9]))
def test_disclosure_of_records_as_sdcmicro_documents_it(rows, fraction):
    """With all sizes looked for, as there; there a record's score is to the power of 1 + (8 - n) / 20."""
    width = len(rows[0])
    found = special_uniques(columns_of(rows), largest=width)
    n_unique = int(found.unique.sum())
    dis = disclosure(n_unique, found.pairs, fraction)
    chances = record_disclosure(found, fraction)
    if not n_unique:
        assert dis == 0
        assert not chances.any()
        return
    assert dis == pytest.approx(n_unique * fraction / (n_unique * fraction + found.pairs * (1 - fraction)))
    steep = 1 + (8 - width) / 20
    adjusting = sum(score**-steep for score in found.scores if score)
    for score, chance in zip(found.scores, chances, strict=True):
        expected = 1 / (1 + (n_unique / dis - n_unique) / (score**steep * adjusting)) if score else 0
        assert chance == pytest.approx(expected)

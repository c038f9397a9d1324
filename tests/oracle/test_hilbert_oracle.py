"""Hilbert against slow re-implementations: the curve walked backwards, the best cuts, the dealing by lists.

And on Adult, against the best total width that any peer was measured to reach.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from shoal.core.kernels import group_items
from shoal.core.progress import Silent
from shoal.methods.hilbert import Hilbert
from shoal.methods.hilbert.curve import curve_keys, diverse_groups
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.cells import Cells
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.files import from_nested
from shoal.utility.information import NormalizedCertaintyPenalty


def point_at(index: int, d: int, bits: int) -> tuple[int, ...]:
    """The point of the curve at *index*: Skilling's way back from the key to the coordinates."""
    digits = [index >> (d * bits - 1 - place) & 1 for place in range(d * bits)]
    x = [sum(digits[row * d + i] << (bits - 1 - row) for row in range(bits)) for i in range(d)]
    last = x[-1] >> 1
    for i in range(d - 1, 0, -1):
        x[i] ^= x[i - 1]
    x[0] ^= last
    for level in range(1, bits):
        bit = 1 << level
        for i in reversed(range(d)):
            if x[i] & bit:
                x[0] ^= bit - 1
            else:
                swapped = (x[0] ^ x[i]) & (bit - 1)
                x[0] ^= swapped
                x[i] ^= swapped
    return tuple(x)


@pytest.mark.parametrize(("d", "bits"), [(15, 7), (9, 20), (70, 1)])
def test_keys_of_several_words_lead_back_too(d: int, bits: int) -> None:
    rng = np.random.default_rng(d)
    points = rng.integers(0, 1 << bits, (50, d)).astype(np.uint32)
    words = curve_keys(points, bits)
    assert len(words) == -(-d * bits // 64)
    in_last = d * bits - 64 * (len(words) - 1)
    for number, point in enumerate(points.tolist()):
        key = 0
        for word in words[:-1, number].tolist():
            key = key << 64 | word
        key = key << in_last | int(words[-1, number])
        assert point_at(key, d, bits) == tuple(point)


def dealt(values: list[int], size: int, cap: int) -> list[int]:
    """Group records in curve order as the paper does, with plain lists."""
    left = list(range(len(values)))
    group, number = [0] * len(values), 0
    while left:
        chosen: list[int] = []
        if len(left) >= 2 * size:
            allowed = (len(left) - size) * cap // size
            for value in set(values):
                own = [record for record in left if values[record] == value]
                chosen += own[: max(len(own) - allowed, 0)]
        if len(left) < 2 * size or len(chosen) > size:
            chosen = list(left)
        for record in left:
            taken = sum(values[other] == values[record] for other in chosen)
            if len(chosen) < size and record not in chosen and taken < cap:
                chosen.append(record)
        for record in chosen:
            group[record] = number
        left = [record for record in left if record not in chosen]
        number += 1
    return group


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_dealt_as_by_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    l, cap, n_values = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(4, 9))
    values = rng.choice(n_values, int(rng.integers(10, 90)), p=rng.dirichlet(np.full(n_values, 3.0))).astype(np.int32)
    counts = np.bincount(values, minlength=n_values)
    if counts.max() * l > len(values):
        l = int(len(values) // counts.max())
    size = l * cap
    found = diverse_groups(*group_items(values, n_values), size, cap)
    assert found.tolist() == dealt(values.tolist(), size, cap)
    for number in range(int(found.max()) + 1):
        inside = np.bincount(values[found == number])
        assert inside.sum() >= min(size, len(values))
        assert inside.max() * l <= inside.sum()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("k", [2, 3])
def test_no_cuts_of_the_curve_are_narrower(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    tree = from_nested({"any": {"low": ["a", "b", "c"], "high": {"d": ["d1", "d2"], "e": ["e1", "e2", "e3"]}}})
    quasi = (Attribute("one", tree), Attribute("two", tree))
    codes = np.unique(rng.integers(0, 8, (11, 2)), axis=0)  # different places on the curve, so that no tie is open
    n = len(codes)
    cells = Cells(tuple(codes.T.astype(np.uint8)), np.ones(n, dtype=np.int64))
    problem = Problem(quasi, (), cells, (Requirement(KAnonymity(k=k), 0),))
    plan = Hilbert().plan(problem, rng, Silent())
    places = np.array([0, 2, 4, 8, 10, 12, 13, 14], dtype=np.uint32)  # a node has half of its parent, or a quarter
    line = codes[np.argsort(curve_keys(places[codes], 4)[0])]

    def width(start: int, stop: int) -> float:
        nodes = [tree.covering(int(c.min()), int(c.max()) + 1) for c in line[start:stop].T]
        return sum(float(tree.hi[node] - tree.lo[node] - 1) for node in nodes) / 7 / 2 * (stop - start)

    @cache
    def narrowest(stop: int) -> float:
        starts = [start for start in range(stop) if stop - start >= k and (start == 0 or start >= k)]
        return min((narrowest(s) if s else 0.0) + width(s, stop) for s in starts) if starts else float("inf")

    assert NormalizedCertaintyPenalty().of(problem, plan) == pytest.approx(narrowest(n) / n)

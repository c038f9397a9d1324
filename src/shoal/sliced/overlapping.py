"""Answers from parts that share attributes.

Within a bucket, two parts are linked at random where they have the same shared values. Linkings of different pairs of
parts are independent, so the expected answer comes from means that each part hands to the one it is linked to, group
by group of bucket and shared values. The variance is added up link by link, by the law of total variance: given all
that was linked before, a link of n records of a group adds n^2 / (n - 1) V(before) V(part), as for two parts. V(before)
is itself random if parts were linked before; its mean is at most the mean square less the squared mean, which is used.
So the error is exact for two parts, and never too small for more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.errors import UsageError
from shoal.links import Link
from shoal.sliced.moments import PartMoments
from shoal.sliced.table import SlicedTable
from shoal.sliced.tree import link_keys, tree_of


def overlapping_answers(
    table: SlicedTable, moments: Sequence[PartMoments], most: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the groups that occur, and the expected answer and a bound of its variance for each."""
    n_groups = [part.n_groups for part in moments]
    if math.prod(n_groups) * table.n_rows > most * len(moments):
        raise UsageError("the attributes in `by` have too many combinations in overlapping parts; name fewer")
    tree = _Tree(table, [part.part for part in moments])
    found = []
    for group in range(math.prod(n_groups)):
        chosen = np.unravel_index(group, n_groups)
        only = [part.within(int(number)) for part, number in zip(moments, chosen, strict=True)]
        value, variance, occurs = tree.answer(only)
        if occurs:
            found.append((group, value, variance))
    columns = zip(*found, strict=True) if found else ((), (), ())
    group_numbers, values, variances = (np.array(column) for column in columns)
    return group_numbers.astype(np.int64), values.astype(np.float64), variances.astype(np.float64)


class _Tree:
    """Parts in an order in which each is linked to one before it."""

    def __init__(self, table: SlicedTable, parts: Sequence[int]) -> None:
        links = tree_of([table.parts[part].names for part in parts])
        self._order = [0, *(link.part for link in links)]
        self._parent = {link.part: link.parent for link in links}
        self._keys: dict[int, tuple[CodeArray, CodeArray]] = {}  # (n_rows,) groups by the parent, and by the part
        self._sizes: dict[int, FloatArray] = {}
        for link in links:
            self._keys[link.part] = link_keys(table, Link(parts[link.part], parts[link.parent], link.shared))
            self._sizes[link.part] = np.maximum(np.bincount(self._keys[link.part][1]), 1).astype(np.float64)
        self._codes = [table.parts[part].codes for part in parts]

    def answer(self, moments: Sequence[PartMoments]) -> tuple[float, float, bool]:
        """Return the expected answer, a bound of its variance, and whether any linking has such records."""
        mean = [part.mean[codes] for part, codes in zip(moments, self._codes, strict=True)]
        square = [part.square[codes] for part, codes in zip(moments, self._codes, strict=True)]
        counts = [part.counts[codes].astype(np.float64) for part, codes in zip(moments, self._codes, strict=True)]
        everything = set(self._order)
        if not self._seen(0, counts, everything).any():
            return 0.0, 0.0, False
        means = {part: self._handed(part, mean) for part in self._order[1:]}
        later = [self._times(part, np.ones_like(mean[part]), means, everything) for part in range(len(mean))]
        noise = [(s - m**2) * after**2 for m, s, after in zip(mean, square, later, strict=True)]
        value = float((mean[0] * later[0]).sum())
        variance = float(noise[0].sum())
        for place, part in enumerate(self._order[1:], start=1):
            before = set(self._order[:place])
            pending = everything - before - {part}
            rest = [self._times(p, np.ones_like(mean[p]), means, pending) for p in range(len(mean))]
            first = self._seen(self._parent[part], [m * r for m, r in zip(mean, rest, strict=True)], before)
            second = self._seen(self._parent[part], [s * r**2 for s, r in zip(square, rest, strict=True)], before)
            variance += self._added(part, first, second, mean[part] * later[part], noise[part])
        return value, max(variance, 0.0), True

    def _added(self, part: int, first: FloatArray, second: FloatArray, numbers: FloatArray, noise: FloatArray) -> float:
        """Return what the link of a part adds to the variance; *first*, *second* tell of what was linked before."""
        above, below = self._keys[part]
        size = self._sizes[part]
        mean_square = _sums(above, second, size) / size
        spread = np.maximum(mean_square - (_sums(above, first, size) / size) ** 2, 0.0)
        mu = _sums(below, numbers, size) / size
        own = _sums(below, (numbers - mu[below]) ** 2, size) / size
        linking = size**2 / np.maximum(size - 1, 1) * spread * own
        return float((linking + mean_square * _sums(below, noise, size)).sum())

    def _handed(self, part: int, numbers: Sequence[FloatArray]) -> FloatArray:
        """Return, for each group of a part, the mean of its numbers times those that its children hand to it."""
        children = {child: self._handed(child, numbers) for child in self._children(part)}
        total = self._times(part, numbers[part], children, set(children))
        return np.asarray(_sums(self._keys[part][1], total, self._sizes[part]) / self._sizes[part])

    def _times(self, part: int, numbers: FloatArray, means: dict[int, FloatArray], children: set[int]) -> FloatArray:
        """Return the numbers of a part's rows times the means that these of its children hand to it."""
        for child in self._children(part):
            if child in children:
                numbers = numbers * means[child][self._keys[child][0]]
        return numbers

    def _seen(self, part: int, numbers: Sequence[FloatArray], among: set[int], origin: int = -1) -> FloatArray:
        """Return (n_rows,) the expected product of the numbers of a part's rows and of all parts linked to them."""
        total = numbers[part]
        neighbours = [(child, child, *self._keys[child]) for child in self._children(part)]
        if part in self._parent:
            above, own = self._keys[part]
            neighbours.append((self._parent[part], part, own, above))
        for other, link, here, there in neighbours:
            if other in among and other != origin:
                seen = self._seen(other, numbers, among, part)
                total = total * (_sums(there, seen, self._sizes[link]) / self._sizes[link])[here]
        return total

    def _children(self, part: int) -> list[int]:
        return [child for child, parent in self._parent.items() if parent == part]


def _sums(keys: CodeArray, numbers: FloatArray, like: FloatArray) -> FloatArray:
    return np.bincount(keys, weights=numbers, minlength=len(like)).astype(np.float64)

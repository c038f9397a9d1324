"""The Hilbert curve through the quasi values, in the order of their taxonomies' leaves.

The curve visits every point of a cube of 2^bits points a side once, and consecutive points are neighbours; so records
that are near each other on the curve have similar values of all attributes. It leaves each of the 2^d smaller cubes
only when all points of it were visited: where taxonomy nodes begin and end with such cubes, neighbours share nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, IntArray, KeyArray
from shoal.core.kernels import compiled
from shoal.plan.cells import WORD
from shoal.plan.problem import Attribute
from shoal.taxonomies.tree import Taxonomy

MOST_BITS = 20
_DEEPEST = 40  # bits of a place before it is rounded

Points = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where the leaves of each attribute stand along its side of the cube.

    A domain takes a share of the side in proportion to its attribute's weight, the whole side for the largest. There
    are enough bits to keep all leaves apart, at most 20 for each attribute.
    """

    bits: int
    places: tuple[Points, ...]  # n_attributes x (n_leaves,)

    @classmethod
    def of_levels(cls, quasi: Sequence[Attribute]) -> Grid:
        """Lay the leaves out so that every node has a binary interval of the side to itself, as have its siblings."""
        heaviest = max(attribute.weight for attribute in quasi)
        aligned = [_align_leaves(attribute.taxonomy) for attribute in quasi]
        needed = [  # a share of the side is half of it, a quarter, ...
            bits + round(np.log2(heaviest / attribute.weight))
            for attribute, (_, bits) in zip(quasi, aligned, strict=True)
        ]
        bits = min(max(1, *needed), MOST_BITS)
        own = zip(aligned, needed, strict=True)
        places = tuple((np.left_shift(p, max(bits - n, 0)) >> max(n - bits, 0)).astype(np.uint32) for (p, _), n in own)
        return cls(bits, places)

    @classmethod
    def of(cls, quasi: Sequence[Attribute]) -> Grid:
        """Lay the leaves out side by side."""
        leaves = [attribute.taxonomy.n_leaves for attribute in quasi]
        heaviest = max(attribute.weight for attribute in quasi)
        shares = [attribute.weight / heaviest for attribute in quasi]
        finest = max(n / share for n, share in zip(leaves, shares, strict=True))
        bits = min(max(int(np.ceil(np.log2(finest))), 1), MOST_BITS)
        places = tuple(
            (np.arange(n) * (share * (1 << bits) / n)).astype(np.uint32)
            for n, share in zip(leaves, shares, strict=True)
        )
        return cls(bits, places)

    def keys(self, codes: Sequence[AnyIntArray]) -> KeyArray:
        """Return (n_words, n) the place of each combination of leaves on the curve."""
        points = np.stack([place[column] for place, column in zip(self.places, codes, strict=True)], axis=1)
        return curve_keys(points, self.bits)


def _align_leaves(taxonomy: Taxonomy) -> tuple[IntArray, int]:
    """Return (n_leaves,) the place of each leaf if the children of a node divide its interval evenly, and its bits.

    >>> from shoal.taxonomies.files import from_nested
    >>> places, bits = _align_leaves(from_nested({"any": {"low": ["a", "b", "c"], "high": ["d", "e"]}}))
    >>> places.tolist(), bits
    ([0, 1, 2, 4, 6], 3)
    """
    place, used = np.zeros((2, taxonomy.n_nodes), dtype=np.int64)
    order = np.lexsort((taxonomy.lo, taxonomy.parent))[1:]  # all but the root, siblings side by side
    parent = taxonomy.parent[order]
    rank = np.arange(len(order)) - np.searchsorted(parent, parent)
    wanted = np.ceil(np.log2(np.bincount(parent, minlength=taxonomy.n_nodes)[parent])).astype(np.int64)
    for level in range(1, taxonomy.height + 1):
        at = np.flatnonzero(taxonomy.level[order] == level)
        above, bits = parent[at], wanted[at]
        bits = np.where(used[above] + bits <= _DEEPEST, bits, 0)  # beyond it siblings share a place
        used[order[at]] = used[above] + bits
        place[order[at]] = (place[above] << bits) + np.where(bits > 0, rank[at], 0)
    leaves = slice(taxonomy.n_leaves)
    deepest = int(used[leaves].max())
    return place[leaves] << (deepest - used[leaves]), deepest


def curve_keys(points: Points, bits: int) -> KeyArray:
    """Return (n_words, n) the place of each point on the curve, the most significant word first.

    Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707, 2004. *points* is (n, d), every
    coordinate below 2^bits. All words but the last have 64 bits.

    >>> square = np.array([[0, 0], [0, 1], [1, 1], [1, 0]], dtype=np.uint32)
    >>> curve_keys(square, bits=1)[0].tolist()
    [0, 1, 2, 3]
    """
    n, d = points.shape
    keys = np.zeros(((d * bits + WORD - 1) // WORD, n), dtype=np.uint64)
    _fill_keys(np.ascontiguousarray(points), bits, keys)
    return keys


@compiled
def _fill_keys(points: NDArray[Any], bits: int, keys: KeyArray) -> None:
    """Turn coordinates into Skilling's transposed key and interleave its bits."""
    n, d = points.shape
    x = np.empty(d, dtype=np.int64)
    for row in range(n):
        for i in range(d):
            x[i] = points[row, i]
        bit = 1 << (bits - 1)
        while bit > 1:  # undo the rotations and reflections, from the largest cube to the smallest
            below = bit - 1
            for i in range(d):
                if x[i] & bit:
                    x[0] ^= below
                else:
                    swapped = (x[0] ^ x[i]) & below
                    x[0] ^= swapped
                    x[i] ^= swapped
            bit >>= 1
        for i in range(1, d):  # Gray code
            x[i] ^= x[i - 1]
        flips = 0
        bit = 1 << (bits - 1)
        while bit > 1:
            if x[d - 1] & bit:
                flips ^= bit - 1
            bit >>= 1
        place = 0
        for b in range(bits - 1, -1, -1):
            for i in range(d):
                word = place >> 6
                keys[word, row] = (keys[word, row] << np.uint64(1)) | np.uint64(((x[i] ^ flips) >> b) & 1)
                place += 1

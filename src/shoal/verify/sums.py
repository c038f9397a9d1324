"""Whether two tables hold the same rows in a box, told from sums of hashes: no row is kept and none is sorted."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, KeyArray
from shoal.verify.kernels import kernel

_ROWS, _FIRST, _SECOND = 0, 1, 2
_ONE, _HALF = np.uint64(1), np.uint64(32)


@kernel
def _add(table: KeyArray, key: KeyArray, boxes: CodeArray, hashes: KeyArray) -> None:
    for i in range(boxes.shape[0]):
        box = boxes[i]
        if box >= 0:
            # An odd factor and a shift make the second word no linear function of the first.
            word = (hashes[i] ^ key[0]) * (key[1] | _ONE)
            word = (word ^ (word >> _HALF)) * (key[0] | _ONE)
            table[box, _ROWS] += _ONE
            table[box, _FIRST] += hashes[i]
            table[box, _SECOND] += word ^ (word >> _HALF)


class BoxSums:
    """The number of rows in each box and two sums, modulo 2**64, over the hashes of their contents.

    Equal rows make equal sums. Unequal ones do so with a chance of at most m / 2**64, where no content occurs m
    times more often in one table than in the other: see docs/adr/0004-verifier.md.

    >>> one, other = BoxSums(key := np.array([3, 4], dtype=np.uint64)), BoxSums(key)
    >>> one.add(np.array([0, 1, 1], dtype=np.int32), np.array([5, 6, 7], dtype=np.uint64), 2)
    >>> other.add(np.array([1, 0, 1], dtype=np.int32), np.array([7, 5, 8], dtype=np.uint64), 2)
    >>> one.differs(other).tolist()
    [False, True]
    """

    def __init__(self, key: KeyArray) -> None:
        self._key = key
        self._table: KeyArray = np.zeros((1, 3), dtype=np.uint64)
        self._boxes = 0

    def add(self, boxes: CodeArray, hashes: KeyArray, n_boxes: int) -> None:
        """Add rows by their boxes, of which there are *n_boxes* so far; rows of box -1 or below are in none."""
        self._reserve(n_boxes)
        _add(self._table, self._key, boxes, hashes)

    def _reserve(self, n_boxes: int) -> None:
        if n_boxes > self._table.shape[0]:
            larger = np.zeros((max(n_boxes, 2 * self._table.shape[0]), 3), dtype=np.uint64)
            larger[: self._boxes] = self._table[: self._boxes]
            self._table = larger
        self._boxes = max(self._boxes, n_boxes)

    def differs(self, other: BoxSums) -> BoolArray:
        """Return (n_boxes,) whether a box of this table has other rows than the same box of the other one."""
        other._reserve(self._boxes)
        return np.asarray((self._table[: self._boxes] != other._table[: self._boxes]).any(axis=1), dtype=np.bool_)

    def same_rows(self, other: BoxSums) -> bool:
        """Whether both tables hold the same rows, whatever boxes these are in."""
        return bool((self._table.sum(axis=0) == other._table.sum(axis=0)).all())

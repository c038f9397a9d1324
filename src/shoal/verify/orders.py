"""Points sorted in several orders, so that the few points that may lie in a box are neighbours in one of them.

An order sorts points by content and then attribute by attribute. A box that says the first attributes exactly and
the next as a range finds its candidates between two keys; the other attributes are looked at point by point. So
every order holds all points of a box, and only the number of others among them differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.verify.kernels import kernel
from shoal.verify.spans import Spans

_MOST = 12
_BITS = 64
_RARE = 256  # an order for fewer boxes than one in so many points is not worth its sorting
_ONE = np.uint64(1)


class Orders(NamedTuple):
    """Keys of the same points in several orders; attributes that did not fit in 64 bits are not in a key."""

    attributes: CodeArray  # (n_orders, n_attributes) in the order of their weight in the key, then -1
    shifts: KeyArray  # (n_orders, n_attributes) likewise
    top: np.uint64  # the shift of contents
    greatest: CodeArray  # (n_attributes,) the greatest code that fits
    surprise: FloatArray  # (n_attributes,) bits that one exact value tells
    keys: KeyArray  # (n_orders, n_points) ascending
    places: CodeArray  # (n_orders, n_points) which point each key is


def orders_for(spans: Spans, boxes: CodeArray, contents: IntArray, points: CodeArray) -> Orders:
    """Sort (n_points, n_attributes) points of these contents in the orders that suit these boxes."""
    n, d = points.shape
    widths = [int(points[:, a].max()).bit_length() for a in range(d)]
    top = _BITS - max(1, int(contents.max()).bit_length())
    exact = spans.hulls[boxes, 1::2] - spans.hulls[boxes, ::2] == 1
    sequences = _sequences(exact, n)
    attributes = np.full((len(sequences), d), -1, dtype=np.int32)
    shifts = np.zeros((len(sequences), d), dtype=np.uint64)
    keys = np.empty((len(sequences), n), dtype=np.uint64)
    places = np.empty((len(sequences), n), dtype=np.int32)
    heads = contents.astype(np.uint64) << np.uint64(top)
    for k, sequence in enumerate(sequences):
        shift, key = top, heads.copy()
        for i, a in enumerate(sequence):
            if widths[a] > shift:
                break
            shift -= widths[a]
            attributes[k, i], shifts[k, i] = a, shift
            key |= points[:, a].astype(np.uint64) << np.uint64(shift)
        order = np.argsort(key)
        keys[k], places[k] = key[order], order
    greatest = np.array([2**width - 1 for width in widths], dtype=np.int32)
    surprise = np.array([np.log2(np.count_nonzero(np.bincount(points[:, a]))) for a in range(d)])
    return Orders(attributes, shifts, np.uint64(top), greatest, surprise, keys, places)


def _sequences(exact: BoolArray, n_points: int) -> list[list[int]]:
    """Return attributes in several orders: the ones that many boxes together say exactly come first."""
    d = exact.shape[1]
    usual = np.argsort(-exact.mean(axis=0), kind="stable").tolist()
    powers = np.left_shift(1, np.arange(d, dtype=np.int64))
    patterns, counts = np.unique(exact @ powers, return_counts=True)
    found: list[list[int]] = []
    for number in np.argsort(-counts, kind="stable").tolist():
        if found and (len(found) == _MOST or counts[number] * _RARE < n_points):
            break
        chosen = [a for a in usual if patterns[number] >> a & 1]
        if not any(set(sequence[: len(chosen)]) == set(chosen) for sequence in found):
            found.append(chosen + [a for a in usual if a not in chosen])
    return found


@kernel
def _first_above(keys: KeyArray, key: np.uint64, inclusive: bool) -> int:
    """Return the first place whose key is greater than this one, or as great if *inclusive*."""
    low, high = 0, keys.shape[0]
    while low < high:
        middle = (low + high) // 2
        if keys[middle] > key or (inclusive and keys[middle] == key):
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def candidates(orders: Orders, spans: Spans, box: int, content: int) -> tuple[int, int, int]:
    """Return an order and from where to where it holds all points of this content that the box may cover."""
    hulls = spans.hulls
    best, most = 0, -1.0
    for k in range(orders.attributes.shape[0]):
        told = 0.0
        for i in range(orders.attributes.shape[1]):
            a = orders.attributes[k, i]
            if a < 0:
                break
            width = hulls[box, 2 * a + 1] - hulls[box, 2 * a]
            if width != 1:
                told += max(0.0, orders.surprise[a] - np.log2(max(width, 1)))
                break
            told += orders.surprise[a]
        if told > most:
            best, most = k, told
    low = np.uint64(content) << orders.top
    high = low
    shift = orders.top
    for i in range(orders.attributes.shape[1]):
        a = orders.attributes[best, i]
        if a < 0:
            break
        least = max(hulls[box, 2 * a], 0)
        greatest = min(hulls[box, 2 * a + 1] - 1, orders.greatest[a])
        if least > greatest:
            return best, 0, 0
        shift = orders.shifts[best, i]
        low |= np.uint64(least) << shift
        high |= np.uint64(greatest) << shift
        if least != greatest:
            break
    high |= (_ONE << shift) - _ONE
    return best, _first_above(orders.keys[best], low, True), _first_above(orders.keys[best], high, False)

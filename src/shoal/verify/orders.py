"""Points sorted in several orders, so that the few points that may lie in a box are neighbours in one of them.

An order sorts points by content and then attribute by attribute. A box that says the first attributes exactly and
the next as a range finds its candidates between two keys; the other attributes are looked at point by point. So
every order holds all points of a box, and only the number of others among them differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
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
    places: CodeArray  # (n_orders, n_points) the point of each key


def orders_for(spans: Spans, boxes: CodeArray, contents: IntArray, points: CodeArray, places: IntArray) -> Orders:
    """Sort (n_points, n_attributes) points of these contents in the orders that suit these boxes.

    Contents are numbers from 0; *places* are (n_points,) what points are called in the answers.
    """
    n, d = points.shape
    widths = [int(points[:, a].max(initial=0)).bit_length() for a in range(d)]
    top = _BITS - max(1, int(contents.max(initial=0)).bit_length())
    exact = spans.hulls[boxes, 1::2] - spans.hulls[boxes, ::2] == 1
    sequences = _sequences(exact, n) if n else []
    attributes = np.full((len(sequences), d), -1, dtype=np.int32)
    shifts = np.zeros((len(sequences), d), dtype=np.uint64)
    keys = np.empty((len(sequences), n), dtype=np.uint64)
    ordered = np.empty((len(sequences), n), dtype=np.int32)
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
        keys[k], ordered[k] = key[order], places[order]
    greatest = np.array([2**width - 1 for width in widths], dtype=np.int32)
    values = [_n_distinct(points[:, a]) for a in range(d)]
    surprise = np.log2(np.maximum(np.array(values, dtype=np.float64), 1))
    return Orders(attributes, shifts, np.uint64(top), greatest, surprise, keys, ordered)


def _n_distinct(codes: CodeArray) -> int:
    """Return the number of different codes; few large ones are not counted one by one."""
    if codes.max(initial=0) > 8 * len(codes):
        return len(np.unique(codes))
    return int(np.count_nonzero(np.bincount(codes, minlength=1)))


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
def _reached(keys: KeyArray, key: np.uint64, start: int) -> int:
    """Return the first place from *start* on whose key is at least this one, in steps that double."""
    step, low, high = 1, start, start
    while high < keys.shape[0] and keys[high] < key:
        low = high + 1
        high += step
        step *= 2
    high = min(high, keys.shape[0])
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _suited(orders: Orders, spans: Spans, box: int) -> int:
    """Return the order in which the exact attributes and the range at the head of the key tell most."""
    best, most = 0, -1.0
    for k in range(orders.attributes.shape[0]):
        told = 0.0
        for a in orders.attributes[k]:
            if a < 0:
                break
            width = spans.hulls[box, 2 * a + 1] - spans.hulls[box, 2 * a]
            if width != 1:
                told += max(0.0, orders.surprise[a] - np.log2(max(width, 1)))
                break
            told += orders.surprise[a]
        if told > most:
            best, most = k, told
    return best


@kernel
def covered(orders: Orders, spans: Spans, box: int, content: int, sides: KeyArray, out: CodeArray) -> int:
    """Fill *out* with the points of this content in the hull, or more where a key lacks attributes; return how many.

    From a key outside the hull the search leaps to the next one that may be inside: the failing attribute is set to
    its least value, or where it is too great already, the one before it goes a step further. *sides* is room for
    (3, n_attributes + 1): the least and the greatest codes, and the least key of the attributes from each one on.
    """
    k = _suited(orders, spans, box)
    keys, shifts = orders.keys[k], orders.shifts[k]
    n, count = 0, 0
    for a in orders.attributes[k]:
        if a < 0:
            break
        low, high = max(spans.hulls[box, 2 * a], 0), min(spans.hulls[box, 2 * a + 1] - 1, orders.greatest[a])
        if low > high:
            return 0
        sides[0, n], sides[1, n] = low, high
        n += 1
    sides[2, n] = 0
    for i in range(n - 1, -1, -1):
        sides[2, i] = sides[2, i + 1] | sides[0, i] << shifts[i]
    end = keys.shape[0]
    place = _reached(keys, np.uint64(content) << orders.top | sides[2, 0], 0)
    while place < end and keys[place] >> orders.top == np.uint64(content):
        key = keys[place]
        above, i = orders.top, 0
        code = np.uint64(0)
        while i < n:
            code = (key >> shifts[i]) & ((_ONE << (above - shifts[i])) - _ONE)
            if code < sides[0, i] or code > sides[1, i]:
                break
            above = shifts[i]
            i += 1
        if i == n:
            out[count] = orders.places[k, place]
            count += 1
            place += 1
            continue
        if code > sides[1, i]:
            above = shifts[i - 1] if i > 0 else orders.top
            while i > 0:
                head = shifts[i - 2] if i > 1 else orders.top
                if (key >> above) & ((_ONE << (head - above)) - _ONE) < sides[1, i - 1]:
                    break
                i, above = i - 1, head
            if i == 0:
                break
            key += _ONE << above
        place = _reached(keys, (key >> above) << above | sides[2, i], place + 1)
    return count

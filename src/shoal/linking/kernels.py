"""Boxes with the counts of sensitive values that they leave, and compiled loops over boxes that meet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import gather_entries, inline_kernel, kernel, places_ascending

LEAF = 16  # boxes under one leaf of the tree
DEPTH = 160  # of the stack of nodes, at most: each node has less than 7/8 of its parent's boxes


class Histograms(NamedTuple):
    """How often each sensitive value occurs in each of many boxes, as sparse rows.

    Row b has the values ``value[start[b]:start[b + 1]]``, each once, in any order, with their counts.
    """

    start: IntArray  # (n_rows + 1,)
    value: AnyIntArray  # (n_entries,)
    counts: IntArray  # (n_entries,)

    @classmethod
    def of(cls, row: AnyIntArray, value: AnyIntArray, counts: AnyIntArray, n_rows: int, n_values: int) -> Histograms:
        """Add up entries, which may repeat a row and value."""
        from scipy.sparse import coo_array

        return cls._read(coo_array((counts.astype(np.int64), (row, value)), shape=(n_rows, n_values)).tocsr())

    def merge(self, rows: AnyIntArray, into: AnyIntArray, n_rows: int, n_values: int) -> Histograms:
        """Return new rows, each the sum of the *rows* that go *into* it."""
        from scipy.sparse import coo_array, csr_array

        n_given = len(self.start) - 1
        small = np.int32 if len(self.value) < 2**31 else np.int64  # scipy copies mixed types
        places = self.value.astype(small, copy=False), self.start.astype(small, copy=False)
        given = csr_array((self.counts, *places), shape=(n_given, n_values))
        ones = np.ones(len(rows), dtype=np.int64)
        return self._read(coo_array((ones, (into, rows)), shape=(n_rows, n_given)).tocsr() @ given)

    @classmethod
    def _read(cls, matrix: Any) -> Histograms:
        return cls(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)

    @property
    def distinct(self) -> IntArray:
        """(n_rows,) the number of values of each row."""
        return np.diff(self.start)

    def rows(self, boxes: AnyIntArray, n_values: int) -> IntArray:
        """Return (n_boxes, n_values) the counts of some rows."""
        counts = np.zeros((len(boxes), n_values), dtype=np.int64)
        place, entry = gather_entries(self.start, boxes)
        counts[place, self.value[entry]] = self.counts[entry]
        return counts


class Boxes(NamedTuple):
    """Boxes of one release, or of several that meet, with the counts that they leave."""

    hulls: CodeArray  # (n_boxes, 2 n_attributes) from and below, attribute by attribute
    uneven: CodeArray  # (n_boxes, n_members n_attributes) rows of bits for labels with gaps, or -1
    histograms: Histograms
    owner: IntArray  # (n_boxes,) the class of each box


class BoxIndex(NamedTuple):
    """A search tree over boxes, and the codes of labels with gaps."""

    nodes: IntArray  # (n_nodes, 5) begin, end, first of two children or -1, the side of the cut and its place
    bounds: CodeArray  # (n_nodes, 2 n_attributes) the region of each node
    order: IntArray  # (n_places,) boxes, leaf by leaf; a box that a cut divides is in several leaves
    bits: KeyArray  # (n_uneven_labels, n_words) which codes each label with gaps has


class Lookup(NamedTuple):
    """A release's boxes for looking people up: box i lies within ``outer[start[i]:start[i + 1]]``."""

    tree: BoxIndex
    start: IntArray  # (n_boxes + 1,)
    outer: IntArray


class PairSummary(NamedTuple):
    """The results of examining pairs of boxes; see ``link_pairs``."""

    below: BoolArray  # (n_boxes,) boxes of pairs below the floor
    below_there: BoolArray
    met: BoolArray  # (n_boxes,) boxes of all pairs that leave something
    met_there: BoolArray
    worst: IntArray  # (n_worst, 4) the worst pairs: distinct, largest share in millionths, box, box there
    least: FloatArray  # (3,) the smallest distinct, frequency and entropy l
    totals: IntArray  # (3,) pairs that leave values, pairs below the floor, and pairs that leave no value


@kernel
def grow_tree(hulls: CodeArray) -> tuple[IntArray, CodeArray, IntArray]:
    """Cut space in two recursively, choosing cuts through few boxes; a box that a cut divides is in both halves.

    A person whose quasi values are all known is in one leaf. There are at most twice as many places as boxes.
    """
    n, d = hulls.shape[0], hulls.shape[1] // 2
    nodes, bounds = np.empty((2 * n + 1, 5), dtype=np.int64), np.zeros((2 * n + 1, 2 * d), dtype=np.int32)
    order, pile = np.empty(2 * n, dtype=np.int64), np.empty(2 * n, dtype=np.int64)
    waiting = np.zeros((DEPTH, 2), dtype=np.int64)  # node, and the number of boxes that may be divided below it
    nodes[0, 0], nodes[0, 1], waiting[0, 1], pile[:n] = 0, n, n, np.arange(n)
    bounds[0, 1::2] = np.iinfo(np.int32).max
    height, n_nodes, n_placed = 1, 1, 0
    while height:
        height -= 1
        node, spare = waiting[height]
        begin, end = nodes[node, 0], nodes[node, 1]
        inside, size = pile[begin:end].copy(), end - begin
        # Of the approximate medians of begins and ends along each side, choose the cut with the smallest larger half.
        largest, side, cut, middle = size - size // 8, -1, 0, begin
        for a in range(d if size > LEAF else 0):
            low, high = hulls[inside, 2 * a], hulls[inside, 2 * a + 1]
            for ends in (low, high):
                some = ends[:: 1 + size // 64].copy()
                at = some[places_ascending(some)[len(some) // 2]]
                n_left, n_right = (low < at).sum(), (high > at).sum()
                if max(n_left, n_right) < largest and n_left + n_right - size <= spare:
                    largest, side, cut, middle = max(n_left, n_right), a, at, begin + n_left
        nodes[node, 3], nodes[node, 4] = side, cut
        if side < 0:
            nodes[node, 0], nodes[node, 1], nodes[node, 2] = n_placed, n_placed + size, -1
            order[n_placed : n_placed + size] = inside
            n_placed += size
            continue
        # The top of the pile has this node's boxes, which the boxes of its two children replace.
        left, right = begin, middle
        for box in inside:
            if hulls[box, 2 * side] < cut:
                pile[left] = box
                left += 1
            if hulls[box, 2 * side + 1] > cut:
                pile[right] = box
                right += 1
        nodes[node, 2] = n_nodes
        spare -= right - begin - size
        share = spare * (middle - begin) // (right - begin)
        for child, first, last, own in ((n_nodes, begin, middle, share), (n_nodes + 1, middle, right, spare - share)):
            nodes[child, 0], nodes[child, 1], bounds[child] = first, last, bounds[node]
            waiting[height, 0], waiting[height, 1] = child, own
            height += 1
        bounds[n_nodes, 2 * side + 1] = bounds[n_nodes + 1, 2 * side] = cut
        n_nodes += 2
    return nodes[:n_nodes].copy(), bounds[:n_nodes].copy(), order[:n_placed].copy()


@inline_kernel
def _apart(one: CodeArray, i: int, other: CodeArray, j: int, bounds: CodeArray, leaf: int) -> bool:
    """Whether two boxes do not meet, or begin to meet in another leaf, which finds them."""
    for a in range(one.shape[1] // 2):
        low = max(one[i, 2 * a], other[j, 2 * a])
        high = min(one[i, 2 * a + 1], other[j, 2 * a + 1])
        if low >= min(high, bounds[leaf, 2 * a + 1]) or low < bounds[leaf, 2 * a]:
            return True
    return False


@inline_kernel
def _gap(
    one: CodeArray, uneven: CodeArray, i: int, other: CodeArray, uneven_there: CodeArray, j: int, bits: KeyArray
) -> bool:
    """Whether labels with gaps have no code in common, although their hulls do.

    *uneven* has, for each box and attribute, the rows of *bits* of all its labels with gaps, or -1.
    """
    d = one.shape[1] // 2
    depth = uneven.shape[1] // d
    for a in range(d):
        some = uneven_there[j, a] >= 0
        for member in range(depth):
            some = some or uneven[i, member * d + a] >= 0
        if not some:
            continue
        low = max(one[i, 2 * a], other[j, 2 * a])
        high = min(one[i, 2 * a + 1], other[j, 2 * a + 1])
        common = False
        for word in range(low >> 6, ((high - 1) >> 6) + 1):
            left = np.uint64(0xFFFFFFFFFFFFFFFF)
            if word == low >> 6:
                left &= np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(low & 63)
            if word == (high - 1) >> 6:
                left &= np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - ((high - 1) & 63))
            if uneven_there[j, a] >= 0:
                left &= bits[uneven_there[j, a], word]
            for member in range(depth):
                if uneven[i, member * d + a] >= 0:
                    left &= bits[uneven[i, member * d + a], word]
            if left != np.uint64(0):
                common = True
                break
        if not common:
            return True
    return False


@kernel
def find_meeting(
    one: CodeArray,
    uneven: CodeArray,
    i: int,
    other: CodeArray,
    uneven_there: CodeArray,
    index: BoxIndex,
    found: IntArray,
) -> int:
    """Fill in the boxes of the index that box *i* meets; return their number."""
    stack = np.empty(DEPTH, dtype=np.int64)
    stack[0] = 0
    height, n_found = 1, 0
    while height:
        height -= 1
        node = stack[height]
        child, side, cut = index.nodes[node, 2], index.nodes[node, 3], index.nodes[node, 4]
        if child >= 0:
            if one[i, 2 * side] < cut:
                stack[height] = child
                height += 1
            if one[i, 2 * side + 1] > cut:
                stack[height] = child + 1
                height += 1
            continue
        for place in range(index.nodes[node, 0], index.nodes[node, 1]):
            j = index.order[place]
            if _apart(one, i, other, j, index.bounds, node):
                continue
            if not _gap(one, uneven, i, other, uneven_there, j, index.bits):
                found[n_found] = j
                n_found += 1
    return n_found


@inline_kernel
def _spread(counts: Histograms, i: int, here: IntArray, times: int) -> None:
    """Write the counts of a row to an array of all values; with *times* 0, clear them."""
    for k in range(counts.start[i], counts.start[i + 1]):
        here[counts.value[k]] = counts.counts[k] * times


@inline_kernel
def _keep_worst(worst: IntArray, distinct: int, share: int, i: int, j: int) -> None:
    """Insert a pair into the worst ones if it is among them."""
    at = worst.shape[0]
    while at > 0 and (distinct < worst[at - 1, 0] or (distinct == worst[at - 1, 0] and share > worst[at - 1, 1])):
        at -= 1
        if at + 1 < worst.shape[0]:
            for column in range(4):
                worst[at + 1, column] = worst[at, column]
    if at < worst.shape[0]:
        worst[at, 0], worst[at, 1], worst[at, 2], worst[at, 3] = distinct, share, i, j


@kernel
def link_pairs(
    boxes: Boxes, sequence: IntArray, there: Boxes, index: BoxIndex, n_values: int, floor: int, logs: FloatArray,
    seen: PairSummary,
) -> None:  # fmt: skip
    """Examine all pairs of boxes that meet, without listing them.

    Boxes of one owner are one class with the same counts: each pair of owners is examined once, however often their
    boxes meet. *sequence* has the boxes owner by owner, *logs* the logarithms of counts.
    """
    counts = there.histograms
    here = np.zeros(n_values, dtype=np.int64)
    found = np.empty(there.hulls.shape[0], dtype=np.int64)
    met_by = np.full(there.owner.max() + 1, -1, dtype=np.int64)
    for i in sequence:
        _spread(boxes.histograms, i, here, 1)
        n_found = find_meeting(boxes.hulls, boxes.uneven, i, there.hulls, there.uneven, index, found)
        for place in range(n_found):
            j = found[place]
            if met_by[there.owner[j]] == boxes.owner[i]:
                continue
            met_by[there.owner[j]] = boxes.owner[i]
            distinct, total, most, weighted = 0, 0, 0, 0.0
            for k in range(counts.start[j], counts.start[j + 1]):
                left = min(here[counts.value[k]], counts.counts[k])
                if left > 0:
                    distinct += 1
                    total += left
                    most = max(most, left)
                    weighted += left * logs[left]
            if distinct == 0:
                seen.totals[2] += 1
                continue
            seen.totals[0] += 1
            seen.met[i] = True
            seen.met_there[j] = True
            if distinct < floor:
                seen.totals[1] += 1
                seen.below[i] = True
                seen.below_there[j] = True
            seen.least[0] = min(seen.least[0], distinct)
            seen.least[1] = min(seen.least[1], total / most)
            seen.least[2] = min(seen.least[2], np.exp(logs[total] - weighted / total))
            _keep_worst(seen.worst, distinct, (most * 1_000_000) // total, i, j)
        _spread(boxes.histograms, i, here, 0)


@kernel
def join_pairs(
    boxes: Boxes, there: Boxes, index: BoxIndex, n_values: int, pairs: IntArray, entries: IntArray, write: bool
) -> tuple[int, int]:
    """List the pairs of boxes that meet and leave values; return the numbers of pairs and entries.

    *pairs* (n_pairs, 2) gets the boxes, *entries* (n_entries, 3) the pair, value and count.
    """
    counts = there.histograms
    here = np.zeros(n_values, dtype=np.int64)
    found = np.empty(there.hulls.shape[0], dtype=np.int64)
    n_pairs, n_entries = 0, 0
    for i in range(boxes.hulls.shape[0]):
        _spread(boxes.histograms, i, here, 1)
        n_found = find_meeting(boxes.hulls, boxes.uneven, i, there.hulls, there.uneven, index, found)
        for place in range(n_found):
            j = found[place]
            some = False
            for k in range(counts.start[j], counts.start[j + 1]):
                left = min(here[counts.value[k]], counts.counts[k])
                if left > 0:
                    some = True
                    if write:
                        entries[n_entries, 0], entries[n_entries, 1] = n_pairs, counts.value[k]
                        entries[n_entries, 2] = left
                    n_entries += 1
            if some:
                if write:
                    pairs[n_pairs, 0], pairs[n_pairs, 1] = i, j
                n_pairs += 1
        _spread(boxes.histograms, i, here, 0)
    return n_pairs, n_entries


@kernel
def resolve_queries(queries: CodeArray, there: Boxes, lookup: Lookup) -> tuple[IntArray, IntArray]:
    """List for each query the most specific boxes that it meets: boxes that contain no other box that it meets."""
    n, n_boxes = queries.shape[0], there.hulls.shape[0]
    even = np.full((1, queries.shape[1] // 2), -1, dtype=np.int32)
    one = np.empty((1, queries.shape[1]), dtype=np.int32)
    found, wider = np.empty(n_boxes, dtype=np.int64), np.full(n_boxes if len(lookup.outer) else 0, -1, dtype=np.int64)
    start, boxes = np.zeros(n + 1, dtype=np.int64), np.empty(n + n_boxes, dtype=np.int64)
    for i in range(n):
        one[0] = queries[i]
        n_found = find_meeting(one, even, 0, there.hulls, there.uneven, lookup.tree, found)
        for j in found[:n_found]:
            wider[lookup.outer[lookup.start[j] : lookup.start[j + 1]]] = i
        if start[i] + n_found > len(boxes):
            boxes = np.concatenate((boxes, np.empty(len(boxes) + n_found, dtype=np.int64)))
        start[i + 1] = start[i]
        for j in found[:n_found]:
            if not len(wider) or wider[j] != i:
                boxes[start[i + 1]] = j
                start[i + 1] += 1
    return start, boxes[: start[n]].copy()


@kernel
def sum_boxes(start: IntArray, boxes: IntArray, counts: Histograms, sums: IntArray) -> None:
    """Add up the counts of boxes, ``boxes[start[i]:start[i + 1]]`` to row i."""
    for i in range(len(start) - 1):
        for j in boxes[start[i] : start[i + 1]]:
            for k in range(counts.start[j], counts.start[j + 1]):
                sums[i, counts.value[k]] += counts.counts[k]


@kernel
def measure_counts(counts: IntArray, distinct: IntArray, frequency: FloatArray, entropy: FloatArray) -> None:
    """Fill in the number of values in each row of counts, and its frequency and entropy l."""
    for i in range(len(counts)):
        n_values, total, most, weighted = 0, 0, 1, 0.0
        for count in counts[i]:
            if count > 0:
                n_values += 1
                total += count
                most = max(most, count)
                weighted += count * np.log(count)
        some = max(total, 1)
        distinct[i], frequency[i], entropy[i] = n_values, some / most, np.exp(np.log(some) - weighted / some)


@kernel
def any_overlap(boxes: Boxes, index: BoxIndex) -> bool:
    """Whether any box meets another one of the same release."""
    hulls, uneven = boxes.hulls, boxes.uneven
    found = np.empty(hulls.shape[0], dtype=np.int64)
    i = 0
    while i < hulls.shape[0] and find_meeting(hulls, uneven, i, hulls, uneven, index, found) == 1:
        i += 1
    return bool(i < hulls.shape[0])


@inline_kernel
def _holds(hulls: CodeArray, uneven: CodeArray, bits: KeyArray, outer: int, inner: int) -> bool:
    """Whether one box contains all codes of another; labels with gaps are compared code by code."""
    for a in range(hulls.shape[1] // 2):
        low, high = hulls[inner, 2 * a], hulls[inner, 2 * a + 1]
        if hulls[outer, 2 * a] > low or hulls[outer, 2 * a + 1] < high:
            return False
        row, own = uneven[outer, a], uneven[inner, a]
        if row < 0 or row == own:
            continue
        for code in range(low, high):
            shift = np.uint64(code & 63)
            mine = own < 0 or (bits[own, code >> 6] >> shift) & np.uint64(1) == np.uint64(1)
            if mine and (bits[row, code >> 6] >> shift) & np.uint64(1) == np.uint64(0):
                return False
    return True


@kernel
def list_holders(boxes: Boxes, index: BoxIndex) -> tuple[IntArray, IntArray]:
    """Return pairs of a box and a larger box around it, box by box."""
    hulls, uneven = boxes.hulls, boxes.uneven
    found = np.empty(hulls.shape[0], dtype=np.int64)
    inner, outer = [0], [0]
    for i in range(hulls.shape[0]):
        for j in found[: find_meeting(hulls, uneven, i, hulls, uneven, index, found)]:
            if _holds(hulls, uneven, index.bits, j, i) and not _holds(hulls, uneven, index.bits, i, j):
                inner.append(i)
                outer.append(j)
    return np.array(inner[1:]), np.array(outer[1:])

"""Earth mover's distances between each class and the published table, as exact fractions.

Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007. All return a numerator for each class and the
factor by which class size times table size is to be multiplied to get the denominator.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.kernels import compiled
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError, Histograms, check_size
from shoal.verify.kernels import Function, uncompiled


def equal_distance(histograms: Histograms) -> tuple[IntArray, int]:
    """Return half the sum of differences, in units of 1 / (2 n N)."""
    whole, total, owner = histograms.whole, histograms.total, histograms.owner
    sizes = histograms.sizes[owner]
    share = whole[histograms.value]
    gaps = np.abs(histograms.count * total - share * sizes) - share * sizes
    # Values that a class lacks differ by their whole share, so all shares are counted first.
    return np.add.reduceat(gaps, histograms.start[:-1]) + histograms.sizes * total, 2


def ordered_distance(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, int]:
    """Return the work along the ranks of the values present, neighbours being 1 / (m - 1) apart."""
    ranks = ranks_of(histograms, attribute)
    m = histograms.n_values
    if m < 2:
        return np.zeros(histograms.sizes.shape[0], dtype=np.int64), 1
    whole = np.empty(m, dtype=histograms.count.dtype)
    whole[ranks] = histograms.whole
    found = _fitting(_along_ranks, histograms, m)(
        histograms.start, ranks[histograms.value], histograms.count, histograms.sizes, whole, histograms.total
    )
    return found, m - 1


def hierarchical_distance(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, int]:
    """Return the work over the taxonomy: leaves are height(lowest common ancestor) / height(root) apart."""
    nodes, parents, heights = nodes_of(histograms, attribute)
    tall = int(heights[0])
    if tall == 0 or histograms.n_values < 2:
        return np.zeros(histograms.sizes.shape[0], dtype=np.int64), 1
    whole = np.zeros(len(parents), dtype=histograms.count.dtype)
    whole[nodes] = histograms.whole
    found = _fitting(_over_tree, histograms, len(parents))(
        histograms.start,
        nodes[histograms.value],
        histograms.count,
        histograms.sizes,
        whole,
        histograms.total,
        parents,
        heights.astype(histograms.count.dtype),
    )
    return found, tall


def nodes_of(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, IntArray, IntArray]:
    """Return (n_values,) the leaf of each value in the taxonomy, and of every node its parent and height."""
    if attribute.taxonomy is None:
        raise CannotCheckError(f"the manifest has no taxonomy for {attribute.name!r}")
    parents, heights, leaves = _flatten(attribute.taxonomy)
    if None not in leaves:
        # Missing values are a category of their own, right under the root.
        leaves[None] = len(parents)
        parents.append(0)
        heights.append(0)
    if any(text not in leaves for text in histograms.values):
        raise CannotCheckError(f"values of {attribute.name!r} are not in its taxonomy")
    nodes = np.array([leaves[text] for text in histograms.values], dtype=np.int64)
    return nodes, np.array(parents, dtype=np.int64), np.array(heights, dtype=np.int64)


def largest_product(histograms: Histograms, attribute: Attribute | None) -> int:
    """Return a number that no step of any distance goes beyond."""
    steps = histograms.n_values
    if attribute is not None and attribute.taxonomy is not None:
        steps += max(_flatten(attribute.taxonomy)[1])
    return 2 * max(steps, 1) * int(histograms.sizes.max()) * histograms.total


def _fitting(function: Function, histograms: Histograms, n_values: int) -> Function:
    """Return the kernel or, for counts that are Python's integers, the function it was made from."""
    if histograms.count.dtype != object:
        return function
    check_size(histograms.sizes.shape[0] * n_values)
    return uncompiled(function)


def ranks_of(histograms: Histograms, attribute: Attribute) -> IntArray:
    """Return (n_values,) the rank of each value; missing values come last."""
    order: dict[str, int] | None = None
    if attribute.order is not None:
        order = {value: place for place, value in enumerate(attribute.order)}
    elif attribute.taxonomy is not None and attribute.kind in ("category", "prefix"):
        leaves = _flatten(attribute.taxonomy)[2]
        order = {str(leaf): place for place, leaf in enumerate(leaves)}

    def key(text: str | None) -> tuple[int, Any, str]:
        if text is None:
            return (1, 0, "")
        if attribute.kind == "number":
            return (0, float(text), text)
        if attribute.kind == "date" and order is None:
            return (0, datetime.datetime.fromisoformat(text).date().toordinal(), text)
        if order is None:
            raise CannotCheckError(f"the manifest has no order for {attribute.name!r}")
        return (0, order[text] if text in order else moments[_moment(text)], text)

    try:
        moments = _moments(order or {}, histograms) if attribute.kind == "category" else {}
        keys = [key(text) for text in histograms.values]
    except (KeyError, ValueError):
        raise CannotCheckError(f"values of {attribute.name!r} have no place in its order") from None
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def _moments(order: Mapping[str, int], histograms: Histograms) -> dict[datetime.datetime | datetime.time, int]:
    """Return the places of times: a file may spell one in another unit, or in another zone, than the order does."""
    if all(text is None or text in order for text in histograms.values):
        return {}
    times = [_moment(text) for text in order]
    if len(set(times)) < len(times):
        raise ValueError("two of them are one microsecond")
    return dict(zip(times, order.values(), strict=True))


def _moment(text: str) -> datetime.datetime | datetime.time:
    """Read a time, or a day and time; raises ValueError if the text is neither."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return datetime.time.fromisoformat(text)


def _flatten(taxonomy: Mapping[str, Any]) -> tuple[list[int], list[int], dict[str | None, int]]:
    """Return parents and heights of the nodes, parents before children, and the leaves in tree order."""
    parents: list[int] = []
    leaves: dict[str | None, int] = {}
    waiting: list[tuple[str, Mapping[str, Any], int]] = [(label, tree, -1) for label, tree in taxonomy.items()]
    while waiting:
        label, children, parent = waiting.pop()
        node = len(parents)
        parents.append(parent)
        if not children:
            leaves[label] = node
        waiting.extend((name, tree, node) for name, tree in reversed(list(children.items())))
    heights = [0] * len(parents)
    for node in range(len(parents) - 1, 0, -1):
        heights[parents[node]] = max(heights[parents[node]], heights[node] + 1)
    return parents, heights, leaves


@compiled
def _along_ranks(
    start: IntArray, rank: IntArray, count: IntArray, sizes: IntArray, whole: IntArray, total: int
) -> IntArray:
    n, m = sizes.shape[0], whole.shape[0]
    out = np.zeros(n, dtype=count.dtype)
    own = np.zeros(m, dtype=count.dtype)
    for c in range(n):
        for e in range(start[c], start[c + 1]):
            own[rank[e]] += count[e]
        carried = 0
        for r in range(m):
            carried += own[r] * total - whole[r] * sizes[c]
            out[c] += abs(carried)
            own[r] = 0
    return out


@compiled
def _over_tree(
    start: IntArray,
    node: IntArray,
    count: IntArray,
    sizes: IntArray,
    whole: IntArray,
    total: int,
    parents: IntArray,
    heights: IntArray,
) -> IntArray:
    n, m = sizes.shape[0], parents.shape[0]
    out = np.zeros(n, dtype=count.dtype)
    own = np.zeros(m, dtype=count.dtype)
    extra = np.zeros(m, dtype=count.dtype)
    surplus = np.zeros(m, dtype=count.dtype)
    lack = np.zeros(m, dtype=count.dtype)
    for c in range(n):
        for e in range(start[c], start[c + 1]):
            own[node[e]] += count[e]
        for v in range(m):
            extra[v] = own[v] * total - whole[v] * sizes[c]
            surplus[v] = 0
            lack[v] = 0
            own[v] = 0
        for v in range(m - 1, -1, -1):
            # What the children of v can settle among themselves travels as far as v.
            extra[v] += surplus[v] - lack[v]
            out[c] += heights[v] * min(surplus[v], lack[v])
            if parents[v] >= 0:
                if extra[v] > 0:
                    surplus[parents[v]] += extra[v]
                else:
                    lack[parents[v]] -= extra[v]
    return out

"""Earth mover's distances between each class and the published table, as exact fractions.

Li, Li and Venkatasubramanian, "t-Closeness", ICDE 2007. All return a numerator for each class and the
factor by which class size times table size is to be multiplied to get the denominator.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import IntArray
from shoal.manifest import Attribute
from shoal.verify.exact import CannotCheckError, Histograms, check_size

_TOGETHER = 1 << 20  # numbers that are worked on at a time


def equal_distance(histograms: Histograms) -> tuple[IntArray, int]:
    """Return half the sum of differences, in units of 1 / (2 n N)."""
    whole, total, owner = histograms.whole, histograms.total, histograms.owner
    sizes = histograms.sizes[owner]
    share = whole[histograms.value]
    gaps = np.abs(histograms.count * total - share * sizes) - share * sizes
    # Values that a class lacks differ by their whole share, so all shares are counted first.
    return np.add.reduceat(gaps, histograms.start[:-1]) + histograms.sizes * total, 2


def measure_ordered(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, int]:
    """Return the work along the ranks of the values present, neighbours being 1 / (m - 1) apart."""
    ranks, m = ranks_of(histograms, attribute), histograms.n_values
    if m < 2:
        return np.zeros(histograms.sizes.shape[0], dtype=np.int64), 1
    work = [np.abs(np.cumsum(extra, axis=1)).sum(axis=1) for extra in _list_differences(histograms, ranks, m)]
    return np.concatenate(work), m - 1


def hierarchical_distance(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, int]:
    """Return the work over the taxonomy: leaves are height(lowest common ancestor) / height(root) apart."""
    nodes, parents, heights = nodes_of(histograms, attribute)
    if heights[0] == 0 or histograms.n_values < 2:
        return np.zeros(histograms.sizes.shape[0], dtype=np.int64), 1
    work = [_move_up(extra, parents, heights) for extra in _list_differences(histograms, nodes, len(parents))]
    return np.concatenate(work), heights[0]


def _list_differences(histograms: Histograms, place: IntArray, n_places: int) -> Iterator[NDArray[Any]]:
    """Yield (n_some_classes, n_places) what classes have more of each value than their share, times both sizes.

    *place* tells where each value is. Counts may be Python's integers.
    """
    if histograms.count.dtype == object:
        check_size(histograms.sizes.shape[0] * n_places)
    whole = np.zeros(n_places, dtype=histograms.count.dtype)
    whole[place] = histograms.whole
    owner, step = histograms.owner, max(1, _TOGETHER // n_places)
    for first in range(0, len(histograms.sizes), step):
        sizes = histograms.sizes[first : first + step]
        own = np.zeros((len(sizes), n_places), dtype=whole.dtype)
        some = slice(histograms.start[first], histograms.start[first + len(sizes)])
        np.add.at(own, (owner[some] - first, place[histograms.value[some]]), histograms.count[some])
        yield own * histograms.total - np.outer(sizes, whole)


def _move_up(extra: NDArray[Any], parents: Sequence[int], heights: Sequence[int]) -> NDArray[Any]:
    """Return (n_classes,) the work of moving what is too much at some leaves to others; parents precede children."""
    work, surplus, lack = np.zeros_like(extra[:, 0]), np.zeros_like(extra), np.zeros_like(extra)
    for node in range(len(parents) - 1, -1, -1):
        # What the children of a node can settle among themselves travels as far as the node.
        left = extra[:, node] + surplus[:, node] - lack[:, node]
        work += heights[node] * np.minimum(surplus[:, node], lack[:, node])
        if node:
            surplus[:, parents[node]] += np.maximum(left, 0)
            lack[:, parents[node]] += np.maximum(-left, 0)
    return work


def nodes_of(histograms: Histograms, attribute: Attribute) -> tuple[IntArray, list[int], list[int]]:
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
    return nodes, parents, heights


def largest_product(histograms: Histograms, attribute: Attribute | None) -> int:
    """Return a number that no step of any distance goes beyond."""
    steps = histograms.n_values
    if attribute is not None and attribute.taxonomy is not None:
        steps += max(_flatten(attribute.taxonomy)[1])
    return 2 * max(steps, 1) * int(histograms.sizes.max()) * histograms.total


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

"""The classes that promises are asked of, and comparisons of their counts with limits: exact, or refused in doubt.

Counts are whole numbers, compared without rounding, and entropies are settled by whole numbers. What is believed of a
tuple of a sliced release is a mixture of classes, in floating point: it holds only by more than rounding can hide.

Earth mover's distances between each class and the published table (Li, Li and Venkatasubramanian, "t-Closeness", ICDE
2007) are exact fractions: a numerator for each class, and the factor by which class size times table size is to be
multiplied to get the denominator.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute

WIDEST = 2**62  # sums and products stay below this in 64 bits
ROUNDING = 1e-12  # of quotients and logarithms
_MARGIN = 1e-9  # relative, of mixtures
_CLEAR = 1e-9  # further from the limit than this (relatively), floating point decides rightly
_EXACT_WORK = 2_000_000  # bits of the largest power that is still worked out
_LAST_PLACES = 1e-13
_FIXED_POINT = 2.0**55  # entropies are below 2**8
_MOST_ENTRIES = 4_000_000  # that are worth counting by Python's integers


class CannotCheckError(Exception):
    """A promise that this verifier is not able to confirm; it is not believed then."""


@dataclass(frozen=True, slots=True, eq=False)
class Histograms:
    """Sensitive values of every class, sparse: class i has entries ``start[i]:start[i + 1]``, by value.

    Of mixtures, sizes are 1.0 and counts are shares.
    """

    sizes: NDArray[Any]  # (n_classes,)
    start: IntArray  # (n_classes + 1,)
    value: IntArray  # (n_entries,)
    count: NDArray[Any]  # (n_entries,) all > 0: 64 bits, Python's integers or shares
    values: tuple[str | None, ...]  # (n_values,) what the codes stand for, None = missing; () for joint values
    n_values: int
    table: IntArray | None = None  # (n_values,) counts in the published table, if these are not all of its classes
    people: int | None = None  # of the published table, if they are counted; some may have several values

    @property
    def owner(self) -> IntArray:
        """(n_entries,) the class of each entry."""
        return np.repeat(np.arange(self.sizes.shape[0], dtype=np.int64), np.diff(self.start))

    @property
    def whole(self) -> IntArray:
        """(n_values,) counts in the published table."""
        if self.table is not None:
            return self.table.astype(self.count.dtype)
        out = np.zeros(self.n_values, dtype=self.count.dtype)
        np.add.at(out, self.value, self.count)
        return out

    @property
    def total(self) -> int:
        """Rows of the published table, or its people."""
        if self.people is not None:
            return self.people
        return int(self.sizes.sum() if self.table is None else self.table.sum())

    @property
    def mixed(self) -> bool:
        """Whether these are beliefs in floating point."""
        return self.count.dtype.kind == "f"

    @property
    def largest(self) -> NDArray[Any]:
        """(n_classes,) the count of the most frequent value."""
        return np.asarray(np.maximum.reduceat(self.count, self.start[:-1]))

    def rank(self) -> tuple[NDArray[Any], IntArray]:
        """Return (n_entries,) the counts of each class, largest first, and the rank of each from 0 on."""
        owner = self.owner
        order = np.lexsort((-self.count, owner))
        return self.count[order], np.arange(owner.shape[0]) - self.start[owner]


def check_size(n_entries: int) -> None:
    """Raise if there is too much to be counted by Python's integers, which are slow and never too narrow."""
    if n_entries > _MOST_ENTRIES:
        raise CannotCheckError("the table is too large for the exact comparison")


def widen(histograms: Histograms, largest: int) -> Histograms:
    """Return the same counts, as Python's integers if *largest*, which they will be worked up to, needs these."""
    if largest < WIDEST or histograms.count.dtype.kind in "Of":
        return histograms
    check_size(histograms.count.shape[0])
    return replace(histograms, sizes=histograms.sizes.astype(object), count=histograms.count.astype(object))


def divide(numerator: NDArray[Any], denominator: NDArray[Any] | int) -> FloatArray:
    """Return quotients of numbers, of whatever width, in floating point."""
    return np.asarray(numerator / denominator, dtype=np.float64)


def at_most(
    numerator: NDArray[Any], denominator: NDArray[Any], limit: Fraction, *, strict: bool = False, share: bool = False
) -> BoolArray:
    """Return whether numerator / denominator <= limit (strict: <), exactly; denominators are positive.

    Shares are never above 1, however they are rounded. Quotients of floats are refused unless they are clearly below.

    >>> at_most(np.array([1, 2]), np.array([3, 3]), Fraction(1, 3)).tolist()
    [True, False]
    >>> at_most(np.array([0.5, 0.25]), np.ones(2), Fraction(1, 2)).tolist()
    [False, True]
    """
    found, bound = divide(numerator, denominator), float(limit)
    if numerator.dtype.kind == "f":
        return np.asarray((found + ROUNDING <= bound * (1 - _MARGIN)) | (share and limit >= 1), dtype=np.bool_)
    holds: BoolArray = found <= bound
    near = np.flatnonzero(np.abs(found - bound) <= _CLEAR * max(abs(bound), 1.0))
    if near.size:
        pairs = list(zip(numerator[near].tolist(), denominator[near].tolist(), strict=True))
        settled = {}
        for top, bottom in set(pairs):
            left, right = top * limit.denominator, bottom * limit.numerator
            settled[top, bottom] = left < right if strict else left <= right
        holds[near] = [settled[pair] for pair in pairs]
    return holds


def clearly_below(found: FloatArray, limit: FloatArray | float, histograms: Histograms) -> BoolArray:
    """Return whether logarithms of counts, which no whole numbers settle, are below a limit by more than rounding."""
    margin = _MARGIN if histograms.mixed else ROUNDING
    return np.asarray(found * (1 + margin) + ROUNDING < limit, dtype=np.bool_)


def entropies(histograms: Histograms) -> FloatArray:
    """Return (n_classes,) the entropy of each class in nats, or the mean of -ln p over the records that are counted.

    Harmless values are in the size of a class, but have no count. If all of them are harmless, it is infinite.
    """
    first, owner = histograms.start[:-1], histograms.owner
    counted = np.add.reduceat(histograms.count, first)
    none = np.asarray(counted == 0, dtype=np.bool_)
    weights = divide(histograms.count, np.where(none, 1, counted)[owner])
    logs = np.log(divide(np.where(histograms.count > 0, histograms.count, 1), histograms.sizes[owner]))
    # Sums of whole numbers do not depend on the order of values, which may be any.
    terms = np.rint(weights * logs * _FIXED_POINT).astype(np.int64)
    return np.where(none, math.inf, -np.add.reduceat(terms, first) / _FIXED_POINT)


def entropy_at_least(histograms: Histograms, l: Fraction) -> BoolArray:
    """Return whether exp(entropy) >= l; ties of h counts are settled by n**h >= l**h * product of c**c."""
    found, limit = entropies(histograms), math.log(l)
    if histograms.mixed:
        return np.asarray((np.exp(found) >= float(l) * (1 + _MARGIN)) | (l <= 1), dtype=np.bool_)
    # Each term p ln p is off by a few units in the last place of p ln n, and so is their sum.
    terms = 1.0 + np.sqrt(np.diff(histograms.start))
    doubt = _LAST_PLACES * (1.0 + np.log(histograms.sizes.astype(np.float64))) * terms
    holds: BoolArray = found > limit + doubt
    known: dict[tuple[int, ...], bool] = {}
    for place in np.flatnonzero(np.abs(found - limit) <= doubt):
        counts = np.sort(histograms.count[histograms.start[place] : histograms.start[place + 1]])
        counts = np.append(counts, histograms.sizes[place])
        reduced = tuple((counts // math.gcd(*counts.tolist())).tolist())
        if reduced not in known:
            known[reduced] = _settle_entropy(reduced, l)
        holds[place] = known[reduced]
    return holds


def _settle_entropy(counts: Sequence[int], l: Fraction) -> bool:
    *counts, n = counts
    harmful, widest = sum(counts), max(n, l.numerator, l.denominator)
    if n * widest.bit_length() > _EXACT_WORK:
        return False  # too large to settle: refused
    product = math.prod(count**count for count in counts)
    return bool(n**harmful * l.denominator**harmful >= l.numerator**harmful * product)


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
    parents, heights, leaves = flatten_taxonomy(attribute.taxonomy)
    if None not in leaves:
        # Missing values are a category of their own, right under the root.
        leaves[None] = len(parents)
        parents.append(0)
        heights.append(0)
    of_form = {text and fold_text(text): node for text, node in reversed(leaves.items())}  # the first spelling's
    nodes = np.array([of_form.get(text and fold_text(text), -1) for text in histograms.values], dtype=np.int64)
    if (nodes < 0).any():
        raise CannotCheckError(f"values of {attribute.name!r} are not in its taxonomy")
    return nodes, parents, heights


def largest_product(histograms: Histograms, attribute: Attribute | None) -> int:
    """Return a number that no step of any distance goes beyond."""
    steps = histograms.n_values
    if attribute is not None and attribute.taxonomy is not None:
        steps += max(flatten_taxonomy(attribute.taxonomy)[1])
    return 2 * max(steps, 1) * int(histograms.sizes.max()) * histograms.total


def ranks_of(histograms: Histograms, attribute: Attribute) -> IntArray:
    """Return (n_values,) the rank of each value; missing values come last."""
    order: dict[str, int] | None = None
    if attribute.order is not None:
        order = {value: place for place, value in enumerate(attribute.order)}
    elif attribute.taxonomy is not None and attribute.kind in ("category", "prefix"):
        leaves = flatten_taxonomy(attribute.taxonomy)[2]
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
        form = fold_text(text)
        return (0, forms[form] if form in forms else moments[_moment(text)], text)

    forms = {fold_text(text): place for text, place in reversed((order or {}).items())}
    try:
        known = all(text is None or fold_text(text) in forms for text in histograms.values)
        moments = _moments(order or {}) if attribute.kind == "category" and not known else {}
        keys = [key(text) for text in histograms.values]
    except (KeyError, ValueError):
        raise CannotCheckError(f"values of {attribute.name!r} have no place in its order") from None
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks


def _moments(order: Mapping[str, int]) -> dict[datetime.datetime | datetime.time, int]:
    """Return the places of times: a file may spell one in another unit, or in another zone, than the order does."""
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


def flatten_taxonomy(taxonomy: Mapping[str, Any]) -> tuple[list[int], list[int], dict[str | None, int]]:
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

"""Junction trees: the distribution closest to independence that fits noisy counts of small sets of attributes.

Attributes that were counted together are neighbours in a graph. Eliminating them one by one gives cliques, and a tree
of cliques over which the distribution factorizes (Lauritzen and Spiegelhalter 1988). This module uses noisy counts
only, so it consumes no privacy budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, FloatArray
from shoal.plan.synthetic import Attributes

Ranges = tuple[AnyIntArray, AnyIntArray]  # (n_ranges,) from and below, codes of one attribute
# Weight of the divergence from independence relative to the likelihood of the noise. 1 treats records as independent
# draws and hides relations that survive the noise; 0 fits the noise.
_ENTROPY = 0.02
_FLOOR = 0.1  # standard deviations of the noise: the smallest expected count of a value
_EMPTY, _SURE = 0.5, 5.0  # a block is empty if it has less than _EMPTY deviations of noise and _SURE were expected
_LOWEST = -300.0  # logarithm of counts that are effectively 0; products of two are still representable


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Noisy counts and the variance of each cell's noise."""

    counts: FloatArray
    variance: float

    def combine(self, other: Measured) -> Measured:
        """Return the average with another table of the same attributes, weighted by inverse variances."""
        variance = 1.0 / (1.0 / self.variance + 1.0 / other.variance)
        counts = variance * (self.counts / self.variance + other.counts / other.variance)
        return Measured(counts, variance)


def find_cliques(sizes: Sequence[int], sets: Iterable[Attributes]) -> list[Attributes]:
    """Return the maximal cliques of a triangulated graph in which the attributes of each set are neighbours.

    Attributes are eliminated in min-fill order; ties go to the attribute with the smallest clique table.

    >>> find_cliques([2, 2, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    [(0, 1, 3), (1, 2, 3)]
    """
    neighbours = [0] * len(sizes)  # as bits
    for one in sets:
        every = sum(1 << place for place in one)
        for place in one:
            neighbours[place] |= every & ~(1 << place)
    left = set(range(len(sizes)))
    cliques: list[int] = []

    def cost(place: int) -> tuple[int, float, int]:
        around = list(_places(neighbours[place]))
        fill = sum((neighbours[place] & ~neighbours[other]).bit_count() - 1 for other in around)
        return fill, math.prod(sizes[other] for other in around) * sizes[place], place

    while left:
        place = min(left, key=cost)
        clique = neighbours[place] | 1 << place
        if not any(clique & ~other == 0 for other in cliques):
            cliques.append(clique)
        for other in _places(neighbours[place]):
            neighbours[other] = (neighbours[other] | clique) & ~(1 << other) & ~(1 << place)
        left.remove(place)
    return [tuple(_places(clique)) for clique in cliques]


def _places(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def count_cells(sizes: Sequence[int], cliques: Iterable[Attributes]) -> int:
    return sum(math.prod(sizes[place] for place in clique) for clique in cliques)


@dataclass(slots=True, eq=False)
class _Clique:
    """A clique's table of counts and its link to another clique."""

    attributes: Attributes
    table: FloatArray  # one axis for each attribute
    parent: int | None
    shared: Attributes  # with the parent
    message: FloatArray  # the counts of the shared attributes, in which both tables agree


class JunctionTree:
    """Counts of all attributes, as a tree of cliques whose tables agree; they add up to ``total``.

    The fit minimizes ``_ENTROPY * divergence + sum of squared errors / (2 * variance)``, where the divergence (of
    Kullback and Leibler, times the total) is that from independent attributes with their own noisy counts. The
    distribution is the product of tables of weights, stored as logarithms, one for each table of noisy counts. A step
    optimizes one of them given all others (coordinate ascent of the dual problem).
    """

    prior: dict[Attributes, FloatArray]
    weights: dict[Attributes, FloatArray]

    def __init__(
        self, sizes: Sequence[int], measured: Mapping[Attributes, Measured], started: JunctionTree | None = None
    ):
        """Start from a tree that was fitted to fewer tables, or from independent attributes."""
        self.sizes = tuple(sizes)
        self.measured = dict(measured)
        trust = np.array([1.0 / (one.variance * one.counts.size) for one in measured.values()])
        totals = np.array([float(one.counts.sum()) for one in measured.values()])
        self.total = max(float(np.sum(trust * totals) / np.sum(trust)), 1.0)  # records, estimated from all tables
        earlier = {} if started is None else started.weights
        known = {} if started is None else started.prior
        self.prior = {one: known.get(one, _guess(one, noisy, self.total)) for one, noisy in measured.items()}
        self.weights = {one: earlier.get(one, self.prior[one]) for one in measured}
        self.cliques = self._hang(find_cliques(sizes, measured))
        self._home = {
            one: next(n for n, c in enumerate(self.cliques) if set(one) <= set(c.attributes)) for one in measured
        }
        self._multiply_out()

    def _hang(self, cliques: Sequence[Attributes]) -> list[_Clique]:
        """Link every clique to an earlier one that shares the most attributes: a maximum spanning tree."""
        hung: list[_Clique] = []
        left = list(cliques)
        while left:
            best = max(
                (
                    (len(set(one) & set(other.attributes)), -place, number)
                    for place, one in enumerate(left)
                    for number, other in enumerate(hung)
                ),
                default=(0, 0, None),
            )
            one, parent = left.pop(-best[1]), best[2]
            shared = () if parent is None else tuple(sorted(set(one) & set(hung[parent].attributes)))
            shape = [self.sizes[place] for place in one]
            hung.append(_Clique(one, np.zeros(shape), parent, shared, np.ones([self.sizes[place] for place in shared])))
        return hung

    def _multiply_out(self) -> None:
        """Set all tables to the product of the weights and make them consistent."""
        for number, clique in enumerate(self.cliques):
            logs = np.zeros([self.sizes[place] for place in clique.attributes])
            for one, home in self._home.items():
                if home == number:
                    logs += _spread(self.weights[one], one, clique.attributes)
            clique.table = np.exp(np.maximum(logs - logs.max(), _LOWEST))
            clique.message = np.ones([self.sizes[place] for place in clique.shared])
        for number in reversed(range(1, len(self.cliques))):
            self._send(number, up=True)
            parent = self.cliques[self.cliques[number].parent or 0]
            parent.table /= parent.table.max()
        self.cliques[0].table *= self.total / self.cliques[0].table.sum()
        for number in range(1, len(self.cliques)):
            self._send(number, up=False)

    def _send(self, number: int, *, up: bool) -> None:
        """Pass a message from a clique to its parent, or from its parent to it."""
        child = self.cliques[number]
        parent = self.cliques[child.parent or 0]
        giver, taker = (child, parent) if up else (parent, child)
        now = sum_to(giver.table, giver.attributes, child.shared)
        ratio = np.divide(now, child.message, out=np.zeros_like(now), where=child.message > 0)
        taker.table *= _spread(ratio, child.shared, taker.attributes)
        child.message = now

    def fit(self, sweeps: int, close: float = 0.0) -> None:
        """Fit to all noisy counts in at most *sweeps* passes, until none moves more than *close* of the records."""
        for _ in range(sweeps):
            if self._sweep(self._fit_clique) <= close * self.total:
                break

    def fit_alone(self, sweeps: int) -> None:
        """Scale the counts of single attributes to their averages over all tables.

        `fit` converges to this slowly, because the weights of many tables share the correction.
        """
        self._alone = {place: self._average(place) for place in range(len(self.sizes))}
        for _ in range(sweeps):
            self._sweep(self._scale_clique)

    def clear_impossible(self, ranges: Sequence[Ranges]) -> None:
        """Clear blocks of cells that noisy counts show to be empty, such as married children.

        A block has one of the *ranges* of each attribute. Noise hides whether a cell is empty and makes half of the
        empty cells positive; sums over blocks reveal it.
        """
        for one, noisy in self.measured.items():
            own, alone = [ranges[place] for place in one], [self.marginal((place,)) / self.total for place in one]
            noise = np.sqrt(noisy.variance * reduce(np.multiply.outer, [hi - lo for lo, hi in own]))
            expected = _sum_blocks(self.total * reduce(np.multiply.outer, alone), own)
            empty = (expected > _SURE * noise) & (_sum_blocks(noisy.counts, own) < _EMPTY * noise) & (len(one) > 1)
            clique = self.cliques[self._home[one]]
            factor = np.where(_cover(empty, own, noisy.counts.shape), math.exp(_LOWEST), 1.0)
            clique.table *= _spread(factor, one, clique.attributes)

    def _sweep(self, visit: Callable[[int], float]) -> float:
        """Visit every clique, depth first, after updating it with all earlier changes; return the largest result."""
        children: dict[int | None, list[int]] = {}
        for number, clique in enumerate(self.cliques):
            children.setdefault(clique.parent, []).append(number)
        largest = 0.0
        waiting: list[tuple[int, bool]] = [(0, True)]
        while waiting:
            number, arriving = waiting.pop()
            if not arriving:
                self._send(number, up=True)
                continue
            if number:
                self._send(number, up=False)
                waiting.append((number, False))
            largest = max(largest, visit(number))
            waiting += [(child, True) for child in children.get(number, ())]
        for number in range(1, len(self.cliques)):
            self._send(number, up=False)
        return largest

    def _average(self, place: int) -> FloatArray:
        """Return the counts of a single attribute, averaged over all tables that have it."""
        tables = [
            Measured(sum_to(noisy.counts, one, (place,)), noisy.variance * noisy.counts.size / self.sizes[place])
            for one, noisy in self.measured.items()
            if place in one
        ]
        return non_negative(reduce(Measured.combine, tables).counts, self.total)

    def _scale_clique(self, number: int) -> float:
        clique = self.cliques[number]
        for place, wanted in self._alone.items():
            if self._home[place,] == number:
                found = sum_to(clique.table, clique.attributes, (place,))
                ratio = np.divide(wanted, found, out=np.zeros_like(wanted), where=found > 0)
                clique.table *= _spread(ratio, (place,), clique.attributes)
        return 0.0

    def _fit_clique(self, number: int) -> float:
        """Fit the weights of the tables of this clique; return the largest sum of changes of counts."""
        from scipy.special import wrightomega

        clique, moved = self.cliques[number], 0.0
        for one, home in self._home.items():
            if home != number:
                continue
            noisy = self.measured[one]
            sure = 1.0 / (_ENTROPY * noisy.variance)
            found = sum_to(clique.table, clique.attributes, one)
            logs = np.log(np.maximum(found, 1e-300))
            # The best weight w of a cell gives the count m = found * exp(w - weight) = count - w / sure.
            power = logs + sure * noisy.counts + self.prior[one] - self.weights[one] + math.log(sure)
            wanted = np.log(wrightomega(np.maximum(power, _LOWEST))) - math.log(sure)
            step = wanted - logs
            self.weights[one] = self.weights[one] + step
            ratio = np.exp(step)
            moved = max(moved, float(np.abs(found * (ratio - 1.0)).sum()))
            clique.table *= _spread(ratio, one, clique.attributes)
            clique.table *= self.total / clique.table.sum()
        return moved

    def holds(self, one: Attributes) -> bool:
        return any(set(one) <= set(clique.attributes) for clique in self.cliques)

    def marginal(self, one: Attributes) -> FloatArray:
        """Return the joint counts of attributes of one clique."""
        having = (clique for clique in self.cliques if set(one) <= set(clique.attributes))
        clique = min(having, key=lambda clique: clique.table.size)
        return sum_to(clique.table, clique.attributes, one)

    def pairs_with(self, first: int, others: Collection[int]) -> dict[int, FloatArray]:
        """Return the joint counts of an attribute with each of *others*, which share no clique with it."""
        neighbours: list[list[tuple[int, Attributes]]] = [[] for _ in self.cliques]
        for number, clique in enumerate(self.cliques):
            if clique.parent is not None:
                neighbours[number].append((clique.parent, clique.shared))
                neighbours[clique.parent].append((number, clique.shared))

        def reach(number: int, before: int) -> set[int]:
            """Return the attributes of a clique and of all beyond it."""
            beyond = (reach(after, number) for after, _ in neighbours[number] if after != before)
            return set(self.cliques[number].attributes).union(*beyond)

        found: dict[int, FloatArray] = {}
        waiting = []  # target and source clique, shared attributes, (size of first, *sizes of shared) counts
        for number, clique in enumerate(self.cliques):
            for after, shared in neighbours[number] if first in clique.attributes else ():
                if first not in shared:
                    both = tuple(sorted((first, *shared)))
                    known = np.moveaxis(sum_to(clique.table, clique.attributes, both), both.index(first), 0)
                    waiting.append((after, number, shared, known))
        while waiting:
            number, before, shared, known = waiting.pop()
            clique = self.cliques[number]
            if reach(number, before).isdisjoint(set(others) - found.keys()):
                continue
            for other in set(clique.attributes).intersection(others) - found.keys():
                found[other] = _follow(known, shared, clique, (other,))
            for after, between in neighbours[number]:
                if after != before:
                    waiting.append((after, number, between, _follow(known, shared, clique, between)))
        return found


def _follow(known: FloatArray, shared: Attributes, clique: _Clique, wanted: Attributes) -> FloatArray:
    """Return (n, *sizes of wanted) counts of a clique, given (n, *sizes of shared) ones.

    Given the shared attributes, the rest of the clique is independent of the source of the counts.
    """
    every = tuple(place for place in clique.attributes if place in shared or place in wanted)
    here = known.sum(axis=0, keepdims=True)
    given = np.divide(known, here, out=np.zeros_like(known), where=here > 0)
    axis = {place: number for number, place in enumerate(every, start=1)}  # 0 is the first axis of *known*
    operands = given, [0, *(axis[place] for place in shared)], sum_to(clique.table, clique.attributes, every)
    found: FloatArray = np.einsum(
        *operands, [axis[place] for place in every], [0, *(axis[place] for place in wanted)], optimize=True
    )
    return found


def _guess(one: Attributes, noisy: Measured, total: float) -> FloatArray:
    """Return the logarithms of the initial weights: the counts of single attributes, and independence."""
    if len(one) > 1:
        return np.zeros(noisy.counts.shape)
    return np.log(np.maximum(non_negative(noisy.counts, total), _FLOOR * math.sqrt(noisy.variance)))


def non_negative(counts: FloatArray, total: float) -> FloatArray:
    """Return the nearest non-negative counts, by least squares, that add up to the total.

    >>> non_negative(np.array([5.0, -1.0, 2.0]), 6.0)
    array([4.5, 0. , 1.5])
    """
    falling = np.sort(counts.ravel())[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    last = np.flatnonzero(falling > excess)
    shift = float(excess[last[-1]]) if len(last) else float(excess[0])
    return np.maximum(counts - shift, 0.0)


def _sum_blocks(table: FloatArray, ranges: Sequence[Ranges]) -> FloatArray:
    """Return (n_ranges, ...) the sums of all blocks, which have one range of codes along each axis."""
    for axis, (lo, hi) in enumerate(ranges):
        before = np.insert(table.cumsum(axis), 0, 0.0, axis)
        table = before.take(hi, axis) - before.take(lo, axis)
    return table


def _cover(blocks: BoolArray, ranges: Sequence[Ranges], sizes: Sequence[int]) -> BoolArray:
    """Return the cells of a table that are in any of the chosen blocks."""
    chosen = blocks.astype(np.int64)
    for axis, (lo, hi) in enumerate(ranges):
        ends = np.zeros((sizes[axis] + 1, *np.delete(chosen.shape, axis)), dtype=np.int64)
        np.add.at(ends, lo, np.moveaxis(chosen, axis, 0))
        np.subtract.at(ends, hi, np.moveaxis(chosen, axis, 0))
        chosen = np.moveaxis(ends.cumsum(axis=0)[:-1], 0, axis)
    return np.asarray(chosen > 0)


def sum_to(table: FloatArray, attributes: Attributes, wanted: Attributes) -> FloatArray:
    axes = tuple(axis for axis, place in enumerate(attributes) if place not in wanted)
    return table.sum(axis=axes) if axes else table.copy()


def _spread(table: FloatArray, attributes: Attributes, over: Attributes) -> FloatArray:
    """Return the table with an axis of length 1 for each attribute that it lacks."""
    return table.reshape([table.shape[attributes.index(place)] if place in attributes else 1 for place in over])

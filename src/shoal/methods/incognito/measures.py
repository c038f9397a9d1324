"""The cost of a node of the lattice: the measures that the full-domain search minimizes.

Lower costs are better. Without suppression, a node's generalizations never cost less, and suppressing more never lowers
a cost. ``value`` converts a cost to the usual figure. Suppressed records are treated as in ARX: in discernibility each
costs the number of records of the table, in the average class size they form one more class, in non-uniform entropy
their values become one value, and elsewhere they are fully lost.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.methods.incognito.groups import Grouping, Ladder, Ladders, Levels
from shoal.utility.information import relative_widths


class NodeMeasure(ABC):
    """A measure of nodes; ``separable`` measures are sums over the attributes without suppression."""

    name: ClassVar[str]
    separable: ClassVar[bool] = True

    def __init__(self, ladders: Ladders, n_sensitive: int) -> None:
        self.ladders = ladders
        self.n_sensitive = n_sensitive
        self.defers = False  # whether suppressed records are left to another round, and cost nothing in this one
        self.parts: list[FloatArray] = []  # n_attributes x (n_levels,) the cost of each level, if separable

    @abstractmethod
    def cost(self, grouping: Grouping, suppressed: BoolArray) -> float:
        """Return the cost of a node with these groups suppressed."""

    def value(self, cost: float) -> float:
        return cost

    def lattice(self) -> FloatArray:
        """Return the costs of all nodes without suppression, as an array over the levels; 0 if not separable."""
        total = np.zeros(self.ladders.shape)
        for j, part in enumerate(self.parts):
            total += part.reshape([-1 if i == j else 1 for i in range(self.ladders.n_attributes)])
        return total

    def plain(self, levels: Levels) -> float:
        """Return the cost of one node without suppression; a lower bound of 0 if not separable."""
        total = 0.0
        for part, level in zip(self.parts, levels, strict=False):
            total += float(part[level])
        return total

    def tally_suppressed(self, grouping: Grouping, suppressed: BoolArray, attribute: int) -> IntArray:
        """Return (width,) how many suppressed records have each value of an attribute."""
        width = self.ladders.rungs[attribute].widths[grouping.levels[attribute]]
        codes = self.ladders.codes(grouping.keys[suppressed], attribute)
        return np.bincount(codes, grouping.sizes[suppressed], width).astype(np.int64)


class _Shares(NodeMeasure):
    """Every published value loses a share of its record; a suppressed record is lost completely."""

    def __init__(self, ladders: Ladders, n_sensitive: int) -> None:
        super().__init__(ladders, n_sensitive)
        self._lost = [[self.shares_lost(rung, level) for level in range(rung.top + 1)] for rung in ladders.rungs]
        self._totals = [
            np.array([np.dot(rung.records_at(level), lost) for level, lost in enumerate(losses)])
            for rung, losses in zip(ladders.rungs, self._lost, strict=True)
        ]
        self.parts = [self.part(j, totals) for j, totals in enumerate(self._totals)]

    @abstractmethod
    def shares_lost(self, rung: Ladder, level: int) -> FloatArray:
        """Return (width,) the share that each value of a level loses."""

    @abstractmethod
    def part(self, attribute: int, totals: FloatArray) -> FloatArray:
        """Return an attribute's cost, given the total losses of its values."""

    def cost(self, grouping: Grouping, suppressed: BoolArray) -> float:
        n_suppressed = int(grouping.sizes[suppressed].sum())
        if not n_suppressed or self.defers:
            return self.plain(grouping.levels)
        total = self.besides(n_suppressed)
        for j, level in enumerate(grouping.levels):
            kept = self._totals[j][level] - np.dot(self.tally_suppressed(grouping, suppressed, j), self._lost[j][level])
            total += float(self.part(j, np.array([kept + n_suppressed]))[0])
        return total

    def besides(self, n_suppressed: int) -> float:  # noqa: ARG002
        """Return the cost of losing the other values of suppressed records."""
        return 0.0


class LossCost(_Shares):
    """Generalized loss: prod(1 + v)^(w / sum w) - 1 with v = (sum of leaf shares - N/d) / (N - N/d).

    Iyengar, "Transforming data to satisfy privacy constraints" (KDD 2002), normalized and aggregated as in ARX, with
    the weights as exponents of a geometric mean. The cost is the logarithm of the product.
    """

    name = "loss"

    def shares_lost(self, rung: Ladder, level: int) -> FloatArray:
        return np.asarray((rung.hi[level] - rung.lo[level]) / rung.taxonomy.n_leaves)

    def part(self, attribute: int, totals: FloatArray) -> FloatArray:
        n, leaves = self.ladders.n_records, self.ladders.rungs[attribute].taxonomy.n_leaves
        if leaves == 1:
            return np.zeros_like(totals)
        least = n / leaves
        weight = self.ladders.weights[attribute] / sum(self.ladders.weights)
        return np.asarray(weight * np.log1p(np.maximum(totals - least, 0.0) / (n - least)))

    def value(self, cost: float) -> float:
        return math.expm1(cost)


class UmCost(_Shares):
    """um: the mean over records and attributes of 1 / (leaves covered), including sensitive attributes."""

    name = "um"

    def shares_lost(self, rung: Ladder, level: int) -> FloatArray:
        return np.asarray(1.0 - 1.0 / (rung.hi[level] - rung.lo[level]))

    def part(self, attribute: int, totals: FloatArray) -> FloatArray:
        return np.asarray(self.ladders.weights[attribute] * totals / self._all)

    def value(self, cost: float) -> float:
        return 1.0 - cost

    @property
    def _all(self) -> float:
        return self.ladders.n_records * (sum(self.ladders.weights) + self.n_sensitive)

    def besides(self, n_suppressed: int) -> float:
        return self.n_sensitive * n_suppressed / self._all


class NcpCost(_Shares):
    """Normalized certainty penalty: the mean over records and attributes of the relative width."""

    name = "ncp"

    def shares_lost(self, rung: Ladder, level: int) -> FloatArray:
        return relative_widths(rung.taxonomy, rung.lo[level], rung.hi[level])

    def part(self, attribute: int, totals: FloatArray) -> FloatArray:
        weight = self.ladders.weights[attribute] / sum(self.ladders.weights)
        return np.asarray(weight * totals / self.ladders.n_records)


class EntropyCost(NodeMeasure):
    """Non-uniform entropy: the sum of -log2(records with the original value / records with the published one).

    De Waal and Willenborg; Prasser et al. for suppressed records.
    """

    name = "non-uniform-entropy"

    def __init__(self, ladders: Ladders, n_sensitive: int) -> None:
        super().__init__(ladders, n_sensitive)
        self.parts = [np.array([self._part(rung, level) for level in range(rung.top + 1)]) for rung in ladders.rungs]

    def cost(self, grouping: Grouping, suppressed: BoolArray) -> float:
        total = self.plain(grouping.levels)
        n_suppressed = int(grouping.sizes[suppressed].sum())
        for j in range(len(grouping.levels) if n_suppressed and not self.defers else 0):
            gone = self.tally_suppressed(grouping, suppressed, j)
            gone = gone[gone > 0]
            total += float(np.dot(gone, np.log2(n_suppressed / gone)))
        return total

    @staticmethod
    def _part(rung: Ladder, level: int) -> float:
        occurring = rung.records > 0
        published = rung.records_at(level)[rung.codes[level]][occurring]
        original = rung.records[occurring]
        return float(np.dot(original, np.log2(published / original)))


class DiscernibilityCost(NodeMeasure):
    """Discernibility: the sum of squared class sizes, plus the number of records for each suppressed one.

    Bayardo and Agrawal, "Data privacy through optimal k-anonymization" (ICDE 2005).
    """

    name = "discernibility"
    separable = False

    def cost(self, grouping: Grouping, suppressed: BoolArray) -> float:
        sizes = grouping.sizes
        n_suppressed = int(sizes[suppressed].sum())
        kept = sizes[~suppressed] if n_suppressed else sizes
        exact = int(np.dot(kept, kept)) + n_suppressed * self.ladders.n_records
        return float(exact)


class ClassSizeCost(NodeMeasure):
    """Average class size: records over classes; all suppressed records together are one more class.

    LeFevre, DeWitt and Ramakrishnan (ICDE 2006), without their division by k.
    """

    name = "class-size"
    separable = False

    def cost(self, grouping: Grouping, suppressed: BoolArray) -> float:
        occupied = grouping.sizes > 0
        gone = occupied & suppressed
        classes = int(np.count_nonzero(occupied)) - int(np.count_nonzero(gone)) + int(gone.any())
        return self.ladders.n_records / classes


MEASURES: dict[str, Callable[[Ladders, int], NodeMeasure]] = {
    kind.name: kind for kind in (UmCost, LossCost, NcpCost, EntropyCost, DiscernibilityCost, ClassSizeCost)
}

"""t-closeness: the distribution of values in a class is close to that in the whole table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.errors import PolicyError
from shoal.models.base import PRESENCE, ClassHistograms, ValueModel, Whole
from shoal.models.exact import at_most, fraction, integers, peak, quotient, row_blocks
from shoal.taxonomies.tree import Taxonomy


class TCloseness(ValueModel):
    """The earth mover's distance between the value distributions of a class and the table is at most t.

    Li, Li and Venkatasubramanian, "t-closeness: privacy beyond k-anonymity and l-diversity", ICDE 2007. The
    table is the published one. The distance of two values is

    - ``equal``: 1;
    - ``ordered``: difference of ranks / (m - 1), over the m values that occur, in the order of the taxonomy;
    - ``hierarchical``: height of their lowest common ancestor / height of the taxonomy; a node's height is
      its longest path to a leaf.

    >>> classes = ClassHistograms.of([[1, 1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1, 0, 0, 1]])
    >>> TCloseness(t=0.2, distance="ordered").holds(classes, Whole.of([1] * 9))
    array([False,  True])
    """

    name = "t-closeness"
    title = "the sensitive values of every class are distributed as in the table, to a distance of t"
    explanation = "Looking up a person reveals little more than the table as a whole."
    example = "With t = 0.2, changing the values of a fifth of a class gives it the distribution of the table."
    usual: ClassVar = {"t": 0.3}
    weaknesses = (
        "It bounds a distance of whole distributions: the probability of one rare value can still rise within it. "
        + PRESENCE
    )
    achieved_is = "at most"
    judges_beliefs = True
    bounded_by = "t"
    relative_to_whole = True
    one_value_each = True

    t: float = Field(ge=0, le=1, description="largest earth mover's distance to the whole table")
    distance: Literal["equal", "ordered", "hierarchical"] = Field(
        default="equal", description="the distance between two values: equal for all, by rank, or by the taxonomy"
    )

    @model_validator(mode="before")
    @classmethod
    def _compare_all_values(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and raw.get("harmless"):
            raise ValueError("'harmless' has no meaning for a distance between distributions; use beta-likeness")
        return raw

    @model_validator(mode="after")
    def _joint_values_have_no_order(self) -> Self:
        if self.distance != "equal" and isinstance(self.attribute, tuple) and len(self.attribute) > 1:
            raise ValueError(f"distance '{self.distance}' is for one attribute; for several together use 'equal'")
        return self

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the distance is at most t, in exact arithmetic."""
        total, unit = self._compare(classes, whole)
        return at_most(total, fraction(self.t), unit) & (classes.sizes > 0)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the distances."""
        return quotient(*self._compare(classes, whole), if_zero=math.inf)

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether t is at least the largest possible distance, which is 1 unless all values are equally far apart."""
        return super().promises_nothing(whole) if self.distance == "equal" else self.t >= 1

    def _compare(self, classes: ClassHistograms, whole: Whole) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return (n_classes,) the exact work of turning each class into the table, and the work at distance 1."""
        ground = self._ground(whole)
        total = ground.work(self.values_of(classes), classes.sizes, self.values_of(whole), whole.size)
        unit = ground.unit * whole.size
        return total, integers(classes.sizes, peak(classes.sizes) * unit) * unit

    def _ground(self, whole: Whole) -> Ground:
        if self.distance == "equal":
            return Ground.of_equals(len(self.values_of(whole)))
        if self.distance == "ordered":
            return Ground.of_ranks(self.values_of(whole))
        if whole.taxonomy is None:
            raise PolicyError(
                f"{self.subject}: distance 'hierarchical' needs a taxonomy of the sensitive attribute; "
                "declare one, or choose 'equal' or 'ordered'"
            )
        return Ground.of_taxonomy(whole.taxonomy, len(self.values_of(whole)))


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """Weights by which the earth mover's distance has a closed form in integers.

    If a value has c of n records in a class and C of N in the whole table, its surplus is c N - C n. ``unit`` n N times
    the distance is the sum, over values and ranges of neighbouring values, of the absolute surplus times the weight.
    """

    unit: int
    value_weights: IntArray  # (n_values,)
    lo: IntArray  # (n_ranges,)
    hi: IntArray  # (n_ranges,)
    range_weights: IntArray  # (n_ranges,)

    @classmethod
    def of_equals(cls, n_values: int) -> Self:
        """All values are at distance 1; half of the sum of absolute surpluses is moved."""
        none = np.empty(0, dtype=np.int64)
        return cls(2, np.ones(n_values, dtype=np.int64), none, none, none)

    @classmethod
    def of_ranks(cls, whole_counts: IntArray) -> Self:
        """Values that occur are equally spaced; the total surplus of the first i is moved to the next one."""
        ends = np.flatnonzero(whole_counts > 0) + 1
        nothing = np.zeros(len(whole_counts), dtype=np.int64)
        return cls(max(1, len(ends) - 1), nothing, np.zeros_like(ends), ends, np.ones_like(ends))

    @classmethod
    def of_taxonomy(cls, taxonomy: Taxonomy, n_values: int) -> Self:
        """The distance of values is the height of their lowest common ancestor; the tree has height 1.

        If the edge above each node v has the length (height(parent of v) - height(v)) / 2, the path between two leaves
        has the height of their ancestor as its length. The surplus of every node crosses the edge above it.
        """
        if taxonomy.n_leaves != n_values:
            raise PolicyError(
                f"the sensitive attribute's taxonomy has {taxonomy.n_leaves} leaves but {n_values} values "
                "were counted; count by its leaves"
            )
        height = node_heights(taxonomy)
        below_root = np.flatnonzero(taxonomy.parent >= 0)
        steps = np.zeros(len(height), dtype=np.int64)
        steps[below_root] = height[taxonomy.parent[below_root]] - height[below_root]
        inner = below_root[below_root >= n_values]
        lo, hi = taxonomy.lo[inner].astype(np.int64), taxonomy.hi[inner].astype(np.int64)
        return cls(2 * max(1, int(height.max())), steps[:n_values], lo, hi, steps[inner])

    def work(self, counts: IntArray, sizes: IntArray, whole_counts: IntArray, whole_size: int) -> NDArray[Any]:
        """Return (n_classes,) ``unit`` n N times the distance of each class to the whole table, exactly.

        >>> Ground.of_equals(2).work(np.array([[2, 0]]), np.array([2]), np.array([2, 2]), 4)
        array([8])
        """
        # the distance is at most 1 and all terms are positive: no partial sum exceeds unit n N
        largest = 2 * self.unit * max(1, peak(sizes)) * max(1, whole_size)
        total = integers(np.zeros(len(counts), dtype=np.int64), largest)
        reference = integers(whole_counts, largest)
        for rows in row_blocks(counts):
            have = integers(counts[rows], largest) * whole_size
            surplus = have - integers(sizes[rows], largest)[:, np.newaxis] * reference
            if self.value_weights.any():
                total[rows] = np.abs(surplus) @ self.value_weights
            if len(self.lo):
                before = np.zeros((len(surplus), surplus.shape[1] + 1), dtype=surplus.dtype)
                np.cumsum(surplus, axis=1, out=before[:, 1:])
                total[rows] += np.abs(before[:, self.hi] - before[:, self.lo]) @ self.range_weights
        return total


def node_heights(taxonomy: Taxonomy) -> IntArray:
    """Return (n_nodes,) the longest path from each node to a leaf."""
    height = np.zeros(len(taxonomy.parent), dtype=np.int64)
    for level in range(int(taxonomy.level.max()), 0, -1):
        nodes = np.flatnonzero(taxonomy.level == level)
        np.maximum.at(height, taxonomy.parent[nodes], height[nodes] + 1)
    return height

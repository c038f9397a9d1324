"""t-closeness: the values of a class are distributed nearly as in the whole table."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.core.arrays import BoolArray, FloatArray
from shoal.core.errors import PolicyError
from shoal.models.base import PRESENCE, SHARE_MARGIN, SHARE_UNITS, ClassHistograms, ValueModel, Whole
from shoal.models.exact import at_most, fraction, integers, peak, quotient
from shoal.models.movers import Equal, Ground, Hierarchical, Ordered, work


class TCloseness(ValueModel):
    """The earth mover's distance between the values of a class and those of the table is at most t.

    Li, Li and Venkatasubramanian, "t-closeness: privacy beyond k-anonymity and l-diversity", ICDE 2007. The
    table is the published one. Two values are at the distance

    - ``equal``: 1;
    - ``ordered``: difference of ranks / (m - 1), over the m values that occur, in the order of the taxonomy;
    - ``hierarchical``: height of their lowest common ancestor / height of the taxonomy, a node's height being
      the longest way down to a leaf.

    >>> classes = ClassHistograms.of([[1, 1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1, 0, 0, 1]])
    >>> TCloseness(t=0.2, distance="ordered").holds(classes, Whole.of([1] * 9))
    array([False,  True])
    """

    name = "t-closeness"
    title = "the sensitive values of every class are distributed as in the table, to a distance of t"
    explanation = "Looking somebody up teaches little beyond what the table as a whole tells."
    example = "With t = 0.2 at most a fifth of a class would have to change its value to look like the whole table."
    usual: ClassVar = {"t": 0.3}
    weaknesses = (
        "It bounds a distance of whole distributions: the chance of one rare value can still rise within it. "
        + PRESENCE
    )
    achieved_is = "at most"
    judges_beliefs = True
    relative_to_whole = True
    one_value_each = True

    t: float = Field(ge=0, le=1, description="largest earth mover's distance to the whole table")
    distance: Literal["equal", "ordered", "hierarchical"] = Field(
        default="equal", description="how far two values are apart: all alike, by rank, or by the taxonomy"
    )

    @model_validator(mode="after")
    def _joint_values_have_no_order(self) -> Self:
        if self.distance != "equal" and isinstance(self.attribute, tuple) and len(self.attribute) > 1:
            raise ValueError(f"distance '{self.distance}' is for one attribute; for several together use 'equal'")
        return self

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the distance is at most t, exactly."""
        ground = self._ground(whole)
        total = work(ground, self.values_of(classes), classes.sizes, self.values_of(whole), whole.size)
        unit = ground.unit * whole.size
        sizes = integers(classes.sizes, peak(classes.sizes) * unit)
        return at_most(total, fraction(self.t), sizes * unit) & (classes.sizes > 0)

    def holds_surely(self, shares: FloatArray, whole: Whole) -> BoolArray:
        """Return (n_classes,) whether the distance of rounded shares is at most t by a margin above all rounding."""
        margin = SHARE_MARGIN + shares.shape[1] / SHARE_UNITS
        if self.t <= margin:
            return np.zeros(len(shares), dtype=np.bool_)
        return self.model_copy(update={"t": self.t - margin}).holds(ClassHistograms.of_shares(shares), whole)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:
        """Return (n_classes,) the distances."""
        ground = self._ground(whole)
        total = work(ground, self.values_of(classes), classes.sizes, self.values_of(whole), whole.size)
        unit = ground.unit * whole.size
        return quotient(total, integers(classes.sizes, peak(classes.sizes) * unit) * unit, if_zero=math.inf)

    def promises_nothing(self, whole: Whole) -> bool:
        """Whether t is at least the largest distance that a class of this table can have; 1 if values have places."""
        return super().promises_nothing(whole) if self.distance == "equal" else self.t >= 1

    def _ground(self, whole: Whole) -> Ground:
        if self.distance == "equal":
            return Equal()
        if self.distance == "ordered":
            return Ordered.of(self.values_of(whole))
        if whole.taxonomy is None:
            raise PolicyError(
                f"{self.subject}: distance 'hierarchical' needs a taxonomy of the sensitive attribute; "
                "declare one, or choose 'equal' or 'ordered'"
            )
        return Hierarchical.of(whole.taxonomy, len(self.values_of(whole)))

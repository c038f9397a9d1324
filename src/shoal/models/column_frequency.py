"""Column frequency: buckets of at least k records, and quasi values of each part that occur at least k times."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import ClassHistograms, PrivacyModel, Whole


class ColumnFrequency(PrivacyModel):
    """Every bucket has at least k records, and every combination of quasi values within a part occurs k times.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), section 4.2, where column generalization provides it. It does not
    imply k-anonymity: a person's quasi values together may fit only that person's record. The classes passed to it are
    buckets, and groups of records that share a part's quasi values.

    >>> groups = ClassHistograms.of([[3, 1], [2, 0]])
    >>> ColumnFrequency(k=3).holds(groups, Whole.of([5, 1]))
    array([ True, False])
    """

    name = "column-frequency"
    title = "every bucket has at least k records, and each combination of quasi values within a part occurs k times"
    explanation = (
        "For slicing: every bucket has at least k records, and so has every combination of a part's quasi values."
    )
    example = "With k = 10, at least ten records share a bucket, and ten share age and sex if these form one part."
    usual: ClassVar = {"k": 5}
    weaknesses = (
        "It treats each part by itself: all quasi values of a person together may fit a single record. By itself it "
        "therefore hides neither who is in the table nor their sensitive values."
    )
    sees = "sizes"
    achieved_is = "at least"
    of_parts = True

    k: int = Field(
        ge=1, description="minimum number of records per bucket, and per combination of quasi values of a part"
    )

    @property
    def smallest_class(self) -> int:
        return self.k

    def holds(self, classes: ClassHistograms, whole: Whole) -> BoolArray:  # noqa: ARG002
        return classes.sizes >= self.k

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        return classes.sizes.astype(float)

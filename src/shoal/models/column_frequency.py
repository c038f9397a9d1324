"""Column frequency: buckets of at least k records, and values of a part that at least k records have."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray
from shoal.models.base import ClassHistograms, PrivacyModel, Whole


class ColumnFrequency(PrivacyModel):
    """Every bucket has at least k records, and every combination of quasi values within a part occurs k times.

    Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), section 4.2, where it comes from column generalization. It is no
    k-anonymity: all quasi values of a person together may still fit that person's record only. The classes that it is
    asked about are buckets, and the records that share a part's quasi values.

    >>> groups = ClassHistograms.of([[3, 1], [2, 0]])
    >>> ColumnFrequency(k=3).holds(groups, Whole.of([5, 1]))
    array([ True, False])
    """

    name = "column-frequency"
    title = "every bucket has at least k records, and each combination of quasi values within a part occurs k times"
    explanation = (
        "For slicing: every bucket has at least k records, and no combination of a part's quasi values is rarer."
    )
    example = "With k = 10 ten records or more share the bucket, and ten the age and sex, if these two are one part."
    usual: ClassVar = {"k": 5}
    weaknesses = (
        "It looks at each part by itself: all quasi values of a person together may fit one record only, so that it "
        "hides neither who is in the table nor, by itself, what they have."
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
        """Return (n_classes,) whether each group has k records."""
        return classes.sizes >= self.k

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        """Return (n_classes,) the sizes."""
        return classes.sizes.astype(float)

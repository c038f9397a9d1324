"""k-anonymity: a class has at least k records."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from shoal.core.arrays import FloatArray
from shoal.core.wording import count_noun
from shoal.models.base import SAYS_NOTHING_OF_VALUES, ClassHistograms, Curve, PrivacyModel, Whole


class KAnonymity(PrivacyModel):
    """Every record shares its published quasi-identifier with at least k - 1 others.

    Sweeney, "k-anonymity: a model for protecting privacy", IJUFKS 10(5), 2002.

    >>> classes = ClassHistograms.of([[3, 1], [2, 0]])
    >>> KAnonymity(k=3).holds(classes, Whole.of([5, 1]))
    array([ True, False])
    """

    name = "k-anonymity"
    title = "every record shares its quasi values with at least k - 1 others"
    explanation = "Columns that attackers may know do not distinguish a person from at least k - 1 others."
    example = "With k = 10, an attacker with a person's quasi values finds at least ten matching records."
    usual: ClassVar = {"k": 5}
    weaknesses = SAYS_NOTHING_OF_VALUES
    sees = "sizes"
    achieved_is = "at least"

    k: int = Field(ge=1, description="minimum number of records per class")

    @property
    def curve(self) -> Curve:
        return Curve(records=self.k)

    def reach(self, classes: ClassHistograms, whole: Whole) -> FloatArray:  # noqa: ARG002
        return classes.sizes.astype(float)

    def explain_shortfall(self, whole: Whole, reached: float) -> str:  # noqa: ARG002
        return f"k = {self.k} but the table has only {count_noun(whole.size, 'record')}; ask for at most that"

"""microaggregation: averages of groups of like records."""

from __future__ import annotations

from shoal.columns.verdicts import AGGREGATION
from shoal.compare.recipes.base import Base, Recipe, Setting, told_models


class Microaggregation(Recipe):
    """Groups of k records publish their mean numbers and most frequent categories."""

    name = "microaggregation"
    title = "averages of groups of k like records"
    place = 9
    verdict = AGGREGATION

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for k-anonymity alone."""
        privacy = [base.k_anonymity]
        return [Setting(told_models(privacy), base.document({"microaggregation": {}}, privacy))]

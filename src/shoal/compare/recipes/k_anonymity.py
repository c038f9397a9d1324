"""k-anonymity: classes of at least k records."""

from __future__ import annotations

from shoal.columns.verdicts import AGGREGATION
from shoal.compare.recipes.base import Base, Recipe, Setting, told_models


class KAnonymousClasses(Recipe):
    """Quasi values are generalized by Mondrian until k records share them."""

    name = "k-anonymity"
    title = "generalized classes of at least k records"
    place = 10
    verdict = AGGREGATION

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for k-anonymity alone."""
        privacy = [base.k_anonymity]
        return [Setting(f"mondrian, {told_models(privacy)}", base.document({"mondrian": {}}, privacy))]

"""l-diversity: classes of several sensitive values."""

from __future__ import annotations

from shoal.columns.verdicts import L_DIVERSITY
from shoal.compare.recipes.base import NOTHING_SENSITIVE, Base, Recipe, Setting, told_models


class DiverseClasses(Recipe):
    """Quasi values are generalized by Mondrian until classes have k records and diverse sensitive values."""

    name = "l-diversity"
    title = "generalized classes with diverse sensitive values"
    place = 11
    verdict = L_DIVERSITY

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for k-anonymity and the policy's l-diversity, or a usual one."""
        if not base.commonest:
            return NOTHING_SENSITIVE
        privacy = [base.k_anonymity, base.diversity()]
        return [Setting(f"mondrian, {told_models(privacy)}", base.document({"mondrian": {}}, privacy))]

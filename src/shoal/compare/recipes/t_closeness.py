"""t-closeness: classes whose sensitive values are spread as in the whole table."""

from __future__ import annotations

from shoal.columns.verdicts import L_DIVERSITY
from shoal.compare.recipes.base import NOTHING_SENSITIVE, Base, Recipe, Setting, told_models

USUAL_T = 0.2


class CloseClasses(Recipe):
    """Classes of k records whose sensitive values are spread nearly as in the whole table.

    The opinion speaks of t-closeness together with l-diversity, whose verdict it has here.
    """

    name = "t-closeness"
    title = "generalized classes spread like the whole table"
    place = 12
    verdict = L_DIVERSITY

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for k-anonymity and the policy's t-closeness, or the usual one."""
        if not base.commonest:
            return NOTHING_SENSITIVE
        own = [model for model in base.policy.privacy if model.name == "t-closeness"]
        asked = {"t": USUAL_T, "distance": "equal"}
        closeness = own[0].model_dump(mode="json", exclude_none=True) if own else asked
        privacy = [base.k_anonymity, {"t-closeness": closeness}]
        return [Setting(f"mondrian, {told_models(privacy)}", base.document({"mondrian": {}}, privacy))]

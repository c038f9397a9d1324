"""tau-l-diversity: classes made by the sequential sweep."""

from __future__ import annotations

from shoal.columns.verdicts import L_DIVERSITY
from shoal.compare.recipes.base import NOTHING_SENSITIVE, Base, Recipe, Setting, told_models

USUAL_TAU = 0.5


class SweptClasses(Recipe):
    """No sensitive value has more than a share tau of a class, and it takes l of them to make up all of it."""

    name = "tau-l-diversity"
    title = "classes of the sequential sweep"
    place = 13
    verdict = L_DIVERSITY

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for the policy's (tau,l)-diversity, or the usual one."""
        if not base.commonest:
            return NOTHING_SENSITIVE
        own = [model for model in base.policy.privacy if model.name == "tau-l-diversity"]
        asked = own[0].model_dump(mode="json", exclude_none=True) if own else {"tau": USUAL_TAU, "l": base.n_values}
        privacy = [{"tau-l-diversity": asked}]
        return [Setting(f"sweep, {told_models(privacy)}", base.document({"sweep": {}}, privacy))]

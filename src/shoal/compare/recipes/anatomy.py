"""anatomy: quasi values as they are, sensitive ones by bucket."""

from __future__ import annotations

from shoal.compare.recipes.base import NOTHING_SENSITIVE, Base, Recipe, Setting, told_models


class Anatomized(Recipe):
    """Quasi values stay as they are; which sensitive value is whose is hidden in buckets."""

    name = "anatomy"
    title = "sensitive values apart from the rest, by bucket"
    place = 14

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for simple l-diversity."""
        if not base.commonest:
            return NOTHING_SENSITIVE
        privacy = [base.diversity("simple-l-diversity")]
        return [Setting(told_models(privacy), base.document({"anatomy": {}}, privacy))]

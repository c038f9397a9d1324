"""slicing: groups of attributes apart, by bucket."""

from __future__ import annotations

from shoal.compare.recipes.base import NOTHING_SENSITIVE, Base, Recipe, Setting, told_models


class Sliced(Recipe):
    """Attributes that depend on each other stay together; the groups are permuted within buckets."""

    name = "slicing"
    title = "groups of attributes apart, by bucket"
    place = 15

    def settings(self, base: Base) -> list[Setting] | str:
        """Ask for simple l-diversity."""
        if not base.commonest:
            return NOTHING_SENSITIVE
        privacy = [base.diversity("simple-l-diversity")]
        return [Setting(told_models(privacy), base.document({"slicing": {}}, privacy))]

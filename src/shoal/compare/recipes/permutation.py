"""permutation: sensitive values dealt out anew."""

from __future__ import annotations

from shoal.columns.verdicts import SUBSTITUTION
from shoal.compare.recipes.base import Base, Recipe, Setting


class PermutedValues(Recipe):
    """Every record gets the sensitive values of a random other one."""

    name = "permutation"
    title = "sensitive values dealt out anew"
    place = 5
    verdict = SUBSTITUTION

    def settings(self, base: Base) -> list[Setting] | str:
        """Permute every sensitive attribute."""
        names = base.names("sensitive")
        if not names:
            return "no attribute is sensitive, so there is nothing to deal out anew"
        techniques: dict[str, dict[str, object]] = {name: {"permutation": {}} for name in names}
        told = f"{', '.join(names)} over the whole table"
        return base.treated(told, techniques)

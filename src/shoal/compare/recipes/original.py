"""original: nothing done but leaving identifiers out."""

from __future__ import annotations

from shoal.compare.recipes.base import Base, Recipe, Setting


class Original(Recipe):
    """Values are published as they are, so every other row is read against this one."""

    name = "original"
    title = "values as they are, identifiers left out"
    place = 0

    def settings(self, base: Base) -> list[Setting] | str:
        """Publish as it is."""
        return [Setting("identifiers left out", base.document({"plain": {}}))]

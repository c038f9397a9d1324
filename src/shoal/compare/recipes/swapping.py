"""swapping: some records exchange what others may know of them."""

from __future__ import annotations

from shoal.columns.verdicts import SUBSTITUTION
from shoal.compare.recipes.base import Base, Recipe, Setting

SHARE = 0.2


class SwappedValues(Recipe):
    """A fifth of the records exchange the value of each quasi attribute, each attribute on its own."""

    name = "swapping"
    title = "quasi values exchanged between pairs of records"
    place = 4
    verdict = SUBSTITUTION

    def settings(self, base: Base) -> list[Setting] | str:
        """Swap every quasi attribute."""
        names = base.names("quasi")
        if not names:
            return "no quasi attribute holds single values that could be exchanged"
        techniques = {name: {"swapping": {"share": SHARE}} for name in names}
        told = f"{SHARE:.0%} of the records, each quasi attribute on its own"
        return base.treated(told, techniques)

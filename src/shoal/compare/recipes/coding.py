"""coding: the ends of quasi numbers put at an edge."""

from __future__ import annotations

from shoal.compare.recipes.base import NO_NUMBERS, Base, Recipe, Setting

SHARE = 0.05  # of the records, at each end


class CodedEnds(Recipe):
    """The lowest and highest quasi numbers stand at the edge that a twentieth of the records reaches."""

    name = "coding"
    title = "the ends of quasi numbers cut"
    place = 7

    def settings(self, base: Base) -> list[Setting] | str:
        """Cut all numbers of declared domains."""
        if not base.numbers:
            return NO_NUMBERS
        techniques = {name: {"coding": {"shares": {"top": SHARE, "bottom": SHARE}}} for name in base.numbers}
        told = f"{', '.join(base.numbers)} at the outer {SHARE:.0%} of the records"
        return base.treated(told, techniques)

"""rounding: quasi numbers to multiples of a base."""

from __future__ import annotations

from shoal.compare.recipes.base import NO_NUMBERS, Base, Recipe, Setting
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

SHARE = 0.1  # of the declared domain


class RoundedNumbers(Recipe):
    """Quasi numbers are rounded to multiples of about a tenth of their declared domain."""

    name = "rounding"
    title = "quasi numbers rounded"
    place = 6

    def settings(self, base: Base) -> list[Setting] | str:
        """Round all numbers of declared domains."""
        if not base.numbers:
            return NO_NUMBERS
        bases = {name: base_of(domain) for name, domain in base.numbers.items()}
        techniques = {name: {"rounding": {"base": each}} for name, each in bases.items()}
        told = ", ".join(f"{name} to multiples of {each:g}" for name, each in bases.items())
        return base.treated(told, techniques)


def base_of(domain: IntervalsTaxonomy) -> int | float:
    """Return the multiple of the finest step that is nearest to the share of the domain, two steps at least.

    >>> base_of(IntervalsTaxonomy(min=0, max=99)), base_of(IntervalsTaxonomy(min=0, max=1, widths=(0.5,), step=0.1))
    (10, 0.2)
    """
    return domain.finest * max(2, round(SHARE * (domain.max - domain.min) / domain.finest))

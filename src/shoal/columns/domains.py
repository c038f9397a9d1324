"""Numbers that a column may hold, as the policy declares them and never as the data show them."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

Number = int | float


@dataclass(frozen=True, slots=True)
class NumberDomain:
    """The smallest and the largest number, None where there is no end."""

    low: Number | None = None
    high: Number | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is an end."""
        return bool(self.ends)

    @property
    def ends(self) -> dict[str, Number]:
        """The ends by the names that policies and manifests give them, ``min`` and ``max``."""
        named = {"min": self.low, "max": self.high}
        return {end: number for end, number in named.items() if number is not None}


def declared_domain(taxonomy: TaxonomyBuilder | None) -> NumberDomain:
    """Return the numbers that an attribute's taxonomy allows: intervals have ends where they are not open.

    >>> declared_domain(IntervalsTaxonomy(min=0, max=120, open="high"))
    NumberDomain(low=0, high=None)
    """
    if not isinstance(taxonomy, IntervalsTaxonomy):
        return NumberDomain()
    low = None if taxonomy.open in ("low", "both") else taxonomy.min
    high = None if taxonomy.open in ("high", "both") else taxonomy.max
    return NumberDomain(low, high)

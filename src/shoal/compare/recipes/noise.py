"""noise: numbers that others may know, moved at random."""

from __future__ import annotations

from shoal.columns.numbers import MOST_DECIMALS, decimals_of
from shoal.columns.verdicts import NOISE_ADDITION
from shoal.compare.recipes.base import NO_NUMBERS, Base, Recipe, Setting
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

SHARE = 0.05  # of the declared domain


class NoiseAddition(Recipe):
    """Quasi numbers get Laplace noise of a stated share of their declared domain, drawn again at its edges."""

    name = "noise"
    title = "Laplace noise on quasi numbers"
    place = 3
    verdict = NOISE_ADDITION

    def settings(self, base: Base) -> list[Setting] | str:
        """Move all numbers of declared domains."""
        if not base.numbers:
            return NO_NUMBERS
        techniques, told = {}, []
        for name, domain in base.numbers.items():
            scale, decimals = noise_of(domain)
            techniques[name] = {"noise": {"laplace": {"scale": scale}, "edges": "redraw", "decimals": decimals}}
            told.append(f"{name} {scale:g}")
        parameters = f"Laplace scale {SHARE:.0%} of the domain: {', '.join(told)}"
        return base.treated(parameters, techniques)


def noise_of(domain: IntervalsTaxonomy) -> tuple[float, int]:
    """Return the scale of the noise, a step of the domain at least, and the decimals that the step has.

    >>> noise_of(IntervalsTaxonomy(min=0, max=120)), noise_of(IntervalsTaxonomy(min=1, max=16))
    ((6.0, 0), (1.0, 0))
    """
    decimals = min(decimals_of(domain.finest), MOST_DECIMALS)
    return max(round(SHARE * (domain.max - domain.min), decimals), 10.0**-decimals), decimals

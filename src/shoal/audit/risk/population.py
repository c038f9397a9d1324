"""How many people are unique in a population of which the table is a sample: estimates by three models.

Which of them to believe is the rule of Dankar, El Emam, Neisa and Roffey, "Estimating the re-identification risk of
clinical data sets", BMC Medical Informatics and Decision Making 12:66, 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from shoal.audit.risk.disclosure import check_fraction
from shoal.audit.risk.pitman import pitman
from shoal.audit.risk.slide import slide_negative_binomial
from shoal.audit.risk.spectrum import NoEstimateError, Spectrum
from shoal.audit.risk.zayatz import zayatz
from shoal.core.arrays import IntArray
from shoal.core.errors import UsageError

Estimator = Literal["zayatz", "pitman", "snb"]
SMALL_FRACTION = 0.1  # up to here the rule takes Pitman's model
_ESTIMATORS: dict[Estimator, Callable[[Spectrum], float]] = {
    "zayatz": zayatz,
    "pitman": pitman,
    "snb": slide_negative_binomial,
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """What one model says, or why it says nothing."""

    model: Estimator
    uniques: float | None  # people who are unique in the population
    refusal: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"model": self.model, "population_uniques": self.uniques, "refusal": self.refusal}


@dataclass(frozen=True, slots=True)
class PopulationUniqueness:
    """Estimates of how many people are unique in the population, and the one that the rule of Dankar et al. takes."""

    fraction: float
    sample: int  # people of the table
    population: int
    sample_uniques: int
    estimates: tuple[Estimate, ...]
    chosen: Estimator
    reason: str

    @property
    def uniques(self) -> float:
        """The chosen estimate of people who are unique in the population."""
        return next(float(one.uniques or 0.0) for one in self.estimates if one.model == self.chosen)

    @property
    def share(self) -> float:
        """The same, as a share of the population."""
        return self.uniques / self.population

    @property
    def expected_in_sample(self) -> float:
        """Records of the table that are unique in the population as well: whoever matches them is right."""
        return min(self.uniques * self.fraction, float(self.sample_uniques))

    @property
    def spread(self) -> float | None:
        """The largest estimate over the smallest; None if fewer than two models answer, or one says none."""
        found = [one.uniques for one in self.estimates if one.uniques is not None]
        return max(found) / min(found) if len(found) > 1 and min(found) > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "sample_fraction": self.fraction,
            "sample": self.sample,
            "population": self.population,
            "sample_uniques": self.sample_uniques,
            "estimates": [one.as_dict() for one in self.estimates],
            "chosen": self.chosen,
            "reason": self.reason,
            "population_uniques": self.uniques,
            "population_unique_share": self.share,
            "expected_in_sample": self.expected_in_sample,
            "spread": self.spread,
        }


def population_uniqueness(sizes: IntArray, fraction: float) -> PopulationUniqueness:
    """Estimate from the sizes of the sample's classes how many people of the population are alone with their values.

    The sample is taken for a simple random one, *fraction* of the population. A model without a solution says so
    and is not chosen; Zayatz's always has one.

    >>> sizes = np.repeat([1, 2, 3, 4], [60, 20, 8, 4])
    >>> found = population_uniqueness(sizes, 0.2)
    >>> found.chosen, round(found.uniques), round(found.expected_in_sample)
    ('snb', 98, 20)
    """
    check_fraction(fraction)
    if not len(sizes) or int(sizes.min()) < 1:
        raise UsageError("estimates need the sizes of classes, each of at least one record")
    spectrum = Spectrum.of(sizes, fraction)
    estimates = {name: _estimate(name, model, spectrum) for name, model in _ESTIMATORS.items()}
    chosen, reason = _choice(fraction, estimates)
    return PopulationUniqueness(
        fraction, spectrum.n, spectrum.population, spectrum.times(1), tuple(estimates.values()), chosen, reason
    )


def _estimate(name: Estimator, model: Callable[[Spectrum], float], spectrum: Spectrum) -> Estimate:
    if spectrum.fraction == 1:
        return Estimate(name, float(spectrum.times(1)))  # the sample is the population
    if not spectrum.times(1):
        return Estimate(name, 0.0)
    try:
        uniques = model(spectrum)
    except NoEstimateError as refusal:
        return Estimate(name, None, str(refusal))
    if not np.isfinite(uniques) or not 0 <= uniques <= spectrum.population:
        return Estimate(name, None, "its solution is no number of people in the population")
    return Estimate(name, uniques)


def _choice(fraction: float, estimates: dict[Estimator, Estimate]) -> tuple[Estimator, str]:
    """Return the model to believe, and why."""
    pitmans, slide, plain = (estimates[name].uniques for name in ("pitman", "snb", "zayatz"))
    if fraction <= SMALL_FRACTION:
        if pitmans is not None:
            return "pitman", f"the sample is at most {SMALL_FRACTION:.0%} of the population"
        return "zayatz", "Pitman's model, which such small samples ask for, has no solution"
    if slide is None or plain is None:
        return "zayatz", "the slide negative binomial model has no solution"
    if plain < slide:
        return "zayatz", "it is below the slide negative binomial estimate"
    return "snb", "it is not above Zayatz's estimate"

"""Record- and attribute-level risk, population uniqueness, persons and households: see ``docs/risk.md``."""

from __future__ import annotations

from shoal.risk.disclosure import disclosure, record_disclosure
from shoal.risk.population import Estimate, PopulationUniqueness, population_uniqueness
from shoal.risk.special import MinimalSet, SpecialUniques, special_uniques
from shoal.risk.units import Appearances, HouseholdRisk, PersonRisk, household_risk, person_risk

__all__ = [
    "Appearances",
    "Estimate",
    "HouseholdRisk",
    "MinimalSet",
    "PersonRisk",
    "PopulationUniqueness",
    "SpecialUniques",
    "disclosure",
    "household_risk",
    "person_risk",
    "population_uniqueness",
    "record_disclosure",
    "special_uniques",
]

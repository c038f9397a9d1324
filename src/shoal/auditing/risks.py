"""How easily records are found by their class, for three kinds of searchers.

El Emam, "Guide to the de-identification of personal health information", 2013: the prosecutor knows that the
target is in the table, the journalist knows only that they are of the population, the marketer wants to find as
many as possible.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from shoal.arrays import IntArray

THRESHOLDS = (0.05, 0.2, 0.33)


@dataclass(frozen=True, slots=True)
class SearchRisk:
    """The chance that a record is matched with the right person: over all records, the highest and the mean."""

    highest: float
    mean: float
    share_above: tuple[tuple[float, float], ...]  # threshold, share of records with a higher risk

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        above = {f"{threshold:g}": share for threshold, share in self.share_above}
        return {"highest": self.highest, "mean": self.mean, "share_above": above}


@dataclass(frozen=True, slots=True)
class PopulationRisk:
    """The risks against a table of all people among whom somebody may search.

    ``records_not_covered`` are in classes that have more records than the population has people: the population
    is incomplete, and their own class is then taken for the candidates.
    """

    population: str
    people: int
    journalist: SearchRisk
    marketer: float
    population_unique_records: int  # records that fit one person of the population
    records_not_covered: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "population": self.population,
            "people": self.people,
            "journalist": self.journalist.as_dict(),
            "marketer": self.marketer,
            "population_unique_records": self.population_unique_records,
            "records_not_covered": self.records_not_covered,
        }


def search_risk(sizes: IntArray, candidates: IntArray) -> SearchRisk:
    """Return the risks of records in classes of these *sizes* that hide among so many *candidates*.

    >>> search_risk(np.array([1, 3]), np.array([1, 3])).mean
    0.5
    """
    n_records = int(sizes.sum())
    return SearchRisk(
        highest=1 / int(candidates.min()),
        mean=float((sizes / candidates).sum()) / n_records,
        share_above=tuple(
            (threshold, int(sizes[candidates < float(1 / Fraction(str(threshold)))].sum()) / n_records)
            for threshold in THRESHOLDS
        ),
    )


def population_risk(name: str, people: int, sizes: IntArray, candidates: IntArray) -> PopulationRisk:
    """Return the risks of classes of these *sizes* that fit so many people of a population."""
    fitting = np.maximum(sizes, candidates)
    risk = search_risk(sizes, fitting)
    return PopulationRisk(
        population=name,
        people=people,
        journalist=risk,
        marketer=risk.mean,  # the sum of f / F over classes, per record
        population_unique_records=int(((sizes == 1) & (candidates == 1)).sum()),
        records_not_covered=int(sizes[candidates < sizes].sum()),
    )

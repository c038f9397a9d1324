"""Special uniques of a table, in names and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shoal.arrays import IntArray
from shoal.auditing.partition import CodedColumn
from shoal.progress import Progress
from shoal.risk.disclosure import disclosure, record_disclosure
from shoal.risk.special import MinimalSet, SpecialUniques, special_uniques

ABOVE = (0.1, 0.3, 0.5)  # chances of which it is told how many records exceed them


@dataclass(frozen=True, slots=True)
class DisclosureRisk:
    """How likely somebody of the population who matches one unique record is the person it is about."""

    chance: float  # over all unique records
    highest: float | None  # of a record, by its score; None for more attributes than that is defined for
    records_above: tuple[tuple[float, int], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        above = {f"{chance:g}": records for chance, records in self.records_above}
        return {"dis": self.chance, "dis_suda_highest": self.highest, "dis_suda_records_above": above}


@dataclass(frozen=True, slots=True)
class SpecialRisk:
    """Which attributes single records out: minimal sets, and what each attribute adds to the scores."""

    largest: int
    unique_records: int
    by_size: tuple[int, ...]  # records by the size of their smallest set, from 1; last, those of larger sets only
    sets: tuple[MinimalSet, ...]  # the highest score first
    score: int
    contributions: tuple[tuple[str, float], ...]  # the highest first
    disclosure: DisclosureRisk | None  # if the table is a sample

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "largest_set": self.largest,
            "unique_records": self.unique_records,
            "records_by_smallest_set": {str(size + 1): count for size, count in enumerate(self.by_size[:-1])},
            "records_of_larger_sets": self.by_size[-1],
            "score": self.score,
            "contributions": dict(self.contributions),
            "sets": [
                {"attributes": list(one.attributes), "records": one.records, "score_share": one.score / self.score}
                for one in self.sets
            ],
            "disclosure": None if self.disclosure is None else self.disclosure.as_dict(),
        }


def special_risk(
    columns: Sequence[CodedColumn], records: IntArray, largest: int, fraction: float | None, progress: Progress
) -> SpecialRisk:
    """Find the minimal sets of up to *largest* attributes that single records out."""
    codes = {column.name: column.codes for column in columns}
    found = special_uniques(codes, records, largest=largest, progress=progress)
    return SpecialRisk(
        largest=found.largest,
        unique_records=int(found.unique.sum()),
        by_size=found.by_size(),
        sets=found.sets,
        score=found.score,
        contributions=tuple(sorted(found.contributions.items(), key=lambda entry: -entry[1])),
        disclosure=None if fraction is None else _disclosure(found, fraction),
    )


def _disclosure(found: SpecialUniques, fraction: float) -> DisclosureRisk:
    chance = disclosure(int(found.unique.sum()), found.pairs, fraction)
    chances = record_disclosure(found, fraction)
    if chances is None:
        return DisclosureRisk(chance, None, ())
    above = tuple((limit, int((chances > limit).sum())) for limit in ABOVE)
    return DisclosureRisk(chance, float(chances.max()), above)

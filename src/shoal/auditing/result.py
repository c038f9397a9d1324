"""What an audit found: names of columns and counts, never a record's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from shoal.auditing.columns import ColumnRisk, MissingValues
from shoal.auditing.requirements import ModelVerdict, SensitiveRisk
from shoal.auditing.risks import PopulationRisk, SearchRisk
from shoal.auditing.singling import SetRisk
from shoal.auditing.special import SpecialRisk
from shoal.findings import Finding
from shoal.risk.population import PopulationUniqueness
from shoal.risk.units import HouseholdRisk, PersonRisk


@dataclass(frozen=True, slots=True)
class Audit:
    """The risk of publishing a table as it is, identifiers left out.

    Where the policy names persons, these are counted once in each class instead of their records: by searchers, models
    of sizes and populations, sets of attributes and estimates. Class sizes, models of values and columns count records.
    """

    source: str
    rows: int  # of the source
    records: int  # of them, those that the policy does not drop
    missing: Literal["category", "drop"]
    missing_values: tuple[MissingValues, ...]
    quasi: tuple[str, ...]
    classes: int
    smallest_class: int  # records
    unique_records: int
    class_sizes: tuple[dict[str, int], ...]
    prosecutor: SearchRisk
    marketer: float
    populations: tuple[PopulationRisk, ...]
    models: tuple[ModelVerdict, ...]
    sensitive: tuple[SensitiveRisk, ...]
    sets: tuple[SetRisk, ...]  # those that single out most first
    threshold: float
    minimal_sets: tuple[SetRisk, ...]
    fastest_order: tuple[SetRisk, ...]
    columns: tuple[ColumnRisk, ...]
    special: SpecialRisk
    uniqueness: PopulationUniqueness | None  # if the table is a sample
    persons: PersonRisk | None  # if the policy names them
    households: HouseholdRisk | None
    findings: tuple[Finding, ...] = ()  # what no promise covers, high ones first
    not_applied: tuple[str, ...] = ()  # what the policy would change: columns with techniques, "sample"

    @property
    def k(self) -> int:
        """The k that the table reaches: people of its smallest class."""
        return self.smallest_class if self.persons is None else self.persons.smallest_class

    @property
    def unique_share(self) -> float:
        """Share of records that no other shares its quasi values with."""
        return self.unique_records / self.records

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be changed in the policy before publishing."""
        found = [column.warning for column in self.columns if column.warning is not None]
        by_records = [verdict.model.name for verdict in self.models if verdict.by_records]
        if by_records:
            found.append(f"{', '.join(by_records)} count records, not people, and may look better than they are")
        if self.not_applied:
            found.append(
                f"the policy changes the table first ({', '.join(self.not_applied)}), and this is about the table as "
                "it is; what is left after that, shoal attack measures"
            )
        return tuple(found)

    @property
    def headline(self) -> str:
        """The audit in one sentence."""
        if self.persons is not None:
            lone, every = self.persons.lone_persons, self.persons.persons
            return (
                f"{lone:,} of {every:,} people ({lone / every:.1%}) are alone with a record's values of "
                f"{', '.join(self.quasi)}."
            )
        return (
            f"{self.unique_records:,} of {self.records:,} people ({self.unique_share:.1%}) are unique on "
            f"{', '.join(self.quasi)}."
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from shoal.notebook.audit import audit_html

        return audit_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        journalist: dict[str, Any] = {"upper_bound": self.prosecutor.as_dict()}
        return {
            "headline": self.headline,
            "warnings": list(self.warnings),
            "source": self.source,
            "rows": self.rows,
            "records": self.records,
            "missing": {"policy": self.missing, "columns": [column.as_dict() for column in self.missing_values]},
            "quasi": list(self.quasi),
            "classes": self.classes,
            "k": self.k,
            "unique_records": self.unique_records,
            "unique_share": self.unique_share,
            "class_sizes": list(self.class_sizes),
            "prosecutor": self.prosecutor.as_dict(),
            "journalist": {risk.population: risk.as_dict() for risk in self.populations} or journalist,
            "marketer": self.marketer,
            "models": [verdict.as_dict() for verdict in self.models],
            "sensitive": [risk.as_dict() for risk in self.sensitive],
            "sets": [risk.as_dict() for risk in self.sets],
            "minimal_sets": {
                "unique_share_above": self.threshold,
                "sets": [risk.as_dict() for risk in self.minimal_sets],
            },
            "fastest_order": [risk.as_dict() for risk in self.fastest_order],
            "columns": [column.as_dict() for column in self.columns],
            "special_uniques": self.special.as_dict(),
            "population_uniqueness": None if self.uniqueness is None else self.uniqueness.as_dict(),
            "persons": None if self.persons is None else self.persons.as_dict(),
            "households": None if self.households is None else self.households.as_dict(),
            "findings": [finding.as_dict() for finding in self.findings],
        }

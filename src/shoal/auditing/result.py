"""What an audit found: names of columns and counts, never a record's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from shoal.auditing.columns import ColumnRisk, MissingValues
from shoal.auditing.requirements import ModelVerdict, SensitiveRisk
from shoal.auditing.risks import PopulationRisk, SearchRisk
from shoal.auditing.singling import SetRisk


@dataclass(frozen=True, slots=True)
class Audit:
    """The risk of publishing a table as it is, identifiers left out."""

    source: str
    rows: int  # of the source
    records: int  # of them, those that the policy does not drop
    missing: Literal["category", "drop"]
    missing_values: tuple[MissingValues, ...]
    quasi: tuple[str, ...]
    classes: int
    smallest_class: int  # the k that the table reaches
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

    @property
    def unique_share(self) -> float:
        """Share of records that no other shares its quasi values with."""
        return self.unique_records / self.records

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be changed in the policy before publishing."""
        return tuple(column.warning for column in self.columns if column.warning is not None)

    @property
    def headline(self) -> str:
        """The audit in one sentence."""
        return (
            f"{self.unique_records:,} of {self.records:,} people ({self.unique_share:.1%}) are unique on "
            f"{', '.join(self.quasi)}."
        )

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
            "k": self.smallest_class,
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
        }

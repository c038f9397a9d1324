"""The risk of publishing a table as it is: see ``docs/audit.md``."""

from __future__ import annotations

from shoal.auditing.auditing import audit
from shoal.auditing.requirements import ModelVerdict, SensitiveRisk
from shoal.auditing.result import Audit, ColumnRisk, MissingValues, PopulationRisk, SearchRisk, SpecialRisk
from shoal.auditing.singling import SetRisk

__all__ = [
    "Audit",
    "ColumnRisk",
    "MissingValues",
    "ModelVerdict",
    "PopulationRisk",
    "SearchRisk",
    "SensitiveRisk",
    "SetRisk",
    "SpecialRisk",
    "audit",
]

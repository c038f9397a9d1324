"""The risk of publishing a table as it is: see ``docs/audit.md``."""

from __future__ import annotations

from shoal.auditing.auditing import audit
from shoal.auditing.columns import ColumnRisk, MissingValues
from shoal.auditing.requirements import ModelVerdict, SensitiveRisk
from shoal.auditing.result import Audit
from shoal.auditing.risks import PopulationRisk, SearchRisk
from shoal.auditing.singling import SetRisk
from shoal.auditing.special import SpecialRisk

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

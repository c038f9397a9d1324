"""The risk of publishing a table as it is: see ``docs/audit.md``."""

from __future__ import annotations

from shoal.audit.auditing import audit
from shoal.audit.columns import ColumnRisk, MissingValues
from shoal.audit.requirements import ModelVerdict, SensitiveRisk
from shoal.audit.result import Audit
from shoal.audit.risks import PopulationRisk, SearchRisk
from shoal.audit.singling import SetRisk

__all__ = [
    "Audit",
    "ColumnRisk",
    "MissingValues",
    "ModelVerdict",
    "PopulationRisk",
    "SearchRisk",
    "SensitiveRisk",
    "SetRisk",
    "audit",
]

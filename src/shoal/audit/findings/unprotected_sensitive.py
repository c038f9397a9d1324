"""Sensitive columns that no model covers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity
from shoal.models.base import ValueModel


class UnprotectedSensitive(Check):
    """A model of values holds for each sensitive column, or for the one it names; joint values are not each value."""

    name: ClassVar[str] = "unprotected-sensitive"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Find the columns without such a model; synthetic rows are differentially private in all columns."""
        covering = [set(model.attributes) for model in table.models if isinstance(model, ValueModel)]
        for name in () if table.form == "synthetic" else table.names("sensitive"):
            if not any(not named or named == {name} for named in covering):
                jointly = " by itself (a model covers it only together with others)" if any(covering) else ""
                yield self.found(
                    (name,),
                    f"{name} is sensitive, and no model of the policy covers it{jointly}: how evenly its values are "
                    "spread within classes was neither planned nor checked.",
                    f"Add a model of values for {name}, such as distinct-l-diversity or t-closeness.",
                )

"""A release about which nothing is promised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity


class NoPromise(Check):
    """No privacy model holds and no differential privacy is claimed."""

    name: ClassVar[str] = "no-promise"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Find a policy without models; synthetic rows are differentially private."""
        if not table.models and table.form != "synthetic":
            yield self.found(
                (),
                "Nothing is promised: the policy has no privacy model, so nothing was planned or verified that keeps "
                "people from being found in this table.",
                "Add a model under privacy, such as k-anonymity, and a method that reaches it.",
            )

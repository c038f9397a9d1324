"""Labels of sensitive values that can be decoded by whoever knows how they were chosen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity


class DecodableLabels(Check):
    """Where only records of frequent values are generalized, a label of a class often stands for one value alone."""

    name: ClassVar[str] = "decodable-labels"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Count the records under labels that are not defended."""
        made = table.publication
        if made is None or made.policy.method.defends_labels:
            return
        for name, records in made.generalized_sensitive().items():
            yield self.found(
                (name,),
                f"{records:,} of {made.n_rows:,} records ({records / made.n_rows:.1%}) publish a label instead of a "
                "value, and the labels are not defended: the method generalizes records of the most frequent values "
                "alone, so that whoever knows the method can infer most values behind a label.",
                "Remove defend: false from the method sweep.",
            )

"""Classes in which everybody has the same sensitive value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity


class OneValueClasses(Check):
    """A class that publishes a single value of a sensitive column tells it of everybody who is known to be in it.

    Machanavajjhala and others call it the homogeneity attack. Labels that stand for several values are no value.
    """

    name: ClassVar[str] = "one-value-classes"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Count the records of such classes or buckets, column by column."""
        rows = table.rows
        groups = {"buckets": "buckets", "values": "groups of equal quasi-identifiers"}.get(table.form, "classes")
        for name in rows.sensitive:
            count = rows.one_value(name)
            if count.n:
                yield self.found(
                    (name,),
                    f"{count} of {rows.n_rows:,} records ({count.n / rows.n_rows:.1%}) are in {groups} in which all "
                    f"records have the same value of {name}: whoever knows a person's quasi-identifiers knows it.",
                    f"Anonymize with a model of values for {name}, such as distinct-l-diversity with l of at least 2.",
                )

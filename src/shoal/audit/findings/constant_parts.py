"""Buckets of a sliced table in which the parts of a record can be put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity


class ConstantParts(Check):
    """Where only one part of a bucket has several quasi values, every combination that the bucket forms is a record.

    Buckets whose quasi values are all equal are classes in the usual sense, and no finding. Nor are tables of which one
    part has all quasi attributes, as anatomy makes them: those publish the combinations as they are, and say so.
    """

    name: ClassVar[str] = "constant-parts"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Count the records of such buckets."""
        from shoal.release.forms.slices import SlicedPublication

        made = table.publication
        if not isinstance(made, SlicedPublication):
            return
        linked, n_records = made.plan.linked_records(made.encoding.problem.cells.counts), int(made.plan.sizes.sum())
        if linked:
            yield self.found(
                (),
                f"{linked:,} of {n_records:,} records ({linked / n_records:.1%}) are in buckets in which only one part "
                "has several quasi values: there each combination of all quasi values is that of a person in the "
                "table, as if it had not been cut into parts.",
                "Use cut_by: part, a larger bucket_size, the grouping random or gathered, or other parts.",
            )

"""People with several records, where records are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity
from shoal.audit.findings.counting import KeyCounts, hash_column
from shoal.sources.base import layers
from shoal.sources.columns import is_flat

MOST_RECORDS = 50  # of a value on average; one that is more frequent names a place rather than a person


class RepeatedPeople(Check):
    """An identifier has the same value in several records, and the policy does not say that people are counted.

    An identifier whose values have more than 50 records each on average, as a hospital's name has, is told as an
    information only: it need not be about people.
    """

    name: ClassVar[str] = "repeated-people"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Find identifiers that repeat, in one pass over the source."""
        if table.given is None or table.given[0].units or not (table.models or table.form == "synthetic"):
            return
        policy, *_, given = table.given[0], *layers(table.given[1])
        names = [name for name in policy.names("identifier") if name in given.schema.names]
        names = [name for name in names if is_flat(given.schema.field(name).type)]
        keys, records = {name: KeyCounts() for name in names}, dict.fromkeys(names, 0)
        for batch in given.batches(names) if names else ():
            for name, column in zip(names, batch.columns, strict=True):
                hashes = hash_column(column.drop_null())
                keys[name].add(hashes, hashes)
                records[name] += len(hashes)
        for name in names:
            different = keys[name].distinct()
            if keys[name].repeats:
                yield self.found(
                    (name,),
                    f"Column {name!r}, an identifier, has {different} different values in {records[name]:,} records. "
                    "If these identify people, some have several records, and what is promised about records need "
                    "not hold for people: k records in a class may belong to fewer than k people.",
                    f"Name {name!r} as unit (or household), so that people are counted; take one record per person by "
                    "sample: {one_per: unit}; or accept this if the column does not identify people.",
                    None if records[name] <= MOST_RECORDS * different.n else "info",
                )

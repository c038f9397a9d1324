"""Published columns that make people unique, alone or together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from shoal.audit.findings.base import Check, Finding, PublishedTable, Severity
from shoal.audit.findings.counting import Count, RowCounts
from shoal.core.wording import listed

SHARE = 0.01  # of the records: where more of them are unique by columns, these are isolating
_FIX = (
    "Round or code the values (a technique), give the column the role quasi, or leave it out (role identifier); accept "
    "the finding if nobody outside can know these values."
)


class IsolatingColumns(Check):
    """Values that no model looks at and that only one record has: whoever knows them finds the record.

    Insensitive columns are judged alone, together, and together with the classes; sensitive ones alone. Of columns
    that only isolate together, the smallest set that does is named.
    """

    name: ClassVar[str] = "isolating-columns"
    severity: ClassVar[Severity] = "high"

    def look(self, table: PublishedTable) -> Iterable[Finding]:
        """Find columns by which more than 1% of the records are unique; fewer are a medium finding."""
        rows = table.rows
        alone = {name: rows.unique((name,)) for name in (*rows.free, *rows.sensitive)}
        isolating = {name for name, count in alone.items() if count.n > SHARE * rows.n_rows}
        for name, count in alone.items():
            if name in isolating or (count.n and name in rows.free):
                kind = "sensitive value" if name in rows.sensitive else "value"
                yield self.found(
                    (name,),
                    f"{_unique(count, rows)} by their published {kind} of {name}: whoever knows this {kind} of a "
                    "person finds the record.",
                    _FIX,
                    "high" if name in isolating else "medium",
                )
        for part in rows.joint:
            yield from self._together(rows, part, isolating)
        if rows.free and not isolating & set(rows.free) and table.form == "classes":
            yield from self._with_classes(rows)

    def _together(self, rows: RowCounts, part: tuple[str, ...], isolating: set[str]) -> Iterator[Finding]:
        """Find columns of which none isolates, but several do; sets with one that isolates say nothing new."""
        others, most = tuple(name for name in part if name not in isolating), SHARE * rows.n_rows
        if len(others) < 2 or rows.unique(part).n <= most or (others != part and not rows.searchable):
            return
        smallest, count, proven = rows.smallest_set(others, most)
        if count.n > most:
            known = f"no smaller set isolates more than {SHARE:.0%}" if proven else "fewer of them may suffice"
            yield self.found(
                smallest,
                f"{_unique(count, rows)} by their values of {listed(smallest)} together; {known}.",
                _FIX,
            )

    def _with_classes(self, rows: RowCounts) -> Iterator[Finding]:
        """Find how many records are unique for somebody who knows the quasi-identifiers and the free columns."""
        count = rows.unique((*rows.classes, *rows.free))
        if count.n > SHARE * rows.n_rows:
            yield self.found(
                rows.free,
                f"{_unique(count, rows)} by their class together with {listed(rows.free)}: the promises about "
                f"classes protect them only from people who do not know {listed(rows.free)}.",
                _FIX,
                "medium",
            )


def _unique(count: Count, rows: RowCounts) -> str:
    share = count.n / rows.n_rows
    return f"{count} of {rows.n_rows:,} records ({'less than 0.1%' if share < 0.001 else f'{share:.1%}'}) are unique"

"""Columns that are not quasi attributes and yet single people out, and what is missing where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.auditing.partition import CodedColumn
from shoal.auditing.raw import RawTable
from shoal.policy import Policy, Role
from shoal.progress import Progress

ALONE = 0.05  # share of records that a column by itself makes unique
JOINED = 0.5  # share of the records hidden by the quasi attributes that it makes unique together with them


@dataclass(frozen=True, slots=True)
class MissingValues:
    """Records of the source without a value in one column."""

    column: str
    records: int
    share: float

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {"column": self.column, "records": self.records, "share": self.share}


@dataclass(frozen=True, slots=True)
class ColumnRisk:
    """What a column that is no quasi attribute singles out, by itself and together with the quasi attributes."""

    column: str
    role: Role
    values: int
    unique_records: int
    unique_share: float
    unique_with_quasi: int
    newly_unique_share: float  # of the records that are not unique by the quasi attributes
    warning: str | None

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON can hold it."""
        return {
            "column": self.column,
            "role": self.role,
            "values": self.values,
            "unique_records": self.unique_records,
            "unique_share": self.unique_share,
            "unique_with_quasi": self.unique_with_quasi,
            "newly_unique_share": self.newly_unique_share,
            "warning": self.warning,
        }


def column_risks(raw: RawTable, policy: Policy, progress: Progress) -> tuple[ColumnRisk, ...]:
    """Look at every sensitive and insensitive column; identifiers are not published and not read."""
    names = raw.counted.columns[raw.n_quasi :]
    risks = []
    with progress.step("other columns", len(names), unit="columns") as step:
        for number, name in enumerate(names, start=raw.n_quasi):
            risks.append(_column_risk(raw, raw.column(number), policy.attributes[name].role))
            step.advance(1)
    return tuple(risks)


def _column_risk(raw: RawTable, column: CodedColumn, role: Role) -> ColumnRisk:
    of_value = np.bincount(column.codes, weights=raw.records, minlength=column.domain)
    unique, n_records = int((of_value == 1).sum()), raw.n_records
    _, joined = raw.classes().count(column)
    before = int((raw.sizes == 1).sum())
    hidden = n_records - before
    newly = (joined - before) / hidden if hidden else 0.0
    share = unique / n_records
    return ColumnRisk(
        column=column.name,
        role=role,
        values=int((of_value[1:] > 0).sum()),
        unique_records=unique,
        unique_share=share,
        unique_with_quasi=joined,
        newly_unique_share=newly,
        warning=_warning(column.name, role, unique, share, newly, hidden),
    )


def _warning(name: str, role: Role, unique: int, share: float, newly: float, hidden: int) -> str | None:
    if share >= ALONE:
        found = f"column {name!r} alone makes {unique:,} records ({share:.1%}) unique"
    elif role == "insensitive" and newly >= JOINED:
        found = f"column {name!r} makes {newly:.1%} of the {hidden:,} records unique that the quasi attributes hide"
    else:
        return None
    if role == "insensitive":
        return (
            f"{found}, and it would be published as it is: whoever may know it needs nothing else; make it quasi "
            "with a taxonomy, or an identifier"
        )
    return f"{found}: whoever may know it needs nothing else; coarsen it, or make it quasi"


def missing_values(raw: RawTable) -> tuple[MissingValues, ...]:
    """Count missing values in every column that was read, in all records of the source."""
    found = []
    for number, name in enumerate(raw.counted.columns):
        records = int(raw.counted.run.counts[raw.counted.codes(number) == 0].sum())
        if records:
            found.append(MissingValues(name, records, records / raw.counted.n_rows))
    return tuple(found)

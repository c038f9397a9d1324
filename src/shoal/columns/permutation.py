"""Permutation: the values of a column in random order, and what every move of values between rows shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.columns.base import NumberDomain, Technique, Treatment
from shoal.columns.verdicts import SUBSTITUTION
from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.errors import InputError, PolicyError
from shoal.core.kernels import same_rows
from shoal.core.randomness import Chance
from shoal.core.wording import code, join_words
from shoal.sources.base import Source

_MANY_ALONE = 0.05  # of the rows


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """A column as codes, and which rows have the same values in some others."""

    values: pa.Array  # value i has code i + 1; 0 is missing
    codes: CodeArray  # (n_rows,)
    groups: CodeArray  # (n_rows,)
    n_groups: int


def read_codes(source: Source, column: str, within: Sequence[str]) -> CodedRows:
    """Read a column and those it is grouped by in one pass; missing is a value like others here.

    Groups of one record each are refused: no value could be moved, and the release would say that they were.
    """
    names = [column, *within]
    dictionaries = [GrowingDictionary() for _ in names]
    parts: list[list[CodeArray]] = [[] for _ in names]
    for batch in source.batches(names, dictionary=names):
        for name, dictionary, part in zip(names, dictionaries, parts, strict=True):
            indices, values = factor_column(batch.column(name))
            part.append(dictionary.codes(values)[indices].astype(np.int32))  # -1 points to the last: missing
    codes, *others = (np.concatenate(part) for part in parts)
    groups, n_groups = np.zeros(len(codes), dtype=np.int32), 1
    if others:
        first, groups = same_rows(others)
        n_groups = len(first)
        if n_groups == len(codes):
            raise PolicyError(
                f"column {column!r}: every record is alone in its group, so that no value can be moved; let records "
                f"agree in fewer columns than {', '.join(map(repr, within))}"
            )
    return CodedRows(dictionaries[0].values, codes, groups, n_groups)


@dataclass(frozen=True, slots=True, eq=False)
class MovedTreatment(Treatment):
    """Shows each row the value that was moved there."""

    values: pa.Array = field(repr=False)
    codes: CodeArray = field(repr=False)  # (n_rows,) after the move
    found: dict[str, int]

    @classmethod
    def of(
        cls, column: str, kind: pa.DataType, rows: CodedRows, origin: IntArray, said: dict[str, Any]
    ) -> MovedTreatment:
        """Move the value of row ``origin[i]`` to row i."""
        moved = rows.codes[origin]
        found = {
            "groups": rows.n_groups,
            "rows_alone_in_group": int((np.bincount(rows.groups, minlength=rows.n_groups) == 1).sum()),
            "rows_with_their_own_value": int((moved == rows.codes).sum()),
        }
        return cls(column, kind, said, rows.values, moved, found)

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return the rows' new values; the old ones are not looked at."""
        codes = self.codes[first_row : first_row + len(column)]
        if len(codes) < len(column):
            raise InputError(f"column {self.column!r} changed while it was being read; nothing was published")
        return self.values.take(pa.array(codes - 1, mask=codes == 0))

    def findings(self) -> dict[str, int]:
        """Return how many rows kept their value, by chance or for want of others in their group."""
        return self.found

    def warnings(self) -> tuple[str, ...]:
        """Say that many rows have nobody to exchange their value with."""
        alone = self.found["rows_alone_in_group"]
        if alone <= _MANY_ALONE * len(self.codes):
            return ()
        told = (
            f"column {self.column!r}: {alone:,} of {len(self.codes):,} records are alone in their group and keep their "
            f"value, so that {self.said['technique']} hides less than it says; let records agree in fewer columns"
        )
        return (told,)


class Permutation(Technique):
    """Every row gets the value of a random row of its group, each value exactly once: all orders are equally likely."""

    name = "permutation"
    title = "values dealt out anew between the records of a group"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    within: tuple[str, ...] = Field(
        default=(), description="columns in which records must agree to exchange values; none: the whole table"
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        """Say among whom values were permuted."""
        return (
            f"values were permuted{explain_groups(entry)}. No value was made up, but in a row it is as good as "
            "always another person's."
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns that make groups."""
        return self.within

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        """Read the column once and deal its values out."""
        rows = read_codes(source, column, self.within)
        _, places = kernels.group_items(rows.groups, rows.n_groups)
        origin = np.empty(len(rows.codes), dtype=np.int64)
        origin[places] = chance.order_within(rows.groups, rows.n_groups)
        kind = source.schema.field(column).type
        return MovedTreatment.of(column, kind, rows, origin, self.public())


def explain_groups(entry: Mapping[str, Any]) -> str:
    """Say among which records values were moved."""
    if not entry["within"]:
        return " among all records"
    return f" among records that agree in {join_words([code(name) for name in entry['within']])}"

"""Permutation and swapping: the values of a column are moved between rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.columns.base import SUBSTITUTION, NumberDomain, Technique, Trace, Treatment
from shoal.columns.row_random import uniform
from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.dictionaries import encode_columns
from shoal.core.errors import InputError, PolicyError
from shoal.core.kernels import same_rows
from shoal.core.randomness import Chance
from shoal.core.wording import code, join_words
from shoal.sources.base import Source

_MANY_ALONE = 0.05  # of the rows


@dataclass(frozen=True, slots=True, eq=False)
class CodedRows:
    """A column as codes, and the groups of rows that agree in some other columns."""

    column: str
    values: pa.Array  # value i has code i + 1; 0 is missing
    codes: CodeArray  # (n_rows,)
    groups: CodeArray  # (n_rows,)
    n_groups: int


def read_codes(source: Source, column: str, within: Sequence[str]) -> CodedRows:
    """Read a column and the columns that define groups in one pass; missing values are ordinary values here.

    If all groups have a single record, no value could be moved, and the column is refused.
    """
    names = [column, *within]
    dictionaries, (codes, *others) = encode_columns(source.batches(names, dictionary=names))
    groups, n_groups = np.zeros(len(codes), dtype=np.int32), 1
    if others:
        first, groups = same_rows(others)
        n_groups = len(first)
        if n_groups == len(codes):
            raise PolicyError(
                f"column {column!r}: every record is alone in its group, so no value can be moved; let records "
                f"agree in fewer columns than {', '.join(map(repr, within))}"
            )
    return CodedRows(column, dictionaries[0].values, codes, groups, n_groups)


@dataclass(frozen=True, slots=True, eq=False)
class MovedTreatment(Treatment):
    """Shows each row the value that was moved there."""

    values: pa.Array = field(repr=False)
    codes: CodeArray = field(repr=False)  # (n_rows,) after the move
    found: dict[str, int]

    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return the new values of the rows, which do not depend on the old ones."""
        codes = self.codes[first_row : first_row + len(column)]
        if len(codes) < len(column):
            raise InputError(f"column {self.column!r} changed while it was being read; nothing was published")
        return self.values.take(pa.array(codes - 1, mask=codes == 0))

    def findings(self) -> dict[str, int]:
        return self.found

    def warnings(self) -> tuple[str, ...]:
        alone = self.found.get("rows_alone_in_group", 0)
        if alone <= _MANY_ALONE * len(self.codes):
            return ()
        warning = (
            f"column {self.column!r}: {alone:,} of {len(self.codes):,} records are alone in their group and keep "
            f"their value despite {self.said['technique']}; let records agree in fewer columns"
        )
        return (warning,)


class MovingTechnique(Technique):
    """A technique that moves values between the records of a group."""

    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    @abstractmethod
    def find_origins(self, rows: CodedRows, chance: Chance) -> IntArray:
        """Return (n_rows,) the row whose value each row gets."""

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> MovedTreatment:  # noqa: ARG002
        rows = read_codes(source, column, self.needs)
        moved = rows.codes[self.find_origins(rows, chance)]
        found = {
            "groups": rows.n_groups,
            "rows_alone_in_group": int((np.bincount(rows.groups, minlength=rows.n_groups) == 1).sum()),
            "rows_with_their_own_value": int((moved == rows.codes).sum()),
        }
        return MovedTreatment(column, source.schema.field(column).type, self.public(), rows.values, moved, found)


class Permutation(MovingTechnique):
    """The values of each group of rows are permuted; all permutations are equally likely."""

    name = "permutation"
    title = "values permuted between the records of a group"

    within: tuple[str, ...] = Field(
        default=(), description="columns in which records must agree to exchange values; none: the whole table"
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        return (
            f"values were permuted{explain_groups(entry)}. All values occur in the source, but almost every row has "
            "another person's."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Trace(moved=1.0, within=tuple(entry.get("within", ())))

    @property
    def needs(self) -> tuple[str, ...]:
        return self.within

    def find_origins(self, rows: CodedRows, chance: Chance) -> IntArray:
        _, places = kernels.group_items(rows.groups, rows.n_groups)
        origin = np.empty(len(rows.codes), dtype=np.int64)
        origin[places] = chance.order_within(rows.groups, rows.n_groups)
        return origin


def explain_groups(entry: Mapping[str, Any]) -> str:
    if not entry["within"]:
        return " among all records"
    return f" among records that agree in {join_words([code(name) for name in entry['within']])}"


class Swapping(MovingTechnique):
    """A random share of the records of each group exchange their values in random pairs.

    Dalenius and Reiss, "Data-swapping: a technique for disclosure control", JSPI 6(1), 1982.
    """

    name = "swapping"
    title = "values exchanged between pairs of records of a group"

    share: float = Field(gt=0, le=1, description="share of the records that take part, on average")
    within: tuple[str, ...] = Field(
        default=(), description="columns in which records must agree to exchange values; none: the whole table"
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        return (
            f"about {100 * entry['share']:.6g}% of the records exchanged their values in pairs{explain_groups(entry)}. "
            "All values occur in the source, but a row may have another person's."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Trace(moved=float(entry["share"]), within=tuple(entry.get("within", ())))

    @property
    def needs(self) -> tuple[str, ...]:
        return self.within

    def find_origins(self, rows: CodedRows, chance: Chance) -> IntArray:
        """Pair neighbours in a random order of each group, beginning with the first.

        The number of pairs is rounded up or down at random, which gives small groups the same share as large ones.
        """
        order = chance.order_within(rows.groups, rows.n_groups)
        sizes = np.bincount(rows.groups, minlength=rows.n_groups)
        chances = uniform(chance.keys(rows.n_groups)) - 2.0**-53
        pairs = np.minimum(np.floor(self.share * sizes / 2 + chances).astype(np.int64), sizes // 2)  # (n_groups,)
        start = np.cumsum(sizes) - sizes
        group = np.repeat(np.arange(rows.n_groups), sizes)
        place = np.arange(len(order)) - start[group]  # (n_rows,) in the order of the group
        partner = np.where(place < 2 * pairs[group], place ^ 1, place)
        origin = np.empty(len(order), dtype=np.int64)
        origin[order] = order[start[group] + partner]
        return origin

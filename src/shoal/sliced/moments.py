"""What the entries of a part count for in an answer: expected values and squares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import BoolArray, CodeArray, FloatArray
from shoal.errors import UsageError
from shoal.sliced.matching import shares
from shoal.sliced.query import Query
from shoal.sliced.table import SlicedPart, SlicedTable, column_codes, numbered
from shoal.taxonomies.parse import decimal_numbers


@dataclass(frozen=True, slots=True, eq=False)
class PartMoments:
    """For each distinct value of a part: what one of its entries adds, as a factor of the answer, in expectation.

    Only where a label may or may not meet a condition is ``square`` above the square of ``mean``.
    """

    part: int
    mean: FloatArray  # (n_codes,)
    square: FloatArray  # (n_codes,)
    counts: BoolArray  # (n_codes,) whether entries with this value are asked for at all
    group: CodeArray  # (n_codes,) number of the combination of attributes in `by`
    n_groups: int
    groups: pa.Table  # (n_groups rows), these combinations

    def within(self, group: int) -> PartMoments:
        """Return the same for one group alone."""
        there = self.group == group
        only = np.where(there, self.mean, 0.0), np.where(there, self.square, 0.0), self.counts & there
        return PartMoments(self.part, *only, self.group, self.n_groups, self.groups)


def part_moments(
    table: SlicedTable, parts: tuple[int, ...], entries: Mapping[str, Any], query: Query
) -> list[PartMoments]:
    """Return the factors of all parts; an attribute in several of them is asked about in the first."""
    asked: set[str] = set()
    found = []
    for number in parts:
        part = table.parts[number]
        names = [name for name in part.names if name in query.attributes and name not in asked]
        asked |= set(names)
        found.append(_moments(number, part, names, entries, query))
    return found


def _moments(number: int, part: SlicedPart, names: list[str], entries: Mapping[str, Any], query: Query) -> PartMoments:
    chance = np.ones(part.n_codes)
    for name in names:
        if name in query.where:
            column = part.distinct.column(name).combine_chunks()
            chance = chance * shares(column, name, entries[name], query.where[name])
    mean, square = chance, chance
    if query.sum in names:
        amount = _amounts(part, query.sum, entries[query.sum])
        mean, square = chance * amount, chance * (amount * amount)
    by = {name: part.distinct.column(name) for name in query.by if name in names}
    group, first = numbered([column_codes(column) for column in by.values()], part.n_codes)
    groups = pa.table({name: column.take(pa.array(first)) for name, column in by.items()})
    return PartMoments(number, mean, square, chance > 0, group, len(first), groups)


def _amounts(part: SlicedPart, name: str, entry: Mapping[str, Any]) -> FloatArray:
    """Return (n_codes,) the numbers that are summed; a missing one adds nothing."""
    if "labels" in entry:
        raise UsageError(f"{name!r} is published in ranges, so it cannot be summed; count the records of each range")
    column = part.distinct.column(name).combine_chunks()
    numbers, valid = decimal_numbers(column)
    if not (valid | column.is_null().to_numpy(zero_copy_only=False)).all():
        raise UsageError(f"{name!r} has values that are no numbers, so it cannot be summed")
    return numbers

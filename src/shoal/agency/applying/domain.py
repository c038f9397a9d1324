"""The domain that owners agreed upon: its values as taxonomies, its classes as ranges, and records outside of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.agency.plan_file import AgreedPlan
from shoal.core.arrays import CodeArray
from shoal.core.errors import InputError
from shoal.core.wording import counted_text
from shoal.engines.local import CountedCells
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.construct import from_levels, scale_of
from shoal.taxonomies.scales import Categories, Numbers, index_in
from shoal.taxonomies.tree import Scale, Taxonomy

_EXACT = 2**53  # from here on floating point does not tell neighbours apart
MOST_LISTED = 1_000_000  # values that the labels of an attribute list in all


@dataclass(frozen=True, slots=True, eq=False)
class _NumbersByText(Numbers):
    """Numbers whose values are found by how the plan writes them, as everything else of a plan is."""

    texts: pa.Array = field(kw_only=True)

    def locate(self, values: pa.Array) -> CodeArray:
        """Find each value, as text, among the leaves."""
        return index_in(values, self.texts)


class AgreedValues(TaxonomyBuilder):
    """The values of a plan in its order, each of them a leaf right under the root.

    >>> AgreedValues(values=("9", "10", "40")).build(pa.array([])).label(0, 2)
    '[9, 10]'
    """

    name: ClassVar[str] = "agreed"
    title: ClassVar[str] = "the values of an agency's plan"

    values: tuple[str, ...]

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        """Take the plan's values; the data have no say in it."""
        return from_levels(list(self.values), [], _scale(self.values), declared=True)


def _scale(values: tuple[str, ...]) -> Scale:
    scale = scale_of(values)
    if not isinstance(scale, Numbers):
        return scale
    if np.abs(scale.starts[[0, -1]]).max() >= _EXACT:
        return Categories(pa.array(values, pa.string()))
    told = {each.name: getattr(scale, each.name) for each in fields(Numbers)}
    return _NumbersByText(**told, texts=pa.array(values, pa.string()))


def hulls(agreed: AgreedPlan) -> tuple[CodeArray, CodeArray]:
    """Return (n_classes, n_quasi) the first value of each class and the one after its last, from the plan alone.

    Labels of categories list their values, and many wide ones would list too many: the widest are widened to the
    whole domain then.
    """
    shape = agreed.classes, len(agreed.quasi)
    lo, hi = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    for place, (column, values) in enumerate(zip(agreed.points, agreed.quasi_values, strict=True)):
        first = np.full(agreed.classes, len(values), dtype=np.int32)
        last = np.zeros(agreed.classes, dtype=np.int32)
        np.minimum.at(first, agreed.number, column)
        np.maximum.at(last, agreed.number, column)
        if _scale(values).kind == "category":
            first, last = _listable(first, last, len(values))
        lo[:, place], hi[:, place] = first, last + 1
    return lo, hi


def _listable(first: CodeArray, last: CodeArray, n_values: int) -> tuple[CodeArray, CodeArray]:
    """Widen the widest ranges to all values until the different ones list few enough."""
    distinct, which = np.unique(first.astype(np.int64) * n_values + last, return_inverse=True)
    width = distinct % n_values - distinct // n_values + 1
    order = np.argsort(width, kind="stable")
    widened = np.zeros(len(distinct), dtype=np.bool_)
    widened[order] = np.cumsum(width[order]) > MOST_LISTED
    wide = widened[which.reshape(-1)]
    return np.where(wide, 0, first).astype(np.int32), np.where(wide, n_values - 1, last).astype(np.int32)


def refuse_outside(agreed: AgreedPlan, counted: CountedCells, name: str) -> None:
    """Raise if a record has a value that the plan does not know, or none; tell it by column, in counts."""
    told = list(_outside(agreed, counted))
    if told:
        raise InputError(
            f"{name} has records outside the domain that was agreed upon: {'; '.join(told)}. Correct them, or ask the "
            "agency for a plan whose domain has them; nothing was published"
        )


def _outside(agreed: AgreedPlan, counted: CountedCells) -> Iterator[str]:
    names = (*agreed.quasi, agreed.sensitive)
    for name, known in zip(names, (*agreed.quasi_values, agreed.sensitive_values), strict=True):
        column = counted.columns.index(name)
        records = np.bincount(counted.codes(column), weights=counted.run.counts).astype(np.int64)
        values, used = counted.in_use(column)
        strange = index_in(values, pa.array(known, pa.string())) < 0
        many = int(strange.sum())
        parts = []
        if many:
            share = int(records[np.flatnonzero(used[1:])[strange] + 1].sum())
            parts.append(
                f"{counted_text(share, 'record')} with {counted_text(many, 'value')} that the plan does not have"
            )
        if used[0]:
            parts.append(f"{counted_text(int(records[0]), 'record')} without a value")
        if parts:
            yield f"column {name!r}: {' and '.join(parts)}"

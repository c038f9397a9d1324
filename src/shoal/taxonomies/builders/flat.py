"""A value or nothing: every value right under the root."""

from __future__ import annotations

import datetime
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, field_validator

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.nested import plain_text
from shoal.taxonomies.parse import decimal_numbers, texts
from shoal.taxonomies.scales import Categories
from shoal.taxonomies.tree import Taxonomy


class FlatTaxonomy(TaxonomyBuilder):
    """Each value is published as it is or as ``*``.

    >>> FlatTaxonomy().build(pa.array(["10", "9", "2"])).labels
    ('2', '9', '10', '*')
    """

    name: ClassVar[str] = "flat"
    title: ClassVar[str] = "a value or *"
    shorthand: ClassVar[str | None] = "values"

    values: tuple[str | bool | int | float | datetime.date, ...] | None = Field(
        default=None, description="all values that may occur, in order; without it, those of the data, sorted"
    )

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: tuple[object, ...] | None) -> tuple[object, ...] | None:
        if values is None:
            return None
        if not values:
            raise TaxonomyError("flat taxonomy: the list of values is empty; leave it out to take those of the data")
        seen: set[str] = set()
        for text in map(plain_text, values):
            if text in seen:
                raise TaxonomyError(f"flat taxonomy: the value {text!r} is listed twice")
            seen.add(text)
        return values

    def build(self, values: pa.Array) -> Taxonomy:
        """Take the declared values, or sort the data's: as numbers if all are numbers, else as text."""
        if self.values is not None:
            leaves = pa.array([plain_text(value) for value in self.values], pa.string())
        else:
            leaves = _sorted(pc.drop_null(pc.unique(texts(values))))
        return from_levels(_shown(leaves.to_pylist()), [], Categories(leaves), declared=self.values is not None)


def _sorted(values: pa.Array) -> pa.Array:
    if not len(values):
        raise TaxonomyError("the column has no values to make a taxonomy of: all are missing; drop the column")
    numbers, numeric = decimal_numbers(values)
    by_text = pc.sort_indices(values).to_numpy()
    order = by_text[np.argsort(numbers[by_text], kind="stable")] if numeric.all() else by_text
    return values.take(pa.array(order))


def _shown(values: list[str]) -> list[str]:
    """Put quotes around blank texts, which nobody would see in a published table."""
    blank = [place for place, value in enumerate(values) if not value.strip()]
    taken = set(values) if blank else set()
    for place in blank:
        label = f'"{values[place]}"'
        while label in taken:
            label = f'"{label}"'
        taken.add(label)
        values[place] = label
    return values

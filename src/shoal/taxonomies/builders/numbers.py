"""Whole numbers without a declared domain."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.errors import TaxonomyError
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.parse import whole_numbers
from shoal.taxonomies.scales import Numbers
from shoal.taxonomies.tree import Taxonomy


class NumbersTaxonomy(TaxonomyBuilder):
    """Whole numbers in order; ranges end at cuts between values and are open at the data's ends.

    >>> ages = NumbersTaxonomy().build(pa.array([17, 20, 25, 90]))
    >>> ages.label(0, 2), ages.label(1, 3), ages.label(2, 4), ages.label(1, 2)
    ('<= 24', '[20, 89]', '>= 25', '20')
    """

    name: ClassVar[str] = "numbers"
    title: ClassVar[str] = "whole numbers in order, without declared ends"

    def build(self, values: pa.Array) -> Taxonomy:
        """Make a leaf of each distinct whole number; other values are left outside."""
        numbers, whole = whole_numbers(values)
        points = np.unique(numbers[whole], return_index=True)[0]  # sorts; alone it would hash, and slowly
        if not points.size:
            raise TaxonomyError("the column has no whole number to make a taxonomy of; declare another taxonomy")
        leaves = pa.array(points).cast(pa.string()).to_pylist()
        scale = Numbers(points, points + 1, np.ones(len(points), dtype=bool), derived=True)
        return from_levels(leaves, [], scale, declared=False)

"""Decimals as they are: a leaf for each, and no range of several."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.parse import decimal_numbers
from shoal.taxonomies.scales import Numbers
from shoal.taxonomies.tree import Taxonomy


def single_decimals(values: pa.Array) -> Taxonomy:
    """Make a leaf of each distinct number, for methods that publish values or averages and never a range.

    A range that ends between two of them would tell one, so that no policy can name this taxonomy.

    >>> single_decimals(pa.array([1.5, 0.25, 1.5])).n_leaves
    2
    """
    numbers, valid = decimal_numbers(values)
    points = np.unique(numbers[valid])
    scale = Numbers(points, np.nextafter(points, np.inf), np.ones(len(points), dtype=bool), derived=True)
    return from_levels(pa.array(points).cast(pa.string()).to_pylist(), [], scale, declared=False)

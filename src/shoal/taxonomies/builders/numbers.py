"""Numbers without a declared domain."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.construct import Level, from_levels
from shoal.taxonomies.parse import decimal_numbers, whole_numbers
from shoal.taxonomies.scales import Number, Numbers, interval_label, multiple, multiples
from shoal.taxonomies.tree import Taxonomy

Marks: TypeAlias = NDArray[Any]  # int64 if all numbers are whole, else float64
_MOST_GROUPS = 200  # of the finest width


class NumbersTaxonomy(TaxonomyBuilder):
    """Numbers in groups of round width, of which the outermost are open: no edge is a value of the data.

    Widths are 1 and 5 times a power of ten, each a multiple of the one before.

    >>> ages = NumbersTaxonomy().build(pa.array([17, 20, 21, 25, 32, 90, 91]))
    >>> ages.labels[7:]
    ('[20, 24]', '>= 90', '[20, 29]', '<= 49', '*')
    """

    name: ClassVar[str] = "numbers"
    title: ClassVar[str] = "numbers in groups of round width, without declared ends"

    def build(self, values: pa.Array) -> Taxonomy:
        """Make a leaf of each distinct number, and groups above them; other values are left outside."""
        whole, is_whole = whole_numbers(values)
        decimal, is_decimal = decimal_numbers(values)
        numbers: Marks = decimal[is_decimal] if (is_decimal & ~is_whole).any() else whole[is_whole]
        points: Marks = np.unique(numbers, return_index=True)[0]  # sorts; alone it would hash, and slowly
        if not points.size:
            raise TaxonomyError("the column has no number to make a taxonomy of; declare another taxonomy")
        stops = points + 1 if points.dtype.kind == "i" else np.nextafter(points, np.inf)
        widths = round_widths(points)
        scale = Numbers(points, stops, np.ones(len(points), dtype=bool), derived=True, widths=widths)
        leaves = pa.array(points).cast(pa.string()).to_pylist()
        levels: list[Level] = []
        for width in widths:
            levels.append(_groups(points, width, levels))
        return from_levels(leaves, levels, scale, declared=False)


def round_widths(points: Marks) -> tuple[Number, ...]:
    """Return the widths of groups for sorted numbers, finest first; none where there is nothing to group.

    >>> round_widths(np.array([17, 20, 90]))
    (5, 10, 50)
    """
    spread = float(points[-1]) - float(points[0])
    whole = points.dtype.kind == "i"
    if not 0 < spread < math.inf:
        return ()
    power = math.floor(math.log10(spread)) - 3
    chain = [(factor, power + n) for n in range(5) for factor in (1, 5)]
    widths = [factor * 10**n if n >= 0 else factor / 10**-n for factor, n in chain]
    return tuple(
        width
        for width in widths
        if spread / width <= _MOST_GROUPS
        and (width > 1 or not whole)
        and multiples(points[:1], width)[0] != multiples(points[-1:], width)[0]
    )


def _groups(points: Marks, width: Number, finer: list[Level]) -> Level:
    """Return the groups of one width that hold several numbers, and other ones than groups of a finer level."""
    times = multiples(points, width)
    starts = np.flatnonzero(np.diff(times, prepend=times[0] - 1)).tolist()
    known = {edges for level in finer for edges in zip(level.lo.tolist(), level.hi.tolist(), strict=True)}
    groups = [(lo, hi) for lo, hi in pairwise([*starts, len(points)]) if hi - lo > 1 and (lo, hi) not in known]
    labels = [
        interval_label(
            None if lo == 0 else multiple(int(times[lo]), width),
            None if hi == len(points) else multiple(int(times[lo]) + 1, width),
            whole=points.dtype.kind == "i",
        )
        for lo, hi in groups
    ]
    edges = np.array(groups, dtype=np.int64).reshape(-1, 2)
    return Level(edges[:, 0], edges[:, 1], labels)

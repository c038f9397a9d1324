"""Columns of parts that were generalized: each cell bears the label of the region that it lies in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.encoding import Encoding
from shoal.engines.local import CountedCells
from shoal.errors import PolicyError
from shoal.labels import PublishedColumn
from shoal.publishing.columns import CellColumn
from shoal.slices import Part, SlicedPlan


@dataclass(frozen=True, slots=True, eq=False)
class RegionColumns:
    """The labels of every generalized quasi attribute, and what cells publish of it in each of its parts."""

    labels: Mapping[int, PublishedColumn]  # by the attribute's place
    columns: Mapping[tuple[int, int], CellColumn]  # by that and the part's place

    @classmethod
    def of(cls, counted: CountedCells, encoding: Encoding, plan: SlicedPlan) -> RegionColumns:
        """Write down the labels of the regions that occur."""
        shown = plan.pieces(encoding.problem.cells.counts).cell
        used = {number: _used(part, shown) for number, part in enumerate(plan.parts) if part.lo is not None}
        labels: dict[int, PublishedColumn] = {}
        columns: dict[tuple[int, int], CellColumn] = {}
        for place in sorted({place for number in used for place in plan.parts[number].quasi}):
            holders = [number for number, part in enumerate(plan.parts) if place in part.quasi]
            ranges = [_ranges(plan.parts[number], place, used.get(number)) for number in holders]
            lo, hi = np.concatenate(ranges, axis=1)
            leaves = kernels.occurring(encoding.problem.cells.codes[place][shown])
            label = labels[place] = PublishedColumn.of(encoding.problem.quasi[place], lo, hi, leaves)
            first = 0
            for number in holders:
                of_region = np.full(plan.parts[number].n_values, -1, dtype=np.int32)
                of_region[used[number]] = label.label_of_class[first : first + len(used[number])]
                first += len(used[number])
                of_cell = _at_counted(of_region[plan.parts[number].values], counted, encoding)
                columns[place, number] = CellColumn(of_cell, label.labels)
        return cls(labels, columns)


def _used(part: Part, shown: IntArray) -> IntArray:
    """Return the regions with a published record."""
    occurs = np.zeros(part.n_values, dtype=np.bool_)
    occurs[part.values[shown]] = True
    return np.flatnonzero(occurs)


def _ranges(part: Part, place: int, used: IntArray | None) -> CodeArray:
    """Return (2, n_used) the first leaf of an attribute in each region that occurs, and the one after the last."""
    if part.lo is None or part.hi is None or used is None:
        raise PolicyError(
            "slicing: an attribute is in a generalized part and in another that is not; generalize all parts that "
            "share attributes, or none"
        )
    column = part.quasi.index(place)
    return np.stack([part.lo[used, column], part.hi[used, column]])


def _at_counted(of_cell: CodeArray, counted: CountedCells, encoding: Encoding) -> CodeArray:
    """Return (n_counted_cells,) what is given for the problem's cells; -1 for cells that are not among them."""
    n_counted = len(counted.run.counts)
    if encoding.kept is None:
        return of_cell[:n_counted]
    at_counted = np.full(n_counted, -1, dtype=np.int32)
    at_counted[encoding.kept] = of_cell[: len(encoding.kept)]
    return at_counted

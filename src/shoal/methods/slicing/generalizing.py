"""Column generalization: the values of one part alone, as they are or as regions that are frequent enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.progress import Progress
from shoal.methods.base import Labels
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.cells import Cells
from shoal.plan.plan import same_rows
from shoal.plan.problem import Problem, Requirement
from shoal.plan.slices import Part


def part_of(
    problem: Problem,
    counts: IntArray,
    frequency: int,
    labels: Labels,
    progress: Progress,
    group: Sequence[int],
    carried: tuple[str, ...],
) -> Part:
    """Build the part of a group of attributes, for a table of *counts* records of each cell.

    Its quasi values are as they are, unless some combination of them that occurs is rarer than *frequency*.
    """
    n_quasi = len(problem.quasi)
    quasi = tuple(place for place in group if place < n_quasi)
    sensitive = tuple(place - n_quasi for place in group if place >= n_quasi)
    values, n_values = exact(problem, quasi)
    records = kernels.summed(values, counts, n_values)
    if records[records > 0].min() >= frequency:
        return Part(quasi, sensitive, carried, values, n_values)
    published = replace(problem, cells=Cells(problem.cells.codes, counts))
    values, lo, hi = regions(published, quasi, frequency, labels, progress)
    return Part(quasi, sensitive, carried, values, len(lo), lo, hi)


def exact(problem: Problem, places: tuple[int, ...]) -> tuple[CodeArray, int]:
    """Return (n_cells,) the number of each cell's combination of source values, and how many combinations there are.

    Without attributes all cells agree.
    """
    if not places:
        return np.zeros(problem.cells.n_cells, dtype=np.int32), 1
    first, same = same_rows([problem.value_codes[place] for place in places])
    return same, len(first)


def regions(
    problem: Problem, places: tuple[int, ...], frequency: int, labels: Labels, progress: Progress
) -> tuple[CodeArray, CodeArray, CodeArray]:
    """Return regions of these quasi attributes with at least *frequency* records each, of which none overlap.

    The result is (n_cells,) the region of each cell, and (n_regions, n_places) the leaves from ``lo`` up to but without
    ``hi`` of each region. Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), Definition 4 and section 4.2: Mondrian
    k-anonymity of the table that has these attributes only. Every combination of the table lies in exactly one region.
    Cells without records may lie in none; they are given the first.
    """
    from shoal.methods.mondrian.tree import MondrianTree

    n_records = problem.cells.n_records
    if n_records < frequency:
        raise UnreachableError(
            f"slicing: every value of a column is to have at least {frequency} records, but the table has only "
            f"{n_records}; ask for at most {n_records}"
        )
    if not places:
        nothing = np.zeros((1, 0), dtype=np.int32)
        return exact(problem, places)[0], nothing, nothing
    codes = [problem.cells.codes[place] for place in places]
    first, combination = same_rows(codes)
    counts = kernels.summed(combination, problem.cells.counts, len(first))
    column = Problem(
        quasi=tuple(problem.quasi[place] for place in places),
        sensitive=(),
        cells=Cells(tuple(code[first] for code in codes), counts),
        requirements=(Requirement(KAnonymity(k=frequency), 0),),
    )
    with (
        progress.step("generalizing a column", column.cells.n_cells, unit="values") as step,
        MondrianTree(column, ranges=labels == "ranges", apart=True) as tree,
    ):
        tree.grow(step)
        plan = tree.plan()
    return np.maximum(plan.assignment.class_of, 0)[combination], plan.lo, plan.hi

"""The parts of a sliced table: their values, generalized if rare, and groups of attributes that keep marginals.

Column generalization: Li, Li, Zhang and Molloy, "Slicing" (TKDE 2012), Definition 4 and section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import UnreachableError
from shoal.core.kernels import same_rows
from shoal.core.progress import Progress
from shoal.methods.base import Labels
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.cells import Cells
from shoal.plan.problem import Problem, Requirement
from shoal.plan.slices import Part
from shoal.utility.marginals import choose_bins, measure_distance
from shoal.utility.rows import Column, Tables, sum_weights

Group = tuple[int, ...]
_KEPT_BY_BUCKETS = 0.5  # approximate share of an association between parts
_ENOUGH_CELLS = 50_000  # sample size for the choice of groups


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

    Its quasi values stay unchanged unless some combination of them is rarer than *frequency*.
    """
    n_quasi = len(problem.quasi)
    quasi = tuple(place for place in group if place < n_quasi)
    sensitive = tuple(place - n_quasi for place in group if place >= n_quasi)
    values, n_values = exact(problem, quasi)
    records = kernels.sum_groups(values, counts, n_values)
    if records[records > 0].min() >= frequency:
        return Part(quasi, sensitive, carried, values, n_values)
    published = replace(problem, cells=Cells(problem.cells.codes, counts))
    values, lo, hi = regions(published, quasi, frequency, labels, progress)
    return Part(quasi, sensitive, carried, values, len(lo), lo, hi)


def exact(problem: Problem, places: tuple[int, ...]) -> tuple[CodeArray, int]:
    """Return (n_cells,) the number of each cell's combination of source values, and how many combinations there are."""
    if not places:
        return np.zeros(problem.cells.n_cells, dtype=np.int32), 1
    first, same = same_rows([problem.value_codes[place] for place in places])
    return same, len(first)


def regions(
    problem: Problem, places: tuple[int, ...], frequency: int, labels: Labels, progress: Progress
) -> tuple[CodeArray, CodeArray, CodeArray]:
    """Return disjoint regions of these quasi-identifiers with at least *frequency* records each.

    The result is (n_cells,) the region of each cell, and (n_regions, n_places) the leaf ranges ``lo`` to ``hi`` of each
    region, by Mondrian k-anonymity of the table with these attributes only. Every combination of the table belongs to
    exactly one region. Cells without records may not belong to any; they get the first.
    """
    from shoal.methods.mondrian.tree import MondrianTree

    n_records = problem.cells.n_records
    if n_records < frequency:
        raise UnreachableError(
            f"slicing: every value of a column needs at least {frequency} records, but the table has only "
            f"{n_records}; ask for at most {n_records}"
        )
    if not places:
        nothing = np.zeros((1, 0), dtype=np.int32)
        return exact(problem, places)[0], nothing, nothing
    codes = [problem.cells.codes[place] for place in places]
    first, combination = same_rows(codes)
    counts = kernels.sum_groups(combination, problem.cells.counts, len(first))
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


class _Losses:
    """The distances of the marginals of parts to the table's marginals, summed over pairs of quasi-identifiers."""

    def __init__(self, problem: Problem, build: Callable[[Group], Part]) -> None:
        self._build, self._quasi = build, problem.quasi
        self._source = choose_bins(problem.quasi, problem.quasi_codes, problem.cells.counts.astype(np.float64))
        self._inside: dict[Group, float] = {}
        self._apart = np.zeros((len(self._quasi), len(self._quasi)))
        for i, j in combinations(range(len(self._quasi)), 2):
            product = np.multiply.outer(self._source.count((i,)), self._source.count((j,)))
            self._apart[i, j] = self._apart[j, i] = measure_distance(product, self._source.count((i, j)))

    def between(self, one: Group, other: Group) -> float:
        """Return the loss between two parts, whose attributes are linked only within buckets."""
        return (1 - _KEPT_BY_BUCKETS) * float(self._apart[np.ix_(one, other)].sum())

    def inside(self, group: Group) -> float:
        """Return the loss of a part by generalization: in pairs within it, and of its attributes with others."""
        if group in self._inside:
            return self._inside[group]
        part, loss, columns = self._build(group), 0.0, []
        records = sum_weights(part.values, self._source.records, part.n_values)
        if part.lo is None or part.hi is None:
            return self._inside.setdefault(group, loss)
        for place, lo, hi in zip(group, part.lo.T, part.hi.T, strict=True):
            below = np.arange(self._quasi[place].taxonomy.n_leaves + 1.0)
            columns.append(Column.of_ranges(lo, hi, below).read_labels(records).bin(self._source.edges[place]))
        tables = Tables(tuple(columns), records)
        for size, times in ((1, len(self._quasi) - len(group)), (2, 1)):
            for some in combinations(range(len(group)), size):
                true = self._source.count(tuple(group[place] for place in some))
                loss += times * measure_distance(tables.expect(some), true)
        return self._inside.setdefault(group, loss)


def choose_groups(problem: Problem, frequency: int, labels: Labels, progress: Progress) -> list[Group]:
    """Return at least two groups of the quasi-identifiers, whose parts of a *frequency* preserve marginals well.

    A part is exact unless it has to be generalized, and small parts need less generalization. Beginning with single
    attributes, the algorithm joins the two groups with the highest gain, while there is a gain
    (docs/adr/0012-slicing.md). It samples the cells of a large table.
    """
    cells = np.flatnonzero(problem.cells.counts)
    if len(cells) > _ENOUGH_CELLS:
        cells, frequency = cells[:: len(cells) // _ENOUGH_CELLS], max(2, frequency * _ENOUGH_CELLS // len(cells))
    chosen = Cells(tuple(codes[cells] for codes in problem.cells.codes), problem.cells.counts[cells])
    some = replace(problem, cells=chosen, values=tuple(own[cells] for own in problem.values), requirements=())
    losses = _Losses(some, lambda group: part_of(some, chosen.counts, frequency, labels, progress, group, ()))
    groups: list[Group] = [(place,) for place in range(len(problem.quasi))]
    while len(groups) > 2:
        most, best = 0.0, None
        apart = {pair: sum(map(losses.inside, pair)) + losses.between(*pair) for pair in combinations(groups, 2)}
        for pair in sorted(apart, key=lambda pair: -apart[pair]):
            if apart[pair] <= most:  # the best joint part has no loss
                break
            gain = apart[pair] - losses.inside(tuple(sorted(pair[0] + pair[1])))
            if gain > most:
                most, best = gain, pair
        if best is None:
            break
        groups = sorted([*(group for group in groups if group not in best), tuple(sorted(best[0] + best[1]))])
    return groups

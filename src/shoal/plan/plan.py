"""A plan: which records of which cell go to which class, and the labels of each class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.core.kernels import same_rows
from shoal.core.randomness import Chance
from shoal.plan.cells import Cells
from shoal.plan.problem import Problem, Requirement

WITHHELD = -1
SPLIT = -2
KEPT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """The class of every record, by cells.

    Most cells go to one class as a whole: ``class_of[cell]``, or WITHHELD. The records of a cell marked SPLIT are
    assigned at random to several classes: ``split_cells[i]`` has the quotas ``first[i]:first[i + 1]``.
    """

    class_of: CodeArray  # (n_cells,)
    split_cells: IntArray  # (n_split,) ascending
    first: IntArray  # (n_split + 1,)
    target: CodeArray  # (n_quotas,) class or WITHHELD
    quota: IntArray  # (n_quotas,) records

    @classmethod
    def whole_cells(cls, class_of: CodeArray) -> Assignment:
        """Build from cells that each go to one class."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(class_of, nothing, np.zeros(1, dtype=np.int64), nothing.astype(np.int32), nothing)

    @classmethod
    def of_pieces(cls, n_cells: int, cells: AnyIntArray, classes: AnyIntArray, counts: AnyIntArray) -> Assignment:
        """Build from (cell, class, records) triples; pieces of a cell in the same class are added up.

        >>> plan = Assignment.of_pieces(3, np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), np.array([5, 2, 1, 4]))
        >>> plan.class_of.tolist(), plan.split_cells.tolist(), plan.quota.tolist()
        ([0, -2, 1], [1], [2, 1])
        """
        targets = np.asarray(classes, dtype=np.int32) - np.int32(WITHHELD)
        owner, records = np.asarray(cells, dtype=np.int32), np.asarray(counts, dtype=np.int64)
        pairs = kernels.count_pairs(owner, n_cells, targets, int(targets.max(initial=0)) + 1, records)
        parts, target = np.diff(pairs.start), pairs.second + np.int32(WITHHELD)
        class_of = np.full(n_cells, WITHHELD, dtype=np.int32)
        class_of[parts > 0] = target[pairs.start[:-1][parts > 0]]
        class_of[parts > 1] = SPLIT
        shared = np.repeat(parts > 1, parts)
        split_cells = np.flatnonzero(parts > 1)
        bounds = np.concatenate([[0], np.cumsum(parts[split_cells])]).astype(np.int64)
        return cls(class_of, split_cells, bounds, target[shared], pairs.records[shared])

    def pieces(self, counts: IntArray) -> tuple[IntArray, CodeArray, IntArray]:
        """Return all (cell, class, records) triples, given the records of each cell."""
        if not len(self.split_cells):
            return np.arange(len(self.class_of)), self.class_of, counts
        single = np.flatnonzero(self.class_of != SPLIT)
        cell = np.concatenate([single, np.repeat(self.split_cells, np.diff(self.first))])
        target = np.concatenate([self.class_of[single], self.target])
        return cell, target, np.concatenate([counts[single], self.quota])

    def relocate(self, n_cells: int, kept: IntArray | None) -> Assignment:
        """Return the assignment of all counted cells, of which this one has the cells at *kept*; the rest is withheld.

        Further cells of this assignment are the population's and have no records.
        """
        if kept is None:
            return Assignment(self.class_of[:n_cells], self.split_cells, self.first, self.target, self.quota)
        class_of = np.full(n_cells, WITHHELD, dtype=np.int32)
        class_of[kept] = self.class_of[: len(kept)]
        return Assignment(class_of, kept[self.split_cells], self.first, self.target, self.quota)


class Dealer:
    """Assigns rows to classes, batch by batch; every arrangement within the quotas is equally likely."""

    def __init__(self, assignment: Assignment, chance: Chance) -> None:
        self._assignment = assignment
        self._chance = chance
        self._remaining = assignment.quota.copy()
        split = len(assignment.split_cells) > 0
        self._left = np.add.reduceat(assignment.quota, assignment.first[:-1]) if split else assignment.quota

    def deal(self, cells: IntArray) -> CodeArray:
        """Return (n_rows,) the class of each row, or WITHHELD."""
        classes = self._assignment.class_of[cells]
        if not len(self._assignment.split_cells):
            return classes
        rows = np.flatnonzero(classes == SPLIT)
        if len(rows):
            split = np.searchsorted(self._assignment.split_cells, cells[rows])
            drawn = self._chance.fractions(len(rows))
            classes[rows] = kernels.draw_targets(
                split, self._assignment.first, self._assignment.target, self._remaining, self._left, drawn
            )
            if self._left.min() < 0:
                raise InputError("the source changed while it was being read; nothing was published")
        return classes


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The classes of records and their sensitive labels, if sensitive values are generalized too.

    ``lo`` is KEPT if a record publishes its own value of that sensitive attribute.
    """

    class_of: CodeArray  # (n_targets,)
    lo: CodeArray  # (n_targets, n_sensitive) first leaf, or KEPT
    hi: CodeArray  # (n_targets, n_sensitive) leaf after the last; 0 where KEPT
    records: IntArray  # (n_targets,)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A generalization: each class publishes one leaf range per quasi-identifier.

    The assignment sends records to classes or, if there are ``targets``, to targets.
    """

    lo: CodeArray  # (n_classes, n_quasi)
    hi: CodeArray  # (n_classes, n_quasi)
    sizes: IntArray  # (n_classes,) records
    assignment: Assignment
    n_withheld: int
    population: Mapping[str, IntArray] = field(default_factory=dict)  # (n_classes,) people under each label
    targets: Targets | None = None  # None: no sensitive value is generalized
    levels: Mapping[str, int] = field(default_factory=dict)  # full-domain methods: attribute -> level, 0 = original
    recoded: Mapping[str, int] = field(default_factory=dict)  # the same for the values that are not suppressed
    search: Mapping[str, Any] = field(default_factory=dict)  # figures of the method's search; internal
    warnings: tuple[str, ...] = ()  # for the data holder; without values of records

    def pieces(self, counts: IntArray) -> tuple[IntArray, CodeArray, IntArray, CodeArray]:
        """Return (cell, class, records, target) of all pieces of cells, given the records of each cell."""
        cell, target, records = self.assignment.pieces(counts)
        if self.targets is None:
            return cell, target, records, target
        return cell, np.append(self.targets.class_of, np.int32(WITHHELD))[target], records, target

    def count_generalized(self, problem: Problem) -> dict[str, int]:
        """Return the number of generalized values of each sensitive attribute that has any."""
        if self.targets is None:
            return {}
        records = ((self.targets.lo != KEPT) * self.targets.records[:, np.newaxis]).sum(axis=0)
        names = [attribute.name for attribute in problem.sensitive]
        return {name: int(number) for name, number in zip(names, records, strict=True) if number}

    @property
    def n_classes(self) -> int:
        return len(self.lo)

    def find_level(self, name: str) -> int | None:
        """Return the common level of an attribute's values, suppressed values aside, or None."""
        return self.levels.get(name, self.recoded.get(name))

    def warn(self, *warnings: str) -> Plan:
        """Return the plan with further warnings for the data holder."""
        return replace(self, warnings=(*self.warnings, *warnings))

    def population_of(self, requirement: Requirement) -> IntArray | None:
        """Return (n_classes,) the people of the population that a requirement counts, or None."""
        return None if requirement.population is None else self.population[requirement.population_name]

    @classmethod
    def of_cells(
        cls,
        lo: CodeArray,
        hi: CodeArray,
        class_of: CodeArray,
        counts: IntArray,
        population: Mapping[str, IntArray] | None = None,
    ) -> Plan:
        """Build from the class of each cell; labels of classes must be distinct."""
        sizes = kernels.sum_groups(class_of, counts, len(lo))
        return cls(
            lo=lo,
            hi=hi,
            sizes=sizes,
            assignment=Assignment.whole_cells(class_of),
            n_withheld=int(counts.sum() - sizes.sum()),
            population=population or {},
        )

    @classmethod
    def of_pieces(
        cls,
        lo: CodeArray,
        hi: CodeArray,
        n_cells: int,
        cells: AnyIntArray,
        classes: AnyIntArray,
        counts: AnyIntArray,
        population: Mapping[str, IntArray] | None = None,
        sensitive: tuple[CodeArray, CodeArray] | None = None,
    ) -> Plan:
        """Build from pieces of cells; classes with equal labels become one class.

        *sensitive* are the published ranges of sensitive values, lo and hi, each (n_pieces, n_sensitive).
        """
        first, same = same_rows((*lo.T, *hi.T))
        owner = np.append(same, np.int32(WITHHELD))[np.asarray(classes)]  # class -1 maps to WITHHELD
        records = np.asarray(counts, dtype=np.int64)
        sizes = kernels.sum_groups(owner, records, len(first))
        target, targets = owner, None
        if sensitive is not None and not (sensitive[0] == KEPT).all():
            target, targets = _targets(owner, *sensitive, records)
        return cls(
            lo=lo[first],
            hi=hi[first],
            sizes=sizes,
            assignment=Assignment.of_pieces(n_cells, cells, target, counts),
            n_withheld=int(counts.sum() - sizes.sum()),
            population={name: people[first] for name, people in (population or {}).items()},
            targets=targets,
        )

    @classmethod
    def of_parts(
        cls,
        lo: CodeArray,
        hi: CodeArray,
        cells: Cells,
        cell: IntArray,
        owner: IntArray,
        records: IntArray,
        sensitive: tuple[CodeArray, CodeArray],
        population: Mapping[str, IntArray] | None = None,
    ) -> Plan:
        """Build from pieces of cells as ``of_pieces`` does; all other records are withheld."""
        pieces = withhold_rest(cells.counts, cell, owner, records)
        more = ((0, len(pieces[0]) - len(cell)), (0, 0))
        shown = np.pad(sensitive[0], more, constant_values=KEPT), np.pad(sensitive[1], more)
        return cls.of_pieces(lo, hi, cells.n_cells, *pieces, population, shown)


def _targets(owner: CodeArray, lo: CodeArray, hi: CodeArray, records: IntArray) -> tuple[CodeArray, Targets]:
    """Return (n_pieces,) the target of each piece, or WITHHELD, and the targets."""
    shown = np.flatnonzero(owner != WITHHELD)
    class_of, lo, hi = owner[shown], lo[shown], hi[shown]
    first, group = same_rows((class_of, *(lo + 1).T, *hi.T))  # codes start at 0, and KEPT is -1
    target = np.full(len(owner), WITHHELD, dtype=np.int32)
    target[shown] = group
    return target, Targets(class_of[first], lo[first], hi[first], kernels.sum_groups(target, records, len(first)))


def withhold_rest(
    counts: IntArray, cell: IntArray, owner: AnyIntArray, records: IntArray
) -> tuple[IntArray, CodeArray, IntArray]:
    """Return the pieces of cells with their owners and records, completed by withheld pieces."""
    missing = counts - kernels.sum_groups(cell.astype(np.int32), records, len(counts))
    rest = np.flatnonzero(missing)
    owners = np.append(owner, np.full(len(rest), WITHHELD)).astype(np.int32)
    return np.append(cell, rest), owners, np.append(records, missing[rest])

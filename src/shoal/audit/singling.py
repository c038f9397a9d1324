"""Which attributes, alone and together, single people out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Self

import numpy as np

from shoal.audit import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.progress import Progress
from shoal.core.results import Figures


@dataclass(frozen=True, slots=True)
class SetRisk(Figures):
    """What somebody who knows these attributes of a person can single out."""

    attributes: tuple[str, ...]  # in the order of the policy
    unique_records: int
    unique_share: float
    combinations: int  # distinct combinations of values
    mean_class: float  # records of a combination on average


def n_sets(n_attributes: int, largest: int) -> int:
    """Return how many sets of 1 to *largest* attributes there are.

    >>> n_sets(15, 3)
    575
    """
    return sum(comb(n_attributes, size) for size in range(1, largest + 1))


def set_risks(
    columns: Sequence[CodedColumn], records: IntArray, largest: int, progress: Progress
) -> tuple[SetRisk, ...]:
    """Return every set of up to *largest* attributes, those that single out most records first.

    Every set is counted exactly. Attributes with many values come first within a set, so that most cells are
    alone after two of them and need not be looked at again.
    """
    search = _Search(columns, records, largest)
    found: list[SetRisk] = []
    with (
        ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool,
        progress.step("singling out", n_sets(len(columns), largest), unit="sets") as step,
    ):
        for place in range(len(search.columns)):
            alone = Partition.whole(records).split(search.columns[place])
            found.append(search.risk((place,), alone.n_classes, alone.n_unique))
            step.advance(1)
            later = range(place + 1, len(search.columns)) if largest > 1 else range(0)
            for part in pool.map(lambda second, place=place, alone=alone: search.below((place, second), alone), later):
                found.extend(part)
                step.advance(len(part))
    return tuple(sorted(found, key=lambda risk: (-risk.unique_records, len(risk.attributes), -risk.combinations)))


class _Search:
    """Walks through all sets, each reached once: by its attributes in descending order of their values."""

    def __init__(self, columns: Sequence[CodedColumn], records: IntArray, largest: int) -> None:
        self._order = {column.name: place for place, column in enumerate(columns)}
        self.columns = sorted(columns, key=lambda column: (-column.domain, self._order[column.name]))
        self._n_records = int(records.sum())
        self._largest = largest

    def risk(self, members: tuple[int, ...], n_classes: int, n_unique: int) -> SetRisk:
        names = sorted((self.columns[member].name for member in members), key=self._order.__getitem__)
        share = n_unique / self._n_records
        return SetRisk(tuple(names), n_unique, share, n_classes, self._n_records / n_classes)

    def below(self, members: tuple[int, ...], parent: Partition) -> list[SetRisk]:
        """Return the set *members*, whose last one is not yet in *parent*, and all that begin with it."""
        return list(self._below(members, parent))

    def _below(self, members: tuple[int, ...], parent: Partition) -> Iterator[SetRisk]:
        last = self.columns[members[-1]]
        later = range(members[-1] + 1, len(self.columns)) if len(members) < self._largest else range(0)
        if not later:
            yield self.risk(members, *parent.count(last))
            return
        here = parent.split(last)
        yield self.risk(members, here.n_classes, here.n_unique)
        for member in later:
            yield from self._below((*members, member), here)


def minimal_sets(sets: Sequence[SetRisk], threshold: float) -> tuple[SetRisk, ...]:
    """Return the sets that make more than this share of records unique and have no smaller set that does."""
    enough = sorted((risk for risk in sets if risk.unique_share > threshold), key=lambda risk: len(risk.attributes))
    known: set[frozenset[str]] = set()
    minimal = []
    for risk in enough:
        subsets = (
            frozenset(part) for size in range(1, len(risk.attributes)) for part in combinations(risk.attributes, size)
        )
        if known.isdisjoint(subsets):
            known.add(frozenset(risk.attributes))
            minimal.append(risk)
    return tuple(minimal)


def fastest_order(columns: Sequence[CodedColumn], records: IntArray, progress: Progress) -> tuple[SetRisk, ...]:
    """Add the attribute that singles out most, one after another; the last set holds all attributes.

    Each entry lists its attributes in the order of being added.
    """
    n_records = int(records.sum())
    left, chosen, steps = list(columns), Partition.whole(records), []
    names: tuple[str, ...] = ()
    with progress.step("ordering", len(columns), unit="attributes") as step:
        while left:
            counts = [chosen.count(column) for column in left]
            best = max(range(len(left)), key=lambda place: (counts[place][1], counts[place][0], -place))
            n_classes, n_unique = counts[best]
            column = left.pop(best)
            chosen = chosen.split(column)
            names = (*names, column.name)
            steps.append(SetRisk(names, n_unique, n_unique / n_records, n_classes, n_records / n_classes))
            step.advance(1)
    return tuple(steps)


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """The codes of one attribute, cell by cell."""

    name: str
    codes: CodeArray  # (n_cells,)
    domain: int  # codes are below it


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Groups of cells that no attribute chosen so far tells apart.

    A cell that is alone in its group stays alone whatever attribute comes next, so such cells are only counted:
    this is what makes sets of many attributes cheap.

    >>> records = np.array([1, 2, 1])
    >>> sex = CodedColumn("sex", np.array([0, 0, 1], dtype=np.int32), 2)
    >>> by_sex = Partition.whole(records).split(sex)
    >>> by_sex.n_classes, by_sex.n_unique
    (2, 1)
    """

    records: IntArray  # (n_cells,)
    first: IntArray  # (n_groups + 1,) where each group starts in order
    order: CodeArray  # cells of the groups
    n_lone: int = 0  # cells that are alone
    n_lone_unique: int = 0  # of these, cells of one record

    @classmethod
    def whole(cls, records: IntArray) -> Self:
        """All cells as one group."""
        return cls(records, np.array([0, len(records)], dtype=np.int64), np.arange(len(records), dtype=np.int32))

    @property
    def n_classes(self) -> int:
        """Distinct combinations of the attributes chosen so far (after at least one split)."""
        return self.n_lone + len(self.first) - 1

    @property
    def n_unique(self) -> int:
        """Records that no other shares its combination with (after at least one split)."""
        return self.n_lone_unique

    def split(self, column: CodedColumn) -> Partition:
        """Return the groups that one more attribute makes."""
        first, order, lone, unique = kernels.split(self.first, self.order, column.codes, self.records, column.domain)
        return Partition(self.records, first, order, self.n_lone + lone, self.n_lone_unique + unique)

    def count(self, column: CodedColumn) -> tuple[int, int]:
        """Return the classes and unique records that one more attribute would make, without making them."""
        if not len(self.order):
            return self.n_lone, self.n_lone_unique
        distinct, unique = kernels.count_split(self.first, self.order, column.codes, self.records, column.domain)
        return self.n_lone + distinct, self.n_lone_unique + unique

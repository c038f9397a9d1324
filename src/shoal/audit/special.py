"""Special uniques: which small sets of attributes single a record out, and how much each attribute adds to that.

Elliot, Manning and Ford, "A computational algorithm for handling the special uniques problem", IJUFKS 10(5), 2002;
Manning, Haglin and Keane, "A recursive search algorithm for statistical disclosure assessment", Data Mining and
Knowledge Discovery 16, 2008 (SUDA2). How likely a match with a unique record is right, if the table is a sample:
Skinner and Elliot, "A measure of disclosure risk for microdata", J. R. Statist. Soc. B 64, 2002 (DIS), spread over the
records by their scores as sdcMicro documents it (DIS-SUDA).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb, prod

import numpy as np

from shoal.audit import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.progress import Progress, Silent

Members = tuple[int, ...]  # attributes of a set, ascending
MOST_ATTRIBUTES = 27  # from 28 the exponent is not positive, and higher scores would mean less risk


@dataclass(frozen=True, slots=True)
class MinimalSet:
    """A set of attributes, and the records that it singles out while none of its subsets does."""

    attributes: tuple[str, ...]
    records: int
    score: int  # what these records get for it, all together


@dataclass(frozen=True, slots=True, eq=False)
class SpecialUniques:
    """The minimal sample uniques of a table up to some size, and the scores of its records.

    A minimal sample unique (MSU) of k attributes scores (n - k)(n - k - 1)...(n - m), n being the number of attributes
    and m the largest size that is looked for, at most n - 1. A record's score is the sum over its own.
    """

    attributes: tuple[str, ...]
    largest: int
    sets: tuple[MinimalSet, ...]  # those with records, the highest score first
    scores: FloatArray  # (n_cells,) 0 where nothing up to the largest size singles the record out
    smallest: CodeArray  # (n_cells,) attributes of the record's smallest MSU; 0 where there is none
    unique: BoolArray  # (n_cells,) records that all attributes together single out
    pairs: int  # records that share all attributes with exactly one other

    @property
    def score(self) -> int:
        """The scores of all records together, exactly."""
        return sum(found.score for found in self.sets)

    @property
    def contributions(self) -> dict[str, float]:
        """Share of the whole score that comes from sets with this attribute; shares overlap and exceed 1 together."""
        of = dict.fromkeys(self.attributes, 0)
        for found in self.sets:
            for name in found.attributes:
                of[name] += found.score
        whole = self.score
        return {name: score / whole if whole else 0.0 for name, score in of.items()}

    def by_size(self) -> tuple[int, ...]:
        """Return the records by the size of their smallest MSU, from 1; last, those singled out by larger sets only."""
        counts = np.bincount(self.smallest[self.unique], minlength=self.largest + 1)
        return (*(int(count) for count in counts[1:]), int(counts[0]))


def special_uniques(
    codes: Mapping[str, AnyIntArray],
    records: IntArray | None = None,
    *,
    largest: int = 3,
    progress: Progress | None = None,
) -> SpecialUniques:
    """Find every set of up to *largest* attributes that singles a record out while none of its subsets does.

    *codes* are numbers from 0 for the values of each attribute, cell by cell, and *records* how many records each cell
    stands for: one if it is not given, so that rows may be given as they are. The search is exact.

    >>> table = {"a": np.array([2, 1, 1]), "b": np.array([0, 3, 0]), "c": np.array([0, 6, 0])}
    >>> found = special_uniques(table)
    >>> found.scores, found.contributions
    (array([2., 4., 2.]), {'a': 0.5, 'b': 0.375, 'c': 0.375})
    """
    if not codes:
        raise UsageError("there are no attributes to look at")
    if largest < 1:
        raise UsageError(f"sets have at least one attribute; received a largest set of {largest}")
    progress = progress or Silent()
    search = _Search(codes, records)
    largest = min(largest, len(codes))
    scores, smallest = np.zeros(search.n_singles), np.zeros(search.n_singles, dtype=np.int32)
    sets: list[MinimalSet] = []
    before: dict[Members, KeyArray] = {}
    n_sets = sum(comb(len(codes), size) for size in range(1, largest + 1))
    with progress.step("special uniques", n_sets, unit="sets") as step:
        for size in range(1, largest + 1):
            here: dict[Members, KeyArray] = {}
            weight = _weight(size, largest, len(codes))
            for members, alone in search.sets(size):
                known = np.zeros_like(alone)
                for part in combinations(members, size - 1):
                    known |= before.get(part, known)
                # Enough for the next size: a record that is new there and yet known is new in a set of this size too.
                # The smaller set that knows it has the last attribute, and leaving out another one keeps it new.
                if size < largest:
                    here[members] = alone
                minimal = search.places(alone & ~known)
                if len(minimal):
                    scores[minimal] += weight
                    smallest[minimal] = np.where(smallest[minimal] == 0, size, smallest[minimal])
                    sets.append(MinimalSet(search.names(members), len(minimal), weight * len(minimal)))
                step.advance(1)
            before = here
    sets.sort(key=lambda found: (-found.score, -found.records, len(found.attributes), found.attributes))
    return search.result(tuple(sets), scores, smallest, largest)


def _weight(size: int, largest: int, n_attributes: int) -> int:
    """Return what one MSU of this size adds to the score of its record.

    >>> [_weight(size, 3, 8) for size in (1, 2, 3)], _weight(1, 3, 3)
    ([210, 30, 5], 2)
    """
    return prod(n_attributes - number for number in range(size, min(largest, n_attributes - 1) + 1))


class _Search:
    """The cells in the order of their attributes with most values first, and bits for those of one record."""

    def __init__(self, codes: Mapping[str, AnyIntArray], records: IntArray | None) -> None:
        self._given = tuple(codes)
        domains = {name: int(column.max()) + 1 if len(column) else 1 for name, column in codes.items()}
        self._names = sorted(codes, key=lambda name: (-domains[name], self._given.index(name)))
        self._domains = [domains[name] for name in self._names]
        self._codes = [np.ascontiguousarray(codes[name], dtype=np.int32) for name in self._names]
        self._n_cells = len(self._codes[0])
        self._records = np.ones(self._n_cells, dtype=np.int64) if records is None else records
        self._single = self._records == 1
        self._cells = np.flatnonzero(self._single)
        self._place = np.cumsum(self._single) - 1  # of a single cell among them
        self.n_singles = len(self._cells)
        self._words = (self.n_singles + 63) // 64

    def names(self, members: Members) -> tuple[str, ...]:
        return tuple(sorted((self._names[member] for member in members), key=self._given.index))

    def sets(self, size: int) -> Iterator[tuple[Members, KeyArray]]:
        """Yield every set of one size with the records that it singles out and its first attributes did not."""
        first = np.array([0, self._n_cells], dtype=np.int64)
        yield from self._below((), first, np.arange(self._n_cells, dtype=np.int32), size)

    def _below(
        self, members: Members, first: IntArray, order: CodeArray, size: int
    ) -> Iterator[tuple[Members, KeyArray]]:
        left = size - len(members)
        begin = members[-1] + 1 if members else 0
        for member in range(begin, len(self._names) - left + 1):
            column, domain = self._codes[member], self._domains[member]
            if left == 1:
                yield (*members, member), self._bits(kernels.find_singles(first, order, column, self._single, domain))
            else:
                split = kernels.split_groups(first, order, column, self._single, domain)
                yield from self._below((*members, member), *split, size)

    def _bits(self, cells: CodeArray) -> KeyArray:
        flags = np.zeros(self._words * 64, dtype=np.bool_)
        flags[self._place[cells]] = True
        return np.packbits(flags, bitorder="little").view(np.uint64)

    def places(self, bits: KeyArray) -> IntArray:
        """Return which single cells the bits stand for."""
        return np.flatnonzero(np.unpackbits(bits.view(np.uint8), bitorder="little"))

    def result(
        self, sets: tuple[MinimalSet, ...], scores: FloatArray, smallest: CodeArray, largest: int
    ) -> SpecialUniques:
        all_scores, all_smallest = np.zeros(self._n_cells), np.zeros(self._n_cells, dtype=np.int32)
        all_scores[self._cells], all_smallest[self._cells] = scores, smallest
        size = self._class_sizes()
        return SpecialUniques(
            self._given, largest, sets, all_scores, all_smallest, size == 1, int(self._records[size == 2].sum())
        )

    def _class_sizes(self) -> IntArray:
        """Return (n_cells,) the records that share all attributes with each cell; cells need not be distinct."""
        order = np.lexsort(self._codes)
        new = np.zeros(self._n_cells, dtype=np.bool_)
        for column in self._codes:
            new[1:] |= np.diff(column[order]) != 0
        group = np.empty(self._n_cells, dtype=np.int64)
        group[order] = np.cumsum(new)
        return np.bincount(group, weights=self._records).astype(np.int64)[group]


def disclosure(uniques: int, pairs: int, fraction: float) -> float:
    """Return the chance that somebody of the population who matches one unique record is the person it is about.

    *uniques* records have no equal, *pairs* records have one; *fraction* of the population is in the table.

    >>> disclosure(90, 20, 0.1)
    0.3333333333333333
    """
    check_fraction(fraction)
    right = uniques * fraction
    return right / (right + pairs * (1 - fraction)) if uniques else 0.0


def record_disclosure(found: SpecialUniques, fraction: float) -> FloatArray | None:
    """Return (n_cells,) DIS-SUDA: records of equal scores all get the table's chance, higher scores more.

    It is defined for up to 27 attributes; None beyond. A record without a score gets 0.
    """
    if len(found.attributes) > MOST_ATTRIBUTES:
        return None
    chance = disclosure(int(found.unique.sum()), found.pairs, fraction)
    scored = found.scores > 0
    out = np.zeros(len(found.scores))
    if not scored.any():
        return out
    steepness = 1 + (8 - len(found.attributes)) / 20
    relative = (found.scores[scored] / found.scores[scored].min()) ** steepness
    wrong = (1 - chance) / chance
    out[scored] = 1 / (1 + wrong / (relative * (1 / relative).mean()))
    return out


def check_fraction(fraction: float) -> None:
    """Raise unless this is a share of a population that a sample can be."""
    if not 0 < fraction <= 1:
        raise UsageError(f"the sample's fraction of the population is above 0 and at most 1; received {fraction}")

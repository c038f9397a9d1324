"""The attributes, alone and together, that single people out, and the small sets of them that do so first.

Elliot, Manning and Ford, "A computational algorithm for handling the special uniques problem", IJUFKS 10(5), 2002;
Manning, Haglin and Keane, "A recursive search algorithm for statistical disclosure assessment", Data Mining and
Knowledge Discovery 16, 2008 (SUDA2). The probability that a match with a unique record is right, if the table is a
sample: Skinner and Elliot, "A measure of disclosure risk for microdata", J. R. Statist. Soc. B 64, 2002 (DIS), spread
over the records by their scores as sdcMicro documents it (DIS-SUDA).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, prod
from typing import NamedTuple, Self

import numpy as np

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.kernels import kernel, same_rows
from shoal.core.progress import Progress, Silent
from shoal.core.results import Figures

Members = tuple[int, ...]  # attributes of a set, ascending
MOST_ATTRIBUTES = 27  # with more, the exponent is not positive, and higher scores would mean less risk


@dataclass(frozen=True, slots=True)
class SetRisk(Figures):
    """The records that a set of attributes singles out."""

    attributes: tuple[str, ...]  # in the order of the policy
    unique_records: int
    unique_share: float
    combinations: int  # distinct combinations of values
    mean_class: float  # records of a combination on average


@dataclass(frozen=True, slots=True)
class MinimalSet:
    """A set of attributes, and the records that it singles out while none of its subsets does."""

    attributes: tuple[str, ...]
    records: int
    score: int  # of these records, in total


@dataclass(frozen=True, slots=True, eq=False)
class SpecialUniques:
    """The minimal sample uniques of a table up to some size, and the scores of its records.

    A minimal sample unique (MSU) of k attributes scores (n - k)(n - k - 1)...(n - m), where n is the number of
    attributes and m the largest size that is searched, at most n - 1. A record's score is the sum over its own MSUs.
    """

    attributes: tuple[str, ...]
    largest: int
    sets: tuple[MinimalSet, ...]  # with at least one record, the highest score first
    scores: FloatArray  # (n_cells,) 0 if no set up to the largest size singles the record out
    smallest: CodeArray  # (n_cells,) attributes of the record's smallest MSU; 0 without one
    unique: BoolArray  # (n_cells,) records that all attributes together single out
    pairs: int  # records that share all attributes with exactly one other

    @property
    def score(self) -> int:
        """The total score of all records, exactly."""
        return sum(found.score for found in self.sets)

    @property
    def contributions(self) -> dict[str, float]:
        """The share of the total score from sets with each attribute; shares overlap, so their sum exceeds 1."""
        of = dict.fromkeys(self.attributes, 0)
        for found in self.sets:
            for name in found.attributes:
                of[name] += found.score
        whole = self.score
        return {name: score / whole if whole else 0.0 for name, score in of.items()}

    def by_size(self) -> tuple[int, ...]:
        """Return the records by the size of their smallest MSU, from 1.

        The last entry counts the records that only larger sets single out.
        """
        counts = np.bincount(self.smallest[self.unique], minlength=self.largest + 1)
        return (*(int(count) for count in counts[1:]), int(counts[0]))


@dataclass(frozen=True, slots=True, eq=False)
class CodedColumn:
    """The codes of one attribute, cell by cell."""

    name: str
    codes: CodeArray  # (n_cells,)
    domain: int  # codes are below it

    @classmethod
    def of(cls, name: str, codes: AnyIntArray) -> Self:
        return cls(name, np.ascontiguousarray(codes, dtype=np.int32), int(codes.max(initial=0)) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """Groups of cells that the attributes chosen so far do not distinguish.

    A cell that is alone in its group stays alone for any further attribute, so such cells are only counted, which makes
    sets of many attributes cheap. With *only_single*, groups without a cell of one record are left out as well, and
    classes are not counted.

    >>> records = np.array([1, 2, 1])
    >>> sex = CodedColumn("sex", np.array([0, 0, 1], dtype=np.int32), 2)
    >>> by_sex = Partition.whole(records).split(sex)
    >>> by_sex.n_classes, by_sex.n_unique, by_sex.alone.tolist()
    (2, 1, [2])
    """

    single: BoolArray  # (n_cells,) whether a cell has one record
    first: IntArray  # (n_groups + 1,) where each group starts in order
    order: CodeArray  # cells of the groups
    only_single: bool = False
    n_lone: int = 0  # cells that are alone
    n_unique: int = 0  # records with a unique combination
    alone: CodeArray | None = None  # cells of one record that the last attribute singled out

    @classmethod
    def whole(cls, records: IntArray, *, only_single: bool = False) -> Self:
        """Return all cells as one group."""
        edges = np.array([0, len(records)], dtype=np.int64)
        return cls(records == 1, edges, np.arange(len(records), dtype=np.int32), only_single)

    @property
    def n_classes(self) -> int:
        """Distinct combinations of the attributes chosen so far (after at least one split)."""
        return self.n_lone + len(self.first) - 1

    def split(self, column: CodedColumn) -> Partition:
        tally = np.zeros((column.domain, 3), dtype=np.int64)
        first, order = np.zeros(len(self.order) // 2 + 1, dtype=np.int64), np.empty_like(self.order)
        n_groups, used, n_lone = _split(
            self.first, self.order, column.codes, self.single, self.only_single, tally, first, order
        )
        first, order, lone = first[: n_groups + 1].copy(), order[:used].copy(), order[::-1][:n_lone]
        alone = lone[self.single[lone]]
        n_lone, n_unique = self.n_lone + len(lone), self.n_unique + len(alone)
        return replace(self, first=first, order=order, n_lone=n_lone, n_unique=n_unique, alone=alone)


@kernel
def _split(
    first: IntArray,
    order: CodeArray,
    codes: CodeArray,
    single: BoolArray,
    only_single: bool,
    tally: IntArray,
    new_first: IntArray,
    new_order: CodeArray,
) -> tuple[int, int, int]:
    """Split the groups by one more attribute; fill in groups of several cells and, from the end, cells then alone.

    Group g has the cells ``order[first[g]:first[g + 1]]``. *tally* is (domain, 3) zeros: for each code of the attribute
    the cells in a group, cells of one record, and the place of the next one. Returns the number of groups, of the cells
    in them, and of cells that are alone.
    """
    groups, used, n_lone = 0, 0, 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            tally[codes[order[place]], 0] += 1
            tally[codes[order[place]], 1] += single[order[place]]
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            code = codes[cell]
            if tally[code, 0] == 1:
                n_lone += 1
                new_order[len(order) - n_lone] = cell
            elif tally[code, 1] > 0 or not only_single:
                if tally[code, 2] == 0:
                    tally[code, 2] = used
                    used += tally[code, 0]
                    groups += 1
                    new_first[groups] = used
                new_order[tally[code, 2]] = cell
                tally[code, 2] += 1
        for place in range(first[group], first[group + 1]):
            for column in range(3):
                tally[codes[order[place]], column] = 0
    return groups, used, n_lone


class _SetCount(NamedTuple):
    """A set of attributes, and the records that it singles out."""

    members: Members
    n_classes: int
    n_unique: int
    alone: CodeArray  # cells of one record that the last attribute singles out, and the others do not


def _walk(
    columns: Sequence[CodedColumn], parent: Partition, largest: int, members: Members = ()
) -> Iterator[_SetCount]:
    """Yield every set that extends *members*, whose groups *parent* has, after all of its own subsets."""
    for member in range(len(columns) - 1, members[-1] if members else -1, -1):
        here, chosen = parent.split(columns[member]), (*members, member)
        if here.alone is not None:
            yield _SetCount(chosen, here.n_classes, here.n_unique, here.alone)
        if len(chosen) < largest:
            yield from _walk(columns, here, largest, chosen)


def search_sets(
    columns: Sequence[CodedColumn], records: IntArray, largest: int, progress: Progress, *, only_single: bool = False
) -> tuple[tuple[SetRisk, ...], SpecialUniques]:
    """Return every set of up to *largest* attributes, ordered by the records that it singles out, and the minimal ones.

    Every set is counted exactly. Attributes with many values come first within a set: then most cells are alone after
    two of them. With *only_single*, the sets' classes are not counted.
    """
    if largest < 1:
        raise UsageError(f"sets have at least one attribute; received a largest set of {largest}")
    largest = min(largest, len(columns))
    given = {column.name: place for place, column in enumerate(columns)}
    ordered = sorted(columns, key=lambda column: -column.domain)
    n_records, cells = int(records.sum()), np.flatnonzero(records == 1)
    place_of = np.cumsum(records == 1) - 1  # of a cell of one record among them
    scores, smallest = np.zeros(len(records)), np.zeros(len(records), dtype=np.int32)
    risks: dict[Members, SetRisk] = {}
    minimal: list[MinimalSet] = []
    new: dict[Members, KeyArray] = {}
    n_sets = sum(comb(len(columns), size) for size in range(1, largest + 1))
    with progress.step("singling out", n_sets, unit="sets") as step:
        for members, n_classes, n_unique, alone in _walk(
            ordered, Partition.whole(records, only_single=only_single), largest
        ):
            size = len(members)
            names = tuple(sorted((ordered[member].name for member in members), key=given.__getitem__))
            if not only_single:
                risks[members] = SetRisk(names, n_unique, n_unique / n_records, n_classes, n_records / n_classes)
            flags = np.zeros(-(-len(cells) // 64) * 64, dtype=np.bool_)
            flags[place_of[alone]] = True
            bits = np.packbits(flags, bitorder="little").view(np.uint64)
            # Subsets with one attribute less suffice: a record that is new here, but that a subset singles out, is new
            # in one of them. The subset has the last attribute, and leaving out another one keeps the record new.
            known = np.zeros_like(bits)
            for part in combinations(members, size - 1):
                known |= new.get(part, known)
            if size < largest:
                new[members] = bits
            singled = cells[np.flatnonzero(np.unpackbits((bits & ~known).view(np.uint8), bitorder="little"))]
            if len(singled):
                weight = _weight(size, largest, len(columns))
                scores[singled] += weight
                before = smallest[singled]
                smallest[singled] = np.where(before == 0, size, np.minimum(before, size))
                minimal.append(MinimalSet(names, len(singled), weight * len(singled)))
            step.advance(1)
    sets = sorted(
        (risks[members] for members in sorted(risks)),
        key=lambda risk: (-risk.unique_records, len(risk.attributes), -risk.combinations),
    )
    minimal.sort(key=lambda found: (-found.score, -found.records, len(found.attributes), found.attributes))
    _, group = same_rows([column.codes for column in columns])
    sizes = np.bincount(group, weights=records).astype(np.int64)[group]  # cells need not be distinct
    pairs = int(records[sizes == 2].sum())
    return tuple(sets), SpecialUniques(tuple(given), largest, tuple(minimal), scores, smallest, sizes == 1, pairs)


def _weight(size: int, largest: int, n_attributes: int) -> int:
    """Return the contribution of one MSU of this size to the score of its record.

    >>> [_weight(size, 3, 8) for size in (1, 2, 3)], _weight(1, 3, 3)
    ([210, 30, 5], 2)
    """
    return prod(n_attributes - number for number in range(size, min(largest, n_attributes - 1) + 1))


def special_uniques(
    codes: Mapping[str, AnyIntArray], records: IntArray | None = None, *, largest: int = 3
) -> SpecialUniques:
    """Find every set of up to *largest* attributes that singles a record out while none of its subsets does.

    *codes* are numbers from 0 for the values of each attribute, cell by cell, and *records* the number of records of
    each cell, by default one. The search is exact.

    >>> table = {"a": np.array([2, 1, 1]), "b": np.array([0, 3, 0]), "c": np.array([0, 6, 0])}
    >>> found = special_uniques(table)
    >>> found.scores, found.contributions
    (array([2., 4., 2.]), {'a': 0.5, 'b': 0.375, 'c': 0.375})
    """
    columns = [CodedColumn.of(name, column) for name, column in codes.items()]
    if records is None:
        records = np.ones(len(columns[0].codes) if columns else 0, dtype=np.int64)
    return search_sets(columns, records, largest, Silent(), only_single=True)[1]


def minimal_sets(sets: Sequence[SetRisk], threshold: float) -> tuple[SetRisk, ...]:
    """Return the sets that make more than this share of records unique and have no subset that does."""
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
    """Repeatedly add the attribute that singles out most records; the last set has all attributes.

    Each entry lists its attributes in the order of being added.
    """
    n_records = int(records.sum())
    left, chosen, steps = list(columns), Partition.whole(records), []
    names: tuple[str, ...] = ()
    with progress.step("ordering", len(columns), unit="attributes") as step:
        while left:
            splits = [chosen.split(column) for column in left]
            best = max(range(len(left)), key=lambda place: (splits[place].n_unique, splits[place].n_classes, -place))
            chosen = splits[best]
            names = (*names, left.pop(best).name)
            unique, classes = chosen.n_unique, chosen.n_classes
            steps.append(SetRisk(names, unique, unique / n_records, classes, n_records / classes))
            step.advance(1)
    return tuple(steps)


def disclosure(uniques: int, pairs: int, fraction: float) -> float:
    """Return the probability that a person of the population who matches one unique record is the right one.

    *uniques* records have no equal, *pairs* records have one; *fraction* of the population is in the table.

    >>> disclosure(90, 20, 0.1)
    0.3333333333333333
    """
    from shoal.models.population import check_fraction  # releases do not load the estimates

    check_fraction(fraction)
    right = uniques * fraction
    return right / (right + pairs * (1 - fraction)) if uniques else 0.0


def record_disclosure(found: SpecialUniques, fraction: float) -> FloatArray | None:
    """Return (n_cells,) DIS-SUDA: records with equal scores have the table's probability, higher scores more.

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

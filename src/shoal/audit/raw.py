"""The unchanged table: every distinct combination of its columns, in the classes of its quasi attributes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal.audit.uniqueness import CodedColumn, Partition
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.kernels import find_starts, same_rows
from shoal.core.progress import Progress
from shoal.engines.local import CountedCells, LocalEngine
from shoal.models.k_map import KMap
from shoal.plan.cells import KeyLayout, Run
from shoal.plan.problem import Requirement
from shoal.policy.encoding import Encoding, encode
from shoal.policy.policy import Policy
from shoal.sources.base import Source


@dataclass(frozen=True, slots=True, eq=False)
class RawTable:
    """Cells over all columns that may be published, in ascending order of classes; a class shares all quasi values.

    Quasi values are compared as they are written, not as leaves of their taxonomies, because publishing the unchanged
    table would show them. Records that the policy drops for missing values are left out.
    """

    counted: CountedCells  # columns: quasi, sensitive, insensitive
    encoding: Encoding
    records: IntArray  # (n_cells,)
    first: IntArray  # (n_classes + 1,) where each class starts among the cells
    n_quasi: int

    @property
    def n_records(self) -> int:
        return int(self.records.sum())

    @property
    def n_classes(self) -> int:
        return len(self.first) - 1

    @property
    def sizes(self) -> IntArray:
        """(n_classes,) records of each class."""
        return np.add.reduceat(self.records, self.first[:-1])

    @property
    def class_of(self) -> CodeArray:
        """(n_cells,) the class of each cell."""
        return np.repeat(np.arange(self.n_classes, dtype=np.int32), np.diff(self.first))

    def column(self, number: int) -> CodedColumn:
        """Return the codes of a counted column, cell by cell; 0 is missing."""
        codes = self.counted.codes(number)
        if self.encoding.kept is not None:
            codes = codes[self.encoding.kept]
        domain = self.counted.dictionaries[number].size
        return CodedColumn(self.counted.columns[number], codes.astype(np.int32), domain)

    def quasi_columns(self) -> tuple[CodedColumn, ...]:
        """Return the codes of the quasi attributes, class by class."""
        columns = (self.column(number) for number in range(self.n_quasi))
        return tuple(replace(column, codes=column.codes[self.first[:-1]]) for column in columns)

    def classes(self) -> Partition:
        """Return the cells in groups by class, which one more column can split."""
        return Partition(self.records == 1, self.first, np.arange(len(self.records), dtype=np.int32))

    def people(self, requirement: Requirement) -> tuple[IntArray, int]:
        """Return (n_classes,) the number of people of the population in each class, and the number in no class.

        Values of table and population are compared as leaves of their taxonomies, like in k-map.
        """
        if requirement.population is None:
            raise TypeError("the requirement looks at no population")
        cells = self.encoding.problem.cells
        first, codes = same_rows(cells.codes[: self.n_quasi])
        total = np.bincount(codes, weights=requirement.population, minlength=len(first)).astype(np.int64)
        met = np.zeros(len(first), dtype=np.bool_)
        met[codes[: len(self.records)]] = True
        return total[codes[self.first[:-1]]], int(total[~met].sum())


def read_raw(
    source: Source, policy: Policy, populations: dict[str, Source], engine: LocalEngine, progress: Progress
) -> RawTable:
    """Count all columns except identifiers in one pass, and bind the policy's models.

    A population that no model of the policy names is bound to an additional last model.
    """
    quasi, sensitive = policy.names("quasi"), policy.names("sensitive")
    carried = policy.names("insensitive")
    # The last columns are the most significant in the keys, so ascending cells are in order of their classes.
    counted = engine.count(source, (*carried, *sensitive, *quasi), progress)
    counted = reorder(counted, (*quasi, *sensitive, *carried))
    people = {name: _people(other, policy.unit, quasi, engine, progress) for name, other in populations.items()}
    named = {getattr(model, "population", None) for model in policy.privacy}
    extra = tuple(KMap(k=1, population=name) for name in populations if name not in named)
    by_records = replace(policy, privacy=(*policy.privacy, *extra), unit=None, household=None)
    encoding = encode(counted, by_records, people)
    kept = slice(None) if encoding.kept is None else encoding.kept
    records = counted.run.counts[kept]
    starts = find_starts([counted.codes(number)[kept] for number in range(len(quasi))])
    return RawTable(counted, encoding, records, np.append(starts, len(records)).astype(np.int64), len(quasi))


def _people(
    population: Source, unit: str | None, quasi: tuple[str, ...], engine: LocalEngine, progress: Progress
) -> CountedCells:
    """Count a population: its rows or, if it has the column of persons, each person with the same values once."""
    if unit is None or unit not in population.schema.names:
        return engine.count(population, quasi, progress)
    counted = engine.count(population, (unit, *quasi), progress)
    once = Run(counted.run.keys, np.ones(len(counted.run.counts), dtype=np.int64))
    return replace(reorder(counted, quasi), run=once)


def reorder(counted: CountedCells, columns: tuple[str, ...]) -> CountedCells:
    """Return the same cells with some of their columns, in this order."""
    places = [counted.columns.index(name) for name in columns]
    layout = counted.layout
    return replace(
        counted,
        columns=columns,
        dictionaries=tuple(counted.dictionaries[place] for place in places),
        layout=KeyLayout(
            bits=tuple(layout.bits[place] for place in places),
            word=tuple(layout.word[place] for place in places),
            shift=tuple(layout.shift[place] for place in places),
            n_words=layout.n_words,
        ),
    )

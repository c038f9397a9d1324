"""OCC-7 and OCC-15, the two tables of the slicing paper, and what classifiers see of them and of their releases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.core.arrays import CodeArray, IntArray
from shoal.datasets.uci import ADULT_COLUMNS, ADULT_NUMBERS, ADULT_QUASI, adult

FeatureArray: TypeAlias = NDArray[np.float32]  # what trees are grown from

SENSITIVE = "occupation"
N_BINS = 10
MANY_VALUES = 20  # numbers with more values than that are put in bins

# From least to most: the order that the numbers of education-num give, and that a reader would.
_EDUCATION = (
    "Preschool",
    "1st-4th",
    "5th-6th",
    "7th-8th",
    "9th",
    "10th",
    "11th",
    "12th",
    "HS-grad",
    "Some-college",
    "Assoc-voc",
    "Assoc-acdm",
    "Bachelors",
    "Masters",
    "Prof-school",
    "Doctorate",
)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """How one attribute is read: its values in order, where they lie and in which bin."""

    name: str
    values: pa.Array  # (n_values,) in order
    position: FeatureArray  # (n_values,) numbers as they are; of categories, their place in the order
    bin: IntArray  # (n_values,) if there are many numbers, bins of about equally many records; else places in the order

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray) -> Column:
        """Read the values from the original table."""
        occurring = pc.unique(column).sort()
        values = pa.array(_EDUCATION) if name == "education" else occurring
        places = np.arange(len(values))
        if name not in ADULT_NUMBERS:
            return cls(name, values, places.astype(np.float32), places)
        numbers = np.asarray(column, dtype=np.float64)
        position = np.asarray(values, dtype=np.float64)
        if len(values) > MANY_VALUES:
            edges = np.unique(np.quantile(numbers, np.arange(1, N_BINS) / N_BINS))
            places = np.searchsorted(edges, position, side="right")
        return cls(name, values, position.astype(np.float32), places)

    @property
    def n_values(self) -> int:
        """Number of values."""
        return len(self.values)

    def codes(self, column: pa.ChunkedArray) -> CodeArray:
        """Return (n_rows,) the places of original values."""
        found = pc.index_in(column, value_set=self.values).combine_chunks()
        return np.asarray(found, dtype=np.int32)

    def bounds(self, column: pa.ChunkedArray, labels: Mapping[str, Mapping[str, Any]]) -> tuple[CodeArray, CodeArray]:
        """Return (n_rows,) the places of the least and the greatest value under each row's label."""
        coded = column.combine_chunks().dictionary_encode()
        ends = [self._ends(labels[label]) for label in coded.dictionary.to_pylist()]
        of_label = np.array(ends, dtype=np.int32)[np.asarray(coded.indices)]
        return of_label[:, 0], of_label[:, 1]

    def _ends(self, cover: Mapping[str, Any]) -> tuple[int, int]:
        """Return the places of the least and the greatest value that a label of the manifest covers."""
        if "values" in cover:
            places = self.codes(pa.chunked_array([pa.array(cover["values"], self.values.type)]))
            return int(places.min()), int(places.max())
        if "any" in cover:
            return 0, self.n_values - 1
        low, below = cover["from"], cover["below"]
        first = 0 if low is None else np.searchsorted(self.position, low)
        last = self.n_values if below is None else np.searchsorted(self.position, below)
        return int(first), int(last) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """One of the paper's tables."""

    name: str
    title: str
    rows: pa.Table
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, name: str, title: str, rows: pa.Table) -> Table:
        """Read how each column of the rows is coded."""
        return cls(
            name, title, rows, tuple(Column.of(attribute, rows.column(attribute)) for attribute in rows.column_names)
        )

    def place(self, name: str) -> int:
        """Return the place of a column."""
        return int(self.rows.column_names.index(name))

    def policy(self, l: int, method: Mapping[str, Any]) -> dict[str, Any]:
        """Return a policy that asks for distinct l-diversity; categories have a total order, as Mondrian wants.

        The order is that of the alphabet, for education that of its years; numbers may be cut anywhere.
        """
        attributes: dict[str, Any] = {}
        for column in self.columns:
            attributes[column.name] = {"role": "sensitive" if column.name == SENSITIVE else "quasi"}
            if column.name not in ADULT_NUMBERS:
                attributes[column.name]["taxonomy"] = {"flat": column.values.to_pylist()}
        return {
            "attributes": attributes,
            "privacy": [{"distinct-l-diversity": {"l": l}}],
            "method": dict(method),
            "max_withheld": 0,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as classifiers see them: values, or of each label the least and the greatest value under it."""

    table: Table
    least: CodeArray  # (n_rows, n_columns)
    greatest: CodeArray | None = None  # (n_rows, n_columns); None: rows of original values, linked or re-linked

    @classmethod
    def of_values(cls, table: Table, rows: pa.Table) -> Rows:
        """Read rows of original values, whose columns may stand in another order."""
        return cls(table, np.stack([column.codes(rows.column(column.name)) for column in table.columns], axis=1))

    @classmethod
    def of_labels(cls, table: Table, rows: pa.Table, manifest: Mapping[str, Any]) -> Rows:
        """Read the rows of a generalization."""
        bounds = []
        for column in table.columns:
            labels = manifest["attributes"][column.name].get("labels")
            published = rows.column(column.name)
            exact = labels is None
            bounds.append((column.codes(published),) * 2 if exact else column.bounds(published, labels))
        least, greatest = (np.stack(side, axis=1) for side in zip(*bounds, strict=True))
        return cls(table, least, greatest)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.least)

    @property
    def generalized(self) -> bool:
        """Whether each attribute becomes two, a lower and an upper bound (section 6.1 of the paper)."""
        return self.greatest is not None

    def draw(self, name: str, rng: np.random.Generator) -> IntArray:
        """Return (n_rows,) a value of one attribute: where a label leaves several, one of them by chance."""
        place = self.table.place(name)
        least = self.least[:, place].astype(np.int64)
        return least if self.greatest is None else rng.integers(least, self.greatest[:, place], endpoint=True)

    def positions(self, without: str, *, doubled: bool) -> FeatureArray:
        """Return (n_rows, n_features) where the values of all attributes but one lie; *doubled*: both bounds."""
        return np.stack([c.position[codes] for c, codes in self.sides(without, doubled=doubled)], axis=1)

    def bins(self, without: str, *, doubled: bool) -> IntArray:
        """Return (n_rows, n_features) the bins of the values of all attributes but one."""
        return np.stack([c.bin[codes] for c, codes in self.sides(without, doubled=doubled)], axis=1)

    def n_bins(self, without: str, *, doubled: bool) -> IntArray:
        """Return (n_features,) how many bins there are."""
        return np.array([int(c.bin.max()) + 1 for c, _ in self.sides(without, doubled=doubled)])

    def sides(self, without: str, *, doubled: bool) -> Iterator[tuple[Column, CodeArray]]:
        """Yield each attribute but one with its values, or with those of the least and then of the greatest bounds."""
        upper = self.least if self.greatest is None else self.greatest
        for side in (self.least, upper) if doubled else (self.least,):
            for place, column in enumerate(self.table.columns):
                if column.name != without:
                    yield column, side[:, place]


def slicing_tables(folder: Path | None, n_rows: int | None, rng: np.random.Generator) -> tuple[Table, Table]:
    """Return OCC-7 and OCC-15: the 45,222 complete records of Adult, or *n_rows* of them drawn at random."""
    rows = adult(folder)
    if n_rows is not None and n_rows < len(rows):
        rows = rows.take(pa.array(np.sort(rng.choice(len(rows), n_rows, replace=False))))
    return (
        Table.of("occ-7", "OCC-7", rows.select([*ADULT_QUASI, SENSITIVE])),
        Table.of("occ-15", "OCC-15", rows.select([*(n for n in ADULT_COLUMNS if n != SENSITIVE), SENSITIVE])),
    )

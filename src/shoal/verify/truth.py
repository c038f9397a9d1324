"""Truth: every published row generalizes a source row of its own, as the witness says.

The witness tells for every source row, in source order, the number of the class that it is published in, 0 for none. It
is not believed but checked, in one pass over both tables: each row lies under the labels of its class, and the pairs of
class number and exact content are the same in both tables, each as often. See docs/adr/0038-witness.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel
from shoal.core.wording import count_noun
from shoal.verify.contents import Contents, fold_values
from shoal.verify.covers import Covers
from shoal.verify.form import demand_columns
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS
from shoal.verify.result import Check

if TYPE_CHECKING:
    from shoal.sources.base import Source

_BOUND = 1 << 62  # of the numbers in one column
TOO_LONG = "the witness tells of more rows than the source has"


class Witness:
    """The numbers of classes or buckets, in memory or in a file that is read as far as it is asked for."""

    def __init__(self, given: IntArray | Path, column: str) -> None:
        """Take (n_rows,) or (n_columns, n_rows) numbers, or a Parquet file of columns of that name.

        A file that is something else is refused by a ValueError.
        """
        self._groups: tuple[int, IntArray] = (-1, np.zeros((0, 0), dtype=np.int64))  # the last that was read
        if not isinstance(given, Path):
            self._path, self._groups = None, (0, np.atleast_2d(given).astype(np.int64, copy=False))
            self._first: IntArray = np.array([0, self._groups[1].shape[1]])
            self.n_columns = len(self._groups[1])
            return
        self._path = given
        with pq.ParquetFile(given) as file:
            schema, metadata = file.schema_arrow, file.metadata
            sizes = [metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        names = [column, *(f"{column} {number}" for number in range(2, len(schema.names) + 1))]
        if schema.names != names or not all(pa.types.is_integer(kind) for kind in schema.types):
            raise ValueError("the witness is not columns of whole numbers")
        self._first = np.cumsum([0, *sizes])
        self.n_columns = len(names)

    @property
    def n_rows(self) -> int:
        """Of how many source rows it tells."""
        return int(self._first[-1])

    def read(self, begin: int, n_rows: int) -> IntArray | str:
        """Return (n_columns, n_rows) the numbers of some source rows, or why there are none."""
        if begin + n_rows > self.n_rows:
            return "the witness tells of fewer rows than the source has"
        found, end = [], begin + n_rows
        try:
            while begin < end:
                group = int(np.searchsorted(self._first, begin, side="right")) - 1
                first, after = int(self._first[group]), min(end, int(self._first[group + 1]))
                found.append(self._group(group)[:, begin - first : after - first])
                begin = after
        except FAULTS as fault:
            return f"the witness cannot be read ({type(fault).__name__})"
        return np.concatenate(found, axis=1) if found else np.zeros((self.n_columns, 0), dtype=np.int64)

    def _group(self, group: int) -> IntArray:
        if self._groups[0] != group and self._path is not None:
            with pq.ParquetFile(self._path) as file:
                table = file.read_row_group(group)
            if any(column.null_count for column in table.columns):
                raise ValueError("the witness does not tell of every row")
            self._groups = group, np.stack([column.cast(pa.int64()).to_numpy() for column in table.columns])
        return self._groups[1]


class ProjectedWitness(Witness):
    """What a witness tells of the attributes that another manifest has, too."""

    def __init__(self, given: Witness, manifest: Manifest, other: Manifest) -> None:
        self._given, self._own, self._other = given, ClassNumbers.of(manifest), ClassNumbers.of(other)
        labelled = [attribute.name for attribute in manifest.labelled]
        self._places = [labelled.index(attribute.name) for attribute in other.labelled]
        self.n_columns = self._other.n_columns

    @property
    def n_rows(self) -> int:
        """Of how many source rows it tells."""
        return self._given.n_rows

    def read(self, begin: int, n_rows: int) -> IntArray | str:
        """Return (n_columns, n_rows) the numbers of some source rows, or why there are none."""
        numbers = self._given.read(begin, n_rows)
        if isinstance(numbers, str) or len(numbers) != self._own.n_columns or not self._own.hold(numbers):
            return "the witness does not fit"
        own = self._other.pack(self._own.unpack(numbers).T[self._places], n_rows)
        own[:, numbers[0] == 0] = 0
        return own


class ClassNumbers:
    """What a class number says of labels: it is 1 + their mixed radix number, in several columns if they are many.

    >>> numbers = ClassNumbers([2, 5])
    >>> numbers.pack(np.array([[1], [4]], dtype=np.int32)).tolist(), numbers.labels(np.array([[12]]), 0).tolist()
    ([[12]], [1])
    """

    def __init__(self, n_labels: Sequence[int]) -> None:
        """Take how many labels each attribute has that has some; then come missing values, then any other text."""
        self._radices = [labels + 2 for labels in n_labels]
        self._column, self._stride = [0] * len(n_labels), [1] * len(n_labels)
        self._bounds = [1]
        for place, radix in enumerate(self._radices):
            if self._bounds[-1] * radix >= _BOUND:
                self._bounds.append(1)
            self._column[place] = len(self._bounds) - 1
            self._bounds[-1] *= radix
        for place in reversed(range(len(n_labels) - 1)):
            if self._column[place] == self._column[place + 1]:
                self._stride[place] = self._stride[place + 1] * self._radices[place + 1]

    @classmethod
    def of(cls, manifest: Manifest) -> ClassNumbers:
        """Return how the classes of a release are numbered."""
        return cls([len(attribute.labels or {}) for attribute in manifest.labelled])

    @property
    def n_columns(self) -> int:
        """How many columns a witness has."""
        return len(self._bounds)

    @property
    def digits(self) -> list[tuple[int, int, int]]:
        """For each attribute with labels: the column of the numbers, and the stride and radix of its digit there."""
        return list(zip(self._column, self._stride, self._radices, strict=True))

    def pack(self, labels: CodeArray, n_rows: int | None = None) -> IntArray:
        """Return (n_columns, n_rows) the numbers of rows, given (n_labelled, n_rows) their labels."""
        numbers = np.ones((self.n_columns, labels.shape[1] if n_rows is None else n_rows), dtype=np.int64)
        for place, column in enumerate(self._column):
            numbers[column] += labels[place].astype(np.int64) * self._stride[place]
        return numbers

    def labels(self, numbers: IntArray, place: int) -> CodeArray:
        """Return (n_rows,) the labels of one attribute, given (n_columns, n_rows) numbers of classes."""
        numbers = (numbers[self._column[place]] - 1) // self._stride[place] % self._radices[place]
        return np.asarray(numbers, dtype=np.int32)

    def unpack(self, numbers: IntArray) -> CodeArray:
        """Return (n_rows, n_labelled) the labels of all attributes."""
        labels = [self.labels(numbers, place) for place in range(len(self._radices))]
        return np.array(labels, dtype=np.int32).reshape(len(labels), numbers.shape[1]).T

    def hold(self, numbers: IntArray) -> bool:
        """Whether these are numbers of classes, or all 0."""
        inside = all(((own >= 0) & (own <= bound)).all() for own, bound in zip(numbers, self._bounds, strict=True))
        return inside and bool(((numbers > 0) == (numbers[0] > 0)).all())


def hash_classes(key: KeyArray, hashes: KeyArray, numbers: IntArray) -> KeyArray:
    """Return (n_rows,) tokens: hashes of the contents of rows and (n_columns, n_rows) the numbers of their classes."""
    rows = hashes.copy()
    for column in numbers:
        fold_values(key, rows, np.ascontiguousarray(column).view(np.uint64))
    return rows


@kernel
def _find_uncovered(
    labels: CodeArray, codes: CodeArray, start: IntArray, low: CodeArray, high: CodeArray, wrong: BoolArray
) -> None:
    """Mark the rows whose code is in no range of their label; ranges of a label ascend."""
    for i in range(labels.shape[0]):
        label, code = labels[i], codes[i]
        if label >= start.shape[0] - 1:
            wrong[i] = True
            continue
        begin, end = start[label], start[label + 1]
        while begin < end:  # the last range that begins at or before the code
            middle = (begin + end) // 2
            if low[middle] <= code:
                begin = middle + 1
            else:
                end = middle
        wrong[i] |= begin == start[label] or code >= high[begin - 1]


def count_uncovered(
    numbers: IntArray, of_class: ClassNumbers, points: CodeArray, covers: Sequence[tuple[int, Covers]]
) -> int:
    """Return how many rows do not lie under the labels of their classes.

    *points* are (n_rows, n_covers) the codes of their values; a cover comes with its place among those with labels.
    """
    wrong = np.zeros(numbers.shape[1], dtype=np.bool_)
    for column, (place, cover) in enumerate(covers):
        labels = of_class.labels(numbers, place)
        codes = np.ascontiguousarray(points[:, column])
        _find_uncovered(labels, codes, cover.start, cover.low, cover.high, wrong)
    return int(wrong.sum())


def contents_for(manifest: Manifest, published: pa.Schema, source: Source) -> Contents:
    """Return the hasher for the columns that must be equal in both tables."""
    demand_columns(source, [attribute.name for attribute in manifest.attributes])
    exact = [a.name for a in manifest.attributes if not a.boxed and manifest.is_traced(a)]
    kinds = [manifest.kind_of(name, published.field(name).type, source.schema.field(name).type) for name in exact]
    return Contents(exact, kinds, manifest.missing_tokens)


def check_values(covers: Sequence[Covers], met: Sequence[BoolArray]) -> Iterator[Check]:
    """A record spreads over the values under its label; one that nobody has would make it look more diverse."""
    for cover, found in zip(covers, met, strict=True):
        if cover.attribute.role == "sensitive":
            name, absent = cover.attribute.name, cover.unmet(found)
            detail = f"labels of {name} cover {count_noun(absent, 'value')} that no source row has"
            yield Check("values", not absent, detail if absent else f"all values that labels of {name} cover occur")


def report_unassigned() -> Check:
    """Return the check that was not done because the witness is missing."""
    why = (
        "not checked: internal/witness.parquet is not there, so nothing shows in which class each source row is, nor "
        "whether the values beside its labels are its own"
    )
    return Check("assignment", True, why, done=False, required=True)


def judge_truth(manifest: Manifest, false_rows: int = 0) -> Check:
    """Every published row generalizes a source row, but for some, and no two rows the same one."""
    traced = sum(manifest.is_traced(attribute) for attribute in manifest.attributes)
    by = "" if traced == len(manifest.attributes) else f", by the {traced} columns that follow from the source"
    if false_rows:
        return Check("truth", False, f"{false_rows} published rows cover no source row of their own{by}")
    if not traced:
        return Check("truth", True, "no column follows from the source, so rows cannot be distinguished")
    return Check("truth", True, f"every published row covers a source row of its own{by}")

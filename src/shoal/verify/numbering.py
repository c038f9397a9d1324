"""Numbers for the labels and the values of one column, while rows stream by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray
from shoal.manifest import Attribute
from shoal.verify.contents import MISSING, Contents
from shoal.verify.kernels import look_up, mark
from shoal.verify.reading import coded

_VALUE = "value"


class LabelReader:
    """Numbers labels as ``read_covers`` does; after them come missing values, where legal, and unknown texts."""

    def __init__(self, attribute: Attribute) -> None:
        labels = list(attribute.labels or {})
        self.name = attribute.name
        self._labels = pa.array(labels, type=pa.string())
        self._unknown = len(labels) + attribute.may_keep_missing
        self.radix = self._unknown + 1
        self._used: BoolArray = np.zeros(self.radix, dtype=np.bool_)
        self._last: tuple[pa.Array, CodeArray] = (pa.nulls(0), np.full(1, len(labels), dtype=np.int32))

    def read(self, column: pa.Array) -> CodeArray:
        """Return (n_rows,) label numbers; several threads may read at a time."""
        out = np.empty(len(column), dtype=np.int32)
        self.fill(column, out)
        return out

    def fill(self, column: pa.Array, out: CodeArray) -> None:
        """Write (n_rows,) label numbers into *out*; several threads may do so at a time."""
        values, places = coded(column)
        numbers = self._numbers(values)
        present = np.zeros(numbers.shape[0], dtype=np.bool_)
        mark(places, present)
        self._used[numbers[present]] = True
        look_up(numbers, places, out)

    def _numbers(self, values: pa.Array) -> CodeArray:
        """Return (n + 1,) the numbers of texts, and of none; batches of a file often have the same ones in turn."""
        texts, numbers = self._last
        if not texts.equals(values):
            found = pc.index_in(values.cast(pa.string()), value_set=self._labels).fill_null(self._unknown)
            numbers = np.append(np.asarray(found), len(self._labels)).astype(np.int32)
            self._last = values, numbers
        return numbers

    @property
    def used(self) -> BoolArray:
        """(radix,) which numbers rows have; what another reader of the same labels met can be added."""
        return self._used

    @property
    def met_unknown(self) -> bool:
        """Whether a row has a text that is no label."""
        return bool(self._used[self._unknown])

    @property
    def idle(self) -> int:
        """How many labels no row has."""
        return int((~self._used[: len(self._labels)]).sum())


@dataclass(frozen=True, slots=True)
class MetValues:
    """Values of a sensitive attribute in the order of their numbers."""

    words: tuple[int, ...]  # what tells them apart, under the key of their reader
    texts: tuple[str | None, ...]


class ValueReader:
    """Numbers the values of a sensitive attribute in the order in which they are met.

    Values that are equal in the type *kind* are one, however they are spelled, and so are all that mean missing: else
    a release could make one value look like several.

    >>> reader = ValueReader(pa.float64(), ["?"])
    >>> reader.read(*coded(pa.array(["1", "1.0", None, "?", "2"]))).tolist(), reader.texts
    ([0, 0, 1, 1, 2], ['1', None, '2'])
    """

    def __init__(self, kind: pa.DataType, missing: Sequence[str]) -> None:
        self._contents = Contents([_VALUE], [kind], missing)
        self._codes: dict[int, int] = {}  # word of a value -> its number
        self.texts: list[str | None] = []  # how each number's value is spelled where it is first met

    @property
    def count(self) -> int:
        """How many different values were met."""
        return len(self.texts)

    @property
    def met(self) -> MetValues:
        """The values that were met."""
        return MetValues(tuple(self._codes), tuple(self.texts))

    def add(self, met: MetValues) -> CodeArray:
        """Return (n_values,) the numbers of values that another reader under the same key met."""
        for word, text in zip(met.words, met.texts, strict=True):
            if self._codes.setdefault(word, len(self._codes)) == self.count:
                self.texts.append(text)
        return np.array([self._codes[word] for word in met.words], dtype=np.int32)

    def read(self, values: pa.Array, places: CodeArray) -> CodeArray:
        """Return (n_rows,) numbers of the rows' values, given as ``coded`` does."""
        spelled = values.cast(pa.string()).to_pylist()
        words = self._contents.words(_VALUE, values)
        present = np.zeros(len(values) + 1, dtype=np.bool_)
        mark(places, present)
        numbers = np.zeros(len(values) + 1, dtype=np.int32)
        for place in np.flatnonzero(present).tolist():
            word = int(words[place])
            numbers[place] = self._codes.setdefault(word, len(self._codes))
            if self.count < len(self._codes):
                self.texts.append(None if word == MISSING else spelled[place])
        return gather_codes(numbers, places)


def gather_codes(numbers: CodeArray, places: CodeArray) -> CodeArray:
    """Return (n_rows,) the numbers at some places."""
    out = np.empty(places.shape[0], dtype=np.int32)
    look_up(numbers, places, out)
    return out

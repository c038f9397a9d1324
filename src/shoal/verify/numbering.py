"""Numbers for the labels and the values of one column, while rows stream by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray
from shoal.manifest import Attribute
from shoal.verify.contents import MISSING, Contents
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
        self.used: BoolArray = np.zeros(self.radix, dtype=np.bool_)  # which numbers rows have

    def read(self, column: pa.Array) -> CodeArray:
        """Return (n_rows,) label numbers; several threads may read at a time."""
        values, places = coded(column)
        known = pc.index_in(values.cast(pa.string()), value_set=self._labels).fill_null(self._unknown)
        found = np.append(np.asarray(known), len(self._labels)).astype(np.int32).take(places)
        self.used[np.bincount(found, minlength=self.radix) > 0] = True  # nobody else writes anything but True
        return found

    @property
    def met_unknown(self) -> bool:
        """Whether a row has a text that is no label."""
        return bool(self.used[self._unknown])

    @property
    def idle(self) -> int:
        """How many labels no row has."""
        return int((~self.used[: len(self._labels)]).sum())


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

    def read(self, values: pa.Array, places: CodeArray) -> CodeArray:
        """Return (n_rows,) numbers of the rows' values, given as ``coded`` does."""
        spelled = values.cast(pa.string()).to_pylist()
        words = self._contents.words(_VALUE, values)
        numbers = np.zeros(len(values) + 1, dtype=np.int32)
        for place in np.flatnonzero(np.bincount(places)).tolist():
            word = int(words[place])
            numbers[place] = self._codes.setdefault(word, len(self._codes))
            if self.count < len(self._codes):
                self.texts.append(None if word == MISSING else spelled[place])
        return numbers.take(places)

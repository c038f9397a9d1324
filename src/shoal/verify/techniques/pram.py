"""Values that were replaced at random by a transition matrix which the manifest states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field, model_validator

from shoal.core.arrays import FloatArray
from shoal.manifest import Listed, StrictEntry
from shoal.verify.numbering import number_rows
from shoal.verify.reading import encode
from shoal.verify.techniques.base import ColumnValues, Declared, compare_missing, missing_values
from shoal.verify.techniques.numbers import exact

_STEP = 1e-9  # probabilities are stated to so much
Key = tuple[str | None, ...]  # the texts of some columns


class Transitions(StrictEntry):
    """Of one stratum: row by row what its values become."""

    stratum: Listed[str | None]
    values: Listed[str]
    matrix: Listed[Listed[float]]

    @model_validator(mode="after")
    def _fits(self) -> Transitions:
        n = len(self.values)
        if not n or len(set(self.values)) != n or len(self.matrix) != n or any(len(row) != n for row in self.matrix):
            raise ValueError("has no square matrix of different values")
        if any(not 0 <= share <= 1 for row in self.matrix for share in row):
            raise ValueError("has a probability that is not between 0 and 1")
        if any(sum(map(exact, row)) != 1 for row in self.matrix):
            raise ValueError("has a row of probabilities that do not add up to 1")
        return self

    @property
    def array(self) -> FloatArray:
        """(n, n) the matrix."""
        return np.array(self.matrix, dtype=np.float64)


class Pram(Declared):
    """Each value became one of those that its row of the matrix leads to."""

    finding: ClassVar[str] = "values are those of the transition matrix"
    agreement: ClassVar[str] = "the matrix can lead from the source's frequencies to these"
    uncheckable: ClassVar[str] = "the random draw by the matrix"

    invariant: bool
    strata: Listed[str]
    applied: Listed[Transitions]
    keep: Annotated[float, Field(gt=0, lt=1)] | None = None

    @model_validator(mode="after")
    def _states_matrices(self) -> Pram:
        if self.column in self.strata or len(set(self.strata)) != len(self.strata):
            raise ValueError("names a column twice in strata, or the column itself")
        strata = {one.stratum for one in self.applied}
        if not strata or len(strata) != len(self.applied) or any(len(one) != len(self.strata) for one in strata):
            raise ValueError("has not one matrix of every stratum")
        if self.strata and not self.invariant:
            raise ValueError("has strata and is not invariant")
        if self.keep is not None and not all(self._is_mixture(one.array) for one in self.applied):
            raise ValueError("has a matrix that does not keep values with the stated probability")
        return self

    def _is_mixture(self, matrix: FloatArray) -> bool:
        """Whether a value is kept with the probability or drawn, from the same shares whatever it is."""
        n, keep = len(matrix), self.keep or 0.0
        drawn = matrix - np.diag(np.full(n, keep))
        if bool((np.diag(drawn) < -_STEP / 10).any()):
            return False
        shares = np.full(n, 1 / n) if not self.invariant else np.median(drawn, axis=0) / (1 - keep)
        return n == 1 or bool((np.abs(drawn - (1 - keep) * shares) <= (n + 2) * _STEP).all())

    def find_fault(self, published: ColumnValues) -> str | None:
        """All values are those of a matrix."""
        known = {value for one in self.applied for value in one.values}
        shown = published.texts().to_pylist()
        # Numbers may be written in another way in the file.
        strange = {_plain(text) for text in shown} - {_plain(value) for value in known}
        return f"has {len(strange)} values that the transition matrix does not have" if strange else None

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Missing stays missing."""
        return compare_missing(published, original)

    def read_as(self, kinds: Sequence[pa.DataType]) -> list[Transitions]:
        """Return the matrices with strata and values as texts of these types, as ``count_texts`` has them."""
        strata = [
            texts_as(pa.array([one.stratum[place] for one in self.applied], pa.string()), kind)
            for place, kind in enumerate(kinds[:-1])
        ]
        values = [tuple(texts_as(pa.array(one.values, pa.string()), kinds[-1])) for one in self.applied]
        return [
            one.model_copy(update={"stratum": tuple(own[number] for own in strata), "values": values[number]})
            for number, one in enumerate(self.applied)
        ]

    def compare_counts(
        self,
        published: Counter[Key],
        original: Counter[Key],
        applied: Sequence[Transitions],
        kept: Sequence[int],
        *,
        whole: bool,
    ) -> str | None:
        """Return why published counts cannot come from the source's, if they cannot.

        Keys of the source are a stratum and a value, published ones those places of it that are *kept* and a value.
        *whole* says that all rows of the source were treated, and not a sample of them.
        """
        left = {key: n for key, n in original.items() if key[-1] is not None}
        rows: Counter[Key] = Counter()  # of the source, by what is kept of the stratum
        for key, n in left.items():
            rows[tuple(key[place] for place in kept)] += n
        cells: dict[Key, FloatArray] = {}  # the smallest and the greatest possible count of each published value
        for one in applied:
            matrix = one.array
            counts = np.array([left.pop((*one.stratum, value), 0) for value in one.values], dtype=np.int64)
            if whole and self.invariant:
                slack = (len(counts) + 2) * _STEP * counts.sum()
                if not counts.all() or bool((np.abs(counts @ matrix - counts) > slack).any()):
                    return "has a matrix that does not keep the frequencies of the source, and is said to be invariant"
            bounds = np.stack([counts @ (matrix == 1), counts @ (matrix > 0)], axis=1)
            for value, own in zip(one.values, bounds, strict=True):
                cell = (*(one.stratum[place] for place in kept), value)
                cells[cell] = cells.get(cell, np.zeros(2)) + own
        if whole and left:
            return "has no transition for some values of the source"
        shown = {key: n for key, n in published.items() if key[-1] is not None}
        withheld = rows.copy()
        for key, n in shown.items():
            withheld[key[:-1]] -= n
        if any(n > cells.get(key, np.zeros(2))[1] for key, n in shown.items()):
            return "has values that no value of the source leads to"
        if any(shown.get(key, 0) < own[0] - withheld[key[:-1]] for key, own in cells.items()):
            return "lacks values that the matrix always keeps"
        return "has more values in a stratum than the source" if min(withheld.values(), default=0) < 0 else None


def texts_as(values: pa.Array, kind: pa.DataType) -> list[str | None]:
    """Return values as texts in the form that numbers, days and the like of this type have."""
    return list(values.cast(kind).cast(pa.string()).to_pylist())


def _plain(text: str) -> str:
    """Return a text, or a number in one form of all in which it may be written."""
    try:
        return repr(float(text))
    except ValueError:
        return text


def count_texts(
    batches: Iterable[pa.RecordBatch], kinds: Sequence[pa.DataType], missing: Sequence[str] = ()
) -> Counter[Key]:
    """Return how often each combination of texts occurs, each column read as one of the kinds."""
    tokens = pa.array(list(missing), type=pa.string())
    found: Counter[Key] = Counter()
    for batch in batches:
        texts, places = [], []
        for column, kind in zip(batch.columns, kinds, strict=True):
            values, place = encode(column)
            gone = missing_values(values, tokens)
            own = texts_as(values.filter(pa.array(~gone)), kind)
            texts.append([*own, None])
            place = np.append(np.where(gone, len(own), np.cumsum(~gone) - 1), len(own))[place]
            places.append(place.astype(np.int64))
        distinct, numbers = number_rows(np.stack(places))
        for key, n in zip(distinct.T.tolist(), np.bincount(numbers, minlength=distinct.shape[1]).tolist(), strict=True):
            found[tuple(own[place] for own, place in zip(texts, key, strict=True))] += n
    return found

"""What a manifest declares of a column that was changed before anything else, and the values that a column holds.

Written for this purpose alone: the verifier shares no code with the techniques that changed the columns. A technique is
a strict model of its entry in the manifest, which says how published values must look and what they follow from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.manifest import StrictEntry
from shoal.verify.covers import is_text
from shoal.verify.reading import encode

MOST_DECIMALS = 9
Decimals = Annotated[int, Field(ge=0, le=MOST_DECIMALS)]
_NUMBER = r"^\s*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_MANY = 4_000_000  # values of several batches that are held before equal ones are joined


@dataclass(frozen=True, slots=True, eq=False)
class ColumnValues:
    """What a column holds, in whatever order; memory is bounded by the distinct values."""

    values: pa.Array  # (n_values,) distinct, none missing
    counts: IntArray  # (n_values,) rows, all > 0
    missing: int

    @property
    def present(self) -> int:
        """Rows that have a value."""
        return int(self.counts.sum())

    def texts(self) -> pa.Array:
        """Return (n_values,) the values as text."""
        return as_texts(self.values)

    def numbers(self) -> tuple[FloatArray, IntArray] | None:
        """Return the values as ascending numbers and how many rows have each; None if one is no finite number."""
        return self.ascending(as_numbers(self.values))

    def ascending(self, found: FloatArray) -> tuple[FloatArray, IntArray] | None:
        """Return (n_values,) what was read of the values, equal ones once, and how many rows have each; see above."""
        if not bool(np.isfinite(found).all()):
            return None
        numbers, place = np.unique(found + 0.0, return_inverse=True)
        return numbers, np.bincount(place, self.counts, len(numbers)).astype(np.int64)


class Declared(StrictEntry):
    """One column's technique: what its published values must look like, and what they follow from."""

    moved: ClassVar[bool] = False  # whether rows have each other's values
    numeric: ClassVar[bool] = False  # whether what is published are numbers, however they are spelled
    roles: ClassVar[tuple[str, ...]] = ("quasi", "sensitive", "insensitive")
    agreement: ClassVar[str] = ""  # the result of ``compare`` if nothing is wrong
    uncheckable: ClassVar[str] = "the random draw"  # no file shows it, unless values are determined

    column: str  # the entry's key in the manifest
    technique: str

    @property
    def determined(self) -> bool:
        """Whether a published value follows from the source's, so that rows can be compared by it."""
        return False

    @property
    def compared(self) -> bool:
        """Whether ``compare`` looks for something in the source's values."""
        return not self.determined and not self.moved

    def recompute(self, values: pa.Array) -> pa.Array:
        """Return what values of the source become, none of which is missing, if that is determined."""
        raise NotImplementedError

    def find_fault(self, published: ColumnValues) -> str | None:  # noqa: ARG002
        """Return what is wrong with the published values by themselves, if something is."""
        return None

    def compare(self, published: ColumnValues, original: ColumnValues) -> str | None:  # noqa: ARG002
        """Return why the published values cannot come from the source's, if they cannot."""
        return None

    @property
    def finding(self) -> str:
        """The result of ``find_fault`` if nothing is wrong."""
        raise NotImplementedError


SAME_GAPS = "neither values nor missing values are more frequent than in the source"


def compare_missing(published: ColumnValues, original: ColumnValues) -> str | None:
    """Return a fault unless values and missing values are both no more than the source has."""
    if published.missing > original.missing or published.present > original.present:
        return "has another number of missing values than the source"
    return None


Counted = tuple[pa.Array, IntArray]  # distinct values, and how many rows have each


def gather_values(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], missing: Sequence[str] = ()
) -> dict[str, ColumnValues]:
    """Return the values of columns.

    *missing* are texts of a source. A release has none in their place, so that no text of it goes unchecked.
    """
    tokens = pa.array(list(missing), type=pa.string())
    absent = dict.fromkeys(names, 0)
    held: dict[str, list[Counted]] = {name: [] for name in names}
    for batch in batches:
        for name, pieces in held.items():
            values, places = encode(batch.column(name))
            counts = np.bincount(places, minlength=len(values) + 1).astype(np.int64)
            gone = missing_values(values, tokens)
            absent[name] += int(counts[-1] + counts[:-1][gone].sum())
            used = ~gone & (counts[:-1] > 0)
            if used.any():
                pieces.append((values.filter(pa.array(used)), counts[:-1][used]))
            if sum(len(own) for own, _ in pieces) > _MANY:
                pieces[:] = [_join(pieces)]
    return {name: ColumnValues(*_join(pieces), absent[name]) for name, pieces in held.items()}


def _join(pieces: Sequence[Counted]) -> Counted:
    """Return the values of several batches, equal ones once."""
    if not pieces:
        return pa.array([], pa.string()), np.zeros(0, dtype=np.int64)
    joined = pa.concat_arrays([values for values, _ in pieces]).dictionary_encode()
    weights = np.concatenate([counts for _, counts in pieces])
    return joined.dictionary, np.bincount(np.asarray(joined.indices), weights, len(joined.dictionary)).astype(np.int64)


def missing_values(values: pa.Array, tokens: pa.Array) -> BoolArray:
    """Return (n,) which of some values, none of them null, mean missing."""
    if pa.types.is_floating(values.type):
        return np.isnan(np.asarray(values, dtype=np.float64))
    if is_text(values.type):
        return np.asarray(pc.is_in(values.cast(pa.string()), value_set=tokens), dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def as_texts(values: pa.Array) -> pa.Array:
    """Return values as text, numbers in their shortest form."""
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def as_numbers(values: pa.Array) -> FloatArray:
    """Return (n,) values as numbers, NaN for those that are none.

    >>> as_numbers(pa.array(["17", "1.50", "x"])).tolist()
    [17.0, 1.5, nan]
    """
    if is_text(values.type):
        texts = values.cast(pa.string())
        read = pc.if_else(pc.match_substring_regex(texts, pattern=_NUMBER), pc.utf8_trim_whitespace(texts), None)
        numbers = read.cast(pa.float64())
    elif pa.types.is_integer(values.type):
        numbers = values.cast(pa.float64(), safe=False)
    elif pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = values.cast(pa.float64())
    else:
        numbers = pa.nulls(len(values), pa.float64())
    return np.asarray(numbers.fill_null(float("nan")), dtype=np.float64)

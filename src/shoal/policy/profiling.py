"""One streaming pass over a table: what each column looks like, in counts."""

from __future__ import annotations

import math
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.progress import Progress
from shoal.sources.base import Source
from shoal.taxonomies.parse import days, decimal_numbers, is_text, texts, whole_numbers

MOST_DISTINCT = 100_000  # distinct values of a column are counted exactly up to here
FORMATS = ("", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")  # of dates; "" is ISO
MARKERS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan")  # texts that usually mean missing
_FEW = 1000  # values that are looked at before the rest
_MOST_THREADS = 8
_LEADING_ZERO = "^0[0-9]"
_DIGITS = "^[0-9]+$"
_WORDS = r"\S\s+\S+\s+\S"

Kind = Literal["empty", "truth", "whole", "decimal", "date", "text"]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnProfile:
    """What one pass says of a column; values themselves are kept for checking only and never shown."""

    name: str
    kind: Kind
    n_rows: int
    n_missing: int
    n_distinct: int  # at least, if not exact
    exact: bool
    distinct_share: float  # distinct values over records with a value, as far as they were counted
    n_unique: int  # values of one record, as far as they were counted
    lowest: float  # of numbers, or of days since 1970
    highest: float
    date_formats: tuple[str, ...]  # that fit every value
    length: int | None  # of every text, or the most digits of whole numbers
    digits_only: bool
    leading_zeros: bool
    mean_length: float
    wordy: bool  # texts of three words and more
    markers: tuple[str, ...]  # texts that usually mean missing, taken so
    values: pa.Array  # distinct values, as far as they were counted
    counts: IntArray  # (n_distinct + 1,) records of each, those without a value first


@dataclass(slots=True)
class _Watch:
    """What is still possible for a column, batch by batch."""

    name: str
    arrow_type: pa.DataType
    dictionary: GrowingDictionary = field(default_factory=GrowingDictionary)
    counts: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    exact: bool = True
    whole: bool = True
    decimal: bool = True
    formats: tuple[str, ...] = FORMATS
    lowest: float = math.inf
    highest: float = -math.inf
    lengths: set[int] = field(default_factory=set)
    digits_only: bool = True
    leading_zeros: bool = False
    wordy: bool = False
    characters: int = 0
    n_rows: int = 0
    n_missing: int = 0
    n_values: int = 0
    markers: set[str] = field(default_factory=set)

    def see(self, column: pa.Array) -> None:
        indices, values = factor_column(column)
        if is_text(values.type):
            indices = self._without_markers(indices, values)
        present = np.bincount(indices + 1, minlength=len(values) + 1)
        self.n_rows += len(indices)
        self.n_missing += int(present[0])
        used = present[1:] > 0
        if not used.all():
            values = values.filter(pa.array(used))
        new = self._remember(values, present[np.append(True, used)])
        for part in (new[:_FEW], new[_FEW:]):  # what a few values rule out is not asked of all the others
            if len(part):
                self._look(part)

    def _without_markers(self, indices: CodeArray, values: pa.Array) -> CodeArray:
        marked = pc.is_in(values, value_set=pa.array(MARKERS)).to_numpy(zero_copy_only=False)
        if not marked.any():
            return indices
        self.markers.update(values.filter(pa.array(marked)).to_pylist())
        gone = np.append(marked, True)
        return np.where(gone[indices], np.int32(-1), indices)

    def _remember(self, values: pa.Array, records: IntArray) -> pa.Array:
        """Count values, of which *records* are (n_values + 1,), until there are too many; return those that are new."""
        if not self.exact:
            return values
        known = self.dictionary.size
        codes = self.dictionary.codes(values).astype(np.int64)
        if self.dictionary.size > MOST_DISTINCT + 1:
            self.exact = False
        counts = np.zeros(self.dictionary.size, dtype=np.int64)
        counts[: len(self.counts)] = self.counts
        counts[codes] += np.append(records[1:], records[0])  # codes of one batch differ
        self.counts = counts
        return values.filter(pa.array(codes[:-1] >= known))

    def _look(self, values: pa.Array) -> None:
        """Rule out what these values, at least one, cannot be."""
        self.n_values += len(values)
        if self.decimal:
            numbers, numeric = decimal_numbers(values)
            self.decimal = bool(numeric.all())
            self.whole = self.whole and self.decimal and bool(whole_numbers(values)[1].all())
            if self.decimal:
                self._widen(numbers.min(), numbers.max())
        if not self.decimal:
            self.whole = False
        if is_text(self.arrow_type) or pa.types.is_integer(self.arrow_type):
            self._look_at_text(texts(values))
        if self.formats:
            self._look_at_dates(values)

    def _look_at_text(self, as_text: pa.Array) -> None:
        lengths = pc.utf8_length(as_text)
        ends = pc.min_max(lengths).as_py()
        self.lengths.update((ends["min"], ends["max"]))
        self.characters += pc.sum(lengths).as_py()
        self.digits_only = self.digits_only and pc.all(pc.match_substring_regex(as_text, _DIGITS)).as_py()
        self.leading_zeros = self.leading_zeros or pc.any(pc.match_substring_regex(as_text, _LEADING_ZERO)).as_py()
        self.wordy = self.wordy or pc.any(pc.match_substring_regex(as_text, _WORDS)).as_py()

    def _look_at_dates(self, values: pa.Array) -> None:
        fitting = []
        for form in self.formats:
            number, valid = days(values, form or None)
            if valid.all():
                fitting.append(form)
                if not self.decimal:
                    self._widen(number.min(), number.max())
        self.formats = tuple(fitting)

    def _widen(self, low: float, high: float) -> None:
        self.lowest, self.highest = min(self.lowest, float(low)), max(self.highest, float(high))

    def profile(self) -> ColumnProfile:
        counted = int(self.counts[1:].sum())
        n_distinct = int((self.counts[1:] > 0).sum())
        return ColumnProfile(
            name=self.name,
            kind=self._kind(),
            n_rows=self.n_rows,
            n_missing=self.n_missing,
            n_distinct=n_distinct,
            exact=self.exact,
            distinct_share=n_distinct / counted if counted else 0.0,
            n_unique=int((self.counts[1:] == 1).sum()),
            lowest=self.lowest,
            highest=self.highest,
            date_formats=self.formats,
            length=self._length(),
            digits_only=self.digits_only,
            leading_zeros=self.leading_zeros,
            mean_length=self.characters / self.n_values if self.n_values else 0.0,
            wordy=self.wordy,
            markers=tuple(sorted(self.markers)),
            values=self.dictionary.values,
            counts=self.counts,
        )

    def _kind(self) -> Kind:
        if self.n_missing == self.n_rows:
            return "empty"
        if pa.types.is_boolean(self.arrow_type):
            return "truth"
        if self.formats:
            return "date"
        if self.whole:
            return "whole"
        return "decimal" if self.decimal else "text"

    def _length(self) -> int | None:
        if pa.types.is_integer(self.arrow_type):
            return max(self.lengths, default=None)
        return next(iter(self.lengths)) if len(self.lengths) == 1 else None


def profile_columns(source: Source, progress: Progress) -> tuple[ColumnProfile, ...]:
    """Read the table once and describe each of its columns."""
    watches = [_Watch(column.name, column.type) for column in source.schema]
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool, progress.step("looking", source.n_rows) as step:
        for batch in source.batches(dictionary=source.schema.names):
            deque(pool.map(_Watch.see, watches, batch.columns), maxlen=0)  # the first error is raised here
            step.advance(batch.num_rows)
    return tuple(watch.profile() for watch in watches)

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

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.progress import Progress
from shoal.sources.base import Source
from shoal.sources.columns import is_text
from shoal.taxonomies.parse import days, decimal_numbers, texts, whole_numbers

MOST_DISTINCT = 100_000  # distinct values of a column are counted exactly up to here
FORMATS = ("", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y")  # of dates; "" is ISO
MARKERS = ("?", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "NaN", "nan")  # texts that usually mean missing
_FEW = 1000  # values that are looked at before the rest
_MOST_THREADS = 8
_LEADING_ZERO = "^0[0-9]"
_DIGITS = "^[0-9]+$"
_WORDS = r"\S\s+\S+\s+\S"

Kind = Literal["empty", "truth", "whole", "decimal", "date", "text"]


@dataclass(slots=True, eq=False)
class ColumnProfile:
    """What one pass says of a column, batch by batch; values are kept for checking only and never shown."""

    name: str
    arrow_type: pa.DataType
    dictionary: GrowingDictionary = field(default_factory=GrowingDictionary)
    counts: IntArray = field(
        default_factory=lambda: np.zeros(1, dtype=np.int64)
    )  # (n + 1,) those without a value first
    exact: bool = True  # whether all distinct values were counted
    whole: bool = True
    decimal: bool = True
    date_formats: tuple[str, ...] = FORMATS  # that fit every value
    lowest: float = math.inf  # of numbers, or of days since 1970
    highest: float = -math.inf
    lengths: set[int] = field(default_factory=set)  # the shortest and the longest of each batch
    digits_only: bool = True
    leading_zeros: bool = False
    wordy: bool = False  # texts of three words and more
    n_characters: int = 0  # of all values that were looked at
    n_rows: int = 0
    n_missing: int = 0
    n_values: int = 0  # that were looked at
    markers: set[str] = field(default_factory=set)  # texts that usually mean missing, taken so

    def see(self, column: pa.Array) -> None:
        """Take the next rows."""
        indices, values = factor_column(column)
        marked = pc.is_in(values, value_set=pa.array(MARKERS)) if is_text(values.type) else None
        if marked is not None and pc.any(marked).as_py():
            self.markers.update(values.filter(marked).to_pylist())
            indices = np.where(np.append(marked.to_numpy(zero_copy_only=False), True)[indices], np.int32(-1), indices)
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
        if self.date_formats:
            self._look_at_dates(values)

    def _look_at_text(self, as_text: pa.Array) -> None:
        lengths = pc.utf8_length(as_text)
        ends = pc.min_max(lengths).as_py()
        self.lengths.update((ends["min"], ends["max"]))
        self.n_characters += pc.sum(lengths).as_py()
        self.digits_only = self.digits_only and pc.all(pc.match_substring_regex(as_text, _DIGITS)).as_py()
        self.leading_zeros = self.leading_zeros or pc.any(pc.match_substring_regex(as_text, _LEADING_ZERO)).as_py()
        self.wordy = self.wordy or pc.any(pc.match_substring_regex(as_text, _WORDS)).as_py()

    def _look_at_dates(self, values: pa.Array) -> None:
        fitting = []
        for form in self.date_formats:
            number, valid = days(values, form or None)
            if valid.all():
                fitting.append(form)
                if not self.decimal:
                    self._widen(number.min(), number.max())
        self.date_formats = tuple(fitting)

    def _widen(self, low: float, high: float) -> None:
        self.lowest, self.highest = min(self.lowest, float(low)), max(self.highest, float(high))

    @property
    def values(self) -> pa.Array:
        """The distinct values, as far as they were counted."""
        return self.dictionary.values.filter(pa.array(self.counts[1:] > 0))

    @property
    def records(self) -> IntArray:
        """The records of each of these values."""
        return self.counts[1:][self.counts[1:] > 0]

    @property
    def n_distinct(self) -> int:
        """How many values there are, or at least so many if they are not exact."""
        return len(self.records)

    @property
    def n_unique(self) -> int:
        """How many values belong to one record, as far as they were counted."""
        return int((self.counts[1:] == 1).sum())

    @property
    def distinct_share(self) -> float:
        """Distinct values over records with a value, as far as they were counted."""
        return self.n_distinct / max(int(self.records.sum()), 1)

    @property
    def kind(self) -> Kind:
        """What the values are."""
        if self.n_missing == self.n_rows:
            return "empty"
        if pa.types.is_boolean(self.arrow_type):
            return "truth"
        if self.date_formats:
            return "date"
        if self.whole:
            return "whole"
        return "decimal" if self.decimal else "text"

    @property
    def length(self) -> int | None:
        """The length of every text, or the most digits of whole numbers."""
        if pa.types.is_integer(self.arrow_type):
            return max(self.lengths, default=None)
        return next(iter(self.lengths)) if len(self.lengths) == 1 else None


def profile_columns(source: Source, progress: Progress) -> tuple[ColumnProfile, ...]:
    """Read the table once and describe each of its columns."""
    profiles = tuple(ColumnProfile(column.name, column.type) for column in source.schema)
    threads = min(os.cpu_count() or 1, _MOST_THREADS)
    with ThreadPoolExecutor(threads) as pool, progress.step("looking", source.n_rows) as step:
        for batch in source.batches(dictionary=source.schema.names):
            deque(pool.map(ColumnProfile.see, profiles, batch.columns), maxlen=0)  # the first error is raised here
            step.advance(batch.num_rows)
    return profiles

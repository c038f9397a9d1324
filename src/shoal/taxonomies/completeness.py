"""Comparing a taxonomy with the data: which values does it not cover?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import AnyIntArray, CodeArray
from shoal.taxonomies.parse import decimal_numbers, texts

MOST_EXAMPLES = 5
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Values of one column that its taxonomy does not have."""

    n_values: int
    n_records: int
    examples: tuple[str, ...]  # at most five, the most frequent first
    decimal: bool = False  # whether all of them are numbers with decimals

    def message(self, column: str) -> str:
        """Say what is not covered and what to do."""
        values = "1 value" if self.n_values == 1 else f"{self.n_values:,} values"
        records = "1 record" if self.n_records == 1 else f"{self.n_records:,} records"
        shown = ", ".join(map(repr, self.examples)) + (", ..." if self.n_values > len(self.examples) else "")
        advice = "add to the taxonomy or correct the data"
        if self.decimal:
            advice += ". Intervals have decimals if one of their numbers is written with some, such as min: 0.0"
        return f"column {column!r}: {values} in {records} outside the taxonomy: {shown}; {advice}"


def uncovered(codes: CodeArray, values: pa.Array, counts: AnyIntArray) -> Uncovered:
    """Return what *codes*, of distinct *values* that occur *counts* times, leave outside; nulls do not count.

    >>> found = uncovered(np.array([0, -1], dtype=np.int32), pa.array(["a", "zz"]), np.array([5, 2]))
    >>> found.message("grade")
    "column 'grade': 1 value in 2 records outside the taxonomy: 'zz';
    add to the taxonomy or correct the data"
    """
    present = values.is_valid().to_numpy(zero_copy_only=False)
    outside = np.flatnonzero((codes < 0) & present)
    often = np.asarray(counts)[outside]
    found = pa.table({"often": often, "text": texts(values.take(pa.array(outside)))})
    front = pc.sort_indices(found, sort_keys=[("often", "descending"), ("text", "ascending")])[:MOST_EXAMPLES]
    shown = found["text"].take(front).to_pylist()
    examples = tuple(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..." for text in shown)
    return Uncovered(len(outside), int(often.sum()), examples, decimal=_have_decimals(found["text"].combine_chunks()))


def _have_decimals(found: pa.Array) -> bool:
    numbers, valid = decimal_numbers(found)
    return bool(len(found)) and bool(valid.all()) and bool((numbers != np.floor(numbers)).all())

"""Default taxonomies of columns, and values that a taxonomy does not cover."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import AnyIntArray, CodeArray
from shoal.core.wording import count_noun
from shoal.sources.columns import is_text
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import DatesTaxonomy, NumbersTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.parse import days, decimal_numbers, texts, whole_numbers

MOST_EXAMPLES = 5
_LONGEST = 40

_PLAIN_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


def default_builder(arrow_type: pa.DataType, values: pa.Array) -> TaxonomyBuilder:
    """Choose by the column's type, or for text by its values: dates, numbers, or values without distances.

    Text with leading zeros is not read as numbers, so codes such as ``01067`` stay texts.

    >>> default_builder(pa.int64(), pa.array([1, 2])).name
    'numbers'
    """
    if pa.types.is_dictionary(arrow_type):
        arrow_type, values = arrow_type.value_type, values.cast(arrow_type.value_type)
    if pa.types.is_integer(arrow_type):
        return NumbersTaxonomy()
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return DatesTaxonomy()
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type) or is_decimal(arrow_type, values):
        return NumbersTaxonomy()
    if is_text(arrow_type) and len(present := values.drop_null()):
        if pc.all(pc.match_substring_regex(present, _PLAIN_NUMBER)).as_py():
            return NumbersTaxonomy()
        if days(present)[1].all():
            return DatesTaxonomy()
    return FlatTaxonomy()


def is_decimal(arrow_type: pa.DataType, values: pa.Array) -> bool:
    """Whether a column has numbers, or texts of numbers, that are not all whole."""
    present = values.drop_null()
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return not bool(whole_numbers(present)[1].all())
    if not is_text(arrow_type) or not pc.any(pc.match_substring(present, "."), min_count=0).as_py():
        return False
    return bool(decimal_numbers(present)[1].all()) and not bool(days(present)[1].all())


@dataclass(frozen=True, slots=True)
class Uncovered:
    """Values of a column that its taxonomy does not cover."""

    n_values: int
    n_records: int
    examples: tuple[str, ...]  # at most five, most frequent first
    decimal: bool = False  # whether all of them are numbers with decimals

    def message(self, column: str) -> str:
        values, records = count_noun(self.n_values, "value"), count_noun(self.n_records, "record")
        shown = ", ".join(map(repr, self.examples)) + (", ..." if self.n_values > len(self.examples) else "")
        advice = "add to the taxonomy or correct the data"
        if self.decimal:
            advice += ". Intervals have decimals if one of their numbers is written with some, such as min: 0.0"
        return f"column {column!r}: {values} in {records} outside the taxonomy: {shown}; {advice}"


def find_uncovered(codes: CodeArray, values: pa.Array, counts: AnyIntArray) -> Uncovered:
    """Return the distinct *values* with negative *codes*, nulls aside; *counts* are their records.

    >>> found = find_uncovered(np.array([0, -1], dtype=np.int32), pa.array(["a", "zz"]), np.array([5, 2]))
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
    numbers, valid = decimal_numbers(found["text"].combine_chunks())
    decimal = len(outside) > 0 and bool((valid & (numbers != np.floor(numbers))).all())
    return Uncovered(len(outside), int(often.sum()), examples, decimal)

"""The taxonomy of a quasi attribute whose policy names none."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.builders.dates import DatesTaxonomy
from shoal.taxonomies.builders.flat import FlatTaxonomy
from shoal.taxonomies.builders.numbers import NumbersTaxonomy
from shoal.taxonomies.parse import days, decimal_numbers, is_text, whole_numbers

_PLAIN_NUMBER = "^(0|-?[1-9][0-9]{0,17})$"


def default_builder(arrow_type: pa.DataType, values: pa.Array) -> TaxonomyBuilder:
    """Choose by the column's type, or for text by what it holds: dates, numbers, or values without distance.

    Text counts as whole numbers if none has a leading zero, so that codes such as ``01067`` stay texts.

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
    """Whether a column holds numbers that are not all whole, or texts of such."""
    present = values.drop_null()
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        return not bool(whole_numbers(present)[1].all())
    if not is_text(arrow_type) or not pc.any(pc.match_substring(present, "."), min_count=0).as_py():
        return False
    return bool(decimal_numbers(present)[1].all()) and not bool(days(present)[1].all())

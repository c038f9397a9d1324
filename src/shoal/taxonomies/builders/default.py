"""The taxonomy of a quasi attribute whose policy names none."""

from __future__ import annotations

import pyarrow as pa

from shoal.errors import TaxonomyError
from shoal.taxonomies.builders.base import TaxonomyBuilder
from shoal.taxonomies.builders.dates import DatesTaxonomy
from shoal.taxonomies.builders.flat import FlatTaxonomy
from shoal.taxonomies.builders.numbers import NumbersTaxonomy
from shoal.taxonomies.parse import whole_numbers


def default_builder(arrow_type: pa.DataType, values: pa.Array) -> TaxonomyBuilder:
    """Choose by the column's type: dates, whole numbers, or values without distance.

    A decimal column whose *values* are all whole, as data frames make of whole numbers with gaps, counts as
    whole; any other needs declared intervals, since a cut between decimals would publish one of them.

    >>> default_builder(pa.int64(), pa.array([1, 2])).name
    'numbers'
    """
    if pa.types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    if pa.types.is_integer(arrow_type):
        return NumbersTaxonomy()
    if pa.types.is_date(arrow_type) or pa.types.is_timestamp(arrow_type):
        return DatesTaxonomy()
    if pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type):
        _, whole = whole_numbers(values.drop_null())
        if whole.all():
            return NumbersTaxonomy()
        raise TaxonomyError("column is decimal: declare taxonomy: {intervals: {min, max, widths}}")
    return FlatTaxonomy()

"""Reading source values of any type as texts, numbers or days.

Unreadable values are marked and do not raise an error, because the check of completeness counts them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.sources.columns import is_text

_WHOLE = "^-?[0-9]{1,18}$"
_DECIMAL = r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_ISO_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.,Z+ -]*)?$"
_LARGEST = 2.0**63


def texts(values: pa.Array) -> pa.Array:
    """Return the values as Arrow text: numbers in their shortest form, booleans as true and false."""
    return values if pa.types.is_string(values.type) else values.cast(pa.string())


def whole_numbers(values: pa.Array) -> tuple[IntArray, BoolArray]:
    """Return (n_values,) whole numbers, and whether each value is one; ``17.0`` is one, ``17.5`` is not.

    >>> whole_numbers(pa.array(["17", "17.0", "17.5", "x", None]))
    (array([17, 17,  0,  0,  0]), array([ True,  True, False, False, False]))
    """
    if pa.types.is_integer(values.type):
        if pa.types.is_uint64(values.type):
            fits = pc.less(values, pa.scalar(2**63, pa.uint64()))
            values = pc.if_else(fits, values, None)
        return _plain(values.cast(pa.int64()), np.dtype(np.int64))
    numbers, valid = decimal_numbers(values)
    whole = valid & (np.floor(numbers) == numbers) & (np.abs(numbers) < _LARGEST)
    result = np.where(whole, numbers, 0.0).astype(np.int64)
    if is_text(values.type):  # floats would lose digits beyond 2**53
        exact, is_exact = _plain(_matching(values, _WHOLE).cast(pa.int64()), np.dtype(np.int64))
        return np.where(is_exact, exact, result), whole | is_exact
    return result, whole


def decimal_numbers(values: pa.Array) -> tuple[FloatArray, BoolArray]:
    """Return (n_values,) floats, and whether each value is a finite number."""
    if is_text(values.type):
        numbers = _matching(values, _DECIMAL).cast(pa.float64())
    elif pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        numbers = values.cast(pa.float64())
    elif pa.types.is_integer(values.type):
        numbers = values.cast(pa.float64(), safe=False)
    else:
        numbers = pa.nulls(len(values), pa.float64())
    result, valid = _plain(numbers, np.dtype(np.float64))
    finite = valid & np.isfinite(result)
    return np.where(finite, result, 0.0), finite


def days(values: pa.Array, form: str | None = None) -> tuple[IntArray, BoolArray]:
    """Return (n_values,) days since 1970, and whether each value is a date.

    Dates and timestamps are used in their own time zone. Text is read by *form*, as in ``strptime``, or as ISO without
    the time of day. ``2024-02-30`` is not a date.

    >>> days(pa.array(["1970-01-02", "2024-02-30"]))
    (array([1, 0]), array([ True, False]))
    """
    if pa.types.is_timestamp(values.type):
        local = pc.local_timestamp(values) if values.type.tz else values
        dates = local.cast(pa.date32())
    elif pa.types.is_date(values.type):
        dates = values.cast(pa.date32())
    elif is_text(values.type):
        dates = _parse_dates(texts(values), form)
    else:
        dates = pa.nulls(len(values), pa.date32())
    number, valid = _plain(dates.cast(pa.int32()), np.dtype(np.int32))
    return number.astype(np.int64), valid


def _parse_dates(values: pa.Array, form: str | None) -> pa.Array:
    if form is None:
        values = pc.utf8_slice_codeunits(_matching(values, _ISO_DAY), 0, 10)
        form = "%Y-%m-%d"
    read = pc.strptime(values, format=form, unit="s", error_is_null=True)
    # The parser turns 30 February into 1 March, so a date must be written again in the same way.
    same = pc.equal(_bare(pc.strftime(read, format=form)), _bare(values))
    return pc.if_else(same, read, None).cast(pa.date32())


def _bare(values: pa.Array) -> pa.Array:
    # Leading zeros, white space and case may differ between two spellings of a date.
    lower = pc.utf8_lower(pc.replace_substring_regex(values, pattern=r"\s+", replacement=""))
    return pc.replace_substring_regex(lower, pattern=r"\b0+([0-9])", replacement=r"\1")


def _matching(values: pa.Array, pattern: str) -> pa.Array:
    as_text = texts(values)
    return pc.if_else(pc.match_substring_regex(as_text, pattern), as_text, None)


def _plain(values: pa.Array, kind: np.dtype[np.generic]) -> tuple[np.ndarray, BoolArray]:
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else np.ones(len(values), dtype=bool)
    return values.fill_null(0).to_numpy(zero_copy_only=False).astype(kind, copy=False), valid

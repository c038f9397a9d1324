"""Conversion of columns to the few types that the rest of the package handles.

Text of any Arrow type becomes ``string`` or ``dictionary<int32, string>``, other dictionaries are decoded, and a column
of nulls becomes text. NaN and the texts that mean missing become null.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shoal.core.errors import InputError

CODES = pa.dictionary(pa.int32(), pa.string())
# Texts that a spreadsheet may run as a formula, like =1+1 or @SUM(A1), but not labels like -5 to 4.
_FORMULA = "([=@\\t\\r]|[+-].*[(|!\"'])"
_WITH_COMMA = r"^[+-]?([0-9]{1,3}([.][0-9]{3})+|[0-9]+)(,[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Conversions of a source's values that every reader needs, by column."""

    missing: tuple[str, ...] = ()
    missing_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decimal_comma: frozenset[str] = frozenset()
    trim: bool = False
    guarded: bool = False  # remove the quote that CSV writers put before possible formulas

    def clean(self, array: pa.Array, column: str) -> pa.Array:
        """Return the values with conversions applied and null for missing ones.

        >>> given = Cleaning(("?",), {"rent": ("-9",)}, frozenset({"rent"}), trim=True)
        >>> given.clean(pa.array([" 1.200,50 ", "?", "-9", "12"]), "rent").to_pylist()
        ['1200.50', None, None, '12']
        """
        own = self.missing_in.get(column, ())
        if not pt.is_string(array.type):
            return _null_where(array, array.cast(pa.string()), own) if own else array
        if self.guarded:
            array = remove_guards(array)
        if self.trim:
            array = pc.utf8_trim_whitespace(array)
        array = _null_where(array, array, (*self.missing, *own))
        if column in self.decimal_comma:
            points = pc.replace_substring(pc.replace_substring(array, ".", ""), ",", ".")
            array = pc.if_else(pc.match_substring_regex(array, _WITH_COMMA), points, array)
        return array


UNCHANGED = Cleaning()


def is_text(kind: pa.DataType) -> bool:
    if pt.is_dictionary(kind):
        kind = kind.value_type
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_flat(kind: pa.DataType) -> bool:
    """Whether columns of this type can be read: text, numbers, booleans, dates and times."""
    kind = normal_type(kind)
    flat = is_text(kind) or pt.is_null(kind) or pt.is_boolean(kind) or pt.is_temporal(kind) or pt.is_decimal(kind)
    number = pt.is_integer(kind) or pt.is_floating(kind)
    return bool((flat or number) and not (pt.is_duration(kind) or pt.is_interval(kind)))


def normal_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column has after reading.

    >>> print(normal_type(pa.dictionary(pa.int8(), pa.large_string())))
    string
    """
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind) or pt.is_null(kind):
        return pa.string()
    return pa.float32() if pt.is_float16(kind) else kind


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with normal types, without metadata and nullability."""
    return pa.schema([pa.field(field.name, normal_type(field.type)) for field in schema])


def check_names(names: Sequence[str], where: str) -> None:
    if not names:
        raise InputError(f"{where} has no columns")
    nameless = [str(i) for i, name in enumerate(names, start=1) if not name]
    if nameless:
        raise InputError(f"{where}: column {', '.join(nameless)} has no name; name it, or give `names`")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        listed = ", ".join(repr(name) for name in repeated)
        raise InputError(f"{where} has columns with the same name: {listed}; rename them, or give `names`")


def check_flat(schema: pa.Schema, columns: Collection[str], where: str) -> None:
    """Raise if a column has a nested or binary type."""
    for name in columns:
        kind = schema.field(name).type
        if not is_flat(kind):
            raise InputError(
                f"column {name!r} of {where} holds {kind}; shoal reads text, numbers, truth values, dates "
                "and times: turn it into one of these or leave it out"
            )


def encode_text(array: pa.DictionaryArray, cleaning: Cleaning = UNCHANGED, column: str = "") -> pa.DictionaryArray:
    """Return ``dictionary<int32, string>`` with distinct entries that are not null."""
    entries = cleaning.clean(array.dictionary.cast(pa.string()), column)
    codes = array.indices.cast(pa.int32())
    values = entries.unique().drop_null()
    if len(values) < len(entries):
        codes = pc.index_in(entries, value_set=values).take(codes)
        entries = values
    return pa.DictionaryArray.from_arrays(codes, entries)


def compact(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the column with only the entries in use, sorted: a dictionary must not reveal other values or their order.

    >>> spare = pa.DictionaryArray.from_arrays(pa.array([2, 0], pa.int32()), ["b", "secret", "a"])
    >>> compact(spare).dictionary.to_pylist()
    ['a', 'b']
    """
    array = encode_text(array)
    kept = np.flatnonzero(np.bincount(array.indices.drop_null().to_numpy()))  # (n_used,) old codes
    entries = array.dictionary.take(pa.array(kept))
    order = pc.sort_indices(entries)
    place = np.zeros(len(array.dictionary), dtype=np.int32)
    place[kept[order.to_numpy()]] = np.arange(len(kept), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(place).take(array.indices), entries.take(order))


def normal_column(array: pa.Array, *, coded: bool, cleaning: Cleaning = UNCHANGED, column: str = "") -> pa.Array:
    """Return the column in its normal type, with text dictionary-coded on request and null for missing values."""
    if pt.is_dictionary(array.type):
        if coded and is_text(array.type):
            return encode_text(array, cleaning, column)
        array = array.dictionary_decode()
    kind = normal_type(array.type)
    if array.type != kind:
        array = array.cast(kind)
    array = cleaning.clean(array, column)
    if pt.is_string(kind):
        return array.dictionary_encode() if coded else array
    if pt.is_floating(kind):
        not_a_number = pc.is_nan(array)
        if pc.any(not_a_number).as_py():
            array = pc.if_else(not_a_number, pa.scalar(None, kind), array)
    return array


def plain(table: pa.Table) -> pa.Table:
    """Return the table in normal types, without dictionaries and metadata."""
    schema = normal_schema(table.schema)
    columns = [
        pa.chunked_array([normal_column(chunk, coded=False) for chunk in column.chunks], type=field.type)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.table(columns, schema=schema)


def guard_formulas(texts: pa.Array) -> pa.Array:
    """Return texts for a CSV file, with a single quote before possible formulas of spreadsheets.

    >>> guarded = guard_formulas(pa.array(["=1+1", "-5 to 4", "'=1"]))
    >>> guarded.to_pylist(), remove_guards(guarded).to_pylist()
    (["'=1+1", '-5 to 4', "''=1"], ['=1+1', '-5 to 4', "'=1"])
    """
    needed = pc.match_substring_regex(texts, f"(?s)^'*{_FORMULA}")
    if not pc.any(needed).as_py():
        return texts
    return pc.if_else(needed, pc.binary_join_element_wise("'", texts, ""), texts)


def remove_guards(texts: pa.Array) -> pa.Array:
    """Undo :func:`guard_formulas`."""
    if not pc.any(pc.starts_with(texts, "'")).as_py():
        return texts
    guarded = pc.match_substring_regex(texts, f"(?s)^'+{_FORMULA}")
    return pc.if_else(guarded, pc.utf8_slice_codeunits(texts, 1), texts)


def _null_where(array: pa.Array, as_text: pa.Array, missing: Collection[str]) -> pa.Array:
    """Return the values with null for those whose text means missing."""
    if not missing:
        return array
    gone = pc.is_in(as_text, value_set=pa.array(sorted(set(missing)), pa.string()))
    if not pc.any(gone).as_py():
        return array
    return pc.if_else(gone, pa.scalar(None, array.type), array)

"""The few column types that the rest of the package meets, whatever the source holds.

Text of any Arrow kind becomes ``string`` or ``dictionary<int32, string>``, other dictionaries their values, a
column of nothing text; NaN and the texts that mean missing become null.
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
# What a spreadsheet that opens a CSV file may run, like =1+1 or @SUM(A1); labels like -5 to 4 it does not run.
_FORMULA = "([=@\\t\\r]|[+-].*[(|!\"'])"
_WITH_COMMA = r"^[+-]?([0-9]{1,3}([.][0-9]{3})+|[0-9]+)(,[0-9]+)?$"


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What is done to the values of a source, column by column, before anybody else sees them."""

    missing: tuple[str, ...] = ()
    missing_in: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    decimal_comma: frozenset[str] = frozenset()
    trim: bool = False
    guarded: bool = False  # whether a quote before what a spreadsheet may run is no part of a text: CSV files

    def clean(self, array: pa.Array, column: str) -> pa.Array:
        """Return values of normal type, with null for what is missing.

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
    """Whether values of this type are text, dictionary-coded or not."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_flat(kind: pa.DataType) -> bool:
    """Whether a column of this type can be read: text, numbers, truth values, dates and times."""
    kind = normal_type(kind)
    return bool(
        is_text(kind)
        or pt.is_null(kind)
        or pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_decimal(kind)
        or pt.is_date(kind)
        or pt.is_time(kind)
        or pt.is_timestamp(kind)
    )


def normal_type(kind: pa.DataType) -> pa.DataType:
    """Return the type under which a column is handed on.

    >>> print(normal_type(pa.dictionary(pa.int8(), pa.large_string())))
    string
    """
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind) or pt.is_null(kind):
        return pa.string()
    return pa.float32() if pt.is_float16(kind) else kind


def normal_schema(schema: pa.Schema) -> pa.Schema:
    """Return names and normal types: no metadata, no nullability."""
    return pa.schema([pa.field(field.name, normal_type(field.type)) for field in schema])


def check_names(names: Sequence[str], where: str) -> None:
    """Raise if a column has no name or shares it with another."""
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
    """Raise if one of the columns holds something that is no text, number, truth value, date or time."""
    for name in columns:
        kind = schema.field(name).type
        if not is_flat(kind):
            raise InputError(
                f"column {name!r} of {where} holds {kind}; shoal reads text, numbers, truth values, dates "
                "and times: turn it into one of these or leave it out"
            )


def encode_text(array: pa.DictionaryArray, cleaning: Cleaning = UNCHANGED, column: str = "") -> pa.DictionaryArray:
    """Return ``dictionary<int32, string>`` whose entries are distinct, none of them null or missing."""
    entries = cleaning.clean(array.dictionary.cast(pa.string()), column)
    codes = array.indices.cast(pa.int32())
    values = entries.unique().drop_null()
    if len(values) < len(entries):
        codes = pc.index_in(entries, value_set=values).take(codes)
        entries = values
    return pa.DictionaryArray.from_arrays(codes, entries)


def compact(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return the same column with only the entries in use, sorted, so that the dictionary tells nothing more.

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
    """Return the column in its normal type, text dictionary-coded if asked, with null for what is missing."""
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
    """Return the rows in normal types, without dictionaries and without metadata."""
    schema = normal_schema(table.schema)
    columns = [
        pa.chunked_array([normal_column(chunk, coded=False) for chunk in column.chunks], type=field.type)
        for field, column in zip(schema, table.columns, strict=True)
    ]
    return pa.table(columns, schema=schema)


def guard_formulas(texts: pa.Array) -> pa.Array:
    """Return texts for a CSV file, those that a spreadsheet may run behind a quote, which makes them plain text.

    >>> guarded = guard_formulas(pa.array(["=1+1", "-5 to 4", "'=1"]))
    >>> guarded.to_pylist(), remove_guards(guarded).to_pylist()
    (["'=1+1", '-5 to 4', "''=1"], ['=1+1', '-5 to 4', "'=1"])
    """
    needed = pc.match_substring_regex(texts, f"(?s)^'*{_FORMULA}")
    if not pc.any(needed).as_py():
        return texts
    return pc.if_else(needed, pc.binary_join_element_wise("'", texts, ""), texts)


def remove_guards(texts: pa.Array) -> pa.Array:
    """Return the texts of a CSV file as they were before they were guarded."""
    if not pc.any(pc.starts_with(texts, "'")).as_py():
        return texts
    guarded = pc.match_substring_regex(texts, f"(?s)^'+{_FORMULA}")
    return pc.if_else(guarded, pc.utf8_slice_codeunits(texts, 1), texts)


def _null_where(array: pa.Array, as_text: pa.Array, missing: Collection[str]) -> pa.Array:
    """Return the values with null where their text is one of those that mean missing."""
    if not missing:
        return array
    gone = pc.is_in(as_text, value_set=pa.array(sorted(set(missing)), pa.string()))
    if not pc.any(gone).as_py():
        return array
    return pc.if_else(gone, pa.scalar(None, array.type), array)

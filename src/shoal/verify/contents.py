"""The exact content of rows as keyed hashes, equal for equal values however the two tables store them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, KeyArray
from shoal.verify.hashing import fold_values, fresh_key, hash_texts
from shoal.verify.reading import coded

MISSING = np.uint64(0x5348_4F41_4C4D_4953)  # the word of a value that is missing
TEXT = pa.large_string()  # the type in which texts are compared


def common_type(published: pa.DataType, source: pa.DataType) -> pa.DataType:
    """Return the type in which two columns are compared: numbers as numbers, times as times, else text.

    >>> common_type(pa.string(), pa.float64()), common_type(pa.int8(), pa.int64())
    (DataType(double), DataType(int64))
    """
    kinds = [_plain(kind) for kind in (published, source)]
    others = [kind for kind in kinds if kind != TEXT]
    if len(others) == 1 and pa.types.is_time(others[0]):
        return TEXT  # Arrow reads no time of day from text
    if len(set(others)) <= 1:
        return others[0] if others else TEXT
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in others):
        return pa.float64()
    times = [kind for kind in others if pa.types.is_timestamp(kind)]
    if times and all(kind in times or pa.types.is_date(kind) for kind in others):
        return min(times, key=lambda kind: str(kind.unit))  # "ns" before "us": no nanosecond may be lost
    return TEXT


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pa.int64()
    if pa.types.is_floating(kind):
        # The text 0.1 of a narrow column stands for the narrow number nearest to 0.1.
        return pa.float64() if pa.types.is_float64(kind) else pa.float32()
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_boolean(kind):
        return pa.bool_()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    return TEXT


class Contents:
    """Hashes the values of some columns, row by row, under one random key.

    Two rows hash alike if their values are equal; if they differ they do so with a chance of about 2**-64.
    """

    def __init__(self, columns: Sequence[str], kinds: Sequence[pa.DataType], missing: Sequence[str]) -> None:
        self.key = fresh_key()
        self._columns = tuple(zip(columns, kinds, strict=True))
        self._missing = pa.array(list(missing), type=pa.string())

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are hashed."""
        return tuple(name for name, _ in self._columns)

    def hashes(self, batch: pa.RecordBatch) -> KeyArray:
        """Return (n_rows,) hashes of the batch's rows."""
        rows = np.zeros(batch.num_rows, dtype=np.uint64)
        for name, kind in self._columns:
            column = batch.column(name)
            if is_textual(column.type) or kind == TEXT:
                values, places = coded(column)
                fold_values(self.key, rows, self.words(name, values).take(places))
            else:
                fold_values(self.key, rows, _bits(_as_kind(column, kind)))
        return rows

    def kind_of(self, column: str) -> pa.DataType:
        """Return the type in which the values of a column are compared."""
        return dict(self._columns)[column]

    def words(self, column: str, values: pa.Array) -> KeyArray:
        """Return (n + 1,) a word for each value of a column, the last for missing ones; equal values have the same.

        >>> words = Contents(["age"], [pa.int64()], ["?"]).words("age", pa.array(["7", "07", "?", "8"]))
        >>> bool(words[0] == words[1]), bool(words[0] == words[3]), bool(words[2] == words[4] == MISSING)
        (True, False, True)
        """
        kind = self.kind_of(column)
        if not is_textual(values.type) and kind != TEXT:
            return np.append(_bits(_as_kind(values, kind)), MISSING)
        texts = values.cast(pa.string())
        words = self._text_words(texts.cast(TEXT))
        if kind != TEXT:
            parsed, fits = _parsed(texts, kind)
            words[fits] = parsed[fits]
        words[np.asarray(pc.is_in(texts, value_set=self._missing))] = MISSING
        return np.append(words, MISSING)

    def _text_words(self, texts: pa.LargeStringArray) -> KeyArray:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        held = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        words: KeyArray = hash_texts(self.key, ends.copy(), held.copy())
        return words


def _as_kind(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.cast(pa.float64() if pa.types.is_floating(kind) else kind, safe=False)


def is_textual(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, plainly or as a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _bits(column: pa.Array) -> KeyArray:
    """Return (n,) the 64 bits of plain values; -0.0 is 0.0, NaN is missing."""
    if pa.types.is_floating(column.type):
        numbers = np.asarray(column.fill_null(0.0), dtype=np.float64) + 0.0
        bits = numbers.view(np.uint64).copy()
        bits[np.isnan(numbers)] = MISSING
    else:
        if not pa.types.is_integer(column.type):
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        bits = np.asarray(column.fill_null(0)).astype(np.int64).view(np.uint64).copy()
    if column.null_count:
        bits[np.asarray(column.is_null())] = MISSING
    return bits


def _parsed(texts: pa.Array, kind: pa.DataType) -> tuple[KeyArray, BoolArray]:
    """Return the bits of texts read as *kind*, and which of them could be."""
    try:
        return _bits(texts.cast(kind)), np.ones(len(texts), dtype=np.bool_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.bool_)
        half = len(texts) // 2
        halves = [_parsed(texts.slice(0, half), kind), _parsed(texts.slice(half), kind)]
        return np.concatenate([bits for bits, _ in halves]), np.concatenate([fits for _, fits in halves])

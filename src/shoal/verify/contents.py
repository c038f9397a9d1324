"""The exact content of rows as keyed hashes, equal for equal values however the two tables store them.

Hashes have 64 bits (SipHash-1-3; Aumasson and Bernstein, INDOCRYPT 2012). Their key is drawn from the operating system
for every verification, so nobody can prepare a release whose rows collide. A collision can only make a false row look
true, never a true row look false.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.dictionaries import fold_texts
from shoal.core.kernels import inline_kernel, kernel
from shoal.verify.reading import SpellingError, encode

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

    Two rows hash alike if their values are equal, or if *fold* is given and their texts have the same normal form; if
    they differ they do so with a chance of about 2**-64.
    """

    def __init__(
        self, columns: Sequence[str], kinds: Sequence[pa.DataType], missing: Sequence[str], *, fold: bool = False
    ) -> None:
        self.key = np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()
        self._columns = tuple(zip(columns, kinds, strict=True))
        self._missing = pa.array(list(missing), type=pa.string())
        self._fold = fold

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are hashed."""
        return tuple(name for name, _ in self._columns)

    def hashes(self, batch: pa.RecordBatch, *, published: bool = False) -> KeyArray:
        """Return (n_rows,) hashes of the batch's rows; *published* values must have their canonical spelling."""
        rows = np.zeros(batch.num_rows, dtype=np.uint64)
        for name, kind in self._columns:
            column = batch.column(name)
            if is_textual(column.type) or kind == TEXT:
                values, places = encode(column)
                if published:
                    self._demand_canonical(name, values.cast(pa.string()))
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
        words = self._text_words((fold_texts(texts) if self._fold else texts).cast(TEXT))
        if kind != TEXT:
            parsed, fits = _parse(texts, kind)
            words[fits] = parsed[fits]
        words[np.asarray(pc.is_in(texts, value_set=self._missing))] = MISSING
        return np.append(words, MISSING)

    def _demand_canonical(self, column: str, texts: pa.Array) -> None:
        """Raise if a value has another text than the writer's: readers would see a mark, but comparisons would not."""
        if pc.any(pc.is_in(texts, value_set=self._missing)).as_py():
            raise SpellingError(f"missing values of {column} are not written as empty fields")
        kind = self.kind_of(column)
        if not (pa.types.is_primitive(kind) and not pa.types.is_timestamp(kind)):
            return
        try:
            same = texts.cast(kind).cast(pa.string()).equals(texts)
        except pa.ArrowInvalid:  # no value of the source has such a text, which is for the comparison to find
            return
        if not same:
            raise SpellingError(f"values of {column} are not written in their canonical form")

    def _text_words(self, texts: pa.LargeStringArray) -> KeyArray:
        _, offsets, data = texts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
        held = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        words = np.empty(len(texts), dtype=np.uint64)
        hash_texts(self.key, ends.copy(), held.copy(), words)
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


def _parse(texts: pa.Array, kind: pa.DataType) -> tuple[KeyArray, BoolArray]:
    """Return the bits of texts read as *kind*, and which of them could be."""
    try:
        return _bits(texts.cast(kind)), np.ones(len(texts), dtype=np.bool_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=np.bool_)
        half = len(texts) // 2
        halves = [_parse(texts.slice(0, half), kind), _parse(texts.slice(half), kind)]
        return np.concatenate([bits for bits, _ in halves]), np.concatenate([fits for _, fits in halves])


Word: TypeAlias = np.uint64
State: TypeAlias = tuple[Word, Word, Word, Word]
_C0, _C1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_C2, _C3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FINAL, _ONE = np.uint64(0xFF), np.uint64(1)
_13, _16, _17, _21, _32 = (np.uint64(bits) for bits in (13, 16, 17, 21, 32))
_47, _48, _51, _43 = (np.uint64(bits) for bits in (47, 48, 51, 43))
_EIGHT, _SHIFT_LENGTH = np.uint64(8), np.uint64(56)


@inline_kernel
def _round(v0: Word, v1: Word, v2: Word, v3: Word) -> State:
    v0 = v0 + v1
    v1 = ((v1 << _13) | (v1 >> _51)) ^ v0
    v0 = (v0 << _32) | (v0 >> _32)
    v2 = v2 + v3
    v3 = ((v3 << _16) | (v3 >> _48)) ^ v2
    v0 = v0 + v3
    v3 = ((v3 << _21) | (v3 >> _43)) ^ v0
    v2 = v2 + v1
    v1 = ((v1 << _17) | (v1 >> _47)) ^ v2
    v2 = (v2 << _32) | (v2 >> _32)
    return v0, v1, v2, v3


@inline_kernel
def _absorb(state: State, word: Word) -> State:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@inline_kernel
def _finish(state: State) -> Word:
    v0, v1, v2, v3 = state
    v2 = v2 ^ _FINAL
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def fold_values(key: KeyArray, rows: KeyArray, words: KeyArray) -> None:
    """Change rows[i] to the hash of itself and words[i]."""
    start = (_C0 ^ key[0], _C1 ^ key[1], _C2 ^ key[0], _C3 ^ key[1])
    for i in range(rows.shape[0]):
        rows[i] = _finish(_absorb(_absorb(start, rows[i]), words[i]))


@kernel
def hash_texts(key: KeyArray, offsets: IntArray, data: NDArray[np.uint8], out: KeyArray) -> None:
    """Fill in (n,) hashes of the byte strings data[offsets[i]:offsets[i + 1]]."""
    for i in range(out.shape[0]):
        state = (_C0 ^ key[0], _C1 ^ key[1], _C2 ^ key[0], _C3 ^ key[1])
        word = held = np.uint64(0)
        for j in range(offsets[i], offsets[i + 1]):
            word = word | (np.uint64(data[j]) << (held * _EIGHT))
            held = held + _ONE
            if held == _EIGHT:
                state = _absorb(state, word)
                word = held = np.uint64(0)
        length = np.uint64(offsets[i + 1] - offsets[i])
        out[i] = _finish(_absorb(state, word | (length << _SHIFT_LENGTH)))


@inline_kernel
def _mix(key: KeyArray, word: Word) -> Word:
    """Return a word that is no linear function of the given one: by odd factors and shifts."""
    word = (word ^ key[0]) * (key[1] | _ONE)
    word = (word ^ (word >> _32)) * (key[0] | _ONE)
    return word ^ (word >> _32)


def sum_boxes(key: KeyArray, boxes: CodeArray, hashes: KeyArray, n_boxes: int) -> KeyArray:
    """Return (n_boxes, 3) the rows of each box and two sums, modulo 2**64, over the hashes of their contents.

    *boxes* must be numbers from 0 to n_boxes - 1: nothing checks them here. Equal rows make equal sums. Unequal ones
    do so with a chance of at most m / 2**64, where no content occurs m times more often in one table than in the other:
    see docs/adr/0004-verifier.md.

    >>> key = np.array([3, 4], dtype=np.uint64)
    >>> one = sum_boxes(key, np.array([0, 1, 1], dtype=np.int32), np.array([5, 6, 7], dtype=np.uint64), 2)
    >>> other = sum_boxes(key, np.array([1, 0, 1], dtype=np.int32), np.array([7, 5, 8], dtype=np.uint64), 2)
    >>> (one != other).any(axis=1).tolist()
    [False, True]
    """
    sums = np.zeros((n_boxes, 3), dtype=np.uint64)
    _add_rows(key, boxes, hashes, sums)
    return sums


@kernel
def _add_rows(key: KeyArray, boxes: CodeArray, hashes: KeyArray, sums: KeyArray) -> None:
    for i in range(boxes.shape[0]):
        sums[boxes[i], 0] += _ONE
        sums[boxes[i], 1] += hashes[i]
        sums[boxes[i], 2] += _mix(key, hashes[i])


@dataclass(frozen=True, slots=True)
class RowSums:
    """How many rows there are, and two sums modulo 2**64 over the hashes of their classes and contents.

    What equal and unequal sums mean is as with the sums of boxes.

    >>> key = np.array([0x0123456789ABCDEF, 0xFEDCBA9876543211], dtype=np.uint64)
    >>> one, other = (RowSums.of(key, np.array(words, dtype=np.uint64)) for words in ([5, 6], [4, 7]))
    >>> one == other, one + other == RowSums.of(key, np.array([4, 5, 6, 7], dtype=np.uint64))
    (False, True)
    """

    rows: int = 0
    first: int = 0
    second: int = 0

    @classmethod
    def of(cls, key: KeyArray, hashes: KeyArray) -> RowSums:
        """Add up the hashes of rows."""
        return cls(*sum_boxes(key, np.zeros(len(hashes), dtype=np.int32), hashes, 1)[0].tolist())

    def __add__(self, other: RowSums) -> RowSums:
        """Return the sums of both."""
        first, second = self.first + other.first, self.second + other.second
        return RowSums(self.rows + other.rows, first % (1 << 64), second % (1 << 64))

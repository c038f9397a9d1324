"""Keyed 64-bit hashes of values and rows (SipHash-1-3; Aumasson and Bernstein, INDOCRYPT 2012), and sums of them.

The key is drawn from the operating system for every verification, so nobody can prepare a release whose rows
collide. A collision can only make a false row look true, never a true row look false.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import compiled
from shoal.verify.kernels import inlined

Word: TypeAlias = np.uint64
_C0 = np.uint64(0x736F6D6570736575)
_C1 = np.uint64(0x646F72616E646F6D)
_C2 = np.uint64(0x6C7967656E657261)
_C3 = np.uint64(0x7465646279746573)
_FINAL = np.uint64(0xFF)
_13, _16, _17, _21, _32 = (np.uint64(bits) for bits in (13, 16, 17, 21, 32))
_47, _48, _51, _43 = (np.uint64(bits) for bits in (47, 48, 51, 43))
_EIGHT, _SHIFT_LENGTH = np.uint64(8), np.uint64(56)


def fresh_key() -> KeyArray:
    """Return (2,) words from the operating system's generator."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


@inlined
def _round(v0: Word, v1: Word, v2: Word, v3: Word) -> tuple[Word, Word, Word, Word]:
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


@inlined
def _finish(v0: Word, v1: Word, v2: Word, v3: Word) -> Word:
    v2 = v2 ^ _FINAL
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@inlined
def combine(key: KeyArray, first: Word, second: Word) -> Word:
    """Return the hash of two words."""
    v0, v1, v2, v3 = _C0 ^ key[0], _C1 ^ key[1], _C2 ^ key[0], _C3 ^ key[1]
    v3 = v3 ^ first
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 = v0 ^ first
    v3 = v3 ^ second
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 = v0 ^ second
    return _finish(v0, v1, v2, v3)


@compiled
def fold_words(key: KeyArray, rows: KeyArray, words: KeyArray, places: CodeArray) -> None:
    """Change rows[i] to the hash of itself and words[places[i]]."""
    for i in range(rows.shape[0]):
        rows[i] = combine(key, rows[i], words[places[i]])


@compiled
def hash_words(key: KeyArray, words: KeyArray, places: CodeArray) -> KeyArray:
    """Return (n,) the hashes of 0 and words[places[i]]: what fold_words makes of zeros."""
    hashes = np.empty(words.shape[0], dtype=np.uint64)
    for i in range(words.shape[0]):
        hashes[i] = combine(key, np.uint64(0), words[i])
    rows = np.empty(places.shape[0], dtype=np.uint64)
    for i in range(places.shape[0]):
        rows[i] = hashes[places[i]]
    return rows


@compiled
def fold_numbers(key: KeyArray, rows: KeyArray, numbers: FloatArray, bits: KeyArray, missing: Word) -> None:
    """Change rows[i] to the hash of itself and the bits of numbers[i]; -0.0 is 0.0, NaN is missing."""
    for i in range(rows.shape[0]):
        word = bits[i]
        if numbers[i] == 0.0:
            word = np.uint64(0)
        elif numbers[i] != numbers[i]:
            word = missing
        rows[i] = combine(key, rows[i], word)


@compiled
def fold_values(key: KeyArray, rows: KeyArray, words: KeyArray) -> None:
    """Change rows[i] to the hash of itself and words[i]."""
    for i in range(rows.shape[0]):
        rows[i] = combine(key, rows[i], words[i])


@compiled
def hash_texts(key: KeyArray, offsets: IntArray, data: NDArray[np.uint8]) -> KeyArray:
    """Return (n,) hashes of the byte strings data[offsets[i]:offsets[i + 1]]."""
    n = offsets.shape[0] - 1
    out = np.empty(n, dtype=np.uint64)
    for i in range(n):
        start, stop = offsets[i], offsets[i + 1]
        v0, v1, v2, v3 = _C0 ^ key[0], _C1 ^ key[1], _C2 ^ key[0], _C3 ^ key[1]
        word = np.uint64(0)
        held = np.uint64(0)
        for j in range(start, stop):
            word = word | (np.uint64(data[j]) << (held * _EIGHT))
            held = held + np.uint64(1)
            if held == _EIGHT:
                v3 = v3 ^ word
                v0, v1, v2, v3 = _round(v0, v1, v2, v3)
                v0 = v0 ^ word
                word = np.uint64(0)
                held = np.uint64(0)
        word = word | (np.uint64(stop - start) << _SHIFT_LENGTH)
        v3 = v3 ^ word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 = v0 ^ word
        out[i] = _finish(v0, v1, v2, v3)
    return out


_ONE, _HALF = np.uint64(1), np.uint64(32)


@inlined
def _mix(key: KeyArray, word: Word) -> Word:
    """Return a word that is no linear function of the first: by odd factors and shifts."""
    word = (word ^ key[0]) * (key[1] | _ONE)
    word = (word ^ (word >> _HALF)) * (key[0] | _ONE)
    return word ^ (word >> _HALF)


@compiled
def sum_boxes(key: KeyArray, boxes: CodeArray, hashes: KeyArray, n_boxes: int) -> KeyArray:
    """Return (n_boxes, 3) the rows of each box and two sums, modulo 2**64, over the hashes of their contents.

    Equal rows make equal sums. Unequal ones do so with a chance of at most m / 2**64, where no content occurs m
    times more often in one table than in the other: see docs/adr/0004-verifier.md.

    >>> key = np.array([3, 4], dtype=np.uint64)
    >>> one = sum_boxes(key, np.array([0, 1, 1], dtype=np.int32), np.array([5, 6, 7], dtype=np.uint64), 2)
    >>> other = sum_boxes(key, np.array([1, 0, 1], dtype=np.int32), np.array([7, 5, 8], dtype=np.uint64), 2)
    >>> (one != other).any(axis=1).tolist()
    [False, True]
    """
    sums = np.zeros((n_boxes, 3), dtype=np.uint64)
    for i in range(boxes.shape[0]):
        sums[boxes[i], 0] += _ONE
        sums[boxes[i], 1] += hashes[i]
        sums[boxes[i], 2] += _mix(key, hashes[i])
    return sums


@dataclass(frozen=True, slots=True)
class RowSums:
    """How many rows there are, and two sums modulo 2**64 over the hashes of their classes and contents.

    Equal rows in any order make equal sums. Unequal ones do so with a chance of at most m / 2**64, where none occurs m
    times more often in one table than in the other: see docs/adr/0004-verifier.md.

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
        first, second = _summed(key, hashes)
        return cls(len(hashes), int(first), int(second))

    def __add__(self, other: RowSums) -> RowSums:
        """Return the sums of both."""
        first, second = self.first + other.first, self.second + other.second
        return RowSums(self.rows + other.rows, first % (1 << 64), second % (1 << 64))


@compiled
def _summed(key: KeyArray, hashes: KeyArray) -> tuple[np.uint64, np.uint64]:
    first = second = np.uint64(0)
    for i in range(hashes.shape[0]):
        first += hashes[i]
        second += _mix(key, hashes[i])
    return first, second

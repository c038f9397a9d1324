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

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.kernels import compiled, inlined

Word: TypeAlias = np.uint64
State: TypeAlias = tuple[Word, Word, Word, Word]
_C0, _C1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
_C2, _C3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
_FINAL, _ONE = np.uint64(0xFF), np.uint64(1)
_13, _16, _17, _21, _32 = (np.uint64(bits) for bits in (13, 16, 17, 21, 32))
_47, _48, _51, _43 = (np.uint64(bits) for bits in (47, 48, 51, 43))
_EIGHT, _SHIFT_LENGTH = np.uint64(8), np.uint64(56)


def fresh_key() -> KeyArray:
    """Return (2,) words from the operating system's generator."""
    return np.frombuffer(secrets.token_bytes(16), dtype=np.uint64).copy()


@inlined
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


@inlined
def _absorb(state: State, word: Word) -> State:
    v0, v1, v2, v3 = state
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@inlined
def _finish(state: State) -> Word:
    v0, v1, v2, v3 = state
    v2 = v2 ^ _FINAL
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@compiled
def fold_values(key: KeyArray, rows: KeyArray, words: KeyArray) -> None:
    """Change rows[i] to the hash of itself and words[i]."""
    start = (_C0 ^ key[0], _C1 ^ key[1], _C2 ^ key[0], _C3 ^ key[1])
    for i in range(rows.shape[0]):
        rows[i] = _finish(_absorb(_absorb(start, rows[i]), words[i]))


@compiled
def hash_texts(key: KeyArray, offsets: IntArray, data: NDArray[np.uint8]) -> KeyArray:
    """Return (n,) hashes of the byte strings data[offsets[i]:offsets[i + 1]]."""
    out = np.empty(offsets.shape[0] - 1, dtype=np.uint64)
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
    return out


def _mix(key: KeyArray, words: KeyArray) -> KeyArray:
    """Return words that are no linear function of the first: by odd factors and shifts."""
    words = (words ^ key[0]) * (key[1] | _ONE)
    words = (words ^ (words >> _32)) * (key[0] | _ONE)
    return np.asarray(words ^ (words >> _32), dtype=np.uint64)


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
    sums = np.zeros((3, n_boxes), dtype=np.uint64)
    for row, words in zip(sums, (np.ones_like(hashes), hashes, _mix(key, hashes)), strict=True):
        np.add.at(row, boxes, words)
    return sums.T


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
        return cls(len(hashes), int(hashes.sum()), int(_mix(key, hashes).sum()))

    def __add__(self, other: RowSums) -> RowSums:
        """Return the sums of both."""
        first, second = self.first + other.first, self.second + other.second
        return RowSums(self.rows + other.rows, first % (1 << 64), second % (1 << 64))

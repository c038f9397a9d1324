"""Coded rows as words of 64 bits, as they wait in files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.coding import CodedRows, CodedSource
from shoal.verify.kernels import kernel
from shoal.verify.parts import Task

_WORD = 63
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@kernel
def _pack(columns: CodeArray, word: IntArray, shift: IntArray, out: KeyArray) -> None:
    for a in range(columns.shape[0]):
        for i in range(columns.shape[1]):
            out[word[a], i] |= np.uint64(columns[a, i]) << np.uint64(shift[a])


@kernel
def _unpack(rows: KeyArray, word: IntArray, shift: IntArray, mask: KeyArray, out: CodeArray) -> None:
    for a in range(word.shape[0]):
        for i in range(rows.shape[0]):
            out[a, i] = (rows[i, word[a]] >> np.uint64(shift[a])) & mask[a]


class Packing:
    """Codes of known ranges side by side in as few words as possible.

    >>> packing = Packing([3, 2**40, 2**30])
    >>> words = np.zeros((packing.n_words, 1), dtype=np.uint64)
    >>> packing.pack(np.array([[2], [7], [9]], dtype=np.int32), words)
    >>> packing.unpack(words.T.copy()).T.tolist(), packing.n_words
    ([[2, 7, 9]], 2)
    """

    def __init__(self, radices: Sequence[int]) -> None:
        bits = [max(0, radix - 1).bit_length() for radix in radices]
        groups: list[list[int]] = []
        for a, width in enumerate(bits):
            if not groups or sum(bits[b] for b in groups[-1]) + width > _WORD:
                groups.append([])
            groups[-1].append(a)
        self.n_words = len(groups)
        self._word = np.array([number for number, group in enumerate(groups) for _ in group], dtype=np.int64)
        shifts = [sum(bits[b] for b in group if b > a) for group in groups for a in group]
        self._shift = np.array(shifts, dtype=np.int64)
        self._mask = np.array([(1 << width) - 1 for width in bits], dtype=np.uint64)

    def pack(self, columns: CodeArray, out: KeyArray) -> None:
        """Write (n_columns, n_rows) codes into (n_words, n_rows), which is zero."""
        _pack(columns, self._word, self._shift, out)

    def unpack(self, rows: KeyArray) -> CodeArray:
        """Return (n_columns, n_rows) codes of rows whose first words these are."""
        out = np.empty((len(self._word), len(rows)), dtype=np.int32)
        _unpack(rows, self._word, self._shift, self._mask, out)
        return out


class ReleaseWords:
    """Rows of a release: labels, what tells classes apart without labels, contents, and values two in a word."""

    def __init__(self, task: Task) -> None:
        self._layout = task.layout
        self._classes = task.layout.classes()
        self._labels = Packing(task.layout.radices)
        self._compact = task.layout.quasi == tuple(range(len(task.layout.radices))) and self._classes.simple
        self._n_subjects = len(task.subjects)
        self._key = self._labels.n_words
        self._hash = self._key + task.layout.by_values
        self._with_hash = task.key is not None
        self._value = self._hash + self._with_hash
        self.n_words = self._value + (self._n_subjects + 1) // 2

    def pack(self, rows: CodedRows) -> KeyArray:
        """Return (n_words, n_rows) words, but for the values."""
        words = np.zeros((self.n_words, rows.rows), dtype=np.uint64)
        if self._compact and self._labels.n_words:
            words[0] = rows.keys  # as it is packed
        else:
            self._labels.pack(rows.labels, words[: self._key])
        if self._layout.by_values:
            words[self._key] = rows.keys
        if self._with_hash and rows.hashes is not None:
            words[self._hash] = rows.hashes
        return words

    def add_values(self, words: KeyArray, subjects: tuple[CodeArray, ...]) -> None:
        """Write the values into words."""
        for place, values in enumerate(subjects[: self._n_subjects]):
            words[self._value + place // 2] |= values.astype(np.uint64) << (_HALF if place % 2 else np.uint64(0))

    def unpack(self, rows: KeyArray, *, labelled: bool) -> tuple[CodedRows, tuple[CodeArray, ...]]:
        """Return (n_rows, n_words) words as coded rows and values."""
        n = len(rows)
        if labelled or not (self._compact or self._layout.by_values):
            labels = self._labels.unpack(rows)
        else:
            labels = np.empty((0, n), dtype=np.int32)
        if self._layout.by_values:
            keys = np.ascontiguousarray(rows[:, self._key])
        elif self._compact:
            keys = np.ascontiguousarray(rows[:, 0]) if self._labels.n_words else np.zeros(n, dtype=np.uint64)
        else:
            keys = self._classes.first_keys([labels[a] for a in self._layout.quasi], n)
        hashes = np.ascontiguousarray(rows[:, self._hash]) if self._with_hash else None
        subjects = []
        for place in range(self._n_subjects):
            word = rows[:, self._value + place // 2]
            subjects.append((word >> _HALF if place % 2 else word & _LOW).astype(np.int32))
        return CodedRows(n, labels, keys, hashes), tuple(subjects)


class PointWords:
    """Points of a source, with their contents, or of a population."""

    def __init__(self, widths: Sequence[int], *, with_hash: bool) -> None:
        self._points = Packing(widths)
        self._with_hash = with_hash
        self.n_words = self._points.n_words + with_hash

    def pack(self, points: CodeArray, hashes: KeyArray | None = None) -> KeyArray:
        """Return (n_words, n_rows) words."""
        words = np.zeros((self.n_words, len(points)), dtype=np.uint64)
        self._points.pack(np.ascontiguousarray(points.T), words)
        if hashes is not None:
            words[-1] = hashes
        return words

    def points(self, rows: KeyArray) -> CodeArray:
        """Return (n_rows, n_attributes) points of (n_rows, n_words) words."""
        return self._points.unpack(rows).T

    def unpack(self, rows: KeyArray) -> CodedSource:
        """Return rows of a source."""
        return CodedSource(self.points(rows), np.ascontiguousarray(rows[:, -1]))

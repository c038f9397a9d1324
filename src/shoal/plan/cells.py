"""Cells: the distinct combinations of values that occur, with their counts.

A combination is packed into one or more 64-bit words, which reduces a run of rows to cells by one sort. Runs merge
pairwise, and memory grows with the number of cells, not with the number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, IntArray, KeyArray

WORD = 64
_TABLE_BITS = 16  # leading bits of a key, for a lookup table that narrows the search


@dataclass(frozen=True, slots=True)
class KeyLayout:
    """The position of each column's code in the words of a key.

    >>> KeyLayout.of_bits([7, 1, 12]).shift
    (0, 7, 8)
    """

    bits: tuple[int, ...]
    word: tuple[int, ...]
    shift: tuple[int, ...]
    n_words: int

    @classmethod
    def of_bits(cls, bits: Sequence[int]) -> KeyLayout:
        """Place columns one after another, opening a new word if one does not fit."""
        word, shift, current, used = [], [], 0, 0
        for width in bits:
            if used + width > WORD:
                current, used = current + 1, 0
            word.append(current)
            shift.append(used)
            used += width
        return cls(tuple(bits), tuple(word), tuple(shift), current + 1)

    @classmethod
    def roomy(cls, sizes: Sequence[int]) -> KeyLayout:
        """Fit dictionaries of these sizes, and let them grow by sharing the spare bits of one word."""
        bits = [max(int(size).bit_length(), 1) for size in sizes]
        spare = max(WORD - sum(bits), 0) // max(len(bits), 1)
        return cls.of_bits([min(width + spare, 32) for width in bits])

    def holds(self, sizes: Sequence[int]) -> bool:
        return all(size <= 1 << width for size, width in zip(sizes, self.bits, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Distinct keys in ascending order with their counts."""

    keys: KeyArray  # (n_words, n)
    counts: IntArray  # (n,)

    @classmethod
    def of_rows(cls, keys: KeyArray) -> Run:
        """Reduce the keys of rows to distinct keys; this sorts *keys* in place if they are single words."""
        if len(keys) == 1:
            keys[0].sort()
        else:
            keys = keys[:, np.lexsort(keys)]
        starts = kernels.find_starts(keys)
        return cls(np.ascontiguousarray(keys[:, starts]), np.diff(starts, append=keys.shape[1]))

    @classmethod
    def of_cells(cls, keys: KeyArray, counts: IntArray) -> Run:
        """Add up the records of equal cells, which may come in any order."""
        order = np.lexsort(keys)
        ordered = keys[:, order]
        starts = kernels.find_starts(ordered)
        return cls(np.ascontiguousarray(ordered[:, starts]), np.add.reduceat(counts[order], starts))

    def merge(self, other: Run) -> Run:
        """Return the union of both runs with added counts."""
        if len(self.keys) == 1:
            keys, counts = (np.empty(self.keys.shape[1] + other.keys.shape[1], kind) for kind in (np.uint64, np.int64))
            n = kernels.merge_runs(self.keys[0], self.counts, other.keys[0], other.counts, keys, counts)
            return Run(keys[np.newaxis, :n].copy(), counts[:n].copy())
        keys = np.concatenate([self.keys, other.keys], axis=1)
        return Run.of_cells(keys, np.concatenate([self.counts, other.counts]))

    def lay_out(self, old: KeyLayout, new: KeyLayout) -> Run:
        """Return the same cells with keys of another layout."""
        keys = np.zeros((new.n_words, self.keys.shape[1]), dtype=np.uint64)
        for column, shift in enumerate(new.shift):
            keys[new.word[column]] |= self.column(old, column).astype(np.uint64) << np.uint64(shift)
        return Run.of_cells(keys, self.counts)

    def column(self, layout: KeyLayout, column: int) -> AnyIntArray:
        """Return (n,) the codes of one column, in the narrowest type that holds them."""
        width = layout.bits[column]
        narrow = np.uint8 if width <= 8 else np.uint16 if width <= 16 else np.uint32
        mask = np.uint64((1 << width) - 1)
        shifted = self.keys[layout.word[column]] >> np.uint64(layout.shift[column])
        return np.asarray(shifted & mask, dtype=narrow)

    def thin(self, rng: np.random.Generator) -> Run:
        """Return a random half of the records; each is drawn independently."""
        counts = rng.binomial(self.counts, 0.5)
        kept = np.flatnonzero(counts)
        return Run(np.ascontiguousarray(self.keys[:, kept]), counts[kept].astype(np.int64))

    def find(self, keys: KeyArray) -> IntArray:
        """Return (n_rows,) the position of each row's key in this run, or -1."""
        if len(keys) == 1:
            (run,), (wanted,) = self.keys, keys
            bits = min(len(run).bit_length(), _TABLE_BITS)
            shift = max(int(run.max(initial=0)).bit_length() - bits, 0)
            starts = np.searchsorted(run, np.arange(1 << bits, dtype=np.uint64) << np.uint64(shift))
            found = np.empty(len(wanted), dtype=np.int64)
            kernels.find_sorted(run, wanted, np.append(starts, len(run)), shift, found)
            return found
        both = np.concatenate([self.keys, keys], axis=1)
        number = np.zeros(both.shape[1], dtype=np.int32)  # equal for keys that agree in all words so far
        for word in both:
            words = kernels.number_keys(word)[1].astype(np.uint64)
            first, number = kernels.number_keys(words << np.uint64(32) | number.astype(np.uint64))
        found = first[number[self.keys.shape[1] :]]
        return np.where(found < self.keys.shape[1], found, -1)


class RunStack:
    """Merges runs as a binary counter does, so merging n runs costs n log n and not n squared."""

    def __init__(self) -> None:
        self._runs: list[Run] = []

    def push(self, run: Run) -> None:
        """Add a run; runs of similar length are merged immediately."""
        while self._runs and len(self._runs[-1].counts) <= 2 * len(run.counts):
            run = self._runs.pop().merge(run)
        self._runs.append(run)

    @property
    def n_held(self) -> int:
        """The number of keys in all runs; keys that occur in several runs count several times."""
        return sum(len(run.counts) for run in self._runs)

    def thin(self, rng: np.random.Generator) -> None:
        self._runs = [self.total().thin(rng)]

    def relay(self, old: KeyLayout, new: KeyLayout) -> None:
        self._runs = [run.lay_out(old, new) for run in self._runs]

    def total(self) -> Run:
        while len(self._runs) > 1:
            last = self._runs.pop()
            self._runs.append(self._runs.pop().merge(last))
        return self._runs[0]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Distinct combinations of codes: column j of cell i is ``codes[j][i]``, and ``counts[i]`` records have it."""

    codes: tuple[AnyIntArray, ...]  # n_attributes x (n_cells,)
    counts: IntArray  # (n_cells,)

    @property
    def n_cells(self) -> int:
        return len(self.counts)

    @property
    def n_records(self) -> int:
        return int(self.counts.sum())

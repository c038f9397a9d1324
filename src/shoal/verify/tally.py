"""Counting keys and numbering combinations while rows stream by; memory is bounded by the distinct ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import compiled
from shoal.verify.exact import Histograms

_FIRST_FLUSH, _FLUSH = 1 << 20, 12_000_000  # keys that wait: as many as are known already, between these
_LARGE = 1 << 19  # numbers from which on a table grows in smaller steps
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_ID_BOUND = 2**31
_KEY_BOUND = 2**63


def _sum_up(keys: KeyArray, counts: IntArray | None) -> tuple[KeyArray, IntArray]:
    """Return the distinct keys, ascending, and the sums of their counts; without counts each key counts once."""
    if counts is None:
        ordered = np.sort(keys)
    else:
        order = np.argsort(keys, kind="stable")  # it only merges where keys are two ascending runs
        ordered, counts = keys[order], counts[order]
    first = (
        np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.zeros(0, dtype=np.int64)
    )
    if counts is None:
        return ordered[first], np.diff(np.append(first, len(ordered)))
    return ordered[first], np.add.reduceat(counts, first) if len(first) else counts


class Tally:
    """How often each 64-bit key was added.

    >>> tally = Tally()
    >>> tally.add(np.array([7, 3, 7], dtype=np.uint64))
    >>> [part.tolist() for part in tally.result()]
    [[3, 7], [1, 2]]
    """

    def __init__(self, room: int = _FIRST_FLUSH) -> None:
        self._waiting: KeyArray = np.empty(room, dtype=np.uint64)  # keys that are not yet summed up
        self._held = 0
        self._keys: KeyArray = np.empty(0, dtype=np.uint64)
        self._counts: IntArray = np.empty(0, dtype=np.int64)

    def add(self, keys: KeyArray) -> None:
        """Count these keys."""
        while keys.size:
            some = keys[: self._waiting.shape[0] - self._held]
            self._waiting[self._held : self._held + some.shape[0]] = some
            self._held += some.shape[0]
            keys = keys[some.shape[0] :]
            if self._held == self._waiting.shape[0]:
                self._flush()

    def add_counts(self, keys: KeyArray, counts: IntArray) -> None:
        """Count each of these distinct keys so many times."""
        self._keys, self._counts = _sum_up(np.append(self._keys, keys), np.append(self._counts, counts))

    def _flush(self) -> None:
        ordered = self._waiting[: self._held]
        self._held = 0
        self.add_counts(*_sum_up(ordered, None))
        room = min(_FLUSH, self._keys.shape[0])
        if room > self._waiting.shape[0]:
            self._waiting = np.empty(room, dtype=np.uint64)

    @property
    def count(self) -> int:
        """How many distinct keys are known, but for those that wait to be summed up."""
        return len(self._keys)

    @property
    def waiting(self) -> int:
        """How many keys wait to be summed up."""
        return self._held

    def settle(self) -> None:
        """Sum up what waits."""
        if self._held:
            self._flush()

    def result(self) -> tuple[KeyArray, IntArray]:
        """Return the distinct keys in ascending order and their counts; nothing can be added after that."""
        self.settle()
        self._waiting = self._waiting[:0].copy()
        return self._keys, self._counts


@compiled
def _intern(
    keys: KeyArray, begin: int, table_keys: KeyArray, table_ids: CodeArray, count: int, out: CodeArray
) -> tuple[int, int]:
    """Number keys from *begin* on; stop before the table is more than 5/8 full. Returns (next, count)."""
    mask = np.uint64(table_keys.shape[0] - 1)
    room = table_keys.shape[0] // 8 * 5
    one = np.uint64(1)
    for i in range(begin, keys.shape[0]):
        key = keys[i]
        place = key * _SPREAD
        place = (place ^ (place >> _HALF)) & mask
        while True:
            found = table_ids[place]
            if found < 0:
                if count >= room:
                    return i, count
                table_keys[place] = key
                table_ids[place] = count
                out[i] = count
                count += 1
                break
            if table_keys[place] == key:
                out[i] = found
                break
            place = (place + one) & mask
    return keys.shape[0], count


class Interner:
    """Numbers 0, 1, 2, ... for 64-bit keys, in order of first appearance.

    >>> interner = Interner()
    >>> interner.ids(np.array([9, 4, 9], dtype=np.uint64)).tolist(), interner.keys().tolist()
    ([0, 1, 0], [9, 4])
    """

    def __init__(self) -> None:
        self._table_keys: KeyArray = np.zeros(1 << 12, dtype=np.uint64)
        self._table_ids: CodeArray = np.full(1 << 12, -1, dtype=np.int32)
        self.count = 0

    def ids(self, keys: KeyArray) -> CodeArray:
        """Return the number of each key, giving new ones to keys not seen before."""
        out = np.empty(keys.shape[0], dtype=np.int32)
        done = 0
        while True:
            done, self.count = _intern(keys, done, self._table_keys, self._table_ids, self.count, out)
            if done == keys.shape[0]:
                return out
            self._grow()

    def _grow(self) -> None:
        known = self.keys()
        size = self._table_keys.shape[0] * (4 if self.count < _LARGE else 2)
        if size > _ID_BOUND:
            raise OverflowError("more than a thousand million distinct combinations")
        self._table_keys = np.zeros(size, dtype=np.uint64)
        self._table_ids = np.full(size, -1, dtype=np.int32)
        _intern(known, 0, self._table_keys, self._table_ids, 0, np.empty(known.shape[0], dtype=np.int32))

    def keys(self) -> KeyArray:
        """Return (count,) the key of each number."""
        filled = self._table_ids >= 0
        out = np.empty(self.count, dtype=np.uint64)
        out[self._table_ids[filled]] = self._table_keys[filled]
        return out


@compiled
def _extend(keys: KeyArray, radix: int, codes: AnyIntArray) -> None:
    factor = np.uint64(radix)
    for i in range(keys.shape[0]):
        keys[i] = keys[i] * factor + np.uint64(codes[i])


class Combinations:
    """Numbers for distinct tuples of codes of known ranges, however large the product of the ranges is.

    Codes are joined to one key, each with as many bits as its range needs; where the next ones would leave 63
    bits the key so far is replaced by its number, so no two tuples are ever confused.

    >>> combinations = Combinations([2, 3])
    >>> combinations.ids([np.array([1, 0, 1]), np.array([2, 2, 2])]).tolist()
    [0, 1, 0]
    >>> combinations.tuples().tolist()
    [[1, 2], [0, 2]]
    """

    def __init__(self, radices: Sequence[int]) -> None:
        self._radices = tuple(1 << max(0, radix - 1).bit_length() for radix in radices)
        self._stages: list[tuple[list[int], Interner]] = []
        members: list[int] = []
        bound = 1
        for place, radix in enumerate(self._radices):
            if members and bound * radix >= _KEY_BOUND:
                self._stages.append((members, Interner()))
                members, bound = [], _ID_BOUND
            members.append(place)
            bound *= radix
        self._stages.append((members, Interner()))

    @property
    def count(self) -> int:
        """How many distinct tuples were seen."""
        return self._stages[-1][1].count

    @property
    def simple(self) -> bool:
        """Whether the first keys tell tuples apart."""
        return len(self._stages) == 1

    def first_keys(self, columns: Sequence[AnyIntArray], n_rows: int) -> KeyArray:
        """Return (n_rows,) the keys that ``ids`` begins with; no numbers are given, so any thread may ask."""
        keys = np.zeros(n_rows, dtype=np.uint64)
        for place in self._stages[0][0]:
            _extend(keys, self._radices[place], columns[place])
        return keys

    def ids(self, columns: Sequence[AnyIntArray], n_rows: int | None = None, keys: KeyArray | None = None) -> CodeArray:
        """Return the number of each row's tuple; *keys* are its first keys, if they are known."""
        rows = columns[0].shape[0] if n_rows is None else n_rows
        ids = self._stages[0][1].ids(self.first_keys(columns, rows) if keys is None else keys)
        for members, interner in self._stages[1:]:
            more = ids.astype(np.uint64)
            for place in members:
                _extend(more, self._radices[place], columns[place])
            ids = interner.ids(more)
        return ids

    def tuples(self) -> CodeArray:
        """Return (count, n_columns) the codes of each number."""
        out = np.empty((self.count, len(self._radices)), dtype=np.int32)
        previous: IntArray = np.arange(self.count, dtype=np.int64)
        for members, interner in reversed(self._stages):
            keys = interner.keys()[previous]
            for place in reversed(members):
                radix = np.uint64(self._radices[place])
                out[:, place] = (keys % radix).astype(np.int32)
                keys = keys // radix
            previous = keys.astype(np.int64)
        return out


def histograms_of(tally: Tally, sizes: IntArray, values: tuple[str | None, ...], n_values: int) -> Histograms:
    """Return the sparse histograms of keys class << 32 | value; *values* are what the codes stand for."""
    keys, counts = tally.result()
    start = np.searchsorted(keys, np.arange(len(sizes) + 1, dtype=np.uint64) << _HALF).astype(np.int64)
    return Histograms(sizes, start, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64), counts, values, n_values)

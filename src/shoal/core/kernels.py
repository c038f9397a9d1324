"""Compiled loops that several packages use. They release the GIL, are compiled once per machine, and then cached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit
from numba.core.caching import FunctionCache
from numba.core.runtime import nrt
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray

Ints = NDArray[np.int64]
Keys = NDArray[np.uint64]
Codes = NDArray[Any]
_SAME = 1e-12  # of the largest distance; costs with a smaller difference are equal up to rounding
_LARGEST_KEY = 2**62
_SHORT = 16  # length of runs that are sorted by insertion
_SPREAD, _HALF, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(32), np.uint64(1)
_FEWEST_SLOTS = 1 << 12
F = TypeVar("F", bound=Callable[..., Any])


class _CompiledCode(FunctionCache):  # type: ignore[misc]
    """The compiled code of a kernel on disk, which is searched when the kernel is first called.

    Loading machine code only needs numba's runtime. Numba's own cache first prepares the whole compiler, including
    SciPy's linear algebra, which takes longer than most runs. A kernel without cached code is compiled as usual.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        if not hasattr(self, "_cache_file"):
            super().__init__(self._function)
        _find_runtime()
        try:
            code = self._load_overload(sig, target_context)
            if code is None or code.signature.args == tuple(sig):  # differs if two processes wrote the file together
                return code
        except (ImportError, AttributeError):  # written by another version
            pass
        self._cache_file.flush()
        return None


@cache
def _find_runtime() -> None:
    """Register numba's runtime functions for machine code; the rest of numba's preparation is for its compiler."""
    for name, address in nrt._nrt.c_helpers.items():  # noqa: SLF001  numba has no public way to ask
        nrt.ll.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


def kernel(function: F) -> F:
    """Compile a function of plain arrays at its first call on this machine; later processes load it from disk."""
    return _compile(function)


def inline_kernel(function: F) -> F:
    """Compile a small function into its callers, because a call would copy the arrays of a tuple argument.

    Only kernels can call it: compiling is a third faster without a wrapper for Python.
    """
    return _compile(function, forceinline=True, no_cpython_wrapper=True)


def light_kernel(function: F) -> F:
    """Compile a function like :func:`inline_kernel` that makes no arrays and so needs no reference counts."""
    return _compile(function, forceinline=True, no_cpython_wrapper=True, _nrt=False)


def _compile(function: F, **options: bool) -> F:
    dispatcher = njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
    dispatcher._cache = _CompiledCode(function)  # noqa: SLF001  numba has no public way to set a cache
    dispatcher._compilation_chain_init_hook = lambda: None  # noqa: SLF001  extensions load if it has to compile
    return cast("F", dispatcher)


@kernel
def add_codes(key: Keys, indices: NDArray[np.int32], table: Keys) -> None:
    """Add the shifted code of each row's dictionary index to its key by OR."""
    for row in range(len(key)):
        key[row] |= table[indices[row]]


@kernel
def find_codes(keys: Keys, shift: int, mask: int, used: BoolArray) -> None:
    """Mark the codes that occur in a column of packed keys."""
    for row in range(len(keys)):
        used[(keys[row] >> np.uint64(shift)) & np.uint64(mask)] = True


@kernel
def translate_codes(keys: Keys, shift: int, mask: int, table: Codes, out: Codes) -> None:
    """Fill *out* with the entry of *table* for each row's code in a column of packed keys."""
    for row in range(len(keys)):
        out[row] = table[(keys[row] >> np.uint64(shift)) & np.uint64(mask)]


@kernel
def merge_runs(keys_a: Keys, counts_a: Ints, keys_b: Keys, counts_b: Ints, keys: Keys, counts: Ints) -> int:
    """Merge two ascending runs of distinct keys, adding the counts; return the number of keys."""
    a = b = n = 0
    while a < len(keys_a) or b < len(keys_b):
        from_a = b == len(keys_b) or (a < len(keys_a) and keys_a[a] <= keys_b[b])
        from_b = a == len(keys_a) or (b < len(keys_b) and keys_b[b] <= keys_a[a])
        keys[n] = keys_a[a] if from_a else keys_b[b]
        counts[n] = (counts_a[a] if from_a else 0) + (counts_b[b] if from_b else 0)
        a, b, n = a + from_a, b + from_b, n + 1
    return n


@kernel
def find_sorted(run: Keys, keys: Keys, starts: Ints, shift: int, found: Ints) -> None:
    """Find each key's place in the ascending run, or -1; keys that equal p without *shift* bits start at starts[p]."""
    for row in range(len(keys)):
        key = keys[row]
        part = np.int64(min(key >> np.uint64(shift), np.uint64(len(starts) - 2)))
        low, high = starts[part], starts[part + 1]
        while low < high:
            middle = (low + high) // 2
            if run[middle] < key:
                low = middle + 1
            else:
                high = middle
        found[row] = low if low < starts[part + 1] and run[low] == key else -1


@kernel
def draw_targets(
    cells: Ints, first: Ints, target: NDArray[np.int32], remaining: Ints, left: Ints, chance: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Assign rows to the targets of their cells; all arrangements within a cell are equally likely.

    The quotas of cell c are ``target[first[c]:first[c + 1]]`` with ``remaining`` records each, ``left[c]`` in total. A
    row takes one of the remaining places by its random number in [0, 1). If a cell has more rows than places, ``left``
    becomes negative.
    """
    out = np.empty(len(cells), dtype=np.int32)
    for row in range(len(cells)):
        cell = cells[row]
        start, stop = first[cell], first[cell + 1]
        choice = start
        if stop - start > 1:
            place = int(chance[row] * left[cell])
            while choice < stop - 1 and place >= remaining[choice]:
                place -= remaining[choice]
                choice += 1
        remaining[choice] -= 1
        left[cell] -= 1
        out[row] = target[choice]
    return out


def group_items(group: NDArray[np.int32], n_groups: int) -> tuple[Ints, Ints]:
    """Return where each group starts in an order of the items by group, and this order, without items of group -1."""
    first, order = np.zeros(n_groups + 2, dtype=np.int64), np.empty(len(group), dtype=np.int64)
    _group_items(group, first, order)
    return first[:-1], order[: first[-1]]


@kernel
def _group_items(group: NDArray[np.int32], first: Ints, order: Ints) -> None:
    for item in range(len(group)):
        if group[item] >= 0:
            first[group[item] + 2] += 1
    for number in range(2, len(first)):
        first[number] += first[number - 1]
    for item in range(len(group)):  # at the end, the start of each group has moved to the start of the next
        if group[item] >= 0:
            order[first[group[item] + 1]] = item
            first[group[item] + 1] += 1


def sum_groups(group: NDArray[np.int32], records: Ints, n_groups: int) -> Ints:
    """Return (n_groups,) the records of each group; items of group -1 are not counted."""
    total = np.zeros(n_groups, dtype=np.int64)
    _add_records(group, records, total)
    return total


@kernel
def _add_records(group: NDArray[np.int32], records: Ints, total: Ints) -> None:
    for item in range(len(group)):
        if group[item] >= 0:
            total[group[item]] += records[item]


def occurring(codes: Codes) -> Ints:
    """Return the codes that occur, ascending; much faster than ``np.unique`` for small codes."""
    return np.flatnonzero(np.bincount(codes))


@kernel
def varying(values: Codes, cells: Codes, owner: Codes, n: int) -> NDArray[np.bool_]:
    """Return (n,) whether the cells of each owner have several values."""
    one, several = np.full(n, -1, dtype=np.int64), np.zeros(n, dtype=np.bool_)
    for item in range(len(cells)):
        own = owner[item]
        if not several[own]:
            before, one[own] = one[own], values[cells[item]]
            several[own] = 0 <= before != one[own]
    return several


@kernel
def tally_classes(first: Ints, values: NDArray[np.int32], records: Ints, counts: Ints) -> None:
    """Count the records of each value in consecutive classes with the items ``first[c]:first[c + 1]``."""
    for row in range(len(first) - 1):
        for item in range(first[row], first[row + 1]):
            counts[row, values[item]] += records[item]


@kernel
def tally_shares(first: Ints, order: Ints, values: Codes, records: Ints, tallies: Ints, shares: FloatArray) -> int:
    """Find each value's records, number of classes, and lowest and highest share in these classes.

    Class c has the items ``order[first[c]:first[c + 1]]``. *tallies* are (3, n_values) zeros, of which the last row is
    restored; *shares* are (2, n_values) ones and zeros. Returns the number of classes with records.
    """
    n_filled = 0
    for c in range(len(first) - 1):
        size = 0
        for place in range(first[c], first[c + 1]):
            tallies[2, values[order[place]]] += records[order[place]]
            size += records[order[place]]
        n_filled += size > 0
        for place in range(first[c], first[c + 1]):
            value = values[order[place]]
            count = tallies[2, value]
            if count > 0:
                shares[0, value] = min(shares[0, value], count / size)
                shares[1, value] = max(shares[1, value], count / size)
                tallies[0, value] += count
                tallies[1, value] += 1
                tallies[2, value] = 0
    return n_filled


@kernel
def count_likeliest(first: Ints, order: Ints, values: Codes, records: Ints, counts: Ints) -> int:
    """Return the number of records with the most frequent value of their class.

    Class c has the items ``order[first[c]:first[c + 1]]``. *counts* are (n_values,) zeros, which are restored.
    """
    found = 0
    for c in range(len(first) - 1):
        largest = 0
        for place in range(first[c], first[c + 1]):
            counts[values[order[place]]] += records[order[place]]
            largest = max(largest, counts[values[order[place]]])
        for place in range(first[c], first[c + 1]):
            counts[values[order[place]]] = 0
        found += largest
    return found


@kernel
def places_ascending(keys: AnyIntArray | FloatArray) -> IntArray:
    """Return (n,) the places of numbers in ascending order; equal numbers keep their order.

    Kernels do not call NumPy's sorts. Numba makes each of them from a function of the same name and distinguishes them
    by a number that depends on earlier compilations; when several come from its cache on disk, it may confuse them and
    crash. Only one kernel in the package may still use one: the verifier's, which shares no code.
    """
    n = len(keys)
    values, places = keys.copy(), np.empty(n, dtype=np.int64)
    for begin in range(0, n, _SHORT):
        for at in range(begin, min(begin + _SHORT, n)):
            value, to = values[at], at
            while to > begin and values[to - 1] > value:
                values[to], places[to] = values[to - 1], places[to - 1]
                to -= 1
            values[to], places[to] = value, at
    spare_values, spare_places = np.empty_like(values), np.empty_like(places)
    length = _SHORT
    while length < n:
        for begin in range(0, n, 2 * length):
            middle, end = min(begin + length, n), min(begin + 2 * length, n)
            left, right = begin, middle
            for to in range(begin, end):
                if left < middle and (right == end or values[left] <= values[right]):
                    spare_values[to], spare_places[to] = values[left], places[left]
                    left += 1
                else:
                    spare_values[to], spare_places[to] = values[right], places[right]
                    right += 1
        values, spare_values = spare_values, values
        places, spare_places = spare_places, places
        length *= 2
    return places


@kernel
def _number_keys(
    keys: Keys, begin: int, count: int, held: Keys, slots: Codes, first: Ints, numbers: Codes
) -> tuple[int, int]:
    """Number keys from *begin* on while the table has room; return the next place and the number of distinct keys."""
    last, room = np.uint64(held.shape[0] - 1), held.shape[0] // 8 * 5
    for i in range(begin, keys.shape[0]):
        slot = keys[i] * _SPREAD
        slot = (slot ^ (slot >> _HALF)) & last
        while slots[slot] >= 0 and held[slot] != keys[i]:
            slot = (slot + _ONE) & last
        if slots[slot] < 0:
            if count == room:
                return i, count
            held[slot], slots[slot], first[count] = keys[i], count, i
            count += 1
        numbers[i] = slots[slot]
    return keys.shape[0], count


def number_keys(keys: Keys) -> tuple[Ints, CodeArray]:
    """Return the first place of each distinct key, and (n,) the number of each key in order of appearance.

    >>> [part.tolist() for part in number_keys(np.array([7, 3, 7], dtype=np.uint64))]
    [[0, 1], [0, 1, 0]]
    """
    first, numbers = np.empty(len(keys), dtype=np.int64), np.empty(len(keys), dtype=np.int32)
    size, done, count = _FEWEST_SLOTS, 0, 0
    while True:
        held, slots = np.empty(size, dtype=np.uint64), np.full(size, -1, dtype=np.int32)  # an open hash table
        known = keys[first[:count]]
        _number_keys(known, 0, 0, held, slots, np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int32))
        done, count = _number_keys(keys, done, count, held, slots, first, numbers)
        if done == len(keys):
            return first[:count], numbers
        size *= 4


def number_rows(keys: Keys) -> tuple[Ints, CodeArray]:
    """Number the distinct rows of (n, n_words) keys in the same way."""
    words = np.ascontiguousarray(keys.T)
    first, numbers = number_keys(words[0])
    for word in words[1:]:
        _, others = number_keys(word)
        first, numbers = number_keys(numbers.astype(np.uint64) << _HALF | others.astype(np.uint64))
    return first, numbers


class Pairs(NamedTuple):
    """Distinct pairs by first code, then second; the pairs of first code v are ``start[v]:start[v + 1]``."""

    start: IntArray  # (n_first + 1,)
    second: CodeArray  # (n_pairs,)
    records: IntArray  # (n_pairs,)
    begin: IntArray  # (n_pairs + 1,) where each pair's items begin
    order: IntArray  # (n_items,) items by pair

    @property
    def pair_of(self) -> IntArray:
        """(n_items,) the pair of each item."""
        found = np.empty(len(self.order), dtype=np.int64)
        found[self.order] = np.repeat(np.arange(len(self.second)), np.diff(self.begin))
        return found


def count_pairs(first: CodeArray, n_first: int, second: CodeArray, n_second: int, records: IntArray) -> Pairs:
    """Count the records of items by two codes, in linear time by two counting sorts.

    >>> codes = np.array([0, 1, 0, 0], dtype=np.int32)
    >>> pairs = count_pairs(codes, 2, np.array([0, 0, 1, 1], dtype=np.int32), 2, np.array([1, 2, 3, 4]))
    >>> pairs.start.tolist(), pairs.second.tolist(), pairs.records.tolist()
    ([0, 2, 3], [0, 1, 0], [1, 7, 2])
    """
    ascend = bool((second[1:] >= second[:-1]).all())
    by_second = np.arange(len(second)) if ascend else group_items(second, n_second)[1]
    start, order = group_items(first[by_second], n_first)
    order = by_second[order]
    return Pairs(*_merge_items(start, second[order], records[order]), order)


@kernel
def _merge_items(start: Ints, second: Codes, records: Ints) -> tuple[Ints, Codes, Ints, Ints]:
    """Merge items ``start[v]:start[v + 1]`` with equal second codes, which are ascending."""
    starts, begin, n = np.zeros_like(start), np.empty(len(second) + 1, dtype=np.int64), 0
    seconds, total = np.empty_like(second), np.zeros_like(records)
    for value in range(len(start) - 1):
        for place in range(start[value], start[value + 1]):
            if n == starts[value] or seconds[n - 1] != second[place]:
                seconds[n], begin[n] = second[place], place
                n += 1
            total[n - 1] += records[place]
        starts[value + 1] = n
    begin[n] = len(second)
    return starts, seconds[:n], total[:n], begin[: n + 1]


@inline_kernel
def place_of(ascending: CodeArray, low: int, high: int, wanted: int) -> int:
    """Return the place of *wanted* in ``ascending[low:high]``, or -1; immediate if these are all codes from 0 on."""
    if low + wanted < high and ascending[low + wanted] == wanted:
        return low + wanted
    end = high
    while low < high:
        middle = (low + high) // 2
        if ascending[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low if low < end and ascending[low] == wanted else -1


class Clusters(NamedTuple):
    """Clusters of points around medoids."""

    medoids: IntArray  # (k,) ascending
    labels: CodeArray  # (n_points,) the cluster of each point
    cost: float  # sum of the distances to the medoids


def pam(distances: FloatArray, k: int) -> Clusters:
    """Return k clusters whose cost no swap of a medoid and another point reduces.

    Kaufman and Rousseeuw, "Finding Groups in Data" (1990), chapter 2: BUILD adds the medoid that reduces the cost most,
    SWAP makes the best swap as long as that reduces the cost. Of equally good points the first is chosen, so the result
    depends only on the distances, which are symmetric with a diagonal of 0.

    >>> line = np.array([0.0, 1.0, 2.0, 10.0, 11.0])
    >>> found = pam(np.abs(line[:, None] - line), 2)
    >>> found.medoids.tolist(), found.labels.tolist(), found.cost
    ([1, 3], [0, 0, 0, 1, 1], 3.0)
    """
    if not 1 <= k <= len(distances):
        raise ValueError(f"k must be in 1..{len(distances)}, not {k}")
    margin = _SAME * float(distances.max())
    chosen = _build_medoids(distances, k, margin)
    while (swap := _best_swap(distances, chosen, margin)) is not None:
        chosen[list(swap)] = ~chosen[list(swap)]
    medoids = np.flatnonzero(chosen)
    labels = np.argmin(distances[medoids], axis=0).astype(np.int32)
    labels[medoids] = np.arange(k)  # even if another medoid is at distance 0
    return Clusters(medoids, labels, float(distances[medoids[labels], np.arange(len(distances))].sum()))


def _build_medoids(distances: FloatArray, k: int, margin: float) -> BoolArray:
    """Return (n_points,) whether BUILD chooses each point."""
    chosen = np.zeros(len(distances), dtype=np.bool_)
    nearest = np.full(len(distances), np.inf)
    for _ in range(k):
        costs = np.minimum(nearest, distances).sum(axis=1)  # (n_points,) cost with each point as next medoid
        costs[chosen] = np.inf
        best = _first_best(costs, margin)
        chosen[best] = True
        nearest = np.minimum(nearest, distances[best])
    return chosen


def _best_swap(distances: FloatArray, chosen: BoolArray, margin: float) -> tuple[int, int] | None:
    """Return the medoid to remove and the point to add, or None if no swap reduces the cost."""
    medoids, others = np.flatnonzero(chosen), np.flatnonzero(~chosen)
    if not len(others):
        return None
    costs = np.empty((len(medoids), len(others)))
    for place, medoid in enumerate(medoids):
        without = distances[medoids[medoids != medoid]].min(axis=0, initial=np.inf)
        costs[place] = np.minimum(without, distances[others]).sum(axis=1)
    best = _first_best(costs.reshape(-1), margin)
    if costs.flat[best] >= distances[medoids].min(axis=0).sum() - margin:
        return None
    removed, added = divmod(best, len(others))
    return int(medoids[removed]), int(others[added])


def _first_best(costs: FloatArray, margin: float) -> int:
    return int(np.argmax(costs <= costs.min() + margin))


def gather_entries(start: IntArray, rows: AnyIntArray) -> tuple[IntArray, IntArray]:
    """Return, for each entry of the given rows, its place in *rows* and its place among all entries.

    >>> gather_entries(np.array([0, 2, 3]), np.array([1, 0]))
    (array([0, 1, 1]), array([2, 0, 1]))
    """
    length = np.diff(start)[rows]
    place = np.repeat(np.arange(len(rows)), length)
    ends = np.cumsum(length)
    within = np.arange(len(place)) - np.repeat(ends - length, length)
    return place, start[rows][place] + within


def find_starts(columns: Sequence[NDArray[Any]] | NDArray[Any]) -> IntArray:
    """Return the places of rows that differ from the row before, given the columns of sorted rows.

    >>> find_starts([np.array([1, 1, 2, 2]), np.array([5, 5, 5, 7])]).tolist()
    [0, 2, 3]
    """
    changes = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.append(True, changes))[: len(columns[0])]  # empty without rows


def same_rows(columns: Sequence[AnyIntArray]) -> tuple[IntArray, CodeArray]:
    """Return the first row of each group of equal rows, and every row's group."""
    key = pack(columns, [int(column.max(initial=0)) + 1 for column in columns])
    if (size := int(key.max(initial=-1)) + 1) <= 4 * len(key):
        at = np.full(size, -1, dtype=np.int64)  # (size,) the first row with each key
        at[key[::-1]] = np.arange(len(key))[::-1]
        return at[at >= 0], (np.cumsum(at >= 0, dtype=np.int32) - np.int32(1))[key]
    first, number = number_keys(key.view(np.uint64))
    order = np.argsort(key[first])
    group = np.empty(len(first), dtype=np.int32)
    group[order] = np.arange(len(first))
    return first[order], group[number]


def find_rows(known: Sequence[AnyIntArray], asked: Sequence[AnyIntArray]) -> IntArray:
    """Return (n_asked,) the first known row that equals each row, or -1.

    >>> find_rows([np.array([3, 5, 3])], [np.array([3, 4])])
    array([ 0, -1])
    """
    n_known = len(known[0])
    first, group = same_rows([np.concatenate(both) for both in zip(known, asked, strict=True)])
    found = first[group[n_known:]]
    return np.where(found < n_known, found, -1)


def pack(columns: Sequence[AnyIntArray], sizes: Sequence[int]) -> IntArray:
    """Return (n_rows,) numbers in the lexicographic order of the rows.

    >>> pack([np.array([0, 1]), np.array([2, 0])], [2, 3]).tolist()
    [2, 3]
    """
    key, size_so_far = columns[0].astype(np.int64), sizes[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        if size_so_far * size > _LARGEST_KEY:
            distinct, places = np.unique(key, return_inverse=True)
            key, size_so_far = places.astype(np.int64), len(distinct)
        key *= size
        key += column
        size_so_far *= size
    return key

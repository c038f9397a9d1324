"""Beliefs where several parts have the sensitive attribute, so that an adversary joins them through it.

Within a bucket the expected number of records with quasi values q and sensitive value s is the product of the counts of
(q_i, s) in the parts that have the attribute and of q_i in the others, over the counts of what parts share. So what is
believed of s is the weight of the tuple (q, s), matched like any other tuple against lists of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.verify.exact import Histograms
from shoal.verify.kernels import kernel, paired
from shoal.verify.numbering import ValueReader
from shoal.verify.sliced.layout import Layout
from shoal.verify.sliced.mixtures import HUGE, TINY, Block, World
from shoal.verify.sliced.postings import Postings, entry_of, numbered, shortest_of
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Interner, Tally

Subject: TypeAlias = tuple[str, ...]  # sensitive attributes; several in one = their joint values


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Lists of values, in informed parts and separators of pairs (value, sensitive value), by bucket."""

    lists: Postings
    pairs: tuple[tuple[KeyArray, IntArray] | None, ...]  # keys of each list's pairs and their numbers; None: no pairs
    n_parts: int
    n_values: int  # of the sensitive attribute

    def numbers(self, columns: Sequence[CodeArray], sensitive: int) -> CodeArray:
        """Return (n, n_lists) numbers of the tuples' values, joined with one sensitive value, in the lists."""
        found = [
            column if pairs is None else _place(pairs, column, sensitive)
            for column, pairs in zip(columns, self.pairs, strict=True)
        ]
        return numbered(self.lists, np.stack(found, axis=1))


def _place(pairs: tuple[KeyArray, IntArray], column: CodeArray, sensitive: int) -> CodeArray:
    """Return (n,) the number of each pair, or -1."""
    keys, numbers = pairs
    wanted = paired(np.maximum(column, 0), np.full(len(column), sensitive, dtype=np.int32))
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where((keys[place] == wanted) & (column >= 0), numbers[place], -1).astype(np.int32)


def _ascending(keys: KeyArray) -> tuple[KeyArray, IntArray]:
    order = np.argsort(keys)
    return keys[order], order


class Joining:
    """Counts pairs of values and sensitive values while rows stream by."""

    def __init__(self, layout: Layout, reader: ValueReader) -> None:
        self._layout = layout
        self._reader = reader  # the one that groups are counted with: values have the same numbers in both
        self._parts = sorted({*layout.known, *layout.informed})
        told = [place in layout.informed for place in self._parts]
        told += [layout.shared in separator.names for separator in layout.separators]
        self._numbers = [Interner() if informed else None for informed in told]
        self._tallies = [Tally() for _ in told]
        self._plain = [0] * len(told)

    def add(
        self,
        values: Sequence[CodeArray],
        separated: Sequence[CodeArray],
        sensitive: Sequence[tuple[pa.Array, CodeArray]],
        buckets: CodeArray,
    ) -> None:
        """Add rows by the values of all parts and separators, and the sensitive values of informed parts."""
        codes = dict(zip(self._layout.informed, (self._reader.read(*column) for column in sensitive), strict=True))
        owners = [*self._parts, *(separator.first for separator in self._layout.separators)]
        columns = [*(values[place] for place in self._parts), *separated]
        for place, (owner, column) in enumerate(zip(owners, columns, strict=True)):
            interner = self._numbers[place]
            if interner is None:
                self._plain[place] = max(self._plain[place], int(column.max()) + 1)
            else:
                column = interner.ids(paired(column, codes[owner]))
            self._tallies[place].add(paired(column, buckets))

    def result(self) -> Joined:
        """Return the lists; nothing can be added after that."""
        counts = [n if one is None else one.count for one, n in zip(self._numbers, self._plain, strict=True)]
        return Joined(
            lists=Postings.of([tally.result() for tally in self._tallies], counts),
            pairs=tuple(None if one is None else _ascending(one.keys()) for one in self._numbers),
            n_parts=len(self._parts),
            n_values=self._reader.count,
        )


@kernel
def _weights(world: World, tuples: CodeArray) -> FloatArray:
    """Return (n,) the sum over buckets of the expected number of records, over the size of the bucket.

    It is not a number where so many parts are multiplied that digits would be lost; then no promise is believed.
    """
    start, buckets, times = world.lists.start, world.lists.bucket, world.lists.times
    dense, entries = world.lists.dense, world.lists.entry
    n, n_lists = tuples.shape
    out = np.zeros(n)
    for t in range(n):
        shortest = shortest_of(start, tuples, t, world.n_parts)
        if shortest < 0:
            continue
        value = tuples[t, shortest]
        for e in range(start[value], start[value + 1]):
            expected, inside = 1.0, True
            for i in range(n_lists):
                entry = e
                if i != shortest:
                    entry = entry_of(start, buckets, dense, entries, tuples[t, i], buckets[e])
                    if entry < 0:
                        inside = False
                        break
                expected = expected * times[entry] if i < world.n_parts else expected / times[entry]
            if inside:
                for _ in range(world.free_factors):
                    expected /= world.sizes[buckets[e]]
                out[t] += expected if TINY < expected < HUGE else np.nan
    return out


def joined_beliefs(joined: Joined, world: World, columns: Sequence[CodeArray], n_promises: int) -> Block | None:
    """Return what is believed of tuples, given by their values of the joined lists; None if no tuple can be there.

    Tuples that no bucket could form are left out. No group alone tells what is believed, so none is settled exactly.
    """
    weights = np.stack([_weights(world, joined.numbers(columns, value)) for value in range(joined.n_values)], axis=1)
    weights = weights[(weights != 0).any(axis=1)]
    if not len(weights):
        return None
    owner, value = np.nonzero(weights)
    return Block(
        start=np.searchsorted(owner, np.arange(len(weights) + 1)).astype(np.int64),
        value=value.astype(np.int64),
        share=(weights / weights.sum(axis=1, keepdims=True))[owner, value],
        exact=np.zeros((n_promises, len(weights)), dtype=np.bool_),
    )


class SensitiveGroups:
    """Counts sensitive values in every group (bucket, quasi values of their part)."""

    def __init__(self, subjects: Sequence[Subject], readers: Mapping[str, ValueReader]) -> None:
        names = dict.fromkeys(name for subject in subjects for name in subject)
        self._readers = {name: readers[name] for name in names}
        self._joints = {subject: [Interner() for _ in subject[1:]] for subject in subjects}
        self._tallies = {subject: Tally() for subject in subjects}
        self._groups = Interner()

    def add(self, values: CodeArray, buckets: CodeArray, columns: Mapping[str, tuple[pa.Array, CodeArray]]) -> None:
        """Add rows by the values of their part, their buckets and what their sensitive columns hold."""
        if not self._tallies:
            return
        group = self._groups.ids(paired(values, buckets))
        codes = {name: reader.read(*columns[name]) for name, reader in self._readers.items()}
        for subject, tally in self._tallies.items():
            joint = codes[subject[0]]
            for interner, name in zip(self._joints[subject], subject[1:], strict=True):
                joint = interner.ids(paired(joint, codes[name]))
            tally.add(paired(group, joint))

    def histograms(self, entries: KeyArray) -> dict[Subject, Histograms]:
        """Return the histograms of all groups, which are numbered as their keys stand in *entries*."""
        place = np.searchsorted(entries, self._groups.keys())
        found = {}
        for subject, tally in self._tallies.items():
            keys, counts = tally.result()
            owner, value = place[keys >> np.uint64(32)], (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
            order = np.lexsort((value, owner))
            start = np.searchsorted(owner[order], np.arange(len(entries) + 1)).astype(np.int64)
            reader, joints = self._readers[subject[0]], self._joints[subject]
            found[subject] = Histograms(
                sizes=np.diff(np.append(0, np.cumsum(counts[order]))[start]),
                start=start,
                value=value[order],
                count=counts[order],
                values=() if joints else tuple(reader.texts),
                n_values=joints[-1].count if joints else reader.count,
            )
        return found


class SharedValues:
    """Counts what the two parts of a separator share, and tells whether both hold the same in every bucket."""

    def __init__(self, key: KeyArray) -> None:
        self._numbers = Interner()
        self._sums = (BoxSums(key), BoxSums(key))
        self._tally = Tally()
        self._of_value: list[CodeArray] = [np.empty(0, dtype=np.int32) for _ in range(2)]

    def add(
        self,
        hashes: Sequence[tuple[KeyArray, KeyArray]],
        values: Sequence[CodeArray],
        buckets: CodeArray,
        n_buckets: int,
    ) -> CodeArray:
        """Add rows by what both parts say of them; return the numbers of what the first part shares."""
        for side in (1, 0):
            quasi, every = hashes[side]
            numbers = self._numbers.ids(quasi)
            known = self._of_value[side]
            more = max(0, int(values[side].max()) + 1 - len(known))
            self._of_value[side] = np.append(known, np.full(more, -1, dtype=np.int32))
            self._of_value[side][values[side]] = numbers
            self._sums[side].add(buckets, every, n_buckets)
        self._tally.add(paired(numbers, buckets))
        return numbers

    def result(self) -> tuple[tuple[KeyArray, IntArray], int, tuple[CodeArray, CodeArray], BoolArray]:
        """Return the counts by bucket, how many there are, what values of the parts share, and where they differ."""
        differs = self._sums[0].differs(self._sums[1])
        return self._tally.result(), self._numbers.count, (self._of_value[0], self._of_value[1]), differs

"""Counting while the rows of a sliced release stream by: sensitive values by group, and what two parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.counting import Histograms
from shoal.verify.kernels import paired
from shoal.verify.numbering import ValueReader
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Interner, Tally

Subject: TypeAlias = tuple[str, ...]  # sensitive attributes; several in one = their joint values


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

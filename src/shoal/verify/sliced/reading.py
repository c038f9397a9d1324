"""One pass over the rows of a sliced release: what every bucket holds, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.verify.contents import Contents
from shoal.verify.exact import Histograms
from shoal.verify.guarantees import Subject
from shoal.verify.hashing import BoxSums
from shoal.verify.kernels import paired
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import ValueReader
from shoal.verify.reading import PublishedRows, coded, prepared
from shoal.verify.sliced.beliefs import Joined, Postings
from shoal.verify.sliced.layout import Layout, Separator
from shoal.verify.sliced.linking import (
    BucketError,
    NeighbourSums,
    PartReader,
    PreparedPart,
    bucket_codes,
    compared_kinds,
    grown_sizes,
    turned_rows,
)
from shoal.verify.tally import Interner, Tally

if TYPE_CHECKING:
    from shoal.sources.base import Source


_ROOM = 12_000_000  # keys that the tallies of all parts hold together before they are summed up
_LEAST_ROOM = 1 << 20


def _order_keys(keys: KeyArray) -> tuple[KeyArray, IntArray]:
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
            pairs=tuple(None if one is None else _order_keys(one.keys()) for one in self._numbers),
            n_parts=len(self._parts),
            n_values=self._reader.count,
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


@dataclass(frozen=True, slots=True, eq=False)
class SlicedRows:
    """What the rows of a sliced release say."""

    rows: int
    layout: Layout
    readers: tuple[PartReader, ...]
    sizes: IntArray  # (n_buckets,)
    lists: Postings  # values of parts with quasi attributes, then of separators
    shared_of: tuple[tuple[CodeArray, CodeArray], ...]  # of separators: what each value of their two parts shares
    disagreeing: int  # buckets in which two parts do not hold the same shared values
    histograms: Mapping[Subject, Histograms]  # by groups: entries of the part's list or, without one, buckets
    sums: tuple[BoxSums, ...]  # of the contents of each part, by bucket; empty without a source
    contents: Postings | None  # of every part, if they are to be counted
    content_numbers: tuple[Interner, ...]
    joined: Joined | None  # if several parts have the sensitive attribute
    linking: tuple[NeighbourSums, NeighbourSums] | None  # of rows as they stand and as turned, to ask a witness

    @property
    def unknown(self) -> tuple[str, ...]:
        """Attributes with texts that are no labels."""
        return tuple(label.name for reader in self.readers for label in reader.labels if label.met_unknown)

    @property
    def idle(self) -> dict[str, int]:
        """Attributes with labels that no row has, and how many these are."""
        return {label.name: label.idle for reader in self.readers for label in reader.labels if label.idle}


@dataclass(frozen=True, slots=True, eq=False)
class _Prepared:
    rows: int
    buckets: CodeArray
    parts: list[PreparedPart]
    sensitive: dict[str, tuple[pa.Array, CodeArray]]
    informed: list[tuple[pa.Array, CodeArray]]  # the shared sensitive attribute, part by part


class _Reading:
    """Everything that is counted while the rows stream by, for every part and every two parts that overlap."""

    def __init__(
        self,
        layout: Layout,
        manifest: Manifest,
        subjects: Sequence[Subject],
        kinds: Mapping[str, pa.DataType],
        compared: Literal["no", "by witness", "by bounds"],
    ) -> None:
        self._layout = layout
        self._n_buckets = manifest.buckets
        self._sensitive = [attribute.name for attribute in manifest.of_role("sensitive")]
        hashers = [_hashers(separator, layout, manifest, kinds) for separator in layout.separators]
        self._readers = tuple(
            PartReader(part, _members(place, layout, hashers), manifest, kinds, with_source=compared != "no")
            for place, part in enumerate(layout.parts)
        )
        n_parts = len(self._readers)
        values = {name: ValueReader(kinds[name], manifest.missing_tokens) for name in self._sensitive}
        self._groups = [
            SensitiveGroups([subject for subject in subjects if layout.part_of(subject) == place], values)
            for place in range(n_parts)
        ]
        self._shared = [SharedValues(every.key) for _, every in hashers]
        self._joining = None if layout.shared is None else Joining(layout, values[layout.shared])
        room = max(_LEAST_ROOM, _ROOM // n_parts)
        self._tallies = {place: Tally(room) for place in layout.known}
        self._sums = tuple(BoxSums(reader.key) for reader in self._readers) if compared != "no" else ()
        self._contents = [(Interner(), Tally(room)) for _ in self._readers] if compared == "by bounds" else []
        self._linking: tuple[NeighbourSums, NeighbourSums] | None = None
        if compared == "by witness":
            key = self._readers[0].key
            self._linking = NeighbourSums(key, n_parts), NeighbourSums(key, n_parts)
        self._rng = np.random.default_rng()
        self._sizes: IntArray = np.zeros(0, dtype=np.int64)

    def prepare(self, batch: pa.RecordBatch) -> _Prepared:
        """Do what no other batch must be known for; any thread may."""
        layout = self._layout
        return _Prepared(
            rows=batch.num_rows,
            buckets=bucket_codes(batch.column("bucket"), self._n_buckets),
            parts=[reader.published(batch) for reader in self._readers],
            sensitive={name: coded(batch.column(name)) for name in self._sensitive},
            informed=[coded(batch.column(layout.parts[i].column_of[str(layout.shared)])) for i in layout.informed],
        )

    def add(self, batch: _Prepared) -> None:
        """Count the rows of the next batch."""
        buckets = batch.buckets
        self._sizes = grown_sizes(self._sizes, buckets)
        numbers = [reader.values(part, batch.rows) for reader, part in zip(self._readers, batch.parts, strict=True)]
        for place, tally in self._tallies.items():
            tally.add(paired(numbers[place], buckets))
        for place, group in enumerate(self._groups):
            group.add(numbers[place], buckets, batch.sensitive)
        separated = []
        for number, separator in enumerate(self._layout.separators):
            both = (separator.first, separator.second)
            told = [batch.parts[place].shared[_index(place, number, self._layout)] for place in both]
            mine = [numbers[place] for place in both]
            separated.append(self._shared[number].add(told, mine, buckets, len(self._sizes)))
        if self._joining is not None:
            self._joining.add(numbers, separated, batch.informed, buckets)
        if self._sums:
            self._add_contents(batch, numbers)

    def _add_contents(self, batch: _Prepared, numbers: Sequence[CodeArray]) -> None:
        """Count what the source will be compared with."""
        buckets, n_buckets = batch.buckets, len(self._sizes)
        hashes = [
            reader.contents(part, codes)
            for reader, part, codes in zip(self._readers, batch.parts, numbers, strict=True)
        ]
        for one, keys in zip(self._sums, hashes, strict=True):
            one.add(buckets, keys, n_buckets)
        if self._contents:
            for (interner, tally), keys in zip(self._contents, hashes, strict=True):
                tally.add(paired(interner.ids(keys), buckets))
        if self._linking is not None:
            standing, turned = self._linking
            standing.add(hashes, buckets, n_buckets)
            turned.add(hashes, buckets, n_buckets, turned_rows(buckets, self._rng))

    def result(self) -> SlicedRows:
        """Return all that was counted; raise BucketError if there are not as many buckets as declared."""
        if len(self._sizes) != self._n_buckets:
            raise BucketError(f"there are {len(self._sizes)} buckets, the manifest says {self._n_buckets}")
        known, readers = self._layout.known, self._readers
        shared = [one.result() for one in self._shared]
        lists = Postings.of(
            [*(tally.result() for tally in self._tallies.values()), *(counted for counted, *_ in shared)],
            [*(readers[place].n_values for place in known), *(count for _, count, *_ in shared)],
        )
        histograms: dict[Subject, Histograms] = {}
        buckets = np.arange(self._n_buckets, dtype=np.uint64)
        for place, group in enumerate(self._groups):
            histograms |= group.histograms(lists.keys_of(known.index(place)) if place in known else buckets)
        contents = None
        if self._contents:
            counted = [(tally.result(), interner.count) for interner, tally in self._contents]
            contents = Postings.of([keys for keys, _ in counted], [count for _, count in counted])
        return SlicedRows(
            rows=int(self._sizes.sum()),
            layout=self._layout,
            readers=readers,
            sizes=self._sizes,
            lists=lists,
            shared_of=tuple(of_value for _, _, of_value, _ in shared),
            disagreeing=int(np.logical_or.reduce([differs for *_, differs in shared]).sum()) if shared else 0,
            histograms=histograms,
            sums=self._sums,
            contents=contents,
            content_numbers=tuple(interner for interner, _ in self._contents),
            joined=None if self._joining is None else self._joining.result(),
            linking=self._linking,
        )


def read_sliced(
    rows: PublishedRows,
    manifest: Manifest,
    layout: Layout,
    subjects: Sequence[Subject],
    source: Source | None,
    *,
    with_contents: bool,
    progress: Progress,
) -> SlicedRows:
    """Read the release once. *with_contents*: list the contents of buckets, to compare them without a witness."""
    if source is not None:
        absent = [a.name for a in manifest.attributes if a.name not in source.schema.names]
        if absent:
            raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    compared: Literal["no", "by witness", "by bounds"] = "by bounds" if with_contents else "by witness"
    kinds = compared_kinds(layout, manifest, rows.schema, source)
    reading = _Reading(layout, manifest, subjects, kinds, "no" if source is None else compared)
    with progress.step("reading the release", manifest.rows) as step:
        for batch in prepared(rows.batches(manifest.columns), reading.prepare):
            if batch.rows:
                reading.add(batch)
                step.advance(batch.rows)
    return reading.result()


def _hashers(
    separator: Separator, layout: Layout, manifest: Manifest, kinds: Mapping[str, pa.DataType]
) -> tuple[Contents, Contents]:
    """Return what hashes the quasi values that two parts share, and what hashes all that they share."""
    quasi = tuple(name for name in separator.names if name != layout.shared)
    one, other = (
        Contents(names, [kinds[name] for name in names], manifest.missing_tokens) for names in (quasi, separator.names)
    )
    return one, other


def _members(
    place: int, layout: Layout, hashers: Sequence[tuple[Contents, Contents]]
) -> list[tuple[Contents, Contents]]:
    return [h for h, s in zip(hashers, layout.separators, strict=True) if place in (s.first, s.second)]


def _index(place: int, number: int, layout: Layout) -> int:
    return sum(place in (s.first, s.second) for s in layout.separators[:number])

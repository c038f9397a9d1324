"""One pass over the rows of a sliced release: what every bucket holds, part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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
from shoal.verify.reading import PublishedRows, coded, prepare_ahead
from shoal.verify.sliced.beliefs import Joined, Postings
from shoal.verify.sliced.layout import Layout, Separator
from shoal.verify.sliced.linking import (
    BucketError,
    NeighbourSums,
    PartReader,
    PreparedPart,
    bucket_codes,
    choose_kinds,
    grow_sizes,
    turn_rows,
)
from shoal.verify.tally import Interner

if TYPE_CHECKING:
    from shoal.sources.base import Source


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
class _Batch:
    """Rows before their values have numbers."""

    rows: int
    buckets: CodeArray
    parts: list[PreparedPart]
    sensitive: dict[str, tuple[pa.Array, CodeArray]]  # column -> what it holds


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """All rows, column by column."""

    buckets: CodeArray  # (n_rows,)
    values: list[CodeArray]  # of each part (n_rows,) the numbers of quasi values or regions
    contents: list[KeyArray]  # of each part (n_rows,) hashes of what is compared with the source
    codes: dict[str, CodeArray]  # sensitive column -> (n_rows,) numbers of values
    shared: dict[
        tuple[int, int, int], KeyArray
    ]  # part, number of its separator, 0: hashes of quasi values or 1: of all


def _count_pairs(first: CodeArray, second: CodeArray) -> tuple[KeyArray, IntArray]:
    """Return the distinct keys first << 32 | second, ascending, and how often each occurs."""
    keys, counts = np.unique(paired(first, second), return_counts=True)
    return keys, counts.astype(np.int64)


class _Reader:
    """Reads the rows, and counts what every part, every two parts that overlap and every group of a bucket holds."""

    def __init__(
        self,
        layout: Layout,
        manifest: Manifest,
        kinds: Mapping[str, pa.DataType],
        compared: Literal["no", "by witness", "by bounds"],
    ) -> None:
        self._layout = layout
        self._n_buckets = manifest.buckets
        self._compared = compared
        names = [attribute.name for attribute in manifest.of_role("sensitive")]
        hashers = [_hashers(separator, layout, manifest, kinds) for separator in layout.separators]
        self._keys = [every.key for _, every in hashers]
        self._readers = tuple(
            PartReader(part, _members(place, layout, hashers), manifest, kinds, with_source=compared != "no")
            for place, part in enumerate(layout.parts)
        )
        self._values = {name: ValueReader(kinds[name], manifest.missing_tokens) for name in names}
        # Each sensitive attribute in its first column, and the one that parts share in all of them.
        self._columns = {name: name for name in names}
        self._columns |= {layout.parts[i].column_of[str(layout.shared)]: str(layout.shared) for i in layout.informed}

    def prepare(self, batch: pa.RecordBatch) -> _Batch:
        """Do what no other batch must be known for; any thread may."""
        return _Batch(
            rows=batch.num_rows,
            buckets=bucket_codes(batch.column("bucket"), self._n_buckets),
            parts=[reader.published(batch) for reader in self._readers],
            sensitive={column: coded(batch.column(column)) for column in self._columns},
        )

    def read(self, rows: PublishedRows, manifest: Manifest, progress: Progress) -> tuple[_Rows, IntArray]:
        """Return all rows and the sizes of buckets, or raise BucketError if these are not as declared."""
        sizes: IntArray = np.zeros(0, dtype=np.int64)
        found: list[_Rows] = []
        with progress.step("reading the release", manifest.rows) as step:
            for batch in prepare_ahead(rows.batches(manifest.columns), self.prepare):
                if not batch.rows and found:
                    continue
                sizes = grow_sizes(sizes, batch.buckets)
                found.append(self._number(batch))
                step.advance(batch.rows)
        if len(sizes) != self._n_buckets or not found:
            raise BucketError(f"there are {len(sizes)} buckets, the manifest says {self._n_buckets}")
        return _concatenate(found), sizes

    def _number(self, batch: _Batch) -> _Rows:
        both = list(zip(self._readers, batch.parts, strict=True))
        values = [reader.values(part, batch.rows) for reader, part in both]
        contents = []
        if self._compared != "no":
            contents = [reader.contents(part, own) for (reader, part), own in zip(both, values, strict=True)]
        codes = {column: self._values[name].read(*batch.sensitive[column]) for column, name in self._columns.items()}
        shared = {
            (place, number, which): both[which]
            for place, part in enumerate(batch.parts)
            for number, both in enumerate(part.shared)
            for which in (0, 1)
        }
        return _Rows(batch.buckets, values, contents, codes, shared)

    def count(self, rows: _Rows, sizes: IntArray, subjects: Sequence[Subject]) -> SlicedRows:
        """Return what the rows say."""
        layout, readers, buckets, known = self._layout, self._readers, rows.buckets, self._layout.known
        shared = [self._share(number, rows) for number in range(len(layout.separators))]
        lists = Postings.of(
            [_count_pairs(own, buckets) for own in (*(rows.values[p] for p in known), *(one for one, *_ in shared))],
            [*(readers[place].n_values for place in known), *(count for _, count, *_ in shared)],
        )
        contents, numbers = None, tuple(Interner() for _ in readers if self._compared == "by bounds")
        if numbers:
            ids = [interner.ids(keys) for interner, keys in zip(numbers, rows.contents, strict=True)]
            contents = Postings.of([_count_pairs(own, buckets) for own in ids], [one.count for one in numbers])
        sums = tuple(BoxSums(reader.key) for reader in readers if self._compared != "no")
        for one, keys in zip(sums, rows.contents, strict=True):
            one.add(buckets, keys, len(sizes))
        return SlicedRows(
            rows=len(buckets),
            layout=layout,
            readers=readers,
            sizes=sizes,
            lists=lists,
            shared_of=tuple(of_value for _, _, of_value, _ in shared),
            disagreeing=int(np.logical_or.reduce([differs for *_, differs in shared]).sum()) if shared else 0,
            histograms={
                one: self._count_groups(one, rows, lists) for one in subjects if layout.part_of(one) is not None
            },
            sums=sums,
            contents=contents,
            content_numbers=numbers,
            joined=None if layout.shared is None else self._join(rows, [one for one, *_ in shared]),
            linking=self._link(rows) if self._compared == "by witness" else None,
        )

    def _share(self, number: int, rows: _Rows) -> tuple[CodeArray, int, tuple[CodeArray, CodeArray], BoolArray]:
        """Count what the two parts of a separator share.

        Return (n_rows,) numbers of what the first part shares, how many there are, what each value of both parts
        shares, and in which buckets they do not hold the same.
        """
        separator = self._layout.separators[number]
        sides = (separator.first, separator.second)
        hashes = [
            [rows.shared[place, _index(place, number, self._layout), which] for which in (0, 1)] for place in sides
        ]
        distinct, numbers = np.unique(np.concatenate([quasi for quasi, _ in hashes]), return_inverse=True)
        own = numbers.reshape(2, -1).astype(np.int32)
        of_value, sums = [], []
        for place, told, (_, every) in zip(sides, own, hashes, strict=True):
            of_value.append(np.full(int(rows.values[place].max()) + 1, -1, dtype=np.int32))
            of_value[-1][rows.values[place]] = told
            sums.append(BoxSums(self._keys[number]))
            sums[-1].add(rows.buckets, every, self._n_buckets)
        return own[0], len(distinct), (of_value[0], of_value[1]), sums[0].differs(sums[1])

    def _count_groups(self, subject: Subject, rows: _Rows, lists: Postings) -> Histograms:
        """Count sensitive values in every group: bucket and quasi values of their part, as entries of its list."""
        part, known = self._layout.part_of(subject), self._layout.known
        group, n_groups = rows.buckets.astype(np.int64), self._n_buckets
        if part in known:
            entries = lists.keys_of(known.index(part))
            group, n_groups = np.searchsorted(entries, paired(rows.values[part], rows.buckets)), len(entries)
        joint, n_values = rows.codes[subject[0]], self._values[subject[0]].count
        for name in subject[1:]:
            distinct, numbers = np.unique(paired(joint, rows.codes[name]), return_inverse=True)
            joint, n_values = numbers.reshape(-1).astype(np.int32), len(distinct)
        keys, counts = _count_pairs(group.astype(np.int32), joint)
        return Histograms(
            sizes=np.bincount(group, minlength=n_groups).astype(np.int64),
            start=np.searchsorted(keys >> np.uint64(32), np.arange(n_groups + 1, dtype=np.uint64)).astype(np.int64),
            value=(keys & np.uint64(0xFFFFFFFF)).astype(np.int64),
            count=counts,
            values=() if len(subject) > 1 else tuple(self._values[subject[0]].texts),
            n_values=n_values,
        )

    def _join(self, rows: _Rows, separated: Sequence[CodeArray]) -> Joined:
        """Count values, in informed parts and separators together with the sensitive value, by bucket."""
        layout, name = self._layout, str(self._layout.shared)
        parts = sorted({*layout.known, *layout.informed})
        owners = [*parts, *(separator.first for separator in layout.separators)]
        told = [place in layout.informed for place in parts]
        told += [layout.shared in separator.names for separator in layout.separators]
        pairs: list[KeyArray | None] = []
        counted, n_values = [], []
        for owner, with_value, column in zip(owners, told, [*(rows.values[p] for p in parts), *separated], strict=True):
            numbers, keys = column, None
            if with_value:
                codes = rows.codes[layout.parts[owner].column_of[name]]
                keys, places = np.unique(paired(column, codes), return_inverse=True)
                numbers = places.reshape(-1).astype(np.int32)
            pairs.append(keys)
            n_values.append(int(numbers.max()) + 1)
            counted.append(_count_pairs(numbers, rows.buckets))
        return Joined(Postings.of(counted, n_values), tuple(pairs), len(parts), self._values[name].count)

    def _link(self, rows: _Rows) -> tuple[NeighbourSums, NeighbourSums]:
        """Add up neighbouring parts of rows as they stand, and as turned by a random number of places."""
        key, n_parts = self._readers[0].key, len(self._readers)
        standing, turned = NeighbourSums(key, n_parts), NeighbourSums(key, n_parts)
        standing.add(rows.contents, rows.buckets, self._n_buckets)
        order = turn_rows(rows.buckets, np.random.default_rng())
        turned.add(rows.contents, rows.buckets, self._n_buckets, order)
        return standing, turned


def _concatenate(found: Sequence[_Rows]) -> _Rows:
    def join(pick: Callable[[_Rows], Sequence[NDArray[Any]]]) -> list[NDArray[Any]]:
        return [np.concatenate(arrays) for arrays in zip(*map(pick, found), strict=True)]

    return _Rows(
        buckets=np.concatenate([rows.buckets for rows in found]),
        values=join(lambda rows: rows.values),
        contents=join(lambda rows: rows.contents),
        codes=dict(zip(found[0].codes, join(lambda rows: list(rows.codes.values())), strict=True)),
        shared=dict(zip(found[0].shared, join(lambda rows: list(rows.shared.values())), strict=True)),
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
    kinds = choose_kinds(layout, manifest, rows.schema, source)
    reader = _Reader(layout, manifest, kinds, "no" if source is None else compared)
    return reader.count(*reader.read(rows, manifest, progress), subjects)


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

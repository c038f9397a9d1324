"""One pass over the rows of a sliced release: what every bucket holds, part by part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray, KeyArray
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.contents import Contents, common_type, is_textual
from shoal.verify.counting import Histograms, LabelReader
from shoal.verify.hashing import fold_values
from shoal.verify.kernels import paired
from shoal.verify.manifest import Manifest
from shoal.verify.reading import PublishedRows, coded
from shoal.verify.sliced.grouping import SensitiveGroups, SharedValues, Subject
from shoal.verify.sliced.joined import Joined, Joining
from shoal.verify.sliced.layout import Layout, PartLayout, Separator
from shoal.verify.sliced.postings import Postings
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Combinations, Interner, Tally

if TYPE_CHECKING:
    from shoal.sources import Source


class BucketError(Exception):
    """The column of buckets is not what it should be; the message says what is wrong."""


def bucket_codes(column: pa.Array, n_buckets: int) -> CodeArray:
    """Return (n_rows,) buckets from 0 on, or raise BucketError if they are not whole numbers from 1 to n.

    >>> bucket_codes(pa.array(["1", "2", "2"]), 2).tolist()
    [0, 1, 1]
    """
    values, places = coded(column)
    if column.null_count:
        raise BucketError("rows have no bucket")
    try:
        numbers = values.cast(pa.int64()) if _may_count(values.type) else None
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or not values.cast(pa.string()).equals(numbers.cast(pa.string())):
        raise BucketError("buckets are not plain whole numbers")
    found = np.asarray(numbers, dtype=np.int64)
    if ((found < 1) | (found > n_buckets)).any():
        raise BucketError(f"buckets are not numbers from 1 to {n_buckets}, as the manifest says")
    return (found - 1).astype(np.int32)[places]


def _may_count(kind: pa.DataType) -> bool:
    return is_textual(kind) or bool(pa.types.is_integer(kind))


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPart:
    """What a batch tells of a part before its values have numbers."""

    quasi: KeyArray | None  # hashes of quasi values that are published as they are
    places: CodeArray | None  # regions of source rows
    labels: tuple[CodeArray, ...]  # of published rows under labels
    rest: KeyArray | None  # hashes of all other attributes
    shared: tuple[tuple[KeyArray, KeyArray], ...]  # of each separator: hashes of quasi values, and of all values


class PartReader:
    """Numbers the quasi values of one part, and hashes its contents, alike for both tables."""

    def __init__(
        self,
        part: PartLayout,
        shared: Sequence[tuple[Contents, Contents]],
        manifest: Manifest,
        published: pa.Schema,
        source: Source | None,
    ) -> None:
        self.layout = part
        self.shared = shared  # of the separators that the part has
        missing = manifest.missing_tokens
        self._quasi = None if part.boxed else Contents(part.quasi, _kinds(part, part.quasi, published, source), missing)
        self._rest = (
            None if source is None else Contents(part.rest, _kinds(part, part.rest, published, source), missing)
        )
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        self.labels = [LabelReader(by_name[name]) for name in part.quasi] if part.boxed else []
        self.regions = Combinations([reader.radix for reader in self.labels])
        self._numbers = Interner()

    @property
    def key(self) -> KeyArray:
        """The key that contents are hashed with."""
        assert self._rest is not None  # noqa: S101 - asked for only when a source is given
        return self._rest.key

    @property
    def n_values(self) -> int:
        """How many values of the part have numbers so far."""
        if not self.layout.quasi:
            return 1
        return self.regions.count if self.layout.boxed else self._numbers.count

    def published(self, batch: pa.RecordBatch) -> PreparedPart:
        """Prepare rows of the release; any thread may."""
        columns = self.layout.column_of
        named = pa.RecordBatch.from_arrays([batch.column(column) for column in columns.values()], names=list(columns))
        return self._prepared(named, None, tuple(reader.read(named.column(reader.name)) for reader in self.labels))

    def original(self, batch: pa.RecordBatch, regions: CodeArray | None) -> PreparedPart:
        """Prepare rows of the source, whose regions, if any, are known; any thread may."""
        return self._prepared(batch, regions, ())

    def _prepared(self, batch: pa.RecordBatch, places: CodeArray | None, labels: tuple[CodeArray, ...]) -> PreparedPart:
        return PreparedPart(
            quasi=None if self._quasi is None or not self.layout.quasi else self._quasi.hashes(batch),
            places=places,
            labels=labels,
            rest=None if self._rest is None else self._rest.hashes(batch),
            shared=tuple((quasi.hashes(batch), every.hashes(batch)) for quasi, every in self.shared),
        )

    def values(self, part: PreparedPart, n_rows: int) -> CodeArray:
        """Return (n_rows,) the numbers of quasi values or regions; all 0 without quasi attributes."""
        if part.quasi is not None:
            return self._numbers.ids(part.quasi)
        if part.places is not None:
            return part.places
        return self.regions.ids(part.labels, n_rows) if part.labels else np.zeros(n_rows, dtype=np.int32)

    def contents(self, part: PreparedPart, values: CodeArray) -> KeyArray:
        """Return (n_rows,) hashes of all that a row publishes in this part."""
        assert part.rest is not None  # noqa: S101 - asked for only when a source is given
        hashes = part.rest.copy()
        fold_values(self.key, hashes, values.astype(np.uint64))
        return hashes


def _kinds(part: PartLayout, names: Sequence[str], published: pa.Schema, source: Source | None) -> list[pa.DataType]:
    own = [published.field(part.column_of[name]).type for name in names]
    others = own if source is None else [source.schema.field(name).type for name in names]
    return [common_type(one, other) for one, other in zip(own, others, strict=True)]


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
    hashers = [_hashers(separator, layout, manifest, rows.schema, source) for separator in layout.separators]
    readers = tuple(
        PartReader(part, _members(place, layout, hashers), manifest, rows.schema, source)
        for place, part in enumerate(layout.parts)
    )
    sensitive = [attribute.name for attribute in manifest.of_role("sensitive")]
    n_buckets = manifest.buckets

    def prepare(batch: pa.RecordBatch) -> _Prepared:
        return _Prepared(
            rows=batch.num_rows,
            buckets=bucket_codes(batch.column("bucket"), n_buckets),
            parts=[reader.published(batch) for reader in readers],
            sensitive={name: coded(batch.column(name)) for name in sensitive},
            informed=[coded(batch.column(layout.parts[i].column_of[str(layout.shared)])) for i in layout.informed],
        )

    groups = [SensitiveGroups([s for s in subjects if layout.part_of(s) == place]) for place in range(len(readers))]
    shared = [SharedValues(every.key) for _, every in hashers]
    joining = None if layout.shared is None else Joining(layout)
    tallies = {place: Tally() for place in layout.known}
    sums = tuple(BoxSums(reader.key) for reader in readers) if source is not None else ()
    contents = [(Interner(), Tally()) for _ in readers] if with_contents else []
    sizes: IntArray = np.zeros(0, dtype=np.int64)
    n_rows = 0
    with progress.step("reading the release", manifest.rows) as step:
        for batch in prepared(rows.batches(manifest.columns), prepare):
            if not batch.rows:
                continue
            buckets = batch.buckets
            n_rows += batch.rows
            sizes = _grown_sizes(sizes, buckets)
            numbers = [reader.values(part, batch.rows) for reader, part in zip(readers, batch.parts, strict=True)]
            for place, tally in tallies.items():
                tally.add(paired(numbers[place], buckets))
            for place, group in enumerate(groups):
                group.add(numbers[place], buckets, batch.sensitive)
            separated = []
            for number, separator in enumerate(layout.separators):
                both = (separator.first, separator.second)
                told = [batch.parts[place].shared[_index(place, number, layout)] for place in both]
                mine = [numbers[place] for place in both]
                separated.append(shared[number].add(told, mine, buckets, len(sizes)))
            if joining is not None:
                joining.add(numbers, separated, batch.informed, buckets)
            for place, one in enumerate(sums):
                hashes = readers[place].contents(batch.parts[place], numbers[place])
                one.add(buckets, hashes, len(sizes))
                if with_contents:
                    contents[place][1].add(paired(contents[place][0].ids(hashes), buckets))
            step.advance(batch.rows)
    if len(sizes) != n_buckets:
        raise BucketError(f"there are {len(sizes)} buckets, the manifest says {n_buckets}")
    joined = [one.result() for one in shared]
    lists = Postings.of(
        [*(tally.result() for tally in tallies.values()), *(counted for counted, *_ in joined)],
        [*(readers[place].n_values for place in layout.known), *(count for _, count, *_ in joined)],
    )
    found: dict[Subject, Histograms] = {}
    for place, group in enumerate(groups):
        known = place in layout.known
        entries = lists.keys_of(layout.known.index(place)) if known else np.arange(n_buckets, dtype=np.uint64)
        found.update(group.histograms(entries))
    return SlicedRows(
        rows=n_rows,
        layout=layout,
        readers=readers,
        sizes=sizes,
        lists=lists,
        shared_of=tuple(of_value for _, _, of_value, _ in joined),
        disagreeing=int(np.logical_or.reduce([differs for *_, differs in joined]).sum()) if joined else 0,
        histograms=found,
        sums=sums,
        contents=Postings.of([tally.result() for _, tally in contents], [one.count for one, _ in contents])
        if with_contents
        else None,
        content_numbers=tuple(one for one, _ in contents),
        joined=None if joining is None else joining.result(),
    )


def _grown_sizes(sizes: IntArray, buckets: CodeArray) -> IntArray:
    """Add rows to their buckets; since these ascend without gaps, no number is beyond the rows met so far."""
    steps = np.diff(buckets, prepend=np.int32(max(0, len(sizes) - 1)))
    if ((steps < 0) | (steps > 1)).any():
        raise BucketError("buckets are not in ascending order, or their numbers have gaps")
    more = np.bincount(buckets)
    more[: len(sizes)] += sizes
    return np.asarray(more, dtype=np.int64)


def _hashers(
    separator: Separator, layout: Layout, manifest: Manifest, published: pa.Schema, source: Source | None
) -> tuple[Contents, Contents]:
    """Return what hashes the quasi values that two parts share, and what hashes all that they share."""
    part = layout.parts[separator.first]
    quasi = tuple(name for name in separator.names if name != layout.shared)
    one, other = (
        Contents(names, _kinds(part, names, published, source), manifest.missing_tokens)
        for names in (quasi, separator.names)
    )
    return one, other


def _members(
    place: int, layout: Layout, hashers: Sequence[tuple[Contents, Contents]]
) -> list[tuple[Contents, Contents]]:
    return [h for h, s in zip(hashers, layout.separators, strict=True) if place in (s.first, s.second)]


def _index(place: int, number: int, layout: Layout) -> int:
    return sum(place in (s.first, s.second) for s in layout.separators[:number])

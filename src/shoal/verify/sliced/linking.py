"""Whether parts of a bucket still stand in the order of the source, so that a row tells what they should hide.

That an order is random cannot be proved, but one that was not permuted at all shows. Two neighbouring parts are
*linked* in a bucket if the pairs that its rows make, as they stand, are those of its source rows. The verifier turns
the second part of every bucket by a random number of places and looks again. If parts were permuted at random, the rows
as they stand and as turned could as well be exchanged: of m buckets that are linked in one of them only, each is so in
the first with a chance of 1/2, and by Hoeffding's inequality the first is ahead by d or more with one of at most
exp(-d^2 / 2m). Buckets in which turning makes no difference do not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.contents import Contents, is_textual
from shoal.verify.hashing import BoxSums, fold_values
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader
from shoal.verify.reading import coded
from shoal.verify.result import FALSE_ALARM, Check
from shoal.verify.sliced.layout import Layout, PartLayout
from shoal.verify.tally import Combinations, Interner

if TYPE_CHECKING:
    from shoal.sources.base import Source


class NeighbourSums:
    """Sums, bucket by bucket, over the pairs of what each two neighbouring parts of a row hold."""

    def __init__(self, key: KeyArray, n_parts: int) -> None:
        self._key = key
        self.sums = tuple(BoxSums(key) for _ in range(n_parts - 1))

    def add(
        self, contents: Sequence[KeyArray], buckets: CodeArray, n_buckets: int, turned: IntArray | None = None
    ) -> None:
        """Add rows by the hashes of their parts; *turned* tells which row the second part of each is taken from."""
        for one, (first, second) in zip(self.sums, pairwise(contents), strict=True):
            pairs = first.copy()
            fold_values(self._key, pairs, second if turned is None else second[turned])
            one.add(buckets, pairs, n_buckets)


def turn_rows(buckets: CodeArray, rng: np.random.Generator) -> IntArray:
    """Return (n_rows,) another row of the same bucket for each row, all of a bucket turned by as many places.

    >>> turn_rows(np.array([3, 4, 4, 5], dtype=np.int32), np.random.default_rng(1)).tolist()
    [0, 2, 1, 3]
    """
    first = np.flatnonzero(np.diff(buckets, prepend=-1))
    size = np.diff(np.append(first, len(buckets)))
    by = 1 + rng.integers(0, np.maximum(size - 1, 1))
    within = np.arange(len(buckets)) - np.repeat(first, size)
    return np.asarray(np.repeat(first, size) + (within + np.repeat(by, size)) % np.repeat(size, size), dtype=np.int64)


def check_permuted(standing: NeighbourSums, turned: NeighbourSums, original: NeighbourSums) -> Check:
    """No two neighbouring parts are linked in far more buckets than chance links."""
    for as_is, moved, true in zip(standing.sums, turned.sums, original.sums, strict=True):
        linked, by_chance = ~as_is.differs(true), ~moved.differs(true)
        more, fewer = int((linked & ~by_chance).sum()), int((by_chance & ~linked).sum())
        ahead = more - fewer
        if ahead > 0 and ahead**2 > -2 * math.log(FALSE_ALARM) * (more + fewer):
            return Check("permuted", False, f"in {int(linked.sum())} buckets rows still link the values of two parts")
    return Check("permuted", True, "no two parts are linked in more buckets than chance explains")


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


def grow_sizes(sizes: IntArray, buckets: CodeArray) -> IntArray:
    """Add rows to their buckets, or raise BucketError; since these ascend without gaps, memory is bounded by the rows.

    >>> grow_sizes(np.array([2]), np.array([0, 1, 1], dtype=np.int32)).tolist()
    [3, 2]
    """
    steps = np.diff(buckets, prepend=np.int32(len(sizes) - 1))
    if ((steps < 0) | (steps > 1)).any():
        raise BucketError("buckets are not in ascending order, or their numbers have gaps")
    more = np.bincount(buckets)
    more[: len(sizes)] += sizes
    return np.asarray(more, dtype=np.int64)


def choose_kinds(
    layout: Layout, manifest: Manifest, published: pa.Schema, source: Source | None
) -> dict[str, pa.DataType]:
    """Return the type in which each attribute is compared, in all its columns and in the source."""
    found: dict[str, list[pa.DataType]] = {}
    for part in layout.parts:
        for name, column in part.column_of.items():
            found.setdefault(name, []).append(published.field(column).type)
    for name, kinds in found.items():
        kinds.append(kinds[0] if source is None else source.schema.field(name).type)
    return {name: manifest.kind_of(name, *kinds) for name, kinds in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPart:
    """What a batch tells of a part before its values have numbers."""

    quasi: KeyArray | None  # hashes of quasi values that are published as they are
    places: CodeArray | None  # regions of source rows
    labels: tuple[CodeArray, ...]  # of published rows under labels
    rest: KeyArray | None  # hashes of the attributes that are compared
    shared: tuple[tuple[KeyArray, KeyArray], ...]  # of each separator: hashes of quasi values, and of all values


class PartReader:
    """Numbers the quasi values of one part, and hashes its contents, alike for both tables."""

    def __init__(
        self,
        part: PartLayout,
        shared: Sequence[tuple[Contents, Contents]],
        manifest: Manifest,
        kinds: Mapping[str, pa.DataType],
        *,
        with_source: bool,
    ) -> None:
        self.layout = part
        self.shared = shared  # of the separators that the part has
        missing = manifest.missing_tokens
        self._quasi = None if part.boxed else Contents(part.quasi, [kinds[name] for name in part.quasi], missing)
        self._rest = None
        if with_source:
            self._rest = Contents(part.compared, [kinds[name] for name in part.compared], missing)
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
        return self._prepare(named, None, tuple(reader.read(named.column(reader.name)) for reader in self.labels))

    def original(self, batch: pa.RecordBatch, regions: CodeArray | None) -> PreparedPart:
        """Prepare rows of the source, whose regions, if any, are known; any thread may."""
        return self._prepare(batch, regions, ())

    def _prepare(self, batch: pa.RecordBatch, places: CodeArray | None, labels: tuple[CodeArray, ...]) -> PreparedPart:
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
        """Return (n_rows,) hashes of all that a row publishes in this part and that follows from the source."""
        assert part.rest is not None  # noqa: S101 - asked for only when a source is given
        hashes = part.rest.copy()
        if self.layout.blurred:
            return hashes
        fold_values(self.key, hashes, values.astype(np.uint64))
        return hashes

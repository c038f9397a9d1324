"""How the columns of a sliced release hang together, and its rows and those of its source as arrays.

A release has parts, some of which may share attributes. Of a row is read its bucket and, for every part, the number of
its quasi values and a hash of all that is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.progress import Progress
from shoal.verify.boxes import BoxTree, Spans
from shoal.verify.coding import PointReader
from shoal.verify.contents import Contents, fold_values, is_textual, sum_boxes
from shoal.verify.covers import Covers
from shoal.verify.form import LabelCounts, SourceRows, count_source
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader, Numbering, ValueReader
from shoal.verify.reading import PublishedRows, encode, prepare_ahead
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source

Kinds = Mapping[str, pa.DataType]  # attribute -> the type in which its values are compared
Arrays = dict[tuple[Any, ...], NDArray[Any]]  # what is read of rows -> (n_rows,)


class OverlapError(Exception):
    """Parts overlap in a way in which it is not known what an adversary learns; the message says where."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """One part: its attributes by what an adversary knows of them, and their columns in the file."""

    column_of: dict[str, str]  # attribute -> column, in the order of the file
    quasi: tuple[str, ...]
    rest: tuple[str, ...]  # sensitive and insensitive attributes
    boxed: bool  # whether quasi values are published as labels
    blurred: bool = False  # whether some quasi values do not follow from the source
    compared: tuple[str, ...] = ()  # what rows of both tables are compared by, beside quasi values that all follow

    @property
    def located(self) -> bool:
        """Whether each row of the source lies in a region of the part."""
        return self.boxed and not self.blurred


@dataclass(frozen=True, slots=True)
class Separator:
    """Attributes that two parts share: an adversary joins the parts through them."""

    first: int
    second: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """All parts, and the separators of the tree in which overlapping ones are joined."""

    parts: tuple[PartLayout, ...]
    separators: tuple[Separator, ...]
    shared: str | None  # the sensitive attribute, if several parts have it

    @property
    def known(self) -> tuple[int, ...]:
        """The parts with quasi attributes: only these tell an adversary where a person may be."""
        return tuple(place for place, part in enumerate(self.parts) if part.quasi)

    @property
    def blurred(self) -> bool:
        """Whether an adversary's tuples are not those of the source: some quasi values were left to chance."""
        return any(part.blurred for part in self.parts)

    @property
    def informed(self) -> tuple[int, ...]:
        """The parts with the sensitive attribute, if several have it."""
        return tuple(place for place, part in enumerate(self.parts) if self.shared in part.rest)

    @classmethod
    def of(cls, manifest: Manifest) -> Layout:
        """Read the parts of a manifest; raise OverlapError if those that overlap form no tree."""
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        parts = []
        for names, columns in zip(manifest.parts, manifest.part_columns, strict=True):
            quasi = tuple(name for name in names if by_name[name].role == "quasi")
            rest = tuple(name for name in names if by_name[name].role != "quasi")
            boxed = bool(quasi) and by_name[quasi[0]].boxed
            exact = tuple(name for name in names if manifest.is_traced(by_name[name]))
            blurred = not set(quasi) <= set(exact)
            compared = tuple(n for n in exact if n in rest or (blurred and not boxed))
            column_of = dict(zip(names, columns, strict=True))
            parts.append(PartLayout(column_of, quasi, rest, boxed, blurred, compared))
        named = [name for part in manifest.parts for name in part]
        shared = next((a.name for a in manifest.of_role("sensitive") if named.count(a.name) > 1), None)
        links = [(*part.quasi, shared) if shared in part.rest else part.quasi for part in parts]
        return cls(tuple(parts), join_tree(links), shared)


def join_tree(parts: Sequence[Sequence[str]]) -> tuple[Separator, ...]:
    """Return the separators of a junction tree over overlapping parts, or raise OverlapError.

    A spanning tree with the most shared attributes is one if any is: then the parts of every attribute hang
    together in it.

    >>> [separator.names for separator in join_tree([("a", "b"), ("b", "c"), ("c", "d")])]
    [('b',), ('c',)]
    """
    pairs = []
    for first, second in combinations(range(len(parts)), 2):
        shared = tuple(name for name in parts[first] if name in parts[second])
        if shared:
            pairs.append(Separator(first, second, shared))
    tree_of = list(range(len(parts)))
    chosen = []
    for pair in sorted(pairs, key=lambda pair: -len(pair.names)):
        one, other = tree_of[pair.first], tree_of[pair.second]
        if one != other:
            chosen.append(pair)
            tree_of = [one if tree == other else tree for tree in tree_of]
    for name in dict.fromkeys(name for part in parts for name in part):
        links = sum(name in pair.names for pair in chosen)
        if links != sum(name in part for part in parts) - 1:
            raise OverlapError(f"the parts that share {name!r} form no tree with the other parts that overlap")
    return tuple(chosen)


class BucketError(Exception):
    """The column of buckets is not what it should be; the message says what is wrong."""


class PartCoder:
    """Numbers the quasi values of one part, and hashes all that is compared, alike for both tables."""

    def __init__(self, part: PartLayout, manifest: Manifest, kinds: Kinds, *, with_source: bool) -> None:
        self.part = part
        self._quasi = _hasher(part.quasi, kinds, manifest)
        self._rest = _hasher(part.compared if with_source else (), kinds, manifest)
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        self.labels = [LabelReader(by_name[name]) for name in part.quasi] if part.boxed else []
        self.regions = Numbering(len(self.labels) or 1)  # or quasi values, where there are no labels

    @property
    def key(self) -> KeyArray:
        """The key that contents are hashed with."""
        return self._rest.key

    def code(self, batch: pa.RecordBatch, *, published: bool = False) -> list[NDArray[Any]]:
        """Return labels, or hashes of quasi values; any thread may ask."""
        labels = [reader.read(batch.column(reader.name)) for reader in self.labels]
        return labels or [self._quasi.hashes(batch, published=published)]

    def hash_rest(self, batch: pa.RecordBatch, *, published: bool = False) -> KeyArray:
        """Return (n_rows,) hashes of what is compared beside quasi values; any thread may ask."""
        return self._rest.hashes(batch, published=published)

    def hash_contents(self, rest: KeyArray, values: CodeArray) -> KeyArray:
        """Return (n_rows,) hashes of all that a row publishes in this part and that follows from the source."""
        if not self.part.blurred:
            fold_values(self.key, rest, values.astype(np.uint64))
        return rest


def _hasher(names: Sequence[str], kinds: Kinds, manifest: Manifest) -> Contents:
    return Contents(names, [kinds[name] for name in names], manifest.missing_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedRows:
    """Rows of the release, or those of its source that are published or may be."""

    buckets: CodeArray  # (n_rows,) from 0 on; -1: in none
    values: list[CodeArray]  # of each part (n_rows,) numbers of quasi values or regions; below 0: not in just one
    contents: list[KeyArray]  # of each part (n_rows,) hashes of what is compared with the other table


@dataclass(frozen=True, slots=True, eq=False)
class SharedValues:
    """What two parts that overlap share."""

    numbers: CodeArray  # (n_rows,) of the quasi values that the first part shares
    of_first: CodeArray  # (n_values,) the number that each value of the first part shares
    of_second: CodeArray
    differs: BoolArray  # (n_buckets,) whether both parts do not hold the same shared values


@dataclass(frozen=True, slots=True, eq=False)
class Release(SlicedRows):
    """The rows of the release, and all that is judged of them alone."""

    layout: Layout
    coders: tuple[PartCoder, ...]
    labels: LabelCounts
    sizes: IntArray  # (n_buckets,)
    shared: list[SharedValues]  # of each separator
    codes: dict[str, CodeArray]  # sensitive column -> (n_rows,) numbers of values
    texts: dict[str, tuple[str | None, ...]]  # sensitive attribute -> what the numbers stand for


def read_release(
    rows: PublishedRows, manifest: Manifest, layout: Layout, source: Source | None, progress: Progress
) -> Release:
    """Read the release once, or raise BucketError if its buckets are not as declared."""
    kinds = _choose_kinds(layout, manifest, rows.schema, source)
    coders = tuple(PartCoder(part, manifest, kinds, with_source=source is not None) for part in layout.parts)
    names = [attribute.name for attribute in manifest.of_role("sensitive")]
    readers = {name: ValueReader(kinds[name], manifest.missing_tokens) for name in names}
    # Each sensitive attribute in its first column, and the one that parts share in all of them.
    columns = {name: name for name in names}
    columns |= {layout.parts[place].column_of[str(layout.shared)]: str(layout.shared) for place in layout.informed}
    hashers = [_hash_shared(separator, layout, kinds, manifest) for separator in layout.separators]

    def prepare(batch: pa.RecordBatch) -> tuple[Arrays, dict[str, tuple[pa.Array, CodeArray]]]:
        found: Arrays = {("bucket",): read_buckets(batch.column("bucket"), manifest.buckets)}
        parts = [batch.select([*one.column_of.values()]).rename_columns([*one.column_of]) for one in layout.parts]
        for place, (coder, own) in enumerate(zip(coders, parts, strict=True)):
            found["rest", place] = coder.hash_rest(own, published=True)
            found |= {("quasi", place, number): each for number, each in enumerate(coder.code(own, published=True))}
        for number, (separator, both) in enumerate(zip(layout.separators, hashers, strict=True)):
            for side, place in enumerate((separator.first, separator.second)):
                found |= {(what, number, side): one.hashes(parts[place]) for what, one in both.items()}
        return found, {column: encode(batch.column(column)) for column in columns}

    batches: list[Arrays] = []
    with progress.step("reading the release", manifest.rows) as step:
        for found, sensitive in prepare_ahead(rows.batches(manifest.columns), prepare):
            codes = {("code", column): readers[name].read(*sensitive[column]) for column, name in columns.items()}
            batches.append(found | codes)
            step.advance(len(found["bucket",]))
    arrays = _concatenate(batches)
    buckets = arrays.get(("bucket",), np.zeros(0, dtype=np.int32))
    sizes = _count_buckets(buckets, manifest.buckets)
    values, contents = _number_parts(coders, arrays)
    return Release(
        buckets=buckets,
        values=values,
        contents=contents,
        layout=layout,
        coders=coders,
        labels={
            reader.name: reader.count(arrays["quasi", place, number])
            for place, coder in enumerate(coders)
            for number, reader in enumerate(coder.labels)
        },
        sizes=sizes,
        shared=[
            _share([values[separator.first], values[separator.second]], arrays, number, hashers[number], buckets)
            for number, separator in enumerate(layout.separators)
        ],
        codes={column: arrays["code", column] for column in columns},
        texts={name: tuple(reader.texts) for name, reader in readers.items()},
    )


def _choose_kinds(layout: Layout, manifest: Manifest, published: pa.Schema, source: Source | None) -> Kinds:
    """Return the type in which each attribute is compared, in all its columns and in the source."""
    found: dict[str, list[pa.DataType]] = {}
    for part in layout.parts:
        for name, column in part.column_of.items():
            found.setdefault(name, []).append(published.field(column).type)
    original = {} if source is None else {name: source.schema.field(name).type for name in found}
    return {name: manifest.kind_of(name, *kinds, original.get(name, kinds[0])) for name, kinds in found.items()}


def _hash_shared(separator: Separator, layout: Layout, kinds: Kinds, manifest: Manifest) -> dict[str, Contents]:
    """Return what hashes the quasi values that two parts share, and what hashes all that they share."""
    quasi = [name for name in separator.names if name != layout.shared]
    return {"shared quasi": _hasher(quasi, kinds, manifest), "shared": _hasher(separator.names, kinds, manifest)}


def read_buckets(column: pa.Array, n_buckets: int) -> CodeArray:
    """Return (n_rows,) buckets from 0 on, or raise BucketError if they are not whole numbers from 1 to n.

    >>> read_buckets(pa.array(["1", "2", "2"]), 2).tolist()
    [0, 1, 1]
    """
    if column.null_count:
        raise BucketError("rows have no bucket")
    whole = pa.types.is_integer(column.type) and column.type != pa.uint64()
    values, places = (column, slice(None)) if whole else encode(column)
    try:
        countable = is_textual(values.type) or pa.types.is_integer(values.type)
        numbers = values.cast(pa.int64()) if countable else None
    except pa.ArrowInvalid:
        numbers = None
    if numbers is None or not (whole or values.cast(pa.string()).equals(numbers.cast(pa.string()))):
        raise BucketError("buckets are not plain whole numbers")
    found = np.asarray(numbers, dtype=np.int64)
    if found.min(initial=1) < 1 or found.max(initial=1) > n_buckets:
        raise BucketError(f"buckets are not numbers from 1 to {n_buckets}, as the manifest says")
    return (found - 1).astype(np.int32)[places]


def _count_buckets(buckets: CodeArray, n_buckets: int) -> IntArray:
    """Return (n_buckets,) the rows of each, or raise BucketError; without gaps they take no more memory than rows."""
    steps = np.diff(buckets, prepend=np.int32(-1))
    if ((steps < 0) | (steps > 1)).any():
        raise BucketError("buckets are not in ascending order, or their numbers have gaps")
    sizes = np.bincount(buckets)
    if len(sizes) != n_buckets or not n_buckets:
        raise BucketError(f"there are {len(sizes)} buckets, the manifest says {n_buckets}")
    return sizes


def _concatenate(batches: Sequence[Arrays]) -> Arrays:
    return {key: np.concatenate([batch[key] for batch in batches]) for key in (batches[0] if batches else ())}


def _number_parts(coders: Sequence[PartCoder], arrays: Arrays) -> tuple[list[CodeArray], list[KeyArray]]:
    """Return of each part (n_rows,) numbers of quasi values or regions, and hashes of contents."""
    values = []
    for place, coder in enumerate(coders):
        quasi = [array for key, array in arrays.items() if key[:2] == ("quasi", place)]
        values.append(arrays["region", place] if ("region", place) in arrays else coder.regions.ids(quasi))
    return values, [one.hash_contents(arrays["rest", place], values[place]) for place, one in enumerate(coders)]


def _share(
    values: Sequence[CodeArray], arrays: Arrays, number: int, hashers: Mapping[str, Contents], buckets: CodeArray
) -> SharedValues:
    """Number the quasi values that two parts share, and compare all that they share bucket by bucket."""
    interner, of_value, sums = Numbering(1), [], []
    numbers = [interner.ids([arrays["shared quasi", number, side]]) for side in (0, 1)]
    for side, own in enumerate(values):
        of_value.append(np.zeros(int(own.max()) + 1, dtype=np.int32))
        of_value[side][own] = numbers[side]
        sums.append(sum_boxes(hashers["shared"].key, buckets, arrays["shared", number, side], int(buckets[-1]) + 1))
    return SharedValues(numbers[0], of_value[0], of_value[1], (sums[0] != sums[1]).any(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Original(SlicedRows):
    """The rows of the source that a witness puts in buckets; without one all that lack no value, in bucket 0."""

    counts: SourceRows
    fault: str | None  # why the witness is not to be used


def read_source(
    release: Release,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source,
    witness: Witness | None,
    progress: Progress,
) -> Original:
    """Read the source once; a *witness* tells the published bucket of each row, 0 if it is in none."""
    complete, moved = manifest.complete, manifest.moved_complete
    missing = PointReader((), manifest.missing_tokens)
    trees: dict[int, tuple[PointReader, BoxTree]] = {}
    for place, coder in enumerate(release.coders):
        if coder.part.located:
            own = [covers[name] for name in coder.part.quasi]
            tree = BoxTree.of(Spans.of(own, coder.regions.tuples()))
            trees[place] = PointReader(own, manifest.missing_tokens), tree

    def prepare(batch: pa.RecordBatch) -> tuple[Arrays, IntArray]:
        stays, lacking = np.ones(batch.num_rows, dtype=np.bool_), np.zeros(len(moved), dtype=np.int64)
        if manifest.missing_policy == "drop":
            lacking[:] = [missing.any_missing(batch, [name]).sum() for name in moved]
            stays = ~missing.any_missing(batch, complete)
            batch = batch if stays.all() else batch.filter(pa.array(stays))
        found: Arrays = {("stays",): stays}
        for place, coder in enumerate(release.coders):
            found["rest", place] = coder.hash_rest(batch)
            if place in trees:
                points, tree = trees[place]
                found["region", place] = tree.find(points.points(batch))
            elif coder.part.boxed:
                found["region", place] = np.zeros(batch.num_rows, dtype=np.int32)  # it does not follow from the source
            else:
                found["quasi", place, 0] = coder.code(batch)[0]
        return found, lacking

    batches, lacking = [], np.zeros(len(moved), dtype=np.int64)
    with progress.step("comparing with the source", source.n_rows) as step:
        names = [attribute.name for attribute in manifest.attributes]
        for found, more in prepare_ahead(source.batches(names, dictionary=[*complete, *moved]), prepare):
            batches.append(found)
            lacking += more
            step.advance(len(found["stays",]))
    arrays = _concatenate(batches)
    stays = arrays.pop(("stays",), np.zeros(0, dtype=np.bool_))
    buckets, fault = np.zeros(int(stays.sum()), dtype=np.int32), None
    if witness is not None:
        buckets, fault = _read_witness(witness, stays, len(release.sizes))
    inside = slice(None) if (buckets >= 0).all() else np.flatnonzero(buckets >= 0)
    values, contents = _number_parts(release.coders, {key: array[inside] for key, array in arrays.items()})
    counts = count_source(len(stays), int((~stays).sum()), lacking)
    return Original(buckets[inside], values, contents, counts, fault)


def _read_witness(witness: Witness, stays: BoolArray, n_buckets: int) -> tuple[CodeArray, str | None]:
    """Return (n_stay,) the buckets from 0 on of source rows that are not dropped, -1 for none, and what is wrong."""
    found = witness.read(0, len(stays))
    if isinstance(found, str) or len(found) > 1 or found.min(initial=0) < 0 or found.max(initial=0) > n_buckets:
        why = found if isinstance(found, str) else "it names buckets that the release does not have"
        return np.full(int(stays.sum()), -1, dtype=np.int32), why
    buckets = found[0].astype(np.int32) - np.int32(1)
    fault = "it has more rows than the source" if witness.n_rows > len(stays) else None
    if stays.all():
        return buckets, fault
    if (buckets[~stays] >= 0).any():
        fault = "it puts rows in buckets that lack values and were dropped"
    return buckets[stays], fault

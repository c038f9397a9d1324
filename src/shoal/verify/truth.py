"""Truthfulness: every published row is a source row told less precisely, and no source row is told twice.

Published rows and source rows with equal exact content form a graph of two sides, an edge where the labels
cover the values; the release is true if and only if some matching uses every published row. A source row
that only one class covers can serve no other, so such rows are settled by counting; what is left over, where
classes overlap, is a largest-flow problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.boxes import SEVERAL, BoxTree
from shoal.verify.contents import Contents
from shoal.verify.counts import SourceRows, source_counts
from shoal.verify.covers import Covers
from shoal.verify.kernels import kernel, looked_up, paired
from shoal.verify.manifest import Manifest
from shoal.verify.matching import unserved
from shoal.verify.reading import coded
from shoal.verify.result import Check
from shoal.verify.spans import Spans
from shoal.verify.sums import BoxSums
from shoal.verify.tally import Combinations, Interner, Tally

if TYPE_CHECKING:
    from shoal.sources import Source
    from shoal.verify.counting import Counted


def contents_for(manifest: Manifest, published: pa.Schema, source: Source) -> Contents:
    """Return the hasher for the columns that must be equal in both tables."""
    absent = [a.name for a in manifest.attributes if a.name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    exact = [a.name for a in manifest.attributes if not a.boxed and manifest.traced(a)]
    kinds = [manifest.kind_of(name, published.field(name).type, source.schema.field(name).type) for name in exact]
    return Contents(exact, kinds, manifest.missing_tokens)


class PointReader:
    """Turns batches of a source or population into points of the space that labels cover."""

    def __init__(self, covers: Sequence[Covers], missing: Sequence[str]) -> None:
        self._covers = covers
        self._missing = pa.array(list(missing), type=pa.string())

    def points(self, batch: pa.RecordBatch) -> CodeArray:
        """Return (n_rows, n_attributes) codes."""
        out = np.empty((batch.num_rows, len(self._covers)), dtype=np.int32, order="F")
        for a, cover in enumerate(self._covers):
            values, places = coded(batch.column(cover.attribute.name))
            codes = np.append(cover.places(values), np.int32(cover.missing))
            codes[:-1][self._is_missing(values)] = cover.missing
            looked_up(codes, places, out[:, a])
        return out

    def _is_missing(self, values: pa.Array) -> BoolArray:
        if pa.types.is_floating(values.type):
            return np.isnan(np.asarray(values, dtype=np.float64))
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            return np.asarray(pc.is_in(values.cast(pa.string()), value_set=self._missing), dtype=np.bool_)
        return np.zeros(len(values), dtype=np.bool_)

    def any_missing(self, batch: pa.RecordBatch, columns: Sequence[str]) -> BoolArray:
        """Return (n_rows,) whether one of these columns has no value."""
        out = np.zeros(batch.num_rows, dtype=np.bool_)
        for name in columns:
            values, places = coded(batch.column(name))
            out |= np.append(self._is_missing(values), True)[places]
        return out


@kernel
def unmet_demand(wanted: KeyArray, demand: IntArray, held: KeyArray, supply: IntArray) -> IntArray:
    """Return (n_wanted,) the demand that supplies of the same key do not meet; both keys ascend."""
    out = demand.copy()
    j = 0
    for i in range(wanted.shape[0]):
        while j < held.shape[0] and held[j] < wanted[i]:
            j += 1
        if j < held.shape[0] and held[j] == wanted[i]:
            out[i] = max(0, demand[i] - supply[j])
    return out


class _Offers:
    """Source rows that several boxes may want, equal ones together."""

    def __init__(self, covers: Sequence[Covers], numbers: Interner) -> None:
        self._cells = Combinations([cover.width for cover in covers])
        self._numbers = numbers
        self._tally = Tally()

    def add(self, points: CodeArray, hashes: KeyArray) -> None:
        if hashes.shape[0]:
            cells = self._cells.ids(list(points.T))
            self._tally.add(paired(self._numbers.ids(hashes), cells))

    def result(self) -> tuple[KeyArray, IntArray, CodeArray]:
        """Return the distinct keys content << 32 | cell, ascending, how many rows each stands for, and the cells."""
        return *self._tally.result(), self._cells.tuples()


@dataclass(frozen=True, slots=True, eq=False)
class _Located:
    """A batch of the source: where each row that is not dropped lies, and what its content is."""

    rows: int
    dropped: int
    moved: IntArray  # (n_moved_complete,) rows that lack a value which changed rows
    points: CodeArray
    hashes: KeyArray
    box: CodeArray  # the only box that covers it


class _SourceReader:
    """Reads the source and finds the boxes that cover its rows, as often as needed."""

    def __init__(
        self, manifest: Manifest, covers: Sequence[Covers], contents: Contents, tree: BoxTree | None, source: Source
    ) -> None:
        self._points = PointReader(covers, manifest.missing_tokens)
        self._drop = manifest.missing_policy == "drop"
        self._complete, self._moved = manifest.complete, manifest.moved_complete
        self._columns = [attribute.name for attribute in manifest.attributes]
        self._contents = contents
        self._boxed = bool(covers)
        self._tree = tree
        self._source = source

    def batches(self, progress: Progress, step: str) -> Iterator[_Located]:
        with progress.step(step, self._source.n_rows) as bar:
            coded_columns = [*self._complete, *self._moved]
            for batch in prepared(self._source.batches(self._columns, dictionary=coded_columns), self._locate):
                yield batch
                bar.advance(batch.rows)

    def _locate(self, batch: pa.RecordBatch) -> _Located:
        rows, dropped = batch.num_rows, 0
        moved = np.zeros(len(self._moved), dtype=np.int64)
        if self._drop:
            moved[:] = [self._points.any_missing(batch, [name]).sum() for name in self._moved]
            gone = self._points.any_missing(batch, self._complete)
            dropped = int(gone.sum())
            if dropped:
                batch = batch.filter(pa.array(~gone))
        points = self._points.points(batch)
        if self._tree is None:
            box = np.full(len(points), SEVERAL if self._boxed else 0, dtype=np.int32)
        else:
            box = self._tree.find(points)
        return _Located(rows, dropped, moved, points, self._contents.hashes(batch), box)


def check_truth(
    manifest: Manifest,
    counted: Counted,
    covers: Sequence[Covers],
    contents: Contents,
    source: Source,
    progress: Progress,
) -> list[Check]:
    """Compare the release with its source; *contents* is the hasher that the release was read with.

    Where the source rows that only one box covers make the same sums as the published rows of that box, these
    rows serve each other. Only if other boxes are left both tables are read again to match their rows. Where
    boxes are crowded most would be left, so all rows are matched at once.
    """
    assert counted.sums is not None  # noqa: S101 - the caller counted with contents
    if not covers:
        return _without_labels(manifest, counted, contents, source, progress)
    spans = Spans.of(covers, counted.boxed_labels)
    tree = None if spans.crowded() else BoxTree.of(covers, spans)
    reader = _SourceReader(manifest, covers, contents, tree, source)
    numbers = Interner()
    sums, offers = BoxSums(contents.key), _Offers(covers, numbers)
    totals = _Totals(manifest)
    met = [np.zeros(cover.width, dtype=np.bool_) for cover in covers]
    for batch in reader.batches(progress, "comparing with the source"):
        totals.add(batch)
        if tree is None:
            offers.add(batch.points, batch.hashes)
        else:
            sums.add(batch.box, batch.hashes, tree.n_classes)
        for a, cover in enumerate(covers):
            if cover.attribute.role == "sensitive":
                met[a][batch.points[:, a]] = True
    unsettled = counted.sums.differs(sums)
    false_rows = 0
    if unsettled.any():
        # places: (n_boxes,) of unsettled boxes, small ones first; the others -1
        order = np.argsort(spans.sizes(), kind="stable")
        order = order[unsettled[order]]
        places = np.full(unsettled.shape[0], -1, dtype=np.int32)
        places[order] = np.arange(order.shape[0], dtype=np.int32)
        wanted, demand = counted.contents_of(places, numbers)
        if tree is not None:
            demand = _left_over(
                wanted, demand, places, reader.batches(progress, "matching with the source"), numbers, offers
            )
        false_rows = unserved(spans.taken(order), wanted, demand, *offers.result())
    return [
        source_counts(manifest, counted.rows, totals.result()),
        *occurring(covers, met),
        _truth(false_rows, manifest),
    ]


def _without_labels(
    manifest: Manifest, counted: Counted, contents: Contents, source: Source, progress: Progress
) -> list[Check]:
    """Compare rows without labels: every published content must be the source's, no more often than there."""
    assert counted.sums is not None  # noqa: S101 - the caller counted with contents
    reader = _SourceReader(manifest, (), contents, None, source)
    sums, totals = BoxSums(contents.key), _Totals(manifest)
    for batch in reader.batches(progress, "comparing with the source"):
        totals.add(batch)
        sums.add(batch.box, batch.hashes, 1)
    false_rows = 0
    if counted.sums.differs(sums).any():
        numbers, held = Interner(), Tally()
        places = np.zeros(1, dtype=np.int32)
        wanted, demand = counted.contents_of(places, numbers)
        for batch in reader.batches(progress, "matching with the source"):
            held.add(paired(numbers.ids(batch.hashes), batch.box))
        false_rows = int(unmet_demand(wanted, demand, *held.result()).sum())
    return [source_counts(manifest, counted.rows, totals.result()), _truth(false_rows, manifest)]


class _Totals:
    """Counts the source's rows, and those that lack a value."""

    def __init__(self, manifest: Manifest) -> None:
        self._rows = self._dropped = 0
        self._moved = np.zeros(len(manifest.moved_complete), dtype=np.int64)

    def add(self, batch: _Located) -> None:
        self._rows += batch.rows
        self._dropped += batch.dropped
        self._moved += batch.moved

    def result(self) -> SourceRows:
        return source_rows(self._rows, self._dropped, self._moved)


def source_rows(rows: int, dropped: int, moved: IntArray) -> SourceRows:
    """Return the rows of a source in which *dropped* lack a value, and *moved* tells of values that changed rows."""
    return SourceRows(rows, dropped, int(moved.sum()), int(moved.max(initial=0)))


def _left_over(
    wanted: KeyArray,
    demand: IntArray,
    places: CodeArray,
    batches: Iterator[_Located],
    numbers: Interner,
    offers: _Offers,
) -> IntArray:
    """Return (n_wanted,) the demand that rows in one box only do not meet; rows in several are offered."""
    single = Tally()
    for batch in batches:
        several = batch.box == SEVERAL
        offers.add(batch.points[several], batch.hashes[several])
        place = np.append(places, np.int32(-1))[np.maximum(batch.box, -1)]
        alone = place >= 0
        single.add(paired(numbers.ids(batch.hashes[alone]), place[alone]))
    return unmet_demand(wanted, demand, *single.result())


def occurring(covers: Sequence[Covers], met: Sequence[BoolArray]) -> Iterator[Check]:
    """A record spreads over the values under its label; one that nobody has would make it look more diverse."""
    for cover, found in zip(covers, met, strict=True):
        if cover.attribute.role == "sensitive":
            name, absent = cover.attribute.name, cover.unmet(found)
            detail = f"labels of {name} cover {absent} values that no source row has"
            yield Check("values", not absent, detail if absent else f"all values that labels of {name} cover occur")


def _truth(false_rows: int, manifest: Manifest) -> Check:
    traced = sum(manifest.traced(attribute) for attribute in manifest.attributes)
    by = "" if traced == len(manifest.attributes) else f", by the {traced} columns that follow from the source"
    if false_rows:
        return Check("truth", False, f"{false_rows} published rows cover no source row of their own{by}")
    if not traced:
        return Check("truth", True, "no column follows from the source, so no row can be told from another")
    return Check("truth", True, f"every published row covers a source row of its own{by}")

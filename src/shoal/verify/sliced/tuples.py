"""Reading the source of a sliced release: the tuples that an adversary may ask for, and what the parts should hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.progress import Progress
from shoal.verify.boxes import BoxTree, Spans
from shoal.verify.coding import PointReader
from shoal.verify.covers import Covers
from shoal.verify.form import SourceRows, count_source
from shoal.verify.hashing import BoxSums
from shoal.verify.manifest import Manifest
from shoal.verify.reading import prepare_ahead
from shoal.verify.sliced.linking import NeighbourSums, PreparedPart
from shoal.verify.sliced.reading import SlicedRows
from shoal.verify.tally import Combinations
from shoal.verify.truth import Witness

if TYPE_CHECKING:
    from shoal.sources.base import Source


@dataclass(frozen=True, slots=True, eq=False)
class SourceTuples:
    """What the source rows say that are, or may be, published."""

    rows: SourceRows
    tuples: CodeArray  # (n_tuples, n_known_parts) distinct values of parts with quasi attributes; none if blurred
    records: IntArray  # (n_tuples,)
    homeless: int  # rows in no region of some part, or not in just one
    sums: tuple[BoxSums, ...]  # of each part by bucket, if a witness tells the buckets, else all in one box
    contents: CodeArray | None  # (n_kinds, n_parts) distinct contents, without a witness
    content_records: IntArray | None  # (n_kinds,)
    witness_fault: str | None
    linking: NeighbourSums | None  # with a witness


@dataclass(frozen=True, slots=True, eq=False)
class _Located:
    rows: int
    gone: BoolArray | None
    moved: IntArray  # (n_moved_complete,) rows that lack a value which changed rows
    parts: list[PreparedPart]


class _Locator:
    """Finds, for batches of the source, which rows are dropped and in which regions the others lie."""

    def __init__(self, released: SlicedRows, manifest: Manifest, covers: Mapping[str, Covers]) -> None:
        self._readers = released.readers
        self._complete, self._moved = manifest.complete, manifest.moved_complete
        self._drop = manifest.missing_policy == "drop"
        self._missing = PointReader((), manifest.missing_tokens)
        self._trees: list[tuple[PointReader, BoxTree] | None] = []
        for reader in released.readers:
            if not reader.layout.boxed or reader.layout.blurred:
                self._trees.append(None)
                continue
            own = [covers[name] for name in reader.layout.quasi]
            tree = BoxTree.of(Spans.of(own, reader.regions.tuples()))
            self._trees.append((PointReader(own, manifest.missing_tokens), tree))

    @property
    def coded(self) -> list[str]:
        """The columns that are best read as dictionaries."""
        return [*self._complete, *self._moved]

    def locate(self, batch: pa.RecordBatch) -> _Located:
        rows, gone = batch.num_rows, None
        moved = np.zeros(len(self._moved), dtype=np.int64)
        if self._drop:
            moved[:] = [self._missing.any_missing(batch, [name]).sum() for name in self._moved]
            gone = self._missing.any_missing(batch, self._complete)
            if gone.any():
                batch = batch.filter(pa.array(~gone))
        regions = [None if place is None else place[1].find(place[0].points(batch)) for place in self._trees]
        parts = [reader.original(batch, place) for reader, place in zip(self._readers, regions, strict=True)]
        return _Located(rows, gone, moved, parts)


class _Counter:
    """Numbers distinct tuples of codes and counts them; codes from a radix on are told apart no further."""

    def __init__(self, radices: Sequence[int]) -> None:
        self._radices = list(radices)
        self._numbers = Combinations([radix + 1 for radix in radices])
        self._records: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, columns: Sequence[CodeArray], n_rows: int) -> None:
        known = [
            np.where((column >= 0) & (column < radix), column, radix)
            for column, radix in zip(columns, self._radices, strict=True)
        ]
        counts = np.bincount(self._numbers.ids(known, n_rows), minlength=self._numbers.count)
        counts[: len(self._records)] += self._records
        self._records = counts

    def result(self) -> tuple[CodeArray, IntArray]:
        return self._numbers.tuples(), self._records


def read_source(
    released: SlicedRows,
    manifest: Manifest,
    covers: Mapping[str, Covers],
    source: Source,
    witness: Witness | None,
    progress: Progress,
) -> SourceTuples:
    """Read the source once; a *witness* tells the published bucket of each row, 0 if it is in none."""
    locator = _Locator(released, manifest, covers)
    readers, known = released.readers, released.layout.known
    n_values = [readers[place].n_values for place in known]
    tuples = _Counter(n_values)
    numbers = released.content_numbers
    kinds = None if witness is not None else _Counter([one.count for one in numbers])
    sums = tuple(BoxSums(reader.key) for reader in readers)
    linking = None if witness is None else NeighbourSums(readers[0].key, len(readers))
    n_source = n_dropped = homeless = 0
    moved = np.zeros(len(manifest.moved_complete), dtype=np.int64)
    located = [place for place in known if readers[place].layout.boxed and not readers[place].layout.blurred]
    fault: str | None = None
    n_buckets = len(released.sizes)
    columns = [attribute.name for attribute in manifest.attributes]
    with progress.step("comparing with the source", source.n_rows) as step:
        for batch in prepare_ahead(source.batches(columns, dictionary=locator.coded), locator.locate):
            stays = np.ones(batch.rows, dtype=np.bool_) if batch.gone is None else ~batch.gone
            n_kept = int(stays.sum())
            n_dropped += batch.rows - n_kept
            moved += batch.moved
            box = np.zeros(n_kept, dtype=np.int32)
            if witness is not None:
                noted = witness.read(n_source, batch.rows)
                own = np.zeros(batch.rows, dtype=np.int64)
                if isinstance(noted, str):
                    fault = noted
                elif len(noted) > 1 or ((noted < 0) | (noted > n_buckets)).any():
                    fault = "it names buckets that the release does not have"
                else:
                    own = noted[0]
                if own[~stays].any():
                    fault = "it puts rows in buckets that lack values and were dropped"
                box = (own[stays] - 1).astype(np.int32)
            n_source += batch.rows
            told = np.flatnonzero(box >= 0)
            values = [reader.values(part, n_kept) for reader, part in zip(readers, batch.parts, strict=True)]
            if not released.layout.blurred:
                tuples.add([values[place][told] for place in known], len(told))
            if located:
                homeless += int(np.logical_or.reduce([values[place][told] < 0 for place in located]).sum())
            hashes = [
                reader.contents(part, codes) for reader, part, codes in zip(readers, batch.parts, values, strict=True)
            ]
            for one, keys in zip(sums, hashes, strict=True):
                one.add(box, keys, n_buckets if witness is not None else 1)
            if linking is not None:
                linking.add(hashes, box, n_buckets)
            if kinds is not None:
                kinds.add([one.ids(keys) for one, keys in zip(numbers, hashes, strict=True)], n_kept)
            step.advance(batch.rows)
    if witness is not None and witness.n_rows > n_source:
        fault = "it has more rows than the source"
    found, records = tuples.result()
    contents, content_records = (None, None) if kinds is None else kinds.result()
    return SourceTuples(
        rows=count_source(n_source, n_dropped, moved),
        tuples=found,
        records=records,
        homeless=homeless,
        sums=sums,
        contents=contents,
        content_records=content_records,
        witness_fault=fault,
        linking=linking,
    )

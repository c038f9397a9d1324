"""Truthfulness: every published row is a source row told less precisely, and no source row is told twice.

Published rows and source rows with equal exact content form a graph of two sides, an edge where the labels
cover the values; the release is true if and only if some matching uses every published row. A source row
that only one class covers can serve no other, so such rows are settled by counting; what is left over, where
classes overlap, is a largest-flow problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.boxes import SEVERAL, BoxTree
from shoal.verify.contents import Contents, common_type
from shoal.verify.covers import Covers
from shoal.verify.flow import largest_flow
from shoal.verify.kernels import kernel
from shoal.verify.manifest import Manifest
from shoal.verify.reading import coded
from shoal.verify.result import Check
from shoal.verify.tally import Tally

if TYPE_CHECKING:
    from shoal.sources import Source
    from shoal.verify.counting import Counted


def contents_for(manifest: Manifest, published: pa.Schema, source: Source) -> Contents:
    """Return the hasher for the columns that must be equal in both tables."""
    absent = [a.name for a in manifest.attributes if a.name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    exact = [attribute.name for attribute in manifest.attributes if not attribute.boxed]
    kinds = [common_type(published.field(name).type, source.schema.field(name).type) for name in exact]
    return Contents(exact, kinds, manifest.missing_tokens)


class PointReader:
    """Turns batches of a source or population into points of the space that labels cover."""

    def __init__(self, covers: Sequence[Covers], missing: Sequence[str]) -> None:
        self._covers = covers
        self._missing = pa.array(list(missing), type=pa.string())

    def points(self, batch: pa.RecordBatch) -> CodeArray:
        """Return (n_rows, n_attributes) codes."""
        out = np.empty((batch.num_rows, len(self._covers)), dtype=np.int32)
        for a, cover in enumerate(self._covers):
            values, places = coded(batch.column(cover.attribute.name))
            codes = np.append(cover.places(values), np.int32(cover.missing))
            codes[:-1][self._is_missing(values)] = cover.missing
            out[:, a] = codes[places]
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
def _unmet(wanted: KeyArray, demand: IntArray, held: KeyArray, supply: IntArray) -> IntArray:
    """Return (n_wanted,) the demand that supplies of the same key do not meet; both keys ascend."""
    out = demand.copy()
    j = 0
    for i in range(wanted.shape[0]):
        while j < held.shape[0] and held[j] < wanted[i]:
            j += 1
        if j < held.shape[0] and held[j] == wanted[i]:
            out[i] = max(0, demand[i] - supply[j])
    return out


class _Undecided:
    """Source rows that several classes cover, equal ones together."""

    def __init__(self) -> None:
        self._points: list[CodeArray] = []
        self._contents: list[KeyArray] = []

    def add(self, points: CodeArray, contents: KeyArray) -> None:
        if contents.shape[0]:
            self._points.append(points)
            self._contents.append(contents)

    def groups(self) -> tuple[CodeArray, KeyArray, IntArray]:
        """Return distinct points and contents, and how many rows each stands for."""
        points, contents = np.concatenate(self._points), np.concatenate(self._contents)
        self._points, self._contents = [], []
        order = np.lexsort((*points.T, contents))
        points, contents = points[order], contents[order]
        fresh = np.ones(contents.shape[0], dtype=np.bool_)
        fresh[1:] = (contents[1:] != contents[:-1]) | (points[1:] != points[:-1]).any(axis=1)
        first = np.flatnonzero(fresh)
        return points[first], contents[first], np.diff(np.append(first, contents.shape[0]))

    def __bool__(self) -> bool:
        return bool(self._contents)


def check_truth(
    manifest: Manifest,
    counted: Counted,
    covers: Sequence[Covers],
    contents: Contents,
    source: Source,
    progress: Progress,
) -> list[Check]:
    """Compare the release with its source; *contents* is the hasher that the release was read with."""
    assert counted.contents is not None  # noqa: S101 - the caller counted with contents
    wanted, demand = counted.contents
    tree = BoxTree.of(covers, counted.boxed_labels)
    reader = PointReader(covers, manifest.missing_tokens)
    complete = [a.name for a in manifest.attributes if a.role != "insensitive"]
    columns = [attribute.name for attribute in manifest.attributes]
    n_source = n_dropped = 0
    single, undecided = Tally(), _Undecided()
    with progress.step("comparing with the source", source.n_rows) as step:
        for batch in source.batches(columns, dictionary=complete):
            n_source += batch.num_rows
            step.advance(batch.num_rows)
            if manifest.missing_policy == "drop":
                gone = reader.any_missing(batch, complete)
                n_dropped += int(gone.sum())
                if gone.any():
                    batch = batch.filter(pa.array(~gone))
            points = reader.points(batch)
            hashes = contents.hashes(batch)
            found = tree.find(points)
            several = found == SEVERAL
            if several.any():
                undecided.add(points[several], hashes[several])
            if (found < 0).any():
                hashes, found = hashes[found >= 0], found[found >= 0]
            single.add(contents.with_box(hashes, found))
    unmet = _unmet(wanted, demand, *single.result())
    false_rows = int(unmet.sum())
    if false_rows and undecided:
        points, hashes, supply = undecided.groups()
        start, target = tree.edges(points, hashes, contents.key, wanted, unmet)
        false_rows -= largest_flow(start, target, supply, unmet)
    return [_counts(manifest, counted.rows, n_source, n_dropped), _truth(false_rows)]


def _counts(manifest: Manifest, published: int, n_source: int, n_dropped: int) -> Check:
    if n_dropped != manifest.dropped:
        detail = f"{n_dropped} source rows have values missing, the manifest says {manifest.dropped}"
        return Check("source counts", False, detail)
    told = published + manifest.withheld + manifest.dropped
    detail = f"{published} published + {manifest.withheld} withheld + {manifest.dropped} dropped"
    verb = "is" if told == n_source else "is not"
    return Check("source counts", told == n_source, f"{detail} {verb} the source's {n_source} rows")


def _truth(false_rows: int) -> Check:
    if false_rows:
        return Check("truth", False, f"{false_rows} published rows cover no source row of their own")
    return Check("truth", True, "every published row covers a source row of its own")

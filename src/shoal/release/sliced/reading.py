"""Sliced releases as whoever receives them reads and asks them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.errors import InputError, UsageError
from shoal.release.release import Release, received
from shoal.release.sliced.estimating import estimated
from shoal.release.sliced.query import Estimate, Query
from shoal.release.sliced.sampling import sampled
from shoal.release.sliced.table import (
    BUCKET,
    SlicedPart,
    SlicedTable,
    column_codes,
    numbered,
    published_columns,
    sliced_parts,
)
from shoal.sources.frames import as_table
from shoal.sources.opening import open_source
from shoal.sources.options import SourceOptions
from shoal.taxonomies.parse import texts

MISSING = "missing"


@dataclass(frozen=True, slots=True, eq=False)
class SlicedData:
    """A sliced release, read once for many questions."""

    table: SlicedTable
    manifest: Mapping[str, Any]

    def estimate(self, query: Query) -> Estimate | pa.Table:
        """Answer a query with its expected error; see ``shoal.Query``."""
        return estimated(self.table, self.manifest["attributes"], query)

    def sample_table(self, rng: np.random.Generator | int | None = None) -> pa.Table:
        """Link the parts at random within their buckets: one of the tables that the original may be."""
        return sampled(self.table, np.random.default_rng(rng))

    def multisets(self) -> pa.Table:
        """Return the rows with each quasi attribute's values as the multiset of its bucket."""
        roles = {name: entry["role"] for name, entry in self.manifest["attributes"].items()}
        return multisets(self.table, {name for name, role in roles.items() if role != "quasi"})


def read_sliced(release: Release | str | Path) -> SlicedData:
    """Read a sliced release for questions, given the release or the folder that one received.

    What the folder promises is not looked into: ``shoal verify`` does that.
    """
    if not isinstance(release, str | Path):
        return SlicedData(sliced_table(release), release.manifest)
    folder = Path(release)
    found = received(folder)
    if found is None:
        raise InputError(f"{folder} has no manifest.json, nor has its folder public; give the folder of a release")
    place, manifest = found
    sliced_parts(manifest)
    file = Path(str(manifest["data"]["file"])).name
    return SlicedData(SlicedTable.of(read_published(place / file, manifest), manifest), manifest)


def sliced_table(release: Release) -> SlicedTable:
    """Return the slices of a release; one that is not sliced is refused."""
    sliced_parts(release.manifest)
    return SlicedTable.of(_rows(release), release.manifest)


def _rows(release: Release) -> pa.Table:
    found = as_table(release.data)
    if found is not None:
        return found[0]
    if release.data_file is None:
        raise UsageError("this release has neither data nor a folder; keep what `shoal.anonymize` gave back")
    return read_published(release.data_file, release.manifest)


def read_published(path: Path, manifest: Mapping[str, Any]) -> pa.Table:
    """Return the rows of a published file; numbers of a CSV file that are published as they are become numbers."""
    source = open_source(path, SourceOptions(delimiter=","))
    rows = pa.Table.from_batches(list(source.batches()))
    if path.suffix != ".csv":
        return rows
    parts = [list(part) for part in manifest["parts"]]
    attribute_of = {
        column: name
        for names, columns in zip(parts, published_columns(parts), strict=True)
        for name, column in zip(names, columns, strict=True)
    }
    for place, column in enumerate(rows.column_names):
        entry = manifest["attributes"].get(attribute_of.get(column, ""), {})
        if entry.get("kind") == "number" and "labels" not in entry:
            rows = rows.set_column(place, column, _numbers(rows.column(column)))
    return rows


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whole numbers if all are whole, else decimals; text that is neither stays what it is."""
    for kind in (pa.int64(), pa.float64()):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    return column


def multisets(table: SlicedTable, kept: Collection[str]) -> pa.Table:
    """Return the table in which all attributes but the *kept* ones are multisets: Table 1(d) of the slicing paper.

    A multiset reads ``22:2,33:1``: values in ascending order, each with its number of records. Apart from what one
    part tells of several attributes, the multisets tell as much as the slices.

    >>> rows = pa.table({"bucket": [1, 1, 1], "age": [33, 22, 22], "illness": ["flu", "gout", None]})
    >>> sliced = SlicedTable.of(rows, {"parts": [["age"], ["illness"]]})
    >>> multisets(sliced, kept={"illness"}).to_pydict()
    {'bucket': [1, 1, 1], 'age': ['22:2,33:1', '22:2,33:1', '22:2,33:1'], 'illness': ['flu', 'gout', None]}
    """
    columns: dict[str, object] = {BUCKET: pa.array(table.bucket + np.int32(1))}
    for part in table.parts:
        for name in part.names:
            if name not in columns:
                codes = pa.array(part.codes)
                columns[name] = part.distinct.column(name).take(codes) if name in kept else _texts(table, part, name)
    return pa.table(columns)


def _texts(table: SlicedTable, part: SlicedPart, name: str) -> pa.Array:
    """Return (n_rows,) the multiset of one attribute in each row's bucket."""
    column = part.distinct.column(name).combine_chunks()
    codes = column_codes(pa.chunked_array([column]))
    values = column.take(pa.array(numbered([codes], len(codes))[1]))  # each distinct value at its code
    rank = np.empty(len(values), dtype=np.int32)
    rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values), dtype=np.int32)
    pairs, first = numbered([table.bucket, rank[codes][part.codes]], table.n_rows)
    written = texts(values).fill_null(MISSING).take(pa.array(codes[part.codes[first]]))
    entries = pc.binary_join_element_wise(written, pa.array(np.bincount(pairs)).cast(pa.string()), ":")
    edges = np.searchsorted(table.bucket[first], np.arange(table.n_buckets + 1)).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), entries), ",")
    return joined.take(pa.array(table.bucket))

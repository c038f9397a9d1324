"""Sliced releases as whoever receives them reads and asks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.errors import InputError, UsageError
from shoal.release import Release, received
from shoal.sliced.estimating import estimated
from shoal.sliced.multisets import multisets
from shoal.sliced.query import Estimate, Query
from shoal.sliced.sampling import sampled
from shoal.sliced.table import SlicedTable, published_columns, sliced_parts
from shoal.sources import SourceOptions, open_source
from shoal.sources.frames import as_table


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

"""Published rows onto the disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

from shoal.core.arrays import AnyIntArray
from shoal.release.publishing.columns import without_dictionary
from shoal.sources.writers import Format, open_writer


def write_rows(path: Path, batches: Iterator[pa.RecordBatch], format: Format) -> None:  # noqa: A002
    """Write a file batch by batch: each is made while the one before is written."""
    first = next(batches)
    with open_writer(path, first.schema, format) as writer, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.write, first)
        for batch in batches:
            writing.result()
            writing = pool.submit(writer.write, batch)
        writing.result()


def write_places(path: Path, places: AnyIntArray, name: str) -> None:
    """Write the bucket or class of every row of the source: the witness for the verifier, which stays internal."""
    batch = pa.RecordBatch.from_arrays([pa.array(places)], names=[name])
    with open_writer(path, batch.schema, "parquet") as writer:
        writer.write(batch)


def plain_table(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Return all rows in one table, without dictionaries, so that no entry survives that no row uses."""
    return pa.Table.from_batches([_plain(batch) for batch in batches])


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(without_dictionary, batch.columns)), names=batch.schema.names)

"""How many bytes travel for a row, a cell and a class: the real messages of one table, weighed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.measuring import timed_once

ROWS = 300_000
PIECE_ROWS = 1 << 18
PIECES = 8  # that the driver merges at the end
_WORD = 8  # bytes of a key, of a hash and of packed codes


def weighed(folder: Path, rows: int = ROWS) -> dict[str, float]:
    """Return bytes of each message of stays for each row, cell or class that it has, and seconds of the one writer."""
    from shoal import anonymize
    from shoal.core.progress import Silent
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays
    from shoal.engines.local import LocalEngine
    from shoal.policy.policy import Policy
    from shoal.sources.opening import open_source

    path, out = folder / "weighed.parquet", folder / "weighed"
    write_stays(path, rows, seed=3)
    policy = Policy.load(hospital_policy())
    columns = (*policy.names("sensitive"), *policy.names("quasi"))
    source = open_source(path, policy.source)
    counted = LocalEngine().count(source, columns, Silent())
    release = anonymize(path, policy, out=out, seed=1)
    published = pq.read_table(out / "public" / "data.parquet")
    n_cells, n_classes = len(counted.run.counts), release.evidence["risk_after"]["classes"]
    found = {
        "source file, per row": path.stat().st_size / rows,
        "cells of a partition, per cell": sum(_cell_messages(counted)) / n_cells,
        "cells in memory, per cell": (counted.run.keys.nbytes + counted.run.counts.nbytes) / n_cells,
        "class of a cell, per cell": np.dtype(np.int32).itemsize,
        "labels of classes, per class": _labels(published, policy.names("quasi"), n_classes),
        "row on its way to a region, per row": _routed(source, counted, policy.names("insensitive")),
        "published row and its key, per row": sum(_row_messages(published)) / rows + _WORD,
        "class number in the witness, per row": float(_WORD),
        "released file, per row": (out / "public" / "data.parquet").stat().st_size / rows,
        **_driven(counted, columns),
        "digest of the source, seconds per row": timed_once(source.digest) / rows,
        "writing the one file, seconds per row": _writing(published, folder) / rows,
    }
    path.unlink()
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def _driven(counted: Any, columns: tuple[str, ...]) -> dict[str, float]:
    """Return what the driver takes for the cells that reach it, and for the values that a partition has."""
    from shoal.engines.spark.engine import Merger, cell_batches

    batches, merger = list(cell_batches(counted)), Merger(columns)
    values = batches[0].slice(0, 1)  # dictionaries stay whole

    def merged() -> None:
        for batch in batches * PIECES:
            merger.add_batch(batch)
        merger.total()

    seconds = timed_once(merged)
    again = min(timed_once(partial(merger.add_batch, values)) for _ in range(5))
    return {
        "values of a partition, per partition": _weight(values),
        "merging the last pieces, seconds per cell": seconds / (PIECES * len(counted.run.counts)),
        "merging a partition's values, seconds per partition": again,
    }


def _cell_messages(counted: Any) -> Iterator[int]:
    from shoal.engines.spark.engine import cell_batches

    yield from map(_weight, cell_batches(counted))


def _row_messages(published: pa.Table) -> Iterator[int]:
    """Yield the weights of pieces of rows, which travel without dictionaries."""
    yield from map(_weight, published.combine_chunks().to_batches(max_chunksize=PIECE_ROWS))


def _weight(batch: pa.RecordBatch) -> int:
    """Return the bytes of a batch as a message that is compressed as Spark does what it shuffles."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    return int(sink.getvalue().size)


def _labels(published: pa.Table, quasi: tuple[str, ...], n_classes: int) -> float:
    """Return the bytes of what a class publishes, in a table of all classes."""
    classes = published.select(list(quasi)).group_by(list(quasi)).aggregate([])
    assert classes.num_rows == n_classes
    return float(classes.combine_chunks().nbytes / n_classes)


def _routed(source: Any, counted: Any, carried: tuple[str, ...]) -> float:
    """Return the bytes of a row's key and carried columns, as they wait for their region."""
    columns = sum(batch.nbytes for batch in source.batches(list(carried))) / counted.n_rows
    return float(counted.layout.n_words * _WORD + columns)


def _writing(published: pa.Table, folder: Path) -> float:
    from shoal.release.rows import write_rows

    path, seconds = folder / "written.parquet", []
    for _ in range(3):
        batches = iter(published.combine_chunks().to_batches(max_chunksize=1 << 20))
        seconds.append(timed_once(partial(write_rows, path, batches, "parquet")))
        path.unlink()
    return min(seconds)

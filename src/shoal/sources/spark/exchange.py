"""Rows sent from every partition to the tasks that they are for, packed, so that Spark moves few and large pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.sources.spark.shipping import on_partitions, packed_message, unpacked_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUTED = "partition int, place int, destination int, entries bigint, message binary"
_ROUTED = pa.schema(
    [
        ("partition", pa.int32()),
        ("place", pa.int32()),
        ("destination", pa.int32()),
        ("entries", pa.int64()),
        ("message", pa.binary()),
    ]
)

# Work on one partition, given its number and its batches: destinations, and what each is sent.
Router = Callable[[int, Iterator[pa.RecordBatch]], Iterator[tuple[int, pa.RecordBatch]]]


def routed(frame: DataFrame, router: Router) -> DataFrame:
    """Return what *router* makes of each partition as pieces: from which partition, its how manieth, and where to."""

    def packed(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place, (destination, batch) in enumerate(router(number, batches)):
            message = packed_message(batch, compressed=False)  # Spark's shuffle does
            values = (number, place, destination, batch.num_rows, message)
            arrays = [pa.array([value], field.type) for value, field in zip(values, _ROUTED, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_ROUTED)

    return on_partitions(frame, packed, ROUTED)


def exchanged(pieces: DataFrame, n_destinations: int) -> DataFrame:
    """Return the same pieces in *n_destinations* partitions: those for destination d are the partition d.

    Pieces arrive in any order; :func:`received` puts them into the order of where they come from.
    """
    return pieces.repartitionById(n_destinations, "destination")


def received(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, pa.RecordBatch]]:
    """Return the pieces that came to a task, each with the partition it is from, in an order that never changes."""
    pieces = [
        (partition, place, message.as_buffer())
        for batch in batches
        for partition, place, message in zip(
            batch.column("partition").to_pylist(),
            batch.column("place").to_pylist(),
            batch.column("message"),
            strict=True,
        )
    ]
    return [
        (partition, unpacked_message(message))
        for partition, _, message in sorted(pieces, key=lambda piece: (piece[0], piece[1]))
    ]

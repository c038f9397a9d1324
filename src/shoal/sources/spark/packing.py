"""Rows of a DataFrame as they are kept: packed once, so that no pass turns rows into columns again."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.sources.spark.shipping import PartitionForm, PartitionSource, gathered, packed_message, unpacked_message

PACKED = "partition int, entries bigint, message binary, sums binary"
_PACKED = pa.schema(
    [("partition", pa.int32()), ("entries", pa.int64()), ("message", pa.binary()), ("sums", pa.binary())]
)
_HASH_BYTES = 32  # of SHA-256


@dataclass(frozen=True, slots=True, eq=False)
class PackPartition:
    """Packs the rows of a partition, whose last column is a hash of each row, and adds up the hashes."""

    form: PartitionForm

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield pieces, and beside each the sums of its hashes."""
        for batch in gathered(batch for batch in batches if batch.num_rows):
            *columns, hashes = batch.columns
            rows = self.form.typed(columns)
            message = packed_message(
                pa.RecordBatch.from_arrays([_compact(column) for column in rows.columns], names=rows.schema.names)
            )
            values = (number, batch.num_rows, message, _sums(hashes).tobytes())
            arrays = [pa.array([value], field.type) for value, field in zip(values, _PACKED, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_PACKED)


@dataclass(frozen=True, slots=True, eq=False)
class PackedForm:
    """How workers read some columns of what is packed; only these are taken out."""

    name: str
    schema: pa.Schema
    missing: tuple[str, ...]
    places: tuple[int, ...]  # of the columns among those that are packed

    def opened(self, number: int, batches: Iterator[pa.RecordBatch]) -> PartitionSource | None:  # noqa: ARG002
        """Return the rows of one partition as a source; None if there are none."""
        messages = (message.as_buffer() for batch in batches for message in batch.column("message"))
        first = next(messages, None)
        if first is None:
            return None
        rows = (unpacked_message(message, self.places) for message in itertools.chain([first], messages))
        return PartitionSource(self.name, self.schema, None, self.missing, rows)


def digest_of(names: Sequence[str], n_rows: int, sums: Sequence[bytes]) -> str:
    """Return the SHA-256 of what the hashes of all rows add up to, which no order and no partitioning changes."""
    totals = [sum(column) for column in zip(*(np.frombuffer(one, np.uint64).tolist() for one in sums), strict=True)]
    return hashlib.sha256("\n".join([*names, *map(str, [n_rows, *totals])]).encode()).hexdigest()


def _sums(hashes: pa.Array) -> KeyArray:
    """Return (8,) the sums of the words of 32 bits that hashes are made of; far fewer than 2**32 rows are added up."""
    fixed = hashes.cast(pa.binary(_HASH_BYTES))
    words = np.frombuffer(fixed.buffers()[1], dtype=">u4").reshape(-1, 8)
    return np.asarray(words[fixed.offset : fixed.offset + len(fixed)].sum(axis=0, dtype=np.uint64))


def _compact(column: pa.Array) -> pa.Array:
    """Return texts by their dictionary, if that is short."""
    if not pa.types.is_string(column.type):
        return column
    coded = column.dictionary_encode()
    return coded if 2 * len(coded.dictionary) <= len(column) else column

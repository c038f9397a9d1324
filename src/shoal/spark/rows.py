"""A release that Spark keeps, as the verifier reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.sources.spark.session import told
from shoal.sources.spark.shipping import (
    PartitionForm,
    ShipPartition,
    arrow_schema,
    by_places,
    pieces_of,
    streamed,
)
from shoal.verify.reading import PublishedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkRows(PublishedRows):
    """The rows of a DataFrame, a partition at a time."""

    def __init__(self, frame: DataFrame) -> None:
        with told("the release"):
            self.schema = arrow_schema(frame)
        self.columns = tuple(self.schema.names)
        self._frame = frame

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield these columns; texts come as dictionaries, a new one for every batch."""
        places = [self.schema.get_field_index(name) for name in columns]
        wanted = by_places(by_places(self._frame).select(*(str(place) for place in places)))
        form = PartitionForm("the release", pa.schema([self.schema.field(place) for place in places]), ())
        with told("the release"):
            for _, batch in streamed(pieces_of(wanted, ShipPartition(form))):
                yield batch

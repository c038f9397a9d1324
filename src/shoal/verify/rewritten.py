"""Sources some columns of which were made of others, by what the manifest says."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from shoal.sources import Source


@dataclass(frozen=True, slots=True, eq=False)
class RewrittenRows(ABC):
    """A source of which some columns are computed anew; it reads like the source itself."""

    source: Source

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source.name

    @property
    def n_rows(self) -> int | None:
        """The number of rows, if known."""
        return self.source.n_rows

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns after that."""

    def digest(self) -> str:
        """Return the digest of the source."""
        return self.source.digest()

    def batches(
        self, columns: Sequence[str] | None = None, *, dictionary: Collection[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """Read the rows, columns in the order asked; text columns named in *dictionary* come coded."""
        return self._read(list(self.schema.names if columns is None else columns), dictionary)

    @abstractmethod
    def _read(self, wanted: list[str], dictionary: Collection[str]) -> Iterator[pa.RecordBatch]:
        """Read these columns."""

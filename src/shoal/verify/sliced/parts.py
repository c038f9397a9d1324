"""Reading one part of the rows: numbers for its quasi values, and hashes of all that it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, KeyArray
from shoal.verify.contents import Contents
from shoal.verify.hashing import fold_values
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader
from shoal.verify.sliced.layout import Layout, PartLayout
from shoal.verify.tally import Combinations, Interner

if TYPE_CHECKING:
    from shoal.sources import Source


def compared_kinds(
    layout: Layout, manifest: Manifest, published: pa.Schema, source: Source | None
) -> dict[str, pa.DataType]:
    """Return the type in which each attribute is compared, in all its columns and in the source."""
    found: dict[str, list[pa.DataType]] = {}
    for part in layout.parts:
        for name, column in part.column_of.items():
            found.setdefault(name, []).append(published.field(column).type)
    for name, kinds in found.items():
        kinds.append(kinds[0] if source is None else source.schema.field(name).type)
    return {name: manifest.kind_of(name, *kinds) for name, kinds in found.items()}


@dataclass(frozen=True, slots=True, eq=False)
class PreparedPart:
    """What a batch tells of a part before its values have numbers."""

    quasi: KeyArray | None  # hashes of quasi values that are published as they are
    places: CodeArray | None  # regions of source rows
    labels: tuple[CodeArray, ...]  # of published rows under labels
    rest: KeyArray | None  # hashes of the attributes that are compared
    shared: tuple[tuple[KeyArray, KeyArray], ...]  # of each separator: hashes of quasi values, and of all values


class PartReader:
    """Numbers the quasi values of one part, and hashes its contents, alike for both tables."""

    def __init__(
        self,
        part: PartLayout,
        shared: Sequence[tuple[Contents, Contents]],
        manifest: Manifest,
        kinds: Mapping[str, pa.DataType],
        *,
        with_source: bool,
    ) -> None:
        self.layout = part
        self.shared = shared  # of the separators that the part has
        missing = manifest.missing_tokens
        self._quasi = None if part.boxed else Contents(part.quasi, [kinds[name] for name in part.quasi], missing)
        self._rest = None
        if with_source:
            self._rest = Contents(part.compared, [kinds[name] for name in part.compared], missing)
        by_name = {attribute.name: attribute for attribute in manifest.attributes}
        self.labels = [LabelReader(by_name[name]) for name in part.quasi] if part.boxed else []
        self.regions = Combinations([reader.radix for reader in self.labels])
        self._numbers = Interner()

    @property
    def key(self) -> KeyArray:
        """The key that contents are hashed with."""
        assert self._rest is not None  # noqa: S101 - asked for only when a source is given
        return self._rest.key

    @property
    def n_values(self) -> int:
        """How many values of the part have numbers so far."""
        if not self.layout.quasi:
            return 1
        return self.regions.count if self.layout.boxed else self._numbers.count

    def published(self, batch: pa.RecordBatch) -> PreparedPart:
        """Prepare rows of the release; any thread may."""
        columns = self.layout.column_of
        named = pa.RecordBatch.from_arrays([batch.column(column) for column in columns.values()], names=list(columns))
        return self._prepared(named, None, tuple(reader.read(named.column(reader.name)) for reader in self.labels))

    def original(self, batch: pa.RecordBatch, regions: CodeArray | None) -> PreparedPart:
        """Prepare rows of the source, whose regions, if any, are known; any thread may."""
        return self._prepared(batch, regions, ())

    def _prepared(self, batch: pa.RecordBatch, places: CodeArray | None, labels: tuple[CodeArray, ...]) -> PreparedPart:
        return PreparedPart(
            quasi=None if self._quasi is None or not self.layout.quasi else self._quasi.hashes(batch),
            places=places,
            labels=labels,
            rest=None if self._rest is None else self._rest.hashes(batch),
            shared=tuple((quasi.hashes(batch), every.hashes(batch)) for quasi, every in self.shared),
        )

    def values(self, part: PreparedPart, n_rows: int) -> CodeArray:
        """Return (n_rows,) the numbers of quasi values or regions; all 0 without quasi attributes."""
        if part.quasi is not None:
            return self._numbers.ids(part.quasi)
        if part.places is not None:
            return part.places
        return self.regions.ids(part.labels, n_rows) if part.labels else np.zeros(n_rows, dtype=np.int32)

    def contents(self, part: PreparedPart, values: CodeArray) -> KeyArray:
        """Return (n_rows,) hashes of all that a row publishes in this part and that follows from the source."""
        assert part.rest is not None  # noqa: S101 - asked for only when a source is given
        hashes = part.rest.copy()
        if self.layout.blurred:
            return hashes
        fold_values(self.key, hashes, values.astype(np.uint64))
        return hashes

"""The source as it must look after the techniques that leave nothing to chance."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.errors import InputError
from shoal.verify.manifest import Manifest
from shoal.verify.reading import coded
from shoal.verify.rewritten import RewrittenRows
from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.values import missing_values

if TYPE_CHECKING:
    from shoal.sources import Source


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedRows(RewrittenRows):
    """A source with some columns recomputed."""

    declared: Mapping[str, Declared]
    missing: pa.Array

    @property
    def schema(self) -> pa.Schema:
        """The columns of the source, recomputed ones in their new types."""
        return pa.schema([pa.field(f.name, self._kind(f)) for f in self.source.schema])

    def _kind(self, field: pa.Field) -> pa.DataType:
        return self.declared[field.name].kind if field.name in self.declared else field.type

    def _read(self, wanted: list[str], dictionary: Collection[str]) -> Iterator[pa.RecordBatch]:
        changed = [name for name in wanted if name in self.declared]
        inner = [*(name for name in dictionary if name in wanted and name not in changed), *changed]
        for batch in self.source.batches(wanted, dictionary=inner or ()):
            arrays = {name: batch.column(name) for name in wanted}
            for name in changed:
                own = self._recomputed(self.declared[name], arrays[name])
                coded_text = name in dictionary and pa.types.is_string(own.dictionary.type)
                arrays[name] = own if coded_text else own.dictionary_decode()
            yield pa.RecordBatch.from_arrays([arrays[name] for name in wanted], names=wanted)

    def _recomputed(self, declared: Declared, column: pa.Array) -> pa.DictionaryArray:
        values, places = coded(column)
        present = ~missing_values(values, self.missing)
        found = declared.recomputed(values.filter(pa.array(present)))
        place = np.append(np.where(present, np.cumsum(present) - 1, -1), -1)[places].astype(np.int32)
        return pa.DictionaryArray.from_arrays(pa.array(place, mask=place < 0), found)


def expected_source(manifest: Manifest, source: Source) -> Any:
    """Return the source with the columns recomputed that the manifest determines, or as it is if there are none."""
    declared = {name: one for name, one in manifest.techniques.items() if one.determined}
    absent = [name for name in manifest.techniques if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    tokens = pa.array(list(manifest.missing_tokens), type=pa.string())
    return ExpectedRows(source, declared, tokens) if declared else source

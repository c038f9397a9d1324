"""Classes of rows that agree in quasi attributes published as values, not as labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, KeyArray
from shoal.verify.attributes import Attribute
from shoal.verify.contents import MISSING, TEXT, Contents, common_type, is_textual
from shoal.verify.kernels import mark
from shoal.verify.reading import coded
from shoal.verify.tally import Interner

Spellings = dict[str, tuple[KeyArray, KeyArray]]  # attribute -> words of the values of a batch, and of their texts


class QuasiValues:
    """Numbers the distinct combinations of values; numbers are equal however they are written, missing is one value.

    Combinations are told apart by 64-bit hashes under a key of this run. A number that is written in several ways could
    mark rows that are counted as equal, so such attributes are remembered.

    >>> age = Attribute("age", "quasi", "number", None)
    >>> classes = QuasiValues([age], pa.schema([("age", pa.string())]), ["?"])
    >>> batch = pa.record_batch({"age": ["7", "7.0", "?", None, "8"]})
    >>> classes.ids(classes.hashes(batch)).tolist()
    [0, 0, 1, 1, 2]
    >>> classes.watch(classes.spellings(batch))
    >>> classes.respelled
    ('age',)
    """

    def __init__(self, attributes: Sequence[Attribute], published: pa.Schema, missing: Sequence[str]) -> None:
        kinds = {attribute.name: _kind(attribute, published.field(attribute.name).type) for attribute in attributes}
        self._contents = Contents(list(kinds), list(kinds.values()), missing)
        self._numbers = Interner()
        written = [name for name in kinds if is_textual(published.field(name).type)]
        self._texts = Contents(written, [TEXT] * len(written), ())
        self._seen = {name: (Interner(), Interner()) for name in written}

    @property
    def count(self) -> int:
        """How many classes were met."""
        return self._numbers.count

    def hashes(self, batch: pa.RecordBatch) -> KeyArray:
        """Return (n_rows,) what tells the rows' classes apart; any thread may ask."""
        return self._contents.hashes(batch)

    def ids(self, hashes: KeyArray) -> CodeArray:
        """Return (n_rows,) the numbers of classes."""
        return self._numbers.ids(hashes)

    def spellings(self, batch: pa.RecordBatch) -> Spellings:
        """Return how the values of a batch are written; any thread may ask."""
        found = {}
        for name in self._seen:
            values, places = coded(batch.column(name))
            used = np.zeros(len(values) + 1, dtype=np.bool_)
            mark(places, used)
            texts = self._texts.words(name, values)
            texts[-1] = MISSING
            found[name] = self._contents.words(name, values)[used], texts[used]
        return found

    def watch(self, spellings: Spellings) -> None:
        """Remember them."""
        for name, (words, texts) in spellings.items():
            of_values, of_texts = self._seen[name]
            of_values.ids(words)
            of_texts.ids(texts)

    @property
    def respelled(self) -> tuple[str, ...]:
        """The attributes with a value that was written in several ways."""
        return tuple(name for name, (values, texts) in self._seen.items() if values.count < texts.count)


def _kind(attribute: Attribute, own: pa.DataType) -> pa.DataType:
    if attribute.kind == "number" and is_textual(own):
        return pa.float64()
    return common_type(own, own)

"""Encoding Arrow columns by dictionaries; every module that needs codes of values uses these functions."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError

MISSING_CODE = 0


def fold_text(text: str) -> str:
    """Return the normal form of a text, which ignores case, spaces and compatible characters.

    >>> fold_text(" Lung  Infection"), fold_text("lung infection")
    ('lung infection', 'lung infection')
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def fold_texts(texts: pa.Array) -> pa.Array:
    return pa.array([None if text is None else fold_text(text) for text in texts.to_pylist()], pa.string())


def factor_column(column: pa.Array) -> tuple[CodeArray, pa.Array]:
    """Return (n_rows,) the index of each value, -1 for missing, and the distinct values."""
    if not pa.types.is_dictionary(column.type):
        if pa.types.is_floating(column.type):
            column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 and 0.0 are one value
        column = pc.dictionary_encode(column)
    elif column.dictionary.null_count:
        column = pc.dictionary_encode(column.cast(column.type.value_type))
    indices = column.indices
    if indices.null_count:
        indices = pc.fill_null(indices, -1)
    if indices.type != pa.int32():
        indices = indices.cast(pa.int32())
    return indices.to_numpy(zero_copy_only=False), column.dictionary


def split_values(column: pa.ChunkedArray | pa.Array) -> tuple[CodeArray, pa.Array]:
    """Return (n,) the index of each value, that after the last for missing, and the distinct values."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    indices, values = factor_column(whole)
    return np.where(indices < 0, np.int32(len(values)), indices), values


def find_values(values: pa.Array, known: pa.Array) -> IntArray:
    """Return (n,) the index of each value among *known* ones, -1 for unknown values and nulls."""
    found = pc.index_in(values, value_set=known, skip_nulls=True)
    return np.asarray(pc.fill_null(found, -1).to_numpy(zero_copy_only=False), dtype=np.int64)


def encode_columns(batches: Iterable[pa.RecordBatch]) -> tuple[list[GrowingDictionary], list[CodeArray]]:
    """Return the dictionary and (n_rows,) the codes of each column of all batches; code 0 is missing.

    >>> (names,), (codes,) = encode_columns([pa.record_batch({"name": ["Ann", None, "Bob", "Ann"]})])
    >>> names.values.to_pylist(), codes.tolist()
    (['Ann', 'Bob'], [1, 0, 2, 1])
    """
    dictionaries: list[GrowingDictionary] = []
    parts: list[list[CodeArray]] = []
    for batch in batches:
        for place, column in enumerate(batch.columns):
            if place == len(parts):
                dictionaries.append(GrowingDictionary())
                parts.append([])
            indices, values = factor_column(column)
            codes = dictionaries[place].codes(values)[indices]  # index -1 takes the last code: missing
            parts[place].append(codes.astype(np.int32))
    return dictionaries, [np.concatenate(codes) for codes in parts]


class GrowingDictionary:
    """The distinct values of a column in order of appearance; value i has code i + 1, and 0 is missing."""

    def __init__(self) -> None:
        self._parts: list[pa.Array] = []
        self._all: pa.Array | None = None

    @property
    def values(self) -> pa.Array:
        if self._all is None or len(self._parts) > 1:
            self._all = pa.concat_arrays(self._parts) if self._parts else pa.array([], pa.string())
            self._parts = [self._all] if self._parts else []
        return self._all

    @property
    def size(self) -> int:
        return 1 + sum(len(part) for part in self._parts)

    def codes(self, values: pa.Array) -> KeyArray:
        """Return (n + 1,) the code of each value, adding new values, and last the code of missing."""
        if not self._parts:
            self._parts = [values]
            known = np.arange(len(values), dtype=np.int64)
        else:
            known = find_values(values, self.values)
            new = np.flatnonzero(known < 0)
            if len(new):
                known[new] = self.size - 1 + np.arange(len(new))
                self._parts.append(values.take(pa.array(new)))
        return np.append(known + 1, MISSING_CODE).astype(np.uint64)

    def lookup(self, values: pa.Array, column: str) -> KeyArray:
        """Return the same as ``codes``, but raise for a new value, because the source has changed."""
        known = find_values(values, self.values)
        if len(known) and known.min() < 0:
            raise InputError(f"column {column!r} changed while it was being read; nothing was published")
        return np.append(known + 1, MISSING_CODE).astype(np.uint64)

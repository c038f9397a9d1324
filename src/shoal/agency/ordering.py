"""Orders of the quasi-identifier domain: contiguous classes are runs of points along one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import InputError
from shoal.methods.hilbert.curve import MOST_BITS, curve_keys
from shoal.taxonomies.parse import decimal_numbers, texts
from shoal.taxonomies.tree import Taxonomy

Order: TypeAlias = Literal["lexicographic", "hilbert", "taxonomy"]
ORDERS: tuple[Order, ...] = ("lexicographic", "hilbert", "taxonomy")


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A column as places among its distinct values."""

    codes: CodeArray  # (n_rows,)
    values: tuple[str, ...]  # in their order


def ranked(column: pa.ChunkedArray, name: str, taxonomy: Taxonomy | None) -> Ranked:
    """Rank the values of a column: by the leaves of a taxonomy, else numbers as numbers, else as text.

    >>> ranked(pa.chunked_array([["10", "9", "10"]]), "age", None)
    Ranked(codes=array([1, 0, 1], dtype=int32), values=('9', '10'))
    """
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    whole = coded.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    codes = whole.indices.to_numpy(zero_copy_only=False)
    used = np.flatnonzero(np.bincount(codes, minlength=len(whole.dictionary)))
    entries = whole.dictionary.take(pa.array(used))
    written = texts(entries)
    by_text = np.empty(len(used), dtype=np.int64)
    by_text[pc.sort_indices(written).to_numpy()] = np.arange(len(used))
    numbers, valid = decimal_numbers(written)
    keys = [by_text] + ([numbers] if valid.all() else [])
    if taxonomy is not None:
        leaves = taxonomy.encode(entries)
        if outside := int((leaves < 0).sum()):
            raise InputError(f"column {name!r} has {outside:,} values that its taxonomy does not cover; add them to it")
        keys.append(leaves.astype(np.int64))
    order = np.lexsort(keys)
    rank = np.zeros(len(whole.dictionary), dtype=np.int32)
    rank[used[order]] = np.arange(len(used))
    return Ranked(rank[codes], tuple(written.take(pa.array(order)).to_pylist()))


def along_order(points: Sequence[CodeArray], sizes: Sequence[int], order: Order) -> IntArray | None:
    """Return (n_points,) which point of the lexicographic order comes when; None if that order stays."""
    if order != "hilbert" or len(points) == 1:
        return None
    bits = max(max(int(size - 1).bit_length() for size in sizes), 1)
    excess = max(bits - MOST_BITS, 0)
    places = np.stack([(column >> excess).astype(np.uint32) for column in points], axis=1)
    words = curve_keys(places, bits - excess)
    return np.lexsort(words[::-1])

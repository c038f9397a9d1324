"""Multiset generalization: every value becomes the multiset of the values in its bucket."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.sliced.table import BUCKET, SlicedPart, SlicedTable, column_codes, numbered
from shoal.taxonomies.parse import texts

MISSING = "missing"


def multisets(table: SlicedTable, kept: Collection[str]) -> pa.Table:
    """Return the table in which all attributes but the *kept* ones are multisets: Table 1(d) of the slicing paper.

    A multiset reads ``22:2,33:1``: values in ascending order, each with its number of records. Apart from what one
    part tells of several attributes, the multisets tell as much as the slices.

    >>> rows = pa.table({"bucket": [1, 1, 1], "age": [33, 22, 22], "illness": ["flu", "gout", None]})
    >>> sliced = SlicedTable.of(rows, {"parts": [["age"], ["illness"]]})
    >>> multisets(sliced, kept={"illness"}).to_pydict()
    {'bucket': [1, 1, 1], 'age': ['22:2,33:1', '22:2,33:1', '22:2,33:1'], 'illness': ['flu', 'gout', None]}
    """
    columns: dict[str, object] = {BUCKET: pa.array(table.bucket + np.int32(1))}
    for part in table.parts:
        for name in part.names:
            if name not in columns:
                codes = pa.array(part.codes)
                columns[name] = part.distinct.column(name).take(codes) if name in kept else _texts(table, part, name)
    return pa.table(columns)


def _texts(table: SlicedTable, part: SlicedPart, name: str) -> pa.Array:
    """Return (n_rows,) the multiset of one attribute in each row's bucket."""
    column = part.distinct.column(name).combine_chunks()
    codes = column_codes(pa.chunked_array([column]))
    values = column.take(pa.array(numbered([codes], len(codes))[1]))  # each distinct value at its code
    rank = np.empty(len(values), dtype=np.int32)
    rank[pc.sort_indices(values).to_numpy()] = np.arange(len(values), dtype=np.int32)
    pairs, first = numbered([table.bucket, rank[codes][part.codes]], table.n_rows)
    written = texts(values).fill_null(MISSING).take(pa.array(codes[part.codes[first]]))
    entries = pc.binary_join_element_wise(written, pa.array(np.bincount(pairs)).cast(pa.string()), ":")
    edges = np.searchsorted(table.bucket[first], np.arange(table.n_buckets + 1)).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(edges), entries), ",")
    return joined.take(pa.array(table.bucket))

"""One of the tables that a sliced release may have come from."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray
from shoal.release.sliced.expected import link_keys, tree_of
from shoal.release.sliced.table import SlicedTable


def sampled(table: SlicedTable, rng: np.random.Generator) -> pa.Table:
    """Return a table that links the parts anew, every linking within buckets being equally likely.

    Parts that share attributes are linked only where they have the same values of these. Every bucket keeps its
    values of every part; the attributes stand in the order of the parts, each once.

    >>> rows = pa.table({"bucket": [1, 1, 2], "age": [22, 33, 52], "illness": ["flu", "gout", "flu"]})
    >>> sliced = SlicedTable.of(rows, {"parts": [["age"], ["illness"]]})
    >>> sampled(sliced, np.random.default_rng(3)).to_pydict()
    {'age': [22, 33, 52], 'illness': ['gout', 'flu', 'flu']}
    """
    place: dict[int, AnyIntArray] = {0: np.arange(table.n_rows)}  # (n_rows,) of a part, where its values come from
    for link in tree_of([part.names for part in table.parts]):
        parent_key, key = link_keys(table, link)
        mixed = rng.permutation(table.n_rows)
        rows = np.empty(table.n_rows, dtype=np.int64)
        rows[np.argsort(parent_key[place[link.parent]], kind="stable")] = mixed[np.argsort(key[mixed], kind="stable")]
        place[link.part] = rows
    columns: dict[str, pa.ChunkedArray] = {}
    for number, part in enumerate(table.parts):
        codes = pa.array(part.codes[place[number]])
        columns |= {name: part.distinct.column(name).take(codes) for name in part.names if name not in columns}
    return pa.table(columns)

"""From one row for every person and item to one row for every person."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.columns.baskets.splitting import distinct_pairs
from shoal.core.errors import InputError, UsageError
from shoal.sources.opening import open_source
from shoal.sources.options import SourceOptions


def baskets(
    data: object,
    person: str,
    item: str,
    *,
    separator: str = ";",
    options: SourceOptions | None = None,
) -> pa.Table:
    """Gather a long table, one row for every person and item, into baskets: one row for every person.

    *data* is whatever ``open_source`` reads. The result has the column *person*, in ascending order, and the column
    *item* with the person's different items, sorted, with the *separator* between them. Rows without an
    item say only that the person is there; rows without a person are refused.

    >>> bought = pa.table({"customer": [2, 1, 2, 2], "product": ["tea", "milk", "bread", "tea"]})
    >>> baskets(bought, "customer", "product").to_pylist()
    [{'customer': 1, 'product': 'milk'}, {'customer': 2, 'product': 'bread;tea'}]
    """
    if not separator or person == item:
        raise UsageError("baskets needs a separator, and different columns for persons and items")
    source = open_source(data, options)
    table = pa.Table.from_batches(list(source.batches([person, item])))
    who, what = (table.column(name).combine_chunks().dictionary_encode() for name in (person, item))
    if who.null_count:
        raise InputError(f"{source.name} has {who.null_count} rows without a {person!r}; give each row its person")
    names = pc.utf8_trim_whitespace(what.dictionary.cast(pa.string()))
    if pc.any(pc.match_substring(names, separator)).as_py():
        raise InputError(f"items of {item!r} in {source.name} contain {separator!r}; choose another separator")
    order = np.asarray(pc.sort_indices(who.dictionary))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    named = names.unique().sort()
    place = np.asarray(pc.index_in(names, value_set=named), dtype=np.int64)
    there = np.asarray(what.is_valid())
    owner = rank[np.asarray(who.indices)[there]]
    which = place[np.asarray(what.indices.drop_null())]
    full = np.asarray(pc.not_equal(named, ""))[which]
    owner, which = distinct_pairs(owner[full], which[full], len(named))  # items in the order of their names
    edges = np.searchsorted(owner, np.arange(len(order) + 1)).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(edges), named.take(pa.array(which)))
    return pa.table({person: who.dictionary.take(pa.array(order)), item: pc.binary_join(lists, separator)})

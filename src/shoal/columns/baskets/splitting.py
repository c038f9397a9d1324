"""Texts of items taken apart and put together, many at a time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.columns.baskets.options import NONE
from shoal.core.arrays import BoolArray, IntArray


class Baskets(NamedTuple):
    """The items of some texts, each once: text ``text[i]`` has the item ``names[item[i]]``.

    Pairs ascend by text, then by item; the names are sorted.
    """

    text: IntArray  # (n_pairs,)
    item: IntArray  # (n_pairs,)
    names: pa.Array  # (n_items,)


def split_items(texts: pa.Array, separator: str) -> Baskets:
    """Take texts apart; blanks around items and empty items fall away.

    >>> found = split_items(pa.array(["milk; bread", "", "milk;milk;"]), ";")
    >>> found.text.tolist(), found.item.tolist(), found.names.to_pylist()
    ([0, 0, 2], [0, 1, 1], ['bread', 'milk'])
    """
    lists = pc.split_pattern(texts, pattern=separator)
    coded = pc.utf8_trim_whitespace(pc.list_flatten(lists)).dictionary_encode()
    text = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)
    order = np.asarray(pc.sort_indices(coded.dictionary))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    item, names = rank[np.asarray(coded.indices)], coded.dictionary.take(pa.array(order))
    if len(names) and names[0].as_py() == "":  # the empty text is first in the order
        text, item, names = text[item > 0], item[item > 0] - 1, names[1:]
    text, item = distinct_pairs(text, item, len(names))
    return Baskets(text, item, names)


def distinct_pairs(owner: IntArray, item: IntArray, n_items: int) -> tuple[IntArray, IntArray]:
    """Return each pair once, ascending by owner, then by item.

    >>> owner, item = distinct_pairs(np.array([1, 0, 1]), np.array([2, 1, 2]), 3)
    >>> owner.tolist(), item.tolist()
    ([0, 1], [1, 2])
    """
    width = max(n_items, 1)
    pair = np.sort(owner * width + item)  # sorting is much faster than np.unique, which hashes
    first = np.ones(len(pair), dtype=np.bool_)
    first[1:] = pair[1:] != pair[:-1]
    pair = pair[first]
    return pair // width, pair % width


def joined_items(baskets: Baskets, chosen: BoolArray, n_texts: int, separator: str) -> pa.Array:
    """Return (n_texts,) the chosen pairs of each text as one text, and ``none`` where there are none.

    >>> found = split_items(pa.array(["milk; bread", "tea"]), ";")
    >>> joined_items(found, found.item < 2, 2, ";").to_pylist()
    ['bread;milk', 'none']
    """
    sizes = np.bincount(baskets.text[chosen], minlength=n_texts)
    edges = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(edges), baskets.names.take(pa.array(baskets.item[chosen])))
    return pc.if_else(pa.array(sizes == 0), NONE, pc.binary_join(lists, separator))

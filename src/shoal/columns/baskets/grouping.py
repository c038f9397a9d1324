"""Groups of items that go together, from how often they are in one basket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shoal.columns.baskets.splitting import Baskets, split_items
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.compiled import compiled
from shoal.core.medoids import pam
from shoal.sources.base import Source

FREQUENT = 300  # items that are clustered at most; the others join them
RARE = 100  # an item in fewer than one of so many baskets goes with others by chance more than by custom


def item_counts(source: Source, name: str, separator: str) -> tuple[Counter[str], int]:
    """Return the number of baskets with each item, and the number of baskets."""
    counts: Counter[str] = Counter()
    n_baskets = 0
    for baskets, people in _batches(source, name, separator):
        records = np.bincount(baskets.item, weights=people[baskets.text], minlength=len(baskets.names))
        counts.update(dict(zip(baskets.names.to_pylist(), records.astype(np.int64).tolist(), strict=True)))
        n_baskets += int(people.sum())
    return +counts, n_baskets  # dictionaries of batches may have entries that no row has


def item_groups(
    source: Source, name: str, separator: str, counts: Counter[str], n_baskets: int, n_groups: int
) -> tuple[tuple[str, ...], ...]:
    """Return the items of *counts* in groups of which the members are bought together; items by name in each.

    The most frequent items are clustered by PAM, with the distance 1 - phi^2 of "has it" and "does not", where phi^2 is
    0 for items that avoid each other; every other item joins the group of the frequent one that it has the largest
    phi^2 with. Groups come in the order of their most frequent items.
    """
    items = sorted(counts, key=lambda item: (-counts[item], item))
    records = np.array([counts[item] for item in items], dtype=np.int64)
    n_frequent = max(n_groups, min(FREQUENT, int((records * RARE >= n_baskets).sum())))
    together = np.zeros((len(items), n_frequent), dtype=np.int64)
    for baskets, people in _batches(source, name, separator):
        _count_pairs(*_ranked(baskets, items), people, together)
    association = going_together(together, records, n_baskets)
    distances = 1.0 - association[:n_frequent]
    np.fill_diagonal(distances, 0.0)
    label = np.empty(len(items), dtype=np.int64)
    label[:n_frequent] = pam(distances, n_groups).labels
    label[n_frequent:] = label[association[n_frequent:].argmax(axis=1)]
    found = [np.flatnonzero(label == group).tolist() for group in dict.fromkeys(label.tolist())]
    return tuple(tuple(sorted(items[place] for place in places)) for places in found)


def going_together(together: IntArray, records: IntArray, n_baskets: int) -> FloatArray:
    """Return (n_items, n_frequent) phi^2 of items that are together more often than by chance, 0 for others.

    >>> going_together(np.array([[2, 0, 1], [0, 2, 1], [1, 1, 2]]), np.array([2, 2, 2]), 4)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    have = records.astype(np.float64)
    spread = have * (n_baskets - have)
    frequent = have[: together.shape[1]]
    surplus: FloatArray = np.maximum(n_baskets * together - have[:, np.newaxis] * frequent, 0.0)
    bottom = spread[:, np.newaxis] * spread[: together.shape[1]]
    return np.asarray(np.divide(surplus**2, bottom, out=np.zeros_like(bottom), where=bottom > 0), dtype=np.float64)


def _batches(source: Source, name: str, separator: str) -> Iterator[tuple[Baskets, IntArray]]:
    """Yield the different texts of each batch, taken apart, with how many records have each."""
    for batch in source.batches([name], dictionary=[name]):
        column = batch.column(0)
        codes = np.asarray(column.indices.drop_null())
        yield split_items(column.dictionary, separator), np.bincount(codes, minlength=len(column.dictionary))


def _ranked(baskets: Baskets, items: Sequence[str]) -> tuple[IntArray, IntArray]:
    """Return the pairs of texts and places in *items*; other items are left out."""
    rank = pc.index_in(baskets.names, value_set=pa.array(items, pa.string())).fill_null(-1)
    place = np.asarray(rank, dtype=np.int64)[baskets.item]
    return baskets.text[place >= 0], place[place >= 0]


@compiled
def _count_pairs(
    text: NDArray[np.int64], item: NDArray[np.int64], people: NDArray[np.int64], together: NDArray[np.int64]
) -> None:
    """Add the people who have both, for every item and every frequent one; pairs ascend by text."""
    start = 0
    while start < len(text):
        stop = start
        while stop < len(text) and text[stop] == text[start]:
            stop += 1
        for one in range(start, stop):
            for other in range(start, stop):
                if item[other] < together.shape[1]:
                    together[item[one], item[other]] += people[text[start]]
        start = stop


def without(counts: Counter[str], items: Collection[str]) -> Counter[str]:
    """Return the counts of all other items."""
    return Counter({item: number for item, number in counts.items() if item not in items})

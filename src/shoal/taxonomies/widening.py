"""Which leaf ranges may be published: nodes of the taxonomy, or ranges whose ends the policy declares."""

from __future__ import annotations

import numpy as np

from shoal.core.arrays import AnyIntArray, CodeArray
from shoal.taxonomies.tree import Taxonomy


def widen(taxonomy: Taxonomy, lo: AnyIntArray, hi: AnyIntArray, *, ranges: bool) -> tuple[CodeArray, CodeArray]:
    """Return (n,) the narrowest leaf ranges around ``[lo, hi)`` that may be published: nodes or, if asked for, ranges.

    >>> from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
    >>> ages = IntervalsTaxonomy(min=0, max=99, widths=(10, 50)).build(None)
    >>> few = np.array([23, 23]), np.array([24, 35])
    >>> [bounds.tolist() for bounds in widen(ages, *few, ranges=False)]
    [[23, 0], [24, 50]]
    >>> [bounds.tolist() for bounds in widen(ages, *few, ranges=True)]
    [[23, 20], [24, 40]]
    """
    if not ranges or not has_ranges(taxonomy):
        nodes = taxonomy.lowest_nodes(lo, hi)
        return taxonomy.lo[nodes], taxonomy.hi[nodes]
    first, last = range_ends(taxonomy)
    several = hi - lo > 1
    return np.where(several, first[lo], lo).astype(np.int32), np.where(several, last[hi - 1] + 1, hi).astype(np.int32)


def has_ranges(taxonomy: Taxonomy) -> bool:
    """Whether the values have an order that a range can follow: numbers, dates, and what the policy lists.

    Values that were found in the data are sorted as text, which says nothing about them: they are published as nodes.
    """
    return taxonomy.declared or taxonomy.positions is not None


def range_ends(taxonomy: Taxonomy) -> tuple[CodeArray, CodeArray]:
    """Return (n_leaves,) the first leaf of a range that has this leaf lowest, and the last one if it has it highest.

    Ranges of numbers and dates end at edges of the taxonomy's groups, so that no end is a record's value. Listed values
    are named one by one.
    """
    leaf = np.arange(taxonomy.n_leaves, dtype=np.int32)
    if taxonomy.positions is None:
        return leaf, leaf
    groups = slice(taxonomy.n_leaves, None)
    edges = np.unique(np.concatenate([[0, taxonomy.n_leaves], taxonomy.lo[groups], taxonomy.hi[groups]]))
    if taxonomy.missing is not None:
        edges = np.union1d(edges, [taxonomy.missing])
    after = np.searchsorted(edges, leaf, side="right")
    return edges[after - 1].astype(np.int32), (edges[after] - 1).astype(np.int32)

"""How parts hang together: in overlapping slicing they share attributes, and records agree in the shared values."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.errors import InputError, UsageError
from shoal.links import Link, linked
from shoal.sliced.table import SlicedTable, column_codes, numbered


def tree_of(parts: Sequence[Sequence[str]]) -> tuple[Link[str], ...]:
    """Return how all parts but the first are linked to those before; overlaps that form no tree are refused."""
    links = linked(parts)
    if links is None:
        raise UsageError("the parts overlap in a circle, so that no rule tells how to link them")
    return links


def needed_parts(parts: Sequence[Sequence[str]], names: Collection[str]) -> tuple[int, ...]:
    """Return the fewest parts found that have these attributes and all that link them.

    A part that shares attributes with one other part only can be left out if the others have all that is asked for.

    >>> needed_parts([["age"], ["zip", "sex"], ["illness"]], ["age", "illness"])
    (0, 2)
    """
    wanted = set(names)
    for number, part in enumerate(parts):
        if wanted <= set(part):
            return (number,)
    kept = list(range(len(parts)))
    while (spare := _spare(parts, kept, wanted)) is not None:
        kept.remove(spare)
    return tuple(kept)


def _spare(parts: Sequence[Sequence[str]], kept: Sequence[int], wanted: set[str]) -> int | None:
    for number in kept:
        others = [set(parts[other]) for other in kept if other != number]
        everything = set[str]().union(*others)
        shared = everything & set(parts[number])
        if others and wanted <= everything and any(shared <= other for other in others):
            return number
    return None


def overlap(parts: Sequence[Sequence[str]]) -> bool:
    """Whether some attribute is in several parts."""
    names = [name for part in parts for name in part]
    return len(set(names)) < len(names)


def link_keys(table: SlicedTable, link: Link[str]) -> tuple[CodeArray, CodeArray]:
    """Return (n_rows,) the number of each row's bucket and shared values, by its parent part and by its part.

    Rows of the parent and of the part can be about the same record only if they have the same number.
    """
    if not link.shared:
        return table.bucket, table.bucket
    parent, part = table.parts[link.parent], table.parts[link.part]
    both = pa.concat_tables([side.distinct.select(list(link.shared)) for side in (parent, part)])
    shared, _ = numbered([column_codes(column) for column in both.columns], both.num_rows)
    values = np.concatenate([shared[: parent.n_codes][parent.codes], shared[parent.n_codes :][part.codes]])
    keys, _ = numbered([np.concatenate([table.bucket, table.bucket]), values], 2 * table.n_rows)
    before, after = keys[: table.n_rows], keys[table.n_rows :]
    if not np.array_equal(np.bincount(before, minlength=len(keys)), np.bincount(after, minlength=len(keys))):
        listed = ", ".join(repr(name) for name in link.shared)
        raise InputError(f"two parts of the release differ in the values of {listed} within a bucket")
    return before, after

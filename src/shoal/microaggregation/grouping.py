"""Microaggregation of a table: at once if it is small, in blocks of near records if it is large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.errors import UnreachableError
from shoal.microaggregation.kernels import mdav
from shoal.microaggregation.space import Space
from shoal.progress import Step

BLOCK_RECORDS = 50_000


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """Which group each row belongs to; no group is empty."""

    group: CodeArray  # (n_rows,)
    n_groups: int

    @property
    def sizes(self) -> IntArray:
        """(n_groups,) rows of each."""
        return np.bincount(self.group, minlength=self.n_groups)


def microaggregate(space: Space, k: int, *, block_records: int = BLOCK_RECORDS, step: Step | None = None) -> Grouping:
    """Return groups of k to 2k - 1 records that lie near each other, the same for every order of the rows.

    The work grows with the square of the records over k. A table of more than *block_records* is therefore first cut
    in halves at medians, each time along the attribute that varies most there, until no part has more; groups then
    never reach over a cut, which costs a little nearness and nothing else.
    """
    if k < 1 or space.n_records < k:
        raise UnreachableError(
            f"microaggregation: k = {k} but the table has only {space.n_records} records"
            if k >= 1
            else f"microaggregation: k must be at least 1; received {k}"
        )
    first_value = np.append(0, np.cumsum(space.n_values)).astype(np.int64)
    by_record = np.empty(space.n_records, dtype=np.int32)
    n_groups = 0
    for members in _blocks(space, max(block_records, 2 * k)):
        group, found = mdav(space.numbers[members], space.categories[members], first_value, space.unequal, k)
        by_record[members] = group + n_groups
        n_groups += found
        if step is not None:
            step.advance(len(members))
    of_row = np.empty(space.n_records, dtype=np.int32)
    of_row[space.order] = by_record
    return Grouping(of_row, n_groups)


def _blocks(space: Space, most: int) -> list[IntArray]:
    """Cut the records into parts of at most *most* and, if there are several, more than half of it."""
    waiting = [np.arange(space.n_records)]
    done = []
    while waiting:
        members = waiting.pop()
        if len(members) <= most:
            done.append(members)
            continue
        column = _widest(space, members)
        in_order = members[np.argsort(column, kind="stable")]
        half = len(members) // 2
        waiting += [np.sort(in_order[half:]), np.sort(in_order[:half])]
    return done


def _widest(space: Space, members: IntArray) -> np.ndarray:
    """Return the values, at these records, of the attribute with the largest mean squared distance between them."""
    numbers, categories = space.numbers[members], space.categories[members]
    spread = [2.0 * float(np.var(column)) for column in numbers.T]
    for column, unequal in zip(categories.T, space.unequal, strict=True):
        shares = np.bincount(column) / len(column)
        spread.append(float(unequal) * (1.0 - float(np.sum(shares * shares))))
    widest = int(np.argmax(spread))
    return numbers[:, widest] if widest < numbers.shape[1] else categories[:, widest - numbers.shape[1]]

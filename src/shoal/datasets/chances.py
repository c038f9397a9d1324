"""Drawing categories for many rows at once, each row with chances of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Chances:
    """One distribution over the same values per context, drawn from in constant time a row.

    A value of weight zero is never drawn. Walker's alias method: every column of a context holds at most two
    values, so one uniform number picks the column and, by what is left of it, one of the two.

    >>> fair = Chances.of(np.array([[1.0, 1.0], [0.0, 5.0]]))
    >>> fair.draw(np.array([0.1, 0.9, 0.1, 0.9]), np.array([0, 0, 1, 1]))
    array([0, 1, 1, 1], dtype=int32)
    """

    n_values: int
    keep: NDArray[np.float32]  # (n_contexts * n_values,) below this the column's own value is drawn
    other: CodeArray  # (n_contexts * n_values,) the value that is drawn otherwise

    @classmethod
    def of(cls, weights: FloatArray) -> Chances:
        """Build from (n_contexts, n_values) weights that need not sum to one."""
        n_contexts, n_values = weights.shape
        rows = np.arange(n_contexts)
        room = weights * (n_values / weights.sum(axis=1, keepdims=True))  # mean 1 in every row
        waiting = np.ones(room.shape, dtype=bool)
        keep = np.ones(room.shape, dtype=np.float32)
        other = np.zeros(room.shape, dtype=np.int32)
        for _ in range(n_values):  # settles the scantest column of every context, filled up by the fullest
            scant = np.where(waiting, room, np.inf).argmin(axis=1)
            full = np.where(waiting, room, -np.inf).argmax(axis=1)
            keep[rows, scant] = room[rows, scant]
            other[rows, scant] = full
            room[rows, full] -= 1.0 - room[rows, scant]
            waiting[rows, scant] = False
        return cls(n_values, keep.ravel(), other.ravel())

    def draw(self, uniform: FloatArray, context: AnyIntArray | int = 0) -> CodeArray:
        """Return (n_rows,) a value for each uniform number in [0, 1) under its row's context."""
        scaled = uniform * self.n_values
        column = scaled.astype(np.int32)
        place = context * self.n_values + column
        return np.where(scaled - column < self.keep.take(place), column, self.other.take(place))

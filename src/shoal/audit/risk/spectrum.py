"""What all estimators of population uniqueness look at: how many classes of each size a sample has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.errors import ShoalError


class NoEstimateError(ShoalError):
    """A model has no solution for this sample; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Spectrum:
    """Sizes of classes that occur in a sample, ascending, and how many classes have each."""

    sizes: IntArray
    classes: IntArray
    fraction: float

    @classmethod
    def of(cls, sizes: IntArray, fraction: float) -> Spectrum:
        """Count the classes of each size."""
        distinct, classes = np.unique(sizes, return_counts=True)
        return cls(distinct.astype(np.int64), classes.astype(np.int64), fraction)

    @property
    def n(self) -> int:
        """People of the sample."""
        return int(self.sizes @ self.classes)

    @property
    def n_classes(self) -> int:
        """Classes of the sample."""
        return int(self.classes.sum())

    @property
    def population(self) -> int:
        """People of the population."""
        return round(self.n / self.fraction)

    def times(self, size: int) -> int:
        """Return how many classes have this size."""
        return int(self.classes[self.sizes == size].sum())

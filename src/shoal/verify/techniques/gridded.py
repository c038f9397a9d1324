"""Numbers that a technique put on a grid of decimals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import FloatArray
from shoal.core.errors import InputError
from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.numbers import FARTHEST, Grid
from shoal.verify.techniques.values import ColumnValues


@dataclass(frozen=True, slots=True)
class Gridded(Declared):
    """Every published number is a step of the grid, and one that the technique can lead to."""

    numeric: ClassVar[bool] = True
    off_grid: ClassVar[str] = "has numbers of more decimals than declared"

    grid: Grid

    @property
    def kind(self) -> pa.DataType:
        """The type of the grid."""
        return self.grid.kind

    def misshapen(self, published: ColumnValues) -> str | None:
        """Numbers are on the grid, and where they may be."""
        found = published.numbers()
        if found is None:
            return "has values that are no numbers"
        if not bool(self.grid.holds(found[0]).all()):
            return self.off_grid
        return self.misplaced(self.grid.steps(found[0]))

    @abstractmethod
    def misplaced(self, steps: FloatArray) -> str | None:
        """Return what is wrong with published numbers that are on the grid, given in its steps, if something is."""

    def scaled(self, numbers: FloatArray, unit: int = 1) -> FloatArray:
        """Return numbers of the source in units of grid steps; those that the grid does not reach are refused."""
        scaled: FloatArray = numbers * 10.0**self.grid.decimals / unit
        if not bool((np.abs(scaled) <= FARTHEST / unit).all()):
            raise InputError(f"column {self.column!r} of the source has values that are no numbers, or too large ones")
        return scaled

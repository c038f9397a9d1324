"""Top and bottom coding: recomputed from the declared edges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import FloatArray, IntArray
from shoal.verify.fields import ManifestError, check_keys, mapping
from shoal.verify.techniques.gridded import Gridded
from shoal.verify.techniques.numbers import Grid, decimals_of, exact, finite
from shoal.verify.techniques.values import ColumnValues, as_numbers

_EDGES = ("top", "bottom")


@dataclass(frozen=True, slots=True)
class Coding(Gridded):
    """Numbers between two edges."""

    name: ClassVar[str] = "coding"

    top: int | None  # grid steps
    bottom: int | None
    shares: Mapping[str, Fraction]  # of records at edges that come from the data

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Coding:
        """Return what is declared, or raise a ManifestError."""
        check_keys(entry, where, ("technique", "decimals", "edges_from_data"), (*_EDGES, "shares"))
        grid = Grid(decimals_of(entry["decimals"], f"{where}.decimals"))
        edges = {
            edge: grid.step_of(finite(entry[edge], f"{where}.{edge}"), f"{where}.{edge}")
            for edge in _EDGES
            if edge in entry
        }
        if not edges or ("top" in edges and "bottom" in edges and edges["bottom"] >= edges["top"]):
            raise ManifestError(f"{where} has no edges, or the bottom is not below the top")
        shares = mapping(entry.get("shares", {}), f"{where}.shares")
        check_keys(shares, f"{where}.shares", (), _EDGES)
        if entry["edges_from_data"] is not bool(shares) or not set(shares) <= set(edges):
            raise ManifestError(f"{where}.edges_from_data, its shares and its edges do not fit")
        found = {edge: exact(finite(share, f"{where}.shares.{edge}")) for edge, share in shares.items()}
        if not all(0 < share < 1 for share in found.values()):
            raise ManifestError(f"{where}.shares are not between 0 and 1")
        return cls(column, grid, edges.get("top"), edges.get("bottom"), found)

    @property
    def determined(self) -> bool:
        """It leaves nothing to chance."""
        return True

    @property
    def compared(self) -> bool:
        """Edges from the data are where its records say."""
        return bool(self.shares)

    def recomputed(self, values: pa.Array) -> pa.Array:
        """Return the numbers on the grid, cut at the edges."""
        return self.grid.array(self._cut(self._steps(as_numbers(values))))

    def _steps(self, numbers: FloatArray) -> FloatArray:
        return np.rint(self.scaled(numbers)) + 0.0

    def _cut(self, steps: FloatArray) -> FloatArray:
        steps = steps if self.top is None else np.minimum(steps, self.top)
        return steps if self.bottom is None else np.maximum(steps, self.bottom)

    def misplaced(self, steps: FloatArray) -> str | None:
        """No number is beyond an edge."""
        return "has numbers beyond the declared edges" if bool((self._cut(steps) != steps).any()) else None

    def unlike(self, published: ColumnValues, original: ColumnValues) -> str | None:  # noqa: ARG002
        """Edges that come from the data are where the shares of its records say."""
        found = original.numbers()
        if found is None:
            return "has values that are no numbers in the source"
        steps, place = np.unique(self._steps(found[0]), return_inverse=True)
        records = np.bincount(place, found[1], len(steps)).astype(np.int64)
        if "top" in self.shares and self.top != _edge(steps[::-1], records[::-1], self.shares["top"]):
            return "has a top that is not where the share of the records says"
        if "bottom" in self.shares and self.bottom != _edge(steps, records, self.shares["bottom"]):
            return "has a bottom that is not where the share of the records says"
        return None

    @property
    def confirmed(self) -> str:
        """What was found."""
        return "no number is beyond an edge"


def _edge(steps: FloatArray, records: IntArray, share: Fraction) -> int | None:
    """Return the first step, from the outside, by which at least the share of all records was passed."""
    if not len(steps):
        return None
    wanted = math.ceil(share * int(records.sum()))
    return int(steps[np.searchsorted(np.cumsum(records), wanted)])

"""A synthetic table before it is written: its rows in codes, and the account of what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import CodeArray, IntArray
from shoal.core.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy

MOST_CELLS = 250_000  # of one table of counts
Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spent:
    """One use of the budget: what for, the noise's scale, and the loss that OpenDP states for it."""

    purpose: str
    scale: float
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPlan:
    """Rows that were drawn from noisy counts, so that nothing here but ``n_outside`` was looked up without noise."""

    n_withheld: ClassVar[int] = 0  # a number of records would be one of the data

    domains: tuple[Domain, ...]
    codes: tuple[CodeArray, ...]  # (n_rows,) of each attribute
    pairs: tuple[Pair, ...]  # whose joint counts were kept
    epsilon: float  # as asked; what was spent is not more
    delta: float
    spent: Mapping[str, float]
    ledger: tuple[Spent, ...]
    n_outside: int = 0  # records left out because of a value outside its domain; for the data holder only
    search: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of synthetic rows."""
        return len(self.codes[0])

    @property
    def tree(self) -> tuple[tuple[str, str], ...]:
        """The pairs by their names."""
        return tuple((self.domains[first].name, self.domains[second].name) for first, second in self.pairs)

    @property
    def table(self) -> pa.Table:
        """The rows, each value by its label."""
        return pa.table({one.name: one.decode(codes) for one, codes in zip(self.domains, self.codes, strict=True)})

    def describe(self) -> dict[str, Any]:
        """Return what everybody may know of how it was made."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": "tables that differ by one record, added or removed",
            "spent": dict(self.spent),
            "tree": [list(pair) for pair in self.tree],
            "ledger": [{"purpose": use.purpose, "scale": use.scale, "loss": use.loss} for use in self.ledger],
        }


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An attribute and the leaves of its declared taxonomy, one of which may stand for missing values.

    Domains never come from the data: its being there would show that a rare value occurs. That holds for
    missing values too, so a domain has them if the policy counts them as a value, and not because one occurs.
    """

    name: str
    taxonomy: Taxonomy

    def __post_init__(self) -> None:
        """Refuse values that were taken from the data."""
        if not self.taxonomy.declared:
            raise PolicyError(
                f"column {self.name!r}: a differentially private table needs values that are declared, not taken from "
                "the data; give it a taxonomy that lists them all: intervals, dates with min and max, groups, a tree, "
                "a file, or flat with values"
            )

    @property
    def size(self) -> int:
        """The number of values."""
        return self.taxonomy.n_leaves

    def decode(self, codes: CodeArray) -> pa.Array:
        """Return the labels of codes."""
        return pa.array(self.taxonomy.leaf_labels, pa.string()).take(pa.array(codes))


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Cells of equal records; each record is in one cell of every table of counts."""

    codes: tuple[CodeArray, ...]  # (n_cells,) of each attribute
    counts: IntArray  # (n_cells,)
    domains: tuple[Domain, ...]

    def of(self, place: int) -> IntArray:
        """Return (size,) the records of each value."""
        return kernels.sum_groups(self.codes[place], self.counts, self.domains[place].size)

    def of_pair(self, pair: Pair) -> IntArray:
        """Return (size, size) the records of each two values of two attributes."""
        first, second = pair
        size = self.domains[first].size, self.domains[second].size
        joint = self.codes[first] * np.int32(size[1]) + self.codes[second]  # at most MOST_CELLS
        return kernels.sum_groups(joint, self.counts, size[0] * size[1]).reshape(size)

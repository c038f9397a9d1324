"""A synthetic table before it is written: its rows as codes, and its privacy account."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import PolicyError
from shoal.taxonomies.tree import Taxonomy

MOST_CELLS = 250_000  # of one table of counts
Attributes: TypeAlias = tuple[int, ...]  # places of attributes, ascending


@dataclass(frozen=True, slots=True)
class Spent:
    """One use of the privacy budget: its purpose, the noise's scale, and the loss that OpenDP computes."""

    purpose: str
    scale: float
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticPlan:
    """Rows drawn from noisy counts; only ``n_outside`` is exact."""

    n_withheld: ClassVar[int] = 0  # the number of records is confidential

    domains: tuple[Domain, ...]
    codes: tuple[CodeArray, ...]  # (n_rows,) of each attribute
    marginals: tuple[Attributes, ...]  # sets of two or more attributes with noisy joint counts
    epsilon: float  # the budget, an upper bound of the losses
    delta: float
    spent: Mapping[str, float]
    ledger: tuple[Spent, ...]
    sampled: Mapping[str, float] | None = None  # share and k, if rows are sampled records
    n_outside: int = 0  # records with a value outside its domain, left out; for the data holder only
    search: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        return len(self.codes[0])

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(self.domains[place].name for place in one) for one in self.marginals)

    @property
    def table(self) -> pa.Table:
        return pa.table({one.name: one.decode(codes) for one, codes in zip(self.domains, self.codes, strict=True)})

    def describe(self) -> dict[str, object]:
        """Return the public description of how the table was made."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": "tables that differ by one record, added or removed",
            "spent": dict(self.spent),
            "marginals": [list(one) for one in self.names],
            "ledger": [{"purpose": use.purpose, "scale": use.scale, "loss": use.loss} for use in self.ledger],
            **({} if self.sampled is None else {"sampled": dict(self.sampled)}),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An attribute and the leaves of its declared taxonomy, which may include one for missing values.

    Domains never come from the data, because a rare value would show that it occurs. The same holds for missing values:
    a domain includes them if the policy counts them as a value, not because one occurs.
    """

    name: str
    taxonomy: Taxonomy
    weight: float = 1.0  # relative importance
    level: int = 0  # of the published values

    def __post_init__(self) -> None:
        if not self.taxonomy.declared:
            raise PolicyError(f"column {self.name!r}: its values were taken from the data, not declared")

    @property
    def size(self) -> int:
        return self.taxonomy.n_leaves

    def generalize(self, codes: AnyIntArray) -> CodeArray:
        """Return the first leaf of the published node of each leaf."""
        tree = self.taxonomy
        return tree.lo[tree.node_at(self.level)][codes].astype(np.int32)

    def decode(self, codes: CodeArray) -> pa.Array:
        return pa.array(self.taxonomy.leaf_labels, pa.string()).take(pa.array(codes))


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Cells of equal records; each record is in one cell of every table of counts."""

    codes: tuple[CodeArray, ...]  # (n_cells,) of each attribute
    counts: IntArray  # (n_cells,)
    domains: tuple[Domain, ...]

    def count(self, attributes: Attributes) -> IntArray:
        """Return the records of each combination of values, with one axis for each attribute."""
        sizes = [self.domains[place].size for place in attributes]
        joint = self.codes[attributes[0]]
        for place, size in zip(attributes[1:], sizes[1:], strict=True):
            joint = joint * np.int32(size) + self.codes[place]  # at most MOST_CELLS
        return kernels.sum_groups(joint, self.counts, math.prod(sizes)).reshape(sizes)

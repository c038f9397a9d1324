"""A synthetic table before it is written: its rows in codes, and the account of what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.synthetic.domains import Domain, Pair
from shoal.synthetic.mechanisms import Spent


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

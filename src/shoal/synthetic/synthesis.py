"""The whole way from codes to a synthetic table, with its account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.chance import Chance
from shoal.errors import InputError, PolicyError
from shoal.synthetic.consistent import Measured, consistent, non_negative
from shoal.synthetic.domains import Domain
from shoal.synthetic.drawing import drawn_rows
from shoal.synthetic.mechanisms import Mechanisms, Spent, mechanisms_of
from shoal.synthetic.options import SyntheticOptions
from shoal.synthetic.tree import MOST_CELLS, Pair, chosen_tree, given_tree, pair_counts

ALONE, CHOICE = Fraction(3, 10), Fraction(2, 10)  # shares of the budget; the rest is for the pairs' counts
_MOST_ROWS = 10_000_000  # unless asked for: a small epsilon makes the noisy number of records anything


@dataclass(frozen=True, slots=True, eq=False)
class SyntheticTable:
    """A synthetic table, and what it cost."""

    table: pa.Table
    pairs: tuple[tuple[str, str], ...]
    epsilon: float  # as asked; what was spent is not more
    delta: float
    spent: dict[str, float]
    ledger: tuple[Spent, ...]
    n_outside: int  # records left out because of a value outside its domain; for the data holder only

    def describe(self) -> dict[str, Any]:
        """Return what everybody may know."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": "tables that differ by one record, added or removed",
            "spent": self.spent,
            "tree": [list(pair) for pair in self.pairs],
            "ledger": [{"purpose": use.purpose, "scale": use.scale, "loss": use.loss} for use in self.ledger],
        }


def synthesize(
    codes: Sequence[CodeArray], domains: Sequence[Domain], options: SyntheticOptions, chance: Chance
) -> SyntheticTable:
    """Return a table that is (epsilon, delta)-differentially private for each record of the given one.

    *codes* are (n_records,) of each attribute; a record with a value outside its domain, -1, is left out. All that is
    looked at in the data are counts with OpenDP's noise and choices by OpenDP's noisy maximum; the rest works on those.
    OpenDP draws from the operating system whatever the seed of *chance*, which only deals out the rows.
    """
    _check(codes, domains)
    inside = np.all([column >= 0 for column in codes], axis=0)
    kept = [column[inside] for column in codes]
    mechanisms = mechanisms_of(options.epsilon, options.delta)
    by_hand = None if options.tree is None else given_tree(options.tree, domains)
    alone, pairs = _measured(kept, domains, by_hand, mechanisms)
    model = consistent(alone, pairs)
    n_rows = options.rows or min(max(round(model.total), 1), _MOST_ROWS)
    rows = drawn_rows(model, n_rows, chance)
    columns = {domain.name: domain.decode(column) for domain, column in zip(domains, rows, strict=True)}
    return SyntheticTable(
        table=pa.table(columns),
        pairs=tuple((domains[first].name, domains[second].name) for first, second in pairs),
        epsilon=options.epsilon,
        delta=options.delta,
        spent=mechanisms.stated(),
        ledger=tuple(mechanisms.ledger),
        n_outside=int((~inside).sum()),
    )


def _check(codes: Sequence[CodeArray], domains: Sequence[Domain]) -> None:
    if not domains or len(codes) != len(domains):
        raise PolicyError("a synthetic table needs one column of codes for each of its attributes")
    for domain, column in zip(domains, codes, strict=True):
        if len(column) and int(column.max()) >= domain.size:
            raise InputError(f"column {domain.name!r} has codes outside its domain")
        if domain.size > MOST_CELLS:
            raise PolicyError(f"column {domain.name!r} has {domain.size:,} values, at most {MOST_CELLS:,} are possible")


def _measured(
    codes: Sequence[CodeArray], domains: Sequence[Domain], by_hand: list[Pair] | None, mechanisms: Mechanisms
) -> tuple[list[Measured], dict[Pair, Measured]]:
    """Count each attribute alone, choose pairs if none are given, and count those.

    What nothing can be spent on goes to what is left: a tree by hand costs nothing, and a single attribute has none.
    """
    n_pairs = len(domains) - 1 if by_hand is None else len(by_hand)
    choice = CHOICE if by_hand is None else Fraction(0)
    of_alone = (ALONE if n_pairs else Fraction(1)) / len(domains)
    of_pair = (1 - ALONE - choice) / n_pairs if n_pairs else Fraction(0)
    alone = []
    for domain, column in zip(domains, codes, strict=True):
        counts = np.bincount(column, minlength=domain.size)
        alone.append(Measured(*mechanisms.noisy_counts(counts, of_alone, f"counts of {domain.name}")))
    if by_hand is None and n_pairs:
        estimates = [non_negative(m.counts.astype(np.float64), max(float(m.counts.sum()), 1.0)) for m in alone]
        by_hand = chosen_tree(codes, domains, estimates, mechanisms, choice, of_pair)
    pairs = {}
    for pair in by_hand or []:
        counts = pair_counts(codes, domains, pair)
        purpose = f"counts of {domains[pair[0]].name} and {domains[pair[1]].name}"
        pairs[pair] = Measured(*mechanisms.noisy_counts(counts, of_pair, purpose))
    return alone, pairs

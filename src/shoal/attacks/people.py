"""People as an adversary knows them, in the codes of a release, and the answers that its guesses are judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import AnyIntArray, CodeArray, FloatArray
from shoal.attacks.base import FEWEST
from shoal.errors import UsageError

UNKNOWN = -1  # code of an attribute that an adversary does not know of a person


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Rows of a table about people: what is known of them, and what is to be found out."""

    codes: CodeArray  # (n, n_known) of the quasi attributes, in the view's codes, or UNKNOWN
    numbers: FloatArray  # (n, n_known) as numbers, days since 1970 for dates; NaN for categories and missing ones
    secrets: Mapping[str, CodeArray]  # sensitive attribute -> (n,) place among the view's values; -1: not published
    table: pa.Table  # the rows as they are

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: AnyIntArray) -> People:
        return People(
            self.codes[rows],
            self.numbers[rows],
            {name: values[rows] for name, values in self.secrets.items()},
            self.table.take(pa.array(rows)),
        )

    def drawn(self, n: int, rng: np.random.Generator) -> People:
        """Return n of them, or all if there are fewer; nobody twice."""
        if len(self) < FEWEST:
            raise UsageError(f"fewer than {FEWEST} people tell nothing; give larger tables")
        return self[rng.permutation(len(self))[:n]]

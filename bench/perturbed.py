"""Adult made large: rows drawn again and again, with a few values exchanged so that they are not mere copies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EXCHANGED = 0.02  # of the values of each perturbed column
BLOCK = 500_000


def perturbed(table: pa.Table, n: int, columns: Sequence[str], rng: np.random.Generator) -> pa.Table:
    """Return *n* rows of the table, drawn with replacement.

    In each of the *columns* a value is exchanged, with a small probability and independently of the rest of its row,
    for the one that another random row has there; so every column keeps its frequencies.
    """
    rows = rng.integers(0, table.num_rows, size=n)
    drawn = {}
    for name in table.column_names:
        source = rows
        if name in columns:
            source = np.where(rng.random(n) < EXCHANGED, rng.integers(0, table.num_rows, size=n), rows)
        drawn[name] = table[name].take(pa.array(source))
    return pa.table(drawn)


def write_perturbed(path: Path, table: pa.Table, n: int, columns: Sequence[str], seed: int) -> Path:
    """Write *n* such rows as Parquet, block by block."""
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, table.schema) as writer:
        for first in range(0, n, BLOCK):
            writer.write_table(perturbed(table, min(BLOCK, n - first), columns, rng))
    return path

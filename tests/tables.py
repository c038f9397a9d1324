"""Tables of generated people, and what a policy says of their columns: shared by tests that need any people at all.

A column depends on the seed and its own name only, so that a test may take those it needs. Tests that need
people of a particular shape (a planted record, a dependence, a rare value) make them themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, product
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest

from shoal.plan.problem import Problem
from shoal.utility.rows import Column, Rows, Tables

ILLNESSES = {"body": ["angina", "gout"], "germs": ["flu", "mumps"]}

# what a policy says of each column; "plain" below leaves the taxonomy out
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "name": {"role": "identifier"},
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [5, 10, 40]}}},
    "sex": {"role": "quasi"},
    "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
    "day": {"role": "quasi"},
    "town": {"role": "quasi"},
    "illness": {"role": "sensitive", "taxonomy": {"groups": ILLNESSES}},
    "job": {"role": "sensitive", "taxonomy": {"groups": {"hot": ["cook", "smith"], "cold": ["clerk"]}}},
    "wage": {"role": "sensitive"},
    "cost": {"role": "insensitive"},
    "row": {"role": "insensitive"},
}


def people(
    n_rows: int = 300,
    seed: int = 1,
    columns: str = "age sex zip illness",
    *,
    missing: float | Mapping[str, float] = 0.0,
    **own: Any,
) -> pa.Table:
    """People with these columns; `missing` is the share of empty cells, of all columns or of those named."""
    made = {name: own.get(name) if name in own else _column(name, n_rows, seed) for name in columns.split()} | own
    shares = missing if isinstance(missing, Mapping) else dict.fromkeys(made, missing)
    return pa.table(
        {
            name: pa.array(values, mask=_generator(name, seed, 1).random(n_rows) < shares[name])
            if shares.get(name)
            else values
            for name, values in made.items()
        }
    )


def attributes(columns: str, *, plain: bool = False, **changed: Any) -> dict[str, dict[str, Any]]:
    """The part of a policy that describes these columns; an entry that is changed is a role or entries to add."""
    entries = {name: dict(ATTRIBUTES[name]) for name in columns.split()}
    if plain:
        entries = {name: {"role": entry["role"]} for name, entry in entries.items()}
    for name, change in changed.items():
        entries[name] = entries.get(name, {}) | ({"role": change} if isinstance(change, str) else change)
    return entries


def _generator(name: str, *seeds: int) -> np.random.Generator:
    return np.random.default_rng([crc32(name.encode()), *seeds])


def _column(name: str, n: int, seed: int) -> Any:
    rng = _generator(name, seed)
    match name:
        case "name":
            return [f"person {seed}-{number}" for number in range(n)]
        case "age":
            return np.clip(rng.normal(45, 14, n).round(), 18, 90).astype(int)
        case "sex":
            return rng.choice(["f", "m"], n)
        case "zip":  # near to the age, so that classes are worth finding
            return (60000 + 10 * (_column("age", n, seed) // 15) + rng.integers(0, 4, n)).astype(str)
        case "day":
            return [f"2024-{month:02}-{day:02}" for month, day in rng.integers([1, 1], [4, 28], (n, 2))]
        case "town":
            return rng.choice(["Bonn", "Celle", "Trier", "Ulm"], n)
        case "illness":
            return rng.choice(["angina", "flu", "gout", "mumps"], n, p=[0.3, 0.3, 0.25, 0.15])
        case "job":
            return rng.choice(["clerk", "cook", "smith"], n)
        case "wage":
            return rng.integers(1000, 9000, n)
        case "cost":
            return rng.integers(0, 1000, n)
        case "row":
            return [f"r{number}" for number in range(n)]
    raise KeyError(name)


def original_rows(problem: Problem) -> Rows:
    """The counted table itself, as if it were published."""
    attributes = (*problem.quasi, *problem.sensitive)
    columns = (
        Column.of_leaves(own, a.taxonomy.n_leaves) for own, a in zip(problem.cells.codes, attributes, strict=True)
    )
    return Rows(tuple(columns), problem.cells.counts.astype(float))


def tabulate_leaves(rows: Rows) -> Tables:
    """The tables of rows in which every leaf is a bin."""
    return rows.tabulate([np.arange(column.n_leaves + 1) for column in rows.columns])


def cover(*choices: Iterable[Any], names: tuple[int, ...] = ()) -> list[Any]:
    """All combinations as parameters of a test; all but a few in which every choice occurs are marked as thorough.

    *names* has the numbers of parameters that one choice gives; those of several are tuples.
    """
    listed = [tuple(choice) for choice in choices]
    usual = {tuple(place % len(choice) for choice in listed) for place in range(max(map(len, listed)))}
    parameters = []
    for places in product(*(range(len(choice)) for choice in listed)):
        chosen = [choice[place] for choice, place in zip(listed, places, strict=True)]
        parts = [one if n > 1 else (one,) for one, n in zip(chosen, names or (1,) * len(chosen), strict=True)]
        marks = () if places in usual else pytest.mark.thorough
        parameters.append(pytest.param(*chain.from_iterable(parts), marks=marks))
    return parameters

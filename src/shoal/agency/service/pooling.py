"""From the tables of a campaign to its plan: pure computation, without a database."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.agency.distribution import JointDistribution, read_distribution
from shoal.agency.planning import make_plan, plan_document, round_down
from shoal.agency.service.counted import LARGEST, CountedTable
from shoal.agency.service.messages import LARGEST as LARGEST_SENT
from shoal.agency.service.messages import Arrangement, Domain, Order, Records
from shoal.core.errors import InputError, UnreachableError
from shoal.core.kernels import pack
from shoal.sources.arrow import open_arrow
from shoal.sources.options import SourceOptions
from shoal.taxonomies.construct import from_levels, scale_of


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a plan shall keep."""

    l: int
    delta: float
    eta: float
    order: Order
    arrangement: Arrangement
    records: Records
    p: float | None = None
    samples: int | None = None


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan as it is stored: its numbers, and its document as it is sent."""

    n: int
    n_tight: int
    records: int
    m: float
    p: float
    classes: int
    digest: str
    document: str


def plan_of(domain: Domain, tables: Sequence[CountedTable], wanted: Wanted, most_points: int) -> MadePlan:
    """Add up the tables exactly and plan; what cannot be planned raises as ``shoal agency plan`` does."""
    known = pooled(domain, tables, wanted.order, most_points)
    plan = make_plan(
        known,
        l=wanted.l,
        delta=_exact(wanted.delta),
        p=None if wanted.p is None else _exact(wanted.p),
        samples=wanted.samples,
        eta=_exact(wanted.eta),
        arrangement=wanted.arrangement,
        records=wanted.records,
    )
    if plan.n > LARGEST_SENT:
        raise UnreachableError(f"owners would need more than {LARGEST_SENT:,} records; take a larger p or delta")
    document = plan_document(plan)
    return MadePlan(
        n=plan.n,
        n_tight=plan.n_tight,
        records=plan.records,
        m=float(plan.m),
        p=round_down(plan.p),
        classes=plan.classes.n_classes,
        digest=str(document["digest"]),
        document=json.dumps(document, allow_nan=False, separators=(",", ":")),
    )


def pooled(domain: Domain, tables: Sequence[CountedTable], order: Order, most_points: int) -> JointDistribution:
    """Return the distribution that tables have together.

    Every combination of quasi values is part of the agreed domain if there are at most *most_points*; else only those
    that a table names, be it with 0. All sensitive values are always part of it.
    """
    sizes = [len(values) for values in domain.values]
    codes = [np.concatenate(column) for column in zip(*(table.codes() for table in tables), strict=True)]
    if len(tables) == 1:
        weights: pa.ChunkedArray | pa.Array = tables[0].weights()
    else:
        codes, weights = _added(codes, sizes, [table.weights().to_numpy() for table in tables])
    silent = _silent(codes, sizes, most_points)
    nothing = pa.array(["0"] * len(silent[0])) if pa.types.is_string(weights.type) else np.zeros(len(silent[0]))
    filled = pa.chunked_array([*_chunks(weights), pa.array(nothing).cast(weights.type)])
    columns = {
        name: _column(np.concatenate((told, untold)), values)
        for name, values, told, untold in zip(domain.names, domain.values, codes, silent, strict=True)
    }
    counted = pa.types.is_integer(weights.type)
    table = pa.table({**columns, "count" if counted else "probability": filled})
    source = open_arrow(table, SourceOptions(), "the table")
    trees = None
    if order == "taxonomy":
        trees = {
            entry.name: from_levels(entry.values, [], scale_of(entry.values), declared=True) for entry in domain.quasi
        }
    return read_distribution(source, domain.sensitive.name, order=order, attributes=domain.names[:-1], taxonomies=trees)


def _added(codes: list[Any], sizes: list[int], weights: list[Any]) -> tuple[list[Any], pa.Array]:
    """Add up rows of the same combination."""
    if sum(int(column.sum()) for column in weights) >= LARGEST:
        raise InputError("the owners' counts sum to 2^62 or more; shoal cannot count that far")
    _, first, places = np.unique(pack(codes, sizes), return_index=True, return_inverse=True)
    sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(sums, places, np.concatenate(weights))
    return [column[first] for column in codes], pa.array(sums)


def _silent(codes: list[Any], sizes: list[int], most_points: int) -> list[Any]:
    """Return the codes of rows with 0 that the domain needs: points that no table names, and sensitive values."""
    quasi = [column.astype(np.int32) for column in codes[:-1]]
    missing: list[Any] = [np.zeros(0, dtype=np.int32) for _ in quasi]
    if math.prod(sizes[:-1]) <= most_points:
        told = np.ravel_multi_index(quasi, sizes[:-1])
        untold = np.setdiff1d(np.arange(math.prod(sizes[:-1])), told)
        missing = [column.astype(np.int32) for column in np.unravel_index(untold, sizes[:-1])]
    first = np.logical_and.reduce([column == column[0] for column in quasi])
    values = np.setdiff1d(np.arange(sizes[-1], dtype=np.int32), codes[-1][first])
    sensitive = np.concatenate((np.zeros(len(missing[0]), dtype=np.int32), values))
    at_first = [np.full(len(values), column[0], dtype=np.int32) for column in quasi]
    return [*(np.concatenate(pair) for pair in zip(missing, at_first, strict=True)), sensitive]


def _column(codes: Any, values: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array(values, pa.string())
    ).dictionary_decode()


def _chunks(values: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]


def _exact(value: float) -> Fraction:
    """Return the decimal that was sent."""
    return Fraction(repr(value))

"""Tables of counts or probabilities that callers send, and the plan that is made from them: without a database.

Tables are checked against the domain and kept as codes into it; the counts of owners are added up exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.agency.distribution import JointDistribution, read_distribution
from shoal.agency.planning import make_plan, plan_document, round_down
from shoal.agency.service.messages import LARGEST as LARGEST_SENT
from shoal.agency.service.messages import Arrangement, Domain, Order, Records
from shoal.core.errors import InputError, UnreachableError
from shoal.core.kernels import pack
from shoal.sources.base import SourceOptions
from shoal.sources.frames import open_arrow
from shoal.taxonomies.construct import from_levels, scale_of
from shoal.taxonomies.parse import decimal_numbers

LARGEST = 2**62
_WEIGHT = "weight"


@dataclass(frozen=True, slots=True, eq=False)
class CountedTable:
    """Rows of the domain with a weight each: columns 0, 1, ... of codes and ``weight``."""

    table: pa.Table
    counted: bool

    @property
    def records(self) -> int | None:
        """How many records were counted; None for probabilities."""
        return int(pc.sum(self.table.column(_WEIGHT)).as_py()) if self.counted else None

    def serialize(self) -> bytes:
        """Return it as it is kept."""
        sink = pa.BufferOutputStream()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(sink, self.table.schema, options=options) as writer:
            writer.write_table(self.table)
        return bytes(sink.getvalue())

    def codes(self) -> list[Any]:
        """Return (n_rows,) codes of each column of the domain."""
        return [self.table.column(name).to_numpy() for name in self.table.column_names[:-1]]

    def weights(self) -> pa.ChunkedArray:
        """Return (n_rows,) counts, or probabilities as they were written."""
        return self.table.column(_WEIGHT)


def from_storage(content: bytes) -> CountedTable:
    """Read what ``serialize`` made."""
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    return CountedTable(table, pa.types.is_integer(table.schema.field(_WEIGHT).type))


def read_rows(columns: list[str], rows: list[Any], domain: Domain, *, probabilities: bool, most: int) -> CountedTable:
    """Check rows against the domain; what is outside, repeated or no number is an error that names columns only."""
    weight = _find_weight(columns, domain.names, probabilities=probabilities)
    if len(rows) > most:
        raise InputError(f"a table may have {most:,} rows, this one has {len(rows):,}")
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {len(columns)}:
        raise InputError(f"every row must have {len(columns)} values, one for each of its columns")
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    codes = [_encode(cells[name], name, values) for name, values in zip(domain.names, domain.values, strict=True)]
    key = pack(codes, [len(values) for values in domain.values])
    if repeated := len(key) - len(np.unique(key)):
        raise InputError(f"{repeated:,} rows repeat a combination of another row; add them up")
    kept = _read_counts(cells[weight]) if weight == "count" else _read_probabilities(cells[weight])
    names = [*map(str, range(len(codes))), _WEIGHT]
    return CountedTable(pa.table([*map(pa.array, codes), kept], names=names), weight == "count")


def _find_weight(columns: list[str], names: list[str], *, probabilities: bool) -> str:
    weights = ("count", "probability") if probabilities else ("count",)
    for weight in weights:
        if sorted(columns) == sorted([*names, weight]):
            return weight
    wanted = " or ".join(map(repr, weights))
    raise InputError(f"the columns must be those of the campaign ({', '.join(map(repr, names))}) and {wanted}")


def _encode(cells: tuple[Any, ...], name: str, values: list[str]) -> Any:
    if set(map(type, cells)) != {str}:
        raise InputError(f"column {name!r} must have texts only, as the domain has")
    found = pc.index_in(pa.array(cells, pa.string()), value_set=pa.array(values, pa.string()))
    if found.null_count:
        raise InputError(f"column {name!r} has {found.null_count:,} rows with a value outside the campaign's domain")
    return found.to_numpy().astype(np.int32)


def _read_counts(cells: tuple[Any, ...]) -> pa.Array:
    if set(map(type, cells)) != {int}:
        raise InputError("column 'count' must have whole numbers only")
    if min(cells) < 0:
        raise InputError("column 'count' has negative numbers")
    if sum(cells) >= LARGEST:
        raise InputError("column 'count' sums to 2^62 or more; shoal cannot count that far")
    return pa.array(cells, pa.int64())


def _read_probabilities(cells: tuple[Any, ...]) -> pa.Array:
    kinds = set(map(type, cells))
    if kinds == {str}:
        if max(map(len, cells)) > 100:
            raise InputError("column 'probability' has texts that are too long for a number")
        written = pa.array(cells, pa.string())
        if invalid := int((~decimal_numbers(written)[1]).sum()):
            raise InputError(f"column 'probability' has {invalid:,} texts that are no numbers")
        return written
    if not kinds <= {int, float}:
        raise InputError("column 'probability' must have numbers only, or decimal texts only")
    if not all(0 <= cell <= 1 for cell in cells):
        raise InputError("column 'probability' has numbers below 0 or above 1")
    return pa.array(list(map(float, cells)), pa.float64())


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
    known = pool(domain, tables, wanted.order, most_points)
    plan = make_plan(
        known,
        promise=wanted.l,
        delta=_read_exactly(wanted.delta),
        p=None if wanted.p is None else _read_exactly(wanted.p),
        samples=wanted.samples,
        eta=_read_exactly(wanted.eta),
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


def pool(domain: Domain, tables: Sequence[CountedTable], order: Order, most_points: int) -> JointDistribution:
    """Return the distribution that tables have together.

    Every combination of quasi values is part of the agreed domain if there are at most *most_points*; else only those
    that a table names, be it with 0. All sensitive values are always part of it.
    """
    sizes = [len(values) for values in domain.values]
    codes = [np.concatenate(column) for column in zip(*(table.codes() for table in tables), strict=True)]
    if len(tables) == 1:
        weights: pa.ChunkedArray | pa.Array = tables[0].weights()
    else:
        codes, weights = _add_up(codes, sizes, [table.weights().to_numpy() for table in tables])
    silent = _find_silent(codes, sizes, most_points)
    nothing = pa.array(["0"] * len(silent[0])) if pa.types.is_string(weights.type) else np.zeros(len(silent[0]))
    filled = pa.chunked_array([*_chunks(weights), pa.array(nothing).cast(weights.type)])
    columns = {
        name: _decode(np.concatenate((named, silent_codes)), values)
        for name, values, named, silent_codes in zip(domain.names, domain.values, codes, silent, strict=True)
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


def _add_up(codes: list[Any], sizes: list[int], weights: list[Any]) -> tuple[list[Any], pa.Array]:
    """Add up rows of the same combination."""
    if sum(int(column.sum()) for column in weights) >= LARGEST:
        raise InputError("the owners' counts sum to 2^62 or more; shoal cannot count that far")
    _, first, places = np.unique(pack(codes, sizes), return_index=True, return_inverse=True)
    sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(sums, places, np.concatenate(weights))
    return [column[first] for column in codes], pa.array(sums)


def _find_silent(codes: list[Any], sizes: list[int], most_points: int) -> list[Any]:
    """Return the codes of rows with 0 that the domain needs: points that no table names, and sensitive values."""
    quasi = [column.astype(np.int32) for column in codes[:-1]]
    missing: list[Any] = [np.zeros(0, dtype=np.int32) for _ in quasi]
    if math.prod(sizes[:-1]) <= most_points:
        named = np.ravel_multi_index(quasi, sizes[:-1])
        unnamed = np.setdiff1d(np.arange(math.prod(sizes[:-1])), named)
        missing = [column.astype(np.int32) for column in np.unravel_index(unnamed, sizes[:-1])]
    first = np.logical_and.reduce([column == column[0] for column in quasi])
    values = np.setdiff1d(np.arange(sizes[-1], dtype=np.int32), codes[-1][first])
    sensitive = np.concatenate((np.zeros(len(missing[0]), dtype=np.int32), values))
    at_first = [np.full(len(values), column[0], dtype=np.int32) for column in quasi]
    return [*(np.concatenate(pair) for pair in zip(missing, at_first, strict=True)), sensitive]


def _decode(codes: Any, values: Sequence[str]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array(values, pa.string())
    ).dictionary_decode()


def _chunks(values: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    return values.chunks if isinstance(values, pa.ChunkedArray) else [values]


def _read_exactly(value: float) -> Fraction:
    """Return the decimal that was sent."""
    return Fraction(repr(value))

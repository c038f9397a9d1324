"""Tables of counts or probabilities that callers send: checked against the domain and kept as codes into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.agency.service.messages import Domain
from shoal.core.errors import InputError
from shoal.core.kernels import pack
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

    def stored(self) -> bytes:
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
    """Read what ``stored`` made."""
    with pa.ipc.open_stream(content) as reader:
        table = reader.read_all()
    return CountedTable(table, pa.types.is_integer(table.schema.field(_WEIGHT).type))


def read_rows(columns: list[str], rows: list[Any], domain: Domain, *, probabilities: bool, most: int) -> CountedTable:
    """Check rows against the domain; what is outside, repeated or no number is an error that names columns only."""
    weight = _weight_column(columns, domain.names, probabilities=probabilities)
    if len(rows) > most:
        raise InputError(f"a table may have {most:,} rows, this one has {len(rows):,}")
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {len(columns)}:
        raise InputError(f"every row must have {len(columns)} values, one for each of its columns")
    cells = dict(zip(columns, zip(*rows, strict=True), strict=True))
    codes = [_coded(cells[name], name, values) for name, values in zip(domain.names, domain.values, strict=True)]
    key = pack(codes, [len(values) for values in domain.values])
    if repeated := len(key) - len(np.unique(key)):
        raise InputError(f"{repeated:,} rows repeat a combination of another row; add them up")
    kept = _counts(cells[weight]) if weight == "count" else _probabilities(cells[weight])
    names = [*map(str, range(len(codes))), _WEIGHT]
    return CountedTable(pa.table([*map(pa.array, codes), kept], names=names), weight == "count")


def _weight_column(columns: list[str], names: list[str], *, probabilities: bool) -> str:
    weights = ("count", "probability") if probabilities else ("count",)
    for weight in weights:
        if sorted(columns) == sorted([*names, weight]):
            return weight
    wanted = " or ".join(map(repr, weights))
    raise InputError(f"the columns must be those of the campaign ({', '.join(map(repr, names))}) and {wanted}")


def _coded(cells: tuple[Any, ...], name: str, values: list[str]) -> Any:
    if set(map(type, cells)) != {str}:
        raise InputError(f"column {name!r} must have texts only, as the domain has")
    found = pc.index_in(pa.array(cells, pa.string()), value_set=pa.array(values, pa.string()))
    if found.null_count:
        raise InputError(f"column {name!r} has {found.null_count:,} rows with a value outside the campaign's domain")
    return found.to_numpy().astype(np.int32)


def _counts(cells: tuple[Any, ...]) -> pa.Array:
    if set(map(type, cells)) != {int}:
        raise InputError("column 'count' must have whole numbers only")
    if min(cells) < 0:
        raise InputError("column 'count' has negative numbers")
    if sum(cells) >= LARGEST:
        raise InputError("column 'count' sums to 2^62 or more; shoal cannot count that far")
    return pa.array(cells, pa.int64())


def _probabilities(cells: tuple[Any, ...]) -> pa.Array:
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

"""Tables in memory: Arrow tables, data frames and relations of other libraries, which are not imported here."""

from __future__ import annotations

import hashlib
import io
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from shoal.core.errors import InputError
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import check_names, normal_schema, plain

BATCH_ROWS = 1 << 20


def as_table(data: object) -> tuple[pa.Table, str] | None:
    """Return the rows as an Arrow table and a name for messages, or None if the kind of *data* is unknown.

    A lazy table is evaluated here, once: counting and rewriting must see the same rows.
    """
    if isinstance(data, pa.Table):
        return data, "the pyarrow Table"
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data]), "the pyarrow RecordBatch"
    if _is(data, "pandas", "DataFrame"):
        return _from_pandas(data), "the pandas DataFrame"
    if _is(data, "polars", "LazyFrame"):
        return data.collect().to_arrow(), "the polars LazyFrame"  # type: ignore[attr-defined]
    if _is(data, "polars", "DataFrame"):
        return data.to_arrow(), "the polars DataFrame"  # type: ignore[attr-defined]
    if _is(data, "duckdb", "DuckDBPyRelation"):
        return data.to_arrow_table(), "the DuckDB relation"  # type: ignore[attr-defined]
    return None


def like(data: object, table: pa.Table) -> object:
    """Convert *table* to the kind of object that *data* is, or to an Arrow table if *data* is a path.

    The result has no dictionaries, metadata or index, which could reveal something about the source. A DuckDB
    relation belongs to the default connection, because the connection of *data* cannot be found.

    >>> like(pa.table({"a": [1]}), pa.table({"b": pa.array(["x"]).dictionary_encode()})).schema
    b: string
    """
    rows = plain(table)
    if _is(data, "pandas", "DataFrame"):
        return _to_pandas(rows)
    if _is(data, "polars", "DataFrame"):
        return sys.modules["polars"].from_arrow(rows)
    if _is(data, "polars", "LazyFrame"):
        return sys.modules["polars"].from_arrow(rows).lazy()
    if _is(data, "duckdb", "DuckDBPyRelation"):
        return sys.modules["duckdb"].from_arrow(rows)
    if is_spark_frame(data):
        from shoal.sources.spark.session import explain_failures, quiet

        with quiet(), explain_failures("the release"):
            return data.sparkSession.createDataFrame(rows)  # type: ignore[attr-defined]
    return rows


def is_spark_frame(data: object) -> bool:
    return _is(data, "pyspark.sql", "DataFrame")


def _is(data: object, library: str, kind: str) -> bool:
    """Whether *data* is an instance of a library's class; a library that is not loaded cannot have made it."""
    known = getattr(sys.modules.get(library), kind, None)
    return known is not None and isinstance(data, known)


def _from_pandas(frame: Any) -> pa.Table:
    """Convert each column separately, and name a column that cannot be converted."""
    names = [str(name) for name in frame.columns]
    check_names(names, "the pandas DataFrame")
    infer = sys.modules["pandas"].api.types.infer_dtype
    arrays = []
    for i, name in enumerate(names):
        series, found = frame.iloc[:, i], None
        if series.dtype != object or infer(series, skipna=True) not in {"mixed", "mixed-integer"}:
            with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):  # the message would quote a value
                found = pa.array(series, from_pandas=True)
        if found is None:
            raise InputError(
                f"column {name!r} of the pandas DataFrame mixes types or holds objects; convert it, for example by "
                f"astype('string')"
            )
        arrays.append(found)
    return pa.table(arrays, names=names)


def _to_pandas(table: pa.Table) -> object:
    pandas = sys.modules["pandas"]
    kinds = {f"{sign}int{bits}": f"{sign.upper()}Int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    named = (kinds | {"bool_": "Boolean"}).items()
    nullable = {getattr(pa, kind)(): getattr(pandas, f"{name}Dtype")() for kind, name in named}

    def series(column: pa.ChunkedArray) -> object:
        # Without this, integers and truth values with gaps would turn into floats and objects.
        gaps = column.null_count > 0 and (pt.is_integer(column.type) or pt.is_boolean(column.type))
        return column.to_pandas(types_mapper=nullable.get if gaps else None)

    return pandas.DataFrame({name: series(table.column(name)) for name in table.column_names})


@dataclass(frozen=True, slots=True, eq=False)
class ArrowSource(Source):
    """An Arrow table without its metadata."""

    table: pa.Table
    batch_rows: int

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        yield from self.table.select(columns).to_batches(max_chunksize=self.batch_rows)

    def digest(self) -> str:
        """Return the SHA-256 of the rows as an Arrow stream, which does not depend on the table's chunks."""
        parts = (self.table.slice(start, BATCH_ROWS) for start in range(0, self.table.num_rows, BATCH_ROWS))
        return digest_rows((plain(part).combine_chunks() for part in parts), self.schema)


class _Digest(io.RawIOBase):
    """A file that only computes the digest of its content."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.hash.update(data)
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size


def digest_rows(rows: Iterable[pa.Table | pa.RecordBatch], schema: pa.Schema) -> str:
    """Return the SHA-256 of rows as an Arrow stream, which depends on the batches."""
    sink = _Digest()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), schema) as stream:
        for part in rows:
            stream.write(part)
    return sink.hash.hexdigest()


def open_arrow(table: pa.Table, options: SourceOptions, name: str, batch_rows: int = BATCH_ROWS) -> ArrowSource:
    check_names(table.column_names, name)
    if table.num_rows == 0:
        raise InputError(f"{name} has no rows")
    return ArrowSource(
        name=name,
        schema=normal_schema(table.schema),
        n_rows=table.num_rows,
        cleaning=options.cleaning,
        table=table,
        batch_rows=batch_rows,
    )

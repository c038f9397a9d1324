"""Opening a file, a folder, a database table or an object in memory as a source."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from shoal.core.errors import InputError, UsageError
from shoal.sources.addresses import DatabaseTable, is_address, refuse_address_as_path
from shoal.sources.base import Source, SourceOptions
from shoal.sources.delimited import open_delimited
from shoal.sources.frames import as_table, is_spark_frame, open_arrow
from shoal.sources.parquet import ENDINGS as _PARQUET
from shoal.sources.parquet import open_parquet

_DELIMITED = frozenset({".csv", ".tsv", ".txt"})
_STATISTICAL = frozenset({".dta", ".sav", ".zsav"})
_KINDS = (
    "a path to a .csv, .tsv or .txt file (also .gz), to a .parquet file or a folder of them, to a .xlsx, .dta, .sav or "
    ".zsav file, an address of a table in a database, a pandas, polars or Spark DataFrame, a pyarrow Table or a "
    "DuckDB relation"
)


def open_source(data: object, options: SourceOptions | None = None) -> Source:
    """Open a file, a folder, a database table or a table in memory, which can then be read any number of times.

    >>> source = open_source(pa.table({"age": [34, 51], "sex": ["F", ""]}))
    >>> next(source.batches(["sex"])).column("sex").to_pylist()
    ['F', None]
    """
    if isinstance(data, Source):
        return data
    chosen = options or SourceOptions()
    if isinstance(data, str) and is_address(data):
        data = DatabaseTable.of(data)
    source: Source
    if isinstance(data, DatabaseTable):
        from shoal.sources.databases.tables import open_database

        source = open_database(data, chosen)
    elif isinstance(data, str | os.PathLike):
        source = _open_path(Path(data), chosen)
    elif isinstance(data, pa.RecordBatchReader):
        raise UsageError("a RecordBatchReader can be read only once; give its read_all() instead")
    elif is_spark_frame(data):
        from shoal.sources.spark.source import open_spark

        source = open_spark(data, chosen)  # type: ignore[arg-type]
    elif (found := as_table(data)) is None:
        raise UsageError(f"cannot read an object of type {type(data).__name__}; give {_KINDS}")
    else:
        source = open_arrow(found[0], chosen, found[1])
    chosen.check_columns(source)
    return source


def is_delimited(data: object) -> bool:
    """Whether this is a delimited text file, perhaps packed, by its ending."""
    return isinstance(data, str | os.PathLike) and _find_kind(Path(data)) in _DELIMITED and Path(data).is_file()


def _find_kind(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else suffixes[-1] if suffixes else ""


def _open_path(path: Path, options: SourceOptions) -> Source:
    refuse_address_as_path(str(path))
    if str(path) == "-" or path.is_fifo() or path.is_char_device():
        raise UsageError(
            f"{path} can be read only once, and shoal reads a table several times; write it to a file first, and name "
            "that"
        )
    if not path.exists():
        raise InputError(f"there is no file {path}")
    kind = _find_kind(path)
    try:
        if path.is_dir() or kind in _PARQUET:
            return open_parquet(path, options)
        if kind in _DELIMITED:
            return open_delimited(path, options)
        if kind == ".xlsx":
            from shoal.sources.workbook import open_workbook

            return open_workbook(path, options)
        if kind in _STATISTICAL:
            from shoal.sources.statistical import open_statistical

            return open_statistical(path, options)
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or 'input or output error'}") from None
    raise UsageError(f"cannot tell what {path.name} is by its ending; give {_KINDS}")

"""Parquet files and folders of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.errors import InputError
from shoal.sources.base import Source
from shoal.sources.columns import check_names, normal_schema
from shoal.sources.digests import source_digest
from shoal.sources.options import SourceOptions

BATCH_ROWS = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class ParquetSource(Source):
    """One Parquet file, or the files of a folder in the order of their names, read by their dictionaries."""

    paths: tuple[Path, ...]
    batch_rows: int

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            try:
                # Buffering ahead keeps all row groups asked for in memory at once: not wanted here.
                with pq.ParquetFile(path, read_dictionary=sorted(coded), pre_buffer=False) as file:
                    if not {*columns} <= {*file.schema_arrow.names}:
                        raise _changed(path)
                    yield from file.iter_batches(batch_size=self.batch_rows, columns=columns, use_threads=True)
            except (pa.ArrowException, OSError):
                raise InputError(_damaged(path)) from None
            except KeyError:  # a column that was to be read by its dictionary
                raise _changed(path) from None

    def digest(self) -> str:
        """Return the SHA-256 of the file's bytes; of a folder, that of its files' names and digests."""
        digests = [source_digest(path) for path in self.paths]
        if len(self.paths) == 1 and self.paths[0].name == self.name:
            return digests[0]
        listing = "".join(f"{digest}  {path.name}\n" for digest, path in zip(digests, self.paths, strict=True))
        return hashlib.sha256(listing.encode()).hexdigest()


def open_parquet(path: Path, options: SourceOptions, batch_rows: int = BATCH_ROWS) -> ParquetSource:
    """Open a Parquet file or a folder of them, all with the same columns."""
    paths: tuple[Path, ...] = (path,)
    if path.is_dir():
        hidden = ("_", ".")
        paths = tuple(sorted(p for p in path.glob("*.parquet") if not p.name.startswith(hidden)))
        if not paths:
            raise InputError(f"folder {path.name} has no .parquet files")
    schemas, counts = zip(*(_look(p) for p in paths), strict=True)
    for other, schema in zip(paths, schemas, strict=True):
        check_names(schema.names, other.name)
        _check_same(schemas[0], schema, paths[0].name, other.name)
    n_rows = sum(counts)
    if n_rows == 0:
        raise InputError(f"{path.name} has no rows")
    return ParquetSource(
        name=path.name,
        schema=schemas[0],
        n_rows=n_rows,
        missing=tuple(options.missing),
        paths=paths,
        batch_rows=batch_rows,
    )


def _look(path: Path) -> tuple[pa.Schema, int]:
    """Return the normal schema and the number of rows."""
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty")
    try:
        with pq.ParquetFile(path) as file:
            return normal_schema(file.schema_arrow), file.metadata.num_rows
    except (pa.ArrowException, OSError):
        raise InputError(_damaged(path)) from None


def _changed(path: Path) -> InputError:
    return InputError(f"{path.name} changed while it was being read: a column is gone")


def _damaged(path: Path) -> str:
    return f"{path.name} is not a readable Parquet file: it breaks off, is damaged or is something else"


def _check_same(expected: pa.Schema, received: pa.Schema, first: str, other: str) -> None:
    """Raise if two files of a folder differ in their columns; their order may differ."""
    names = dict.fromkeys((*expected.names, *received.names))
    differing = [
        name
        for name in names
        if name not in expected.names
        or received.get_field_index(name) < 0
        or expected.field(name).type != received.field(name).type
    ]
    if differing:
        listed = ", ".join(repr(name) for name in differing)
        raise InputError(
            f"{first} and {other} differ in columns {listed}; a folder is one table: same names, same types"
        )

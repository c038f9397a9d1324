"""Parquet files and folders of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.errors import InputError
from shoal.sources.base import OpenedFile, Source, SourceOptions
from shoal.sources.columns import check_names, normal_schema

BATCH_ROWS = 1 << 20
ENDINGS = frozenset({".parquet", ".pq"})
_MOST_LISTED = 5  # differences between two files


@dataclass(frozen=True, slots=True, eq=False)
class ParquetSource(Source):
    """A Parquet file, or the files of a folder in the order of their names."""

    path: Path
    paths: tuple[Path, ...]
    batch_rows: int
    files: tuple[OpenedFile, ...] = ()  # the state of each path when it was opened
    row_groups: Mapping[Path, Sequence[int]] | None = None  # of each file; None: all

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        for path in self.paths:
            name = _file_name(path, self.path)
            n_rows = 0
            try:
                # Without pre_buffer=False, all requested row groups would be in memory together.
                with pq.ParquetFile(
                    path, read_dictionary=sorted(coded), pre_buffer=False, page_checksum_verification=True
                ) as file:
                    now = normal_schema(file.schema_arrow)
                    if any(each not in now.names or now.field(each) != self.schema.field(each) for each in columns):
                        raise _change_error(name)
                    groups = None if self.row_groups is None else self.row_groups[path]
                    for batch in file.iter_batches(self.batch_rows, groups, columns, use_threads=True):
                        batch.validate(full=True)  # the library does not check the codes and texts of a damaged page
                        yield batch
                        n_rows += batch.num_rows
            except MemoryError:  # a subclass of ArrowException that is not an error of the file
                raise
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(error, name, n_rows) from None
            except KeyError:  # a column of read_dictionary is missing
                raise _change_error(name) from None

    def digest(self) -> str:
        """Return the SHA-256 of the file, or of a list of the folder's file names and their digests."""
        if self.path.is_dir() and _files(self.path) != self.paths:
            raise InputError(f"{self.name} changed while it was being read; nothing was published")
        digests = [file.digest() for file in self.files]
        if self.paths == (self.path,):
            return digests[0]
        listing = "".join(f"{digest}  {path.name}\n" for digest, path in zip(digests, self.paths, strict=True))
        return hashlib.sha256(listing.encode()).hexdigest()


def open_parquet(path: Path, options: SourceOptions, batch_rows: int = BATCH_ROWS) -> ParquetSource:
    """Open a Parquet file or a folder of Parquet files with the same columns."""
    paths = _files(path) if path.is_dir() else (path,)
    files = tuple(OpenedFile.of(each) for each in paths)
    schemas, counts = zip(*(_look(each, _file_name(each, path)) for each in paths), strict=True)
    for other, schema in zip(paths, schemas, strict=True):
        check_names(schema.names, _file_name(other, path))
        _check_same(schemas[0], schema, paths[0].name, _file_name(other, path))
    n_rows = sum(counts)
    if n_rows == 0:
        raise InputError(f"{path.name} has no rows")
    return ParquetSource(
        name=path.name,
        schema=schemas[0],
        n_rows=n_rows,
        cleaning=options.cleaning,
        path=path,
        paths=paths,
        batch_rows=batch_rows,
        files=files,
    )


def _files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder by name; raise if it has subfolders, because part of a table must not be missed."""
    entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith(("_", ".")))
    files = tuple(entry for entry in entries if entry.suffix.lower() in ENDINGS and not entry.is_dir())
    deeper = next((entry.name for entry in entries if entry.is_dir()), None)
    if deeper is not None:
        raise InputError(
            f"folder {folder.name} has a folder {deeper} in it, and shoal reads the .parquet files of one folder only; "
            "move all files into it, and add the information of folder names as a column"
        )
    if not files:
        raise InputError(f"folder {folder.name} has no .parquet files")
    return files


def _look(path: Path, name: str) -> tuple[pa.Schema, int]:
    if path.stat().st_size == 0:
        raise InputError(f"{name} is empty")
    try:
        with pq.ParquetFile(path) as file:
            return normal_schema(file.schema_arrow), file.metadata.num_rows
    except MemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error, name) from None


def _file_name(path: Path, given: Path) -> str:
    """Return the name of a file for messages, with its folder if a folder was given."""
    return path.name if path == given else f"{given.name}/{path.name}"


def _change_error(name: str) -> InputError:
    return InputError(f"{name} changed while it was being read: a column is gone or of another type")


def _unreadable(error: Exception, name: str, n_rows: int = 0) -> InputError:
    """Return the error for a file that the library cannot read after *n_rows* rows."""
    number = error.errno if isinstance(error, OSError) else None
    if number is not None:  # an error of the disk or of permissions; the library's own errors have no number
        return InputError(f"cannot read {name}: {os.strerror(number)}")
    if n_rows:
        return InputError(f"{name} is damaged somewhere after row {n_rows}; fetch it or write it again")
    return InputError(f"{name} is not a readable Parquet file: it is truncated, damaged or has another format")


def _check_same(expected: pa.Schema, received: pa.Schema, first: str, other: str) -> None:
    """Raise if two files of a folder have different columns; their order may differ."""
    differences = []
    for name in dict.fromkeys((*expected.names, *received.names)):
        if received.get_field_index(name) < 0:
            differences.append(f"it has no column {name!r}")
        elif name not in expected.names:
            differences.append(f"only it has a column {name!r}")
        elif (there := received.field(name).type) != (here := expected.field(name).type):
            differences.append(f"its column {name!r} holds {there}, not {here}")
    if differences:
        more = len(differences) - _MOST_LISTED
        listed = "; ".join((*differences[:_MOST_LISTED], *([f"and {more} more"] if more > 0 else [])))
        raise InputError(f"{other} differs from {first}: {listed}. A folder is one table: same names, same types")

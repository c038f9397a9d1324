"""Hospital stays as files, and two hospitals with common patients (``docs/two-hospitals.md``)."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from shoal.core.errors import UsageError
from shoal.core.progress import Progress, Silent
from shoal.datasets.hospital import SCHEMA, diagnosis_tree, stays
from shoal.datasets.uci import replace_file

HOSPITALS = ("north", "south")
Sink = Callable[[pa.RecordBatch | pa.Table], None]


def write_stays(
    path: str | os.PathLike[str],
    n: int,
    seed: int | None = None,
    progress: Progress | None = None,
    *,
    missing: float = 0.01,
) -> Path:
    """Write *n* stays to a ``.parquet``, ``.csv`` or ``.csv.gz`` file, which is replaced when the new one is complete.

    The rows come from :func:`~shoal.datasets.hospital.stays`.
    """
    target = Path(path)
    suffix = next((known for known in FORMATS if target.name.endswith(known)), None)
    if suffix is None:
        raise UsageError(f"the name {target.name!r} has no known ending; end it in one of {', '.join(FORMATS)}")
    batches = stays(n, seed=seed, missing=missing)
    try:
        with (
            replace_file(target) as unfinished,
            FORMATS[suffix](unfinished) as write,
            (progress or Silent()).step("generating hospital stays", total=n) as step,
        ):
            for part in batches:
                write(part)
                step.advance(part.num_rows)
    except OSError as error:
        raise UsageError(f"cannot write {target}: {error.strerror or type(error).__name__}") from error
    return target


@contextmanager
def _parquet(path: Path) -> Iterator[Sink]:
    repeating = [name for name in SCHEMA.names if name not in ("patient", "cost")]
    with pa.parquet.ParquetWriter(path, SCHEMA, compression="snappy", use_dictionary=repeating) as writer:
        yield writer.write


@contextmanager
def _csv(path: Path, schema: pa.Schema = SCHEMA, *, packed: bool = False) -> Iterator[Sink]:
    # No value needs quotes, and pyarrow would quote the header.
    options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
    with gzip.open(path, "wb", compresslevel=5) if packed else path.open("wb") as stream:
        stream.write((",".join(schema.names) + "\n").encode())
        with pa.csv.CSVWriter(stream, schema, write_options=options) as writer:
            yield writer.write


FORMATS: dict[str, Callable[[Path], AbstractContextManager[Sink]]] = {
    ".parquet": _parquet,
    ".csv": _csv,
    ".csv.gz": partial(_csv, packed=True),
}


def write_two_hospitals(
    folder: str | Path, *, seed: int | None = None, past: int = 20_000, rows: int = 4_000, shared: int = 1_000
) -> Path:
    """Write independently generated stays of two hospitals to the folders ``north`` and ``south``.

    Each hospital has *past* stays of earlier years in ``past.csv`` and *rows* of this year in ``stays.csv``. *shared*
    patients of this year, listed in ``shared.csv``, were in both with the same diagnosis. Existing files are replaced.
    """
    if not 1 <= shared <= rows:
        raise UsageError(f"the shared patients must be from 1 to {rows:,}, as many as a hospital has, not {shared:,}")
    if past < 1:
        raise UsageError(f"each hospital needs at least one past stay, not {past:,}")
    table = _simplify(pa.Table.from_batches(stays(2 * (past + rows) - shared, seed=seed, missing=0)))
    now = table.slice(2 * past)
    parts = {
        "north/past.csv": table.slice(0, past),
        "south/past.csv": table.slice(past, past),
        "north/stays.csv": now.slice(0, rows),
        "south/stays.csv": now.slice(rows - shared),
        "shared.csv": now.slice(rows - shared, shared),
    }
    target = Path(folder)
    try:
        for name in HOSPITALS:
            (target / name).mkdir(parents=True, exist_ok=True)
        for name, part in parts.items():
            with replace_file(target / name) as unfinished, _csv(unfinished, part.schema) as write:
                write(part)
    except OSError as error:
        raise UsageError(f"cannot write into {target}: {error.strerror or type(error).__name__}") from error
    return target


def _simplify(table: pa.Table) -> pa.Table:
    """Select the age, the sex, the first digit of the postcode, and the chapter of the diagnosis."""
    chapters = {
        name: chapter for chapter, groups in diagnosis_tree().items() for names in groups.values() for name in names
    }
    text = {name: table.column(name).cast(pa.string()) for name in ("sex", "postcode", "diagnosis")}
    place = pc.index_in(text["diagnosis"], value_set=pa.array(list(chapters)))
    return pa.table(
        {
            "patient": table.column("patient"),
            "age": table.column("age"),
            "sex": text["sex"],
            "region": pc.utf8_slice_codeunits(text["postcode"], 0, 1),
            "diagnosis": pa.chunked_array([pa.array(list(chapters.values()))]).take(place),
        }
    )

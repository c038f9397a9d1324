"""Two hospitals that share patients: small tables for the walk-through of the agency, ``docs/two-hospitals.md``."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from shoal.core.errors import UsageError
from shoal.datasets.hospital import diagnosis_tree, stays
from shoal.datasets.origins import placed

HOSPITALS = ("north", "south")


def write_two_hospitals(
    folder: str | Path, *, seed: int | None = None, past: int = 20_000, rows: int = 4_000, shared: int = 1_000
) -> Path:
    """Write ``north/``, ``south/`` and ``shared.csv`` into a folder: generated stays, independent of each other.

    Each hospital has *past* stays of earlier years in ``past.csv`` and *rows* of this year in ``stays.csv``; *shared*
    patients of this year, listed in ``shared.csv``, were in both with the same diagnosis. Files of these names are
    replaced.
    """
    if not 1 <= shared <= rows:
        raise UsageError(f"the shared patients must be from 1 to {rows:,}, as many as a hospital has, not {shared:,}")
    if past < 1:
        raise UsageError(f"each hospital needs at least one stay of the past, not {past:,}")
    table = _simplified(pa.Table.from_batches(stays(2 * (past + rows) - shared, seed=seed, missing=0)))
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
            with placed(target / name) as partial:
                _write(part, partial)
    except OSError as error:
        raise UsageError(f"cannot write into {target}: {error.strerror or type(error).__name__}") from error
    return target


def _write(table: pa.Table, path: Path) -> None:
    # No value holds a comma or a quotation mark, so nothing is quoted; pyarrow would quote the header.
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    with path.open("wb") as stream:
        stream.write((",".join(table.column_names) + "\n").encode())
        pyarrow.csv.write_csv(table, stream, options)


def _simplified(table: pa.Table) -> pa.Table:
    """Keep four columns: the age, the sex, the first digit of the postcode, and the chapter of the diagnosis."""
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

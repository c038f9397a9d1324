"""Sheets of Excel files: the cells of a column must have one type."""

from __future__ import annotations

import datetime
import posixpath
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from shoal.core.errors import InputError, did_you_mean
from shoal.sources.base import OpenedFile, SourceOptions, import_optional
from shoal.sources.columns import check_names
from shoal.sources.snapshots import Snapshot, SnapshotSource

_BLOCK = 1 << 20
_BOOK, _PARTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_RELATION = re.compile(r"\{[^}]*/relationships\}id")
# Excel does not nest cells, and the parts of a cell contain no "<".
_CELL = re.compile(rb"""<(?:\w+:)?c\s([^>]*\bt=["']e["'][^>]*)>(.*?)</(?:\w+:)?c>""", re.DOTALL)
_PLACE = re.compile(rb"""\br=["']([A-Z]+[0-9]+)["']""")
_TEXT = re.compile(rb"<(?:\w+:)?v>([^<]*)</")
_MOST_LISTED = 3
_MUCH, _MOST_TIMES = 256 << 20, 100  # limits of the unpacked size: bytes for any file, and times the packed size
Cells: TypeAlias = np.ndarray[Any, np.dtype[np.object_]]

_CHUNK_ROWS = 1 << 15
_ENCRYPTED = bytes.fromhex("D0CF11E0A1B11AE1")  # the old Office format, in which encrypted files are wrapped
_EXACT = 2.0**53
_WORDS: dict[type, str] = {
    float: "numbers",
    int: "numbers",
    str: "texts",
    bool: "truth values",
    datetime.date: "dates",
    datetime.datetime: "times",
    datetime.time: "times of day",
    datetime.timedelta: "durations",
}
_KINDS: dict[frozenset[str], pa.DataType] = {
    frozenset(): pa.string(),
    frozenset({"numbers"}): pa.float64(),
    frozenset({"texts"}): pa.string(),
    frozenset({"numbers", "texts"}): pa.string(),  # numbers as people type them; the texts may mean missing
    frozenset({"truth values"}): pa.bool_(),
    frozenset({"dates"}): pa.date32(),
    frozenset({"times"}): pa.timestamp("us"),
    frozenset({"dates", "times"}): pa.timestamp("us"),
    frozenset({"times of day"}): pa.time64("us"),
}


def open_workbook(path: Path, options: SourceOptions) -> SnapshotSource:
    """Read a sheet whose first row has the column names; empty rows are skipped and empty cells are missing."""
    file = OpenedFile.of(path)
    rows = _sheet(path, options).iter_rows()
    first = next((row for row in rows if any(cell != "" for cell in row)), None)
    if first is None:
        raise InputError(f"{path.name} is empty")
    # A header may have numbers, such as years.
    header = [str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell) for cell in first]
    names = options.names or (header if options.header else [f"c{i}" for i in range(1, len(first) + 1)])
    if len(names) != len(first):
        raise InputError(f"`names` has {len(names)}, {path.name} has {len(first)}: give one name for each column")
    chunks = list(_chunks(rows if options.header else chain([first], rows)))
    if not chunks:
        raise InputError(f"{path.name} has a header but no rows")
    columns = [_column(name, [chunk[i] for chunk in chunks], path.name) for i, name in enumerate(names)]
    kept = [i for i, name in enumerate(names) if name or columns[i].null_count < len(columns[i])]
    check_names([names[i] for i in kept], path.name)
    table = pa.table([columns[i] for i in kept], names=[names[i] for i in kept])
    return SnapshotSource(
        name=path.name,
        schema=table.schema,
        n_rows=table.num_rows,
        cleaning=options.cleaning,
        snapshot=Snapshot(table.to_batches(), table.schema),
        sha256=file.digest(),
    )


def _sheet(path: Path, options: SourceOptions) -> Any:
    calamine = import_optional("python_calamine", "an Excel file", "files")
    with path.open("rb") as file:
        start = file.read(len(_ENCRYPTED))
    if start == _ENCRYPTED:
        raise InputError(f"{path.name} is protected by a password, or is an old .xls file; save it as .xlsx without")
    refuse_unpacking(path)
    try:
        book = calamine.CalamineWorkbook.from_path(str(path))
        if options.sheet is not None and options.sheet not in book.sheet_names:
            near = did_you_mean(options.sheet, book.sheet_names)
            raise InputError(f"{path.name} has no sheet {options.sheet!r}{near}")
        sheets = {name: book.get_sheet_by_name(name) for name in book.sheet_names if options.sheet in (None, name)}
    except (calamine.CalamineError, calamine.WorksheetNotFound):
        raise InputError(f"{path.name} is not a readable Excel file: it is truncated or has another format") from None
    filled = {name: sheet for name, sheet in sheets.items() if sheet.height}
    tables = {name: sheet for name, sheet in filled.items() if sheet.height > 1 and sheet.width > 1}
    if not filled:
        raise InputError(f"{path.name} is empty")
    if len(tables or filled) > 1:
        listed = ", ".join(repr(name) for name in tables or filled)
        raise InputError(
            f"{path.name} has several sheets: {listed}; choose one by `source: {{sheet: name}}` in the policy, or by "
            "--sheet of shoal init"
        )
    ((name, sheet),) = (tables or filled).items()
    if sheet.merged_cell_ranges:
        raise InputError(f"sheet {name!r} of {path.name} has merged cells; unmerge them and fill each")
    refuse_errors(path, name, options.missing)
    return sheet


def refuse_unpacking(path: Path) -> None:
    """Raise if the file would unpack to far more than any table of its size."""
    try:
        with zipfile.ZipFile(path) as book:
            unpacked = sum(part.file_size for part in book.infolist())
    except (zipfile.BadZipFile, OSError):
        return  # the reader will raise an error for it
    if unpacked > _MUCH and unpacked > _MOST_TIMES * path.stat().st_size:
        raise InputError(
            f"{path.name} would unpack to {unpacked / 2**30:.1f} GB, more than {_MOST_TIMES} times its size; it is "
            "damaged, or made to fill the memory. Save the table as .csv or .parquet if it is real"
        )


def _chunks(rows: Iterator[list[Any]]) -> Iterator[list[Cells]]:
    """Yield the columns of some rows at a time, with None for empty cells and without empty rows."""
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        columns: list[Cells] = []
        some = np.zeros(len(chunk), dtype=np.bool_)
        for cells in zip(*chunk, strict=True):
            values = np.empty(len(chunk), dtype=object)
            values[:] = cells
            filled = values != ""
            values[~filled] = None
            some |= filled
            columns.append(values)
        if some.any():
            yield [values[some] for values in columns]


def _column(name: str, chunks: Sequence[Cells], where: str) -> pa.ChunkedArray:
    types = {kind for cells in chunks for kind in set(map(type, cells))} - {type(None)}
    kinds = frozenset(_WORDS.get(kind, kind.__name__) for kind in types)
    kind = _KINDS.get(kinds)
    if kind is None:
        listed = " and ".join(sorted(kinds))
        raise InputError(f"column {name!r} of {where} holds {listed}; make all its cells texts, or numbers, or dates")
    if pt.is_timestamp(kind):  # dates among the times become midnights
        chunks = [cells.astype("datetime64[us]") for cells in chunks]
    if kinds == {"numbers", "texts"}:
        chunks = [np.array([_type_out(cell) for cell in cells], dtype=object) for cells in chunks]
    try:
        column = pa.chunked_array([pa.array(cells, kind, from_pandas=False) for cells in chunks], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise InputError(f"column {name!r} of {where} holds values beyond what {kind} can keep") from None
    if kind != pa.float64():
        return column
    exact = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _EXACT))
    return column.cast(pa.int64()) if pc.all(exact).as_py() else column


def _type_out(cell: Any) -> Any:
    """Return a number as a person would type it, and other cells unchanged."""
    return repr(cell).removesuffix(".0") if isinstance(cell, float | int) else cell


def refuse_errors(path: Path, sheet: str, missing: Collection[str]) -> None:
    """Raise if a cell has an error that is not one of the texts that mean missing."""
    found = [(place, text) for place, text in _errors(path, sheet) if text not in missing]
    if found:
        listed = ", ".join(f"{text} in {place}" for place, text in found[:_MOST_LISTED])
        more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
        raise InputError(
            f"sheet {sheet!r} of {path.name} has cells with errors: {listed}{more}; correct them, or let them mean "
            f"missing by `source: {{missing: ['', '{found[0][1]}']}}`"
        )


def _errors(path: Path, sheet: str) -> Iterator[tuple[str, str]]:
    """Yield the reference and the text of each cell with an error."""
    try:
        with zipfile.ZipFile(path) as book, book.open(_part(book, sheet)) as file:
            left = b""
            while block := file.read(_BLOCK):
                left += block
                end = left.rfind(b"row>") + 1
                yield from _find_errors(left[:end])
                left = left[end:]
            yield from _find_errors(left)
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, StopIteration, OSError):
        raise InputError(f"{path.name} is not a readable Excel file: it is truncated or has another format") from None


def _find_errors(rows: bytes) -> Iterator[tuple[str, str]]:
    for cell in _CELL.finditer(rows):
        place, text = _PLACE.search(cell[1]), _TEXT.search(cell[2])
        yield place[1].decode() if place else "some cell", text[1].decode() if text else "an error"


def _part(book: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the zip member that contains a sheet."""
    sheets = ElementTree.fromstring(book.read(_BOOK)).iter()  # noqa: S314  expat refuses entities that grow
    listed = next(each for each in sheets if each.tag.endswith("}sheet") and each.get("name") == sheet)
    number = next(value for name, value in listed.items() if _RELATION.fullmatch(name))
    parts = ElementTree.fromstring(book.read(_PARTS)).iter()  # noqa: S314
    target = next(each.attrib["Target"] for each in parts if each.get("Id") == number)
    return posixpath.normpath(posixpath.join("/xl", target)).removeprefix("/")

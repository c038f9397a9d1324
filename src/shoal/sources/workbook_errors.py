"""Cells of Excel files that hold an error, such as #DIV/0!: the reader of cells takes them for empty ones."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Collection, Iterator
from pathlib import Path
from xml.etree import ElementTree

from shoal.errors import InputError

_BLOCK = 1 << 20
_BOOK, _PARTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
_RELATION = re.compile(r"\{[^}]*/relationships\}id")
# Excel writes cells one after another; whatever stands in one holds no "<" but its own parts.
_CELL = re.compile(rb"""<(?:\w+:)?c\s([^>]*\bt=["']e["'][^>]*)>(.*?)</(?:\w+:)?c>""", re.DOTALL)
_PLACE = re.compile(rb"""\br=["']([A-Z]+[0-9]+)["']""")
_TEXT = re.compile(rb"<(?:\w+:)?v>([^<]*)</")
_MOST_TOLD = 3


def refuse_errors(path: Path, sheet: str, missing: Collection[str]) -> None:
    """Raise if a cell of the sheet holds an error that is not among the texts that mean missing."""
    told: list[str] = []
    n_errors = 0
    for place, text in _errors(path, sheet):
        if text not in missing:
            n_errors += 1
            if n_errors <= _MOST_TOLD:
                told.append(f"{text} in {place}")
    if n_errors:
        more = f" and {n_errors - _MOST_TOLD} more" if n_errors > _MOST_TOLD else ""
        first = told[0].partition(" in ")[0]
        raise InputError(
            f"sheet {sheet!r} of {path.name} has cells with errors: {', '.join(told)}{more}; mend them, or let them "
            f"mean missing by `source: {{missing: ['', '{first}']}}`"
        )


def _errors(path: Path, sheet: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each cell with an error, row by row."""
    try:
        with zipfile.ZipFile(path) as book, book.open(_part(book, sheet)) as file:
            left = b""
            while block := file.read(_BLOCK):
                left += block
                end = left.rfind(b"row>") + 1
                yield from _found(left[:end])
                left = left[end:]
            yield from _found(left)
    except (zipfile.BadZipFile, ElementTree.ParseError, KeyError, StopIteration, OSError):
        raise InputError(f"{path.name} is not a readable Excel file: it breaks off or is something else") from None


def _found(rows: bytes) -> Iterator[tuple[str, str]]:
    for cell in _CELL.finditer(rows):
        place, text = _PLACE.search(cell[1]), _TEXT.search(cell[2])
        yield place[1].decode() if place else "some cell", text[1].decode() if text else "an error"


def _part(book: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the part of the file that holds a sheet."""
    sheets = ElementTree.fromstring(book.read(_BOOK)).iter()  # noqa: S314  expat refuses entities that grow
    listed = next(each for each in sheets if each.tag.endswith("}sheet") and each.get("name") == sheet)
    number = next(value for name, value in listed.items() if _RELATION.fullmatch(name))
    parts = ElementTree.fromstring(book.read(_PARTS)).iter()  # noqa: S314
    target = next(each.attrib["Target"] for each in parts if each.get("Id") == number)
    return posixpath.normpath(posixpath.join("/xl", target)).removeprefix("/")

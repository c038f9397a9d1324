"""Adult and Nursery of the UCI Machine Learning Repository: the tables that the field measures itself on.

Both are published under CC BY 4.0: Becker and Kohavi (1996), doi:10.24432/C5XW20, and Rajkovic (1997),
doi:10.24432/C5P88W.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.datasets.origins import Origin, SourceFile, data_folder, plain_lines

Folder = str | os.PathLike[str]

REPOSITORY = "https://archive.ics.uci.edu/ml/machine-learning-databases"
ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "salary-class",
)
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_QUASI = ("age", "workclass", "education", "marital-status", "race", "sex")
NURSERY_COLUMNS = (
    "parents",
    "has_nurs",
    "form",
    "children",
    "housing",
    "finance",
    "social",
    "health",
    "class",
)


def _adult_text(parts: list[bytes]) -> bytes:
    # Only the class labels of the test file end in a full stop.
    rows = [re.sub(rb"(?m)\.$", b"", plain_lines(part)) for part in parts]
    return b"".join([",".join(ADULT_COLUMNS).encode(), b"\n", *rows])


def _nursery_text(parts: list[bytes]) -> bytes:
    return b"".join([",".join(NURSERY_COLUMNS).encode(), b"\n", *map(plain_lines, parts)])


ADULT = Origin(
    title="Adult",
    file="adult.csv.gz",
    sources=(
        SourceFile(f"{REPOSITORY}/adult/adult.data", md5="5d7c39d7b8804f071cdd1f2a7c460872"),
        SourceFile(f"{REPOSITORY}/adult/adult.test", md5="35238206dfdf7f1fe215bbb874adecdc"),
    ),
    normalise=_adult_text,
    sha256="3a4c49f62566e1d82f9038f2a113c6d4424070b401f6edae5e18fb64ddfb78fd",
)
NURSERY = Origin(
    title="Nursery",
    file="nursery.csv",
    sources=(SourceFile(f"{REPOSITORY}/nursery/nursery.data"),),
    normalise=_nursery_text,
    sha256="cfd50f92b8b65b8d398670ce13f1e78fbc0d452ff26906de8b4497f909716951",
)


def adult(folder: Folder | None = None, *, complete: bool = True, columns: Sequence[str] | None = None) -> pa.Table:
    """Return Adult: 48,842 people of the census of 1994, of which 45,222 have no missing value.

    *complete* keeps the latter only, judged by all 15 columns; otherwise missing values are null. *columns*
    selects, in the order given, as many as a policy declares. See :meth:`Origin.text` for where it is found.
    """
    table = _table(ADULT.text(folder), ADULT_NUMBERS)
    return _selected(table.drop_null() if complete else table, columns, ADULT.title)


def nursery(folder: Folder | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Return Nursery: 12,960 applications, every combination of eight attributes once, and their class."""
    return _selected(_table(NURSERY.text(folder), ()), columns, NURSERY.title)


def adult_hierarchy(attribute: str, folder: Folder | None = None) -> Path:
    """Return the ARX-style taxonomy file of an attribute of Adult, in *folder* or that of ``SHOAL_DATA``.

    They are not downloaded: the folder holds them as ``hierarchies/adult/<attribute>.csv``.
    """
    home = Path(folder) if folder is not None else data_folder()
    if home is None:
        raise InputError("the taxonomy files of Adult are not at hand: name their folder in SHOAL_DATA")
    shelf = home / "hierarchies" / "adult"
    path = shelf / f"{attribute}.csv"
    if not path.is_file():
        known = sorted(file.stem for file in shelf.glob("*.csv"))
        hint = did_you_mean(attribute, known) or f"; it has: {', '.join(known) or 'none'}"
        raise InputError(f"{shelf} has no taxonomy for {attribute!r}{hint}")
    return path.absolute()


# Numbers need no file. The published age hierarchy is not used: its label 15-19 stands for 16 to 20.
_ADULT_INTERVALS: dict[str, dict[str, Any]] = {
    "age": {"min": 0, "max": 99, "widths": [5, 10, 20]},
    "education-num": {"min": 1, "max": 16, "widths": [2, 4, 8]},
    "hours-per-week": {"min": 0, "max": 99, "widths": [5, 10, 20]},
}


def adult_policy(
    quasi: Sequence[str] = ADULT_QUASI,
    sensitive: str = "occupation",
    privacy: Sequence[Mapping[str, Any]] | None = None,
    folder: Folder | None = None,
) -> dict[str, Any]:
    """Return a policy for the complete rows of Adult with just these columns; nothing is withheld.

    Without *privacy* it asks for 10-anonymity and entropy 4-diversity. The table that fits is
    ``adult(columns=list(policy["attributes"]))``.
    """
    _known([*quasi, sensitive], ADULT_COLUMNS, ADULT.title)
    attributes = {name: {"role": "quasi", "taxonomy": _adult_taxonomy(name, folder)} for name in quasi}
    if sensitive in attributes:
        raise UsageError(f"{sensitive!r} cannot be quasi and sensitive at once")
    attributes[sensitive] = {"role": "sensitive", "taxonomy": _adult_taxonomy(sensitive, folder)}
    asked = privacy or ({"k-anonymity": {"k": 10}}, {"entropy-l-diversity": {"l": 4}})
    return {
        "attributes": attributes,
        "privacy": [dict(model) for model in asked],
        "method": {"mondrian": {}},
        "missing": "category",
        "max_withheld": 0,
    }


def _adult_taxonomy(attribute: str, folder: Folder | None) -> dict[str, Any]:
    if attribute in _ADULT_INTERVALS:
        return {"intervals": dict(_ADULT_INTERVALS[attribute])}
    return {"file": str(adult_hierarchy(attribute, folder))}


def _table(text: bytes, numbers: Sequence[str]) -> pa.Table:
    header = text[: text.index(b"\n")].decode().split(",")
    types = {name: pa.int64() if name in numbers else pa.string() for name in header}
    options = pa.csv.ConvertOptions(column_types=types, null_values=["?"], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(text), convert_options=options).combine_chunks()


def _selected(table: pa.Table, columns: Sequence[str] | None, title: str) -> pa.Table:
    if columns is None:
        return table
    _known(columns, table.column_names, title)
    return table.select(list(columns))


def _known(names: Sequence[str], columns: Sequence[str], title: str) -> None:
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns) or f"; its columns: {', '.join(columns)}"
            raise UsageError(f"{title} has no column {name!r}{hint}")

"""Adult and Nursery of the UCI Machine Learning Repository, the usual benchmark tables of the field.

Both are published under CC BY 4.0: Becker and Kohavi (1996), doi:10.24432/C5XW20, and Rajkovic (1997),
doi:10.24432/C5P88W. They are read from a folder, the cache, or the publisher, and their checksums are verified.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from shoal.core.errors import InputError, UsageError, did_you_mean

Folder = str | os.PathLike[str]

LONGEST = 64 * 2**20  # bytes; much more than any of these files has
PATIENCE = 30  # seconds to wait for data
REPOSITORY = "https://archive.ics.uci.edu/ml/machine-learning-databases"
ADULT_COLUMNS = (
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "salary-class"),
)
ADULT_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
ADULT_QUASI = ("age", "workclass", "education", "marital-status", "race", "sex")


@dataclass(frozen=True, slots=True)
class Origin:
    """A public table, identified by the digest of its normalized text."""

    title: str
    file: str  # name in a folder; packed if it ends in .gz
    columns: tuple[str, ...]
    sources: Mapping[str, str | None]  # addresses of the publisher's files, with their MD5 if it is known
    sha256: str  # of the normalized text, unpacked

    def text(self, folder: Folder | None = None) -> bytes:
        """Return the normalized text after verifying its digest.

        It is read from *folder* if that is given, otherwise from the folder in ``SHOAL_DATA``, from the cache, or from
        the publisher, whose files are cached. A cached file with a wrong digest is removed.
        """
        if folder is not None:
            return self._check(self._unpack(Path(folder) / self.file), str(folder))
        given = data_folder()
        if given is not None and (given / self.file).is_file():
            return self._check(self._unpack(given / self.file), "the folder of SHOAL_DATA")
        cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / self.file
        if not cached.is_file():
            self._download(cached)
        try:
            return self._check(self._unpack(cached), "the cache")
        except InputError:
            cached.unlink(missing_ok=True)
            raise

    def _unpack(self, path: Path) -> bytes:
        try:
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or "it is not whole gzip data"
            raise InputError(f"cannot read {path}: {reason}; {self._remedy}") from error

    def _check(self, text: bytes, where: str) -> bytes:
        received = hashlib.sha256(text).hexdigest()
        if received != self.sha256:
            raise InputError(
                f"{self.file} from {where} is not the {self.title} table: its unpacked SHA-256 begins with "
                f"{received[:12]}, expected {self.sha256[:12]}"
            )
        return text

    def _download(self, target: Path) -> None:
        """Download, normalize and verify the table, and write it to *target*."""
        parts = [",".join(self.columns).encode() + b"\n"]
        for address, md5 in self.sources.items():
            try:
                part = fetch(address)
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None) or type(error).__name__
                raise InputError(f"cannot download {address}: {reason}; {self._remedy}") from error
            received = hashlib.md5(part, usedforsecurity=False).hexdigest()
            if md5 is not None and received != md5:
                raise InputError(f"{address} has changed: its MD5 is {received}, expected {md5}; {self._remedy}")
            parts.append(plain_lines(part))
        text = self._check(b"".join(parts), "its publisher")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replace_file(target) as partial:
                partial.write_bytes(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text)
        except OSError as error:
            raise InputError(f"cannot keep {self.file} in {target.parent}: {error.strerror}") from error

    @property
    def _remedy(self) -> str:
        return f"put {self.file} into a folder and name the folder in SHOAL_DATA"


def data_folder() -> Path | None:
    """Return the folder in the variable ``SHOAL_DATA``, if it is set."""
    given = os.environ.get("SHOAL_DATA")
    return Path(given) if given else None


def fetch(address: str) -> bytes:
    """Download an HTTP(S) address; no other function of this module uses the network."""
    if not address.startswith(("https://", "http://")):
        raise ValueError(f"not a web address: {address}")
    with urllib.request.urlopen(address, timeout=PATIENCE) as answer:  # noqa: S310 (scheme is checked above)
        body: bytes = answer.read(LONGEST + 1)
        announced = answer.headers.get("Content-Length")
    if len(body) > LONGEST:
        raise urllib.error.URLError(f"more than {LONGEST:,} bytes")
    if announced is not None and len(body) != int(announced):
        raise urllib.error.URLError(f"{len(body):,} of {int(announced):,} bytes arrived")
    return body


def plain_lines(text: bytes) -> bytes:
    """Remove comments, empty lines, blanks around values, and the full stops at the ends of lines in Adult's test file.

    >>> plain_lines(b"|note\\n39, State-gov\\n\\n50,  Private. \\n")
    b'39,State-gov\\n50,Private\\n'
    """
    text = re.sub(rb"\r\n?", b"\n", text)
    text = re.sub(rb"(?m)^\|.*$", b"", text)
    text = re.sub(rb"(?m)[ \t]*(,|$)[ \t]*", rb"\1", text)
    text = re.sub(rb"(?m)\.$", b"", text)
    return re.sub(rb"\n{2,}", b"\n", text.strip(b"\n \t") + b"\n")


@contextmanager
def replace_file(target: Path) -> Iterator[Path]:
    """Yield a path for writing, which replaces *target* at the end or is removed after an exception."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        with suppress(OSError):  # the file was moved or never created
            partial.unlink()


ADULT = Origin(
    title="Adult",
    file="adult.csv.gz",
    columns=ADULT_COLUMNS,
    sources={
        f"{REPOSITORY}/adult/adult.data": "5d7c39d7b8804f071cdd1f2a7c460872",
        f"{REPOSITORY}/adult/adult.test": "35238206dfdf7f1fe215bbb874adecdc",
    },
    sha256="3a4c49f62566e1d82f9038f2a113c6d4424070b401f6edae5e18fb64ddfb78fd",
)
NURSERY = Origin(
    title="Nursery",
    file="nursery.csv",
    columns=("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health", "class"),
    sources={f"{REPOSITORY}/nursery/nursery.data": None},
    sha256="cfd50f92b8b65b8d398670ce13f1e78fbc0d452ff26906de8b4497f909716951",
)


def adult(folder: Folder | None = None, *, complete: bool = True, columns: Sequence[str] | None = None) -> pa.Table:
    """Return Adult: 48,842 people of the census of 1994, of whom 45,222 have no missing value in all 15 columns.

    *complete* selects the latter; otherwise missing values are null. *columns* selects columns in the given order. See
    :meth:`Origin.text` for the location of the file.
    """
    table = _table(ADULT.text(folder), ADULT_NUMBERS)
    return _select(table.drop_null() if complete else table, columns, ADULT.title)


def nursery(folder: Folder | None = None, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Return Nursery: 12,960 applications, one for each combination of eight attributes, with their class."""
    return _select(_table(NURSERY.text(folder), ()), columns, NURSERY.title)


def adult_hierarchy(attribute: str, folder: Folder | None = None) -> Path:
    """Return the ARX taxonomy file of an attribute of Adult, in *folder* or the folder in ``SHOAL_DATA``.

    The files ``hierarchies/adult/<attribute>.csv`` are not downloaded.
    """
    home = Path(folder) if folder is not None else data_folder()
    if home is None:
        raise InputError("the taxonomy files of Adult are not available: set SHOAL_DATA to their folder")
    hierarchies = home / "hierarchies" / "adult"
    path = hierarchies / f"{attribute}.csv"
    if not path.is_file():
        known = sorted(file.stem for file in hierarchies.glob("*.csv"))
        hint = did_you_mean(attribute, known) or f"; it has: {', '.join(known) or 'none'}"
        raise InputError(f"{hierarchies} has no taxonomy for {attribute!r}{hint}")
    return path.absolute()


# Numbers need no file. The published age hierarchy is not used because its label 15-19 means 16 to 20.
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
    """Return a policy for the complete rows of Adult with these columns.

    By default it requires 10-anonymity and entropy 4-diversity. The table that fits is
    ``adult(columns=list(policy["attributes"]))``.
    """
    _check_columns([*quasi, sensitive], ADULT_COLUMNS, ADULT.title)
    if sensitive in quasi:
        raise UsageError(f"{sensitive!r} cannot be both quasi and sensitive")
    attributes: dict[str, dict[str, Any]] = {}
    for name in (*quasi, sensitive):
        given = _ADULT_INTERVALS.get(name)
        taxonomy = {"file": str(adult_hierarchy(name, folder))} if given is None else {"intervals": dict(given)}
        attributes[name] = {"role": "quasi" if name in quasi else "sensitive", "taxonomy": taxonomy}
    asked = privacy or ({"k-anonymity": {"k": 10}}, {"entropy-l-diversity": {"l": 4}})
    return {
        "attributes": attributes,
        "privacy": [dict(model) for model in asked],
        "method": {"mondrian": {}},
        "missing": "category",
        "max_withheld": 0,
    }


def _table(text: bytes, numbers: Sequence[str]) -> pa.Table:
    header = text[: text.index(b"\n")].decode().split(",")
    types = {name: pa.int64() if name in numbers else pa.string() for name in header}
    options = pa.csv.ConvertOptions(column_types=types, null_values=["?"], strings_can_be_null=True)
    return pa.csv.read_csv(pa.BufferReader(text), convert_options=options).combine_chunks()


def _select(table: pa.Table, columns: Sequence[str] | None, title: str) -> pa.Table:
    if columns is None:
        return table
    _check_columns(columns, table.column_names, title)
    return table.select(list(columns))


def _check_columns(names: Sequence[str], columns: Sequence[str], title: str) -> None:
    for name in names:
        if name not in columns:
            hint = did_you_mean(name, columns) or f"; its columns: {', '.join(columns)}"
            raise UsageError(f"{title} has no column {name!r}{hint}")

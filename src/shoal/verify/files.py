"""The files that a manifest names: where the rows are, and how they are written."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from shoal.verify.fields import ManifestError, check_keys, digest_of, mapping, text_of, whole

_FILE_NAME = re.compile(r"data\.(csv|parquet)")
_TABLES = ("quasi", "sensitive")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows, and how they are written."""

    name: str
    format: str
    sha256: str
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class AgreedFile:
    """The plan of an agency by which the release was made."""

    name: str
    sha256: str
    digest: str
    classes: int


def read_agreed(raw: object) -> AgreedFile:
    """Return which plan the release was made by, or raise a ManifestError."""
    entry = mapping(raw, "agreed")
    check_keys(entry, "agreed", ("file", "sha256", "digest", "classes"), ())
    if entry["file"] != "plan.json":
        raise ManifestError("agreed.file is not plan.json")
    sha256, digest = (digest_of(entry[key], f"agreed.{key}") for key in ("sha256", "digest"))
    return AgreedFile("plan.json", sha256, digest, whole(entry["classes"], "agreed.classes"))


def read_data(raw: object) -> DataFile:
    """Return the file of the rows, or raise a ManifestError."""
    entry = mapping(raw, "data")
    check_keys(entry, "data", ("file", "format", "sha256"), ("csv",))
    name = text_of(entry["file"], "data.file")
    found = _FILE_NAME.fullmatch(name)
    if found is None or entry["format"] != found.group(1):
        raise ManifestError("data.file and data.format are neither data.csv and csv nor data.parquet and parquet")
    digest = digest_of(entry["sha256"], "data.sha256")
    style = mapping(entry.get("csv", {}), "data.csv")
    check_keys(style, "data.csv", (), ("delimiter", "quote", "encoding"))
    texts = {key: text_of(value, f"data.csv.{key}") for key, value in style.items()}
    if any(len(texts.get(key, ",")) != 1 for key in ("delimiter", "quote")):
        raise ManifestError("data.csv.delimiter and data.csv.quote must be one character each")
    return DataFile(name=name, format=found.group(1), sha256=digest, **texts)


def read_tables(raw: object, data: DataFile) -> dict[str, DataFile]:
    """Return the two files of a bucketized release, which are written as the data file is."""
    entries = mapping(raw, "tables")
    check_keys(entries, "tables", _TABLES, ())
    found = {}
    for name in _TABLES:
        entry = mapping(entries[name], f"tables.{name}")
        check_keys(entry, f"tables.{name}", ("file", "sha256"), ())
        if entry["file"] != f"{name}.{data.format}":
            raise ManifestError(f"tables.{name}.file is not {name}.{data.format}")
        found[name] = replace(data, name=entry["file"], sha256=digest_of(entry["sha256"], f"tables.{name}.sha256"))
    return found


def read_digest(raw: object, where: str) -> str:
    """Return the SHA-256 of a file that is told by nothing else."""
    entry = mapping(raw, where)
    check_keys(entry, where, ("sha256",), ())
    return digest_of(entry["sha256"], f"{where}.sha256")

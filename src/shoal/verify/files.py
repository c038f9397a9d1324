"""The files of a release: nothing but the declared ones, with their digests, and they hold rows only."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.core.arrays import BoolArray
from shoal.core.errors import InputError
from shoal.manifest import DataFile, FileDigest, ManifestError, parse_json
from shoal.verify.engine import Engine, quote_text
from shoal.verify.envelopes import check_envelopes
from shoal.verify.result import Check

_ALLOWED = ("manifest.json", "README.md")
_WRITERS = re.compile(r"parquet-cpp-arrow version [\d.]+|parquet-mr version [\d.]+ \(build [0-9a-f]{40}\)")
_BLOCK = 1 << 20


def find_public(folder: Path) -> Path:
    """Return the folder that holds the manifest: the one given, or ``public`` in it."""
    for place in (folder / "public", folder):
        if (place / "manifest.json").is_file():
            return place
    what = "has no manifest.json, nor has its folder public" if folder.is_dir() else "is not a folder"
    raise InputError(f"{folder} {what}; give the folder that shoal anonymize wrote")


def find_internal(public: Path, name: str) -> Path | None:
    """Return a file in ``internal`` next to the public folder, if it is there.

    While a release waits to be published its folder is called ``unverified``.
    """
    path = public.parent / "internal" / name
    return path if public.name in ("public", "unverified") and path.is_file() else None


def check_folder(public: Path, files: Sequence[str], pages: Mapping[str, FileDigest | None]) -> Check:
    """Check that the folder has only *files*, all plain, and that *pages* have the stated digests.

    A README may be there without a digest, as in releases of earlier versions.
    """
    stated = {name: page.sha256 for name, page in pages.items() if page is not None}
    allowed = {public / name for name in (*_ALLOWED, *files, *stated)}
    extra = sum(1 for path in public.rglob("*") if path.is_symlink() or path not in allowed or not path.is_file())
    if extra:
        return Check("folder", False, f"the public folder contains {extra} files that do not belong there")
    for name, digest in stated.items():
        if not (public / name).is_file() or take_digest(public / name) != digest:
            return Check("folder", False, f"{name} differs from its digest in the manifest")
    return Check("folder", True, "no other files")


def require_plain(path: Path) -> None:
    """Raise OSError unless a file is a plain one: a pipe or a device may never end."""
    if not path.is_file():
        raise OSError("no plain file")


def take_digest(path: Path) -> str:
    """Return the SHA-256 of a plain file."""
    require_plain(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, data: DataFile) -> Check:
    """Compare the data file with its digest in the manifest."""
    same = take_digest(path) == data.sha256
    detail = "the file has the declared SHA-256" if same else "the file's SHA-256 is not the declared one"
    return Check("digest", same, detail)


def read_text(path: Path) -> str:
    """Return the text of the manifest; a file that cannot be read or decoded is the caller's mistake."""
    try:
        return path.read_bytes().decode("utf-8")  # line ends as they are: its digest is compared
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {type(error).__name__}") from None


def check_written(public: Path, content: bytes, key: bytes | None, *, with_source: bool) -> list[Check]:
    """Check that the manifest was not exchanged; a release in preparation has no proof yet."""
    checks = [*_check_recorded(public, content), *check_envelopes(public, content, key)]
    staged = public.name == "unverified" and (public.parent / "internal").is_dir()
    if not staged and not any(check.done for check in checks):
        why = (
            "not checked: whether this is the manifest that was written, with all its guarantees and parameters, is "
            "shown by internal/evidence.json next to public/, or by a signature and its public key"
        )
        checks.append(Check("recorded", True, why, done=False, required=with_source))
    return checks


def _check_recorded(public: Path, content: bytes) -> list[Check]:
    """Compare the manifest with the digest in ``internal/evidence.json``, if that is next to the public folder."""
    path = public.parent / "internal" / "evidence.json"
    if public.name != "public" or not path.is_file():
        return []
    try:
        evidence = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        evidence = None
    if not isinstance(evidence, dict) or not isinstance(evidence.get("manifest", {}), dict):
        return [Check("recorded", False, "internal/evidence.json cannot be read")]
    if "manifest" not in evidence:  # an earlier version wrote it
        return []
    same = evidence["manifest"].get("sha256") == hashlib.sha256(content).hexdigest()
    verb = "agrees with" if same else "differs from"
    return [Check("recorded", same, f"the manifest {verb} its digest in internal/evidence.json")]


def read_names(path: Path, file_format: str) -> list[str]:
    """Return the names of a file's columns."""
    if file_format == "parquet":
        with pq.ParquetFile(path) as file:
            return list(file.schema_arrow.names)
    with path.open(encoding="utf-8", newline="") as file:
        return next(csv.reader(file), [])


def check_hygiene(engine: Engine, path: Path, data: DataFile, missing: Sequence[str]) -> list[Check]:
    """Check that the file has rows only, and no trace of their origin."""
    if data.format == "parquet":
        found, unused = _find_parquet_leftovers(path), _list_unused(path)
    else:
        found, unused = _find_csv_leftovers(engine, path, allow_empty="" not in missing), []
    detail = "the data file " + ", ".join(found) if found else "the data file holds rows only"
    checks = [Check("hygiene", not found, detail)]
    if unused:
        checks.append(
            Check("dictionaries", False, f"the dictionaries of {', '.join(unused)} hold values that no row has")
        )
    return checks


def _find_parquet_leftovers(path: Path) -> list[str]:
    with pq.ParquetFile(path) as file:
        metadata, fields = file.metadata, file.schema_arrow
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(metadata.num_columns)]
    noted = any(field.metadata and set(field.metadata) != {b"PARQUET:field_id"} for field in fields)
    found = {
        "has key-value metadata": metadata.metadata or noted,
        "has free text for the software that wrote it": not _WRITERS.fullmatch(metadata.created_by or ""),
        "states an order of its rows": any(group.sorting_columns for group in groups),
        "has column statistics": any(one.is_stats_set or getattr(one, "is_geo_stats_set", False) for one in chunks),
        "has a page index": any(one.has_column_index or one.has_offset_index for one in chunks),
        "has Bloom filters": any(getattr(one, "bloom_filter_offset", None) is not None for one in chunks),
        "has key-value metadata of columns": any(getattr(one, "metadata", None) for one in chunks),
        "counts rows that are in no row group": sum(group.num_rows for group in groups) != metadata.num_rows,
        "has bytes that belong to no column": not _fill_file(path, chunks),
    }
    return [what for what, there in found.items() if there]


def _fill_file(path: Path, chunks: Sequence[pq.ColumnChunkMetaData]) -> bool:
    """Whether the columns fill the file up to its footer, without gaps."""
    with path.open("rb") as raw:
        raw.seek(-8, 2)
        footer = int.from_bytes(raw.read(4), "little")
        size = raw.tell() + 4
    offsets = [(one.dictionary_page_offset, one.data_page_offset) for one in chunks]
    starts = [min(offset for offset in both if offset is not None) for both in offsets]
    spans = sorted(zip(starts, (one.total_compressed_size for one in chunks), strict=True))
    ends = [4, *(start + length for start, length in spans)]
    return [*sorted(set(starts)), size - 8 - footer] == ends


def _list_unused(path: Path) -> list[str]:
    """Return the columns of text whose stored dictionaries hold entries of no row."""
    unused: dict[str, None] = {}
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            return []  # such columns are refused
        texts = [name for name in schema.names if schema.field(name).type in (pa.string(), pa.large_string())]
        groups = range(file.num_row_groups) if texts else ()
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for group in groups:
            # of each text, the dictionaries in turn, and which of their entries rows have
            met: dict[str, list[tuple[pa.Array, BoolArray]]] = {name: [] for name in texts}
            for batch in file.iter_batches(_BLOCK, row_groups=[group], columns=texts):
                batch.validate(full=True)
                for name, own in met.items():
                    entries, codes = batch.column(name).dictionary, batch.column(name).indices.drop_null()
                    if not own or not own[-1][0].equals(entries):
                        own.append((entries, np.zeros(len(entries), dtype=np.bool_)))
                    own[-1][1][np.bincount(np.asarray(codes), minlength=len(entries)) > 0] = True
            unused |= {name: None for name, own in met.items() if not all(used.all() for _, used in own)}
    return list(unused)


# The canonical form of a field: quotes enclose only texts with a comma, a quote or a line end. A text that a
# spreadsheet may run (first =, @, a tab, or a sign with brackets or the like later) has a quotation mark before it.
_CALM = r"[^,\"\r\n=@\t+\-]"  # the first letter of a field
_PLAIN = rf"{_CALM}[^,\"\r\n]*|[+-][^,\"\r\n(|!']*|"
_REST = r"(?:[^\",\r\n]|)*(?:,|\"\"|\r|\n)(?:[^\"]|\"\")*"
_QUOTED = rf"\"(?:(?:[^\",\r\n=@\t+\-]{_REST})|(?:(?:,|\"\"|\n)(?:[^\"]|\"\")*)|(?:[+-][^\"(|!']*[,\r\n][^\"(|!']*))\""
_NAME = rf"[^,\"\r\n]*|\"{_REST}\""
_RAW = "header = false, auto_detect = false, delim = chr(1), quote = '', escape = '', columns = {'line': 'VARCHAR'}"


def _find_csv_leftovers(engine: Engine, path: Path, *, allow_empty: bool) -> list[str]:
    lines, end, returns = 0, b"", False
    with path.open("rb") as file:
        if file.read(3).startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
            return ["begins with a byte order mark"]
        file.seek(0)
        while block := file.read(_BLOCK):
            if b"\0" in block:
                return ["holds NUL bytes"]
            lines, end, returns = lines + block.count(b"\n"), block[-1:], returns or b"\r" in block
    empty = '|""' if allow_empty else ""
    field = f"(?:{_PLAIN}|{_QUOTED}{empty})"
    several = "+" if len(read_names(path, "csv")) > 1 else "*"  # DuckDB skips empty lines of wider tables
    row, head = f"{field}(?:,{field}){several}", f"(?:{_NAME})(?:,(?:{_NAME}))*"
    good = end == b"\n"
    if good and not returns:
        with path.open("rb") as file:
            names = file.readline().decode("utf-8", "replace").removesuffix("\n")
        raw = f"read_csv({quote_text(str(path))}, {_RAW})"
        n_lines, n_good = engine.fetch_one(
            f"SELECT count(*), count(*) FILTER (regexp_full_match(line, {quote_text(row)})) FROM {raw}"
        )
        # The first line has names, which need no quotation mark before what looks like a formula.
        n_good += re.fullmatch(head, names) is not None and re.fullmatch(row, names) is None
        if n_lines == n_good == lines:
            return []
    if good:  # line ends within quotes, which are rare: read as a whole
        text = path.read_bytes().decode("utf-8")
        good = re.fullmatch(f"(?:{head})\n(?:{row}\n)*+", text) is not None
    return [] if good else ["is not written in the canonical form: line ends, quotes, or quotes before formulas differ"]

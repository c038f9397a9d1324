"""The files of a release: nothing lies beside them, they are those of the manifest, and they hold rows only.

Whether the manifest is the one that its owner wrote is given by the digest kept in ``internal``, and by a signature.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from shoal.core.errors import InputError, UsageError
from shoal.manifest import DataFile, FileDigest, ManifestError, parse_json
from shoal.verify.result import Check

SIGNATURE = "manifest.sig"
_ALLOWED = ("manifest.json", "README.md")


def check_folder(public: Path, files: Sequence[str], pages: Mapping[str, FileDigest | None]) -> Check:
    """Nothing but *files*, plain ones, lies beside the manifest, and *pages* have the digests that it tells.

    A README may be there without a digest, as in releases of earlier versions.
    """
    stated = {name: page.sha256 for name, page in pages.items() if page is not None}
    allowed = {public / name for name in (*_ALLOWED, *files, *stated)}
    extra = sum(1 for path in public.rglob("*") if path.is_symlink() or path not in allowed or not path.is_file())
    if extra:
        return Check("folder", False, f"the public folder contains {extra} files that do not belong there")
    for name, digest in stated.items():
        if not (public / name).is_file() or _digest(public / name) != digest:
            return Check("folder", False, f"{name} is not the one that the manifest was written for")
    return Check("folder", True, "no other files")


def _digest(path: Path) -> str:
    if not path.is_file():
        raise OSError("no plain file")  # of a pipe or a device the end may never come
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_digest(path: Path, data: DataFile) -> Check:
    """The data file is the one that the manifest was written for."""
    same = _digest(path) == data.sha256
    detail = "the file has the declared SHA-256" if same else "the file's SHA-256 is not the declared one"
    return Check("digest", same, detail)


def check_hygiene(path: Path, data: DataFile) -> Check:
    """The file carries the rows and nothing about where they came from."""
    found = _parquet_leftovers(path) if data.format == "parquet" else _csv_leftovers(path)
    detail = "the data file " + ", ".join(found) if found else "the data file holds rows only"
    return Check("hygiene", not found, detail)


def _parquet_leftovers(path: Path) -> list[str]:
    found: dict[str, None] = {}
    spans: list[tuple[int, int]] = []
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        if metadata.metadata or any(
            field.metadata and set(field.metadata) != {b"PARQUET:field_id"} for field in file.schema_arrow
        ):
            found["has key-value metadata"] = None
        for group in range(metadata.num_row_groups):
            for place in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(place)
                if chunk.is_stats_set or getattr(chunk, "is_geo_stats_set", False):
                    found["has column statistics"] = None
                if chunk.has_column_index or chunk.has_offset_index:
                    found["has a page index"] = None
                if getattr(chunk, "bloom_filter_offset", None) is not None:
                    found["has Bloom filters"] = None
                if getattr(chunk, "metadata", None):
                    found["has key-value metadata of columns"] = None
                starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
                start = min(offset for offset in starts if offset is not None)
                spans.append((start, start + chunk.total_compressed_size))
        if sum(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)) != metadata.num_rows:
            found["counts rows that are in no row group"] = None
    end = 4
    for start, stop in sorted(spans):
        if start != end:
            break
        end = stop
    with path.open("rb") as raw:
        raw.seek(-8, 2)
        footer = int.from_bytes(raw.read(4), "little")
        size = raw.tell() + 4
    if end != size - 8 - footer or len({start for start, _ in spans}) != len(spans):
        found["has bytes that belong to no column"] = None
    return list(found)


def _csv_leftovers(path: Path) -> list[str]:
    found: dict[str, None] = {}
    with path.open("rb") as file:
        first = True
        while block := file.read(1 << 20):
            if first and block.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
                found["begins with a byte order mark"] = None
            if b"\0" in block:
                found["holds NUL bytes"] = None
            first = False
    return list(found)


def read_json(path: Path) -> str:
    """Return the text of the manifest; a file that cannot be read or decoded is the caller's mistake."""
    try:
        return path.read_bytes().decode("utf-8")  # line ends as they are: its digest is compared
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} cannot be read: {type(error).__name__}") from None


def check_recorded(public: Path, content: bytes) -> list[Check]:
    """Compare the manifest with the digest in ``internal/evidence.json``, if that lies beside the public folder."""
    path = public.parent / "internal" / "evidence.json"
    if public.name != "public" or not path.is_file():
        return []
    try:
        evidence = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ManifestError):
        evidence = None
    if not isinstance(evidence, dict) or not isinstance(evidence.get("manifest", {}), dict):
        return [Check("recorded", False, "internal/evidence.json cannot be read")]
    if "manifest" not in evidence:
        return [Check("recorded", True, "internal/evidence.json has no digest of the manifest", done=False)]
    same = evidence["manifest"].get("sha256") == hashlib.sha256(content).hexdigest()
    is_it = "is" if same else "is not"
    return [Check("recorded", same, f"the manifest {is_it} the one that internal/evidence.json was written with")]


def check_signature(public: Path, content: bytes, key: bytes | None) -> list[Check]:
    """Check the signature of the manifest with a public key; without a key it is stated that this was not done."""
    path = public / SIGNATURE
    if key is None:
        unknown = "the release is signed; give the public key of whoever signed it to check that"
        return [Check("signature", True, unknown, done=False)] if path.is_file() else []
    verifier = _public_key(key)
    try:
        verifier.verify(bytes.fromhex(path.read_text(encoding="ascii").strip()), content)
    except OSError:
        return [Check("signature", False, "there is no signature")]
    except (ValueError, importlib.import_module("cryptography.exceptions").InvalidSignature):
        return [Check("signature", False, "the signature is not that of this manifest by this key")]
    return [Check("signature", True, "the manifest is signed with this key")]


def _public_key(pem: bytes) -> Any:
    try:
        package = "cryptography.hazmat.primitives"
        serialization = importlib.import_module(f"{package}.serialization")
        kind = importlib.import_module(f"{package}.asymmetric.ed25519").Ed25519PublicKey
    except ImportError:
        raise UsageError("signatures need the package cryptography: pip install 'shoal[pseudonyms]'") from None
    try:
        found = serialization.load_pem_public_key(pem)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, kind):
        raise InputError(
            "the public key is none of Ed25519, as `shoal key new --signing` writes it beside the private one"
        )
    return found

"""Digests of files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from shoal.errors import InputError


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_digest(path: Path) -> str:
    """Return the digest of a file of a source, which somebody may take away while it is used."""
    try:
        return file_digest(path)
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or 'input or output error'}") from None

"""Releases as archives: the public files in one, the internal ones in another, never both."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Literal

from shoal.release.release import INTERNAL, PUBLIC

Audience = Literal["public", "internal"]
_FOLDERS: dict[Audience, str] = {"public": PUBLIC, "internal": INTERNAL}


def zipped(release: Path, audience: Audience, archive: Path, inside: str) -> None:
    """Write one folder of a release as an archive, whole or not at all; names in it begin with *inside*."""
    folder = release / _FOLDERS[audience]
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    number, name = tempfile.mkstemp(dir=archive.parent, prefix=".zip-")  # readable by its owner alone
    waiting = Path(name)
    try:
        with os.fdopen(number, "wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as written:
            for path in files:
                kept = zipfile.ZIP_STORED if path.suffix == ".parquet" else zipfile.ZIP_DEFLATED
                entry = zipfile.ZipInfo(f"{inside}/{_FOLDERS[audience]}/{path.relative_to(folder).as_posix()}")
                entry.compress_type, entry.external_attr = kept, 0o644 << 16
                with path.open("rb") as source, written.open(entry, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        waiting.replace(archive)
    finally:
        waiting.unlink(missing_ok=True)


def unzipped(archive: Path, folder: Path) -> None:
    """Write what an archive of ours holds into a new folder, to be looked at as its recipient would."""
    folder.mkdir(mode=0o700)
    with zipfile.ZipFile(archive) as found:
        found.extractall(folder)  # names were made by us: no paths upwards, no links

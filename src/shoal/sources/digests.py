"""Digests of files."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

from shoal.core.errors import InputError

_SETTLED = 5_000_000_000  # nanoseconds after a change; sooner, another one may leave a file's times as they are


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file of a source as it was when it was opened, before any of it was read.

    A run reads its source several times. The digest is taken once, after the last time, and only of a file that is
    still the same: then it is the digest of the bytes that were read.
    """

    path: Path
    state: tuple[int, ...]
    sha256: str  # of a file that had changed just before, whose times may not tell that it changes again; else empty

    @classmethod
    def of(cls, path: Path) -> OpenedFile:
        """Remember what a file is now."""
        state = _state(path)
        lately = time.time_ns() - max(state[-2:]) < _SETTLED
        return cls(path, state, file_digest(path) if lately else "")

    def digest(self) -> str:
        """Return the SHA-256 of the file's bytes, or raise if they may be others than those that were read."""
        try:
            found = file_digest(self.path)
            same = _state(self.path) == self.state and self.sha256 in ("", found)
        except OSError as error:
            raise InputError(f"cannot read {self.path.name}: {error.strerror or 'input or output error'}") from None
        if not same:
            raise InputError(f"{self.path.name} changed while it was being read; nothing was published")
        return found


def _state(path: Path) -> tuple[int, ...]:
    about = path.stat()
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns

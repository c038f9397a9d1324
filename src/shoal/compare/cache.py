"""Figures of earlier comparisons by the digest of what they were made from, in a folder that is its owner's alone."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
import time
from pathlib import Path
from typing import Any

from shoal.core.errors import UsageError

FORMAT = 1
MOST = {"row": 2000, "drawing": 500}  # entries of each kind; the least recently used go first
_LONGEST = 1 << 20  # bytes; entries have some thousand
_UNFINISHED = 86_400  # seconds after which a file that was never finished is removed
DRAWING_BITS = 128


def default_folder() -> Path:
    """Return the folder of a user's comparisons."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal" / "compare"


class Cache:
    """Entries of figures, each a file that is written whole or not at all.

    What cannot be read, is not ours, or is not what was written, is as if it were not there. What cannot be written is
    left out. Several processes may use one folder at once.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder, if it is not there; refuse one in which others could write."""
        self._folder = folder.absolute()
        try:
            self._folder.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
            found = self._folder.stat()
            if not os.access(self._folder, os.W_OK | os.X_OK):
                raise PermissionError(None, "no permission to write there")
        except OSError as error:
            raise UsageError(f"cannot keep figures in {folder}: {error.strerror or 'input or output error'}") from None
        if not stat.S_ISDIR(found.st_mode):
            raise UsageError(f"cannot keep figures in {folder}: it is not a folder")
        if os.name == "posix" and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            raise UsageError(f"others may write to {folder}, so its figures prove nothing; choose a folder of your own")

    def drawing(self, key: str) -> int:
        """Return the random number of this key: drawn by the operating system once, the same ever after."""
        kept = self._number(key)
        if kept is not None:
            self._touch("drawing", key)
            return kept
        drawn = secrets.randbits(DRAWING_BITS)
        for over in (False, True):  # what another process was quicker to draw counts; what nobody can read is replaced
            self._write("drawing", key, {"number": f"{drawn:x}"}, over=over)
            kept = self._number(key)
            if kept is not None:
                return kept
        return drawn

    def found(self, key: str) -> Any:
        """Return what was kept under a key, None if nothing was."""
        content = self._read("row", key)
        if content is not None:
            self._touch("row", key)
        return content

    def keep(self, key: str, content: dict[str, Any]) -> None:
        """Keep figures under a key."""
        self._write("row", key, content, over=True)

    def tidy(self) -> None:
        """Remove the least recently used entries beyond the bounds, and what was never finished."""
        with contextlib.suppress(OSError):
            files = [(each.stat(follow_symlinks=False).st_mtime, each.name) for each in os.scandir(self._folder)]
            for kind, most in MOST.items():
                ours = sorted((age, name) for age, name in files if name.startswith(f"{kind}-"))
                self._remove([name for _, name in ours[: max(0, len(ours) - most)]])
            old = time.time() - _UNFINISHED
            self._remove([name for age, name in files if name.startswith("part-") and age < old])

    def _number(self, key: str) -> int | None:
        try:
            number = int(self._read("drawing", key)["number"], 16)
        except (ValueError, TypeError, KeyError):
            return None
        return number if 0 <= number < 1 << DRAWING_BITS else None

    def _path(self, kind: str, key: str) -> Path:
        return self._folder / f"{kind}-{key}.json"

    def _read(self, kind: str, key: str) -> Any:
        """Return the content of an entry, if it is one that was written here for this key."""
        try:
            file = os.open(
                self._path(kind, key), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
            )
        except OSError:
            return None
        with os.fdopen(file, "rb") as opened:
            found = os.fstat(file)
            own = os.name != "posix" or (found.st_uid == os.geteuid() and not found.st_mode & 0o022)
            if not stat.S_ISREG(found.st_mode) or not own or found.st_size > _LONGEST:
                return None
            try:
                entry = json.loads(opened.read(_LONGEST))
                content = entry["content"]
                same = entry == _entry(kind, key, content)
            except (OSError, ValueError, TypeError, KeyError, RecursionError):
                return None
        return content if same else None

    def _write(self, kind: str, key: str, content: Any, *, over: bool) -> None:
        part = self._folder / f"part-{secrets.token_hex(16)}"
        try:
            file = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w", encoding="utf-8") as out:
                json.dump(_entry(kind, key, content), out)
            if over:
                part.replace(self._path(kind, key))
            else:
                os.link(part, self._path(kind, key))  # fails if another process was quicker
        except OSError:
            pass
        finally:
            part.unlink(missing_ok=True)

    def _touch(self, kind: str, key: str) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._path(kind, key))

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with contextlib.suppress(OSError):
                (self._folder / name).unlink()


def _entry(kind: str, key: str, content: Any) -> dict[str, Any]:
    text = json.dumps(content, sort_keys=True)
    return {
        "shoal": f"comparison {kind}",
        "format": FORMAT,
        "key": key,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "content": content,
    }

"""The private folder of one studio: nobody else may look into it, and it goes when the studio ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_PREFIX = "shoal-studio-"
_LOCK = "lock"
_ATTEMPTS = 10
_UNLOCKED_SECONDS = 3600  # a folder without a lock is only just being made, or was left long ago


class Room:
    """A folder of mode 0700 in the system's temporary folder, locked while the studio lives.

    Rooms that studios of the same user left behind, because they were killed, are removed first.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make the folder within *parent*, or where the system keeps what is temporary."""
        home = Path(tempfile.gettempdir()) if parent is None else parent
        remove_stale(home)
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=home))
        made = self.folder / f"{_LOCK}-new"  # it has its name only when it is held: who finds it free removes the room
        self._lock: int | None = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        made.rename(self.folder / _LOCK)

    def remove(self) -> None:
        """Remove the folder with everything in it; a second call does nothing."""
        if self._lock is None:
            return
        for _ in range(_ATTEMPTS):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break
            time.sleep(0.1)  # a thread that is being ended still wrote a file
        os.close(self._lock)
        self._lock = None

    def __enter__(self) -> Self:
        """Return the room."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the folder."""
        self.remove()


def remove_stale(parent: Path) -> None:
    """Remove rooms of this user in *parent* whose studio is no more; other people's are never touched."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else removes it as well
            about = folder.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and _is_left(folder, about.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path, changed: float) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - changed > _UNLOCKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True

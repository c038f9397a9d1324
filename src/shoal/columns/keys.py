"""Key files of pseudonyms: bytes of the operating system, for their owner's eyes only."""

from __future__ import annotations

import os
import stat
import zlib
from itertools import pairwise
from pathlib import Path

from shoal.core.errors import InputError, UsageError

KEY_BYTES = 32
PUBLIC = "public"  # the folder of a release that is made to be shared
_MOST_BYTES = 4096
_FEWEST_DISTINCT = 16  # 32 random bytes have fewer with a chance of about 1e-11


def new_key(path: Path) -> None:
    """Write a new key of 32 random bytes to a file that did not exist and that only its owner may read."""
    key = os.urandom(KEY_BYTES)
    while weakness(key) is not None:
        key = os.urandom(KEY_BYTES)
    write_key(path, key)


def write_key(path: Path, key: bytes) -> None:
    """Write a key to a file that did not exist and that only its owner may read."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists; a key is never written over, for its use would be lost") from None
    except OSError as error:
        raise UsageError(f"cannot write the key {path}: {error.strerror or 'input or output error'}") from None
    with os.fdopen(file, "wb") as out:
        out.write(key)
        out.flush()
        os.fsync(out.fileno())


def refuse_public(path: Path) -> None:
    """Raise if a file would stand in a folder that is made to be shared."""
    if _is_public(path):
        raise UsageError(f"{path} would be in a folder named {PUBLIC!r}, which is for everybody; choose another place")


def _is_public(path: Path) -> bool:
    return PUBLIC in path.absolute().resolve().parent.parts


def read_key(path: Path) -> bytes:
    """Return the bytes of a key file; one that others may read or that could be guessed is refused."""
    if _is_public(path):
        raise InputError(
            f"the key {path} is in a folder named {PUBLIC!r}, which is for everybody; move it, or make a new one if "
            "others have seen it"
        )
    try:
        key = read_private(path)
    except OSError as error:
        reason = error.strerror or "input or output error"
        raise InputError(f"cannot read the key {path}: {reason}; `shoal key new` makes one") from None
    weak = weakness(key)
    if weak is not None:
        raise InputError(f"the key {path} {weak}; `shoal key new` makes a key that nobody can guess")
    return key


def read_private(path: Path) -> bytes:
    """Return the first bytes of a file, more than a key has; one that others may read or change is refused."""
    with path.open("rb") as file:
        if os.name == "posix" and stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise InputError(f"the key {path} may be read or changed by others; take that away with chmod 600")
        return file.read(_MOST_BYTES + 1)


def weakness(key: bytes) -> str | None:
    """Say why bytes could be guessed, as far as looking at them can tell; None if nothing speaks against them.

    >>> weakness(b"correct horse battery staple, and more")
    'is text, which people choose badly'
    >>> weakness(bytes(range(200, 232)))
    'follows a pattern'
    """
    if len(key) < KEY_BYTES:
        return f"has {len(key)} bytes and needs {KEY_BYTES}"
    if len(key) > _MOST_BYTES:
        return f"has more than {_MOST_BYTES} bytes and is no key"
    if _is_text(key):
        return "is text, which people choose badly"
    if len(set(key)) < _FEWEST_DISTINCT:
        return f"is made of {len(set(key))} different bytes only"
    steps = bytes((after - before) % 256 for before, after in pairwise(key))
    if len(set(steps)) < _FEWEST_DISTINCT // 2 or any(len(zlib.compress(said, 9)) < len(said) for said in (key, steps)):
        return "follows a pattern"
    return None


def _is_text(key: bytes) -> bool:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character.isspace() for character in text)

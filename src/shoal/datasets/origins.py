"""Where a public table comes from: a folder of one's own, the cache, or its publisher, always by checksum."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from shoal.core.errors import InputError

LONGEST = 64 * 2**20  # bytes; no file of ours comes near
PATIENCE = 30  # seconds without a byte


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file as its publisher offers it."""

    address: str
    md5: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """A public table, known by the digest of its normalised text."""

    title: str
    file: str  # the name in a folder; the text is packed if it ends in .gz
    sources: tuple[SourceFile, ...]
    normalise: Callable[[list[bytes]], bytes]
    sha256: str  # of the normalised text, unpacked

    def text(self, folder: str | os.PathLike[str] | None = None) -> bytes:
        """Return the normalised text, of which every byte is as expected.

        Looked for in *folder*, else in the folder that ``SHOAL_DATA`` names, else in the cache, else
        downloaded into the cache. A cached file that does not fit its checksum is removed.
        """
        if folder is not None:
            return self._checked(self._unpacked(Path(folder) / self.file), str(folder))
        given = data_folder()
        if given is not None and (given / self.file).is_file():
            return self._checked(self._unpacked(given / self.file), "the folder of SHOAL_DATA")
        cached = cache_folder() / self.file
        if not cached.is_file():
            self._download(cached)
        try:
            return self._checked(self._unpacked(cached), "the cache")
        except InputError:
            cached.unlink(missing_ok=True)
            raise

    def _unpacked(self, path: Path) -> bytes:
        try:
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or "it is not whole gzip data"
            raise InputError(f"cannot read {path}: {reason}; {self._remedy}") from error

    def _checked(self, text: bytes, where: str) -> bytes:
        received = hashlib.sha256(text).hexdigest()
        if received != self.sha256:
            raise InputError(
                f"{self.file} from {where} is not the {self.title} table: its unpacked SHA-256 begins with "
                f"{received[:12]}, expected {self.sha256[:12]}"
            )
        return text

    def _download(self, target: Path) -> None:
        """Put the normalised table at *target*, whole and checked, or leave nothing there."""
        parts = []
        for source in self.sources:
            try:
                part = fetch(source.address)
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = getattr(error, "reason", None) or type(error).__name__
                raise InputError(f"cannot download {source.address}: {reason}; {self._remedy}") from error
            received = hashlib.md5(part, usedforsecurity=False).hexdigest()
            if source.md5 is not None and received != source.md5:
                raise InputError(
                    f"{source.address} is not what it was: its MD5 is {received}, expected {source.md5}; {self._remedy}"
                )
            parts.append(part)
        text = self._checked(self.normalise(parts), "its publisher")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with placed(target) as partial:
                partial.write_bytes(gzip.compress(text, mtime=0) if target.suffix == ".gz" else text)
        except OSError as error:
            raise InputError(f"cannot keep {self.file} in {target.parent}: {error.strerror}") from error

    @property
    def _remedy(self) -> str:
        return f"put {self.file} into a folder and name the folder in SHOAL_DATA"


def data_folder() -> Path | None:
    """Return the folder that ``SHOAL_DATA`` names, if it does."""
    given = os.environ.get("SHOAL_DATA")
    return Path(given) if given else None


def cache_folder() -> Path:
    """Return where downloads are kept: ``shoal`` in the user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shoal"


def fetch(address: str) -> bytes:
    """Return the body behind an HTTP(S) address, whole; the only function here that uses the network."""
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
    """Drop comment lines and empty lines, and blanks around values.

    >>> plain_lines(b"|note\\n39, State-gov\\n\\n50,  Private \\n")
    b'39,State-gov\\n50,Private\\n'
    """
    text = re.sub(rb"\r\n?", b"\n", text)
    text = re.sub(rb"(?m)^\|.*$", b"", text)
    text = re.sub(rb"(?m)[ \t]*(,|$)[ \t]*", rb"\1", text)
    return re.sub(rb"\n{2,}", b"\n", text.strip(b"\n \t") + b"\n")


@contextmanager
def placed(target: Path) -> Iterator[Path]:
    """Give a path to write to; it becomes *target* at the end, or vanishes on any exception."""
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        yield partial
        partial.replace(target)
    finally:
        with suppress(OSError):  # it was moved, or never came to be
            partial.unlink()

"""The public files of a release, in compressed pieces, and out of them again."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.core.errors import InputError
from shoal.linking.ledger.records import StoredFile
from shoal.sources.digests import file_digest

PIECE = 2**20  # bytes of a file that are compressed together
_LEVEL = 3


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """A public folder as a ledger keeps it."""

    files: Mapping[str, StoredFile]
    pieces: Mapping[str, Sequence[bytes]]

    @classmethod
    def of(cls, public: Path) -> Packed:
        """Read all files of a public folder."""
        files: dict[str, StoredFile] = {}
        pieces: dict[str, list[bytes]] = {}
        for path in sorted(public.iterdir()):
            digest, size = hashlib.sha256(), 0
            pieces[path.name] = []
            try:
                with path.open("rb") as file:
                    while content := file.read(PIECE):
                        digest.update(content)
                        size += len(content)
                        pieces[path.name].append(zlib.compress(content, _LEVEL))
            except OSError as error:
                raise InputError(f"cannot read {path.name}: {error.strerror}") from None
            files[path.name] = StoredFile(size, digest.hexdigest())
        return cls(files, pieces)


def stored_files(public: Path) -> dict[str, StoredFile]:
    """Return the sizes and digests of a folder's files."""
    return {path.name: StoredFile(path.stat().st_size, file_digest(path)) for path in public.iterdir()}


def same_files(public: Path, files: Mapping[str, StoredFile]) -> bool:
    """Whether a folder has just these files, byte by byte."""
    try:
        return stored_files(public) == files
    except OSError:
        return False


def unpacked(pieces: Iterator[bytes], expected: StoredFile, path: Path) -> bool:
    """Write a file out of its pieces; false if it does not come out as it went in."""
    digest, size = hashlib.sha256(), 0
    with path.open("xb") as file:
        for piece in pieces:
            reader = zlib.decompressobj()
            try:
                content = reader.decompress(piece, PIECE)
            except (zlib.error, TypeError):  # no bytes at all, if the database itself is spoiled
                return False
            digest.update(content)
            size += len(content)
            file.write(content)
    return size == expected.size and digest.hexdigest() == expected.sha256

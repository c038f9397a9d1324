"""Digests of everything that a row of a comparison comes from: the same digest, the same figures."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

import shoal
from shoal.models.base import PopulationModel
from shoal.policy.policy import Policy
from shoal.sources.digests import file_digest

_BELOW = ("numba", "numpy", "pyarrow", "pydantic")  # packages that figures stand on
_ROWS = 1 << 20  # of a table that are taken at once
_OWN_KEY = "the comparison's own key"


@dataclass(frozen=True, slots=True)
class About:
    """Whom a comparison is about: who is drawn belongs to this, whatever is done with them."""

    source: str  # digest of the table
    control: str | None  # digest of the control table
    share: float | None  # of the table, held out where there is no control table

    @property
    def digest(self) -> str:
        """The digest of all of it."""
        return digest([self.source, self.control, self.share])


@dataclass(frozen=True, slots=True)
class Common:
    """What all rows of a comparison share."""

    about: About
    drawing: str  # the seed, or the number that people are put aside by and questions are drawn by
    targets: int
    predicted: str | None
    compared: Sequence[str]  # attributes
    first: Policy  # whose trees values are compared by
    own_key: Path  # of pseudonyms, made for this comparison

    def key(self, policy: Policy) -> str | None:
        """Return the digest that a policy's row is kept under; None if it names what may change unseen."""
        told, first = self._content(policy), self._content(self.first)
        if told is None or first is None:
            return None
        text = _canonical(
            {
                "code": code_digest(),
                "about": self.about.digest,
                "drawing": self.drawing,
                "targets": self.targets,
                "predicted": self.predicted,
                "compared": list(self.compared),
                "ground": [first["document"].get("attributes"), first["files"]],
                "policy": told,
            }
        )
        return hashlib.sha256(text.replace(_canonical(str(self.own_key)), _canonical(_OWN_KEY)).encode()).hexdigest()

    def ground(self) -> str | None:
        """Return the digest of the trees that values are compared by, as their files are now."""
        first = self._content(self.first)
        return None if first is None else digest([first["document"].get("attributes"), first["files"]])

    def _content(self, policy: Policy) -> dict[str, Any] | None:
        """Return what a policy says, with digests of the files that it names."""
        for model in policy.privacy:
            if isinstance(model, PopulationModel) and not _is_file(policy.folder, model.population):
                return None  # a database, say, whose rows nobody has a digest of
        texts = {text for text in _texts(policy.document) if text != str(self.own_key)}
        if any(_is_stream(policy.folder, text) for text in texts):
            return None
        named = sorted(text for text in texts if _is_file(policy.folder, text))
        try:
            files = {text: file_digest(policy.folder / text) for text in named}
        except OSError:
            return None
        return {
            "document": policy.document,
            "read": [repr((policy.privacy, policy.method, policy.missing, policy.max_withheld, policy.sample))],
            "files": files,
        }


def digest(content: Any) -> str:
    """Return the SHA-256 of something that JSON can tell; the order of keys counts, as it does in policies."""
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def table_digest(table: pa.Table) -> str:
    """Return the SHA-256 of a table's names, types and values, however its rows are cut into pieces."""
    sink = _Hashed()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema.remove_metadata()) as writer:
        for start in range(0, table.num_rows, _ROWS):
            writer.write_table(table.slice(start, _ROWS).replace_schema_metadata(None).combine_chunks())
    return sink.digest.hexdigest()


@cache
def code_digest() -> str:
    """Return the digest of shoal's own code and of the versions of what it stands on."""
    found = hashlib.sha256()
    root = Path(shoal.__file__).parent
    for path in sorted(root.rglob("*.py")):
        found.update(f"{path.relative_to(root).as_posix()} {file_digest(path)}\n".encode())
    for name in _BELOW:
        found.update(f"{name} {version(name)}\n".encode())
    found.update(shoal.__version__.encode())
    return found.hexdigest()


def _is_file(folder: Path, text: str) -> bool:
    try:
        return (folder / text).is_file()
    except OSError:  # a text that is too long for a name
        return False


def _is_stream(folder: Path, text: str) -> bool:
    """Whether a text names a pipe or a device, which gives something else each time it is read."""
    try:
        return (folder / text).exists() and not (folder / text).is_file() and not (folder / text).is_dir()
    except OSError:  # a text that is too long for a name
        return False


def _texts(document: Any) -> Iterator[str]:
    """Yield every text of a document that may be the name of a file."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)
        elif isinstance(part, str | Path) and str(part):
            yield str(part)


def _canonical(content: Any) -> str:
    return json.dumps(content, ensure_ascii=True, separators=(",", ":"), default=str)


class _Hashed(io.RawIOBase):
    """A file that keeps the digest of what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return len(data)

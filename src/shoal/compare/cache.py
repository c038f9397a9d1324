"""Figures of earlier comparisons, by the digest of everything that they come from: the same digest, the same figures.

They are in a folder that is its owner's alone, and tell nothing that only the policy or the data know.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

import shoal
from shoal.attacks.base import Refusal, Trials
from shoal.compare.result import RISKS, Row
from shoal.core.errors import UsageError
from shoal.models.base import PopulationModel
from shoal.policy.policy import Policy
from shoal.release.figures import Guarantee
from shoal.sources.base import file_digest
from shoal.utility.marginals import Marginals

FORMAT = 2
MOST = {"row": 2000, "drawing": 500}  # entries of each kind; the least recently used go first
_LONGEST = 1 << 20  # bytes; entries have some thousand
_UNFINISHED = 86_400  # seconds after which a file that was never finished is removed
DRAWING_BITS = 128
_BELOW = ("numba", "numpy", "pyarrow", "pydantic")  # packages that figures stand on
_ROWS = 1 << 20  # of a table that are taken at once
_OWN_KEY = "the comparison's own key"


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
        drawn = secrets.randbits(DRAWING_BITS)
        for over in (
            None,
            False,
            True,
        ):  # what another process was quicker to draw counts; what nobody can read is replaced
            if over is not None:
                self._write("drawing", key, {"number": f"{drawn:x}"}, over=over)
            with contextlib.suppress(ValueError, TypeError, KeyError):
                kept = int(self._read("drawing", key)["number"], 16)
                if 0 <= kept < 1 << DRAWING_BITS:
                    return kept
        return drawn

    def look_up(self, key: str) -> Any:
        """Return what was kept under a key, None if nothing was."""
        return self._read("row", key)

    def keep(self, key: str, content: dict[str, Any]) -> None:
        """Keep figures under a key."""
        self._write("row", key, content, over=True)

    def tidy(self) -> None:
        """Remove the least recently used entries beyond the bounds, and what was never finished."""
        with contextlib.suppress(OSError):
            files = sorted((each.stat(follow_symlinks=False).st_mtime, each.name) for each in os.scandir(self._folder))
            old = time.time() - _UNFINISHED
            unwanted = [name for age, name in files if name.startswith("part-") and age < old]
            for kind, most in MOST.items():
                ours = [name for _, name in files if name.startswith(f"{kind}-")]
                unwanted += ours[: max(0, len(ours) - most)]
            for name in unwanted:
                (self._folder / name).unlink(missing_ok=True)

    def _path(self, kind: str, key: str) -> Path:
        return self._folder / f"{kind}-{key}.json"

    def _read(self, kind: str, key: str) -> Any:
        """Return the content of an entry, which is used now, if it is one that was written here for this key."""
        path = self._path(kind, key)
        try:
            file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
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
                if entry != _entry(kind, key, content):
                    return None
            except (OSError, ValueError, TypeError, KeyError, RecursionError):
                return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

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


def _entry(kind: str, key: str, content: Any) -> dict[str, Any]:
    text = json.dumps(content, sort_keys=True)
    return {
        "shoal": f"comparison {kind}",
        "format": FORMAT,
        "key": key,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "content": content,
    }


class Memory:
    """Rows of earlier comparisons, kept under the digest of everything that their figures come from."""

    def __init__(
        self, cache: Cache | None, first: Policy, own_key: Path, compared: Sequence[str], shared: Sequence[Any]
    ) -> None:
        """Look rows up in a cache, if there is one.

        Values of the *compared* attributes are compared by the trees of the *first* policy; *own_key* is the file of
        the key of pseudonyms that was made for this comparison. What else all rows share is *shared*.
        """
        self._cache, self._first, self._own_key = cache, first, own_key
        self._shared = [*shared, list(compared)]
        self._ground = None if cache is None else self._read_ground()

    def key(self, policy: Policy) -> str | None:
        """Return the digest that a policy's row is kept under; None if it names what may change unseen."""
        content = None if self._cache is None else self._content(policy)
        ground = None if content is None else self._read_ground()
        if ground is None:
            return None
        text = _canonical([code_digest(), self._shared, ground, content])
        return hashlib.sha256(text.replace(_canonical(str(self._own_key)), _canonical(_OWN_KEY)).encode()).hexdigest()

    def look_up(self, key: str | None, row: Row, policy: Policy) -> Row | None:
        """Return the row with the figures that were kept, None if there are none of this policy."""
        content = None if self._cache is None or key is None else self._cache.look_up(key)
        figures = None if content is None else Figures.read(content)
        return None if figures is None else figures.fill(row, policy)

    def keep(self, key: str | None, row: Row, policy: Policy) -> None:
        """Keep a row, unless a file that it comes from changed meanwhile, or since rows are compared by it."""
        if self._cache is None or key is None or self.key(policy) != key or self._read_ground() != self._ground:
            return
        figures = Figures.of(row, policy)
        if figures is not None:
            self._cache.keep(key, asdict(figures))

    def _read_ground(self) -> list[Any] | None:
        """Return what values are compared by, as the files are now."""
        first = self._content(self._first)
        return None if first is None else [first[0].get("attributes"), first[-1]]

    def _content(self, policy: Policy) -> tuple[Mapping[str, Any], str, dict[str, str]] | None:
        """Return what a policy says, how it was read, and digests of the files that it names."""
        for model in policy.privacy:
            if isinstance(model, PopulationModel) and _kind(policy.folder, model.population) != "file":
                return None  # a database, say, whose rows nobody has a digest of
        kinds = {text: _kind(policy.folder, text) for text in _texts(policy.document) if text != str(self._own_key)}
        if "stream" in kinds.values():
            return None
        try:
            files = {text: file_digest(policy.folder / text) for text in sorted(kinds) if kinds[text] == "file"}
        except OSError:
            return None
        read = repr((policy.privacy, policy.method, policy.missing, policy.max_withheld, policy.sample))
        return policy.document, read, files


def digest(content: Any) -> str:
    """Return the SHA-256 of something that JSON can tell; the order of keys counts, as it does in policies."""
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def table_digest(table: pa.Table) -> str:
    """Return the SHA-256 of a table's names, types and values, however its rows are cut into pieces."""
    found = hashlib.sha256()
    schema = table.schema.remove_metadata()
    for start in range(0, max(table.num_rows, 1), _ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(table.slice(start, _ROWS).replace_schema_metadata(None).combine_chunks())
        found.update(sink.getvalue())
    return found.hexdigest()


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


def _kind(folder: Path, text: str) -> Literal["file", "stream"] | None:
    """Return whether a text names a file, or a pipe or a device, which gives something else each time it is read."""
    path = folder / text
    try:
        if path.is_file():
            return "file"
        return "stream" if path.exists() and not path.is_dir() else None
    except OSError:  # a text that is too long for a name
        return None


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


@dataclass(frozen=True, slots=True)
class Figures:
    """What is kept of a row: what was measured for one policy, or why no release can meet it.

    Of guarantees only what was achieved is here: parameters, which may name values, stand in the policy.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    reason: str | None
    achieved: tuple[float, ...] = ()
    claims: tuple[dict[str, Any], ...] = ()
    risks: dict[str, Trials | Refusal] = field(default_factory=dict)
    marginals: tuple[Marginals, ...] = ()
    seconds: Annotated[float, Field(ge=0)] = 0.0
    records: Annotated[int, Field(ge=0)] = 0

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Figures | None:
        """Return what was kept; None if it is anything else."""
        try:
            return TypeAdapter(cls).validate_json(json.dumps(content))
        except (ValidationError, TypeError, ValueError, RecursionError):
            return None

    @classmethod
    def of(cls, row: Row, policy: Policy) -> Figures | None:
        """Return what can be kept of a row; None if a later run could find something else, or not read it."""
        if row.reason is not None:
            return cls(row.reason) if row.unreachable else None
        assert row.seconds is not None  # noqa: S101 - it was made
        assert row.records is not None  # noqa: S101
        achieved, claims = [entry["achieved"] for entry in row.guarantees], map(dict, row.claims)
        found = cls(None, tuple(achieved), tuple(claims), dict(row.risks), row.marginals, row.seconds, row.records)
        again = found.fill(row, policy)
        return found if again is not None and replace(again, cached=False) == row else None

    def fill(self, row: Row, policy: Policy) -> Row | None:
        """Return a row with these figures; None if they cannot be those of the policy."""
        if self.reason is not None:
            return replace(row, reason=self.reason, unreachable=True, cached=True)
        figures = [figure for one in self.marginals for figure in (one.release, one.shuffled, one.fresh)]
        if (
            set(self.risks) != set(RISKS)
            or not all(map(math.isfinite, figures))
            or len(self.achieved) != len(policy.privacy)
        ):
            return None
        models = zip(policy.privacy, self.achieved, strict=True)
        return replace(
            row,
            guarantees=tuple(Guarantee(model, achieved).as_dict() for model, achieved in models),
            claims=self.claims,
            risks={name: self.risks[name] for name in RISKS},
            marginals=self.marginals,
            seconds=self.seconds,
            records=self.records,
            cached=True,
        )

"""The exceptions of shoal.

::

    ShoalError                 exit code 2 unless said otherwise
    ├── UsageError             the call itself: a missing option, an output folder that exists
    ├── InputError             the data: unreadable, empty, ragged, a value outside its taxonomy
    ├── PolicyError            the policy: unknown key, missing column, contradictory roles
    │   └── TaxonomyError      a taxonomy: two roots, a cycle, a gap
    ├── UnreachableError       exit code 3: no table can meet the requirement; says what can
    ├── VerificationError      exit code 4: the written files do not keep the promise
    └── FindingsError          exit code 5: a strict run has high findings that the policy does not accept

Messages name columns, counts, lines and keys. They never carry a record; the one exception is a
taxonomy's gap, which may list up to five uncovered values of one column. Nor do they carry a password: what stands
before the host in an address is left out of every message, wherever the address was given.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from shoal.core.results import Finding

_ADDRESS = re.compile(r"[\w+.-]:/{1,2}")  # the end of a scheme and what follows it
_PASSWORD = re.compile(r"(password=)[^\s&#'\"]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """Remove user and password from the addresses in a text, which may have been converted to paths.

    >>> without_passwords("there is no file postgresql:/ann:secret@db/clinic?password=secret")
    'there is no file postgresql:/...@db/clinic?password=...'
    """
    lines = text.split("\n")
    for place, line in enumerate(lines):
        last = line.rfind("@")
        if last >= 0 and (found := _ADDRESS.search(line, 0, last)):
            lines[place] = f"{line[: found.end()]}...{line[last:]}"
    return _PASSWORD.sub(r"\1...", "\n".join(lines))


class ShoalError(Exception):
    """The base of all errors that a user can correct."""

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str = "") -> None:
        super().__init__(without_passwords(message))


class UsageError(ShoalError):
    """The call cannot be carried out as it stands."""


class InputError(ShoalError):
    """The data cannot be read or do not fit the policy."""


class PolicyError(ShoalError):
    """The policy is contradictory, or refers to something that does not exist."""


class TaxonomyError(PolicyError):
    """A taxonomy is not a tree, or does not have all values."""


class UnreachableError(ShoalError):
    """No release of this table can meet the requirement."""

    exit_code = 3


class VerificationError(ShoalError):
    """The written files do not satisfy the guarantees of their manifest."""

    exit_code = 4


class FindingsError(ShoalError):
    """High findings are open, and the run is strict."""

    exit_code = 5

    def __init__(self, message: str = "", findings: Iterable[Finding] = ()) -> None:
        super().__init__(message)
        self.findings = tuple(findings)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or nothing.

    >>> did_you_mean("zpi", ["age", "zip"])
    "; did you mean 'zip'?"
    >>> did_you_mean("qqq", ["age", "zip"])
    ''
    """
    nearest = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def locate_failure(error: BaseException) -> str:
    """Return the type of an error and the line that raised it, for logs: its message may quote a record.

    >>> locate_failure(ValueError("Jane Doe, flu"))
    'ValueError at an unknown place'
    """
    trace, place = error.__traceback__, "an unknown place"
    while trace is not None:
        place = f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__} at {place}"

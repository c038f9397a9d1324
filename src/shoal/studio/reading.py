"""Reading a table in a process of its own: it can be stopped, what it took is freed, and it has limits.

A file that unpacks to many times its size, or that a reader chokes on, takes that process with it and not the studio.
"""

from __future__ import annotations

import os
import pickle
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from shoal.core.errors import InputError, ShoalError
from shoal.core.progress import Silent
from shoal.policy.column_types import ColumnType
from shoal.policy.drafting import Draft, draft_from_profiles
from shoal.policy.profiling import ColumnProfile, find_candidates, find_reading, look_first, profile_columns
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

_LEAST = 2 << 30  # bytes of memory that a reading may always take
_TURN = 0.1  # seconds between two looks at whether it was stopped


class Limits(NamedTuple):
    """What reading one table may take."""

    memory: int  # bytes
    seconds: float = 1800


Choices = tuple[Mapping[str, Mapping[str, int]], tuple[str, ...]]  # values that may mean missing; decimal commas


class ReadTable(NamedTuple):
    """What one reading found: the columns, how they were read, the draft of a policy, and what is left to choose."""

    profile: tuple[ColumnProfile, ...]
    options: SourceOptions
    draft: Draft
    markers: Mapping[str, Mapping[str, int]]  # by column, the values that may mean missing, with their records
    commas: tuple[str, ...]  # columns whose numbers may have a decimal comma


@dataclass(frozen=True, slots=True)
class Reading:
    """A table to be read: the file, what people call it, and what they said of it."""

    name: str
    path: Path
    options: SourceOptions = field(default_factory=SourceOptions)
    types: Mapping[str, ColumnType] = field(default_factory=dict)
    settled: bool = False  # whether the options say all; else what they leave open is found by looking at the values
    earlier: Choices | None = None  # what an earlier reading of the same file left to choose, which needs no other look

    def read(self, limits: Limits | None = None, stopped: threading.Event | None = None) -> ReadTable:
        """Read the table in a process of its own; raise if that fails, takes too much, or is stopped."""
        given = limits or Limits(max(_LEAST, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2))
        with (
            subprocess.Popen(  # noqa: S603 - the program is this one, and no shell reads the arguments
                [sys.executable, "-P", "-c", f"from {__name__} import answer_studio; answer_studio()"],
                stdin=subprocess.PIPE,  # the process ends when it is closed, so also when the studio is killed
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what a library complains of may quote a record
                start_new_session=True,
            ) as process,
            ThreadPoolExecutor(1) as listener,
        ):
            try:
                answer = listener.submit(_exchange, process, (self, given.memory))
                found = self._await(answer, given.seconds, stopped or threading.Event())
            finally:
                process.kill()
        if isinstance(found, ReadTable):
            return found
        if isinstance(found, ShoalError):
            raise found
        raise InputError(
            f"{self.name} could not be read within {given.memory / 2**30:.1f} GB of memory; it unpacks to too much, or "
            "is damaged. If it is as large as that, use the commands shoal init and shoal anonymize"
        )

    def _await(self, answer: Future[Any], seconds: float, stopped: threading.Event) -> Any:
        """Return what the process answers, unless it is stopped or takes too long."""
        end = time.monotonic() + seconds
        while not stopped.is_set():
            if wait([answer], _TURN).done:
                return answer.result()
            if time.monotonic() > end:
                raise InputError(f"reading {self.name} took longer than {seconds / 60:.0f} minutes")
        raise InputError(f"reading {self.name} was cancelled; nothing of it is kept")

    def _look(self) -> ReadTable:
        """Read the table as it is, then as its values ask for, or as the options say if they say all."""
        plain = {"missing": [""], "missing_in": {}, "decimal_comma": []} if self.settled else {}
        source, looked, profile = look_first(self.path, self.options.model_copy(update=plain), Silent())
        found = find_reading(profile, looked)
        left = find_candidates(profile), tuple(found.decimal_comma)
        chosen = self.options if self.settled else found
        if chosen != looked:
            return self._look_again(left, chosen)
        return ReadTable(profile, chosen, draft_from_profiles(self.name, source, chosen, profile, self.types), *left)

    def _look_again(self, left: Choices, options: SourceOptions | None = None) -> ReadTable:
        chosen = options or self.options
        source = open_source(self.path, chosen)
        profile = profile_columns(source, Silent())
        return ReadTable(profile, chosen, draft_from_profiles(self.name, source, chosen, profile, self.types), *left)

    def work(self) -> ReadTable | ShoalError | None:
        """Read the table here and now; return the error that says why it cannot be, None if memory ran out."""
        try:
            return self._look_again(self.earlier) if self.earlier is not None else self._look()
        except ShoalError as error:
            return type(error)(str(error))
        except (MemoryError, OSError):
            return None


def _exchange(process: subprocess.Popen[bytes], request: tuple[Reading, int]) -> Any:
    """Send a request to a process and return its answer; None if it ends without one."""
    assert process.stdin and process.stdout  # noqa: S101, PT018 - both are pipes
    try:
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)  # noqa: S301 - of our own process
    except (EOFError, OSError, pickle.UnpicklingError):
        return None


def answer_studio() -> None:
    """Take a request from standard input, read the table within the limit of memory, and send what was found."""
    reading, memory = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the studio that started this process

    def end() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=end, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    pickle.dump(reading.work(), sys.stdout.buffer)
    sys.stdout.flush()
    os._exit(0)  # one of its threads is reading

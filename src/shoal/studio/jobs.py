"""Runs of commands, each in its own process, which SIGINT cancels."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from shoal.core.errors import UsageError
from shoal.studio.project import Project

State = Literal["running", "done", "failed", "cancelled"]
MOST_AT_ONCE = 2
_PATIENCE = 10.0  # seconds from SIGINT to SIGKILL
_MOST_ANSWER = 256 << 20
_MOST_SAID = 200  # lines of messages
_NOT_SAID = "the command ended without a message; try again, and report it if it fails again"


@dataclass(frozen=True, slots=True)
class JobStep:
    """The progress of one step of a run; without a total, the rest is unknown."""

    title: str
    done: int
    total: int | None
    unit: str
    ended: bool


class Job:
    """One run of a command. Its folder is kept only if it succeeds."""

    def __init__(
        self, project: Project, kind: str, arguments: Sequence[str | Path], folder: Path | None, memory: dict[str, Any]
    ) -> None:
        self.id = secrets.token_hex(8)
        self.project = project
        self.kind = kind
        self.folder = folder
        self.command = shlex.join(["shoal", *map(project.format_argument, arguments)])
        self.state: State = "running"
        self.answer: dict[str, Any] = {}
        self.message = ""
        self.exit_code: int | None = None
        self.revision = project.revision
        self.memory = memory  # data of pages about the run
        self._started, self._ended = time.monotonic(), 0.0
        self._steps: dict[str, JobStep] = {}
        self._said: list[str] = []
        self._cancelled = False
        self._lock = threading.Lock()
        self.finished = threading.Event()
        self._output = tempfile.TemporaryFile(dir=project.folder)  # noqa: SIM115 - closed at the end of the run
        self._process = subprocess.Popen(  # noqa: S603 - the program is this one, and no shell reads the arguments
            [sys.executable, "-P", "-m", "shoal.cli.watched", *map(str, arguments), "--json"],
            stdin=subprocess.PIPE,  # the command ends when it is closed, even if the studio is killed
            stdout=self._output,
            stderr=subprocess.PIPE,
            cwd=project.files,
            # Temporary files are removed with the project, even if the command is killed.
            env={**os.environ, "SHOAL_PROGRESS": "lines", "PYTHONUTF8": "1", "TMPDIR": str(project.folder)},
            start_new_session=True,
        )
        threading.Thread(target=self._follow, name=f"job-{self.id}", daemon=True).start()

    @property
    def steps(self) -> tuple[JobStep, ...]:
        with self._lock:
            return tuple(self._steps.values())

    @property
    def seconds(self) -> float:
        return (self._ended or time.monotonic()) - self._started

    def cancel(self) -> None:
        """Interrupt the run, and kill it if it does not end in time."""
        with self._lock:
            first, self._cancelled = not self._cancelled, True
        if first and not self.finished.is_set():  # a second signal would interrupt the cleanup
            self._signal(signal.SIGINT)
            threading.Thread(target=self._end_by_force, daemon=True).start()

    def _end_by_force(self) -> None:
        if not self.finished.wait(_PATIENCE):
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _follow(self) -> None:
        process = self._process
        assert process.stdin and process.stderr  # noqa: S101, PT018 - both are pipes
        listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        listener.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        self._signal(signal.SIGKILL)  # processes that the command left behind, while its number is in use
        code = process.wait()
        listener.join(timeout=5)
        process.stdin.close()
        with self._output as file:
            file.seek(0)
            self._settle(code, file.read(_MOST_ANSWER))

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                text = line.decode("utf-8", "replace").rstrip()
                step = read_step(text)
                with self._lock:
                    if step is not None:
                        self._steps[step.title] = step
                    elif text and len(self._said) < _MOST_SAID:
                        self._said.append(text)

    def _settle(self, code: int, answer: bytes) -> None:
        with contextlib.suppress(ValueError):
            found = json.loads(answer)
            self.answer = found if isinstance(found, dict) else {}
        self.exit_code, self._ended = code, time.monotonic()
        if code == 0:
            state: State = "done"
        elif self._cancelled:
            state, self.message = "cancelled", "cancelled; nothing was published"
        else:
            state, found = "failed", [*self.answer.get("checks", ()), *self.answer.get("guarantees", ())]
            refused = [str(entry["detail"]) for entry in found if not entry.get("ok", True)]  # by the verifier
            self.message = str(self.answer.get("error") or "\n".join(refused or self._said[-5:]) or _NOT_SAID)
        if state != "done" and self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.state = state
        self.finished.set()


def read_step(line: str) -> JobStep | None:
    """Return the progress in a line of standard error, or None if the line is a message.

    >>> read_step('{"step": "counting", "done": 5, "total": 10, "unit": "rows", "ended": false}')
    JobStep(title='counting', done=5, total=10, unit='rows', ended=False)
    """
    if not line.startswith('{"step"'):
        return None
    try:
        found = json.loads(line)
        total = None if found["total"] is None else int(found["total"])
        return JobStep(str(found["step"]), int(found["done"]), total, str(found["unit"]), bool(found["ended"]))
    except (ValueError, KeyError, TypeError):
        return None


class Jobs:
    """All runs of one studio: at most *most* at a time, none outlives it."""

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._jobs: list[Job] = []
        self._lock = threading.Lock()
        self._closed = False

    def start(
        self,
        project: Project,
        kind: str,
        arguments: Iterable[str | Path],
        folder: Path | None = None,
        **memory: Any,
    ) -> Job:
        """Run ``shoal ARGUMENTS --json``; *folder* is removed if the run fails or is cancelled.

        Pages keep their own data about the run in its *memory*.
        """
        with self._lock:
            running = sum(job.state == "running" for job in self._jobs)
            if self._closed or running >= self._most:
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
                raise UsageError(f"{running} runs are in progress; wait for one to end, or cancel it")
            job = Job(project, kind, list(arguments), folder, memory)
            self._jobs.append(job)
            project.jobs.append(job)
            return job

    def forget(self, job: Job) -> None:
        """Cancel a run that is in progress, and remove its results."""
        job.cancel()
        job.finished.wait(_PATIENCE + 5)
        with self._lock:
            for jobs in (self._jobs, job.project.jobs):
                if job in jobs:
                    jobs.remove(job)
        if job.folder is not None:
            shutil.rmtree(job.folder, ignore_errors=True)

    def close(self) -> None:
        """Cancel every run and wait for their ends; no further run starts."""
        with self._lock:
            self._closed = True
            jobs = list(self._jobs)
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.finished.wait(_PATIENCE + 5)

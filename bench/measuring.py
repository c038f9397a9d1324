"""Running a job several times and telling what it took."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

REPEATS = 5
_STARTER = """
import os, sys, time
began = time.perf_counter()
child = os.posix_spawn(
    sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
)
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - began, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of every run, peak memory of the largest, and what was asked for."""

    job: str
    seconds: list[float]
    limit: str
    within: bool
    peak_mib: float | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of all runs."""
        return statistics.median(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {**asdict(self), "median": self.median, "least": min(self.seconds), "most": max(self.seconds)}


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended."""

    seconds: float
    peak_mib: float


def timed(work: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the seconds of each run of a function, after one run that does not count."""
    work()
    return [_seconds(work) for _ in range(repeats)]


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def process(command: Sequence[str | Path]) -> Finished:
    """Run a command to its end; time and peak memory are those of this process alone.

    A small process of its own starts it: a child is charged with the memory that its parent had when it was made.
    Byte code may be written, as it is for every user: otherwise each start would translate the sources again.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    arguments = [sys.executable, "-S", "-c", _STARTER, *(str(part) for part in command)]
    ended = subprocess.run(arguments, capture_output=True, text=True, env=environment, check=False)
    if ended.returncode:
        raise RuntimeError(f"{command[0]} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    seconds, kibibytes = ended.stdout.split()
    return Finished(float(seconds), int(kibibytes) / 1024)


def machine() -> dict[str, Any]:
    """Say where and with what this was measured."""
    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.processor(),
    )
    memory = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    packages = ("numpy", "numba", "pyarrow", "pydantic", "typer", "rich")
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def shoal_command() -> Path:
    """Return the installed command of this environment."""
    return Path(sys.executable).with_name("shoal")


def command(source: Path, policy: Path, out: Path) -> Finished:
    """Run ``shoal anonymize`` as a process of its own, and remove what it wrote."""
    shutil.rmtree(out, ignore_errors=True)
    finished = process([shoal_command(), "anonymize", source, "-p", policy, "-o", out])
    shutil.rmtree(out)
    return finished

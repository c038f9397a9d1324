"""Running a job several times and telling what it took."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
REPEATS = 5
_STARTER = """
import os, sys, time
began = time.perf_counter()
child = os.posix_spawn(
    sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
)
_, status, usage = os.wait4(child, 0)
print(time.perf_counter() - began, usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
sys.exit(os.waitstatus_to_exitcode(status))
"""

# The same with a thread that looks at all processes below, five times a second, and at the space of a disk.
_WATCHER = """
import os, sys, threading, time
folder, shared, command = sys.argv[1], sys.argv[2] == "shared", sys.argv[3:]
page, most, ended = os.sysconf("SC_PAGE_SIZE"), [0, 0], threading.Event()

def space():
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize

def text(*parts):
    try:
        with open(os.path.join("/proc", *parts)) as told:
            return told.read()
    except OSError:  # it ended meanwhile
        return ""

def below(process):
    yield process
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except OSError:
        return
    for thread in threads:
        for child in text(process, "task", thread, "children").split():
            yield from below(child)

def held(process):
    if not shared:
        return int((text(process, "statm") or "0 0").split()[1]) * page
    lines = text(process, "smaps_rollup").splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))

def look():
    free = space()
    while not ended.wait(0.2):
        most[1] = max(most[1], free - space())
        most[0] = max(most[0], sum(held(process) for process in below(str(child))))

began = time.perf_counter()
child = os.posix_spawn(
    command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
)
looking = threading.Thread(target=look)
looking.start()
_, status, usage = os.wait4(child, 0)
seconds = time.perf_counter() - began
ended.set()
looking.join()
print(seconds, max(usage.ru_maxrss, most[0] >> 10), most[1])
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
    def median(self) -> float | None:
        """The median of all runs; None of a peer that failed."""
        return statistics.median(self.seconds) if self.seconds else None

    def as_dict(self, date: str) -> dict[str, Any]:
        """Return it for JSON, with the day on which it was measured."""
        least, most = min(self.seconds, default=None), max(self.seconds, default=None)
        return {**asdict(self), "median": self.median, "least": least, "most": most, "date": date}


@dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended."""

    seconds: float
    peak_mib: float
    disk_bytes: int = 0  # that a disk had less at some time than at the start
    processor: float = 0.0  # seconds on all cores


Job: TypeAlias = Callable[[Path], Iterator[Measured]]  # given a folder for its files
SizedJob: TypeAlias = Callable[[Path, float], Iterator[Measured]]  # and the share of its rows that it takes


def timed(work: Callable[[], object], repeats: int = REPEATS) -> list[float]:
    """Return the seconds of each run of a function, after one run that does not count."""
    work()
    return [timed_once(work) for _ in range(repeats)]


def timed_once(work: Callable[[], object]) -> float:
    """Return the seconds of one run of a function."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def peak_of(work: Callable[[], T]) -> tuple[T, float | None]:
    """Return what a function gives back, and the most MiB that this process had meanwhile, if the system tells."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    found = work()
    stated = next((line.split()[1] for line in _lines("/proc/self/status") if line.startswith("VmHWM")), None)
    return found, None if stated is None else int(stated) / 1024


def process(command: Sequence[str | Path]) -> Finished:
    """Run a command to its end; time and peak memory are those of this process alone.

    A small process of its own starts it: a child is charged with the memory that its parent had when it was made.
    Byte code may be written, as it is for every user: otherwise each start would translate the sources again.
    """
    seconds, kibibytes, processor = _started(_STARTER, command)
    return Finished(float(seconds), int(kibibytes) / 1024, processor=float(processor))


def watched(command: Sequence[str | Path], folder: Path, *, shared: bool = False) -> Finished:
    """Run a command to its end; memory is that of it and all processes below it together, disk that of the folder.

    Memory is looked at five times a second; of the command itself the system knows the peak exactly, and the larger of
    both counts. With *shared*, pages that several processes have are divided among them.
    """
    seconds, kibibytes, disk = _started(_WATCHER, [folder, "shared" if shared else "each", *command])
    return Finished(float(seconds), int(kibibytes) / 1024, int(disk))


def _started(starter: str, arguments: Sequence[str | Path]) -> list[str]:
    """Return what a starter says of the command that it ran."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-S", "-c", starter, *(str(part) for part in arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command[4:])} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout.split()


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

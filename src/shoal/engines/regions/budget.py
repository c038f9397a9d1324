"""The memory that a run may use, and the limits of each step that follow from it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from shoal.columns.base import changes_before
from shoal.core.errors import UsageError
from shoal.core.wording import size_text
from shoal.policy.policy import Policy
from shoal.sources.base import Source

LEAST = 768 << 20
SHARE = 0.75  # of the machine's memory, by default
MOST_FILES = 400  # open temporary files; a process may usually have 1,024

# Bytes, measured on hospital stays (six quasi attributes, one sensitive, nearly every record in a separate cell).
_BASE = 370 << 20  # the interpreter, its libraries and compiled kernels
_THREAD = 100 << 20  # the batches of a million rows that a thread processes
_CELL = 150  # all steps in memory, including the verifier's
_REGION_CELL = 200  # counting, planning and rewriting a region while the other rows wait on the disk
_HEAP_ROW = 400  # reading, sorting, labelling and writing a heap while the previous one is compressed
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Budget:
    """The amounts of data that each step may have in memory."""

    limit: int  # bytes of the whole process
    cells: int  # distinct combinations of values
    sample: int  # cells of the sample for dividing the table into regions
    region_rows: int  # expected rows of a region
    heap_rows: int  # rows that are shuffled together
    threads: int

    @classmethod
    def of(cls, memory: int | str | None = None, threads: int | None = None) -> Budget:
        """Divide *memory*, in bytes or like "2GiB"; the default is a share of the machine's."""
        limit = int(SHARE * machine_memory()) if memory is None else parse_memory(memory)
        if threads is not None and threads < 1:
            raise UsageError(f"threads is {threads}; give at least 1")
        cores = min(os.cpu_count() or 1, 8)
        workers = threads or max(min(cores, (limit - _BASE) // (2 * _THREAD)), 1)
        free = max(limit - _BASE - workers * _THREAD, LEAST // 8)
        region_rows = free // (2 * _REGION_CELL)
        return cls(
            limit=limit,
            cells=free // _CELL,
            sample=min(region_rows, 1 << 20),
            region_rows=region_rows,
            heap_rows=min(free // (4 * _HEAP_ROW), 1 << 20),
            threads=workers,
        )

    @property
    def text(self) -> str:
        return size_text(self.limit)


def estimate_memory(n_cells: int, threads: int) -> str:
    """Return the memory for this many cells in one process, as text."""
    return size_text(_BASE + threads * _THREAD + n_cells * _CELL)


def refuse_larger(policy: Policy, source: Source, budget: Budget, n_cells: int, *, agreed: bool) -> None:
    """Raise if a table with this many combinations of values cannot be divided into regions."""
    reason = None
    if policy.method.takes_regions is None:
        reason = f"method {policy.method.name} considers all records together"
    elif any(getattr(model, "population", None) is not None for model in policy.privacy):
        reason = "a model that counts a population needs all of it"
    elif policy.counted_units:
        reason = "people with records in several regions are counted in one step"
    elif policy.true_values:
        reason = "models are also checked for the values before a technique, which are counted in memory"
    elif agreed:
        reason = "an agreed plan is applied to all records together"
    elif changes_before(source, policy.names("quasi")):
        reason = "the table before the sample and the techniques is counted in one step for the evidence"
    if reason is None:
        return
    most = "" if source.n_rows is None else f", and may have up to {source.n_rows:,}"
    needed = estimate_memory(max(n_cells, source.n_rows or 0), budget.threads)
    raise UsageError(
        f"{source.name} has more than {n_cells:,} combinations of quasi and sensitive values{most}; {reason}, and "
        f"{budget.text} of memory are allowed for it: allow {needed} with --memory, declare coarser values, or use "
        "mondrian, which plans a table larger than memory by regions"
    )


def parse_memory(memory: int | str) -> int:
    """Return bytes; text may end in KiB, MiB, GiB or TiB, or in the letter alone.

    >>> parse_memory("2GiB") == parse_memory("2g") == 2 << 30
    True
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", str(memory).strip().lower())
    if found is None:
        raise UsageError(f"memory is {str(memory)!r}; write it like 2GiB or 800MiB")
    size = int(float(found[1]) * _UNITS[found[2]])
    if size < LEAST:
        raise UsageError(f"memory is {size_text(size)}; shoal needs at least {size_text(LEAST)}")
    return size


def machine_memory() -> int:
    """Return the bytes that this process may use: the machine's memory, or the limit of its control group."""
    least = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in (*_group_limits(), _CGROUP / "memory.max", _CGROUP / "memory" / "memory.limit_in_bytes"):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            least = min(least, int(text))
    return max(least, LEAST)


def _group_limits() -> list[Path]:
    """Return the paths of the limits of this process's control groups, the innermost first."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        root = _CGROUP if not controllers else _CGROUP / "memory"
        if not controllers or "memory" in controllers.split(","):
            name = "memory.max" if not controllers else "memory.limit_in_bytes"
            here = root / group.lstrip("/")
            found += [place / name for place in (here, *here.parents) if place.is_relative_to(root)]
    return found

"""How much memory a run may use, and what follows from it for each step."""

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
SHARE = 0.75  # of what the machine has, if nobody says how much
MOST_FILES = 400  # temporary files that wait at a time, of the 1,024 that a process may usually open

# Bytes, measured on hospital stays (six quasi attributes, one sensitive, nearly every record a cell of its own).
_BASE = 370 << 20  # the interpreter, its libraries and compiled kernels
_THREAD = 100 << 20  # the batches of a million rows that a thread reads, codes and sorts
_CELL = 150  # all steps in memory, the verifier's included
_REGION_CELL = 200  # counting, planning and rewriting a region, while the rows before it wait on the disk
_HEAP_ROW = 400  # a heap is read, put in order, labelled and written, while the one before is being compressed
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Budget:
    """What each step may hold at a time."""

    limit: int  # bytes of the whole process
    cells: int  # distinct combinations that are handled in memory
    sample: int  # cells of the sample that regions are cut on
    region_rows: int  # that a region is expected to have
    heap_rows: int  # that are shuffled at a time
    threads: int

    @classmethod
    def of(cls, memory: int | str | None = None, threads: int | None = None) -> Budget:
        """Divide *memory*, in bytes or like "2GiB"; without it a share of what the machine has."""
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
    """Return the memory that so many cells take if all are handled at once, for people."""
    return size_text(_BASE + threads * _THREAD + n_cells * _CELL)


def refuse_larger(policy: Policy, source: Source, budget: Budget, n_cells: int, *, agreed: bool) -> None:
    """Raise if a table with so many combinations of values, or more, must be planned at once; say what would help."""
    reason = None
    if policy.method.takes_regions is None:
        reason = f"method {policy.method.name} decides for all records at once"
    elif any(getattr(model, "population", None) is not None for model in policy.privacy):
        reason = "a model that counts a population looks at all of it at once"
    elif policy.counted_units:
        reason = "people who have records in several regions are counted at once"
    elif policy.true_values:
        reason = "models also judge the values before a technique, which are counted in memory"
    elif agreed:
        reason = "a plan that was agreed on is applied to all records at once"
    elif changes_before(source, policy.names("quasi")):
        reason = "the table as it was before the sample and the techniques is counted at once, for the evidence"
    if reason is None:
        return
    most = "" if source.n_rows is None else f", and may have up to {source.n_rows:,}"
    needed = estimate_memory(max(n_cells, source.n_rows or 0), budget.threads)
    raise UsageError(
        f"{source.name} has more than {n_cells:,} combinations of quasi and sensitive values{most}; {reason}, and "
        f"{budget.text} of memory are allowed for it: allow {needed} with --memory, declare coarser values, or use "
        "mondrian, which takes a table larger than memory region by region"
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
    """Return the bytes that this process may have: those of the machine, or fewer if its group is limited."""
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
    """Return where the limits of this process's control groups stand, the innermost first."""
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

"""Tables larger than memory: whole commands under a limit, one run each.

The limit of memory is told to the command and compared with what it took: the peak of the process as the system knows
it, or the sum of it and its children where that is more. A harder limit is not at hand everywhere: RLIMIT_AS and
RLIMIT_DATA count address space that is reserved and never used, of which libraries take a gigabyte, and control groups
belong to whoever runs the machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.full_domain import K5, QUASI, policy, training
from bench.measuring import Measured, SizedJob
from bench.perturbed import write_perturbed
from bench.planning import n_cells
from bench.running import Ran, anonymized, described

PROGRAM = 0.75  # GiB that no table takes
K50: dict[str, Any] = {"k-anonymity": {"k": 50}}
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class LargeTable:
    """A table with its policy, and the limits of the command that publishes it."""

    title: str
    rows: int
    gib: float
    seconds: float
    disk_gib: float  # for the table, temporary files and the release
    write: Callable[[Path, int], object]
    policy: Callable[[], dict[str, Any]]
    beside: str = ""  # what others need, from the task

    def measured(self, name: str, folder: Path, share: float) -> Iterator[Measured]:
        """Write the table unless it is there, run the command once, and remove what it wrote.

        A *share* below 1 takes so much of the rows and of the memory beyond what the program itself needs.
        """
        rows = int(self.rows * share)
        gib = PROGRAM + (self.gib - PROGRAM) * share
        title = f"{self.title.format(rows=f'{rows / 1e6:g}')}: whole command, verified"
        free = shutil.disk_usage(folder).free / GIB
        if free < self.disk_gib * share:
            needed = f"{self.disk_gib * share:.1f} GiB of disk are needed in {folder}, {free:.1f} are free"
            print(f"{title}: left out, {needed}", flush=True)
            return
        source = folder / f"{name}-{rows}.parquet"
        if not source.exists():
            self.write(source, rows)
        run = anonymized(source, self.policy(), folder, "--memory", f"{gib:g}GiB")
        took = run.finished
        within = took.seconds <= self.seconds * share and took.peak_mib <= gib * 1024
        detail = {
            "point": {"table": name, "method": self.method, **described(run, self.cells(source, run))},
            "disk_gib": round(took.disk_bytes / GIB, 2),
            "beside": self.beside,
        }
        limit = f"{self.seconds * share:g} s, {gib:g} GiB"
        yield Measured(title, [took.seconds], limit, within, took.peak_mib, detail)

    @property
    def method(self) -> str:
        """The name of the policy's method."""
        return str(next(iter(self.policy()["method"])))

    def cells(self, source: Path, run: Ran) -> int:
        """Return the cells of a table; one that was cut into regions has nearly as many as rows, too many to count."""
        return (
            int(run.evidence["source"]["rows"])
            if "regions" in run.evidence["search"]
            else n_cells(source, self.policy())
        )


def _stays(path: Path, rows: int) -> object:
    from shoal.datasets.hospital_files import write_stays

    return write_stays(path, rows, seed=100)


def _hospital() -> dict[str, Any]:
    from shoal.datasets.hospital import hospital_policy

    return hospital_policy()


def _adult(path: Path, rows: int) -> object:
    part = path.with_suffix(".part")
    write_perturbed(part, training(), rows, QUASI, seed=85)
    return part.rename(path)


TABLES = {
    "incognito": LargeTable(
        "{rows} million perturbed rows of Adult, 8 quasi, k = 5, incognito",
        10_000_000,
        1.5,
        20,
        1.5,
        _adult,
        lambda: policy([K5], 0),
    ),
    "adult": LargeTable(
        "{rows} million perturbed rows of Adult, 8 quasi, k = 50, Mondrian",
        85_000_000,
        4,
        300,
        8,
        _adult,
        lambda: {**policy([K50], 0), "method": {"mondrian": {}}},
        "a published parallel ARX setup, 1,544 s on 64 threads",
    ),
    "stays": LargeTable(
        "{rows} million stays, 6 quasi, 1 sensitive, Mondrian", 100_000_000, 2, 400, 25, _stays, _hospital
    ),
}
LARGE: dict[str, SizedJob] = {f"large-{name}": partial(table.measured, name) for name, table in TABLES.items()}

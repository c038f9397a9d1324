"""Tables larger than memory: ``python -m bench.large [folder] [share] [names]``; ``make bench`` leaves them out.

The tables are generated once in *folder* and kept there, 4 GB for all, so that jobs can be run again. A *share* below 1
takes so much of the rows and of the memory beyond what the program itself needs, to try the jobs out.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.full_domain import K5, QUASI, policy, training
from bench.measuring import Measured, process, shoal_command
from bench.perturbed import write_perturbed

PROGRAM = 0.5  # GiB that no table takes
K50: dict[str, Any] = {"k-anonymity": {"k": 50}}


@dataclass(frozen=True, slots=True)
class Job:
    """One whole command under a limit of memory."""

    title: str
    rows: int
    gib: float
    seconds: float
    write: Callable[[Path, int], object]
    policy: Callable[[], dict[str, Any]]

    def measured(self, name: str, folder: Path, share: float) -> Measured:
        """Write the table unless it is there, run the command once, and remove what it wrote."""
        rows = int(self.rows * share)
        gib = PROGRAM + (self.gib - PROGRAM) * share if share < 1 else self.gib
        source, written, out = folder / f"{name}-{rows}.parquet", folder / f"{name}.json", folder / f"{name}-out"
        if not source.exists():
            self.write(source, rows)
        written.write_text(json.dumps(self.policy()))
        shutil.rmtree(out, ignore_errors=True)
        command = [shoal_command(), "anonymize", source, "-p", written, "-o", out, "--memory", f"{gib:g}GiB"]
        run = process([str(part) for part in command])
        evidence = json.loads((out / "internal" / "evidence.json").read_text())
        shutil.rmtree(out)
        within = run.seconds <= self.seconds * share and run.peak_mib <= gib * 1024
        told = f"{self.title.format(rows=f'{rows / 1e6:g}')}: whole command, verified"
        detail = {"steps": evidence["seconds"], "search": evidence["search"]}
        return Measured(told, [run.seconds], f"{self.seconds * share:g} s, {gib:g} GiB", within, run.peak_mib, detail)


def _stays(path: Path, rows: int) -> object:
    from shoal.datasets import write_stays

    return write_stays(path, rows, seed=100)


def _hospital() -> dict[str, Any]:
    from shoal.datasets import hospital_policy

    return hospital_policy()


def _adult(path: Path, rows: int) -> object:
    partial = path.with_suffix(".partial")
    write_perturbed(partial, training(), rows, QUASI, seed=85)
    return partial.rename(path)


JOBS = {
    "stays": Job("{rows} million stays, 6 quasi, 1 sensitive, Mondrian", 100_000_000, 2, 400, _stays, _hospital),
    "adult": Job(
        "{rows} million perturbed rows of Adult, 8 quasi, k = 50, Mondrian",
        85_000_000,
        4,
        300,
        _adult,
        lambda: {**policy([K50], 0), "method": {"mondrian": {}}},
    ),
    "incognito": Job(
        "{rows} million perturbed rows of Adult, 8 quasi, k = 5, incognito",
        10_000_000,
        1.5,
        20,
        _adult,
        lambda: policy([K5], 0),
    ),
}


def large(folder: Path, share: float = 1.0, names: list[str] | None = None) -> Iterator[Measured]:
    """Run the jobs, or those named."""
    for name in names or JOBS:
        yield JOBS[name].measured(name, folder, share)


def main(arguments: list[str]) -> None:
    """Measure and print, a line of JSON for each job."""
    folder = Path(arguments[0]) if arguments else Path(tempfile.gettempdir()) / "shoal-large"
    folder.mkdir(parents=True, exist_ok=True)
    share = float(arguments[1]) if len(arguments) > 1 else 1.0
    for line in large(folder, share, arguments[2:]):
        print(json.dumps(line.as_dict()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

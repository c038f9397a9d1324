"""``shoal verify`` alone: the command on releases of three sizes, beside their sources."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.full_domain import K5, PERTURBED, QUASI, policy, training
from bench.measuring import REPEATS, Finished, Measured, process, shoal_command
from bench.perturbed import write_perturbed

STAYS = 10_000_000


def verifying(folder: Path) -> Iterator[Measured]:
    """The processor time for Adult without its source, and the seconds for large tables with theirs."""
    import pyarrow.csv
    import pyarrow.parquet as pq

    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays

    table, source = training(), folder / "verified.csv"
    pyarrow.csv.write_csv(table, source)
    asked = policy([K5], 0)
    seconds = [run.processor for run in _verify(folder, source, asked, with_source=False)]
    within = statistics.median(seconds) <= 0.45
    yield Measured("verify, Adult, 8 quasi, k = 5: processor time of the command", seconds, "0.45 s", within)
    parquet = write_perturbed(folder / "verified.parquet", table, PERTURBED, QUASI, seed=3)
    pyarrow.csv.write_csv(pq.read_table(parquet), source)
    parquet.unlink()
    name = f"verify --source, {PERTURBED / 1e6:g} million perturbed rows of Adult, CSV, k = 5"
    yield _measure(name, _verify(folder, source, asked), 3.0, None)
    source.unlink()
    parquet = folder / "stays.parquet"
    write_stays(parquet, STAYS, seed=10)
    name = f"verify --source, {STAYS / 1e6:g} million stays, Parquet, Mondrian"
    yield _measure(name, _verify(folder, parquet, hospital_policy()), 7.0, 600)
    parquet.unlink()


def _verify(folder: Path, source: Path, asked: Mapping[str, Any], *, with_source: bool = True) -> list[Finished]:
    """Publish a table, verify it several times, the first time without being counted, and remove it."""
    written, out = folder / "verified.json", folder / "verified"
    written.write_text(json.dumps(asked))
    process([shoal_command(), "anonymize", source, "-p", written, "-o", out])
    command: list[str | Path] = [shoal_command(), "verify", out]
    command += ["--source", source] if with_source else []
    runs = [process(command) for _ in range(REPEATS + 1)]
    shutil.rmtree(out)
    return runs[1:]


def _measure(name: str, runs: list[Finished], seconds: float, mib: float | None) -> Measured:
    every, peak = [run.seconds for run in runs], max(run.peak_mib for run in runs)
    within = statistics.median(every) <= seconds and (mib is None or peak <= mib)
    return Measured(name, every, f"{seconds:g} s" + ("" if mib is None else f", {mib:g} MiB"), within, peak)

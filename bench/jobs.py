"""What is measured: one function for a few lines of the table."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow.csv

import shoal
from bench.attacking import attacking
from bench.full_domain import K5, incognito, training
from bench.full_domain import policy as full_domain_policy
from bench.large import LARGE
from bench.levels import levels
from bench.measuring import REPEATS, Job, Measured, SizedJob, command, process, shoal_command, timed
from bench.moving import hilbert, local_suppression, sweep, sweep_stays
from bench.peers import Peer
from bench.service import service
from bench.several import agency_apply, agency_plan, link_adult, link_stays
from bench.slicing import anatomy, fake_tuples, slicing, slicing_stays
from bench.spark import spark
from bench.studio import studio
from bench.survey import wide
from bench.techniques import comparing, microaggregation, techniques, techniques_of_offices
from bench.verifying import verifying

_FIVE = "import numpy, pyarrow, numba, pydantic, typer"


def start(folder: Path) -> Iterator[Measured]:
    """``shoal --help`` and a whole command beside the bare import of their libraries, and a first run."""
    bare = [process([sys.executable, "-c", "import typer"]).seconds for _ in range(4 * REPEATS)]
    ours = [process([shoal_command(), "--help"]).seconds for _ in range(4 * REPEATS)]
    ratio = statistics.median(ours) / statistics.median(bare)
    yield Measured("`shoal --help`", ours, "2.5x `import typer`", ratio <= 2.5, detail={"ratio": ratio, "bare": bare})
    table, source, written = training(), folder / "training.csv", folder / "training.json"
    pyarrow.csv.write_csv(table, source)
    written.write_text(json.dumps(full_domain_policy([K5], 0)))
    command(source, written, folder / "out")
    bare, whole = [], []
    for _ in range(2 * REPEATS):  # by turns: both see the same machine
        bare.append(process([sys.executable, "-c", _FIVE]).seconds)
        whole.append(command(source, written, folder / "out").seconds)
    ratio = statistics.median(whole) / statistics.median(bare)
    name = "whole Adult command (incognito, k = 5) against importing numpy, pyarrow, numba, pydantic and typer"
    yield Measured(name, whole, "2.2x", ratio <= 2.2, detail={"ratio": ratio, "bare": bare})
    yield from _first_runs(folder)


def _first_runs(folder: Path) -> Iterator[Measured]:
    """The demo with a copy of the package that has neither byte code nor compiled kernels, and again with both."""
    first, second, peak = [], [], 0.0
    for turn in range(3):
        copy, out = folder / f"copy{turn}", folder / "demo"
        shutil.copytree(Path(shoal.__file__).parent, copy / "shoal", ignore=shutil.ignore_patterns("__pycache__"))
        for seconds in (first, second):
            ended = process(["/usr/bin/env", f"PYTHONPATH={copy}", shoal_command(), "demo", "-o", out, "--seed", "1"])
            seconds.append(ended.seconds)
            peak = max(peak, ended.peak_mib)
            shutil.rmtree(out)
        shutil.rmtree(copy)
    yield Measured("first run: demo", first, "8 s", statistics.median(first) <= 8, peak)
    yield Measured("second run: demo", second, "-", True, peak)


def adult(folder: Path) -> Iterator[Measured]:
    """Adult, six quasi attributes, k = 10 and entropy 4, Mondrian."""
    from shoal import anonymize
    from shoal.datasets.uci import adult as load
    from shoal.datasets.uci import adult_policy

    policy = adult_policy(privacy=[{"k-anonymity": {"k": 10}}, {"entropy-l-diversity": {"l": 4}}])
    table = load(columns=list(policy["attributes"]))
    source, written = folder / "adult.csv", folder / "adult.json"
    table.to_pandas().to_csv(source, index=False)
    written.write_text(json.dumps(policy))
    name = "Adult, k = 10 and entropy 4"
    runs = [command(source, written, folder / "out") for _ in range(REPEATS + 1)][1:]
    seconds = [run.seconds for run in runs]
    peak = max(run.peak_mib for run in runs)
    yield Measured(f"{name}: whole command", seconds, "1.2 s", statistics.median(seconds) <= 1.2, peak)
    inside = timed(lambda: anonymize(table, policy))
    yield Measured(f"{name}: in process, verified", inside, "0.2 s", statistics.median(inside) <= 0.2)


def peer(folder: Path) -> Iterator[Measured]:
    """The same table by anonypy's strict Mondrian (k = 10 only), reading and all checks aside."""
    python = Path(".venv-peers/bin/python")
    if not python.exists():
        return
    source = folder / "adult.csv"
    script = Path(__file__).with_name("peer_anonypy.py")
    seconds = [process([python, script, source]).seconds for _ in range(3)]
    yield Measured("Adult, k = 10 by anonypy 0.2.1 (peer)", seconds, "-", True)


def stays(folder: Path) -> Iterator[Measured]:
    """Generated hospital stays, six quasi attributes and one sensitive, at one and at ten million rows."""
    from shoal.core.progress import Silent
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays
    from shoal.engines.local import LocalEngine
    from shoal.policy.policy import Policy
    from shoal.sources.opening import open_source

    policy = folder / "stays.json"
    policy.write_text(json.dumps(hospital_policy()))
    loaded = Policy.load(policy)
    columns = (*loaded.names("quasi"), *loaded.names("sensitive"))
    whole: dict[int, list[float]] = {}
    for million in (1, 10):
        path = folder / f"stays{million}.parquet"
        write_stays(path, million * 1_000_000, seed=million)
        source = open_source(path)
        count = timed(lambda source=source: LocalEngine().count(source, columns, Silent()))
        limit, within = ("2.5 s", statistics.median(count) <= 2.5) if million == 10 else ("-", True)
        yield Measured(f"{million} million stays, Parquet: count", count, limit, within)
        runs = [command(path, policy, folder / "out") for _ in range(REPEATS)]
        whole[million] = [run.seconds for run in runs]
        peak = max(run.peak_mib for run in runs)
        limit, within = "3 s", statistics.median(whole[million]) <= 3
        if million == 10:
            limit, within = "15 s, 1.2 GiB", statistics.median(whole[10]) <= 15 and peak <= 1.2 * 1024
        yield Measured(f"{million} million stays: whole command, verified", whole[million], limit, within, peak)
    growth = [float(ratio) for ratio in np.array(whole[10]) / statistics.median(whole[1])]
    within = statistics.median(growth) <= 11
    yield Measured("growth from 1 to 10 million rows (a ratio, not seconds)", growth, "11x", within)


JOBS: dict[str, Job] = {
    "start": start,
    "adult": adult,
    "peer": peer,
    "stays": stays,
    "verify": verifying,
    "levels": levels,
    "sweep": sweep,
    "sweep-stays": sweep_stays,
    "hilbert": hilbert,
    "local-suppression": local_suppression,
    "slicing": slicing,
    "slicing-stays": slicing_stays,
    "anatomy": anatomy,
    "fake-tuples": fake_tuples,
    "agency-plan": agency_plan,
    "agency-apply": agency_apply,
    "link-adult": link_adult,
    "link-stays": link_stays,
    "attacks": attacking,
    "wide": wide,
    "microaggregation": microaggregation,
    "techniques": techniques,
    "techniques-of-offices": techniques_of_offices,
    "compare": comparing,
    "service": service,
    "studio": studio,
}
PEERED: dict[str, Callable[[Path, Sequence[Peer]], Iterator[Measured]]] = {"incognito": incognito}
SIZED: dict[str, SizedJob] = {**LARGE, "spark": spark}
GROUPS = {"large": tuple(LARGE)}

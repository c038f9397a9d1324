"""The Spark engine on this machine beside the local engine: the same table, the same policy, whole commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measuring import Measured
from bench.running import Ran, anonymized

ROWS = 10_000_000
MASTER = "local[2]"
MOST = 1.2  # times the local engine
_COUNTED = {  # of Spark's own counters, for all tasks together
    "shuffle_bytes": ("Shuffle Write Metrics", "Shuffle Bytes Written"),
    "result_bytes": ("Result Size",),
    "task_milliseconds": ("Executor Run Time",),
}

_START = """
import sys, time
from shoal.sources.spark.session import spark_session
began = time.perf_counter()
spark_session(sys.argv[1]).range(1).count()
print(time.perf_counter() - began)
"""


def spark(folder: Path, share: float = 1.0) -> Iterator[Measured]:
    """Both engines on stays; the start of Spark, which no row is part of, is a line of its own."""
    from shoal.datasets.hospital import hospital_policy
    from shoal.datasets.hospital_files import write_stays

    rows = int(ROWS * share)
    source = folder / f"spark-{rows}.parquet"
    if not source.exists():
        write_stays(source, rows, seed=10)
    name = f"{rows / 1e6:g} million stays"
    policy = hospital_policy()
    local = anonymized(source, policy, folder)
    yield _line(f"{name}, local engine: whole command, verified", local, {})
    with counting(folder) as counters:
        run = anonymized(source, policy, folder, "--engine", "spark", "--master", MASTER, shared=True)
        counted = counters()
    yield _line(f"{name}, Spark {MASTER}: whole command, verified", run, {"spark": counted, "rows": rows})
    start = run.steps["open"] if "open" in run.steps else _empty_session()
    yield Measured(f"of these, starting Spark {MASTER}", [start], "-", True)
    ratio = (run.finished.seconds - start) / local.finished.seconds
    title = f"{name}: Spark {MASTER} against the local engine, without the start of Spark (a ratio, not seconds)"
    yield Measured(title, [ratio], f"{MOST:g}x", ratio <= MOST)
    whole = run.finished.seconds / local.finished.seconds
    yield Measured(title.replace("without", "with"), [whole], "-", True)


def _line(title: str, run: Ran, more: dict[str, Any]) -> Measured:
    detail = {"steps": run.steps, **more}
    return Measured(title, [run.finished.seconds], "-", True, run.finished.peak_mib, detail)


def _empty_session() -> float:
    """Return the seconds that a session takes to start in a process of its own, with its first task."""
    ended = subprocess.run([sys.executable, "-c", _START, MASTER], capture_output=True, text=True, check=True)
    return float(ended.stdout)


@contextmanager
def counting(folder: Path) -> Iterator[Any]:
    """Let Spark write its log of events in *folder*, and give a function that adds up what tasks told there."""
    log, settings = folder / "spark-events", folder / "spark-settings"
    log.mkdir(exist_ok=True)
    settings.mkdir(exist_ok=True)
    lines = ("spark.eventLog.enabled true", f"spark.eventLog.dir {log.as_uri()}", "spark.eventLog.compress false")
    (settings / "spark-defaults.conf").write_text("\n".join((*lines, "spark.eventLog.rolling.enabled false")) + "\n")
    before = os.environ.get("SPARK_CONF_DIR")
    os.environ["SPARK_CONF_DIR"] = str(settings)
    try:
        yield lambda: counters(log)
    finally:
        if before is None:
            del os.environ["SPARK_CONF_DIR"]
        else:
            os.environ["SPARK_CONF_DIR"] = before


def counters(log: Path) -> dict[str, int]:
    """Return the sums over all tasks of all logs in a folder, and remove these."""
    found: Counter[str] = Counter()
    for path in sorted(entry for entry in log.rglob("*") if entry.is_file()):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                if event["Event"] == "SparkListenerTaskEnd" and "Task Metrics" in event:
                    found["tasks"] += 1
                    for name, keys in _COUNTED.items():
                        found[name] += _at(event["Task Metrics"], keys)
        path.unlink()
    return dict(found)


def _at(entry: Any, keys: tuple[str, ...]) -> int:
    for key in keys:
        entry = entry[key]
    return int(entry)

"""Benchmarks that start commands: what they measure of processes, disks and Spark's own log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the benchmarks are beside the package, not in it
    sys.path.append(str(ROOT))

from bench.scaling import points, volumes  # noqa: E402

from bench import large, measuring, running, spark  # noqa: E402

# A process that holds memory while its child holds as much.
PARENT = """
import subprocess, sys
held = b"x" * (100 << 20)
subprocess.run([sys.executable, "-S", "-c", sys.argv[1]], check=True)
"""
CHILD = """
import time
held = b"x" * (100 << 20)
time.sleep(0.7)
"""


def test_the_memory_of_a_process_and_its_children_is_added_up(tmp_path: Path) -> None:
    command = [sys.executable, "-S", "-c", PARENT, CHILD]
    for shared in (False, True):
        found = measuring.watched(command, tmp_path, shared=shared)
        assert 200 <= found.peak_mib < 300
        assert found.seconds > 0.7
        assert found.disk_bytes >= 0
    assert 100 <= measuring.process(command).peak_mib < 150  # the larger of both, alone


def test_a_command_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        measuring.watched([sys.executable, "-c", "import sys; sys.exit(3)"], tmp_path)


def test_a_run_tells_its_steps_and_leaves_nothing(tmp_path: Path) -> None:
    point = points.Point(3000, ("rows",), copies=5, quasi=3)
    ran = point.run(tmp_path)
    stated = running.described(ran, 600)
    assert set(stated["seconds"]) == {"rest", "count", "plan", "apply", "verify"}
    assert sum(stated["seconds"].values()) == pytest.approx(stated["whole"], abs=0.01)
    assert (stated["rows"], stated["cells"], stated["quasi"], stated["columns"], stated["regions"]) == (
        3000,
        600,
        3,
        5,
        0,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked.json", "stays-3000-5.parquet"]


def test_the_large_jobs_run_on_a_share_of_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = large.LARGE["large-stays"](tmp_path, 1e-4)
    assert line.job == "0.01 million stays, 6 quasi, 1 sensitive, Mondrian: whole command, verified"
    assert line.limit == "0.04 s, 0.750125 GiB"
    assert not line.within  # no command starts in so short a time
    assert line.peak_mib is not None and 100 < line.peak_mib < 512  # noqa: PT018
    assert line.detail["point"]["rows"] == 10_000
    assert line.detail["point"]["cells"] > 9_000
    assert (tmp_path / "stays-10000.parquet").is_file()  # kept, for the next run
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000))
    assert list(large.LARGE["large-stays"](tmp_path, 1e-4)) == []


def test_a_job_that_does_not_fit_onto_the_disk_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 30))
    assert list(large.LARGE["large-adult"](tmp_path, 1.0)) == []
    said = capsys.readouterr().out
    assert said.startswith(
        "85 million perturbed rows of Adult, 8 quasi, k = 50, Mondrian: whole command, verified: left out"
    )
    assert said.rstrip().endswith("1.0 are free")
    assert list(tmp_path.iterdir()) == []


def test_the_counters_of_spark_are_added_up_over_tasks(tmp_path: Path) -> None:
    metrics = {"Shuffle Write Metrics": {"Shuffle Bytes Written": 70}, "Result Size": 5, "Executor Run Time": 30}
    task = {"Event": "SparkListenerTaskEnd", "Task Metrics": metrics}
    events = [{"Event": "SparkListenerApplicationStart"}, task, task, {"Event": "SparkListenerTaskEnd"}]
    (tmp_path / "local-1").write_text("\n".join(json.dumps(event) for event in events) + "\n")
    found = spark.counters(tmp_path)
    assert found == {"tasks": 2, "shuffle_bytes": 140, "result_bytes": 10, "task_milliseconds": 60}
    assert list(tmp_path.iterdir()) == []


def test_unknown_jobs_are_refused_and_known_ones_listed() -> None:
    command = [sys.executable, "-m", "bench"]
    refused = subprocess.run([*command, "larger"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "larger" in refused.stderr
    listed = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(name in listed.stdout for name in ("large-stays", "spark", "scaling", "pages"))


def test_everything_that_the_page_tells_of_messages_is_weighed(tmp_path: Path) -> None:
    recorded = json.loads((ROOT / "bench" / "results" / "scaling.json").read_text(encoding="utf-8"))["volumes"]
    found = volumes.weighed(tmp_path, 20_000)
    assert set(found) == set(recorded)
    assert min(found.values()) > 0
    for name in ("cells in memory, per cell", "class of a cell, per cell"):  # the layouts do not depend on rows
        assert found[name] == recorded[name]
    assert found["published row and its key, per row"] > found["released file, per row"]

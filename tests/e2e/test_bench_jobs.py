"""Benchmarks that start commands: what they measure of processes, disks and Spark's own log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the benchmarks are beside the package, not in it
    sys.path.append(str(ROOT))

from bench.scaling import points  # noqa: E402

from bench import running  # noqa: E402


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


def test_unknown_jobs_are_refused_and_known_ones_listed() -> None:
    command = [sys.executable, "-m", "bench"]
    refused = subprocess.run([*command, "larger"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "larger" in refused.stderr
    listed = subprocess.run([*command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert all(name in listed.stdout for name in ("large-stays", "spark", "scaling", "pages"))

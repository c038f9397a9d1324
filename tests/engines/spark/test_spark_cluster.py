"""A real cluster on loopback: a master and two workers, one of which is lost in the middle."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

DRIVER = Path(__file__).with_name("driving.py")
Starter = Callable[[], subprocess.Popen[bytes]]


def published(folder: Path) -> bool:
    return verify(folder / "out", source=open_source(folder / "people")).verified


def given(folder: Path) -> list[str]:
    return [str(folder / name) for name in ("people", "policy.json", "out")]


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {"people", "policy.json", "conf", "kept"}


def test_the_command_publishes_on_a_cluster(job: Any, master: str, start_worker: Starter, tmp_path: Path) -> None:
    start_worker()
    data, policy, out = given(tmp_path)
    command = [str(Path(sys.executable).with_name("shoal")), "anonymize", data, "-p", policy, "-o", out, "--json"]
    done = job(*command, "--engine", "spark", "--master", master)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout)["verified"] is True
    assert published(tmp_path)
    assert left(tmp_path) == {"out"}


def losing(worker: subprocess.Popen[bytes], master: str, folder: Path, kind: str, when: str) -> list[str]:
    """Return the command that publishes a table and loses the worker."""
    return [sys.executable, str(DRIVER), master, *given(folder), kind, str(worker.pid), when]


def test_a_lost_worker_is_made_up_for_where_rows_are_read_from_files(
    job: Any, master: str, start_worker: Starter, tmp_path: Path
) -> None:
    worker = start_worker()
    done = job(*losing(worker, master, tmp_path, "files", "late"))
    assert worker.wait(timeout=5) == -signal.SIGKILL
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert published(tmp_path)
    assert left(tmp_path) == {"out"}


@pytest.mark.thorough
def test_a_lost_worker_is_made_up_for_where_rows_are_kept_in_a_folder(
    job: Any, master: str, start_worker: Starter, tmp_path: Path
) -> None:
    worker = start_worker()
    kept = {"spark.checkpoint.dir": (tmp_path / "kept").as_uri()}
    done = job(*losing(worker, master, tmp_path, "frame", "late"), **kept)
    assert worker.wait(timeout=5) == -signal.SIGKILL
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert published(tmp_path)
    assert left(tmp_path) == {"out"}
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]


@pytest.mark.thorough
def test_a_lost_worker_with_rows_ends_the_run_and_leaves_nothing(
    job: Any, master: str, start_worker: Starter, tmp_path: Path
) -> None:
    worker = start_worker()
    done = job(*losing(worker, master, tmp_path, "frame", "early"))
    assert worker.wait(timeout=5) == -signal.SIGKILL
    if done.returncode == 0:  # the worker had done all its work before it was lost
        assert published(tmp_path)
        return
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Spark could not finish its work" in done.stdout
    assert left(tmp_path) == set()

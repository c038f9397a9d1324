"""A real cluster on loopback: a master and two workers, one of which is lost in the middle."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.sources import open_source
from shoal.verify import verify_folder

pytestmark = pytest.mark.xdist_group("spark")
DRIVER = Path(__file__).with_name("driving.py")
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MOST_SECONDS = 120
Starter = Callable[[], subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = Path(pytest.importorskip("pyspark").__file__).parent
    memory = {"SPARK_DAEMON_MEMORY": "192m", "SPARK_DAEMON_JAVA_OPTS": QUICK}
    place = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return os.environ | memory | place | {"SPARK_LOCAL_DIRS": str(tmp_path_factory.mktemp("local"))}


def started(environment: dict[str, str], log: Path, *what: str) -> subprocess.Popen[bytes]:
    command = [str(Path(environment["SPARK_HOME"], "bin", "spark-class")), *what]
    with log.open("wb") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)


def ended(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + MOST_SECONDS
    while text not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        assert time.monotonic() < until, f"{log.name} never says {text!r}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def master(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("master") / "master.log"
    where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    process = started(environment, log, "org.apache.spark.deploy.master.Master", *where)
    try:
        wait_for(log, "I have been elected leader", process)
        yield f"spark://127.0.0.1:{port}"
    finally:
        ended(process)


@pytest.fixture(scope="module")
def start_worker(
    environment: dict[str, str], master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Starter]:
    workers = []

    def start() -> subprocess.Popen[bytes]:
        folder = tmp_path_factory.mktemp("worker")
        where = ["--host", "127.0.0.1", "--webui-port", "0", "-c", "1", "-m", "640m", "-d", str(folder), master]
        worker = started(environment, folder / "worker.log", "org.apache.spark.deploy.worker.Worker", *where)
        workers.append((worker, folder / "worker.log"))
        return worker

    def ready() -> subprocess.Popen[bytes]:
        """Start as many as are missing of two, and return the last one."""
        alive = [worker for worker, _ in workers if worker.poll() is None]
        for _ in range(2 - len(alive)):
            start()
        for worker, log in workers:
            if worker.poll() is None:
                wait_for(log, "Successfully registered with master", worker)
        return workers[-1][0]

    yield ready
    for worker, _ in workers:
        ended(worker)


@pytest.fixture
def job(tmp_path: Path, people: pa.Table, policy: Callable[..., dict[str, Any]], environment: dict[str, str]) -> Any:
    """Write a table and a policy; return what runs them on the cluster."""
    (tmp_path / "people").mkdir()
    for number in range(4):
        pq.write_table(people.slice(750 * number, 750), tmp_path / "people" / f"{number}.parquet")
    (tmp_path / "policy.json").write_text(json.dumps(policy(method={"mondrian": {"cuts": "relaxed"}})))
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.files.openCostInBytes": str(128 << 20),  # a partition for each file
    }

    def run(*command: str, **more: str) -> subprocess.CompletedProcess[str]:
        lines = [f"{key} {value}" for key, value in (settings | more).items()]
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
        env = environment | {"SPARK_CONF_DIR": str(tmp_path / "conf")}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)

    return run


def published(folder: Path) -> bool:
    return verify_folder(folder / "out", source=open_source(folder / "people")).verified


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


def test_a_lost_worker_is_made_up_for_where_rows_are_kept_in_a_folder(
    job: Any, master: str, start_worker: Starter, tmp_path: Path
) -> None:
    worker = start_worker()
    kept = {"spark.checkpoint.dir": (tmp_path / "kept").as_uri()}
    done = job(sys.executable, str(DRIVER), master, *given(tmp_path), str(worker.pid), **kept)
    assert worker.wait(timeout=5) == -signal.SIGKILL
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert published(tmp_path)
    assert left(tmp_path) == {"out"}
    assert not [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]


def test_a_lost_worker_with_rows_ends_the_run_and_leaves_nothing(
    job: Any, master: str, start_worker: Starter, tmp_path: Path
) -> None:
    worker = start_worker()
    done = job(sys.executable, str(DRIVER), master, *given(tmp_path), str(worker.pid))
    assert worker.wait(timeout=5) == -signal.SIGKILL
    if done.returncode == 0:  # the worker had done all its work before it was lost
        assert published(tmp_path)
        return
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Spark could not finish its work" in done.stdout
    assert left(tmp_path) == set()

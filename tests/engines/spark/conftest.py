"""One Spark session on two cores for all tests of a process, a cluster, and a table of people to publish."""

from __future__ import annotations

import datetime
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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

N_PEOPLE = 3_000
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MOST_SECONDS = 120
Starter = Callable[[], subprocess.Popen[bytes]]
POLICY: dict[str, Any] = {
    "attributes": {
        "person": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [5, 10, 20]}}},
        "zip code": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
        "sex": {"role": "quasi"},
        "cost.total": {"role": "insensitive"},
        "seen": {"role": "insensitive"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 5}}, {"simple-l-diversity": {"l": 2}}],
    "method": {"mondrian": {}},
}


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[Any]:
    """A session of Spark in this process."""
    from shoal.sources.spark.session import spark_session

    quick = {"spark__driver__extraJavaOptions": QUICK}
    session = spark_session("local[2]", spark__driver__memory="700m", spark__sql__shuffle__partitions="2", **quick)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def people() -> pa.Table:
    """People with missing values, and column names that Spark stumbles over."""
    rng = np.random.default_rng(20)
    sex = rng.choice(["F", "M", ""], N_PEOPLE, p=[0.5, 0.45, 0.05])
    days = rng.integers(0, 900, N_PEOPLE).tolist()
    seen = [datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=day) for day in days]
    cost = pa.array(rng.normal(100, 20, N_PEOPLE).round(2), mask=rng.random(N_PEOPLE) < 0.02)
    return pa.table(
        {
            "person": pa.array([f"p{number}" for number in range(N_PEOPLE)]),
            "age": rng.integers(0, 95, N_PEOPLE),
            "zip code": pa.array([f"{10 * (number // 3):04d}" for number in rng.integers(0, 30, N_PEOPLE)]),
            "sex": pa.array(sex),
            "cost.total": cost,
            "seen": pa.array(seen, pa.timestamp("us", tz="UTC")),
            "illness": pa.array(rng.choice(["flu", "gout", "cold", "none"], N_PEOPLE)),
        }
    )


@pytest.fixture(scope="session")
def policy() -> Callable[..., dict[str, Any]]:
    """A policy for the people, with other entries if wanted."""

    def changed(**entries: Any) -> dict[str, Any]:
        return POLICY | entries

    return changed


@pytest.fixture(scope="session")
def frame(spark: Any, people: pa.Table) -> Any:
    """The people as a DataFrame of two partitions, in the order of the table."""
    return spark.createDataFrame(people)


@pytest.fixture(scope="module")
def environment(java: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
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
    (tmp_path / "policy.json").write_text(json.dumps(policy(method={"hilbert": {}})))
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

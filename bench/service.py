"""The agency's service under steady load: fetches of a plan that come at their own pace, whether it keeps up or not."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from bench.measuring import Measured
from bench.servers import PostgreSQL, Service, first_token, migrate, postgresql_binaries, serving

PER_SECOND, SECONDS, RUNS = 200, 20, 3
N_CALLERS = 32
N_POINTS, N_VALUES, L = 3000, 50, 10
_LIMIT = 0.1


@dataclass(slots=True)
class Fetched:
    """What one run of fetches came to; an answer's time counts from when it was due to be asked for."""

    seconds: list[float] = field(default_factory=list)
    errors: int = 0

    def quantile(self, share: float) -> float:
        """Return the time within which this share of the answers came."""
        return float(np.quantile(self.seconds, share, method="higher"))


def service(folder: Path) -> Iterator[Measured]:
    """Plan fetches on SQLite, and on PostgreSQL where it is installed."""
    yield from _measured(folder, "SQLite", f"sqlite:///{folder}/agency.db")
    binaries = postgresql_binaries()
    if binaries is None:
        return
    cluster = PostgreSQL.create(binaries)
    try:
        cluster.start()
        yield from _measured(folder, "PostgreSQL", cluster.url(cluster.new_database()))
    finally:
        cluster.remove()


def _measured(folder: Path, name: str, database: str) -> Iterator[Measured]:
    migrate(database)
    token = first_token(database)
    place = folder / name
    place.mkdir()
    with serving(Service(database, place)) as running:
        path = planned_campaign(running, token)
        fetch(running, token, path, PER_SECOND, 2)
        runs = [fetch(running, token, path, PER_SECOND, SECONDS) for _ in range(RUNS)]
        size = len(running.client(token).call("GET", path).body)
        peak = _peak_mib(running)
        running.stop()
    errors = sum(run.errors for run in runs)
    detail = {"errors": errors, "answers": sum(len(run.seconds) for run in runs), "bytes": size}
    job = f"agency's service on {name}, {PER_SECOND} plan fetches a second for {SECONDS} s"
    half, most = ([run.quantile(share) for run in runs] for share in (0.5, 0.99))
    within = statistics.median(most) <= _LIMIT and errors == 0
    yield Measured(f"{job}: p50", half, "-", True, peak, detail)
    yield Measured(f"{job}: p99", most, "0.1 s, no errors", within, peak, detail)


def planned_campaign(running: Service, token: str) -> str:
    """Plan for a domain of realistic size, and return the path of the plan."""
    agency = running.client(token)
    ages = [str(age) for age in range(N_POINTS // 30)]
    towns = [f"town {number}" for number in range(30)]
    illnesses = [f"illness {number}" for number in range(N_VALUES)]
    quasi = [{"name": "age", "values": ages}, {"name": "town", "values": towns}]
    domain = {"quasi": quasi, "sensitive": {"name": "illness", "values": illnesses}}
    body: dict[str, Any] = {"name": "load", "domain": domain, "l": L, "delta": 0.01}
    made = agency.call("POST", "/v1/campaigns", body)
    path = f"/v1/campaigns/{made.json['id']}"
    rows = [[age, town, illness, 10] for age in ages for town in towns for illness in illnesses]
    table = {"columns": ["age", "town", "illness", "count"], "rows": rows}
    for method, what, content in (("PUT", "distribution", table), ("POST", "plan", {"samples": 66_000})):
        answer = agency.call(method, f"{path}/{what}", content)
        if answer.status not in (200, 201):
            raise RuntimeError(f"{what}: {answer.status} {answer.body[:500]!r}")
    agency.close()
    return f"{path}/plan"


def fetch(running: Service, token: str, path: str, per_second: int, seconds: float) -> Fetched:
    """Fetch a path at a steady rate over keep-alive connections; a late answer does not delay what is due next."""
    fetched, numbers, lock = Fetched(), count(), threading.Lock()
    total, began = int(per_second * seconds), time.monotonic() + 0.2

    def call() -> None:
        caller = running.client(token)
        while (number := next(numbers)) < total:
            due = began + number / per_second
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                good = caller.call("GET", path).status == 200
            except (OSError, HTTPException):
                good = False
            took = time.monotonic() - due
            with lock:
                fetched.errors += not good
                fetched.seconds.append(took)
        caller.close()

    threads = [threading.Thread(target=call) for _ in range(N_CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return fetched


def _peak_mib(running: Service) -> float | None:
    assert running.process is not None
    lines = Path(f"/proc/{running.process.pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), None)

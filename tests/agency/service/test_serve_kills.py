"""Killed again and again under load: every write that was acknowledged is there, with its line of the audit log."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any

import pytest

N_KILLS = 20 if os.environ.get("SHOAL_THOROUGH") == "1" else 4  # on each of the two databases
N_LEAST = 5  # acknowledged writes between two kills


class GoneError(Exception):
    """The database of the service cannot be reached."""


@dataclass
class Told:
    """What was acknowledged so far, and what the last number of each sequence was that was sent at all."""

    tokens: dict[int, str] = field(default_factory=dict)
    campaigns: dict[int, str] = field(default_factory=dict)
    releases: dict[int, str] = field(default_factory=dict)
    reported: int = 0
    reported_sent: int = 0
    contributed: int = 0
    contributed_sent: int = 0
    lines: Counter[tuple[str, str, int]] = field(default_factory=Counter)


class Load:
    """Callers that write as fast as they are answered, until the service is gone."""

    def __init__(self, world: Any) -> None:
        self.world, self.stated, self.lock = world, Told(), threading.Lock()
        self.planned, self.collecting = world.campaign("planned"), world.campaign("collecting")
        self.token = {role: world.caller(role).token for role in ("agency", "owner")}
        self.number = 0

    def run(self, seconds: float, kill: Callable[[], None]) -> int:
        """Write in five threads, kill in the middle of it, and return how much was acknowledged."""
        writers = (self.make_tokens, self.make_campaigns, self.register, self.report, self.contribute)
        before = sum(self.stated.lines.values())
        threads = [threading.Thread(target=self._until_gone, args=(writer,)) for writer in writers]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 20
        while sum(self.stated.lines.values()) < before + N_LEAST and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(seconds)
        kill()
        for thread in threads:
            thread.join()
        return sum(self.stated.lines.values()) - before

    def _until_gone(self, writer: Callable[[Callable[..., Any]], None]) -> None:
        role = "agency" if writer in (self.make_tokens, self.make_campaigns) else "owner"
        caller = self.world.service.client(self.token[role])

        def send(action: str, subject: str, *call: Any) -> Any:
            answer = caller.call(*call)
            if answer.status == 503:
                raise GoneError
            assert answer.status in (200, 201), (call, answer)
            made = f"/{answer.json['id']}" if answer.status == 201 else ""
            with self.lock:
                self.stated.lines[action, subject + made, answer.status] += 1
            return answer

        with contextlib.suppress(OSError, HTTPException, GoneError):
            while True:
                writer(send)
        caller.close()

    def next(self) -> int:
        with self.lock:
            self.number += 1
            return self.number

    def make_tokens(self, send: Callable[..., Any]) -> None:
        name = f"made {self.next()}"
        answer = send("POST", "/v1/tokens", "POST", "/v1/tokens", {"name": name, "role": "client"})
        self.stated.tokens[answer.json["id"]] = name

    def make_campaigns(self, send: Callable[..., Any]) -> None:
        body = {"name": f"made {self.next()}", "domain": self.world.domain, "l": 3, "delta": 0.01}
        made = send("POST", "/v1/campaigns", "POST", "/v1/campaigns", body).json["id"]
        self.stated.campaigns[made] = "draft"
        place = f"/v1/campaigns/{made}"
        send("POST", f"{place}/state", "POST", f"{place}/state", {"state": "collecting"})
        self.stated.campaigns[made] = "collecting"

    def register(self, send: Callable[..., Any]) -> None:
        body, place = self.planned.release(), f"{self.planned.path}/releases"
        answer = send("POST", place, "POST", place, body)
        self.stated.releases[answer.json["id"]] = body["files"]["data.csv"]

    def report(self, send: Callable[..., Any]) -> None:
        number = self.stated.reported_sent = self.next()
        place = f"{self.planned.path}/records"
        send("PUT", place, "PUT", place, {"records": number})
        self.stated.reported = number

    def contribute(self, send: Callable[..., Any]) -> None:
        number = self.stated.contributed_sent = self.next()
        place = f"{self.collecting.path}/counts"
        send("PUT", place, "PUT", place, self.world.counts(number, ["30"]))
        self.stated.contributed = number

    def check(self) -> None:
        """Everything acknowledged is there; of the last that was not, one or the other, and it stays so."""
        world, stated = self.world, self.stated
        tokens = {entry["id"]: entry["name"] for entry in world.listed("/v1/tokens")}
        assert stated.tokens.items() <= tokens.items()
        campaigns = {entry["id"]: entry["state"] for entry in world.listed("/v1/campaigns")}
        for made, state in stated.campaigns.items():
            assert campaigns[made] in (state, "collecting")
        releases = {entry["id"]: entry["files"]["data.csv"] for entry in world.listed(f"{self.planned.path}/releases")}
        assert stated.releases.items() <= releases.items()
        owner = next(entry["name"] for entry in world.callers.values() if entry["token"] == self.token["owner"])
        reports = {entry["owner"]: entry["records"] for entry in world.listed(f"{self.planned.path}/records")}
        assert reports.get(owner, 0) in (stated.reported, stated.reported_sent)
        stated.reported = stated.reported_sent = reports.get(owner, 0)
        given = {entry["owner"]: entry["records"] for entry in world.listed(f"{self.collecting.path}/counts")}
        assert given.get(owner, 0) in (stated.contributed * 200, stated.contributed_sent * 200)
        stated.contributed = stated.contributed_sent = given.get(owner, 0) // 200

    def check_audit(self) -> None:
        """Every acknowledged write has its line, and nothing was made without one."""
        lines = self.world.audit()
        assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
        found = Counter((line["subject"], int(line["outcome"])) for line in lines)
        needed: Counter[tuple[str, int]] = Counter()
        for (_, subject, status), number in self.stated.lines.items():
            needed[subject, status] += number
        assert not needed - found
        releases = {entry["id"] for entry in self.world.listed(f"{self.planned.path}/releases")}
        for made in releases:
            assert found[f"{self.planned.path}/releases/{made}", 201] == 1
        for made in {entry["id"] for entry in self.world.listed("/v1/campaigns")}:
            assert found[f"/v1/campaigns/{made}", 201] == 1


@pytest.fixture
def load(new_world):
    many = dict.fromkeys(("campaigns", "tokens", "releases"), 1_000_000)
    with new_world(**many) as world:
        yield Load(world)


def test_nothing_acknowledged_is_lost_when_the_service_is_killed(load: Load) -> None:
    chance = random.Random(7)
    acknowledged = []
    for _ in range(N_KILLS):
        acknowledged.append(load.run(0.2 * chance.random(), load.world.service.kill))
        load.world.restart()
        load.check()
    assert min(acknowledged) >= N_LEAST
    load.check_audit()


def test_nothing_acknowledged_is_lost_when_postgresql_is_killed(fragile) -> None:
    """The service says that its database is away, and works again without a restart when it is back."""
    cluster, world = fragile
    load = Load(world)
    for _ in range(2):
        assert load.run(0.5, cluster.kill) >= N_LEAST
        assert world.service.client().call("GET", "/healthz").status == 503
        answer = world.agency.call("GET", "/v1/campaigns")
        assert answer.status == 503
        assert cluster.password not in answer.body.decode()
        cluster.start()
        assert world.service.client().call("GET", "/healthz").status == 200
        load.check()
    load.check_audit()
    assert world.service.stop() == 0
    assert cluster.password not in world.service.log.read_text()

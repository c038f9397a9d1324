"""Sixteen callers at once: what was acknowledged is there afterwards, and nothing happens twice."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

N_THREADS = 16
BASE, SAMPLES = 1000, 2000


def together(work: list[Callable[[], Any]]) -> list[Any]:
    """Start all at one moment, each in a thread of its own, and return what they returned."""
    barrier = threading.Barrier(len(work))

    def run(one: Callable[[], Any]) -> Any:
        barrier.wait()
        return one()

    with ThreadPoolExecutor(len(work)) as pool:
        return list(pool.map(run, work))


def digest_of(world: Any, factors: dict[str, int]) -> str:
    """The digest of the plan for the sum of contributions (age and factor), computed here."""
    from shoal.agency.distribution import read_distribution
    from shoal.agency.planning import make_plan, plan_document

    rows = [[*row[:3], row[3] * (BASE + factors.get(row[0], 0))] for row in world.counts()["rows"]]
    table = pa.table(dict(zip(world.counts()["columns"], zip(*rows, strict=True), strict=True)))
    plan = make_plan(read_distribution(table, "illness"), promise=3, delta=Fraction("0.01"), samples=SAMPLES)
    return plan_document(plan)["digest"]


def test_contributions_are_in_the_plan_or_refused_and_there_is_one_plan(world: Any) -> None:
    """Owners replace their counts while four of the agency plan; the plan is of the last that were acknowledged."""
    campaign = world.campaign()
    assert campaign.move("collecting").status == 200
    assert world.caller("owner").call("PUT", f"{campaign.path}/counts", world.counts(BASE)).status == 200
    ages = world.domain["quasi"][0]["values"][: N_THREADS - 4]
    owners = {age: world.caller("owner") for age in ages}
    planners = [world.caller("agency") for _ in range(4)]
    last: dict[str, int] = {}
    planned = threading.Event()

    def contribute(age: str, owner: Any) -> Callable[[], set[int]]:
        """Each owner counts people of one age, so that the sum is another with every contribution."""

        def work() -> set[int]:
            stated = set()
            for factor in range(1, 60):
                answer = owner.call("PUT", f"{campaign.path}/counts", world.counts(factor, [age]))
                stated.add(answer.status)
                if answer.status != 200:
                    break
                last[age] = factor
            return stated

        return work

    def plan(agency: Any) -> Callable[[], list[int]]:
        def work() -> list[int]:
            stated = []
            while not planned.wait(0.02):
                stated.append(agency.call("POST", f"{campaign.path}/plan", {"samples": SAMPLES}).status)
                if stated[-1] == 201:
                    planned.set()
            return stated

        return work

    answers = together([*(contribute(*pair) for pair in owners.items()), *map(plan, planners)])
    assert set().union(*answers[: len(owners)]) <= {200, 409}
    statuses = [status for stated in answers[len(owners) :] for status in stated]
    assert statuses.count(201) == 1
    assert set(statuses) <= {201, 409}
    stated = {entry["owner"]: entry["records"] for entry in world.listed(f"{campaign.path}/counts")}
    assert {age: stated.get(world.name(owner), 0) for age, owner in owners.items()} == {
        age: last.get(age, 0) * 200 for age in ages
    }
    assert campaign.document()["digest"] == digest_of(world, last)
    for age in ages:  # one contribution more or less would be another plan
        assert digest_of(world, {**last, age: last.get(age, 0) + 1}) != digest_of(world, last)


def test_sixteen_planners_make_one_plan(world: Any) -> None:
    campaign = world.campaign("collecting")
    planners = [world.caller("agency") for _ in range(N_THREADS)]
    answers = together([lambda one=one: one.call("POST", f"{campaign.path}/plan", {}) for one in planners])
    assert sorted(answer.status for answer in answers) == [201] + [409] * (N_THREADS - 1)
    (made,) = [answer.json for answer in answers if answer.status == 201]
    assert campaign.document()["digest"] == made["digest"]


@pytest.mark.parametrize(("state", "target"), [("draft", "collecting"), ("planned", "closed")])
def test_a_state_is_entered_once(state: str, target: str, world: Any) -> None:
    campaign = world.campaign(state)
    callers = [world.caller("agency") for _ in range(N_THREADS)]
    body = {"state": target}
    answers = together([lambda one=one: one.call("POST", f"{campaign.path}/state", body).status for one in callers])
    assert sorted(answers) == [200] + [409] * (N_THREADS - 1)
    assert campaign.state() == target


def test_reports_and_releases_are_there_or_refused_when_the_campaign_closes(world: Any) -> None:
    campaign = world.campaign("planned")
    owners = [world.caller("owner") for _ in range(N_THREADS - 1)]
    reported: dict[str, int] = {}
    registered: dict[int, str] = {}

    def work(owner: Any) -> Callable[[], set[int]]:
        def run() -> set[int]:
            stated = set()
            for number in range(1, 30):
                answer = owner.call("PUT", f"{campaign.path}/records", {"records": number})
                stated.add(answer.status)
                if answer.status == 200:
                    reported[world.name(owner)] = number
                body = campaign.release()
                answer = owner.call("POST", f"{campaign.path}/releases", body)
                stated.add(answer.status)
                if answer.status == 201:
                    assert answer.json["id"] not in registered
                    registered[answer.json["id"]] = body["files"]["data.csv"]
            return stated

        return run

    def close() -> int:
        while len(registered) < 20:
            threading.Event().wait(0.01)
        return campaign.move("closed").status

    answers = together([*map(work, owners), close])
    assert answers[-1] == 200
    assert set().union(*answers[:-1]) == {200, 201, 409}
    stated = world.agency.call("GET", f"{campaign.path}/records?limit=1000").json["items"]
    assert {entry["owner"]: entry["records"] for entry in stated} == reported
    stated = world.agency.call("GET", f"{campaign.path}/releases?limit=1000").json["items"]
    assert {entry["id"]: entry["files"]["data.csv"] for entry in stated} == registered
    assert world.agency.call("GET", f"{campaign.path}/guarantee").json["registered"] == len(registered)


def test_one_release_sent_sixteen_times_at_once_is_one_release(world: Any) -> None:
    campaign = world.campaign("planned")
    body = campaign.release()
    callers = [world.service.client(campaign.owner.token) for _ in range(N_THREADS)]
    answers = together([lambda one=one: one.call("POST", f"{campaign.path}/releases", body) for one in callers])
    assert {answer.status for answer in answers} == {201}
    assert len({answer.json["id"] for answer in answers}) == 1


def test_the_audit_log_has_a_line_for_every_answer_and_no_gap(world: Any) -> None:
    campaign = world.campaign("planned")
    callers = [world.caller(role) for role in ("owner", "client") for _ in range(N_THREADS // 2)]
    before = len(world.audit())

    def work(caller: Any) -> Callable[[], list[int]]:
        def run() -> list[int]:
            return [
                caller.call(*call).status
                for _ in range(10)
                for call in (
                    ("GET", f"{campaign.path}/plan"),
                    ("PUT", f"{campaign.path}/records", {"records": 7}),
                    ("GET", "/v1/tokens"),
                )
            ]

        return run

    answers = together([work(caller) for caller in callers])
    lines = world.audit()
    assert [line["number"] for line in lines] == list(range(1, len(lines) + 1))
    for caller, stated in zip(callers, answers, strict=True):
        own = [line for line in lines[before:] if line["token"] == world.identity(caller)["id"]]
        assert sorted(int(line["outcome"]) for line in own) == sorted(stated)

"""Orders of events that are rare under load, brought about on purpose: inside one process, on both databases."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from shoal.agency.service import campaigns, plans, schema, tokens, visits
from shoal.agency.service import database as databases
from shoal.agency.service.database import create_tables
from shoal.agency.service.messages import Counts, NewCampaign, NewState, NewToken, PlanRequest, Weights
from shoal.agency.service.refusals import Refusal, of_error
from shoal.agency.service.settings import Settings
from shoal.agency.service.visits import Service, Visit
from shoal.core.errors import InputError

DOMAIN = {
    "quasi": [{"name": "age", "values": ["20", "30"]}],
    "sensitive": {"name": "illness", "values": ["flu", "gout", "zoster"]},
}
ASKED = NewCampaign.model_validate({"name": "a campaign", "domain": DOMAIN, "l": 2, "delta": 0.01})


@dataclass
class Inside:
    """A service without its server."""

    service: Any

    def holder(self, role: tokens.Role, name: str = "somebody") -> tokens.Holder:
        database = self.service.database
        with database.writing() as connection:
            made = tokens.create(database, connection, NewToken(name=name, role=role), 1000)
        return tokens.Holder(made["id"], name, role)

    def visit(self, holder: tokens.Holder, action: str = "test") -> Visit:
        return Visit(self.service, holder, action, f"/{action}", 200)

    def campaign(self, agency: tokens.Holder) -> int:
        return campaigns.create_campaign(self.visit(agency), ASKED)["id"]

    def collect(self, agency: tokens.Holder, campaign: int) -> None:
        campaigns.move_campaign(self.visit(agency), campaign, NewState(state="collecting"))

    def table(self, factor: int = 1, kind: Any = Counts) -> Any:
        names = ["age", "illness", "count"]
        rows = [[age, illness, factor * 100] for age in ("20", "30") for illness in DOMAIN["sensitive"]["values"]]
        return kind(columns=names, rows=rows)

    def state(self, campaign: int) -> str:
        with self.service.database.reading() as connection:
            return campaigns.read_campaign(connection, campaign)["state"]

    def lines(self) -> list[Any]:
        with self.service.database.reading() as connection:
            return list(connection.execute(sa.select(schema.audit).order_by(schema.audit.c.number)))


@pytest.fixture
def inside(new_database, monkeypatch) -> Iterator[Inside]:
    """Nobody waits longer than a moment for a lock."""
    monkeypatch.setattr(databases, "_SECONDS", 2)
    database = databases.open_database(new_database()[0])
    yield Inside(Service(Settings(), database))
    database.engine.dispose()


def while_planning(monkeypatch, event: Callable[[], None]) -> None:
    """Let this happen while a plan is computed for the first time."""
    real = plans.compute_plan

    def compute_plan(*given: Any) -> Any:
        made = real(*given)
        monkeypatch.setattr(plans, "compute_plan", real)
        event()
        return made

    monkeypatch.setattr(plans, "compute_plan", compute_plan)


def test_a_draft_that_is_opened_meanwhile_is_not_planned_by_its_distribution(inside: Inside, monkeypatch) -> None:
    """The agency was told that owners are asked now; then the plan must be by what they say."""
    agency = inside.holder("agency")
    campaign = inside.campaign(agency)
    campaigns.set_distribution(inside.visit(agency), campaign, inside.table(kind=Weights))

    while_planning(monkeypatch, lambda: inside.collect(agency, campaign))
    for code in ("changed", "nothing_to_plan_by"):
        with pytest.raises(Refusal) as refused:
            plans.make(inside.visit(agency), campaign, PlanRequest())
        assert (refused.value.status, refused.value.code) == (409, code)
    assert inside.state(campaign) == "collecting"


def test_a_plan_is_not_stored_if_somebody_contributed_meanwhile(inside: Inside, monkeypatch) -> None:
    agency = inside.holder("agency")
    campaign = inside.campaign(agency)
    inside.collect(agency, campaign)
    first, second = (inside.holder("owner", name) for name in ("first", "second"))
    campaigns.set_counts(inside.visit(first), campaign, inside.table())
    while_planning(monkeypatch, lambda: campaigns.set_counts(inside.visit(second), campaign, inside.table(2)))
    with pytest.raises(Refusal) as refused:
        plans.make(inside.visit(agency), campaign, PlanRequest())
    assert (refused.value.status, refused.value.code) == (409, "changed")
    made = plans.make(inside.visit(agency), campaign, PlanRequest())
    assert json.loads(plans.read_stored(inside.visit(agency), campaign))["digest"] == made.digest
    with pytest.raises(Refusal):
        campaigns.set_counts(inside.visit(second), campaign, inside.table())


def test_a_token_that_is_revoked_after_it_was_looked_up_writes_nothing(inside: Inside) -> None:
    agency, other = inside.holder("agency"), inside.holder("agency")
    visit = inside.visit(other)
    with inside.visit(agency).writing(other.id) as connection:
        assert tokens.revoke(connection, other.id)
    before = inside.lines()
    with pytest.raises(Refusal) as refused:
        campaigns.create_campaign(visit, ASKED)
    assert refused.value.status == 401
    assert not visit.recorded
    assert inside.lines() == before


def test_two_tokens_that_revoke_each_other_do_not_wait_for_each_other(inside: Inside) -> None:
    """One does, and the other is revoked by then; locked one by one, each would hold what the other waits for."""
    first, second = inside.holder("agency"), inside.holder("agency")
    statuses = []

    def back() -> None:
        try:
            with inside.visit(second).writing(first.id) as connection:
                tokens.revoke(connection, first.id)
        except Refusal as refusal:
            statuses.append(refusal.status)

    thread = threading.Thread(target=back)
    with inside.visit(first).writing(second.id) as connection:
        thread.start()
        thread.join(0.3)
        assert thread.is_alive()
        assert tokens.revoke(connection, second.id)
    thread.join()
    assert statuses == [401]


def test_nothing_is_read_while_the_log_cannot_be_written(inside: Inside, monkeypatch) -> None:
    visit, before = inside.visit(inside.holder("client")), len(inside.lines())
    with monkeypatch.context() as patched:
        patched.setattr(visits, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            visit.record(200)
    for status in (200, 403):
        visit.record(status)
    lines = inside.lines()
    assert [line.outcome for line in lines[before:]] == [200, 403]
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))


def test_a_database_that_is_locked_for_long_is_503(inside: Inside, kind: str) -> None:
    agency = inside.holder("agency")
    campaign = inside.campaign(agency)
    failures = []

    def write() -> None:
        try:
            with inside.visit(agency).writing() as connection:
                campaigns.touch(connection, campaign, "draft")
        except Exception as error:  # noqa: BLE001
            failures.append(of_error(error).status)

    url = inside.service.database.engine.url
    if kind == "sqlite":
        other: Any = sqlite3.connect(url.database, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
    else:
        other = sa.create_engine(url, poolclass=sa.NullPool).connect()
        other.execute(sa.text("LOCK TABLE campaigns"))
    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.close()
    assert failures == [503] * 3
    write()
    assert len(failures) == 3


def test_a_full_disk_or_a_database_that_may_only_be_read_is_503(inside: Inside, kind: str) -> None:
    agency, engine = inside.holder("agency"), inside.service.database.engine
    if kind == "sqlite":
        pages = "SELECT page_count FROM pragma_page_count"

        def full(connection: Any, *_: object) -> None:
            (count,) = connection.execute(pages).fetchone()
            connection.execute(f"PRAGMA max_page_count={count}")

        sa.event.listen(engine, "connect", full)
    else:
        sa.event.listen(engine, "connect", lambda made, _: made.execute("SET default_transaction_read_only = on"))
    engine.dispose()
    with pytest.raises(sa.exc.DBAPIError) as failed:
        [inside.campaign(agency) for _ in range(200)]
    assert of_error(failed.value).status == 503
    assert of_error(sa.exc.ProgrammingError("", {}, Exception())).status == 500


def test_a_migration_that_fails_half_way_leaves_nothing(empty_database, monkeypatch) -> None:
    database = databases.open_database(empty_database())

    def fail(*_: object) -> None:
        raise OperationalError("", {}, Exception())

    with monkeypatch.context() as patched:
        patched.setattr(schema, "_sqlite_triggers", fail)
        patched.setattr(schema, "_postgresql_triggers", fail)
        with pytest.raises(InputError, match="cannot be used"):
            create_tables(database)
    assert sa.inspect(database.engine).get_table_names() == []
    create_tables(database)
    assert "audit" in sa.inspect(database.engine).get_table_names()
    database.engine.dispose()

"""A campaign never goes back: not by any route, and not by a statement in its database."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

ORDER = {"draft": 0, "collecting": 1, "planned": 2, "closed": 3}
# What may be done in a state, with the state afterwards; everything else is 409 and changes nothing.
MAY = {
    ("draft", "distribution"): "draft",
    ("draft", "to collecting"): "collecting",
    ("collecting", "counts"): "collecting",
    ("collecting", "plan"): "planned",
    ("planned", "records"): "planned",
    ("planned", "releases"): "planned",
    ("planned", "to closed"): "closed",
    ("planned", "fetch plan"): "planned",
    ("closed", "fetch plan"): "closed",
    ("planned", "guarantee"): "planned",
    ("closed", "guarantee"): "closed",
}
ACTIONS = (
    "distribution",
    "to collecting",
    "to closed",
    "counts",
    "plan",
    "records",
    "releases",
    "fetch plan",
    "guarantee",
)


def act(action: str, world: Any, campaign: Any, other: Any) -> Any:
    """Do something by the right caller with a body that would be right in the right state."""
    owner, path = campaign.owner or other.owner, campaign.path
    body = (campaign if campaign.made else other).release()
    calls = {
        "distribution": lambda: world.agency.call("PUT", f"{path}/distribution", world.counts()),
        "to collecting": lambda: campaign.move("collecting"),
        "to closed": lambda: campaign.move("closed"),
        "counts": lambda: owner.call("PUT", f"{path}/counts", world.counts()),
        "plan": lambda: world.agency.call("POST", f"{path}/plan", {}),
        "records": lambda: owner.call("PUT", f"{path}/records", {"records": 5}),
        "releases": lambda: owner.call("POST", f"{path}/releases", body),
        "fetch plan": lambda: owner.call("GET", f"{path}/plan"),
        "guarantee": lambda: owner.call("GET", f"{path}/guarantee"),
    }
    return calls[action]()


@pytest.mark.parametrize("state", ORDER)
def test_all_transitions_from_all_states(state: str, world: Any, states, agreed_error) -> None:
    for action in ACTIONS:
        campaign = world.campaign(state)
        answer = act(action, world, campaign, states["planned"])
        after = MAY.get((state, action))
        if after is None:
            assert answer.status == 409, (state, action, answer)
            agreed_error(answer)
        else:
            assert answer.status in (200, 201), (state, action, answer)
        assert campaign.state() == (after or state), (state, action)


@pytest.fixture
def connection(world: Any):
    engine = sa.create_engine(world.service.database)
    with engine.connect() as made:
        yield made
    engine.dispose()


def tables(connection: sa.Connection) -> dict[str, sa.Table]:
    metadata = sa.MetaData()
    metadata.reflect(connection)
    return metadata.tables


def refused(connection: sa.Connection, statement: Any) -> bool:
    """Whether the database itself refuses a statement."""
    try:
        connection.execute(statement)
        connection.commit()
    except sa.exc.DBAPIError:
        connection.rollback()
        return True
    return False


@pytest.mark.parametrize("state", ORDER)
def test_the_database_refuses_a_lower_state(state: str, world: Any, connection) -> None:
    table = tables(connection)["campaigns"]
    campaign = world.campaign(state)
    here = table.c.id == campaign.id
    for lower in [name for name in ORDER if ORDER[name] < ORDER[state]]:
        assert refused(connection, sa.update(table).where(here).values(state=lower)), lower
    for nonsense in ("open", "", None):
        assert refused(connection, sa.update(table).where(here).values(state=nonsense)), nonsense
    assert campaign.state() == state


@pytest.mark.parametrize("name", ["audit", "plans", "releases"])
def test_the_database_refuses_to_change_or_delete_what_is_final(name: str, world: Any, states, connection) -> None:
    """Rows that say what they say already are refused as well: nobody has a reason to write them."""
    campaign = states["planned"]
    assert campaign.owner.call("POST", f"{campaign.path}/releases", campaign.release()).status == 201
    table = tables(connection)[name]
    before = list(connection.execute(sa.select(table)))
    connection.rollback()
    assert before
    for column in table.columns:
        assert refused(connection, sa.update(table).values({column.name: column})), column.name
    assert refused(connection, sa.delete(table))
    row = before[0]._mapping
    if world.kind == "postgresql":
        assert refused(connection, sa.text(f"TRUNCATE {name} CASCADE"))
        assert refused(connection, sa.text("TRUNCATE campaigns CASCADE"))
    else:
        assert refused(connection, sa.insert(table).prefix_with("OR REPLACE").values(**row))
        if name == "releases":  # the same files of the same owner, as another release
            assert refused(connection, sa.insert(table).prefix_with("OR REPLACE").values(**{**row, "id": 999_999}))
    after = list(connection.execute(sa.select(table)))  # in any order, and requests of other tests may have come
    assert set(map(tuple, before)) <= set(map(tuple, after))


def test_the_database_refuses_to_delete_or_redefine_a_campaign(world: Any, connection) -> None:
    campaign = world.campaign("planned")
    table = tables(connection)["campaigns"]
    here = table.c.id == campaign.id
    assert refused(connection, sa.delete(table).where(here))
    assert refused(connection, sa.update(table).where(here).values(least=1))
    assert refused(connection, sa.update(table).where(here).values(model="k-delta-anonymity"))
    assert refused(connection, sa.update(table).where(here).values(delta=0.9))
    if world.kind == "sqlite":
        row = dict(connection.execute(sa.select(table).where(here)).mappings().one())
        connection.rollback()
        assert refused(connection, sa.insert(table).prefix_with("OR REPLACE").values({**row, "state": "draft"}))
    assert campaign.state() == "planned"


def test_the_database_refuses_counts_after_the_plan(world: Any, connection) -> None:
    campaign = world.campaign("planned")
    table = tables(connection)["contributions"]
    here = table.c.campaign_id == campaign.id
    row = dict(connection.execute(sa.select(table).where(here)).mappings().one())
    connection.rollback()
    assert refused(connection, sa.update(table).where(here).values(records=1))
    assert refused(connection, sa.delete(table).where(here))
    assert refused(connection, sa.insert(table).values({**row, "id": 999_999, "owner": "another"}))

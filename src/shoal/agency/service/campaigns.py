"""Campaigns in the database: what they are, and how they go on. draft < collecting < planned < closed, never back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select, update

from shoal.agency.service import schema
from shoal.agency.service.database import COUNT_LOCK, Database
from shoal.agency.service.messages import STATES, Domain, NewCampaign, State
from shoal.agency.service.refusals import absent, conflict
from shoal.agency.service.tokens import now

_PLAN = ("n", "n_tight", "records", "m", "p", "classes", "digest")
_table, _plans = schema.campaigns, schema.plans
_ENTRY = select(
    *(column for column in _table.c if column.name not in ("domain", "revision")),
    *(_plans.c[name].label(f"plan_{name}") for name in _PLAN),
).select_from(_table.outerjoin(_plans))


def create(database: Database, connection: Connection, asked: NewCampaign, limit: int) -> int:
    """Open a campaign in the state draft and return its number."""
    database.lock(connection, COUNT_LOCK)
    if connection.execute(select(func.count()).select_from(_table)).scalar_one() >= limit:
        raise conflict(f"there are {limit:,} campaigns already, as many as this service may have", "limit_reached")
    values = {
        "name": asked.name,
        "state": "draft",
        "domain": json.dumps(asked.domain.model_dump()),
        "l": asked.l,
        "delta": asked.delta,
        "eta": asked.eta,
        "point_order": asked.order,
        "arrangement": asked.arrangement,
        "records": asked.records,
        "revision": 0,
        "created_at": now(),
    }
    return int(connection.execute(insert(_table).values(values).returning(_table.c.id)).scalar_one())


def entries(connection: Connection, after: int, limit: int) -> list[dict[str, Any]]:
    """Return campaigns by number, without their domains."""
    rows = connection.execute(_ENTRY.where(_table.c.id > after).order_by(_table.c.id).limit(limit)).mappings()
    return [_entry(row) for row in rows]


def one(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return a campaign with its domain."""
    asked = _ENTRY.add_columns(_table.c.domain).where(_table.c.id == campaign)
    row = connection.execute(asked).mappings().one_or_none()
    if row is None:
        raise absent("campaign")
    return {**_entry(row), "domain": json.loads(row["domain"])}


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    plan = {name: found[f"plan_{name}"] for name in _PLAN}
    return {
        **{name: found[name] for name in ("id", "name", "state", "l", "delta", "eta", "arrangement", "records")},
        "order": found["point_order"],
        "created_at": found["created_at"],
        "plan": None if plan["digest"] is None else plan,
    }


def domain_of(connection: Connection, campaign: int) -> Domain:
    """Return the domain of a campaign, which never changes."""
    found = connection.execute(select(_table.c.domain).where(_table.c.id == campaign)).scalar_one_or_none()
    if found is None:
        raise absent("campaign")
    return Domain.model_validate(json.loads(found))


def promise(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return the numbers of a planned campaign and its plan that releases must have."""
    asked = select(_table.c.l, _table.c.delta, _plans.c.digest, _plans.c.records, _plans.c.classes)
    row = connection.execute(asked.select_from(_table.join(_plans)).where(_table.c.id == campaign)).mappings().one()
    return dict(row)


def demand(connection: Connection, campaign: int) -> None:
    """Refuse if there is no such campaign."""
    demand_state(connection, campaign, *STATES)


def demand_state(connection: Connection, campaign: int, *states: State, held: bool = False) -> None:
    """Refuse unless a campaign is in one of these states; if *held*, it stays so until the transaction ends."""
    asked = select(_table.c.state).where(_table.c.id == campaign)
    found = connection.execute(asked.with_for_update(key_share=True) if held else asked).scalar_one_or_none()
    if found is None:
        raise absent("campaign")
    if found not in states:
        raise conflict(f"the campaign is {found}; this is for campaigns that are {' or '.join(states)}")


def touch(connection: Connection, campaign: int, state: State) -> None:
    """Note that what a plan rests on changes now, which only a campaign in this state allows.

    The statement locks the campaign: a plan that is made meanwhile sees another revision and is not stored.
    """
    changed = connection.execute(
        update(_table).where(_table.c.id == campaign, _table.c.state == state).values(revision=_table.c.revision + 1)
    )
    if not changed.rowcount:
        demand_state(connection, campaign, state)
        raise conflict("the campaign has just gone on")


def advance(connection: Connection, campaign: int, seen: State, state: State, *, revision: int | None = None) -> bool:
    """Move a campaign on if it still is as it was seen, which includes *revision* if given; say whether it did."""
    here = [_table.c.id == campaign, _table.c.state == seen]
    if revision is not None:
        here.append(_table.c.revision == revision)
    return bool(connection.execute(update(_table).where(*here).values(state=state)).rowcount)


def move(connection: Connection, campaign: int, state: Literal["collecting", "closed"]) -> None:
    """Move a campaign on, or refuse."""
    before: State = "draft" if state == "collecting" else "planned"
    if not advance(connection, campaign, before, state):
        demand_state(connection, campaign, before)
        raise conflict("the campaign has just gone on")

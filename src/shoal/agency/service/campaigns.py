"""Campaigns: opened, filled and moved on by the agency; owners add their counts.

Their states are draft < collecting < planned < closed, never back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import Connection, delete, func, insert, select, update

from shoal.agency.service import schema
from shoal.agency.service.database import COUNT_LOCK, Database, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.messages import (
    Campaign,
    CampaignEntry,
    ContributionEntry,
    Counts,
    CurrentPage,
    Domain,
    Id,
    NewCampaign,
    NewState,
    Page,
    State,
    Stored,
    Weights,
)
from shoal.agency.service.refusals import absent, conflict, invalid
from shoal.agency.service.tokens import ROLES, now
from shoal.agency.service.visits import Visit

if TYPE_CHECKING:
    from shoal.agency.service.pooling import CountedTable

routes = Routes("campaigns")
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


def read_campaign(connection: Connection, campaign: int) -> dict[str, Any]:
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


def read_domain(connection: Connection, campaign: int) -> Domain:
    """Return the domain of a campaign, which never changes."""
    found = connection.execute(select(_table.c.domain).where(_table.c.id == campaign)).scalar_one_or_none()
    if found is None:
        raise absent("campaign")
    return Domain.model_validate(json.loads(found))


def demand_state(connection: Connection, campaign: int, *states: State, held: bool = False) -> None:
    """Refuse unless there is such a campaign, in one of these states if some are named.

    If *held*, it stays so until the transaction ends.
    """
    asked = select(_table.c.state).where(_table.c.id == campaign)
    found = connection.execute(asked.with_for_update(key_share=True) if held else asked).scalar_one_or_none()
    if found is None:
        raise absent("campaign")
    if states and found not in states:
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


@routes.serve("POST /v1/campaigns", ("agency",), Campaign, status=201, body="manifest_bytes")
def create_campaign(visit: CurrentVisit, asked: NewCampaign) -> Any:
    """Open a campaign, in the state draft."""
    service = visit.service
    if len(asked.domain.quasi) > service.settings.attributes:
        raise invalid(f"a domain may have {service.settings.attributes} quasi columns")
    if any(len(values) > service.settings.values for values in asked.domain.values):
        raise invalid(f"a column may have {service.settings.values:,} values")
    with visit.writing() as connection:
        number = create(service.database, connection, asked, service.settings.campaigns)
        visit.subject = f"/v1/campaigns/{number}"
        return read_campaign(connection, number)


@routes.serve("GET /v1/campaigns", ROLES, Page[CampaignEntry])
def list_campaigns(visit: CurrentVisit, paging: CurrentPage) -> Any:
    """List campaigns, without their domains."""
    with visit.reading() as connection:
        return read_page(connection, _ENTRY, _table.c.id, paging, _entry)


@routes.serve("GET /v1/campaigns/{campaign}", ROLES, Campaign)
def show_campaign(visit: CurrentVisit, campaign: Id) -> Any:
    """Show a campaign with its domain."""
    with visit.reading() as connection:
        return read_campaign(connection, campaign)


@routes.serve("POST /v1/campaigns/{campaign}/state", ("agency",), Campaign, body="body_bytes")
def move_campaign(visit: CurrentVisit, campaign: Id, asked: NewState) -> Any:
    """Begin to collect counts, or close a planned campaign; no way leads back."""
    with visit.writing() as connection:
        move(connection, campaign, asked.state)
        return read_campaign(connection, campaign)


@routes.serve("PUT /v1/campaigns/{campaign}/distribution", ("agency",), Stored, body="table_bytes")
def set_distribution(visit: CurrentVisit, campaign: Id, asked: Weights) -> Any:
    """Give a draft the distribution to plan by, in place of an earlier one."""
    from shoal.agency.service.pooling import pool, read_rows

    settings = visit.service.settings
    domain = _domain_in_state(visit, campaign, "draft")
    table = read_rows(asked.columns, asked.rows, domain, probabilities=True, most=settings.rows)
    pool(domain, [table], "lexicographic", settings.points)  # raises if it is no distribution
    distribute(visit, campaign, table)
    return {"rows": table.table.num_rows, "records": table.records}


@routes.serve("PUT /v1/campaigns/{campaign}/counts", ("owner",), Stored, body="table_bytes")
def set_counts(visit: CurrentVisit, campaign: Id, asked: Counts) -> Any:
    """Contribute counts, in place of one's earlier ones."""
    from shoal.agency.service.pooling import read_rows

    domain = _domain_in_state(visit, campaign, "collecting")
    table = read_rows(asked.columns, asked.rows, domain, probabilities=False, most=visit.service.settings.rows)
    contribute(visit, campaign, table)
    return {"rows": table.table.num_rows, "records": table.records}


@routes.serve("GET /v1/campaigns/{campaign}/counts", ("agency",), Page[ContributionEntry])
def list_counts(visit: CurrentVisit, campaign: Id, paging: CurrentPage) -> Any:
    """List who contributed how many rows and records; not the counts."""
    table = schema.contributions
    asked = select(table.c.owner, table.c.rows, table.c.records, table.c.at).where(table.c.campaign_id == campaign)
    with visit.reading() as connection:
        demand_state(connection, campaign)
        return read_page(connection, asked, table.c.id, paging)


def distribute(visit: Visit, campaign: int, table: CountedTable) -> None:
    """Give a draft its distribution, in place of an earlier one."""
    values = {"campaign_id": campaign, "rows": table.table.num_rows, "data": table.serialize(), "at": now()}
    with visit.writing() as connection:
        touch(connection, campaign, "draft")
        connection.execute(delete(schema.distributions).where(schema.distributions.c.campaign_id == campaign))
        connection.execute(insert(schema.distributions).values(values))


def contribute(visit: Visit, campaign: int, table: CountedTable) -> None:
    """Keep an owner's counts, in place of its earlier ones."""
    values = {
        **visit.owner_columns(campaign),
        "rows": table.table.num_rows,
        "records": table.records,
        "data": table.serialize(),
    }
    with visit.writing() as connection:
        touch(connection, campaign, "collecting")
        connection.execute(visit.service.database.upsert(schema.contributions, values, key=["campaign_id", "owner"]))


def _domain_in_state(visit: Visit, campaign: int, state: State) -> Domain:
    """Return the domain of a campaign in a state; in another, a table is refused before it is looked at."""
    with visit.reading() as connection:
        demand_state(connection, campaign, state)
        return read_domain(connection, campaign)

"""Campaigns and requests. The agency opens, fills and moves campaigns; owners add their counts.

The states are draft < collecting < planned < closed, never back. Requests are step 2 of Algorithm 1: clients request
releases, and the agency approves or refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, Table, select, update

from shoal.agency.domain import Domain
from shoal.agency.service import messages, schema
from shoal.agency.service.database import insert_limited, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.refusals import Refusal, absent, conflict, invalid
from shoal.agency.service.tokens import ROLES, now
from shoal.agency.service.visits import Visit

if TYPE_CHECKING:
    import pyarrow as pa

routes, request_routes = Routes("campaigns"), Routes("requests")
_table, _plans, _requests = schema.campaigns, schema.plans, schema.requests
_REQUEST = select(
    *(
        column.label("campaign") if column.name == "campaign_id" else column
        for column in _requests.c
        if column.name != "token_id"
    ),
    *(_table.c[name].label(f"campaign_{name}") for name in ("model", "least", "delta")),
).select_from(_requests.outerjoin(_table, _requests.c.campaign_id == _table.c.id))
_ENTRY = select(
    *(
        column.label("order") if column.name == "point_order" else column
        for column in _table.c
        if column.name not in ("domain", "revision")
    ),
    *(_plans.c[name].label(f"plan_{name}") for name in messages.PlanSummary.model_fields),
).select_from(_table.outerjoin(_plans))


def read_terms(found: Row[Any]) -> messages.NewCampaign:
    named = {name: getattr(found, name) for name in ("name", "delta", "eta", "arrangement", "records")}
    promise, domain = read_promise(found.model, found.least), Domain.model_validate_json(found.domain)
    return messages.NewCampaign(**named, **promise, order=found.point_order, domain=domain)


def read_promise(model: str, least: float) -> dict[str, Any]:
    """Return a promise in the form of answers: the model, and l or k."""
    number = int(least) if least.is_integer() else least
    of_records = model == "k-delta-anonymity"
    return {"promise": model, "l": None if of_records else number, "k": number if of_records else None}


def read_campaign(connection: Connection, campaign: int) -> dict[str, Any]:
    asked = _ENTRY.add_columns(_table.c.domain).where(_table.c.id == campaign)
    row = connection.execute(asked).mappings().one_or_none()
    if row is None:
        raise absent("campaign")
    return {**_entry(row), "domain": json.loads(row["domain"])}


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a campaign, with its plan if it has one."""
    plan = {name: found[f"plan_{name}"] for name in messages.PlanSummary.model_fields}
    own = {name: value for name, value in found.items() if not name.startswith(("plan_", "model", "least"))}
    own |= read_promise(found["model"], found["least"])
    return {**own, "plan": None if plan["digest"] is None else plan}


def demand_state(connection: Connection, campaign: int, *states: messages.State, held: bool = False) -> None:
    """Refuse unless the campaign exists and, if states are named, is in one of them.

    If *held*, it is locked until the transaction ends.
    """
    asked = select(_table.c.state).where(_table.c.id == campaign)
    found = connection.execute(asked.with_for_update(key_share=True) if held else asked).scalar_one_or_none()
    if found is None:
        raise absent("campaign")
    if states and found not in states:
        raise conflict(f"the campaign is {found}; this is for campaigns that are {' or '.join(states)}")


def touch(connection: Connection, campaign: int, state: messages.State) -> None:
    """Record a change of the data that a plan is based on, which only a campaign in this state allows.

    The statement locks the campaign. A plan computed meanwhile has seen another revision and is not stored.
    """
    changed = connection.execute(
        update(_table).where(_table.c.id == campaign, _table.c.state == state).values(revision=_table.c.revision + 1)
    )
    if not changed.rowcount:
        demand_state(connection, campaign, state)
        raise conflict("the state of the campaign has just changed")


def advance(
    connection: Connection, campaign: int, seen: messages.State, state: messages.State, *, revision: int | None = None
) -> bool:
    """Move a campaign on if its state, and its revision if given, are unchanged; return whether it did."""
    here = [_table.c.id == campaign, _table.c.state == seen]
    if revision is not None:
        here.append(_table.c.revision == revision)
    return bool(connection.execute(update(_table).where(*here).values(state=state)).rowcount)


@routes.serve("POST /v1/campaigns", ("agency",), messages.Campaign, status=201, body="manifest_bytes")
def create_campaign(visit: CurrentVisit, asked: messages.NewCampaign) -> Any:
    """Open a campaign in the state draft."""
    limits = visit.service.settings
    if len(asked.domain.quasi) > limits.attributes:
        raise invalid(f"a domain may have at most {limits.attributes} quasi columns")
    if max(asked.domain.sizes) > limits.values:
        raise invalid(f"a column may have at most {limits.values:,} values")
    values = {
        **asked.model_dump(exclude={"domain", "order", "promise", "l", "k"}),
        "model": asked.promise,
        "least": asked.least,
        "domain": json.dumps(asked.domain.model_dump()),
        "point_order": asked.order,
        "state": "draft",
        "revision": 0,
        "created_at": now(),
    }
    with visit.writing() as connection:
        message = f"this service may have at most {limits.campaigns:,} campaigns"
        number = insert_limited(visit.service.database, connection, _table, values, limits.campaigns, message)
        visit.subject = f"/v1/campaigns/{number}"
        return read_campaign(connection, number)


@routes.serve("GET /v1/campaigns", ROLES, messages.Page[messages.CampaignEntry])
def list_campaigns(visit: CurrentVisit, paging: messages.CurrentPage) -> Any:
    """List campaigns without their domains."""
    with visit.service.database.reading() as connection:
        return read_page(connection, _ENTRY, _table.c.id, paging, _entry)


@routes.serve("GET /v1/campaigns/{campaign}", ROLES, messages.Campaign)
def show_campaign(visit: CurrentVisit, campaign: messages.Id) -> Any:
    """Show a campaign with its domain."""
    with visit.service.database.reading() as connection:
        return read_campaign(connection, campaign)


@routes.serve("POST /v1/campaigns/{campaign}/state", ("agency",), messages.Campaign, body="body_bytes")
def move_campaign(visit: CurrentVisit, campaign: messages.Id, asked: messages.NewState) -> Any:
    """Start to collect counts, or close a planned campaign."""
    before: messages.State = "draft" if asked.state == "collecting" else "planned"
    with visit.writing() as connection:
        if not advance(connection, campaign, before, asked.state):
            demand_state(connection, campaign, before)
            raise conflict("the state of the campaign has just changed")
        return read_campaign(connection, campaign)


@routes.serve("PUT /v1/campaigns/{campaign}/distribution", ("agency",), messages.Stored, body="table_bytes")
def set_distribution(visit: CurrentVisit, campaign: messages.Id, asked: messages.Weights) -> Any:
    """Give a draft the distribution to plan from, which replaces an earlier one."""
    from shoal.agency.tables import pool

    domain, table = _read_table(visit, campaign, "draft", asked)
    pool(domain, [table], "lexicographic", visit.service.settings.points)  # raises if the table is not a distribution
    values = {"campaign_id": campaign, "at": now()}
    return _keep_table(visit, "draft", schema.distributions, values, table)


@routes.serve("PUT /v1/campaigns/{campaign}/counts", ("owner",), messages.Stored, body="table_bytes")
def set_counts(visit: CurrentVisit, campaign: messages.Id, asked: messages.Counts) -> Any:
    """Contribute counts, which replace the owner's earlier ones."""
    _, table = _read_table(visit, campaign, "collecting", asked)
    return _keep_table(visit, "collecting", schema.contributions, visit.owner_columns(campaign), table)


@routes.serve("GET /v1/campaigns/{campaign}/counts", ("agency",), messages.Page[messages.ContributionEntry])
def list_counts(visit: CurrentVisit, campaign: messages.Id, paging: messages.CurrentPage) -> Any:
    """List the numbers of rows and records that each owner contributed, not the counts."""
    table = schema.contributions
    asked = select(table.c.owner, table.c.rows, table.c.records, table.c.at).where(table.c.campaign_id == campaign)
    with visit.service.database.reading() as connection:
        demand_state(connection, campaign)
        return read_page(connection, asked, table.c.id, paging)


def _read_table(
    visit: Visit, campaign: int, state: messages.State, asked: messages.Counts | messages.Weights
) -> tuple[Domain, pa.Table]:
    """Check a table against its campaign's domain; the state is checked first."""
    from shoal.agency.tables import read_rows

    with visit.service.database.reading() as connection:
        demand_state(connection, campaign, state)
        domain = Domain.model_validate(read_campaign(connection, campaign)["domain"])
    given, most = isinstance(asked, messages.Weights), visit.service.settings.rows
    return domain, read_rows(asked.columns, asked.rows, domain, probabilities=given, most=most)


def _keep_table(
    visit: Visit, state: messages.State, where: Table, values: dict[str, Any], table: pa.Table
) -> dict[str, Any]:
    """Store a table, which replaces an earlier one of the same campaign and owner."""
    from shoal.agency.tables import serialize, sum_records

    stored = {"rows": table.num_rows, "records": sum_records(table)}
    kept = {name: number for name, number in stored.items() if name in where.c}
    key = [name for name in ("campaign_id", "owner") if name in where.c]
    with visit.writing() as connection:
        touch(connection, values["campaign_id"], state)
        content = {**values, **kept, "data": serialize(table)}
        connection.execute(visit.service.database.upsert(where, content, key=key))
    return stored


def demand_approval(visit: Visit, connection: Connection, campaign: int) -> None:
    """Refuse a client that the agency has not approved for a campaign; other roles need no approval."""
    if visit.holder.role != "client":
        return
    approved = select(_requests.c.id).where(
        _requests.c.campaign_id == campaign, _requests.c.client == visit.holder.name, _requests.c.state == "approved"
    )
    if connection.execute(approved.limit(1)).first() is None:
        message = "the agency has not approved a request of yours for this campaign; send a request with a purpose"
        raise Refusal(403, "not_approved", message)


@request_routes.serve("POST /v1/requests", ("client",), messages.AccessRequest, status=201, body="body_bytes")
def create_request(visit: CurrentVisit, asked: messages.NewRequest) -> Any:
    """Request the releases of a campaign, or attributes that no campaign has yet."""
    limit = visit.service.settings.requests
    values = {
        **asked.model_dump(exclude={"campaign", "attributes"}),
        "campaign_id": asked.campaign,
        "attributes": json.dumps(asked.attributes),
        "client": visit.holder.name,
        "token_id": visit.holder.id,
        "state": "open",
        "reason": "",
        "at": now(),
    }
    with visit.writing() as connection:
        if asked.campaign is not None:
            demand_state(connection, asked.campaign)
        message, own = f"a client may have at most {limit:,} requests", _requests.c.client == visit.holder.name
        number = insert_limited(visit.service.database, connection, _requests, values, limit, message, own)
        visit.subject = f"/v1/requests/{number}"
        return _read_request(connection, number)


@request_routes.serve("GET /v1/requests", ROLES, messages.Page[messages.AccessRequest])
def list_requests(visit: CurrentVisit, paging: messages.CurrentPage) -> Any:
    """List requests with their decisions; clients see only their own."""
    asked = _REQUEST if visit.holder.role != "client" else _REQUEST.where(_requests.c.client == visit.holder.name)
    with visit.service.database.reading() as connection:
        return read_page(connection, asked, _requests.c.id, paging, _read_entry)


@request_routes.serve("POST /v1/requests/{request}/decision", ("agency",), messages.AccessRequest, body="body_bytes")
def decide_request(visit: CurrentVisit, request: messages.Id, asked: messages.Decision) -> Any:
    """Approve or refuse a request, also again; a request without a campaign gets the one named here."""
    with visit.writing() as connection:
        campaign = _read_request(connection, request)["campaign"] or asked.campaign
        if asked.campaign not in (None, campaign):
            raise invalid("the request is for another campaign; name that campaign or none")
        if campaign is not None:
            demand_state(connection, campaign)
        elif asked.state == "approved":
            raise invalid("the request names no campaign; name the one for which it is approved")
        values = {**asked.model_dump(exclude={"campaign"}), "campaign_id": campaign, "decided_at": now()}
        connection.execute(update(_requests).where(_requests.c.id == request).values(values))
        return _read_request(connection, request)


def _read_request(connection: Connection, request: int) -> dict[str, Any]:
    found = connection.execute(_REQUEST.where(_requests.c.id == request)).mappings().one_or_none()
    if found is None:
        raise absent("request")
    return _read_entry(found)


def _read_entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    own = {name: value for name, value in found.items() if not name.startswith("campaign_")}
    model, least, delta = (found[f"campaign_{name}"] for name in ("model", "least", "delta"))
    short, l = [], found["l"]
    if model and l is not None and (model != "l-delta-diversity" or l > least):
        short.append(f"l = {l:g} was requested; the campaign promises {model} with {least:g}")
    if model and found["delta"] is not None and found["delta"] < delta:
        short.append(f"delta = {found['delta']:g} was requested; the campaign promises {delta:g}")
    return {**own, "attributes": json.loads(found["attributes"]), "shortfall": short}

"""Requests of clients: step 2 of Algorithm 1, where clients tell the agency what they want; and its decisions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from shoal.agency.service import campaigns
from shoal.agency.service.database import COUNT_LOCK, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.messages import AccessRequest, CurrentPage, Decision, Id, NewRequest, Page
from shoal.agency.service.migrations.versions import v0002_campaigns as schema
from shoal.agency.service.refusals import Refusal, absent, conflict, invalid
from shoal.agency.service.tokens import ROLES, now
from shoal.agency.service.visits import Visit

routes = Routes("requests")
_table = schema.requests
_ENTRY = select(
    *(
        column.label("campaign") if column.name == "campaign_id" else column
        for column in _table.c
        if column.name != "token_id"
    )
)


def demand_approval(visit: Visit, connection: Connection, campaign: int) -> None:
    """Refuse a client whom the agency has not approved for a campaign; others need no approval."""
    if visit.holder.role != "client":
        return
    approved = select(_table.c.id).where(
        _table.c.campaign_id == campaign, _table.c.client == visit.holder.name, _table.c.state == "approved"
    )
    if connection.execute(approved.limit(1)).first() is None:
        message = "the agency has not approved a request of yours for this campaign; ask for it with a purpose"
        raise Refusal(403, "not_approved", message)


@routes.serve("POST /v1/requests", ("client",), AccessRequest, status=201, body="body_bytes")
def create_request(visit: CurrentVisit, asked: NewRequest) -> Any:
    """Ask for the releases of a campaign, or for attributes that no campaign has yet."""
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
            campaigns.demand_state(connection, asked.campaign)
        visit.service.database.lock(connection, COUNT_LOCK)
        own = select(func.count()).select_from(_table).where(_table.c.client == visit.holder.name)
        if connection.execute(own).scalar_one() >= limit:
            raise conflict(f"there are {limit:,} requests of this client already", "limit_reached")
        number = connection.execute(insert(_table).values(values).returning(_table.c.id)).scalar_one()
        visit.subject = f"/v1/requests/{number}"
        return _read_request(connection, number)


@routes.serve("GET /v1/requests", ROLES, Page[AccessRequest])
def list_requests(visit: CurrentVisit, paging: CurrentPage) -> Any:
    """List requests with their decisions; clients see their own."""
    asked = _ENTRY if visit.holder.role != "client" else _ENTRY.where(_table.c.client == visit.holder.name)
    with visit.reading() as connection:
        return read_page(connection, asked, _table.c.id, paging, _entry)


@routes.serve("POST /v1/requests/{request}/decision", ("agency",), AccessRequest, body="body_bytes")
def decide_request(visit: CurrentVisit, request: Id, asked: Decision) -> Any:
    """Approve or refuse a request, now or anew; one without a campaign is approved for the campaign named here."""
    with visit.writing() as connection:
        campaign = _read_request(connection, request)["campaign"] or asked.campaign
        if asked.campaign not in (None, campaign):
            raise invalid("the request is for another campaign; decide it for that one")
        if campaign is not None:
            campaigns.demand_state(connection, campaign)
        elif asked.state == "approved":
            raise invalid("the request names no campaign; say for which one it is approved")
        values = {**asked.model_dump(exclude={"campaign"}), "campaign_id": campaign, "decided_at": now()}
        connection.execute(update(_table).where(_table.c.id == request).values(values))
        return _read_request(connection, request)


def _read_request(connection: Connection, request: int) -> dict[str, Any]:
    found = connection.execute(_ENTRY.where(_table.c.id == request)).mappings().one_or_none()
    if found is None:
        raise absent("request")
    return _entry(found)


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {**found, "attributes": json.loads(found["attributes"])}

"""Plans: the agency makes one per campaign; owners fetch it and report their numbers of records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from anyio import to_thread
from fastapi import Response
from sqlalchemy import Connection, Row, insert, select

from shoal.agency.service import campaigns, messages, schema
from shoal.agency.service.database import read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.refusals import absent, conflict
from shoal.agency.service.tokens import now
from shoal.agency.service.visits import Visit

routes = Routes("plans")
_PLAN_ANSWERS: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The plan, in the format of shoal agency apply.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
}


@routes.serve("POST /v1/campaigns/{campaign}/plan", ("agency",), messages.PlanSummary, status=201, body="body_bytes")
async def make_plan(visit: CurrentVisit, campaign: messages.Id, asked: messages.PlanRequest) -> Any:
    """Make the plan, once, from all counts or from the distribution of a draft."""
    # A request that waits for a planner must not hold a thread of the pool.
    return await to_thread.run_sync(make, visit, campaign, asked, limiter=visit.service.planners)


@routes.serve("GET /v1/campaigns/{campaign}/plan", ("agency", "owner"), answers=_PLAN_ANSWERS)
def fetch_plan(visit: CurrentVisit, campaign: messages.Id) -> Response:
    """Return the plan."""
    return Response(read_stored(visit, campaign), media_type="application/json")


@routes.serve("PUT /v1/campaigns/{campaign}/records", ("owner",), messages.Report, body="body_bytes")
def report_records(visit: CurrentVisit, campaign: messages.Id, asked: messages.NewReport) -> Any:
    """Report the number of records of an owner, which replaces an earlier one, and return how many are missing."""
    values = {**visit.owner_columns(campaign), "records": asked.records}
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        connection.execute(visit.service.database.upsert(schema.reports, values, key=["campaign_id", "owner"]))
        return compare_records(asked.records, _read_needed(connection, campaign))


@routes.serve("GET /v1/campaigns/{campaign}/records", ("agency",), messages.Page[messages.ReportEntry])
def list_records(visit: CurrentVisit, campaign: messages.Id, paging: messages.CurrentPage) -> Any:
    """List the reported numbers of records."""
    table = schema.reports
    asked = select(table.c.owner, table.c.records, table.c.at).where(table.c.campaign_id == campaign)
    with visit.service.database.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        needed = _read_needed(connection, campaign)
        return read_page(
            connection, asked, table.c.id, paging, lambda row: {**row, **compare_records(row["records"], needed)}
        )


def _read_needed(connection: Connection, campaign: int) -> int:
    found = select(schema.plans.c.records).where(schema.plans.c.campaign_id == campaign)
    return int(connection.execute(found).scalar_one())


def compare_records(records: int, needed: int) -> dict[str, object]:
    """Compare an owner's number of records with the plan's.

    >>> compare_records(3, 5)
    {'records': 3, 'needed': 5, 'missing': 2, 'enough': False}
    """
    missing = max(0, needed - records)
    return {"records": records, "needed": needed, "missing": missing, "enough": not missing}


def make(visit: Visit, campaign: int, asked: messages.PlanRequest) -> messages.PlanSummary:
    """Plan from all acknowledged contributions, or from the distribution of a draft.

    The plan is computed without a lock and stored only if the state and the contributions are unchanged.
    """
    with visit.service.database.reading() as connection:
        seen, tables = _read_basis(connection, campaign)
    made, document = compute_plan(campaigns.read_terms(seen), tables, asked, visit.service.settings.points)
    with visit.writing() as connection:
        if not campaigns.advance(connection, seen.id, seen.state, "planned", revision=seen.revision):
            campaigns.demand_state(connection, seen.id, "draft", "collecting")
            raise conflict("owners contributed while the plan was made; make it again", "changed")
        values = {"campaign_id": seen.id, "at": now(), **made.model_dump(), "document": document}
        connection.execute(insert(schema.plans).values(values))
    return made


def compute_plan(
    terms: messages.NewCampaign, tables: Sequence[bytes], asked: messages.PlanRequest, most_points: int
) -> tuple[messages.PlanSummary, str]:
    """Add up tables exactly and plan, with the errors of ``shoal agency plan``.

    Returns the plan's numbers and its document as text.
    """
    from shoal.agency import planning
    from shoal.agency.tables import deserialize, pool
    from shoal.release.forms.agreed import Promise

    known = pool(terms.domain, list(map(deserialize, tables)), terms.order, most_points)
    plan = planning.make_plan(
        known,
        promise=Promise(terms.promise, terms.least),
        delta=Fraction(repr(terms.delta)),  # the decimal in the request
        p=None if asked.p is None else Fraction(repr(asked.p)),
        samples=asked.samples,
        eta=Fraction(repr(terms.eta)),
        arrangement=terms.arrangement,
        records=terms.records,
    )
    document = planning.plan_document(plan)
    numbers = {name: document[name] for name in messages.PlanSummary.model_fields}
    return messages.PlanSummary(**numbers), json.dumps(document, allow_nan=False, separators=(",", ":"))


def read_stored(visit: Visit, campaign: int) -> str:
    """Return the document of a campaign's plan as text."""
    table = schema.plans
    with visit.service.database.reading() as connection:
        stored = connection.execute(
            select(table.c.document).where(table.c.campaign_id == campaign)
        ).scalar_one_or_none()
        if stored is None:
            campaigns.demand_state(connection, campaign, "planned", "closed")
            raise absent("plan")
    return str(stored)


def _read_basis(connection: Connection, campaign: int) -> tuple[Row[Any], Sequence[bytes]]:
    """Return a campaign and the tables that its plan is based on.

    The campaign is read first: any later change of the tables also changes its state or its revision.
    """
    seen = connection.execute(select(schema.campaigns).where(schema.campaigns.c.id == campaign)).one_or_none()
    if seen is None:
        raise absent("campaign")
    if seen.state not in ("draft", "collecting"):
        raise conflict(f"the campaign is {seen.state}; it has its plan")
    table = schema.distributions if seen.state == "draft" else schema.contributions
    stored = connection.execute(select(table.c.data).where(table.c.campaign_id == campaign)).scalars().all()
    if not stored:
        missing = "distribution; send one" if seen.state == "draft" else "counts of any owner"
        raise conflict(f"the campaign has no {missing}", "nothing_to_plan_by")
    return seen, stored

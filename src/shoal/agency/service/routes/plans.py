"""Plans: made once by the agency, fetched by owners, who then tell how many records they have."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from anyio import to_thread
from fastapi import Header, Response

from shoal.agency.service import campaigns, reports
from shoal.agency.service.answers import PlanSummary, Report, ReportList
from shoal.agency.service.guard import CurrentVisit, access
from shoal.agency.service.messages import After, Id, Limit, NewReport, PlanRequest
from shoal.agency.service.routes.pages import errors, page, router
from shoal.agency.service.visits import Visit

routes = router("plans")
_PLAN_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The plan, as shoal agency apply reads it.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
    304: {"description": "The caller has it already."},
}


@routes.post(
    "/v1/campaigns/{campaign}/plan",
    operation_id="make_plan",
    status_code=201,
    response_model=PlanSummary,
    responses=errors(body=True),
    openapi_extra=access("agency", body="body_bytes"),
)
async def make_plan(visit: CurrentVisit, campaign: Id, asked: PlanRequest) -> Any:
    """Make the plan from all counts, or from the distribution of a draft; once and for all."""
    # Who waits for a planner holds no thread, so that all else is answered meanwhile.
    return await to_thread.run_sync(_made, visit, campaign, asked, limiter=visit.service.planners)


def _made(visit: Visit, campaign: int, asked: PlanRequest) -> dict[str, Any]:
    from shoal.agency.service.planning import make

    made = asdict(make(visit, campaign, asked))
    del made["document"]
    return made


@routes.get(
    "/v1/campaigns/{campaign}/plan",
    operation_id="fetch_plan",
    response_class=Response,
    responses={**errors(), **_PLAN_ANSWERS},
    openapi_extra=access("agency", "owner"),
)
def fetch_plan(
    visit: CurrentVisit, campaign: Id, if_none_match: Annotated[str | None, Header(max_length=2000)] = None
) -> Response:
    """Send the plan itself; its digest is its ETag."""
    from shoal.agency.service.planning import sent

    plan = sent(visit, campaign)
    tag = f'"{plan.digest}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    if known & {tag, "*"}:
        return Response(status_code=304, headers=headers)
    return Response(plan.content, media_type="application/json", headers=headers)


@routes.put(
    "/v1/campaigns/{campaign}/records",
    operation_id="report_records",
    response_model=Report,
    responses=errors(body=True),
    openapi_extra=access("owner", body="body_bytes"),
)
def report_records(visit: CurrentVisit, campaign: Id, asked: NewReport) -> Any:
    """Tell how many records one has, and learn how many are missing."""
    return reports.report(visit, campaign, asked.records)


@routes.get(
    "/v1/campaigns/{campaign}/records",
    operation_id="list_records",
    response_model=ReportList,
    responses=errors(),
    openapi_extra=access("agency"),
)
def list_records(visit: CurrentVisit, campaign: Id, after: After = 0, limit: Limit = 100) -> Any:
    """List how many records owners have."""
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        return page(reports.reported(connection, campaign, after, limit), limit, kept=False)

"""Releases: registered by owners, listed for everybody, with the guarantee that they have together."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from shoal.agency.service import campaigns, guarantees, releases
from shoal.agency.service.answers import CreatedRelease, Guarantee, Release, ReleaseList
from shoal.agency.service.guard import CurrentVisit, access
from shoal.agency.service.messages import After, Id, Limit, NewRelease, Plain
from shoal.agency.service.routes.pages import errors, page, router

routes = router("releases")
_AGAIN: dict[int | str, dict[str, Any]] = {200: {"model": CreatedRelease, "description": "It was registered before."}}


@routes.post(
    "/v1/campaigns/{campaign}/releases",
    operation_id="register_release",
    status_code=201,
    response_model=CreatedRelease,
    responses={**errors(body=True), **_AGAIN},
    openapi_extra=access("owner", body="manifest_bytes"),
)
def register_release(visit: CurrentVisit, campaign: Id, asked: NewRelease, response: Response) -> Any:
    """Register a release by the plan: its manifest and the SHA-256 of its files."""
    number = releases.register(visit, campaign, asked)
    response.status_code = visit.outcome
    return {"id": number}


@routes.get(
    "/v1/campaigns/{campaign}/releases",
    operation_id="list_releases",
    response_model=ReleaseList,
    responses=errors(),
    openapi_extra=access("agency", "owner", "client"),
)
def list_releases(visit: CurrentVisit, campaign: Id, after: After = 0, limit: Limit = 100) -> Any:
    """List registered releases, without their manifests."""
    with visit.reading() as connection:
        campaigns.demand(connection, campaign)
        return page(releases.listed(connection, campaign, after, limit), limit)


@routes.get(
    "/v1/campaigns/{campaign}/releases/{release}",
    operation_id="show_release",
    response_model=Release,
    responses=errors(),
    openapi_extra=access("agency", "owner", "client"),
)
def show_release(visit: CurrentVisit, campaign: Id, release: Id) -> Any:
    """Show a registered release with its manifest."""
    with visit.reading() as connection:
        return releases.one(connection, campaign, release)


@routes.get(
    "/v1/campaigns/{campaign}/guarantee",
    operation_id="show_guarantee",
    response_model=Guarantee,
    responses=errors(),
    openapi_extra=access("agency", "owner", "client"),
)
def show_guarantee(
    visit: CurrentVisit,
    campaign: Id,
    releases_: Annotated[
        int | None,
        Plain,
        Query(alias="releases", ge=1, le=1_000_000_000, description="How many together; else all registered."),
    ] = None,
) -> Any:
    """Say what so many releases by the plan leave together, whichever of them are linked."""
    with visit.reading() as connection:
        return guarantees.guarantee(connection, campaign, releases_)

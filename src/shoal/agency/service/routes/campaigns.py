"""Campaigns: opened, filled and moved on by the agency; owners add their counts."""

from __future__ import annotations

from typing import Any

from shoal.agency.service import campaigns, contributions
from shoal.agency.service.answers import Campaign, CampaignList, ContributionList, Stored
from shoal.agency.service.guard import CurrentVisit, access
from shoal.agency.service.messages import After, Counts, Id, Limit, NewCampaign, NewState, Weights
from shoal.agency.service.refusals import invalid
from shoal.agency.service.routes.pages import errors, page, router

routes = router("campaigns")


@routes.post(
    "/v1/campaigns",
    operation_id="create_campaign",
    status_code=201,
    response_model=Campaign,
    responses=errors(body=True),
    openapi_extra=access("agency", body="manifest_bytes"),
)
def create_campaign(visit: CurrentVisit, asked: NewCampaign) -> Any:
    """Open a campaign, in the state draft."""
    service = visit.service
    if len(asked.domain.quasi) > service.settings.attributes:
        raise invalid(f"a domain may have {service.settings.attributes} quasi columns")
    if any(len(values) > service.settings.values for values in asked.domain.values):
        raise invalid(f"a column may have {service.settings.values:,} values")
    with visit.writing() as connection:
        number = campaigns.create(service.database, connection, asked, service.settings.campaigns)
        visit.subject = f"/v1/campaigns/{number}"
        return campaigns.one(connection, number)


@routes.get(
    "/v1/campaigns",
    operation_id="list_campaigns",
    response_model=CampaignList,
    responses=errors(),
    openapi_extra=access("agency", "owner", "client"),
)
def list_campaigns(visit: CurrentVisit, after: After = 0, limit: Limit = 100) -> Any:
    """List campaigns, without their domains."""
    with visit.reading() as connection:
        return page(campaigns.entries(connection, after, limit), limit)


@routes.get(
    "/v1/campaigns/{campaign}",
    operation_id="show_campaign",
    response_model=Campaign,
    responses=errors(),
    openapi_extra=access("agency", "owner", "client"),
)
def show_campaign(visit: CurrentVisit, campaign: Id) -> Any:
    """Show a campaign with its domain."""
    with visit.reading() as connection:
        return campaigns.one(connection, campaign)


@routes.post(
    "/v1/campaigns/{campaign}/state",
    operation_id="move_campaign",
    response_model=Campaign,
    responses=errors(body=True),
    openapi_extra=access("agency", body="body_bytes"),
)
def move_campaign(visit: CurrentVisit, campaign: Id, asked: NewState) -> Any:
    """Begin to collect counts, or close a planned campaign; no way leads back."""
    with visit.writing() as connection:
        campaigns.move(connection, campaign, asked.state)
        return campaigns.one(connection, campaign)


@routes.put(
    "/v1/campaigns/{campaign}/distribution",
    operation_id="set_distribution",
    response_model=Stored,
    responses=errors(body=True),
    openapi_extra=access("agency", body="table_bytes"),
)
def set_distribution(visit: CurrentVisit, campaign: Id, asked: Weights) -> Any:
    """Give a draft the distribution to plan by, in place of an earlier one."""
    from shoal.agency.service.counted import read_rows
    from shoal.agency.service.pooling import pooled

    settings = visit.service.settings
    domain = contributions.domain_in_state(visit, campaign, "draft")
    table = read_rows(asked.columns, asked.rows, domain, probabilities=True, most=settings.rows)
    pooled(domain, [table], "lexicographic", settings.points)  # raises if it is no distribution
    contributions.distribute(visit, campaign, table)
    return {"rows": table.table.num_rows, "records": table.records}


@routes.put(
    "/v1/campaigns/{campaign}/counts",
    operation_id="set_counts",
    response_model=Stored,
    responses=errors(body=True),
    openapi_extra=access("owner", body="table_bytes"),
)
def set_counts(visit: CurrentVisit, campaign: Id, asked: Counts) -> Any:
    """Contribute counts, in place of one's earlier ones."""
    from shoal.agency.service.counted import read_rows

    domain = contributions.domain_in_state(visit, campaign, "collecting")
    table = read_rows(asked.columns, asked.rows, domain, probabilities=False, most=visit.service.settings.rows)
    contributions.contribute(visit, campaign, table)
    return {"rows": table.table.num_rows, "records": table.records}


@routes.get(
    "/v1/campaigns/{campaign}/counts",
    operation_id="list_counts",
    response_model=ContributionList,
    responses=errors(),
    openapi_extra=access("agency"),
)
def list_counts(visit: CurrentVisit, campaign: Id, after: After = 0, limit: Limit = 100) -> Any:
    """List who contributed how many rows and records; not the counts."""
    with visit.reading() as connection:
        campaigns.demand(connection, campaign)
        return page(contributions.contributors(connection, campaign, after, limit), limit, kept=False)

"""Releases that owners register: a manifest and digests, checked against the plan; and what they leave together.

Decision 18 says why in numbers and words.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Annotated, Any

from fastapi import Query, Response
from pydantic import ValidationError
from sqlalchemy import Connection, func, select

from shoal.agency.service import campaigns
from shoal.agency.service.database import COUNT_LOCK, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.messages import (
    CreatedRelease,
    CurrentPage,
    Guarantee,
    Id,
    NewRelease,
    Page,
    Plain,
    Release,
    ReleaseEntry,
    ReleaseManifest,
)
from shoal.agency.service.migrations.versions import v0002_checks as schema
from shoal.agency.service.refusals import absent, conflict, invalid, of_validation
from shoal.agency.service.tokens import ROLES

routes = Routes("releases")
_table = schema.releases
_ENTRY = select(_table.c.id, _table.c.owner, _table.c.rows, _table.c.files, _table.c.at)
_AGAIN: dict[int | str, dict[str, Any]] = {200: {"model": CreatedRelease, "description": "It was registered before."}}
_HowMany = Annotated[
    int | None,
    Plain,
    Query(alias="releases", ge=1, le=1_000_000_000, description="How many together; else all registered."),
]


@routes.serve(
    "POST /v1/campaigns/{campaign}/releases",
    ("owner",),
    CreatedRelease,
    status=201,
    body="manifest_bytes",
    answers=_AGAIN,
)
def register_release(visit: CurrentVisit, campaign: Id, asked: NewRelease, response: Response) -> Any:
    """Register a release by the plan: its manifest and the SHA-256 of its files; sent again, it is the same release."""
    database, limit = visit.service.database, visit.service.settings.releases
    files = _write_json(dict(sorted(asked.files.items())))
    digest = hashlib.sha256(files.encode("ascii")).hexdigest()
    values: dict[str, Any] = {"files_digest": digest, "files": files, "manifest": _write_json(asked.manifest)}
    same = _table.c.campaign_id == campaign, _table.c.owner == visit.holder.name
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        values["rows"] = _check_manifest(asked.manifest, asked.files, _read_promise(connection, campaign))
        database.lock(connection, COUNT_LOCK)
        here = select(_table.c.id).where(*same, _table.c.files_digest == digest)
        number = connection.execute(here).scalar_one_or_none()
        if number is not None:
            visit.outcome = response.status_code = 200
        else:
            if connection.execute(select(func.count()).select_from(_table).where(*same)).scalar_one() >= limit:
                raise conflict(f"there are {limit:,} releases of this owner already", "limit_reached")
            made = _table.insert().values({**visit.owner_columns(campaign), **values}).returning(_table.c.id)
            number = connection.execute(made).scalar_one()
        visit.subject = f"/v1/campaigns/{campaign}/releases/{number}"
    return {"id": number}


@routes.serve("GET /v1/campaigns/{campaign}/releases", ROLES, Page[ReleaseEntry])
def list_releases(visit: CurrentVisit, campaign: Id, paging: CurrentPage) -> Any:
    """List registered releases, without their manifests."""
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign)
        return read_page(connection, _ENTRY.where(_table.c.campaign_id == campaign), _table.c.id, paging, _entry)


@routes.serve("GET /v1/campaigns/{campaign}/releases/{release}", ROLES, Release)
def show_release(visit: CurrentVisit, campaign: Id, release: Id) -> Any:
    """Show a registered release with its manifest."""
    here = _table.c.campaign_id == campaign, _table.c.id == release
    with visit.reading() as connection:
        found = connection.execute(_ENTRY.add_columns(_table.c.manifest).where(*here)).mappings().one_or_none()
    if found is None:
        raise absent("release")
    return {**_entry(found), "manifest": json.loads(found["manifest"])}


@routes.serve("GET /v1/campaigns/{campaign}/guarantee", ROLES, Guarantee)
def show_guarantee(visit: CurrentVisit, campaign: Id, releases_: _HowMany = None) -> Any:
    """Say what so many releases by the plan leave together, whichever of them are linked."""
    # Each release that was verified shows the same l values in each class, and so do all of them together, for certain.
    # Of releases to come each fails with probability delta, so any of t with t delta at most.
    from shoal.agency.samples import compose_delta

    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        promise = _read_promise(connection, campaign)
        of_campaign = select(func.count()).select_from(_table).where(_table.c.campaign_id == campaign)
        registered = connection.execute(of_campaign).scalar_one()
    number = max(registered, 1) if releases_ is None else releases_
    delta = compose_delta(Fraction(repr(promise["delta"])), number)
    there = number <= registered
    return Guarantee(
        releases=number,
        registered=registered,
        l=promise["l"],
        delta=float(delta),
        verified_l=promise["l"] if there else None,
        statement=_describe_registered(number, registered, promise["l"])
        if there
        else _describe_planned(number, promise["l"], delta),
    )


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {**found, "files": json.loads(found["files"])}


def _read_promise(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return the numbers of a planned campaign and its plan that releases must have."""
    planned, plans = schema.campaigns, schema.plans
    asked = select(planned.c.l, planned.c.delta, plans.c.digest, plans.c.records, plans.c.classes)
    return dict(
        connection.execute(asked.select_from(planned.join(plans)).where(planned.c.id == campaign)).mappings().one()
    )


def _check_manifest(manifest: Mapping[str, Any], files: Mapping[str, str], promise: Mapping[str, Any]) -> int:
    """Return the number of rows of a release, or refuse it if it does not say that it keeps the plan."""
    try:
        said = ReleaseManifest.model_validate(manifest)
    except ValidationError as error:
        raise of_validation([{**each, "loc": ("manifest", *each["loc"])} for each in error.errors()]) from None
    (guarantee,) = said.guarantees
    wrong = {
        "manifest.agreed.digest is not that of the campaign's plan; fetch the plan and apply it anew": (
            said.agreed.digest != promise["digest"]
        ),
        "manifest.agreed.classes is not the plan's number of classes": said.agreed.classes != promise["classes"],
        "files must have the files that manifest.agreed and manifest.data name, with the same SHA-256": any(
            files.get(part.file) != part.sha256 for part in (said.agreed, said.data)
        ),
        "manifest.guarantees must have the plan's l and delta": (
            (guarantee.parameters.l, guarantee.parameters.delta) != (promise["l"], promise["delta"])
        ),
        "manifest.guarantees must say that at least l values were achieved": guarantee.achieved < promise["l"],
        f"manifest.rows is below the {promise['records']:,} records that the plan demands": (
            said.rows < promise["records"]
        ),
    }
    for message, is_so in wrong.items():
        if is_so:
            raise invalid(message)
    return said.rows


def _write_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def _describe_registered(number: int, registered: int, l: int) -> str:
    several = "release" if number == 1 else f"{number:,} releases"
    return (
        f"Whichever {several} of the {registered:,} registered somebody links, at least {l} sensitive values remain "
        "for everybody, for certain: every class of each shows the values that the plan names for it. The owners "
        "verified this when they published; the service has their manifests and not their data."
    )


def _describe_planned(number: int, l: int, delta: Fraction) -> str:
    several = "one release" if number == 1 else f"{number:,} releases"
    always = (
        "A release that is verified before it is published, as shoal agency apply does, keeps its part for certain."
    )
    if delta == 1:
        return f"Of {several} by this plan nothing is promised beforehand: their deltas sum to 1 or more. {always}"
    return (
        f"If there are {several} by this plan, whichever of them somebody links, at least {l} sensitive values remain "
        f"for everybody, except with probability {float(delta)} at most. This rests on records that are independent "
        f"draws from the distribution that was planned with. {always}"
    )

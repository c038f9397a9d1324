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
from sqlalchemy import Connection, func, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.database import COUNT_LOCK, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.messages import (
    LARGEST,
    CreatedRelease,
    CurrentPage,
    Guarantee,
    Id,
    NewRelease,
    Page,
    Plain,
    Release,
    ReleaseEntry,
)
from shoal.agency.service.refusals import absent, conflict, invalid
from shoal.agency.service.tokens import ROLES
from shoal.agency.service.visits import Visit

routes = Routes("releases")
MODEL = "l-delta-diversity"
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
    """Register a release by the plan: its manifest and the SHA-256 of its files."""
    number = register(visit, campaign, asked)
    response.status_code = visit.outcome
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
    with visit.reading() as connection:
        return describe_guarantee(connection, campaign, releases_)


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {**found, "files": json.loads(found["files"])}


def _read_promise(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return the numbers of a planned campaign and its plan that releases must have."""
    planned, plans = schema.campaigns, schema.plans
    asked = select(planned.c.l, planned.c.delta, plans.c.digest, plans.c.records, plans.c.classes)
    return dict(
        connection.execute(asked.select_from(planned.join(plans)).where(planned.c.id == campaign)).mappings().one()
    )


def register(visit: Visit, campaign: int, asked: NewRelease) -> int:
    """Keep a release and return its number; the same files of the same owner are one release, however often sent."""
    database, owner = visit.service.database, visit.holder.name
    manifest, files = _write_json(asked.manifest), _write_json(dict(sorted(asked.files.items())))
    values = {
        **visit.owner_columns(campaign),
        "files_digest": hashlib.sha256(files.encode("ascii")).hexdigest(),
        "files": files,
        "manifest": manifest,
    }
    same = _table.c.campaign_id == campaign, _table.c.owner == owner
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        values["rows"] = _check_manifest(asked.manifest, asked.files, _read_promise(connection, campaign))
        database.lock(connection, COUNT_LOCK)
        here = select(_table.c.id).where(*same, _table.c.files_digest == values["files_digest"])
        number = connection.execute(here).scalar_one_or_none()
        if number is not None:
            visit.outcome = 200
        else:
            limit = visit.service.settings.releases
            if connection.execute(select(func.count()).select_from(_table).where(*same)).scalar_one() >= limit:
                raise conflict(f"there are {limit:,} releases of this owner already", "limit_reached")
            number = connection.execute(_table.insert().values(values).returning(_table.c.id)).scalar_one()
        visit.subject = f"/v1/campaigns/{campaign}/releases/{number}"
    return int(number)


def _check_manifest(manifest: Mapping[str, Any], files: Mapping[str, str], promise: Mapping[str, Any]) -> int:
    """Return the number of rows of a release, or refuse it if it does not say that it keeps the plan."""
    if manifest.get("method") != "agreed":
        raise invalid("manifest.method must be 'agreed': only releases by a plan are registered")
    agreed, data = _part(manifest, "agreed"), _part(manifest, "data")
    if agreed.get("digest") != promise["digest"]:
        raise invalid("manifest.agreed.digest is not that of the campaign's plan; fetch the plan and apply it anew")
    if not _same(agreed.get("classes"), promise["classes"]):
        raise invalid("manifest.agreed.classes is not the plan's number of classes")
    for name, entry in (("agreed", agreed), ("data", data)):
        file = entry.get("file")
        if not isinstance(file, str) or file not in files or entry.get("sha256") != files[file]:
            raise invalid(f"files must have the file that manifest.{name} names, with the same SHA-256")
    if agreed["file"] != "plan.json" or data["file"] not in ("data.csv", "data.parquet"):
        raise invalid("manifest.agreed.file must be plan.json, and manifest.data.file data.csv or data.parquet")
    _check_guarantee(manifest.get("guarantees"), promise)
    rows = manifest.get("rows")
    if type(rows) is not int or rows > LARGEST:
        raise invalid("manifest.rows must be a whole number")
    if rows < promise["records"]:
        raise invalid(f"manifest.rows is below the {promise['records']:,} records that the plan demands")
    return rows


def _check_guarantee(guarantees: Any, promise: Mapping[str, Any]) -> None:
    entry = guarantees[0] if isinstance(guarantees, list) and len(guarantees) == 1 else None
    parameters = entry.get("parameters") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or entry.get("model") != MODEL or not isinstance(parameters, dict):
        raise invalid(f"manifest.guarantees must be one entry, of the model {MODEL}")
    right = set(parameters) == {"l", "delta"} and _same(parameters["l"], promise["l"])
    if not right or type(parameters["delta"]) is not float or parameters["delta"] != promise["delta"]:
        raise invalid("manifest.guarantees must have the plan's l and delta")
    achieved = entry.get("achieved")
    if type(achieved) not in (int, float) or not promise["l"] <= float(achieved or 0) <= LARGEST:
        raise invalid("manifest.guarantees must say that at least l values were achieved")


def _part(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    if not isinstance(found, dict):
        raise invalid(f"manifest.{name} must be an object")
    return found


def _same(value: Any, number: int) -> bool:
    return type(value) is int and value == number


def _write_json(document: Mapping[str, Any]) -> str:
    """Write JSON for storage; numbers that a reader could not take back are refused."""
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif type(value) is int and not -(2**63) <= value < 2**63:
            raise invalid("manifest has a whole number beyond 64 bits")
        elif type(value) is float and value in (float("inf"), float("-inf")):
            raise invalid("manifest has a number beyond all bounds")
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


def describe_guarantee(connection: Connection, campaign: int, releases: int | None) -> Guarantee:
    """Say what holds if there are so many releases by the plan; without a number, for all that are registered.

    Each release that was verified shows the same l values in each class, and so do all of them together, for certain.
    Of releases to come each fails with probability delta, so any of t with t delta at most.
    """
    from shoal.agency.samples import compose_delta

    campaigns.demand_state(connection, campaign, "planned", "closed")
    promise = _read_promise(connection, campaign)
    of_campaign = schema.releases.c.campaign_id == campaign
    registered = connection.execute(select(func.count()).select_from(schema.releases).where(of_campaign)).scalar_one()
    number = max(registered, 1) if releases is None else releases
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

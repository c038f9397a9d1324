"""Releases that owners register: a manifest and counts, checked against the plan; and what they leave together.

Whatever is said of a release was checked from its counts or is declared by its owner; decision 16 says why.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Query
from pydantic import ValidationError
from sqlalchemy import Connection, func, select

from shoal.agency.service import campaigns, messages, schema
from shoal.agency.service.campaigns import demand_approval
from shoal.agency.service.database import COUNT_LOCK, read_page
from shoal.agency.service.guard import CurrentVisit, Routes
from shoal.agency.service.plans import read_stored
from shoal.agency.service.refusals import absent, conflict, invalid, of_validation
from shoal.agency.service.tokens import ROLES
from shoal.agency.service.visits import Visit
from shoal.core.wording import count_noun

if TYPE_CHECKING:
    from shoal.agency.tables import ClassCounts
    from shoal.release.forms.agreed import AgreedPlan

routes = Routes("releases")
_table = schema.releases
_ENTRY = select(
    *(_table.c[name] for name in ("id", "owner", "rows", "files", "achieved", "at")),
    _table.c.counts.isnot(None).label("basis"),
)
_ROUNDING = 1e-9  # of an entropy's exponential, as manifests have it
_HowMany = Annotated[
    int | None,
    messages.Plain,
    Query(alias="releases", ge=1, le=1_000_000_000, description="How many together; else all registered."),
]


@routes.serve(
    "POST /v1/campaigns/{campaign}/releases",
    ("owner",),
    messages.CreatedRelease,
    status=201,
    body="table_bytes",
)
def register_release(visit: CurrentVisit, campaign: messages.Id, asked: messages.NewRelease) -> Any:
    """Register a release by the plan: its manifest, the SHA-256 of its files, and its counts; again, it is the same."""
    database, limit = visit.service.database, visit.service.settings.releases
    files = _write_json(dict(sorted(asked.files.items())))
    digest = hashlib.sha256(files.encode("ascii")).hexdigest()
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned")
        promise = _read_promise(connection, campaign)
    said = _check_manifest(asked.manifest, asked.files, promise)
    counts, achieved = _check_counts(visit, campaign, asked, said)
    values: dict[str, Any] = {"files_digest": digest, "files": files, "manifest": _write_json(asked.manifest)}
    values |= {"rows": said.rows, "achieved": achieved, "counts": None if counts is None else counts.content()}
    same = _table.c.campaign_id == campaign, _table.c.owner == visit.holder.name
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        database.lock(connection, COUNT_LOCK)
        here = select(_table.c.id, _table.c.counts.is_(None)).where(*same, _table.c.files_digest == digest)
        found = connection.execute(here).one_or_none()
        if found is not None:
            number, declared = found
        else:
            _refuse_others(connection, campaign, visit.holder.name, said.data.sha256)
            if connection.execute(select(func.count()).select_from(_table).where(*same)).scalar_one() >= limit:
                raise conflict(f"there are {limit:,} releases of this owner already", "limit_reached")
            made = _table.insert().values({**visit.owner_columns(campaign), **values}).returning(_table.c.id)
            number, declared = connection.execute(made).scalar_one(), counts is None
            if counts is not None:
                _link(visit, connection, campaign, counts, promise["classes"])
        visit.subject = f"/v1/campaigns/{campaign}/releases/{number}"
    return {"id": number, "basis": messages.DECLARED if declared else messages.CHECKED}


def _refuse_others(connection: Connection, campaign: int, owner: str, data: str) -> None:
    """Refuse a data file that another owner registered in this campaign, whatever the other files are."""
    theirs = _table.c.campaign_id == campaign, _table.c.owner != owner, _table.c.files.contains(data)
    if connection.execute(select(_table.c.id).where(*theirs).limit(1)).first() is not None:
        raise conflict("another owner registered this data file; register a release of your own records", "not_yours")


def _check_counts(
    visit: Visit, campaign: int, asked: messages.NewRelease, said: messages.ReleaseManifest
) -> tuple[ClassCounts | None, float | None]:
    """Return the counts of a release and what they reach, if it has some and these keep the plan's promise."""
    if asked.counts is None:
        return None, None
    from shoal.agency.tables import ClassCounts, check_counts

    plan = _parse_plan(read_stored(visit, campaign))
    counts = ClassCounts.of_rows(asked.counts.columns, asked.counts.rows, plan, visit.service.settings.rows)
    return counts, check_counts(counts, plan, said.rows, said.guarantees[0].achieved)


@lru_cache(maxsize=4)
def _parse_plan(document: str) -> AgreedPlan:
    """Return the plan of a campaign as owners read it."""
    from shoal.release.forms.agreed import parse_plan

    return parse_plan(document.encode("ascii"), "the plan")


def _link(visit: Visit, connection: Connection, campaign: int, counts: ClassCounts, n_classes: int) -> None:
    """Link a release with all that have counts already; the campaign is held, so that nobody else does."""
    from shoal.agency.tables import ClassCounts

    table = schema.linkages
    found = connection.execute(select(table).where(table.c.campaign_id == campaign)).one_or_none()
    linked = counts if found is None else counts.link(ClassCounts.of_bytes(found.data))
    values = {"releases": 1 if found is None else found.releases + 1, "l": linked.fewest_values(n_classes)}
    content = {"campaign_id": campaign, **values, "data": linked.content()}
    connection.execute(visit.service.database.upsert(table, content, key=["campaign_id"]))


@routes.serve("GET /v1/campaigns/{campaign}/releases", ROLES, messages.Page[messages.ReleaseEntry])
def list_releases(visit: CurrentVisit, campaign: messages.Id, paging: messages.CurrentPage) -> Any:
    """List registered releases, without their manifests."""
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign)
        demand_approval(visit, connection, campaign)
        return read_page(connection, _ENTRY.where(_table.c.campaign_id == campaign), _table.c.id, paging, _entry)


@routes.serve("GET /v1/campaigns/{campaign}/releases/{release}", ROLES, messages.Release)
def show_release(visit: CurrentVisit, campaign: messages.Id, release: messages.Id) -> Any:
    """Show a registered release with its manifest."""
    here = _table.c.campaign_id == campaign, _table.c.id == release
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign)
        demand_approval(visit, connection, campaign)
        found = connection.execute(_ENTRY.add_columns(_table.c.manifest).where(*here)).mappings().one_or_none()
    if found is None:
        raise absent("release")
    return {**_entry(found), "manifest": json.loads(found["manifest"])}


@routes.serve("GET /v1/campaigns/{campaign}/guarantee", ROLES, messages.Guarantee)
def show_guarantee(visit: CurrentVisit, campaign: messages.Id, releases_: _HowMany = None) -> Any:
    """Say what is known of so many releases by the plan together, whichever are linked, and what that rests on."""
    # Of releases to come each fails with probability delta, so any of t with t delta at most.
    from shoal.agency.samples import compose_delta

    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        demand_approval(visit, connection, campaign)
        promise = _read_promise(connection, campaign)
        registered, checked, checked_l = _count_registered(connection, campaign)
    number = max(registered, 1) if releases_ is None else releases_
    delta = compose_delta(Fraction(repr(promise["delta"])), number)
    basis, statement = None, _describe_planned(number, promise, delta)
    if number <= registered:
        basis = messages.CHECKED if checked == registered else messages.DECLARED
        statement = _describe_registered(registered, checked, checked_l)
    return messages.Guarantee(
        releases=number,
        registered=registered,
        checked=checked,
        **campaigns.read_promise(promise["model"], promise["least"]),
        delta=float(delta),
        checked_l=checked_l,
        basis=basis,
        statement=statement,
    )


@routes.serve("POST /v1/campaigns/{campaign}/linkage", ROLES, messages.Linkage, body="body_bytes")
def link_target(visit: CurrentVisit, campaign: messages.Id, asked: messages.Target) -> Any:
    """Say what all releases with counts leave together of somebody whose quasi values are known."""
    from shoal.agency.tables import ClassCounts, find_class

    table = schema.linkages
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        demand_approval(visit, connection, campaign)
        registered, checked, _ = _count_registered(connection, campaign)
        content = connection.execute(select(table.c.data).where(table.c.campaign_id == campaign)).scalar_one_or_none()
    if content is None:
        raise conflict("no release has counts yet, so that nothing can be linked", "nothing_to_link")
    plan = _parse_plan(read_stored(visit, campaign))
    number = find_class(plan, asked.target)
    remaining = ClassCounts.of_bytes(content).list_values(number, plan.sensitive_values)
    return messages.Linkage(
        number=number + 1,
        checked=checked,
        declared=registered - checked,
        l=len(remaining),
        remaining=remaining,
        statement=_describe_linked(len(remaining), checked, registered - checked),
    )


def _count_registered(connection: Connection, campaign: int) -> tuple[int, int, int | None]:
    """Return how many releases there are, how many of these have counts, and how many values those leave together."""
    of_campaign = select(func.count()).select_from(_table).where(_table.c.campaign_id == campaign)
    table = schema.linkages
    linked = select(table.c.releases, table.c.l).where(table.c.campaign_id == campaign)
    found = connection.execute(linked).one_or_none()
    return connection.execute(of_campaign).scalar_one(), found.releases if found else 0, found.l if found else None


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    basis = messages.CHECKED if found["basis"] else messages.DECLARED
    return {**found, "files": json.loads(found["files"]), "basis": basis}


def _read_promise(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return the numbers of a planned campaign and its plan that releases must have."""
    planned, plans = schema.campaigns, schema.plans
    of_plan = plans.c.digest, plans.c.records, plans.c.classes
    asked = select(planned.c.model, planned.c.least, planned.c.delta, planned.c.records.label("kind"), *of_plan)
    return dict(
        connection.execute(asked.select_from(planned.join(plans)).where(planned.c.id == campaign)).mappings().one()
    )


def _check_manifest(
    manifest: Mapping[str, Any], files: Mapping[str, str], promise: Mapping[str, Any]
) -> messages.ReleaseManifest:
    """Return what a release says of itself, or refuse it if it does not say that it keeps the plan."""
    try:
        said = messages.ReleaseManifest.model_validate(manifest)
    except ValidationError as error:
        raise of_validation([{**each, "loc": ("manifest", *each["loc"])} for each in error.errors()]) from None
    (guarantee,), least = said.guarantees, promise["least"]
    parameter = "k" if promise["model"] == "k-delta-anonymity" else "l"
    asked = promise["model"], {parameter: least, "delta": promise["delta"]}
    wrong = {
        "manifest.agreed.digest is not that of the campaign's plan; fetch the plan and apply it anew": (
            said.agreed.digest != promise["digest"]
        ),
        "manifest.agreed.classes is not the plan's number of classes": said.agreed.classes != promise["classes"],
        "files must have the files that manifest.agreed and manifest.data name, with the same SHA-256": any(
            files.get(part.file) != part.sha256 for part in (said.agreed, said.data)
        ),
        f"manifest.guarantees must have the plan's promise, {parameter} and delta": (
            (guarantee.model, guarantee.parameters) != asked
        ),
        f"manifest.guarantees must say that at least {parameter} was achieved": (
            guarantee.achieved < least * (1 - _ROUNDING)
        ),
        f"manifest.rows is below the {promise['records']:,} records that the plan demands": (
            said.rows < promise["records"]
        ),
    }
    for message, is_so in wrong.items():
        if is_so:
            raise invalid(message)
    return said


def _write_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, allow_nan=False, separators=(",", ":"))


_OWNERS_WORD = (
    "That the published files have these counts is declared by their owners; whoever has a file can check it with "
    "shoal verify."
)


def _describe_registered(registered: int, checked: int, l: int | None) -> str:
    """Say what was checked of registered releases, and what was not."""
    if l is None:
        return (
            f"Declared by their owners: each of the {registered:,} registered releases keeps the plan's promise. The "
            "service has their manifests and checked nothing but that these say so."
        )
    values = count_noun(l, "sensitive value remains", "sensitive values remain")
    some = f"whichever of the {checked:,} releases with counts somebody links, at least {values} for everybody"
    rest = f" Of {count_noun(registered - checked, 'further release')}, declared by the owners, nothing was checked, "
    return f"Checked from counts: {some}. {_OWNERS_WORD}" + (
        f"{rest}and linking these may leave less." if checked < registered else ""
    )


def _describe_linked(l: int, checked: int, declared: int) -> str:
    """Say what remains of a target, and what that rests on."""
    rest = "" if not declared else f" {count_noun(declared, 'release')}, declared by the owners, could not be linked."
    values, releases = count_noun(l, "value remains", "values remain"), count_noun(checked, "release")
    return f"Checked from counts: {values} if the {releases} with counts are linked. {_OWNERS_WORD}{rest}"


def _describe_planned(number: int, promise: Mapping[str, Any], delta: Fraction) -> str:
    """Say what is promised of releases to come."""
    several = "one release" if number == 1 else f"{number:,} releases"
    linked = promise["kind"] == "linked"
    always = "A release that is verified before it is published, as shoal agency apply does, does not fail its part."
    if delta == 1:
        return f"Of {several} by this plan nothing is promised beforehand: their deltas sum to 1 or more. {always}"
    keeps = {
        "l-delta-diversity": "whichever of them somebody links, at least {0:g} sensitive values remain for everybody",
        "k-delta-anonymity": "every class of each has at least {0:g} records"
        + ", and keeps so many whichever of them somebody links" * linked,
        "entropy-l-delta-diversity": "every class of each is at least as varied as {0:g} equally frequent values",
    }[promise["model"]].format(promise["least"])
    return (
        f"If there are {several} by this plan, {keeps}, except with probability {float(delta)} at most. This rests on "
        "records that are independent draws from the distribution that was planned with."
        + f" {always}"
        * (not linked)  # what remains of linked ones, no single release shows
    )

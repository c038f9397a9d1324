"""Registered releases: a manifest and counts, checked against the plan, and the result of linking releases.

Every statement is based on counts or declared by an owner; decision 16 has the reasons.
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
from shoal.agency.service.database import COUNT_LOCK, insert_limited, read_page
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
_ROUNDING = 1e-9  # of the exponential of an entropy in a manifest
_HowMany = Annotated[
    int | None,
    messages.Plain,
    Query(alias="releases", ge=1, le=1_000_000_000, description="The number of releases; by default, all registered."),
]


@routes.serve(
    "POST /v1/campaigns/{campaign}/releases", ("owner",), messages.CreatedRelease, status=201, body="table_bytes"
)
def register_release(visit: CurrentVisit, campaign: messages.Id, asked: messages.NewRelease) -> Any:
    """Register a release by the plan: its manifest, the SHA-256 of its files, and its counts."""
    database, limit = visit.service.database, visit.service.settings.releases
    files = _write_json(dict(sorted(asked.files.items())))
    digest = hashlib.sha256(files.encode("ascii")).hexdigest()
    with visit.service.database.reading() as connection:
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
            values |= visit.owner_columns(campaign)
            message = f"an owner may have at most {limit:,} releases"
            number = insert_limited(database, connection, _table, values, limit, message, *same)
            declared = counts is None
            if counts is not None:
                _link(visit, connection, campaign, counts, promise["classes"])
        visit.subject = f"/v1/campaigns/{campaign}/releases/{number}"
    return {"id": number, "basis": messages.DECLARED if declared else messages.CHECKED}


def _refuse_others(connection: Connection, campaign: int, owner: str, data: str) -> None:
    """Refuse a data file that another owner has registered in this campaign."""
    theirs = _table.c.campaign_id == campaign, _table.c.owner != owner, _table.c.files.contains(data)
    if connection.execute(select(_table.c.id).where(*theirs).limit(1)).first() is not None:
        raise conflict("another owner registered this data file; register a release of your own records", "not_yours")


def _check_counts(
    visit: Visit, campaign: int, asked: messages.NewRelease, said: messages.ReleaseManifest
) -> tuple[ClassCounts | None, float | None]:
    """Return the counts of a release and the value that they achieve; they must satisfy the promise."""
    if asked.counts is None:
        return None, None
    from shoal.agency.tables import ClassCounts, check_counts

    plan = _parse_plan(read_stored(visit, campaign))
    counts = ClassCounts.of_rows(asked.counts.columns, asked.counts.rows, plan, visit.service.settings.rows)
    return counts, check_counts(counts, plan, said.rows, said.guarantees[0].achieved)


@lru_cache(maxsize=4)
def _parse_plan(document: str) -> AgreedPlan:
    from shoal.release.forms.agreed import parse_plan

    return parse_plan(document.encode("ascii"), "the plan")


def _link(visit: Visit, connection: Connection, campaign: int, counts: ClassCounts, n_classes: int) -> None:
    """Link a release with all earlier ones that have counts; the caller has locked the campaign."""
    from shoal.agency.tables import ClassCounts

    table = schema.linkages
    found = connection.execute(select(table).where(table.c.campaign_id == campaign)).one_or_none()
    linked = counts if found is None else counts.link(ClassCounts.of_bytes(found.data))
    values = {"releases": 1 if found is None else found.releases + 1, "l": linked.fewest_values(n_classes)}
    content = {"campaign_id": campaign, **values, "data": linked.content()}
    connection.execute(visit.service.database.upsert(table, content, key=["campaign_id"]))


@routes.serve("GET /v1/campaigns/{campaign}/releases", ROLES, messages.Page[messages.ReleaseEntry])
def list_releases(visit: CurrentVisit, campaign: messages.Id, paging: messages.CurrentPage) -> Any:
    """List registered releases without their manifests."""
    with visit.service.database.reading() as connection:
        campaigns.demand_state(connection, campaign)
        demand_approval(visit, connection, campaign)
        return read_page(connection, _ENTRY.where(_table.c.campaign_id == campaign), _table.c.id, paging, _entry)


@routes.serve("GET /v1/campaigns/{campaign}/releases/{release}", ROLES, messages.Release)
def show_release(visit: CurrentVisit, campaign: messages.Id, release: messages.Id) -> Any:
    """Show a registered release with its manifest."""
    here = _table.c.campaign_id == campaign, _table.c.id == release
    with visit.service.database.reading() as connection:
        campaigns.demand_state(connection, campaign)
        demand_approval(visit, connection, campaign)
        found = connection.execute(_ENTRY.add_columns(_table.c.manifest).where(*here)).mappings().one_or_none()
    if found is None:
        raise absent("release")
    return {**_entry(found), "manifest": json.loads(found["manifest"])}


@routes.serve("GET /v1/campaigns/{campaign}/guarantee", ROLES, messages.Guarantee)
def show_guarantee(visit: CurrentVisit, campaign: messages.Id, releases_: _HowMany = None) -> Any:
    """Return the guarantee for a number of releases together, whichever are linked, and its basis."""
    from shoal.agency.samples import compose_delta

    with visit.service.database.reading() as connection:
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
    """Return the sensitive values that remain for a person if all releases with counts are linked."""
    from shoal.agency.tables import ClassCounts, find_class

    table = schema.linkages
    with visit.service.database.reading() as connection:
        campaigns.demand_state(connection, campaign, "planned", "closed")
        demand_approval(visit, connection, campaign)
        registered, checked, _ = _count_registered(connection, campaign)
        content = connection.execute(select(table.c.data).where(table.c.campaign_id == campaign)).scalar_one_or_none()
    if content is None:
        raise conflict("no release has counts yet: there is nothing to link", "nothing_to_link")
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
    """Return the number of releases, the number of those with counts, and how many values the latter leave together."""
    of_campaign = select(func.count()).select_from(_table).where(_table.c.campaign_id == campaign)
    table = schema.linkages
    linked = select(table.c.releases, table.c.l).where(table.c.campaign_id == campaign)
    found = connection.execute(linked).one_or_none()
    return connection.execute(of_campaign).scalar_one(), found.releases if found else 0, found.l if found else None


def _entry(found: Mapping[Any, Any]) -> dict[str, Any]:
    basis = messages.CHECKED if found["basis"] else messages.DECLARED
    return {**found, "files": json.loads(found["files"]), "basis": basis}


def _read_promise(connection: Connection, campaign: int) -> dict[str, Any]:
    """Return the numbers of a planned campaign that its releases must have."""
    planned, plans = schema.campaigns, schema.plans
    of_plan = plans.c.digest, plans.c.records, plans.c.classes
    asked = select(planned.c.model, planned.c.least, planned.c.delta, planned.c.records.label("kind"), *of_plan)
    return dict(
        connection.execute(asked.select_from(planned.join(plans)).where(planned.c.id == campaign)).mappings().one()
    )


def _check_manifest(
    manifest: Mapping[str, Any], files: Mapping[str, str], promise: Mapping[str, Any]
) -> messages.ReleaseManifest:
    """Return the manifest of a release, or refuse it if it does not state that it follows the plan."""
    try:
        said = messages.ReleaseManifest.model_validate(manifest)
    except ValidationError as error:
        raise of_validation([{**each, "loc": ("manifest", *each["loc"])} for each in error.errors()]) from None
    (guarantee,), least = said.guarantees, promise["least"]
    parameter = "k" if promise["model"] == "k-delta-anonymity" else "l"
    asked = promise["model"], {parameter: least, "delta": promise["delta"]}
    wrong = {
        "manifest.agreed.digest differs from the digest of the campaign's plan; fetch the plan and apply it again": (
            said.agreed.digest != promise["digest"]
        ),
        "manifest.agreed.classes is not the plan's number of classes": said.agreed.classes != promise["classes"],
        "files must include the files named by manifest.agreed and manifest.data, with the same SHA-256": any(
            files.get(part.file) != part.sha256 for part in (said.agreed, said.data)
        ),
        f"manifest.guarantees must have the plan's promise, {parameter} and delta": (
            (guarantee.model, guarantee.parameters) != asked
        ),
        f"manifest.guarantees must state that at least {parameter} was achieved": (
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


_OWNERS_WORD = "The owners declare that the published files have these counts; with a file, shoal verify can check it."


def _describe_registered(registered: int, checked: int, l: int | None) -> str:
    if l is None:
        return (
            f"Declared by their owners: each of the {registered:,} registered releases keeps the plan's promise. The "
            "service has checked nothing but the statements of their manifests."
        )
    values = count_noun(l, "sensitive value remains", "sensitive values remain")
    some = f"whichever of the {checked:,} releases with counts an attacker links, at least {values} per person"
    rest = f" Of {count_noun(registered - checked, 'further release')}, declared by the owners, nothing was checked; "
    return f"Checked from counts: {some}. {_OWNERS_WORD}" + (
        f"{rest}linking these may leave less." if checked < registered else ""
    )


def _describe_linked(l: int, checked: int, declared: int) -> str:
    rest = "" if not declared else f" {count_noun(declared, 'release')}, declared by the owners, could not be linked."
    values, releases = count_noun(l, "value remains", "values remain"), count_noun(checked, "release")
    return f"Checked from counts: {values} if the {releases} with counts are linked. {_OWNERS_WORD}{rest}"


def _describe_planned(number: int, promise: Mapping[str, Any], delta: Fraction) -> str:
    several = "one release" if number == 1 else f"{number:,} releases"
    linked = promise["kind"] == "linked"
    always = "shoal agency apply publishes only releases that keep their part of the promise."
    if delta == 1:
        return (
            f"For {several} by this plan, the plan promises nothing beforehand: their deltas sum to 1 or more. {always}"
        )
    keeps = {
        "l-delta-diversity": "whichever of them an attacker links, at least {0:g} sensitive values remain per person",
        "k-delta-anonymity": "every class of each has at least {0:g} records"
        + ", and keeps as many whichever of them an attacker links" * linked,
        "entropy-l-delta-diversity": "every class of each is at least as varied as {0:g} equally frequent values",
    }[promise["model"]].format(promise["least"])
    return (
        f"If there are {several} by this plan, {keeps}, except with probability {float(delta)} at most. This assumes "
        "records that are independent draws from the planned distribution."
        + f" {always}"
        * (not linked)  # a single release cannot show what linking leaves
    )

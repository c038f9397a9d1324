"""Releases that owners register: a manifest and digests, checked against the plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.database import COUNT_LOCK
from shoal.agency.service.messages import LARGEST, NewRelease
from shoal.agency.service.refusals import absent, conflict, invalid
from shoal.agency.service.tokens import now
from shoal.agency.service.visits import Visit

MODEL = "l-delta-diversity"
_table = schema.releases


def register(visit: Visit, campaign: int, asked: NewRelease) -> int:
    """Keep a release and return its number; the same files of the same owner are one release, however often sent."""
    database, owner = visit.service.database, visit.holder.name
    manifest, files = _text(asked.manifest), _text(dict(sorted(asked.files.items())))
    values = {
        "campaign_id": campaign,
        "owner": owner,
        "token_id": visit.holder.id,
        "files_digest": hashlib.sha256(files.encode("ascii")).hexdigest(),
        "files": files,
        "manifest": manifest,
        "at": now(),
    }
    same = _table.c.campaign_id == campaign, _table.c.owner == owner
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        values["rows"] = _checked(asked.manifest, asked.files, campaigns.promise(connection, campaign))
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


def listed(connection: Connection, campaign: int, after: int, limit: int) -> list[dict[str, Any]]:
    """Return registered releases by number."""
    columns = (_table.c.id, _table.c.owner, _table.c.rows, _table.c.files, _table.c.at)
    rows = connection.execute(
        select(*columns).where(_table.c.campaign_id == campaign, _table.c.id > after).order_by(_table.c.id).limit(limit)
    )
    return [{**row, "files": json.loads(row["files"])} for row in rows.mappings()]


def one(connection: Connection, campaign: int, release: int) -> dict[str, Any]:
    """Return one registered release with its manifest."""
    columns = (_table.c.id, _table.c.owner, _table.c.rows, _table.c.files, _table.c.at, _table.c.manifest)
    found = (
        connection.execute(select(*columns).where(_table.c.campaign_id == campaign, _table.c.id == release))
        .mappings()
        .one_or_none()
    )
    if found is None:
        raise absent("release")
    return {**found, "files": json.loads(found["files"]), "manifest": json.loads(found["manifest"])}


def _checked(manifest: Mapping[str, Any], files: Mapping[str, str], promise: Mapping[str, Any]) -> int:
    """Return the number of rows of a release, or refuse it if it does not say that it keeps the plan."""
    if manifest.get("method") != "agreed":
        raise invalid("manifest.method must be 'agreed': only releases by a plan are registered")
    agreed, data = _entry(manifest, "agreed"), _entry(manifest, "data")
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


def _entry(manifest: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = manifest.get(name)
    if not isinstance(found, dict):
        raise invalid(f"manifest.{name} must be an object")
    return found


def _same(value: Any, number: int) -> bool:
    return type(value) is int and value == number


def _text(document: Mapping[str, Any]) -> str:
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

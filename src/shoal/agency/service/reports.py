"""How many records owners say that they have, in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.tokens import now
from shoal.agency.service.visits import Visit


def report(visit: Visit, campaign: int, records: int) -> dict[str, Any]:
    """Keep an owner's number of records, in place of its earlier one, and say how many are missing."""
    values = {
        "campaign_id": campaign,
        "owner": visit.holder.name,
        "token_id": visit.holder.id,
        "records": records,
        "at": now(),
    }
    with visit.writing() as connection:
        campaigns.demand_state(connection, campaign, "planned", held=True)
        connection.execute(visit.service.database.insert(schema.reports, values, key=["campaign_id", "owner"]))
        return judged(records, needed(connection, campaign))


def reported(connection: Connection, campaign: int, after: int, limit: int) -> list[dict[str, Any]]:
    """Return the owners' numbers of records, with the number of the entry."""
    table = schema.reports
    rows = connection.execute(
        select(table.c.id, table.c.owner, table.c.records, table.c.at)
        .where(table.c.campaign_id == campaign, table.c.id > after)
        .order_by(table.c.id)
        .limit(limit)
    ).mappings()
    wanted = needed(connection, campaign)
    return [{**row, **judged(row["records"], wanted)} for row in rows]


def needed(connection: Connection, campaign: int) -> int:
    """Return how many records the plan demands."""
    found = select(schema.plans.c.records).where(schema.plans.c.campaign_id == campaign)
    return int(connection.execute(found).scalar_one())


def judged(records: int, wanted: int) -> dict[str, Any]:
    """Compare.

    >>> judged(3, 5)
    {'records': 3, 'needed': 5, 'missing': 2, 'enough': False}
    """
    missing = max(0, wanted - records)
    return {"records": records, "needed": wanted, "missing": missing, "enough": not missing}

"""What plans rest on, in the database: an agency's distribution, and the counts of owners."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, insert, select

from shoal.agency.service import campaigns, schema
from shoal.agency.service.counted import CountedTable
from shoal.agency.service.messages import Domain, State
from shoal.agency.service.tokens import now
from shoal.agency.service.visits import Visit


def distribute(visit: Visit, campaign: int, table: CountedTable) -> None:
    """Give a draft its distribution, in place of an earlier one."""
    content, rows = table.stored(), table.table.num_rows
    with visit.writing() as connection:
        campaigns.touch(connection, campaign, "draft")
        connection.execute(delete(schema.distributions).where(schema.distributions.c.campaign_id == campaign))
        values = {"campaign_id": campaign, "rows": rows, "data": content, "at": now()}
        connection.execute(insert(schema.distributions).values(values))


def contribute(visit: Visit, campaign: int, table: CountedTable) -> None:
    """Keep an owner's counts, in place of its earlier ones."""
    values = {
        "campaign_id": campaign,
        "owner": visit.holder.name,
        "token_id": visit.holder.id,
        "rows": table.table.num_rows,
        "records": table.records,
        "data": table.stored(),
        "at": now(),
    }
    with visit.writing() as connection:
        campaigns.touch(connection, campaign, "collecting")
        connection.execute(visit.service.database.insert(schema.contributions, values, key=["campaign_id", "owner"]))


def contributors(connection: Connection, campaign: int, after: int, limit: int) -> list[Any]:
    """Return who contributed how many rows and records."""
    table = schema.contributions
    return list(
        connection.execute(
            select(table.c.id, table.c.owner, table.c.rows, table.c.records, table.c.at)
            .where(table.c.campaign_id == campaign, table.c.id > after)
            .order_by(table.c.id)
            .limit(limit)
        ).mappings()
    )


def domain_in_state(visit: Visit, campaign: int, state: State) -> Domain:
    """Return the domain of a campaign in a state; in another, a table is refused before it is looked at."""
    with visit.reading() as connection:
        campaigns.demand_state(connection, campaign, state)
        return campaigns.domain_of(connection, campaign)

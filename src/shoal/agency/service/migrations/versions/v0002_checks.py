"""What the service checks and decides: promises of three models, counts of releases, requests, tokens that expire.

Its tables are the schema of the service, the same on SQLite and PostgreSQL, until another migration comes.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from shoal.agency.service.migrations.versions import v0001_campaigns as first
from shoal.agency.service.migrations.versions.v0001_campaigns import (
    make_id,
    make_time,
    refer_to_campaign,
    refer_to_token,
)

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_MODEL = "l-delta-diversity"  # of campaigns that were opened before there were others
_FIXED = (
    "id",
    "name",
    "domain",
    "model",
    "least",
    "delta",
    "eta",
    "point_order",
    "arrangement",
    "records",
    "created_at",
)
_OLD_FIXED = first.FIXED["campaigns"]


metadata = MetaData(naming_convention=first.metadata.naming_convention)

campaigns = Table(
    "campaigns",
    metadata,
    make_id(),
    Column("name", String(200), nullable=False),
    Column("state", String(10), nullable=False),
    Column("domain", Text, nullable=False),
    Column("delta", Float(53), nullable=False),
    Column("eta", Float(53), nullable=False),
    Column("point_order", String(20), nullable=False),
    Column("arrangement", String(20), nullable=False),
    Column("records", String(10), nullable=False),
    Column("revision", BigInteger, nullable=False),  # grows with everything that a plan rests on
    make_time("created_at"),
    Column("model", String(40), nullable=False, server_default=_MODEL),
    Column("least", Float(53), nullable=False, server_default="1"),  # l or k
    CheckConstraint("state IN ('draft', 'collecting', 'planned', 'closed')", name="state"),
    sqlite_autoincrement=True,
)

distributions, contributions, plans, reports, audit, tokens, releases = (
    table.to_metadata(metadata)
    for table in (
        first.distributions,
        first.contributions,
        first.plans,
        first.reports,
        first.audit,
        first.tokens,
        first.releases,
    )
)
tokens.append_column(make_time("expires_at", nullable=True))  # NULL: never
releases.append_column(Column("achieved", Float(53)))  # what the weakest class reaches by the counts
releases.append_column(Column("counts", LargeBinary))  # class by value; NULL: the release is declared by its owner

linkages = Table(  # what all releases with counts leave together
    "linkages",
    metadata,
    refer_to_campaign(only=True),
    Column("releases", BigInteger, nullable=False),
    Column("l", BigInteger, nullable=False),  # values that remain in the worst class
    Column("data", LargeBinary, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    make_id(),
    Column("client", String(200), nullable=False),
    refer_to_token(),
    Column("campaign_id", ForeignKey("campaigns.id")),
    Column("attributes", Text, nullable=False),
    Column("l", Float(53)),
    Column("delta", Float(53)),
    Column("purpose", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", Text, nullable=False),
    make_time(),
    make_time("decided_at", nullable=True),
    CheckConstraint("state IN ('open', 'approved', 'refused')", name="state"),
    sqlite_autoincrement=True,
)
_ADDED = (
    (campaigns, "model"),
    (campaigns, "least"),
    (tokens, "expires_at"),
    (releases, "achieved"),
    (releases, "counts"),
)


def upgrade() -> None:
    """Add columns and tables; a campaign's l becomes the least number of its promise."""
    _drop_fixing()
    for table, name in _ADDED:
        column = table.c[name]
        op.add_column(
            table.name, Column(name, column.type, nullable=column.nullable, server_default=column.server_default)
        )
    op.execute("UPDATE campaigns SET least = l")
    op.drop_column("campaigns", "l")
    for table in (linkages, requests):
        table.create(op.get_bind())
    _make_fixing(_FIXED)


def downgrade() -> None:
    """Take it back; promises of other models than the first cannot be kept, and are refused."""
    others = f"SELECT count(*) FROM campaigns WHERE model <> '{_MODEL}'"  # noqa: S608 - own names
    if op.get_bind().exec_driver_sql(others).scalar_one():
        raise ValueError("there are campaigns that the older version cannot keep")
    _drop_fixing()
    for table in (requests, linkages):
        table.drop(op.get_bind())
    op.add_column("campaigns", Column("l", Integer, nullable=False, server_default="1"))
    op.execute("UPDATE campaigns SET l = least")
    for table, name in _ADDED:
        op.drop_column(table.name, name)
    _make_fixing(_OLD_FIXED)


def _drop_fixing() -> None:
    """Drop the trigger that names the columns of a campaign that never change."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER campaigns_fixed")
    else:
        op.execute("DROP TRIGGER campaigns_forward ON campaigns")
        op.execute("DROP FUNCTION shoal_campaigns_forward()")


def _make_fixing(names: tuple[str, ...]) -> None:
    """Make it again for these columns."""
    if op.get_bind().dialect.name == "sqlite":
        first.fix_on_sqlite("campaigns", names)
    else:
        first.fix_on_postgresql("campaigns", first.BACK, names)

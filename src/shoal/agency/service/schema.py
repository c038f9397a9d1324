"""The tables of an agency's service, the same on SQLite and PostgreSQL.

Migrations make them, with triggers that refuse what no code may do: see ``migrations/versions``.
"""

from __future__ import annotations

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
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _id() -> Column[int]:
    return Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


def _campaign(*, only: bool = False) -> Column[int]:
    return Column("campaign_id", ForeignKey("campaigns.id"), primary_key=only, nullable=False, autoincrement=False)


def _token() -> Column[int]:
    return Column("token_id", ForeignKey("tokens.id"), nullable=False)


def _at(name: str = "at", *, nullable: bool = False) -> Column[str]:
    return Column(name, String(32), nullable=nullable)  # ISO 8601, UTC


tokens = Table(
    "tokens",
    metadata,
    _id(),
    Column("name", String(200), nullable=False),
    Column("role", String(10), nullable=False),
    Column("digest", String(64), nullable=False),
    _at("created_at"),
    _at("revoked_at", nullable=True),
    UniqueConstraint("digest"),
    CheckConstraint("role IN ('agency', 'owner', 'client')", name="role"),
    sqlite_autoincrement=True,
)

campaigns = Table(
    "campaigns",
    metadata,
    _id(),
    Column("name", String(200), nullable=False),
    Column("state", String(10), nullable=False),
    Column("domain", Text, nullable=False),
    Column("l", Integer, nullable=False),
    Column("delta", Float(53), nullable=False),
    Column("eta", Float(53), nullable=False),
    Column("point_order", String(20), nullable=False),
    Column("arrangement", String(20), nullable=False),
    Column("records", String(10), nullable=False),
    Column("revision", BigInteger, nullable=False),  # grows with everything that a plan rests on
    _at("created_at"),
    CheckConstraint("state IN ('draft', 'collecting', 'planned', 'closed')", name="state"),
    sqlite_autoincrement=True,
)

distributions = Table(
    "distributions",
    metadata,
    _campaign(only=True),
    Column("rows", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    _at(),
)

contributions = Table(
    "contributions",
    metadata,
    _id(),
    _campaign(),
    Column("owner", String(200), nullable=False),
    _token(),
    Column("rows", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    _at(),
    UniqueConstraint("campaign_id", "owner"),
    sqlite_autoincrement=True,
)

plans = Table(
    "plans",
    metadata,
    _campaign(only=True),
    Column("digest", String(64), nullable=False),
    Column("n", BigInteger, nullable=False),
    Column("n_tight", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("m", Float(53), nullable=False),
    Column("p", Float(53), nullable=False),
    Column("classes", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    _at(),
)

reports = Table(
    "reports",
    metadata,
    _id(),
    _campaign(),
    Column("owner", String(200), nullable=False),
    _token(),
    Column("records", BigInteger, nullable=False),
    _at(),
    UniqueConstraint("campaign_id", "owner"),
    sqlite_autoincrement=True,
)

releases = Table(
    "releases",
    metadata,
    _id(),
    _campaign(),
    Column("owner", String(200), nullable=False),
    _token(),
    Column("files_digest", String(64), nullable=False),
    Column("files", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("manifest", Text, nullable=False),
    _at(),
    UniqueConstraint("campaign_id", "owner", "files_digest"),
    sqlite_autoincrement=True,
)

audit = Table(
    "audit",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    _at(),
    _token(),
    Column("role", String(10), nullable=False),
    Column("action", String(60), nullable=False),
    Column("subject", String(200), nullable=False),
    Column("outcome", Integer, nullable=False),
)

"""The first tables, and triggers against what no code may do: going back, and rewriting what was said.

While there is one migration, its tables are the schema of the service, the same on SQLite and PostgreSQL; a second one
comes with a schema of its own.
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
    UniqueConstraint,
)

revision = "0002"  # databases of the one before were never released, and are refused
down_revision: str | None = None
branch_labels = None
depends_on = None

_FINAL = ("audit", "plans", "releases")  # rows of these are never changed and never deleted
_KEYS: dict[str, list[tuple[str, ...]]] = {
    "audit": [("number",)],
    "plans": [("campaign_id",)],
    "releases": [("id",), ("campaign_id", "owner", "files_digest")],
    "campaigns": [("id",)],
    "tokens": [("id",), ("digest",)],
}
_RANK = "CASE {0}.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END"
_BACK = f"{_RANK.format('NEW')} < {_RANK.format('OLD')}"
_REVIVED = "OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL"
_FIXED = {  # what never changes of rows that otherwise do
    "campaigns": (
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
    ),
    "tokens": ("id", "name", "role", "digest", "created_at"),
}
_DEEDS = ("update", "delete")


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
    _at("expires_at"),
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
    Column("model", String(40), nullable=False),
    Column("least", Float(53), nullable=False),  # l or k
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
    Column("achieved", Float(53)),  # what the weakest class reaches by the counts
    Column("counts", LargeBinary),  # class by value; NULL: the release is declared by its owner
    _at(),
    UniqueConstraint("campaign_id", "owner", "files_digest"),
    sqlite_autoincrement=True,
)

linkages = Table(  # what all releases with counts leave together
    "linkages",
    metadata,
    _campaign(only=True),
    Column("releases", BigInteger, nullable=False),
    Column("l", BigInteger, nullable=False),  # values that remain in the worst class
    Column("data", LargeBinary, nullable=False),
)

requests = Table(
    "requests",
    metadata,
    _id(),
    Column("client", String(200), nullable=False),
    _token(),
    Column("campaign_id", ForeignKey("campaigns.id")),
    Column("attributes", Text, nullable=False),
    Column("l", Float(53)),
    Column("delta", Float(53)),
    Column("purpose", Text, nullable=False),
    Column("state", String(10), nullable=False),
    Column("reason", Text, nullable=False),
    _at(),
    _at("decided_at", nullable=True),
    CheckConstraint("state IN ('open', 'approved', 'refused')", name="state"),
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


def upgrade() -> None:
    """Make all tables and triggers."""
    metadata.create_all(op.get_bind())
    if op.get_bind().dialect.name == "sqlite":
        _sqlite_triggers()
    else:
        _postgresql_triggers()


def downgrade() -> None:
    """Drop everything."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    metadata.drop_all(op.get_bind())
    if postgresql:
        for function in ("refuse", "campaigns_forward", "tokens_forward", "collecting"):
            op.execute(f"DROP FUNCTION shoal_{function}()")


def _sqlite_triggers() -> None:
    for table in _FINAL:
        for deed in _DEEDS:
            _sqlite_refusal(f"{table}_no_{deed}", f"BEFORE {deed} ON {table}", f"rows of {table} are final")
    for table, keys in _KEYS.items():  # INSERT OR REPLACE deletes without asking other triggers
        for place, key in enumerate(keys):
            same = " AND ".join(f"{name} = NEW.{name}" for name in key)
            there = f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - own names
            name = f"{table}_no_replace_{place}"
            _sqlite_refusal(name, f"BEFORE INSERT ON {table} WHEN {there}", f"rows of {table} are not replaced")
    for table in ("campaigns", "tokens"):
        _sqlite_refusal(f"{table}_no_delete", f"BEFORE DELETE ON {table}", f"rows of {table} are not deleted")
        changed = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _FIXED[table])
        when = f"BEFORE UPDATE ON {table} WHEN {changed}"
        _sqlite_refusal(f"{table}_fixed", when, f"rows of {table} are not redefined")
    _sqlite_refusal("campaigns_never_back", f"BEFORE UPDATE ON campaigns WHEN {_BACK}", "a campaign never goes back")
    _sqlite_refusal("tokens_never_back", f"BEFORE UPDATE ON tokens WHEN {_REVIVED}", "a revoked token stays revoked")
    for deed, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        state = f"(SELECT state FROM campaigns WHERE id = {row}.campaign_id)"  # noqa: S608 - own names
        name = f"contributions_{deed.lower()}_collecting"
        when = f"BEFORE {deed} ON contributions WHEN {state} IS NOT 'collecting'"
        _sqlite_refusal(name, when, "the campaign is not collecting")


def _sqlite_refusal(name: str, when: str, why: str) -> None:
    op.execute(f"CREATE TRIGGER {name} {when} BEGIN SELECT RAISE(ABORT, '{why}'); END")


def _postgresql_triggers() -> None:
    _function("shoal_refuse", "TRUE", "'rows of this table are final'")
    for table in (*_FINAL, *_FIXED):
        deeds = "DELETE" if table in _FIXED else "UPDATE OR DELETE"
        _trigger(f"{table}_final", f"BEFORE {deeds} ON {table} FOR EACH ROW", "shoal_refuse")
        _trigger(f"{table}_no_truncate", f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT", "shoal_refuse")
    for table, back in (("campaigns", _BACK), ("tokens", _REVIVED)):
        changed = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in _FIXED[table])
        _function(f"shoal_{table}_forward", f"{back} OR {changed}", f"'{table} never go back and are not redefined'")
        _trigger(f"{table}_forward", f"BEFORE UPDATE ON {table} FOR EACH ROW", f"shoal_{table}_forward")
    state = "(SELECT state FROM campaigns WHERE id = COALESCE(NEW.campaign_id, OLD.campaign_id))"
    _function("shoal_collecting", f"{state} IS DISTINCT FROM 'collecting'", "'the campaign is not collecting'")
    when = "BEFORE INSERT OR UPDATE OR DELETE ON contributions FOR EACH ROW"
    _trigger("contributions_collecting", when, "shoal_collecting")


def _function(name: str, condition: str, why: str) -> None:
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF ({condition}) THEN "
        f"RAISE EXCEPTION {why} USING ERRCODE = 'integrity_constraint_violation'; END IF; "
        "RETURN COALESCE(NEW, OLD); END $$"
    )


def _trigger(name: str, when: str, function: str) -> None:
    op.execute(f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {function}()")

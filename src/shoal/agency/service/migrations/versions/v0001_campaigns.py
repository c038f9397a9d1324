"""The first tables, and triggers against what no code may do: going back, and rewriting what was said."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision: str | None = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
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
    "campaigns": ("id", "name", "domain", "l", "delta", "eta", "point_order", "arrangement", "records", "created_at"),
    "tokens": ("id", "name", "role", "digest", "created_at"),
}
_DEEDS = ("update", "delete")


def upgrade() -> None:
    """Make all tables and triggers."""
    _tables()
    if op.get_bind().dialect.name == "sqlite":
        _sqlite_triggers()
    else:
        _postgresql_triggers()


def downgrade() -> None:
    """Drop everything."""
    postgresql = op.get_bind().dialect.name == "postgresql"
    for name in ("audit", "releases", "reports", "plans", "contributions", "distributions", "campaigns", "tokens"):
        op.drop_table(name)
    if postgresql:
        for function in ("refuse", "campaigns_forward", "tokens_forward", "collecting"):
            op.execute(f"DROP FUNCTION shoal_{function}()")


def _tables() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("revoked_at", sa.String(32), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sa.CheckConstraint("role IN ('agency', 'owner', 'client')", name="ck_tokens_role"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "campaigns",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.String(10), nullable=False),
        sa.Column("domain", sa.Text, nullable=False),
        sa.Column("l", sa.Integer, nullable=False),
        sa.Column("delta", sa.Float(53), nullable=False),
        sa.Column("eta", sa.Float(53), nullable=False),
        sa.Column("point_order", sa.String(20), nullable=False),
        sa.Column("arrangement", sa.String(20), nullable=False),
        sa.Column("records", sa.String(10), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
        sa.CheckConstraint("state IN ('draft', 'collecting', 'planned', 'closed')", name="ck_campaigns_state"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "distributions",
        _reference("campaign_id", "campaigns", "fk_distributions_campaign_id"),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("campaign_id", name="pk_distributions"),
    )
    op.create_table(
        "contributions",
        *_owned("contributions"),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.UniqueConstraint("campaign_id", "owner", name="uq_contributions_campaign_id_owner"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "plans",
        _reference("campaign_id", "campaigns", "fk_plans_campaign_id"),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("n", sa.BigInteger, nullable=False),
        sa.Column("n_tight", sa.BigInteger, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("m", sa.Float(53), nullable=False),
        sa.Column("p", sa.Float(53), nullable=False),
        sa.Column("classes", sa.BigInteger, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("campaign_id", name="pk_plans"),
    )
    op.create_table(
        "reports",
        *_owned("reports"),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.UniqueConstraint("campaign_id", "owner", name="uq_reports_campaign_id_owner"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "releases",
        *_owned("releases"),
        sa.Column("files_digest", sa.String(64), nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("rows", sa.BigInteger, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.UniqueConstraint("campaign_id", "owner", "files_digest", name="uq_releases_campaign_id_owner_files_digest"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        _reference("token_id", "tokens", "fk_audit_token_id"),
        sa.Column("role", sa.String(10), nullable=False),
        sa.Column("action", sa.String(60), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("outcome", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_audit"),
    )


def _reference(name: str, table: str, constraint: str) -> sa.Column[int]:
    return sa.Column(name, _ID, sa.ForeignKey(f"{table}.id", name=constraint), autoincrement=False, nullable=False)


def _owned(table: str) -> tuple[sa.Column[int] | sa.Column[str] | sa.Constraint, ...]:
    return (
        sa.Column("id", _ID, nullable=False),
        _reference("campaign_id", "campaigns", f"fk_{table}_campaign_id"),
        sa.Column("owner", sa.String(200), nullable=False),
        _reference("token_id", "tokens", f"fk_{table}_token_id"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    )


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

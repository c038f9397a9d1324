"""The tables of the service on SQLite and PostgreSQL, and triggers that refuse changes no code may make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import SchemaItem

VERSION = "0002"  # databases of other versions are refused
_FINAL = ("audit", "plans", "releases")  # rows that never change
_CHANGED = {"campaigns": ("state", "revision"), "tokens": ("expires_at", "revoked_at")}  # the only columns that change
_RANK = "CASE {0}.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END"
_BACK = f"{_RANK.format('NEW')} < {_RANK.format('OLD')}"
_REVIVED = "OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL"
_DEEDS = ("update", "delete")
_TIME = sa.String(32)  # ISO 8601, UTC
metadata = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)


def _make_table(name: str, *items: SchemaItem) -> sa.Table:
    number = sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True)
    return sa.Table(name, metadata, number, *items, sqlite_autoincrement=True)


def _campaign(*, only: bool = False) -> sa.Column[int]:
    return sa.Column(
        "campaign_id", sa.ForeignKey("campaigns.id"), primary_key=only, nullable=False, autoincrement=False
    )


def _token() -> sa.Column[int]:
    return sa.Column("token_id", sa.ForeignKey("tokens.id"), nullable=False)


def _owner() -> list[sa.Column[Any]]:
    return [_campaign(), _column("owner", sa.String(200)), _token()]


def _column(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _at(name: str = "at") -> sa.Column[str]:
    return _column(name, _TIME)


tokens = _make_table(
    "tokens",
    _column("name", sa.String(200)),
    _column("role", sa.String(10)),
    _column("digest", sa.String(64)),
    _at("created_at"),
    _at("expires_at"),
    sa.Column("revoked_at", _TIME),
    sa.UniqueConstraint("digest"),
    sa.CheckConstraint("role IN ('agency', 'owner', 'client')", name="role"),
)
campaigns = _make_table(
    "campaigns",
    _column("name", sa.String(200)),
    _column("state", sa.String(10)),
    _column("domain", sa.Text),
    _column("model", sa.String(40)),
    _column("least", sa.Float(53)),  # l or k
    _column("delta", sa.Float(53)),
    _column("eta", sa.Float(53)),
    _column("point_order", sa.String(20)),
    _column("arrangement", sa.String(20)),
    _column("records", sa.String(10)),
    _column("revision", sa.BigInteger),  # grows with every change of the data for the plan
    _at("created_at"),
    sa.CheckConstraint("state IN ('draft', 'collecting', 'planned', 'closed')", name="state"),
)
distributions = sa.Table(
    "distributions",
    metadata,
    _campaign(only=True),
    _column("rows", sa.BigInteger),
    _column("data", sa.LargeBinary),
    _at(),
)
contributions = _make_table(
    "contributions",
    *_owner(),
    _column("rows", sa.BigInteger),
    _column("records", sa.BigInteger),
    _column("data", sa.LargeBinary),
    _at(),
    sa.UniqueConstraint("campaign_id", "owner"),
)
plans = sa.Table(
    "plans",
    metadata,
    _campaign(only=True),
    _column("digest", sa.String(64)),
    _column("n", sa.BigInteger),
    _column("n_tight", sa.BigInteger),
    _column("records", sa.BigInteger),
    _column("m", sa.Float(53)),
    _column("p", sa.Float(53)),
    _column("classes", sa.BigInteger),
    _column("document", sa.Text),
    _at(),
)
reports = _make_table(
    "reports", *_owner(), _column("records", sa.BigInteger), _at(), sa.UniqueConstraint("campaign_id", "owner")
)
releases = _make_table(
    "releases",
    *_owner(),
    _column("files_digest", sa.String(64)),
    _column("files", sa.Text),
    _column("rows", sa.BigInteger),
    _column("manifest", sa.Text),
    sa.Column("achieved", sa.Float(53)),  # value of the weakest class by the counts
    sa.Column("counts", sa.LargeBinary),  # class by value; NULL: the release is declared by its owner
    _at(),
    sa.UniqueConstraint("campaign_id", "owner", "files_digest"),
)
linkages = sa.Table(  # the result of linking all releases with counts
    "linkages",
    metadata,
    _campaign(only=True),
    _column("releases", sa.BigInteger),
    _column("l", sa.BigInteger),  # values left in the worst class
    _column("data", sa.LargeBinary),
)
requests = _make_table(
    "requests",
    _column("client", sa.String(200)),
    _token(),
    sa.Column("campaign_id", sa.ForeignKey("campaigns.id")),
    _column("attributes", sa.Text),
    sa.Column("l", sa.Float(53)),
    sa.Column("delta", sa.Float(53)),
    _column("purpose", sa.Text),
    _column("state", sa.String(10)),
    _column("reason", sa.Text),
    _at(),
    sa.Column("decided_at", _TIME),
    sa.CheckConstraint("state IN ('open', 'approved', 'refused')", name="state"),
)
version = sa.Table(  # the name in databases of earlier versions
    "alembic_version",
    metadata,
    sa.Column("version_num", sa.String(32), primary_key=True),
)
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),  # from 1, without gaps
    _at(),
    _token(),
    _column("role", sa.String(10)),
    _column("action", sa.String(60)),
    _column("subject", sa.String(200)),
    _column("outcome", sa.Integer),
)


def create(connection: sa.Connection) -> None:
    metadata.create_all(connection)
    connection.execute(version.insert().values(version_num=VERSION))
    for statement in _sqlite_triggers() if connection.dialect.name == "sqlite" else _postgresql_triggers():
        connection.exec_driver_sql(statement)


def _sqlite_triggers() -> Iterator[str]:
    for table in _FINAL:
        for deed in _DEEDS:
            yield _sqlite_refusal(f"{table}_no_{deed}", f"BEFORE {deed} ON {table}", f"rows of {table} are final")
    for table in (*_FINAL, *_CHANGED):  # INSERT OR REPLACE bypasses triggers on DELETE
        for place, key in enumerate(_list_keys(metadata.tables[table])):
            same = " AND ".join(f"{name} = NEW.{name}" for name in key)
            there = f"EXISTS (SELECT 1 FROM {table} WHERE {same})"  # noqa: S608 - own names
            name = f"{table}_no_replace_{place}"
            yield _sqlite_refusal(name, f"BEFORE INSERT ON {table} WHEN {there}", f"rows of {table} are not replaced")
    for table in _CHANGED:
        yield _sqlite_refusal(f"{table}_no_delete", f"BEFORE DELETE ON {table}", f"rows of {table} are not deleted")
        changed = " OR ".join(f"NEW.{name} IS NOT OLD.{name}" for name in _list_fixed(table))
        when = f"BEFORE UPDATE ON {table} WHEN {changed}"
        yield _sqlite_refusal(f"{table}_fixed", when, f"rows of {table} are not redefined")
    yield _sqlite_refusal(
        "campaigns_never_back", f"BEFORE UPDATE ON campaigns WHEN {_BACK}", "a campaign never goes back"
    )
    yield _sqlite_refusal(
        "tokens_never_back", f"BEFORE UPDATE ON tokens WHEN {_REVIVED}", "a revoked token stays revoked"
    )
    for deed, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
        state = f"(SELECT state FROM campaigns WHERE id = {row}.campaign_id)"  # noqa: S608 - own names
        name = f"contributions_{deed.lower()}_collecting"
        when = f"BEFORE {deed} ON contributions WHEN {state} IS NOT 'collecting'"
        yield _sqlite_refusal(name, when, "the campaign is not collecting")


def _list_keys(table: sa.Table) -> list[list[str]]:
    """Return the primary key of a table and its unique sets of columns."""
    unique = [each for each in table.constraints if isinstance(each, sa.UniqueConstraint)]
    return [[column.name for column in each.columns] for each in (table.primary_key, *unique)]


def _list_fixed(table: str) -> list[str]:
    return [column.name for column in metadata.tables[table].c if column.name not in _CHANGED[table]]


def _sqlite_refusal(name: str, when: str, why: str) -> str:
    return f"CREATE TRIGGER {name} {when} BEGIN SELECT RAISE(ABORT, '{why}'); END"


def _postgresql_triggers() -> Iterator[str]:
    yield _function("shoal_refuse", "TRUE", "'rows of this table are final'")
    for table in (*_FINAL, *_CHANGED):
        deeds = "DELETE" if table in _CHANGED else "UPDATE OR DELETE"
        yield _trigger(f"{table}_final", f"BEFORE {deeds} ON {table} FOR EACH ROW", "shoal_refuse")
        yield _trigger(f"{table}_no_truncate", f"BEFORE TRUNCATE ON {table} FOR EACH STATEMENT", "shoal_refuse")
    for table, back in (("campaigns", _BACK), ("tokens", _REVIVED)):
        changed = " OR ".join(f"NEW.{name} IS DISTINCT FROM OLD.{name}" for name in _list_fixed(table))
        yield _function(
            f"shoal_{table}_forward", f"{back} OR {changed}", f"'{table} never go back and are not redefined'"
        )
        yield _trigger(f"{table}_forward", f"BEFORE UPDATE ON {table} FOR EACH ROW", f"shoal_{table}_forward")
    state = "(SELECT state FROM campaigns WHERE id = COALESCE(NEW.campaign_id, OLD.campaign_id))"
    yield _function("shoal_collecting", f"{state} IS DISTINCT FROM 'collecting'", "'the campaign is not collecting'")
    when = "BEFORE INSERT OR UPDATE OR DELETE ON contributions FOR EACH ROW"
    yield _trigger("contributions_collecting", when, "shoal_collecting")


def _function(name: str, condition: str, why: str) -> str:
    return (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF ({condition}) THEN "
        f"RAISE EXCEPTION {why} USING ERRCODE = 'integrity_constraint_violation'; END IF; "
        "RETURN COALESCE(NEW, OLD); END $$"
    )


def _trigger(name: str, when: str, function: str) -> str:
    return f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION {function}()"

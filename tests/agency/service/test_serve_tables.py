"""The database of a service: made, brought up to date, taken back, and never guessed at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from shoal.agency.service.database import create_tables, open_database


def agency(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("shoal"), "agency", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=dict(os.environ),
    )


def shape(database: Any) -> tuple[Any, ...]:
    """Tables with columns, and triggers, as the database tells them."""
    with database.engine.connect() as connection:
        inspector = sa.inspect(connection)
        columns = {
            name: [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(name)]
            for name in inspector.get_table_names()
        }
        listed = "sqlite_master WHERE type = 'trigger'" if database.is_sqlite else "pg_trigger WHERE NOT tgisinternal"
        name = "name" if database.is_sqlite else "tgname"
        triggers = sorted(connection.execute(sa.text(f"SELECT {name} FROM {listed}")).scalars())
    return columns, triggers


# Everything that a database says of its own tables, constraints and triggers.
DEFINITIONS = {
    "sqlite": "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND tbl_name <> 'alembic_version'",
    "postgresql": """
        WITH own AS (
            SELECT oid, relname FROM pg_class
            WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
        )
        SELECT relname || '.' || attname || ' ' || format_type(atttypid, atttypmod)
            || CASE WHEN attnotnull THEN ' not null' ELSE '' END
            || COALESCE(' default ' || pg_get_expr(adbin, adrelid), '')
        FROM own JOIN pg_attribute ON attrelid = own.oid AND attnum > 0 AND NOT attisdropped
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        UNION ALL SELECT relname || ' ' || conname || ' ' || pg_get_constraintdef(pg_constraint.oid)
        FROM own JOIN pg_constraint ON conrelid = own.oid WHERE contype <> 'n'
        UNION ALL SELECT pg_get_triggerdef(pg_trigger.oid) FROM own JOIN pg_trigger ON tgrelid = own.oid
        WHERE NOT tgisinternal
        UNION ALL SELECT proname || ' ' || prosrc FROM pg_proc WHERE proname LIKE 'shoal%'
    """,
}


def read_definitions(database: Any, kind: str) -> str:
    with database.engine.connect() as connection:
        found = sorted(connection.execute(sa.text(DEFINITIONS[kind])).scalars())
    return "".join(f"{text.strip()}\n" for text in found)


def test_the_tables_are_those_of_databases_in_use(empty_database, kind: str) -> None:
    """Databases that were made with this version are in use: other tables need another version."""
    database = open_database(empty_database())
    create_tables(database)
    made = read_definitions(database, kind)
    create_tables(database)  # once more changes nothing
    assert read_definitions(database, kind) == made
    database.engine.dispose()
    assert made == (Path(__file__).parent / f"schema-0002-{kind}.sql").read_text(encoding="utf-8")


def test_nothing_is_served_from_a_database_without_tables(empty_database, kind: str) -> None:
    address = empty_database()
    database = open_database(address)
    with database.writing() as connection:
        connection.execute(sa.text("CREATE TABLE other (number INTEGER)"))
    database.engine.dispose()
    for call in (("serve", "--port", "0"), ("token", "--role", "agency", "--name", "x", "--json")):
        ended = agency(*call, "--database", address)
        assert ended.returncode == 2, ended
        assert "migrate" in ended.stderr + ended.stdout
        assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("version", ["ffff", "0001"])
def test_a_database_of_another_version_is_refused_and_left_alone(empty_database, version: str) -> None:
    address = empty_database()
    database = open_database(address)
    create_tables(database)
    with database.writing() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{version}'"))
    before = shape(database)
    for call in (("serve", "--port", "0"), ("migrate",)):
        ended = agency(*call, "--database", address)
        assert ended.returncode == 2, ended
        assert "Traceback" not in ended.stderr
    assert shape(database) == before
    database.engine.dispose()


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "mysql://localhost/x",
        "sqlite://",
        "sqlite:////nowhere/at/all/agency.db",
        "postgresql://zaphod:Zaphod4711@127.0.0.1:1/agency",
    ],
)
def test_addresses_that_are_refused_tell_no_password(address: str) -> None:
    for call in (("serve", "--port", "0"), ("migrate",)):
        ended = agency(*call, "--database", address)
        assert ended.returncode == 2, ended
        said = ended.stdout + ended.stderr
        assert "Traceback" not in said
        assert "Zaphod4711" not in said

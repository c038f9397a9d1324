"""The database of a service: made, brought up to date, taken back, and never guessed at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from shoal.agency.service.database import alembic_config, migrate, open_database
from shoal.agency.service.schema import metadata


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


def test_migrations_and_schema_agree(empty_database) -> None:
    database = open_database(empty_database())
    migrate(database)
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    database.engine.dispose()


def test_a_migration_is_taken_back_and_made_again(empty_database) -> None:
    database = open_database(empty_database())
    migrate(database)
    before = shape(database)
    assert len(before[1]) >= 5
    with database.writing() as connection:
        command.downgrade(alembic_config(connection), "-1")
    assert shape(database) != before
    migrate(database)
    assert shape(database) == before
    migrate(database)  # once more changes nothing
    assert shape(database) == before
    with database.writing() as connection:
        command.downgrade(alembic_config(connection), "base")
    columns, triggers = shape(database)
    assert set(columns) <= {"alembic_version"}
    assert triggers == []
    if not database.is_sqlite:
        with database.engine.connect() as connection:
            left = connection.execute(sa.text("SELECT proname FROM pg_proc WHERE proname LIKE 'shoal%'")).all()
        assert left == []
    database.engine.dispose()


def test_the_command_migrates_and_may_be_run_again(empty_database) -> None:
    database = empty_database()
    for _ in range(2):
        ended = agency("migrate", "--database", database)
        assert ended.returncode == 0, ended.stderr
        assert "Traceback" not in ended.stderr


def test_nothing_is_served_from_a_database_that_is_not_at_head(empty_database, kind: str) -> None:
    address = empty_database()
    database = open_database(address)
    migrate(database)
    with database.writing() as connection:
        command.downgrade(alembic_config(connection), "base")
    database.engine.dispose()
    for call in (("serve", "--port", "0"), ("token", "--role", "agency", "--name", "x", "--json")):
        ended = agency(*call, "--database", address)
        assert ended.returncode == 2, ended
        assert "migrate" in ended.stderr + ended.stdout
        assert "Traceback" not in ended.stderr


def test_a_database_of_a_later_version_is_refused_and_left_alone(empty_database) -> None:
    address = empty_database()
    database = open_database(address)
    migrate(database)
    with database.writing() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = 'ffff'"))
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

"""A database of each kind, the real thing: files, and a PostgreSQL on loopback that the tests start themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli import app

KINDS = ("postgresql", "sqlite", "duckdb")
SECRET = "Zaphod-4711"
N_PATIENTS = 120
POLICY = """\
attributes:
  patient: {role: identifier}
  age:     {role: quasi, taxonomy: {intervals: {min: 0, max: 120, widths: [5, 10, 20]}}}
  sex:     {role: quasi}
  town:    {role: quasi}
  disease: {role: sensitive}
  cost:    {role: insensitive}
privacy:
  - k-anonymity: {k: 4}
"""


@dataclass
class Database:
    """A database that tests fill and look into by its own client."""

    kind: str
    address: str
    execute: Callable[..., list[tuple[Any, ...]]]

    def table(self, name: str) -> str:
        """The address of one table or of a query."""
        return f"{self.address}#{name}"

    def tables(self) -> set[str]:
        """The names of all tables and views."""
        listed = {
            "postgresql": "SELECT relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
            "WHERE nspname = 'public' AND relkind IN ('r', 'v')",
            "sqlite": "SELECT name FROM sqlite_master",
            "duckdb": "SELECT table_name FROM information_schema.tables",
        }
        return {name for (name,) in self.execute(listed[self.kind])}

    def patients(self) -> list[tuple[Any, ...]]:
        """Make the table of patients and return its rows."""
        towns, diseases = ("Köln", "Bonn", "Aachen"), ("flu", "gout", "angina")
        rows = [
            (f"{SECRET}-{i}", 20 + i * 7 % 50, "FM"[i % 2], towns[i * i % 3], diseases[i % 3], i / 8)
            for i in range(N_PATIENTS)
        ]
        self.execute(
            "CREATE TABLE patients (patient text, age integer, sex text, town text, disease text, "
            "cost double precision)"
        )
        marks = ", ".join(("%s" if self.kind == "postgresql" else "?",) * 6)
        self.execute(f"INSERT INTO patients VALUES ({marks})", many=rows)
        return rows


@pytest.fixture(scope="session")
def clinic(cluster) -> str:
    """The address of a database on the server."""
    return cluster.url(cluster.new_database()).replace("+psycopg", "")


@pytest.fixture
def postgresql(clinic) -> Database:
    """The database on the server, empty."""
    import psycopg

    address = clinic

    def execute(statement, many=None):
        with psycopg.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
            if many is not None:
                cursor.executemany(statement, many)
            else:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    execute("DROP SCHEMA public CASCADE")
    execute("CREATE SCHEMA public")
    return Database("postgresql", address, execute)


@pytest.fixture
def sqlite(tmp_path) -> Database:
    """A new SQLite file."""
    path = tmp_path / "people.db"

    def execute(statement, many=None):
        connection = sqlite3.connect(path)
        try:
            with connection:
                found = connection.executemany(statement, many) if many is not None else connection.execute(statement)
                return found.fetchall()
        finally:
            connection.close()

    execute("SELECT 1")
    return Database("sqlite", f"sqlite:///{path}", execute)


@pytest.fixture
def duckdb(tmp_path) -> Database:
    """A new DuckDB file."""
    import duckdb as library

    path = tmp_path / "people.duckdb"

    def execute(statement, many=None):
        with library.connect(str(path)) as connection:
            if many is not None:
                connection.executemany(statement, many)
                return []
            return connection.execute(statement).fetchall()

    execute("SELECT 1")
    return Database("duckdb", f"duckdb:///{path}", execute)


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> Database:
    """Tests of what all databases have in common run on each."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def policy(tmp_path) -> Path:
    """The policy that fits the patients."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def shoal(tmp_path, monkeypatch) -> Callable[..., Ended]:
    """Run a command in this process, which is faster, and lets a test put faults into it."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Ended:
        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        return Ended(done.exit_code, done.stdout, done.stderr)

    return run

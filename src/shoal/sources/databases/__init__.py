"""Databases: one file for each kind."""

from __future__ import annotations

from shoal.sources.addresses import DatabaseTable
from shoal.sources.databases.base import Connection
from shoal.sources.databases.duckdb import DuckDB
from shoal.sources.databases.postgresql import PostgreSQL
from shoal.sources.databases.sqlite import SQLite

_KINDS = {kind.kind: kind for kind in (PostgreSQL, SQLite, DuckDB)}


def connect(asked: DatabaseTable, *, write: bool = False) -> Connection:
    """Open a connection with one transaction; drivers load here."""
    return _KINDS[asked.kind](asked, write=write)

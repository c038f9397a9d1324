"""Addresses of databases: what they name, and that they never show."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from shoal.core.errors import UsageError
from shoal.sources.addresses import DatabaseTable, hide_address, is_address, name_of, quote_name
from shoal.sources.opening import open_source

SERVER = "postgresql://ann:s3cret@db.example:5433/clinic?sslmode=require"


@pytest.mark.parametrize(
    ("text", "kind", "table", "query"),
    [
        (f"{SERVER}#stays", "postgresql", "stays", None),
        ("postgres://db/clinic#public.stays", "postgresql", "public.stays", None),
        ("SQLite:///stays.db#stays", "sqlite", "stays", None),
        (
            "duckdb:////data/stays.duckdb#SELECT * FROM stays WHERE id #> 1",
            "duckdb",
            None,
            "SELECT * FROM stays WHERE id #> 1",
        ),
        ("sqlite:///x.db#with q as (select 1) select * from q", "sqlite", None, "with q as (select 1) select * from q"),
        ("sqlite:///x.db#selection", "sqlite", "selection", None),
        ('sqlite:///x.db#"select x"', "sqlite", '"select x"', None),
    ],
)
def test_what_an_address_names(text, kind, table, query):
    asked = DatabaseTable.of(text)
    assert (asked.kind, asked.table, asked.query) == (kind, table, query)
    assert is_address(text)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("stays", ("stays",)),
        ("a.b", ("a", "b")),
        ('a."b.c"', ("a", "b.c")),
        ('"a""b"', ('a"b',)),
        ("my stays", ("my stays",)),
    ],
)
def test_names_of_tables(name, parts):
    assert DatabaseTable("sqlite:///x.db", table=name).parts == parts


def test_quotes_cannot_be_broken_out_of():
    asked = DatabaseTable("sqlite:///x.db", table='"a""; DROP TABLE b"')
    assert asked.relation == '"a""; DROP TABLE b"'
    assert quote_name('x"; --') == '"x""; --"'
    with pytest.raises(UsageError, match="is not a valid name"):
        DatabaseTable("sqlite:///x.db", table='a"; DROP TABLE b')


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        (SERVER, "has no table"),
        (f"{SERVER}#", "has no table"),
        (SERVER.replace("postgresql", "mysql") + "#t", "not at mysql://"),
        (SERVER.replace("postgresql", "postgresq") + "#t", "did you mean 'postgresql'"),
        (SERVER.replace("postgresql", "mysql"), "not at mysql://"),
        (f"{SERVER}#a..b", "is not a valid name"),
        ("sqlite:///#t", "has no file"),
    ],
)
def test_what_is_refused_is_not_repeated(text, stated):
    with pytest.raises(UsageError, match=stated) as refused:
        open_source(text)
    assert "s3cret" not in str(refused.value)
    assert "db.example" not in str(refused.value)


def test_nothing_shows_the_address():
    asked = DatabaseTable.of(f"{SERVER}#public.stays")
    for stated in (
        repr(asked),
        str(asked),
        f"{asked}",
        asked.name,
        repr([copy.copy(asked)]),
        hide_address(f"{SERVER}#public.stays"),
    ):
        assert "s3cret" not in stated
        assert "example" not in stated
        assert "public.stays" in stated
    assert name_of(f"{SERVER}#stays") == "PostgreSQL table 'stays'"
    assert hide_address("sqlite:///x.db#t") == "sqlite:///x.db#t"


@pytest.mark.parametrize("path", [Path(f"{SERVER}#t"), Path("/data") / f"{SERVER}#t", Path("duckdb:///x#t")])
def test_an_address_that_became_a_path_is_told_but_not_shown(path):
    with pytest.raises(UsageError, match="in place of a path") as refused:
        open_source(path)
    assert "s3cret" not in str(refused.value)

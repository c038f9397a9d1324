"""Tables of databases as sources: the same rows in the same order every time, in the types that they have."""

from __future__ import annotations

import datetime
import sys
from decimal import Decimal

import pyarrow as pa
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.sources.addresses import DatabaseTable
from shoal.sources.base import SourceOptions
from shoal.sources.databases.postgresql import PostgreSQL
from shoal.sources.opening import open_source

DAY, NOON = datetime.date(2020, 2, 29), datetime.time(12, 0, 0, 5)
MOMENT = datetime.datetime(2020, 2, 29, 23, 59, 59, 999_999)


def read(data, columns=None, **options) -> pa.Table:
    return pa.Table.from_batches(open_source(data, SourceOptions(**options)).batches(columns))


def refusal(data) -> str:
    with pytest.raises((InputError, UsageError)) as refused:
        open_source(data)
    assert refused.value.__cause__ is None
    return str(refused.value)


def test_rows_come_as_they_are(database):
    rows = database.patients()
    source = open_source(database.table("patients"))
    assert source.n_rows == len(rows)
    assert source.schema.names == ["patient", "age", "sex", "town", "disease", "cost"]
    table = pa.Table.from_batches(source.batches())
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    coded = next(source.batches(["cost", "town"], dictionary=["town"]))
    assert coded.schema.names == ["cost", "town"]
    assert coded.column("town").type == pa.dictionary(pa.int32(), pa.string())
    assert coded.column("town").to_pylist() == [row[3] for row in rows]


def test_later_passes_see_what_the_first_saw(database):
    rows = database.patients()
    source = open_source(database.table("patients"))
    digest = source.digest()
    database.execute("DELETE FROM patients WHERE age > 30")
    database.execute("UPDATE patients SET town = 'elsewhere'")
    again = [tuple(row.values()) for row in pa.Table.from_batches(source.batches()).to_pylist()]
    assert again == rows
    assert source.digest() == digest
    changed = open_source(database.table("patients"))
    assert changed.n_rows < len(rows)
    assert changed.digest() != digest


def test_names_with_anything_in_them(database):
    database.execute('CREATE TABLE "odd. ""name" ("a b" integer, "c""d" text)')
    database.execute("""INSERT INTO "odd. ""name" VALUES (1, 'x')""")
    assert read(database.table('"odd. ""name"')).to_pylist() == [{"a b": 1, 'c"d': "x"}]


def test_what_is_not_there(database):
    database.patients()
    database.execute("CREATE TABLE nobody (a integer)")
    title = DatabaseTable.of(database.table("x")).title
    assert refusal(database.table("patient")) == (
        f"the {title} database has no table 'patient'; did you mean 'patients'?"
    )
    assert refusal(database.table("nobody")) == f"{title} table 'nobody' has no rows"
    assert "nope" in refusal(database.table("SELECT nope FROM patients"))
    with pytest.raises(InputError, match=f"column 'agee' is not in {title} table 'patients'; did you mean 'age'"):
        open_source(database.table("patients")).batches(["agee"])


def test_types_of_postgresql(postgresql):
    postgresql.execute("CREATE TYPE mood AS ENUM ('ill', 'well')")
    postgresql.execute("CREATE DOMAIN plz AS char(5)")
    columns = {
        "i2 int2": (-7, pa.int16()),
        "i4 int4": (2**31 - 1, pa.int32()),
        "i8 int8": (-(2**63), pa.int64()),
        "f4 float4": (1.5, pa.float32()),
        "f8 float8": (0.1, pa.float64()),
        "n numeric": (Decimal("-123456789012345678901234567890.125"), pa.decimal128(33, 3)),
        "n2 numeric(10, 2)": (Decimal("3.50"), pa.decimal128(10, 2)),
        "n3 numeric(50, 2)": (Decimal("1" * 48 + ".25"), pa.decimal256(50, 2)),
        "b bool": (True, pa.bool_()),
        "v varchar(9)": ("ä", pa.string()),
        "z plz": ("04109", pa.string()),
        "d date": (DAY, pa.date32()),
        "t time": (NOON, pa.time64("us")),
        "ts timestamp": (MOMENT, pa.timestamp("us")),
        "tz timestamptz": (MOMENT.replace(tzinfo=datetime.UTC), pa.timestamp("us", "UTC")),
        "u uuid": ("12345678-1234-5678-1234-567812345678", pa.string()),
        "m mood": ("well", pa.string()),
    }
    postgresql.execute(f"CREATE TABLE t ({', '.join(columns)})")
    values = tuple(value for value, _ in columns.values())
    postgresql.execute(
        f"INSERT INTO t VALUES ({', '.join(['%s'] * len(values))})", many=[values, (None,) * len(values)]
    )
    table = read(postgresql.table("t"))
    assert [field.type for field in table.schema] == [kind for _, kind in columns.values()]
    assert [tuple(row.values()) for row in table.to_pylist()] == [values, (None,) * len(values)]


@pytest.mark.parametrize("kind", ["date", "timestamp"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_infinite_dates_are_refused(request, kind, value):
    for name in ("postgresql", "duckdb"):
        database = request.getfixturevalue(name)
        database.execute(f"CREATE TABLE t (d {kind})")
        database.execute(f"INSERT INTO t VALUES ('2020-01-01'), ('{value}')")
        assert "column 'd'" in refusal(database.table("t"))
        assert "infinite dates" in refusal(database.table("t"))
        assert read(database.table("SELECT d FROM t WHERE isfinite(d)")).num_rows == 1


def test_types_of_duckdb(duckdb):
    columns = {
        "i1 TINYINT": ("-7", -7, pa.int8()),
        "u1 UTINYINT": ("255", 255, pa.uint8()),
        "u8 UBIGINT": (str(2**64 - 1), 2**64 - 1, pa.uint64()),
        "h HUGEINT": ("1" * 38, Decimal("1" * 38), pa.decimal128(38, 0)),
        "f FLOAT": ("1.5", 1.5, pa.float32()),
        "d DECIMAL(10, 2)": ("3.50", Decimal("3.50"), pa.decimal128(10, 2)),
        "b BOOLEAN": ("true", True, pa.bool_()),
        "day DATE": ("'2020-02-29'", DAY, pa.date32()),
        "t TIME": ("'12:00:00.000005'", NOON, pa.time64("us")),
        "s TIMESTAMP_S": ("'2020-02-29'", datetime.datetime(2020, 2, 29), pa.timestamp("s")),
        "ts TIMESTAMP": ("'2020-02-29 23:59:59.999999'", MOMENT, pa.timestamp("us")),
        "tz TIMESTAMPTZ": (
            "'2020-02-29 23:59:59.999999+00'",
            MOMENT.replace(tzinfo=datetime.UTC),
            pa.timestamp("us", "UTC"),
        ),
        "e ENUM('ill', 'well')": ("'well'", "well", pa.string()),
        "u UUID": ("'12345678-1234-5678-1234-567812345678'", "12345678-1234-5678-1234-567812345678", pa.string()),
    }
    duckdb.execute(f"CREATE TABLE t ({', '.join(columns)})")
    duckdb.execute(f"INSERT INTO t VALUES ({', '.join(text for text, *_ in columns.values())})")
    table = read(duckdb.table("t"))
    assert [field.type for field in table.schema] == [kind for *_, kind in columns.values()]
    assert list(table.to_pylist()[0].values()) == [value for _, value, _ in columns.values()]
    duckdb.execute(f"UPDATE t SET h = {2**127 - 1}")
    assert refusal(duckdb.table("t")) == "cannot read DuckDB table 't': a value does not fit its type"


def test_what_sqlite_stores_is_read_whatever_it_declares(sqlite):
    sqlite.execute("CREATE TABLE t (a date, b integer, c text, d real, e)")
    sqlite.execute("INSERT INTO t VALUES ('2020-02-29', 7, 7, 7, NULL), (NULL, 9007199254740993, NULL, NULL, NULL)")
    table = read(sqlite.table("t"))
    assert [str(field.type) for field in table.schema] == ["string", "int64", "string", "double", "string"]
    assert table.to_pylist() == [
        {"a": "2020-02-29", "b": 7, "c": "7", "d": 7.0, "e": None},
        {"a": None, "b": 9007199254740993, "c": None, "d": None, "e": None},
    ]


@pytest.mark.parametrize(
    ("values", "stated"),
    [
        ("1), ('x'", "holds both integer and text"),
        ("2.5), (9007199254740993", "holds both fractions and integers too large for fractions"),
        ("x'00'), (NULL", "holds blob"),
    ],
    ids=["mixed", "large", "blob"],
)
def test_columns_of_sqlite_that_cannot_be_read(sqlite, values, stated):
    sqlite.execute("CREATE TABLE t (good, bad)")
    sqlite.execute(f"INSERT INTO t (bad) VALUES ({values})")
    sqlite.execute("UPDATE t SET good = 1")
    source = open_source(sqlite.table("t"))
    assert next(source.batches(["good"])).column("good").to_pylist() == [1, 1]
    with pytest.raises(InputError, match=f"column 'bad' of SQLite table 't' {stated}.*cast it in a query"):
        source.batches(["good", "bad"])


def test_queries_must_not_write(database):
    database.patients()
    query = {
        "postgresql": "WITH gone AS (DELETE FROM patients RETURNING age) SELECT * FROM gone",
        "sqlite": "SELECT 1 AS a FROM patients; DELETE FROM patients",
        "duckdb": "SELECT 1 AS a; DELETE FROM patients",
    }
    refusal(database.table(query[database.kind]))
    assert database.execute("SELECT count(*) FROM patients") == [(120,)]


def test_a_function_that_writes_is_refused(postgresql):
    postgresql.execute("CREATE TABLE log (a integer)")
    postgresql.execute(
        "CREATE FUNCTION noted() RETURNS integer LANGUAGE sql AS 'INSERT INTO log VALUES (1) RETURNING a'"
    )
    assert refusal(postgresql.table("SELECT noted() AS a")).startswith("cannot read the PostgreSQL query: ")
    assert postgresql.execute("SELECT count(*) FROM log") == [(0,)]


def test_looking_and_reading_see_the_same_moment(postgresql, monkeypatch):
    """A number with more digits, entered between the look at the digits and the reading, is not seen."""
    postgresql.execute("CREATE TABLE t (n numeric)")
    postgresql.execute("INSERT INTO t VALUES (1.5)")
    reading = PostgreSQL.read

    def later(self, columns):
        postgresql.execute("INSERT INTO t VALUES (123456.789)")
        return reading(self, columns)

    monkeypatch.setattr(PostgreSQL, "read", later)
    assert read(postgresql.table("t"))["n"].to_pylist() == [Decimal("1.5")]
    assert postgresql.execute("SELECT count(*) FROM t") == [(2,)]


def test_a_message_of_the_server_that_quotes_values_is_not_passed_on(postgresql):
    postgresql.patients()
    said = refusal(postgresql.table("SELECT patient::integer FROM patients"))
    assert said == "cannot read the PostgreSQL query: the server stopped at a row; does a cast fail?"
    said = refusal(postgresql.table("SELECT 'Zaphod'::integer AS a"))
    assert said == "cannot read the PostgreSQL query: the server reports an error (state 22P02)"


def test_files_that_are_no_databases(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n" * 100)
    for kind, title in (("sqlite", "SQLite"), ("duckdb", "DuckDB")):
        assert refusal(f"{kind}:///{tmp_path}/x.csv#t") == f"cannot open x.csv: it is not a {title} database"
        assert refusal(f"{kind}:///{tmp_path}/none.db#t") == f"there is no file {tmp_path}/none.db"
        assert not (tmp_path / "none.db").exists()


def test_servers_that_do_not_answer_or_refuse(postgresql, cluster):
    nobody = f"postgresql://ann:{'s3cret'}@127.0.0.1:1/clinic#t"
    assert refusal(nobody) == "cannot connect to the PostgreSQL server at 127.0.0.1:1: no server listens there"
    said = refusal(postgresql.table("t").replace(cluster.password, "s3cret"))
    assert "wrong user or password" in said
    said += refusal(postgresql.address + "_none#t")
    assert "the database or the user does not exist" in said
    said += refusal("postgresql://ann:s3cret@[bad/clinic#t")
    assert "s3cret" not in said
    assert cluster.password not in said


@pytest.mark.parametrize("kind", ["postgresql", "sqlite", "duckdb"])
def test_a_driver_that_is_not_installed(monkeypatch, tmp_path, kind):
    module = {"postgresql": "adbc_driver_postgresql", "sqlite": "adbc_driver_sqlite", "duckdb": "duckdb"}[kind]
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.dbapi", None)
    said = refusal(f"{kind}:///{tmp_path}/x.db#t")
    assert f"needs the package {module.replace('_', '-')}; install shoal[databases]" in said

"""New tables of databases: all rows in their order and their types, or nothing at all."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from shoal.core.errors import UsageError
from shoal.sources.addresses import TITLES
from shoal.sources.base import SourceOptions
from shoal.sources.databases.tables import write_table
from shoal.sources.opening import open_source

UTC = datetime.UTC


def rows() -> pa.Table:
    return pa.table(
        {
            "i1": pa.array([-128, None, 127], pa.int8()),
            "u2": pa.array([65535, None, 0], pa.uint16()),
            "u4": pa.array([2**32 - 1, None, 0], pa.uint32()),
            "i8": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
            "f4": pa.array([1.5, None, -0.25], pa.float32()),
            "f8": pa.array([0.1, None, 1e300], pa.float64()),
            "d": pa.array([Decimal("-1.50"), None, Decimal("999.99")], pa.decimal128(5, 2)),
            "b": pa.array([True, None, False]),
            "day": pa.array([datetime.date(1850, 1, 1), None, datetime.date(2999, 12, 31)]),
            "t": pa.array([datetime.time(23, 59, 59, 1), None, datetime.time(0)], pa.time64("us")),
            "ts": pa.array(
                [datetime.datetime(2020, 2, 29, 1), None, datetime.datetime(1970, 1, 1)], pa.timestamp("ms")
            ),
            "tz": pa.array(
                [datetime.datetime(2020, 2, 29, 1, tzinfo=UTC), None, datetime.datetime(1970, 1, 1, tzinfo=UTC)],
                pa.timestamp("us", "Europe/Berlin"),
            ),
            "s": pa.array(['it\'s; "DROP" ü\n', None, ""], pa.large_string()),
            'odd "name': pa.array(["x", None, "y"]).dictionary_encode(),
        }
    )


def test_every_type_comes_back(database):
    given = rows()
    write_table(database.table("made"), given.to_batches(), given.schema)
    back = pa.Table.from_batches(open_source(database.table("made"), SourceOptions(missing=[])).batches())
    assert back.column_names == given.column_names
    if database.kind != "sqlite":
        assert back.to_pylist() == given.to_pylist()
        return
    kept = ["i1", "u2", "u4", "i8", "f4", "f8", "s", 'odd "name']
    assert back.select(kept).to_pylist() == given.select(kept).to_pylist()
    assert back.to_pylist()[0] | dict.fromkeys(kept) == dict.fromkeys(kept) | {
        "d": "-1.50",
        "b": 1,
        "day": "1850-01-01",
        "t": "23:59:59.000001",
        "ts": "2020-02-29 01:00:00.000",
        "tz": "2020-02-29 02:00:00.000000+0100",
    }


def test_a_table_that_exists_is_left_alone(database):
    database.patients()
    with pytest.raises(UsageError, match=f"{TITLES[database.kind]} table 'patients' exists already"):
        write_table(database.table("patients"), rows().to_batches(), rows().schema)
    assert database.execute("SELECT count(*) FROM patients") == [(120,)]
    database.execute("CREATE VIEW seen AS SELECT * FROM patients")
    with pytest.raises(UsageError, match="exists already"):
        write_table(database.table("seen"), rows().to_batches(), rows().schema)


def test_rows_that_break_off_leave_no_table(database):
    def breaking():
        yield from rows().to_batches()
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_table(database.table("made"), breaking(), rows().schema)
    assert "made" not in database.tables()


def test_an_interrupt_stays_an_interrupt(database):
    def interrupted():
        yield from rows().to_batches()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_table(database.table("made"), interrupted(), rows().schema)
    assert "made" not in database.tables()


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_new_file_appears_with_its_table_or_not_at_all(tmp_path, kind):
    address = f"{kind}:///{tmp_path}/new.db#made"
    bad = (
        pa.table({"a": pa.array([1], pa.decimal256(60, 1))})
        if kind == "duckdb"
        else pa.table({"a": pa.array([2**64 - 1], pa.uint64())})
    )
    with pytest.raises(UsageError, match="column 'a' holds"):
        write_table(address, bad.to_batches(), bad.schema)
    assert list(tmp_path.iterdir()) == []
    write_table(address, rows().to_batches(), rows().schema)
    assert [path.name for path in tmp_path.iterdir()] == ["new.db"]
    assert open_source(address).n_rows == 3
    with pytest.raises(UsageError, match=r"cannot write new\.db: No such file or directory"):
        write_table(f"{kind}:///{tmp_path}/none/new.db#made", rows().to_batches(), rows().schema)


def test_values_that_a_database_cannot_keep(postgresql):
    fine = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(UsageError, match=r"column 'at' holds values that the database's timestamp\[us\] cannot keep"):
        write_table(postgresql.table("made"), fine.to_batches(), fine.schema)
    nul = pa.table({"s": ["Zaphod\0"]})
    with pytest.raises(UsageError, match="a text has a NUL character") as refused:
        write_table(postgresql.table("made"), nul.to_batches(), nul.schema)
    assert "Zaphod" not in str(refused.value)
    assert postgresql.tables() == set()

"""Files of Stata and SPSS, written by the library that reads them and checked against what went in."""

from __future__ import annotations

import datetime
import hashlib

import pyarrow as pa
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.sources import statistical
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

pyreadstat = pytest.importorskip("pyreadstat")
pandas = pytest.importorskip("pandas")

DAYS = [datetime.date(2020, 2, 29), datetime.date(1899, 12, 31), None, datetime.date(1582, 10, 15)]
MOMENTS = [
    datetime.datetime(2020, 2, 29, 13, 14, 15),
    datetime.datetime(1600, 1, 1),
    None,
    datetime.datetime(1960, 1, 1),
]
ENDINGS = ("dta", "sav", "zsav")


def frame() -> object:
    return pandas.DataFrame(
        {
            "sex": [1.0, 2.0, None, 1.0],
            "age": [34.0, 51.0, 98.0, 28.0],
            "weight": [70.5, None, 81.25, 60.0],
            "name": ["Ann", "", "Bö", "C c"],
            "day": DAYS,
            "at": pandas.Series(MOMENTS, dtype="object"),
        }
    )


@pytest.fixture
def write(tmp_path):
    def make(ending, table=None, **more):
        path = tmp_path / f"people.{ending}"
        made = frame() if table is None else table
        if ending == "dta":
            pyreadstat.write_dta(made, str(path), **more)
        else:
            pyreadstat.write_sav(made, str(path), compress=ending == "zsav", **more)
        return path

    return make


def read(path, **options) -> pa.Table:
    return pa.Table.from_batches(open_source(path, SourceOptions(**options)).batches())


def refusal(path, **options) -> str:
    with pytest.raises((InputError, UsageError)) as refused:
        open_source(path, SourceOptions(**options))
    return str(refused.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_values_labels_and_dates(write, ending, monkeypatch):
    monkeypatch.setattr(statistical, "_CHUNK_ROWS", (3, 3))
    path = write(ending, variable_value_labels={"sex": {1: "female", 2: "male", 3: "other"}})
    source = open_source(path)
    assert (source.name, source.n_rows) == (path.name, 4)
    assert source.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    table = pa.Table.from_batches(source.batches())
    assert [str(field.type) for field in table.schema][:5] == ["string", "int64", "double", "string", "date32[day]"]
    assert pa.types.is_timestamp(table.schema.field("at").type)
    assert table.to_pydict() == {
        "sex": ["female", "male", None, "female"],
        "age": [34, 51, 98, 28],
        "weight": [70.5, None, 81.25, 60.0],
        "name": ["Ann", None, "Bö", "C c"],
        "day": DAYS,
        "at": MOMENTS,
    }
    assert read(path, labels="codes")["sex"].to_pylist() == [1, 2, None, 1]


@pytest.mark.parametrize("ending", ["sav", "zsav"])
def test_user_missing_values_of_spss_are_missing(write, ending):
    labels = {"age": {98: "refused"}}
    path = write(ending, missing_ranges={"age": [{"lo": 97, "hi": 99}], "weight": [60]}, variable_value_labels=labels)
    table = read(path)
    assert table["age"].to_pylist() == [34, 51, None, 28], "only what is missing has a label: numbers"
    assert table["weight"].to_pylist() == [70.5, None, 81.25, None]


@pytest.mark.parametrize("ending", ENDINGS)
def test_two_values_never_become_one(write, ending):
    same = {"sex": {1: "person", 2: "person"}}
    assert refusal(write(ending, variable_value_labels=same)) == (
        f"two values of column 'sex' of people.{ending} have the same label; "
        "read the codes by `source: {labels: codes}`"
    )
    clash = {"age": {34: "51"}}
    assert "have the same label" in refusal(write(ending, variable_value_labels=clash))


@pytest.mark.parametrize("ending", ENDINGS)
def test_large_and_whole_numbers(write, ending):
    table = pandas.DataFrame(
        {"whole": [2.0**53, -1.0], "larger": [2.0**53 + 2, 1.0], "none": [None, None], "part": [1.0, 0.5]}
    )
    table["none"] = table["none"].astype(float)
    found = read(write(ending, table))
    assert found["whole"].to_pylist() == [2**53, -1]
    assert str(found.schema.field("whole").type) == "int64"
    assert str(found.schema.field("larger").type) == "double"
    assert str(found.schema.field("part").type) == "double"
    assert found["none"].null_count == 2


def test_dates_that_hide_a_time_of_day(write):
    for second, stated in ((1, True), (0, False)):
        table = pandas.DataFrame({"d": [86_400.0 * 150_000 + second]})
        path = write("sav", table, variable_format={"d": "DATE11"})
        if stated:
            assert "holds finer times than its format shows" in refusal(path)
        else:
            assert read(path)["d"].to_pylist() == [datetime.date(1582, 10, 14) + datetime.timedelta(150_000)]


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_that_break_off_or_are_something_else(write, tmp_path, ending):
    path = write(ending)
    whole = path.read_bytes()
    kind = "Stata" if ending == "dta" else "SPSS"
    stated = f"people.{ending} is not a readable {kind} file: it is truncated, damaged or has another format"
    for content in (whole[:-5], whole[: len(whole) // 2], whole[:60], b"a,b\n1,2\n"):
        path.write_bytes(content)
        assert refusal(path) == stated
    path.write_bytes(b"")
    assert refusal(path) == f"people.{ending} is empty"

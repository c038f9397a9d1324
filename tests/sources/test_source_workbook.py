"""Sheets of Excel files."""

from __future__ import annotations

import datetime
import hashlib

import pyarrow as pa
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

openpyxl = pytest.importorskip("openpyxl")
pytest.importorskip("python_calamine")

DAY, MOMENT, CLOCK = datetime.date(2020, 2, 29), datetime.datetime(2020, 2, 29, 13, 14, 15), datetime.time(3, 4)
HEADER = ["id", "weight", "name", "day", "at", "clock", "ok", "zip", "nothing"]
ROWS = [
    [1, 1.5, "Ann", DAY, MOMENT, CLOCK, True, "00501", None],
    [None] * 9,
    [2, None, "Bö; b", None, DAY, None, False, "7", None],
    [None, 3, None, DAY, None, CLOCK, None, None, None],
]


@pytest.fixture
def write(tmp_path):
    def make(*sheets, name="people.xlsx", merge=None):
        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets:
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
            if merge:
                sheet.merge_cells(merge)
        book.save(tmp_path / name)
        return tmp_path / name

    return make


def refusal(path, **options) -> str:
    with pytest.raises((InputError, UsageError)) as refused:
        open_source(path, SourceOptions(**options))
    return str(refused.value)


def test_every_cell_keeps_its_kind(write):
    path = write(("people", [HEADER, *ROWS]))
    source = open_source(path)
    assert source.name == "people.xlsx"
    assert source.n_rows == 3
    assert source.digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    table = pa.Table.from_batches(source.batches())
    kinds = ["int64", "double", "string", "date32[day]", "timestamp[us]", "time64[us]", "bool", "string", "string"]
    assert [str(field.type) for field in table.schema] == kinds
    midnight = datetime.datetime(2020, 2, 29)
    assert [list(row.values()) for row in table.to_pylist()] == [
        [1, 1.5, "Ann", DAY, MOMENT, CLOCK, True, "00501", None],
        [2, None, "Bö; b", None, midnight, None, False, "7", None],
        [None, 3.0, None, DAY, None, CLOCK, None, None, None],
    ]


def test_empty_cells_are_missing_whatever_means_missing(write):
    path = write(("a", [["x", "y"], ["?", 1], [None, 2]]))
    source = open_source(path, SourceOptions(missing=["?"]))
    assert next(source.batches(["x"])).column("x").to_pylist() == [None, None]


def test_the_sheet_is_chosen_not_guessed(write):
    path = write(("first", [["a"], [1]]), ("second", [["b"], [2]]), ("empty", []))
    assert refusal(path) == (
        "people.xlsx has several sheets: 'first', 'second'; choose one by `source: {sheet: name}` in the policy, or by "
        "--sheet of shoal init"
    )
    assert open_source(path, SourceOptions(sheet="second")).schema.names == ["b"]
    assert refusal(path, sheet="secnd") == "people.xlsx has no sheet 'secnd'; did you mean 'second'?"
    assert refusal(path, sheet="empty") == "people.xlsx is empty"
    one = write(("only", [["a"], [1]]), ("empty", []), name="one.xlsx")
    assert open_source(one).schema.names == ["a"]


@pytest.mark.parametrize(
    ("rows", "stated"),
    [
        ([["a"], [True], [1]], "column 'a' of people.xlsx holds numbers and truth values"),
        ([["a"], [datetime.timedelta(hours=30)]], "column 'a' of people.xlsx holds durations"),
        ([["a", None], [1, 2]], "column 2 has no name"),
        ([["a", "a"], [1, 2]], "columns with the same name: 'a'"),
        ([["a"]], "has a header but no rows"),
        ([], "people.xlsx is empty"),
    ],
    ids=["truth", "duration", "nameless", "twice", "header", "empty"],
)
def test_what_is_refused(write, rows, stated):
    assert stated in refusal(write(("a", rows)))


def test_merged_cells_are_refused(write):
    assert "has merged cells" in refusal(write(("a", [["a", "b"], ["x", 1], [None, 2]]), merge="A2:A3"))


def test_files_that_are_something_else(write, tmp_path):
    path = write(("a", [["a"], [1]]))
    whole = path.read_bytes()
    bad = tmp_path / "bad.xlsx"
    for content in (b"a,b\n1,2\n", whole[: len(whole) // 2], b"", b"PK\x03\x04" + bytes(100)):
        bad.write_bytes(content)
        assert refusal(bad) == "bad.xlsx is not a readable Excel file: it is truncated or has another format"
    bad.write_bytes(bytes.fromhex("D0CF11E0A1B11AE1") + bytes(1000))
    assert "protected by a password" in refusal(bad)


def test_cells_with_errors_are_refused_by_their_place(write):
    rows = [["a", "b"], *([i, "x"] for i in range(20_000)), ["#N/A", "x"], [3, "#DIV/0!"], [4, "y"]]
    path = write(("other", []), ("stays & more", rows))
    assert refusal(path) == (
        "sheet 'stays & more' of people.xlsx has cells with errors: #N/A in A20002, #DIV/0! in B20003; correct them, "
        "or let them mean missing by `source: {missing: ['', '#N/A']}`"
    )
    assert "errors: #DIV/0! in B20003; correct" in refusal(path, missing=["", "#N/A"])
    source = open_source(path, SourceOptions(missing=["#N/A", "#DIV/0!"]))
    table = pa.Table.from_batches(source.batches())
    assert table.column("a").to_pylist()[-3:] == [None, 3, 4]
    assert table.column("b").to_pylist()[-3:] == ["x", None, "y"]

"""Every kind of source, through the same questions."""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from shoal.core.errors import InputError, UsageError
from shoal.sources.base import SourceOptions
from shoal.sources.delimited import open_delimited
from shoal.sources.frames import like, open_arrow
from shoal.sources.opening import open_source
from shoal.sources.parquet import open_parquet

N_ROWS = 1000
CODES = pa.dictionary(pa.int32(), pa.string())
KINDS = (
    "csv",
    "csv.gz",
    "parquet",
    "folder",
    "arrow",
    "batch",
    "dictionary",
    "pandas",
    "categories",
    "polars",
    "lazy",
    "duckdb",
)


def rows() -> list[dict[str, object]]:
    return [
        {
            "id": f"{i:04d}",
            "sex": ("F", "M", None)[i % 3],
            "town": None if i % 7 == 0 else f"Köln, {i % 11}",
            "age": None if i % 5 == 0 else i % 90,
        }
        for i in range(N_ROWS)
    ]


def table() -> pa.Table:
    schema = pa.schema({"id": pa.string(), "sex": pa.string(), "town": pa.string(), "age": pa.int64()})
    return pa.Table.from_pylist(rows(), schema=schema)


def make(kind: str, folder: Path) -> object:
    content = table()
    match kind:
        case "csv" | "csv.gz":
            path = folder / f"people.{kind}"
            with pa.CompressedOutputStream(str(path), "gzip") if kind == "csv.gz" else path.open("wb") as sink:
                pyarrow.csv.write_csv(content, sink)
            return path
        case "parquet":
            pq.write_table(content, folder / "people.parquet", row_group_size=130)
            return str(folder / "people.parquet")
        case "folder":
            home = folder / "people"
            home.mkdir()
            pq.write_table(content.slice(0, 400), home / "a.parquet")
            pq.write_table(content.slice(400).select(["age", "town", "sex", "id"]), home / "b.parquet")
            (home / "_SUCCESS").touch()
            return home
        case "arrow":
            return content
        case "batch":
            return content.to_batches()[0]
        case "dictionary":
            return content.set_column(1, "sex", content["sex"].cast(pa.dictionary(pa.uint8(), pa.large_string())))
        case "pandas":
            return content.to_pandas().set_index(pandas.Index(range(N_ROWS, 2 * N_ROWS), name="row"))
        case "categories":
            return content.to_pandas().astype({"sex": "category", "id": object, "age": "Int64"})
        case "polars":
            return polars.from_arrow(content).with_columns(polars.col("sex").cast(polars.Categorical))
        case "lazy":
            return polars.from_arrow(content).lazy()
        case "duckdb":
            return duckdb.from_arrow(content)
    raise AssertionError(kind)


@pytest.fixture(params=KINDS)
def data(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    """The same people in one of the kinds."""
    return make(request.param, tmp_path)


def read(source, columns=None, dictionary=()) -> list[dict[str, object]]:
    return pa.Table.from_batches([_undecoded(b) for b in source.batches(columns, dictionary=dictionary)]).to_pylist()


def _undecoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    plain = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in batch.columns]
    return pa.record_batch(plain, names=batch.schema.names)


def as_texts(records: list[dict[str, object]]) -> list[dict[str, str | None]]:
    """CSV holds text only, and pandas turns integers with gaps into floats."""
    return [{k: v if v is None or isinstance(v, str) else str(int(v)) for k, v in record.items()} for record in records]


def test_all_rows_come_in_order_and_again(data):
    source = open_source(data)
    assert source.n_rows in (N_ROWS, None)
    assert as_texts(read(source)) == as_texts(rows())
    assert as_texts(read(source)) == as_texts(rows())


def test_columns_come_in_the_order_asked(data):
    batch = next(open_source(data).batches(["town", "id"]))
    assert batch.schema.names == ["town", "id"]
    assert batch.schema.types == [pa.string(), pa.string()]


def test_text_is_coded_where_asked(data):
    source = open_source(data)
    for batch in source.batches(["sex", "town", "age"], dictionary=["sex", "age"]):
        assert batch.schema.field("sex").type == CODES
        assert batch.schema.field("town").type == pa.string()
        entries = batch.column("sex").dictionary
        assert sorted(entries.to_pylist()) == ["F", "M"]
        assert batch.column("sex").to_pylist().count(None) == batch.column("sex").null_count
        expected = CODES if source.schema.field("age").type == pa.string() else source.schema.field("age").type
        assert batch.schema.field("age").type == expected
    coded = read(source, ["sex"], dictionary=["sex"])
    assert coded == [{"sex": row["sex"]} for row in rows()]


def test_schema_is_plain_and_without_metadata(data):
    schema = open_source(data).schema
    assert schema.names == ["id", "sex", "town", "age"]
    assert schema.types[:3] == [pa.string()] * 3
    assert schema.metadata is None
    assert all(field.metadata is None for field in schema)
    assert next(open_source(data).batches()).schema == schema


def test_texts_that_mean_missing(data):
    source = open_source(data, SourceOptions(missing=["", "M"]))
    values = {row["sex"] for row in read(source, ["sex"])}
    assert values == {"F", None}
    assert read(source, ["sex"], dictionary=["sex"]) == read(source, ["sex"])


def test_unknown_column_is_named_with_the_nearest(data):
    source = open_source(data)
    with pytest.raises(InputError, match=r"column 'twon' is not in .*; did you mean 'town'\?"):
        source.batches(["twon"])
    with pytest.raises(InputError, match="column 'se'"):
        source.batches(["sex"], dictionary=["se"])


def test_no_columns_is_an_error(data):
    with pytest.raises(UsageError, match="at least one"):
        open_source(data).batches([])


def test_digest_of_files_is_that_of_their_bytes(tmp_path):
    path = make("csv.gz", tmp_path)
    assert open_source(path).digest() == hashlib.sha256(Path(path).read_bytes()).hexdigest()
    path = make("parquet", tmp_path)
    assert open_source(path).digest() == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_digest_of_a_folder_sees_every_file(tmp_path):
    home = Path(make("folder", tmp_path))
    before = open_source(home).digest()
    (home / "b.parquet").rename(home / "c.parquet")
    renamed = open_source(home).digest()
    pq.write_table(table().slice(401), home / "c.parquet")
    assert len({before, renamed, open_source(home).digest()}) == 3


def test_digest_in_memory_knows_rows_not_chunks():
    whole = table()
    cut = pa.concat_tables([whole.slice(0, 10), whole.slice(10)])
    coded = whole.set_column(1, "sex", whole["sex"].dictionary_encode())
    digests = {open_source(t).digest() for t in (whole, cut, coded)}
    assert len(digests) == 1
    assert open_source(whole.slice(1)).digest() not in digests


@pytest.mark.parametrize("size", [64, 200, 1000, 1 << 20])
def test_block_size_of_delimited_text_changes_nothing(tmp_path, size):
    path = Path(make("csv", tmp_path))
    source = open_delimited(path, SourceOptions(), block_bytes=size)
    assert as_texts(read(source, dictionary=["sex"])) == as_texts(rows())


@pytest.mark.parametrize("size", [1, 7, 130, 1 << 20])
def test_batch_size_of_tables_changes_nothing(tmp_path, size):
    pq_source = open_parquet(Path(make("parquet", tmp_path)), SourceOptions(), batch_rows=size)
    arrow_source = open_arrow(table(), SourceOptions(), "the table", batch_rows=size)
    for source in (pq_source, arrow_source):
        assert read(source, ["sex", "age"], dictionary=["sex"]) == [
            {"sex": row["sex"], "age": row["age"]} for row in rows()
        ]


def test_not_a_number_is_missing_everywhere(tmp_path):
    content = pa.table({"x": pa.array([1.5, float("nan"), None])})
    pq.write_table(content, tmp_path / "x.parquet")
    kinds = (
        content,
        tmp_path / "x.parquet",
        content.to_pandas(),
        polars.from_arrow(content),
        duckdb.from_arrow(content),
    )
    for data in kinds:
        assert read(open_source(data)) == [{"x": 1.5}, {"x": None}, {"x": None}]


def test_types_of_pandas():
    frame = pandas.DataFrame(
        {
            "day": pandas.to_datetime(["2024-05-01", None]),
            "grade": pandas.Categorical([2, 1], categories=[1, 2, 3]),
            "nothing": pandas.Series([None, None], dtype=object),
            "truth": pandas.array([True, None], dtype="boolean"),
            "name": pandas.Series(["a", float("nan")], dtype=object),
        }
    )
    assert read(open_source(frame)) == [
        {"day": datetime.datetime(2024, 5, 1), "grade": 2, "nothing": None, "truth": True, "name": "a"},
        {"day": None, "grade": 1, "nothing": None, "truth": None, "name": None},
    ]
    assert open_source(frame).schema.field("nothing").type == pa.string()


def test_columns_that_are_not_flat_are_refused_only_when_read():
    nested = pa.table({"tags": [["a"], ["b"]], "age": [1, 2]})
    source = open_source(nested)
    assert read(source, ["age"]) == [{"age": 1}, {"age": 2}]
    with pytest.raises(InputError, match="column 'tags' of the pyarrow Table holds list"):
        source.batches()


@pytest.mark.parametrize("values", [["a", 1], [1, "a"], [True, 2], [1, 2.5, True], [{"a": 1}, "x"], [object(), 3]])
def test_mixed_column_of_pandas_is_named_without_values(values):
    frame = pandas.DataFrame({"ok": range(len(values)), "odd": pandas.Series(values, dtype=object)})
    with pytest.raises(InputError, match="column 'odd' of the pandas DataFrame mixes types") as caught:
        open_source(frame)
    assert caught.value.__cause__ is None


def test_single_pass_readers_and_strangers_are_refused():
    with pytest.raises(UsageError, match="only once"):
        open_source(table().to_reader())
    with pytest.raises(UsageError, match="type dict; give a path"):
        open_source({"a": [1]})


def test_the_same_kind_comes_back():
    result = pa.table(
        {
            "sex": pa.DictionaryArray.from_arrays(pa.array([0, 0, None], pa.int8()), ["F", "unused"]),
            "age": pa.array([1, None, 3], pa.int64()),
            "cost": [1.5, 2.5, 3.5],
        }
    ).replace_schema_metadata({"secret": "x"})
    expected = [
        {"sex": "F", "age": 1, "cost": 1.5},
        {"sex": "F", "age": None, "cost": 2.5},
        {"sex": None, "age": 3, "cost": 3.5},
    ]
    given = table()

    arrow = like(given, result)
    assert isinstance(arrow, pa.Table)
    assert arrow.schema == pa.schema({"sex": pa.string(), "age": pa.int64(), "cost": pa.float64()})
    assert arrow.schema.metadata is None
    assert arrow.to_pylist() == expected
    assert isinstance(like("people.csv", result), pa.Table)

    frame = like(given.to_pandas(), result)
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.equals(pandas.RangeIndex(3))
    assert not isinstance(frame["sex"].dtype, pandas.CategoricalDtype)
    assert frame["age"].dtype == pandas.Int64Dtype()
    assert frame["age"].isna().tolist() == [False, True, False]
    assert frame["sex"].isna().tolist() == [False, False, True]

    assert like(polars.from_arrow(given), result).to_dicts() == expected
    assert like(polars.from_arrow(given).lazy(), result).collect().to_dicts() == expected
    relation = like(duckdb.from_arrow(given), result)
    assert isinstance(relation, duckdb.DuckDBPyRelation)
    assert relation.fetchall() == [tuple(row.values()) for row in expected]


def test_opening_a_file_loads_no_data_frame_library(tmp_path):
    # pandas is not looked for: pyarrow itself loads it, where it is installed, with the first array it makes.
    path = make("csv", tmp_path)
    script = (
        "import sys; from shoal.sources.opening import open_source;"
        f"sum(b.num_rows for b in open_source({str(path)!r}).batches());"
        "print(sorted({'polars', 'duckdb'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_parquet_file_that_lost_a_column_after_it_was_opened_is_an_error(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(pa.table({"name": ["Ann"], "age": [7]}), path)
    source = open_source(path)
    pq.write_table(pa.table({"name": ["Ann"]}), path)
    with pytest.raises(InputError, match="changed while it was being read"):
        list(source.batches(["age"]))
    with pytest.raises(InputError, match="changed while it was being read"):
        list(source.batches(["age"], dictionary=["age"]))


def test_values_are_cleaned_as_options_say(tmp_path):
    options = SourceOptions(missing=["", "?"], missing_in={"rent": ["-9"]}, decimal_comma=["rent"], trim=True)
    path = tmp_path / "rents.csv"
    path.write_text("rent;code\n 1.200,50 ;-9\n-9; ? \n80; a\n12,5;a \n", encoding="utf-8")
    source = open_source(path, options)
    for coded in ((), ("rent", "code")):
        batch = next(source.batches(dictionary=coded))
        assert batch.column("rent").to_pylist() == ["1200.50", None, "80", "12.5"]
        assert batch.column("code").to_pylist() == ["-9", None, "a", "a"]
    assert batch.column("code").dictionary.to_pylist() == ["-9", "a"]


def test_numbers_that_mean_missing_are_missing():
    table = pa.table({"age": [34, 99, 51], "dose": [1.5, -9.0, 99.0]})
    source = open_source(table, SourceOptions(missing_in={"age": ["99"], "dose": ["-9"]}))
    batch = next(source.batches())
    assert batch.column("age").to_pylist() == [34, None, 51]
    assert batch.column("dose").to_pylist() == [1.5, None, 99.0]

"""Whatever the texts and numbers are, they survive being written and read."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sources.base import SourceOptions
from shoal.sources.delimited import open_delimited
from shoal.sources.opening import open_source
from shoal.sources.writers import open_writer

TEXT = st.text(
    st.one_of(
        st.sampled_from(list("\"',;|\t\n\r=@-( aß€\U0001f600\ufeff")),
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    ),
    max_size=8,
)
CELL = st.one_of(st.none(), TEXT.filter(bool))


def write(folder: str, ending: str, rows: pa.RecordBatch, cut: int) -> Path:
    path = Path(folder, f"out.{ending}")
    with open_writer(path, rows.schema, "parquet" if ending == "parquet" else "csv") as writer:
        for start in range(0, rows.num_rows, cut):
            writer.write(rows.slice(start, cut))
    return path


@given(
    records=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=20),
    ending=st.sampled_from(["csv", "csv.gz", "parquet"]),
    cut=st.integers(1, 25),
    block=st.integers(100, 400),
    coded=st.booleans(),
)
def test_texts_survive(records, ending, cut, block, coded):
    columns = [pa.array(values, pa.string()) for values in zip(*records, strict=True)]
    if coded:
        columns = [column.dictionary_encode() for column in columns]
    rows = pa.RecordBatch.from_arrays(columns, names=["a", "b, 'c\""])
    options = SourceOptions(delimiter=",")
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, ending, rows, cut)
        source = open_source(path, options) if ending == "parquet" else open_delimited(path, options, block)
        back = [tuple(row.values()) for batch in source.batches(dictionary=["a"]) for row in batch.to_pylist()]
    assert back == records


@given(
    numbers=st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), min_size=1, max_size=30),
    ending=st.sampled_from(["csv", "parquet"]),
)
def test_floats_survive_to_the_last_bit(numbers, ending):
    rows = pa.record_batch({"x": pa.array(numbers, pa.float64()), "y": ["-"] * len(numbers)})
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, ending, rows, 7)
        back = [row["x"] for batch in open_source(path).batches() for row in batch.to_pylist()]
    bits = [None if x is None else np.float64(x).tobytes() for x in numbers]
    assert [None if x is None else np.float64(x).tobytes() for x in back] == bits


@settings(max_examples=25)
@given(values=st.lists(CELL, min_size=1, max_size=12))
def test_a_single_column_keeps_its_gaps(values):
    rows = pa.record_batch({"only": pa.array(values, pa.string())})
    with tempfile.TemporaryDirectory() as folder:
        path = write(folder, "csv", rows, 5)
        source = open_source(path, SourceOptions(delimiter=","))
        assert [row["only"] for batch in source.batches() for row in batch.to_pylist()] == values


def test_no_spreadsheet_runs_what_was_a_text_and_it_is_read_as_it_was(tmp_path: Path) -> None:
    texts = ["=1+1", "@SUM(A1)", "-cmd|'/C calc'!A0", "+a(b)", "\t=1", "'=1", "-5 to 4", "-9", "'t Hart", "+49 221"]
    for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
        table = pa.table({"note": pa.array(texts).cast(kind)})
        path = tmp_path / f"{pa.types.is_dictionary(kind)}.csv"
        with open_writer(path, table.schema, "csv") as writer:
            writer.write(table.combine_chunks().to_batches()[0])
        with path.open(newline="") as file:
            written = [row[0] for row in csv.reader(file)][1:]
        assert written == [*(f"'{text}" for text in texts[:6]), *texts[6:]]
        assert next(open_source(path).batches()).column(0).to_pylist() == texts

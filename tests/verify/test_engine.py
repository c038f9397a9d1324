"""DuckDB as the verifier uses it: names and texts in statements, no other files, and a limit of memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.verify.engine import CannotCheckError, Engine, Error, name_columns, quote_name, quote_text

ODD = ["a", "A", 'a"; DROP TABLE x; --', "it's", "ä b", "\n", "select", "A (2)"]


def test_names_and_texts_are_quoted() -> None:
    names = name_columns(ODD)
    assert len({name.lower() for name in names.values()}) == len(ODD)
    with Engine() as engine:
        listed = ", ".join(f"{quote_text(text)} AS {names[text]}" for text in ODD)
        assert engine.fetch_one(f"SELECT {listed}") == tuple(ODD)
        engine.run(f"CREATE TABLE {quote_name(ODD[2])} AS SELECT 1 AS v")
        assert engine.value(f"SELECT v FROM {quote_name(ODD[2])}") == 1
    for text in ("a\0b", "\ud800"):
        with pytest.raises(CannotCheckError):
            quote_text(text)


def test_only_the_named_files_can_be_read(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.csv").write_text("a\n1\n")
    with Engine([tmp_path / "one.csv"]) as engine:
        assert engine.value(f"SELECT sum(a) FROM read_csv('{tmp_path / 'one.csv'}')") == 1
        for statement in (
            f"FROM read_csv('{tmp_path / 'two.csv'}')",
            f"COPY (SELECT 1) TO '{tmp_path / 'three.csv'}'",
            "SET enable_external_access = true",
        ):
            with pytest.raises(Error):
                engine.run(statement)


def test_errors_of_streamed_rows_come_through() -> None:
    schema = pa.schema([("a", pa.int64())])

    def read() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1, 2]})
        raise ValueError("the witness has fewer rows than the source")

    with Engine() as engine:
        with pytest.raises(ValueError, match="fewer rows"), engine.stream("rows_read", schema, read()):
            engine.value("SELECT sum(a) FROM rows_read")
        with pytest.raises(Error):
            engine.value("SELECT sum(a) FROM rows_read")

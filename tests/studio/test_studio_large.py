"""What keeps the studio quick with large tables gives the same answers as what is slow."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.core.progress import Silent
from shoal.policy import profiling
from shoal.policy.profiling import profile_columns
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.sources.parquet import open_parquet
from shoal.studio.studio import first_rows


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3,000 people in row groups of 500, so that dictionaries of batches differ."""
    rng = np.random.default_rng(5)
    ages, towns = rng.integers(0, 60, 3000), rng.integers(0, 40, 3000)
    content = {
        "age": pa.array(ages),
        "town": pa.array([None if town == 7 else f"town {town}" for town in towns]),
        "note": pa.array([f"n{i}" for i in range(3000)]),
        "illness": pa.array([f"ill {i}" for i in rng.integers(0, 5, 3000)]),
    }
    path = tmp_path_factory.mktemp("large") / "people.parquet"
    pq.write_table(pa.table(content), path, row_group_size=500)
    return path


def test_the_first_rows_are_those_of_the_file_in_one_batch_or_several(people: Path) -> None:
    expected = tuple((str(row["age"]), row["town"] or "missing") for row in pq.read_table(people).to_pylist()[:600])
    for table in (open_source(people), open_parquet(people, SourceOptions(), batch_rows=500)):
        found = first_rows(table, ["age", "town"], 600)
        assert (found.rows, found.more) == (expected, True)


def test_a_profile_does_not_depend_on_how_rows_come_in_batches(people: Path, tmp_path: Path, monkeypatch) -> None:
    whole = tmp_path / "whole.parquet"
    pq.write_table(pq.read_table(people), whole)
    monkeypatch.setattr(profiling, "_FEW", 3)
    sources = open_source(whole), open_parquet(people, SourceOptions(), batch_rows=500)
    assert [len(list(source.batches())) for source in sources] == [1, 6]
    stated = [{column.name: column for column in profile_columns(source, Silent())} for source in sources]
    for name, column in stated[0].items():
        for figure in ("kind", "n_rows", "n_missing", "n_distinct", "n_unique", "lowest", "highest"):
            assert getattr(column, figure) == getattr(stated[1][name], figure), (name, figure)


def test_a_late_value_changes_what_a_column_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "_FEW", 10)
    path = tmp_path / "late.csv"
    path.write_text("number,day\n" + "".join(f"{i},2024-01-{1 + i % 28:02}\n" for i in range(200)) + "x,never\n")
    kinds = {column.name: column.kind for column in profile_columns(open_source(path), Silent())}
    assert kinds == {"number": "text", "day": "text"}

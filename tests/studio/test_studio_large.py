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

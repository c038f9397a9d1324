"""Parquet files on Spark: workers read row groups by themselves, and notice a file that changes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.errors import InputError
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.engines.spark.engine import SparkEngine
from shoal.sources.opening import open_source
from shoal.sources.spark import source as files
from shoal.sources.spark.source import SparkFiles, open_spark_files

COLUMNS = ("illness", "age", "zip code", "sex", "cost.total")


@pytest.fixture
def folder(tmp_path: Path, people: pa.Table) -> Path:
    """The people in three files: of one, of seven and of two row groups."""
    where = tmp_path / "people"
    where.mkdir()
    for number, (start, length, group) in enumerate([(0, 400, 400), (400, 2000, 300), (2400, 600, 500)]):
        pq.write_table(people.slice(start, length), where / f"{number}.parquet", row_group_size=group)
    return where


@pytest.fixture
def source(folder: Path, spark: Any, monkeypatch: pytest.MonkeyPatch) -> SparkFiles:
    monkeypatch.setattr(files, "FEWEST_ROWS", 500)
    return open_spark_files(folder, spark)


def opened(source: SparkFiles, number: int) -> Any:
    _, form = source.select_columns(COLUMNS)
    return form.open(number, iter([]))


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[dict[str, Any]]:
    return pa.Table.from_batches(list(batches)).to_pylist()


def test_the_partitions_are_the_rows_in_their_order(source: SparkFiles, people: pa.Table) -> None:
    assert len(source.partitions) > 3
    assert max(source.partitions) <= 1000
    parts = [rows_of(opened(source, number).batches(COLUMNS)) for number in range(len(source.partitions))]
    assert tuple(map(len, parts)) == source.partitions
    whole = rows_of(open_source(people).batches(COLUMNS))
    assert [row for part in parts for row in part] == whole
    assert rows_of(source.batches(COLUMNS)) == whole


def test_spark_counts_the_very_cells_of_the_local_engine(source: SparkFiles, folder: Path) -> None:
    found = SparkEngine(1).count(source, COLUMNS, Silent())
    expected = LocalEngine(1).count(open_source(folder), COLUMNS, Silent())
    assert found.n_rows == expected.n_rows
    for place in range(len(COLUMNS)):
        assert found.dictionaries[place].values.equals(expected.dictionaries[place].values)
        assert found.codes(place).tolist() == expected.codes(place).tolist()
    assert found.run.counts.tolist() == expected.run.counts.tolist()


@pytest.mark.parametrize("change", ["longer", "later", "gone"])
def test_a_file_that_changes_before_a_task_reads_it_is_noticed(
    change: str, source: SparkFiles, folder: Path, people: pa.Table
) -> None:
    path = folder / "0.parquet"
    match change:
        case "longer":
            before = path.stat()
            pq.write_table(people.slice(0, 500), path)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case "later":
            os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
        case _:
            path.unlink()
    with pytest.raises(
        InputError, match="all workers must see it" if change == "gone" else "changed while it was being"
    ):
        SparkEngine(1).count(source, COLUMNS, Silent())


def test_a_release_of_several_partitions_and_heaps_is_verified(
    source: SparkFiles, folder: Path, policy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shoal.core import randomness

    monkeypatch.setattr(randomness, "ROWS_PER_HEAP", 700)
    wanted = policy(method={"hilbert": {}})
    first, again = (
        shoal.anonymize(str(folder), wanted, out=tmp_path / name, engine="spark", seed=4) for name in ("first", "again")
    )
    assert first.verification.verified
    assert first.evidence["seconds"].keys() == {"open", "count", "plan", "apply", "verify", "findings"}
    tables = [pq.read_table(release.data_file) for release in (first, again)]
    assert tables[0].equals(tables[1])
    assert tables[0].num_rows == first.manifest["rows"]

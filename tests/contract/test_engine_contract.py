"""What every engine must keep: the same cells and the same rewriting, however the rows come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.sources.base import Source
from shoal.sources.frames import open_arrow

ENGINES: dict[str, Callable[[], LocalEngine]] = {
    "local": LocalEngine,
    "local, one thread": lambda: LocalEngine(threads=1),
    "local, four threads": lambda: LocalEngine(threads=4),
}
COLUMNS = ("town", "age", "illness")


def table() -> pa.Table:
    rng = np.random.default_rng(21)
    n = 900
    return pa.table(
        {
            "town": pa.array([None if v == 0 else f"town {v}" for v in rng.integers(0, 30, n)]),
            "age": rng.integers(0, 12, n),
            "illness": rng.choice(["ague", "gout"], n),
            "note": [f"n{i}" for i in range(n)],
        }
    )


def arrow(folder: Path, rows: int) -> Source:
    return open_arrow(table(), shoal.SourceOptions(), "the table", rows)


def parquet(folder: Path, rows: int) -> Source:
    pq.write_table(table(), folder / "t.parquet", row_group_size=rows)
    return shoal.open_source(folder / "t.parquet")


def parts(folder: Path, rows: int) -> Source:
    for number, start in enumerate(range(0, 900, 300)):
        pq.write_table(table().slice(start, 300), folder / f"part-{number}.parquet", row_group_size=rows)
    return shoal.open_source(folder)


def delimited(folder: Path, rows: int) -> Source:
    pyarrow.csv.write_csv(table(), folder / "t.csv")
    return shoal.open_source(folder / "t.csv")


SOURCES = {"arrow": arrow, "parquet": parquet, "folder": parts, "csv": delimited}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> LocalEngine:
    return ENGINES[request.param]()


@pytest.fixture(params=[(kind, rows) for kind in SOURCES for rows in (50, 1000)], ids=str)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    kind, rows = request.param
    return SOURCES[kind](tmp_path, rows)


def cell_values(counted: Any) -> list[tuple[str, ...]]:
    columns = []
    for number, dictionary in enumerate(counted.dictionaries):
        values = [None, *dictionary.values.to_pylist()]
        columns.append([str(values[code]) for code in counted.codes(number).tolist()])
    return list(zip(*columns, strict=True))


def expected() -> list[tuple[str, ...]]:
    return [tuple(str(record[name]) for name in COLUMNS) for record in table().to_pylist()]


def test_count_and_locate_agree_with_the_rows(engine: LocalEngine, source: Source) -> None:
    counted = engine.count(source, COLUMNS, Silent())
    cells = cell_values(counted)
    assert dict(zip(cells, counted.run.counts.tolist(), strict=True)) == Counter(expected())
    located = list(engine.locate(source, counted, ["note"], Silent()))
    assert [cells[i] for batch in located for i in batch.cells.tolist()] == expected()
    assert [v for batch in located for v in batch.batch.column("note").to_pylist()] == table()["note"].to_pylist()
    assert all(batch.batch.schema.names == ["note"] for batch in located)


def test_counting_twice_gives_the_same_cells_in_the_same_order(engine: LocalEngine, source: Source) -> None:
    first, second = (engine.count(source, COLUMNS, Silent()) for _ in range(2))
    assert cell_values(first) == cell_values(second)
    assert first.layout == second.layout


def test_sources_are_not_changed(engine: LocalEngine, tmp_path: Path) -> None:
    source = arrow(tmp_path, 77)
    before = source.digest()
    counted = engine.count(source, COLUMNS, Silent())
    list(engine.locate(source, counted, ["note"], Silent()))
    assert source.digest() == before

"""One body over both engines: what is counted, what is found again, and in which order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.progress import Silent
from shoal.engines.local import CountedCells, LocalEngine
from shoal.engines.spark import engine as counting
from shoal.engines.spark.engine import SparkEngine
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.sources.spark.source import open_spark

COLUMNS = ("illness", "age", "zip code", "sex", "cost.total")
ENGINES = ("local", "spark", "spark, a deep tree")


@pytest.fixture(scope="module")
def sources(people: pa.Table, frame: Any) -> dict[str, Source]:
    in_many = frame.repartition(11)
    return {"local": open_source(people), "spark": open_spark(frame), "spark, a deep tree": open_spark(in_many)}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[LocalEngine, str]:
    if request.param == "local":
        return LocalEngine(2), request.param
    if request.param == "spark, a deep tree":
        monkeypatch.setattr(counting, "FAN_IN", 2)
    return SparkEngine(2), request.param


def cells_of(counted: CountedCells) -> Counter[tuple[Any, ...]]:
    values = [[None, *dictionary.values.to_pylist()] for dictionary in counted.dictionaries]
    codes = [counted.codes(column).tolist() for column in range(len(values))]
    found = [tuple(known[code] for known, code in zip(values, row, strict=True)) for row in zip(*codes, strict=True)]
    assert len(set(found)) == len(found)
    return Counter(dict(zip(found, counted.run.counts.tolist(), strict=True)))


def rows_of(source: Source) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(list(source.batches(COLUMNS)))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_the_cells_are_the_distinct_rows_with_their_numbers(engine, sources, people: pa.Table) -> None:
    made, name = engine
    rows = zip(*(people.column(column).to_pylist() for column in COLUMNS), strict=True)
    counted = made.count(sources[name], COLUMNS, Silent())
    assert cells_of(counted) == Counter((*row[:3], row[3] or None, row[4]) for row in rows)
    assert counted.n_rows == people.num_rows


def test_every_row_is_found_in_the_order_of_the_source(engine, sources) -> None:
    made, name = engine
    counted = made.count(sources[name], COLUMNS[:4], Silent())
    values = [[None, *dictionary.values.to_pylist()] for dictionary in counted.dictionaries]
    codes = np.stack([counted.codes(column) for column in range(4)])
    found = []
    for located in made.locate(sources[name], counted, ["cost.total"], Silent()):
        carried = located.batch.column("cost.total").to_pylist()
        cells = codes[:, located.cells].T.tolist()
        found += [
            (*(known[code] for known, code in zip(values, cell, strict=True)), cost)
            for cell, cost in zip(cells, carried, strict=True)
        ]
    assert found == rows_of(sources[name])


def test_spark_counts_the_very_cells_of_the_local_engine(sources, people: pa.Table) -> None:
    found, expected = (
        SparkEngine().count(sources["spark"], COLUMNS, Silent()),
        LocalEngine().count(sources["local"], COLUMNS, Silent()),
    )
    for column in range(len(COLUMNS)):
        assert found.dictionaries[column].values.equals(expected.dictionaries[column].values)
        assert np.array_equal(found.codes(column), expected.codes(column))
    assert np.array_equal(found.run.counts, expected.run.counts)


def test_the_digest_knows_neither_order_nor_partitions(sources, spark: Any, people: pa.Table) -> None:
    assert sources["spark"].digest() == sources["spark, a deep tree"].digest()
    changed = people.set_column(1, "age", pa.array([96, *people.column("age").to_pylist()[1:]]))
    renamed = people.rename_columns([name.replace("age", "ages") for name in people.column_names])
    digests = {open_spark(spark.createDataFrame(table)).digest() for table in (people, changed, renamed)}
    assert sources["spark"].digest() in digests
    assert len(digests) == 3


def test_a_query_that_answers_otherwise_each_time_is_asked_once(frame: Any) -> None:
    from pyspark.sql import functions

    source = open_spark(frame.select(functions.rand().alias("chance")))
    first, second = (pa.Table.from_batches(list(source.batches())) for _ in range(2))
    assert first.equals(second)

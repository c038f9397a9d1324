"""The local engine: counting and locating, against a plain Counter over the rows."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.dictionaries import GrowingDictionary
from shoal.core.errors import InputError
from shoal.core.progress import Silent
from shoal.engines.local import CountedCells, LocalEngine
from shoal.plan.cells import RunStack
from shoal.sources.base import Source, SourceOptions
from shoal.sources.columns import UNCHANGED
from shoal.sources.frames import open_arrow


def opened(table: pa.Table, batch_rows: int = 1 << 20) -> Source:
    return open_arrow(table, SourceOptions(), "the test table", batch_rows)


def mixed_table(seed: int, n: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    hole = rng.random((4, n)) < 0.1
    day = datetime.date(2020, 1, 1)
    return pa.table(
        {
            "text": pa.array([None if h else f"v{v}" for h, v in zip(hole[0], rng.integers(40, size=n), strict=True)]),
            "number": pa.array([None if h else int(v) for h, v in zip(hole[1], rng.integers(-3, 9, n), strict=True)]),
            "date": pa.array(
                [
                    None if h else day + datetime.timedelta(days=int(v))
                    for h, v in zip(hole[2], rng.integers(30, size=n), strict=True)
                ]
            ),
            "coded": pa.DictionaryArray.from_arrays(
                pa.array([None if h else int(v) for h, v in zip(hole[3], rng.integers(5, size=n), strict=True)]),
                pa.array(["a", "never used", "b", "a", None]),  # twice the same, one unused, one missing
            )
            if n
            else pa.array([], pa.string()),
        }
    )


def values_of(counted: CountedCells) -> Counter[tuple[Any, ...]]:
    columns = []
    for number, dictionary in enumerate(counted.dictionaries):
        values = [None, *dictionary.values.to_pylist()]
        columns.append([values[code] for code in counted.codes(number).tolist()])
    return Counter(dict(zip(zip(*columns, strict=True), counted.run.counts.tolist(), strict=True)))


def rows_of(table: pa.Table, columns: list[str]) -> Counter[tuple[Any, ...]]:
    plain = [table.column(name).to_pylist() for name in columns]
    return Counter(zip(*plain, strict=True))


@pytest.mark.parametrize("batch_rows", [1, 13, 250, 5000])
@pytest.mark.parametrize("columns", [["text"], ["number", "coded"], ["text", "number", "date", "coded"]])
def test_counts_are_those_of_the_rows(batch_rows: int, columns: list[str]) -> None:
    table = mixed_table(1, 700)
    counted = LocalEngine().count(opened(table, batch_rows), columns, Silent())
    assert values_of(counted) == rows_of(table, columns)
    assert counted.n_rows == 700
    assert len(set(values_of(counted))) == len(counted.run.counts)


@pytest.mark.parametrize("columns", [["text"], ["text", "number", "date", "coded"]])
def test_locate_gives_every_row_its_cell(columns: list[str]) -> None:
    table = mixed_table(2, 500)
    source = opened(table, 64)
    counted = LocalEngine().count(source, columns, Silent())
    cells = list(values_of(counted))
    located = list(LocalEngine().locate(source, counted, ["number"], Silent()))
    found = [cells[cell] for batch in located for cell in batch.cells.tolist()]
    assert found == list(zip(*(table.column(name).to_pylist() for name in columns), strict=True))
    assert [v for batch in located for v in batch.batch.column("number").to_pylist()] == table["number"].to_pylist()


def test_keys_of_more_than_one_word() -> None:
    rng = np.random.default_rng(4)
    table = pa.table({f"c{i}": rng.integers(1 << 40, size=600) for i in range(12)})
    table = pa.concat_tables([table, table.slice(0, 150)])
    source = opened(table, 100)
    counted = LocalEngine().count(source, table.column_names, Silent())
    assert counted.layout.n_words > 1
    assert values_of(counted) == rows_of(table, table.column_names)
    located = np.concatenate([b.cells for b in LocalEngine().locate(source, counted, [], Silent())])
    assert np.array_equal(np.bincount(located), counted.run.counts)
    assert np.array_equal(located[:150], located[600:])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads: int) -> None:
    source = opened(mixed_table(3, 2000), 37)
    columns = ["text", "number", "date", "coded"]
    one = LocalEngine(threads=1).count(source, columns, Silent())
    many = LocalEngine(threads=threads).count(source, columns, Silent())
    assert np.array_equal(one.run.keys, many.run.keys)
    assert np.array_equal(one.run.counts, many.run.counts)
    assert [d.values.to_pylist() for d in one.dictionaries] == [d.values.to_pylist() for d in many.dictionaries]


def test_memory_follows_the_cells_and_not_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    push = RunStack.push

    def watched(self: RunStack, run: Any) -> None:
        push(self, run)
        kept.append(sum(each.keys.nbytes + each.counts.nbytes for each in self._runs))

    monkeypatch.setattr(RunStack, "push", watched)
    n = 2_000_000
    numbers = np.arange(n, dtype=np.int32)
    table = pa.table({"a": numbers % 5, "b": numbers // 5 % 10})
    counted = LocalEngine().count(opened(table, 1 << 16), ["a", "b"], Silent())
    assert len(counted.run.counts) == 50
    assert len(kept) == -(-n // (1 << 16))
    assert max(kept) <= 4 * 50 * 16


@dataclass(frozen=True, slots=True, eq=False)
class ChangingSource(Source):
    """A source that breaks its word: every reading takes the next of its tables."""

    tables: list[pa.Table]

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        table = self.tables.pop(0) if len(self.tables) > 1 else self.tables[0]
        yield from table.select(columns).to_batches(max_chunksize=3)

    def digest(self) -> str:
        return "0" * 64


def changing(*tables: pa.Table) -> ChangingSource:
    return ChangingSource("the moving table", tables[0].schema, None, UNCHANGED, list(tables))


def test_a_value_that_was_not_there_before_is_an_error() -> None:
    source = changing(pa.table({"a": ["x", "y"]}), pa.table({"a": ["x", "secret"]}))
    counted = LocalEngine().count(source, ["a"], Silent())
    with pytest.raises(InputError, match="column 'a' changed while it was being read") as caught:
        list(LocalEngine().locate(source, counted, [], Silent()))
    assert "secret" not in str(caught.value)


def test_a_combination_that_was_not_there_before_is_an_error() -> None:
    before = pa.table({"a": ["x", "y"], "b": [1, 2]})
    source = changing(before, pa.table({"a": ["x", "y"], "b": [2, 1]}))
    counted = LocalEngine().count(source, ["a", "b"], Silent())
    with pytest.raises(InputError, match="the moving table changed while it was being read"):
        list(LocalEngine().locate(source, counted, [], Silent()))


def test_codes_never_change_once_given() -> None:
    growing = GrowingDictionary()
    assert growing.size == 1
    assert growing.codes(pa.array(["a", "b"])).tolist() == [1, 2, 0]
    assert growing.codes(pa.array(["c", "a"])).tolist() == [3, 1, 0]
    assert growing.codes(pa.array([], pa.string())).tolist() == [0]
    assert growing.values.to_pylist() == ["a", "b", "c"]
    assert growing.lookup(pa.array(["c", "b"]), "column").tolist() == [3, 2, 0]
    assert growing.size == 4

"""A task that runs twice makes the same rows; another run or partition draws others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.errors import InputError
from shoal.sources.spark import shipping
from shoal.spark import rewriting
from shoal.spark.quotas import PartitionQuotas
from shoal.spark.rewriting import RewritePartition

pytestmark = pytest.mark.xdist_group("spark")
COLUMNS = ["illness", "age", "zip code", "sex", "cost.total", "seen"]  # what a task is given of a row


@pytest.fixture
def work(spark: Any, people: pa.Table, policy, monkeypatch: pytest.MonkeyPatch) -> RewritePartition:
    """The work on a table of one partition, in which some cells split over classes."""
    found = []
    made = rewriting.partition_work
    monkeypatch.setattr(rewriting, "partition_work", lambda *given: found.append(made(*given)) or found[-1])
    alike = pa.concat_tables([people.slice(0, 60)] * 6)
    relaxed = policy(method={"mondrian": {"cuts": "relaxed"}})
    shoal.anonymize(spark.createDataFrame(alike).coalesce(1), relaxed, seed=3)  # without one, cells split by chance
    ((_, work),) = found
    assert len(work.assignment.split_cells) > 0
    return work


@pytest.fixture
def batches(people: pa.Table) -> list[pa.RecordBatch]:
    alike = pa.concat_tables([people.slice(0, 60)] * 6).select(COLUMNS)
    return alike.combine_chunks().to_batches(max_chunksize=100)


def rows_of(work: RewritePartition, number: int, batches: list[pa.RecordBatch]) -> pa.Table:
    def given() -> Iterator[pa.RecordBatch]:
        yield from batches

    return pa.Table.from_batches(list(work(number, given())))


def test_a_task_that_runs_twice_deals_and_orders_alike(work, batches) -> None:
    assert rows_of(work, 0, batches).equals(rows_of(work, 0, batches))


def test_other_secrets_deal_and_order_otherwise(work, batches) -> None:
    first, other = rows_of(work, 0, batches), rows_of(replace(work, secret=bytes(32)), 0, batches)
    key = str(first.num_columns - 1)
    assert not first.column(key).equals(other.column(key))
    labels = [str(work.names.index(name)) for name in ("age", "zip code", "sex")]
    assert not first.select(labels).equals(other.select(labels))
    assert Counter(map(str, first.select(labels).to_pylist())) == Counter(map(str, other.select(labels).to_pylist()))


def test_another_partition_draws_other_keys(work, batches) -> None:
    moved = replace(work, quotas={3: work.quotas[0]})
    key = str(len(work.names))
    assert not rows_of(work, 0, batches).column(key).equals(rows_of(moved, 3, batches).column(key))


def test_keys_do_not_repeat_from_batch_to_batch(work, batches, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "CHUNK_ROWS", 100)
    keys = rows_of(work, 0, batches).column(str(len(work.names))).to_pylist()
    assert len(set(keys)) == len(keys)


def test_a_partition_with_more_rows_of_a_split_cell_than_it_counted_stops(work, batches) -> None:
    few = PartitionQuotas(work.quotas[0].places, np.maximum(work.quotas[0].records - 1, 0))
    with pytest.raises(InputError, match="changed while it was being read"):
        rows_of(replace(work, quotas={0: few}), 0, batches)


def test_a_partition_without_rows_publishes_none(work) -> None:
    assert list(work(5, iter([]))) == []

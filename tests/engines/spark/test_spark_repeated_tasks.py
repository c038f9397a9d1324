"""A task that runs twice makes the same rows; another run, partition or heap draws others."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.errors import InputError
from shoal.engines.spark import rewriting
from shoal.engines.spark.rewriting import PartitionQuotas, RewritePartition, order_rows, scatter
from shoal.sources.spark.shipping import PartitionForm

COLUMNS = ["illness", "age", "zip code", "sex", "cost.total", "seen"]  # what a task is given of a row


@pytest.fixture(scope="module")
def work(spark: Any, people: pa.Table, policy) -> RewritePartition:
    """The work on a table of one partition, in which some cells split over classes."""
    found = []
    made = rewriting.prepare_partition_work
    alike = pa.concat_tables([people.slice(0, 60)] * 6)
    split = policy(method={"sweep": {"defend": False}})  # the default sweep keeps cells whole
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "prepare_partition_work", lambda *given: found.append(made(*given)) or found[-1])
        shoal.anonymize(spark.createDataFrame(alike).coalesce(1), split, seed=3)  # without one, cells split by chance
    ((_, work),) = found
    assert len(work.planned.value.assignment.split_cells) > 0
    assert work.form.schema.names == COLUMNS
    return replace(
        work, form=PartitionForm("people", work.form.schema, work.form.cleaning)
    )  # rows as they are, not packed


@pytest.fixture
def batches(people: pa.Table) -> list[pa.RecordBatch]:
    alike = pa.concat_tables([people.slice(0, 60)] * 6).select(COLUMNS)
    return alike.combine_chunks().to_batches(max_chunksize=100)


def rows_of(work: RewritePartition, number: int, batches: list[pa.RecordBatch]) -> list[tuple[int, dict[str, Any]]]:
    """Return where the rows of a partition go, and what of them."""

    def given() -> Iterator[pa.RecordBatch]:
        yield from batches

    return [(heap, row) for heap, rows in work(number, given()) for row in rows.to_pylist()]


@pytest.fixture
def numbered(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The rows with another date each, by which they are told apart."""
    table = pa.Table.from_batches(batches).drop_columns(["seen"])
    seen = [datetime.datetime.fromtimestamp(60 * place, datetime.UTC) for place in range(table.num_rows)]
    return table.append_column("seen", pa.array(seen, pa.timestamp("us", "UTC"))).to_batches()


def test_a_task_that_runs_twice_deals_and_scatters_alike(work, numbered) -> None:
    assert rows_of(work, 0, numbered) == rows_of(work, 0, numbered)


def test_a_partition_with_more_rows_of_a_split_cell_than_it_counted_stops(work, batches) -> None:
    few = PartitionQuotas(work.quotas[0].places, np.maximum(work.quotas[0].records - 1, 0))
    with pytest.raises(InputError, match="changed while it was being read"):
        rows_of(replace(work, quotas={0: few}), 0, batches)


def test_a_heap_is_put_in_the_same_order_twice_and_another_in_another() -> None:
    rows = [pa.RecordBatch.from_pydict({"row": list(range(start, start + 50))}) for start in (0, 50)]
    first, again, other, elsewhere = (
        pa.Table.from_batches(list(order_rows(rows, secret, heap))).column("row").to_pylist()
        for secret, heap in ((b"a", 0), (b"a", 0), (b"b", 0), (b"a", 1))
    )
    assert first == again
    assert sorted(first) == sorted(other) == sorted(elsewhere) == list(range(100))
    assert len({tuple(order) for order in (first, other, elsewhere, range(100))}) == 4


def test_every_order_is_as_likely_as_any_other() -> None:
    """Three rows of two partitions in two heaps; beyond 60 with five degrees of freedom: once in 10**11 runs."""
    found: Counter[tuple[int, ...]] = Counter()
    n_runs = 1_200
    for run in range(n_runs):
        heaps: dict[int, list[pa.RecordBatch]] = {0: [], 1: []}
        for partition, rows in enumerate(([0, 1], [2])):
            batch = pa.RecordBatch.from_pydict({"row": rows})
            for heap, some in scatter(batch, 2, b"%d" % run, partition, 0):
                heaps[heap].append(some)
        ordered = [batch for heap, rows in heaps.items() for batch in order_rows(rows, b"%d" % run, heap)]
        found[tuple(pa.Table.from_batches(ordered).column("row").to_pylist())] += 1
    expected = n_runs / 6
    assert len(found) == 6
    assert sum((number - expected) ** 2 / expected for number in found.values()) < 60

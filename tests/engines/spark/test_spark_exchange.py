"""Pieces on their way between tasks and to the driver: each arrives once, where it was sent, in an order that stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.errors import UsageError
from shoal.engines.spark.engine import make_ready
from shoal.sources.spark import session as starting
from shoal.sources.spark import shipping
from shoal.sources.spark.shipping import digest_of, exchange, hold, pieces_of, receive, route, stream_pieces

N_PARTITIONS, N_ROWS, N_DESTINATIONS = 4, 100, 3


def sends(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for _ in batches:
        rows = np.arange(N_ROWS) + N_ROWS * number
        for destination in range(N_DESTINATIONS):
            yield destination, pa.RecordBatch.from_pydict({"row": rows[rows % N_DESTINATIONS == destination]})


def receives(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for partition, batch in receive(batches):
        n_rows = batch.num_rows
        yield pa.RecordBatch.from_pydict(
            {"at": [number] * n_rows, "from": [partition] * n_rows, "row": batch.column("row")}
        )


def numbers(spark: Any) -> Any:
    return spark.range(0, N_PARTITIONS, 1, N_PARTITIONS)


def test_every_row_arrives_once_where_it_was_sent_in_the_order_of_partitions(spark: Any) -> None:
    pieces = pieces_of(exchange(route(numbers(spark), sends), N_DESTINATIONS), receives)
    found = pa.Table.from_batches([batch for _, batch in stream_pieces(pieces)]).to_pylist()
    assert sorted(row["row"] for row in found) == list(range(N_PARTITIONS * N_ROWS))
    for destination in range(N_DESTINATIONS):
        rows = [row["row"] for row in found if row["at"] == destination]
        assert rows == list(range(destination, N_PARTITIONS * N_ROWS, N_DESTINATIONS))
    assert all(row["from"] == row["row"] // N_ROWS for row in found)


def two_batches(number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        yield pa.RecordBatch.from_pydict({"id": [100 + number] * number})


@pytest.mark.parametrize("group_bytes", [1, 600, 1 << 20])
def test_the_driver_gets_all_pieces_in_order_however_few_at_a_time(
    group_bytes: int, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_GROUP_BYTES", group_bytes)
    with hold(pieces_of(numbers(spark), two_batches)) as waiting:
        assert waiting.numbers == tuple(range(N_PARTITIONS))
        assert waiting.entries == tuple(1 + number for number in range(N_PARTITIONS))
        found = [(number, batch.column("id").to_pylist()) for number, batch in waiting.batches()]
        first = next(waiting.batches())
    expected = [(number, ids) for number in range(N_PARTITIONS) for ids in ([number], [100 + number] * number)]
    assert found == expected
    assert first[0] == 0


def test_sums_of_hashes_are_exact_and_tell_pieces_apart() -> None:
    full = np.full(8, 2**64 - 1, dtype=np.uint64).tobytes()
    once, twice = digest_of(["age"], 2, [full]), digest_of(["age"], 2, [full, full])
    assert once != twice
    assert digest_of(["age"], 2, [full, bytes(64)]) == once
    assert len({once, digest_of(["ages"], 2, [full]), digest_of(["age"], 3, [full])}) == 3


def test_workers_with_another_version_are_refused(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_ready(spark)
    monkeypatch.setattr("shoal.__version__", "99.1")
    with pytest.raises(UsageError, match=r"needs shoal 99\.1, as the driver has it; found: "):
        make_ready(spark)


def test_only_a_spark_of_this_machine_listens_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    for master, expected in (("local[2]", "127.0.0.1"), ("spark://host:7077", None)):
        with starting._listening_on_loopback(master):
            assert starting.os.environ.get("SPARK_LOCAL_IP") == expected
        assert "SPARK_LOCAL_IP" not in starting.os.environ
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.5")
    with starting._listening_on_loopback("local[2]"):
        assert starting.os.environ["SPARK_LOCAL_IP"] == "127.0.0.5"

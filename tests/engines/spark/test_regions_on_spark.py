"""Tables with more cells than the driver holds: sampled, routed, planned and put in order where the workers are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.core.errors import InputError, UnreachableError
from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine, SampledCells
from shoal.engines.regions.budget import Budget
from shoal.engines.regions.planning import Division
from shoal.engines.spark import regions as regional
from shoal.engines.spark.engine import SparkEngine, count_partitions
from shoal.engines.spark.regions import (
    COUNTS,
    FINDINGS,
    PlanRegion,
    RoutePartition,
    add_counts,
    read_findings,
)
from shoal.engines.spark.rewriting import OrderHeap
from shoal.plan.counted import Thinning
from shoal.policy.policy import Policy
from shoal.release.publication import column_regions
from shoal.release.release import Release
from shoal.sources.base import SourceOptions
from shoal.sources.columns import UNCHANGED
from shoal.sources.frames import open_arrow
from shoal.sources.opening import open_source
from shoal.sources.spark.shipping import PartitionForm, pack_message, receive
from shoal.sources.spark.source import open_spark
from shoal.verify.verifier import verify

N_ROWS = 3000
DRIVER = Path(__file__).with_name("driving_regions.py")
ATTRIBUTES: dict[str, Any] = {
    "id": {"role": "insensitive"},
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}}},
    "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
    "sex": {"role": "quasi"},
    "illness": {"role": "sensitive"},
    "ward": {"role": "sensitive"},
}
K: list[dict[str, Any]] = [{"k-anonymity": {"k": 5}}]
RELATIVE: list[dict[str, Any]] = [
    {"t-closeness": {"t": 0.35, "distance": "equal", "attribute": "illness"}},
    {"beta-likeness": {"beta": 3.0, "attribute": "illness"}},
    {"distinct-l-diversity": {"l": 4, "attribute": ["illness", "ward"]}},
]
ASKED: dict[str, dict[str, Any]] = {
    "auto": {"privacy": K},
    "mondrian": {"privacy": RELATIVE},
    "hilbert": {"privacy": K, "missing": "drop", "max_withheld": 0.04},
    "sweep": {"privacy": [{"tau-l-diversity": {"tau": 0.5, "l": 2, "attribute": "illness"}}, *K]},
    "plain": {"privacy": []},
}


def asked(method: str, /, **other: Any) -> dict[str, Any]:
    return {"attributes": ATTRIBUTES, "privacy": K, "method": {method: {}}} | other


def crowd(seed: int, n_rows: int = N_ROWS, *, flu: float = 0.0) -> pa.Table:
    """Records of which nearly each is a combination of its own; *flu* is what a share of them has besides."""
    rng = np.random.default_rng(seed)

    def holed(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(n_rows) < 0.03)

    illness = rng.choice(["flu", "gout", "cold", "grief", "panic"], n_rows).astype(object)
    return pa.table(
        {
            "id": pa.array(np.arange(n_rows)),
            "age": holed(rng.integers(0, 100, n_rows)),
            "zip": holed(np.char.zfill(rng.integers(0, 3000, n_rows).astype(str), 4).astype(object)),
            "sex": holed(rng.choice(["f", "m", "x"], n_rows, p=[0.49, 0.49, 0.02]).astype(object)),
            "illness": pa.array(np.where(rng.random(n_rows) < flu, "flu", illness).astype(object)),
            "ward": pa.array(rng.choice(["a", "b", "c"], n_rows).astype(object)),
        }
    )


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> Budget:
    """So little memory that the table does not fit."""
    few = Budget(1 << 30, cells=1_500, sample=800, region_rows=700, heap_rows=700, threads=2)
    monkeypatch.setattr(Budget, "of", classmethod(lambda cls, *_: few))
    return few


def check_records(table: pa.Table, release: Release, data: pa.Table) -> None:
    """Every published row has the sensitive values of the source's row of the same number, or labels over these."""
    ids = data["id"].to_numpy()
    assert len(np.unique(ids)) == len(ids) == release.manifest["rows"]
    assert len(ids) + release.manifest["withheld"] + release.manifest["missing"]["dropped"] == table.num_rows
    for name in ("illness", "ward"):
        labels = release.manifest["attributes"][name].get("labels", {})
        own, shown = table[name].take(pa.array(ids)).to_pylist(), data[name].to_pylist()
        assert all(
            value in labels.get(text, {"values": [text]})["values"] for value, text in zip(own, shown, strict=True)
        )


def refuse_to_read(*_: object) -> Iterator[Any]:
    raise AssertionError("rows were read through the driver")


@pytest.mark.thorough
@pytest.mark.parametrize("method", [name for name in ASKED if name != "mondrian"])  # of which the next test is
def test_a_frame_is_planned_by_regions_where_its_partitions_are(
    spark: Any, few: Budget, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = crowd(4, flu=0.6 if method == "sweep" else 0)
    frame = spark.createDataFrame(table).repartition(3)
    monkeypatch.setattr(LocalEngine, "locate_keys", refuse_to_read)
    release = shoal.anonymize(frame, asked(method, **ASKED[method]))
    assert release.verification.verified
    assert release.evidence["search"]["regions"] >= 2
    data = release.data.toArrow()
    check_records(table, release, data)
    if method == "hilbert":
        assert 0 < release.manifest["withheld"] <= 0.04 * N_ROWS
        assert release.manifest["missing"]["dropped"] == N_ROWS - table.drop_null().num_rows > 0
    if method == "sweep":
        assert release.evidence["generalized_sensitive"]["illness"] > 0
        assert set(data["illness"].to_pylist()) == set(release.manifest["attributes"]["illness"]["labels"])
    if method == "plain":
        assert data.sort_by("id").to_pylist() == table.to_pylist()


def test_the_same_sample_gives_the_regions_and_rows_of_the_local_engine(
    spark: Any, few: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strict mondrian draws nothing, so that all that differs is the order of the rows."""
    table = crowd(5)
    looked = sampled_of(table, few)
    monkeypatch.setattr(LocalEngine, "look", lambda *_: looked)
    monkeypatch.setattr(SparkEngine, "look", lambda *_: looked)
    wanted = asked("mondrian", privacy=RELATIVE, max_withheld=0.02)
    local = run(table, wanted, Options(seed=None, budget=few), Silent())
    monkeypatch.setattr(LocalEngine, "locate_keys", refuse_to_read)
    release = shoal.anonymize(spark.createDataFrame(table).repartition(3), wanted)
    assert release.verification.verified
    assert release.evidence["search"]["regions"] >= 2
    check_records(table, release, release.data.toArrow())
    assert release.manifest == local.manifest
    assert release.evidence["search"] == local.evidence["search"]
    assert release.evidence["risk_after"] == local.evidence["risk_after"]
    assert release.evidence["risk_before"] == local.evidence["risk_before"]
    rows = [Counter(map(str, data.to_pylist())) for data in (local.data, release.data.toArrow())]
    assert rows[0] == rows[1]


def test_rows_that_get_lost_before_they_are_counted_are_noticed(spark: Any, few: Budget, monkeypatch: Any) -> None:
    real = regional.collect_messages
    monkeypatch.setattr(regional, "collect_messages", lambda *given: dict(list(real(*given).items())[1:]))
    with pytest.raises(InputError, match="nothing was published"):
        shoal.anonymize(spark.createDataFrame(crowd(7)).repartition(2), asked("mondrian"))


def test_workers_and_driver_stop_counting_where_there_are_too_many_cells(spark: Any) -> None:
    """A hundred and forty cells, of which a hundred are in several of four partitions."""
    numbers = [[*range(100), *range(100 + 10 * part, 110 + 10 * part)] for part in range(4)]
    table = pa.table({"number": pa.array([number for some in numbers for number in some])})
    source = open_spark(spark.createDataFrame(table).repartition(4))
    for most, found in ((140, 140), (139, None), (3, None)):
        counted = count_partitions(source, ["number"], most)
        assert (None if counted is None else len(counted.run.counts)) == found


@pytest.mark.thorough
def test_a_worker_that_is_lost_while_regions_are_planned_is_made_up_for(
    job: Any, master: str, start_worker: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    worker = start_worker()
    where = [str(tmp_path / name) for name in ("people", "policy.json", "out")]
    done = job(sys.executable, str(DRIVER), master, *where, str(os.getpgid(worker.pid)))
    assert worker.wait(timeout=5) == -signal.SIGKILL
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert int(done.stdout) >= 2
    assert verify(tmp_path / "out", source=open_source(tmp_path / "people")).verified


# The tasks by themselves, without Spark: what they are sent is packed here, and arrives in any order.


def sampled_of(table: pa.Table, budget: Budget) -> SampledCells:
    names = [*("illness", "ward"), *("age", "zip", "sex")]
    thinning = Thinning(budget.cells, budget.sample, lambda: np.random.default_rng(1))
    looked = LocalEngine(1).look(open_arrow(table, SourceOptions(), "people", 900), names, Silent(), thinning)
    assert isinstance(looked, SampledCells)
    return looked


def parts_of(table: pa.Table, n_parts: int) -> list[list[pa.RecordBatch]]:
    size = -(-table.num_rows // n_parts)
    return [table.slice(size * part, size).combine_chunks().to_batches(max_chunksize=300) for part in range(n_parts)]


def form_of(table: pa.Table) -> PartitionForm:
    return PartitionForm("people", table.schema, UNCHANGED)


Pieces = list[tuple[int, int, int, pa.RecordBatch]]


def made(work: Any, parts: list[Any]) -> Pieces:
    """Return what the tasks of all parts send: from where, its how manieth, where to, and what."""
    return [
        (number, place, destination, batch)
        for number, part in enumerate(parts)
        for place, (destination, batch) in enumerate(work(number, iter(part)))
    ]


def arrived(pieces: Pieces, destination: int, seed: int = 0) -> list[pa.RecordBatch]:
    """Return the pieces for one task as Spark hands them over, in an order of chance."""
    mine = [(number, place, pack_message(batch)) for number, place, to, batch in pieces if to == destination]
    np.random.default_rng(seed).shuffle(mine)
    names = ["partition", "place", "message"]
    return [pa.RecordBatch.from_pylist([dict(zip(names, piece, strict=True))]) for piece in mine]


class Planned:
    """A table that is routed and planned by hand."""

    def __init__(self, budget: Budget, **other: Any) -> None:
        alike = pa.concat_tables([crowd(8, N_ROWS // 6)] * 6)  # so that cells split over classes
        self.table = alike.set_column(0, "id", pa.array(np.arange(N_ROWS)))
        self.policy = Policy.load(asked("mondrian", **other))
        looked = sampled_of(self.table, budget)
        self.division = Division.of(self.policy, looked, budget)
        columns = [*looked.columns, "id"]
        parts = parts_of(self.table.select(columns), 3)
        self.route = RoutePartition(
            form_of(self.table.select(columns)), looked, self.division.router(), ("id",), (1000, 1000, 1000)
        )
        self.routed = made(self.route, parts)
        self.counts = self.division.router().counts()
        for message in [batch for *_, to, batch in self.routed if to == COUNTS]:
            add_counts(self.counts, message)
        self.regions = self.division.settle(self.counts)
        self.work = PlanRegion(self.division.planner(self.counts), self.regions, 4, b"secret")
        region_of = {leaf: number for number, region in enumerate(self.regions) for leaf in region.leaves}
        self.sent = [(*piece[:2], region_of[piece[2]], piece[3]) for piece in self.routed if piece[2] != COUNTS]

    def plan(self, work: PlanRegion, seed: int = 0) -> Pieces:
        return made(work, [arrived(self.sent, number, seed) for number in range(len(self.regions))])


@pytest.fixture(scope="module")
def planned() -> Planned:
    budget = Budget(1 << 30, cells=400, sample=300, region_rows=700, heap_rows=100, threads=1)
    return Planned(budget, method={"hilbert": {}}, privacy=[{"k-anonymity": {"k": 7}}])


def packed(pieces: Pieces) -> list[tuple[int, int, int, bytes]]:
    return [(*where, pack_message(batch)) for *where, batch in pieces]


def test_a_partition_with_other_rows_than_it_had_stops(planned: Planned) -> None:
    fewer = replace(planned.route, n_rows=(999, 1000, 1000))
    columns = [*planned.route.looked.columns, "id"]
    with pytest.raises(InputError, match="changed while it was being read"):
        list(fewer(0, iter(parts_of(planned.table.select(columns), 3)[0])))


def test_a_task_that_runs_twice_plans_deals_and_orders_alike(planned: Planned) -> None:
    once = planned.plan(planned.work)
    rows = [piece for piece in packed(once) if piece[2] != FINDINGS]
    for seed in range(1, 6):
        again = planned.plan(planned.work, seed)
        assert rows == [piece for piece in packed(again) if piece[2] != FINDINGS]
    other = planned.plan(replace(planned.work, secret=b"another"))
    assert packed(other) != packed(once)


def test_the_rows_of_all_heaps_are_those_of_the_source_under_labels_that_cover_them(planned: Planned) -> None:
    pieces = planned.plan(planned.work)
    findings = reduce(add, [read_findings(batch) for *_, to, batch in pieces if to == FINDINGS])
    columns = column_regions(planned.policy, planned.division.trees, planned.route.looked, findings)
    order = OrderHeap(b"secret")
    ids: list[int] = []
    for heap in range(4):
        (rows,) = order(heap, iter(arrived(pieces, heap)))
        for seed in range(1, 6):
            assert list(order(heap, iter(arrived(pieces, heap, seed)))) == [rows]
        published = columns.publish(pa.table(rows), ["age", "zip", "sex", "illness", "ward", "id"])
        ids += published["id"].to_pylist()
        own = planned.table.take(published["id"])
        assert published["illness"].to_pylist() == own["illness"].to_pylist()
        for name in ("age", "sex"):
            covers = columns.entries[name]["labels"]
            for label, value in zip(published[name].to_pylist(), own[name].to_pylist(), strict=True):
                assert covered(value, covers[label])
        sent = [number for _, batch in receive(arrived(pieces, heap)) for number in batch["id"].to_pylist()]
        assert rows["id"].to_pylist() != sent  # by region and batch they would tell where they lie
        assert sorted(rows["id"].to_pylist()) == sorted(sent)
    assert len(set(ids)) == len(ids) == findings.n_records - findings.n_withheld


def covered(value: Any, cover: dict[str, Any]) -> bool:
    if "any" in cover:
        return True
    if value is None:
        return bool(cover.get("missing"))
    return value in cover["values"] if "values" in cover else cover["from"] <= value < cover["below"]


def test_rows_that_get_lost_on_the_way_to_a_region_are_noticed(planned: Planned) -> None:
    message = next(iter(planned.work(0, iter(arrived(planned.sent, 0)[1:]))))[1]
    with pytest.raises(InputError, match="lost on their way"):
        read_findings(message)


def test_what_a_region_is_refused_for_reaches_the_driver(planned: Planned, monkeypatch: Any) -> None:
    def unreachable(*_: object) -> None:
        raise UnreachableError("too few")

    monkeypatch.setattr(type(planned.policy.method), "plan", unreachable)
    ((destination, message),) = planned.work(0, iter(arrived(planned.sent, 0)))
    assert destination == FINDINGS
    with pytest.raises(UnreachableError, match="in a region of a table larger than memory: too few"):
        read_findings(message)

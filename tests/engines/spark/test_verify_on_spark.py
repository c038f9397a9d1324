"""Workers that check a release give the answer that the verifier gives alone, on honest and on spoiled releases."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError
from shoal.manifest import PAGES, unpack_labels
from shoal.reports.pages import public_report
from shoal.sources.base import SourceOptions
from shoal.sources.columns import UNCHANGED
from shoal.sources.frames import open_arrow
from shoal.sources.opening import open_source
from shoal.sources.spark import shipping
from shoal.sources.spark.shipping import PartitionForm, pack_message, unpack_message
from shoal.sources.spark.source import SparkSource, open_spark, open_spark_files
from shoal.verify import passes
from shoal.verify import spark as checking
from shoal.verify.cells import CellFile, Counting
from shoal.verify.coding import ReleaseCoder
from shoal.verify.manifest import read_manifest
from shoal.verify.passes import Means, Reader
from shoal.verify.result import Verification
from shoal.verify.spark import SparkFileRows, SparkRows
from shoal.verify.verifier import verify, verify_table

DRIVER = Path(__file__).with_name("driving_verify.py")
Starter = Callable[[], subprocess.Popen[bytes]]
N = 900
K = {"k-anonymity": {"k": 4}}
RELATIVE = [
    K,
    {"t-closeness": {"t": 0.6, "attribute": "illness"}},
    {"beta-likeness": {"beta": 3.5, "attribute": "illness"}},
    {"distinct-l-diversity": {"l": 3, "attribute": ["illness", "ward"]}},
]
CASES: dict[str, dict[str, Any]] = {
    "relative models": {"method": {"mondrian": {"labels": "ranges"}}, "privacy": RELATIVE},
    "rows dropped": {"method": {"mondrian": {}}, "privacy": [K], "missing": "drop"},
    "boxes that overlap": {"method": {"hilbert": {}}, "privacy": [K, {"entropy-l-diversity": {"l": 1.5}}]},
    "labels of one level": {"method": {"incognito": {}}, "privacy": [K]},
    "generalized illnesses": {"method": {"sweep": {"improve": False}}, "privacy": [K]},
    "averages": {"method": {"microaggregation": {}}, "privacy": [K]},
    "no labels": {"method": {"plain": {}}, "privacy": []},
}
MANY_CLASSES = ("relative models", "rows dropped", "boxes that overlap")  # more than a little memory holds


def people(seed: int, n_rows: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)

    def holed(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(n_rows) < 0.02)

    return pa.table(
        {
            "cost": holed(rng.normal(100, 20, n_rows).round(1)),
            "note": pa.array(rng.choice(["a", "b", ""], n_rows).astype(object)),
            "age": holed(rng.integers(18, 90, n_rows)),
            "zip": holed(np.char.zfill(rng.integers(0, 400, n_rows).astype(str), 4).astype(object)),
            "sex": pa.array(rng.choice(["f", "m"], n_rows).astype(object)),
            "illness": holed(rng.choice(["flu", "gout", "cold", "grief"], n_rows).astype(object)),
            "ward": pa.array(rng.integers(1, 4, n_rows)),
        }
    )


def policy(**entries: Any) -> dict[str, Any]:
    groups = {"groups": {"body": ["flu", "gout", "cold"], "mind": ["grief"]}}
    attributes = {
        "cost": {"role": "insensitive"},
        "note": {"role": "insensitive"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 10, 40]}}},
        "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive", "taxonomy": groups},
        "ward": {"role": "sensitive"},
    }
    return {"attributes": attributes, "privacy": [K], "method": {"mondrian": {}}} | entries


Spoiled = tuple[pa.Table, dict[str, Any]]


def with_first(name: str, value: Any) -> Callable[[pa.Table, dict[str, Any]], Spoiled]:
    """Return what changes the value of the first row, if it is another one."""

    def changed(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
        column = table[name]
        new = next(one for one in column.to_pylist() if one != column[0].as_py()) if value is ... else value
        values = pa.array([new, *column.to_pylist()[1:]], column.type)
        return table.set_column(table.column_names.index(name), name, values), manifest

    return changed


def repeated(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    return pa.concat_tables([table, table.slice(5, 1)]), manifest | {"rows": manifest["rows"] + 1}


def fewer(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    return table.slice(1), manifest | {"rows": manifest["rows"] - 1}


def boastful(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    manifest = copy.deepcopy(manifest)
    for promise in manifest["guarantees"]:
        promise["achieved"] = (promise["achieved"] or 0) + 1
    return table, manifest


SPOILING: dict[str, Callable[[pa.Table, dict[str, Any]], Spoiled]] = {
    "honest": lambda table, manifest: (table, manifest),
    "false row": with_first("cost", 0.25),
    "another sex": with_first("sex", ...),
    "another illness": with_first("illness", ...),
    "unknown label": with_first("age", None),
    "a row too many": repeated,
    "a class too small": fewer,
    "another number": lambda table, manifest: (table, manifest | {"rows": manifest["rows"] + 7}),
    "boastful": boastful,
    "empty": lambda table, manifest: (table.slice(0, 0), manifest),
}
WRONG = ("false row", "a row too many", "another number", "empty")  # whatever the method


# Tasks of one process: what Spark would send is packed and pickled all the same, and arrives in any order.

Batches = list[pa.RecordBatch]
RELEASE, ORIGINAL = Reader.code_release, Reader._original


class Partitions:
    """Batches of each partition."""

    def __init__(self, parts: Sequence[Batches]) -> None:
        self.parts = list(parts)


class TableRows(SparkRows):
    """A table in three partitions, of which one is empty."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self.columns = tuple(table.column_names)
        half = table.num_rows // 2
        self._parts = [table.slice(0, half), table.slice(0, 0), table.slice(half)]

    def select_columns(self, columns: Sequence[str]) -> tuple[Any, PartitionForm]:
        wanted = [part.select(list(columns)).to_batches(max_chunksize=200) for part in self._parts]
        schema = pa.schema([self.schema.field(name) for name in columns])
        return Partitions(wanted), PartitionForm("the release", schema, UNCHANGED)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            yield from part.select(list(columns)).to_batches()


class TableSource(SparkSource):
    """A table in four partitions."""

    @classmethod
    def of(cls, table: pa.Table) -> TableSource:
        source = open_arrow(table, SourceOptions(), "people")
        sizes = tuple(table.slice(300 * part, 300).num_rows for part in range(4))
        return cls("people", source.schema, table.num_rows, source.cleaning, table, sizes)

    def select_columns(self, columns: Sequence[str]) -> tuple[Any, PartitionForm]:
        wanted = self.frame.select(list(columns))  # type: ignore[operator]
        parts = [wanted.slice(300 * part, 300).to_batches(max_chunksize=100) for part in range(4)]
        schema = pa.schema([self.schema.field(name) for name in columns])
        return Partitions(parts), PartitionForm("people", schema, self.cleaning)

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        yield from self.frame.select(columns).to_batches()  # type: ignore[operator]

    def digest(self) -> str:
        raise NotImplementedError

    def forget(self) -> None:
        raise NotImplementedError


class Tasks:
    """Does what the transport does."""

    def __init__(self) -> None:
        self.work: list[str] = []  # what was done

    def pieces_of(self, frame: Partitions, work: Any) -> list[tuple[int, bytes]]:
        self.work.append(type(work).__name__)
        packed = pickle.dumps(work)
        found = []
        for number, batches in enumerate(frame.parts):
            once, again = (list(pickle.loads(packed)(number, iter(batches))) for _ in range(2))
            assert len(once) == len(again)
            found += [(number, pack_message(batch)) for batch in again]
        return found

    @staticmethod
    def collect_pieces(pieces: list[tuple[int, bytes]]) -> list[tuple[int, pa.RecordBatch]]:
        return [(number, unpack_message(message)) for number, message in pieces]


@pytest.fixture
def workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read by the driver where tasks should do so."""

    def release(reader: Reader, coder: Any, n_rows: int) -> Any:
        assert not isinstance(reader.rows, SparkRows | SparkFileRows), "the driver reads the rows itself"
        return RELEASE(reader, coder, n_rows)

    def original(reader: Reader, coder: Any) -> Any:
        assert not isinstance(reader.source, SparkSource), "the driver reads the rows itself"
        return ORIGINAL(reader, coder)

    monkeypatch.setattr(Reader, "code_release", release)
    monkeypatch.setattr(Reader, "_original", original)


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> Tasks:
    tasks = Tasks()
    for name in ("pieces_of", "collect_pieces"):
        monkeypatch.setattr(shipping, name, getattr(tasks, name))
    monkeypatch.setattr(shipping, "CHUNK_ROWS", 100)
    return tasks


def by_tasks(
    table: pa.Table, manifest: dict[str, Any], source: pa.Table | None, witness: np.ndarray, memory: int | None = None
) -> Verification:
    given, session = None if source is None else TableSource.of(source), object()
    means = Means.of(memory, spark=session)  # type: ignore[arg-type]
    return verify_table(TableRows(table), manifest, source=given, witness=witness, means=means)


def alone(table: pa.Table, manifest: dict[str, Any], source: pa.Table | None, witness: np.ndarray) -> Verification:
    given = None if source is None else open_source(source)
    return verify_table(table, manifest, source=given, witness=witness)


@cache
def released_people(case: str, seed: int = 1) -> tuple[pa.Table, pa.Table, dict[str, Any], np.ndarray]:
    """Return a source, its release, the manifest and the witness."""
    table = people(seed)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        release = shoal.anonymize(table, policy(**CASES[case]), out=out, seed=seed, format="parquet")
        rows = pq.read_table(release.data_file).replace_schema_metadata(None)
        witness = pq.read_table(out / "internal" / "witness.parquet")
    manifest = {key: entry for key, entry in release.manifest.items() if key not in ("data", "readme", "report")}
    return table, rows, manifest, np.stack([column.to_numpy() for column in witness.columns])


@pytest.mark.usefixtures("workers_only")
@pytest.mark.parametrize(
    ("case", "with_source"),
    [
        *((case, True) for case in CASES),  # which asks for all that is done without it, too
        *(pytest.param(case, False, marks=() if case in MANY_CLASSES else pytest.mark.thorough) for case in CASES),
    ],
)
def test_tasks_answer_as_the_verifier_alone(
    case: str, with_source: bool, tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, release, manifest, witness = released_people(case)
    source, parts, write = table if with_source else None, [], CellFile.write
    for name, spoil in SPOILING.items():
        rows, stated = spoil(release, manifest)
        expected = alone(rows, stated, source, witness)
        assert expected.verified or name != "honest"
        assert not (expected.verified and with_source and name in WRONG)
        assert by_tasks(rows, stated, source, witness) == expected, name
        with monkeypatch.context() as little:
            little.setattr(passes, "_LEAST", 16_000)
            little.setattr(CellFile, "write", lambda *given: parts.append(given) or write(*given))
            assert by_tasks(rows, stated, source, witness, memory=1) == expected, name
        if name == "honest" and case in MANY_CLASSES:
            assert parts, "all classes fitted into memory"
    assert set(tasks.work) == ({"CountPartition", "ComparePartition"} if with_source else {"CountPartition"})


@pytest.mark.usefixtures("tasks", "workers_only")
def test_a_witness_that_does_not_fit_is_noticed_by_tasks() -> None:
    table, release, manifest, witness = released_people("relative models")
    for spoiled in (witness[:, :-1], np.append(witness, witness[:, :1], axis=1), witness[:, ::-1], -witness):
        found = by_tasks(release, manifest, table, spoiled)
        assert "truth" in {check.name for check in found.checks if not check.ok}


def test_what_was_met_apart_is_told_as_if_met_together() -> None:
    _, release, manifest, _ = released_people("relative models")
    rows = release.sort_by([("ward", "descending"), ("illness", "ascending")]).combine_chunks()
    subjects = (("illness",), ("ward", "illness"))
    coder = ReleaseCoder(rows.schema, read_manifest(manifest, with_file=False), subjects, None, None)
    whole, merged = Counting(subjects), Counting(subjects)
    for places in (range(600, 900), range(299, -1, -1), range(0, 900, 7)):
        (batch,) = rows.take(pa.array(places)).combine_chunks().to_batches()
        whole.add(coder.code(batch))
        apart = Counting(subjects)
        apart.add(pickle.loads(pickle.dumps(coder)).code(batch))
        apart.settle()
        merged.absorb(apart)
    whole.settle()
    assert merged.texts == whole.texts
    for subject in subjects:
        one, other = (counted.histograms(*counted.shares(), subject) for counted in (merged, whole))
        assert one.n_values == other.n_values
        assert sorted(one.whole.tolist()) == sorted(other.whole.tolist())
        assert sorted(one.largest.tolist()) == sorted(other.largest.tolist())
    assert merged.labels.keys() == whole.labels.keys() == {reader.name for reader in coder.labels}
    assert all((merged.labels[name] == counts).all() for name, counts in whole.labels.items())
    assert all(counts.sum() == whole.rows for counts in whole.labels.values())


def test_sources_that_are_not_on_spark_are_for_the_driver(tasks: Tasks) -> None:
    table, release, manifest, witness = released_people("relative models")
    rows = TableRows(release)
    means = Means.of(None, spark=object())  # type: ignore[arg-type]
    assert verify_table(rows, manifest, source=open_source(table), witness=witness, means=means).verified
    assert verify_table(rows, manifest, source=TableSource.of(table), means=means).failures == ()
    assert tasks.work == []  # without a witness rows are matched


@pytest.mark.parametrize("failing", ["CountPartition", "ComparePartition"])
def test_where_tasks_do_not_come_to_an_end_the_driver_reads(tasks: Tasks, failing: str) -> None:
    table, release, manifest, witness = released_people("relative models")
    send = tasks.pieces_of

    def lose(frame: Partitions, work: Any) -> Any:
        if type(work).__name__ == failing:
            raise InputError("a worker was lost")
        return send(frame, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipping, "pieces_of", lose)
        assert by_tasks(release, manifest, table, witness) == alone(release, manifest, table, witness)


# Spark itself.


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What tasks do; the driver reads nothing of it."""
    done = []
    send = shipping.pieces_of

    def watch(frame: Any, work: Any) -> Any:
        done.append(type(work).__name__)
        return send(frame, work)

    monkeypatch.setattr(shipping, "pieces_of", watch)
    return done


@pytest.mark.usefixtures("workers_only")
@pytest.mark.parametrize("spoiled", ["honest", "false row"])
def test_dataframes_are_checked_where_they_are(spark: Any, spoiled: str, watched: list[str]) -> None:
    table, release, manifest, witness = released_people("relative models", 3)
    rows, stated = SPOILING[spoiled](release, manifest)
    source = open_spark(spark.createDataFrame(table).coalesce(2))  # in the order of the table
    try:
        frame = spark.createDataFrame(rows).repartition(3).localCheckpoint()
        found = verify_table(
            SparkRows(frame), stated, source=source, witness=witness, means=Means.of(None, spark=spark)
        )
    finally:
        source.forget()
    assert found == alone(rows, stated, table, witness)
    assert found.verified == (spoiled == "honest")
    assert watched == ["CountPartition", "ComparePartition"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table and its release, both in several row groups."""
    folder = tmp_path_factory.mktemp("files")
    pq.write_table(people(4), folder / "people.parquet", row_group_size=250)
    shoal.anonymize(folder / "people.parquet", policy(**CASES["relative models"]), out=folder / "out", seed=4)
    return folder


def in_groups(public: Path, size: int = 200, beside: str | None = None) -> None:
    """Write the rows of a release again, in more row groups, with a note that no row has, and tell their digest."""
    path = public / "data.parquet"
    rows = pq.read_table(path).replace_schema_metadata(None)
    if beside is not None:
        place, note = rows.column_names.index("note"), rows["note"].combine_chunks().dictionary_encode()
        entries = pa.concat_arrays([note.dictionary, pa.array([beside], note.dictionary.type)])
        rows = rows.set_column(place, "note", pa.DictionaryArray.from_arrays(note.indices, entries))
    pq.write_table(rows, path, row_group_size=size, store_schema=False, write_statistics=False)
    manifest = json.loads((public / "manifest.json").read_text())
    manifest["data"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    described = {key: entry for key, entry in unpack_labels(manifest).items() if key not in PAGES}
    report = public_report(described)  # it names the digest
    (public / "report.html").write_text(report, encoding="utf-8")
    manifest["report"]["sha256"] = hashlib.sha256(report.encode()).hexdigest()
    (public / "manifest.json").write_text(json.dumps(manifest))
    evidence = json.loads((public.parent / "internal" / "evidence.json").read_text())
    evidence["manifest"]["sha256"] = hashlib.sha256((public / "manifest.json").read_bytes()).hexdigest()
    (public.parent / "internal" / "evidence.json").write_text(json.dumps(evidence))


@pytest.fixture
def files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("shoal.sources.spark.source.FEWEST_ROWS", 250)
    monkeypatch.setattr(checking, "ROWS_TOGETHER", 400)
    shutil.copytree(folder, tmp_path / "files")
    in_groups(tmp_path / "files" / "out" / "public")
    return tmp_path / "files"


@pytest.mark.usefixtures("workers_only")
@pytest.mark.parametrize("spoiled", [False, True], ids=["honest", "with values of no row"])
def test_files_are_read_by_workers(spark: Any, files: Path, spoiled: bool) -> None:
    if spoiled:
        in_groups(files / "out" / "public", beside="x")
    source = open_spark_files(files / "people.parquet", spark)
    rows = SparkFileRows(files / "out" / "public" / "data.parquet", spark)
    assert len(rows.select_columns([])[1].row_groups) == len(source.partitions) - 1 == 3
    found = verify(files / "out", source=source, spark=spark)
    here = verify(files / "out", source=open_source(files / "people.parquet"))
    assert found == here
    wrong = ("dictionaries: the dictionaries of note hold values that no row has",)
    assert found.failures == (wrong if spoiled else ())


@pytest.mark.usefixtures("workers_only")
def test_the_command_checks_on_spark(spark: Any, files: Path) -> None:
    assert spark is not None
    command = ["verify", str(files / "out"), "--source", str(files / "people.parquet"), "--engine", "spark", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verified"] is True


def test_a_master_is_for_spark(files: Path) -> None:
    done = CliRunner().invoke(app, ["verify", str(files / "out"), "--master", "local[2]"])
    assert done.exit_code == 2


def test_what_workers_cannot_open_the_driver_checks(spark: Any, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    selected = SparkFileRows.select_columns
    asked = []

    def elsewhere(self: SparkFileRows, columns: Sequence[str]) -> Any:
        asked.append(columns)
        frame, form = selected(self, columns)
        return frame, checking.FileForm(files / "nowhere", form.size, form.modified, form.row_groups)

    monkeypatch.setattr(SparkFileRows, "select_columns", elsewhere)
    found = verify(files / "out", source=open_source(files / "people.parquet"), spark=spark)
    assert found.verified
    found = verify(files / "out", source=open_spark_files(files / "people.parquet", spark), spark=spark)
    assert found.verified
    assert len(asked) == 1


def test_a_task_refuses_a_file_that_is_not_the_drivers(files: Path) -> None:
    path = files / "out" / "public" / "data.parquet"
    state = path.stat()
    number = [pa.RecordBatch.from_pydict({"id": [1]})]
    form = checking.FileForm(path, state.st_size, state.st_mtime_ns, ((0,), (1, 2)))
    rows = form.open(9, iter(number))
    assert sum(batch.num_rows for batch in rows.batches(["age"])) == 400
    other = checking.FileForm(path, state.st_size, state.st_mtime_ns + 1, form.row_groups)
    with pytest.raises(FileNotFoundError):
        other.open(1, iter(number))


def test_dictionaries_with_values_of_no_row_are_told_by_workers(files: Path) -> None:
    rows = SparkFileRows(files / "out" / "public" / "data.parquet", object())  # type: ignore[arg-type]
    rows.note_unused(["zip"])
    rows.note_unused(["age", "zip"])
    assert rows.list_unused() == ("zip", "age")


@pytest.mark.thorough
def test_a_lost_worker_does_not_change_the_answer(
    job: Any, master: str, start_worker: Starter, files: Path, tmp_path: Path
) -> None:
    assert tmp_path in files.parents
    worker = start_worker()
    command = [sys.executable, str(DRIVER), master, str(files / "people.parquet"), str(files / "out")]
    quick = {"spark.shuffle.io.maxRetries": "1", "spark.shuffle.io.retryWait": "1s"}  # a worker that is gone stays so
    done = job(*command, str(worker.pid), **quick)
    assert worker.wait(timeout=5) == -signal.SIGKILL
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    expected = verify(files / "out", source=open_source(files / "people.parquet"))
    assert json.loads(done.stdout) == expected.as_dict()

"""What checking in parts is made of: cuts, partings, words, files, findings, and the room that they have."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, UsageError
from shoal.manifest import Attribute
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.verify.coding import CodedRows, CodedSource, Layout, ReleaseCoder
from shoal.verify.counting import Counting
from shoal.verify.covers import read_covers
from shoal.verify.guarantees import Judged
from shoal.verify.manifest import read_manifest
from shoal.verify.parts import Findings, Task
from shoal.verify.promises import Promise
from shoal.verify.reading import MemoryRows
from shoal.verify.regional import checking, files
from shoal.verify.regional.checking import Means
from shoal.verify.regional.cuts import CutTree
from shoal.verify.regional.files import PartsFile, sorted_by_parts
from shoal.verify.regional.packing import Packing, PointWords
from shoal.verify.regional.partings import ByClass, ByContent, ByCuts
from shoal.verify.room import OutgrownError, Room
from shoal.verify.truth import contents_for
from shoal.verify.verifier import verify_folder, verify_rows, verify_table

LABELS = {"young": (0, 30), "old": (30, 100), "any age": (0, 100), "teens": (10, 20), "adult": (20, 30)}
AGE = Attribute(
    name="age",
    role="quasi",
    kind="number",
    labels={name: {"from": low, "below": high} for name, (low, high) in LABELS.items()},
)
PLACE = {name: number for number, name in enumerate(LABELS)}


def labels(*names: str) -> np.ndarray:
    return np.array([[PLACE[name]] for name in names], dtype=np.int32)


def tree_of(*names: str, heaviest: int = 1) -> CutTree:
    return CutTree.of([read_covers(AGE)], labels(*names), np.ones(len(names), dtype=np.int64), heaviest)


def routed(tree: CutTree, *names: str) -> tuple[list[int], list[int], list[bool]]:
    leaves, crossed, crossing = tree.of_boxes(labels(*names).T.copy(), np.zeros(1, dtype=np.int64))
    return leaves.tolist(), tree.groups(crossed).tolist(), crossing.tolist()


def test_boxes_and_the_points_in_them_go_to_the_same_leaf() -> None:
    tree = tree_of("teens", "adult", "old")
    leaves, groups, crossing = routed(tree, "teens", "adult", "old")
    assert (leaves, groups, crossing) == ([0, 1, 2], [0, 1, 2, 3], [False] * 3)
    cover = read_covers(AGE)
    points = cover.places(pa.array([12, 25, 77]))[:, None].astype(np.int32)
    assert tree.of_points(points, np.zeros(1, dtype=np.int64)).tolist() == leaves


def test_a_box_that_crosses_a_cut_joins_what_it_touches() -> None:
    tree = tree_of("teens", "adult", "old", "old")  # cut at 30 first, then at 20
    leaves, groups, crossing = routed(tree, "old", "young", "teens")
    assert crossing == [False, True, False]
    assert groups == [0, 2, 3]  # teens and adults are one, the old another
    assert leaves[1] in (0, 1)
    assert routed(tree, "any age")[1] == [0, 3]


def test_no_cut_is_made_where_a_box_of_the_sample_crosses() -> None:
    assert tree_of("teens", "adult", "old", "any age").n_leaves == 1
    assert tree_of("teens", "adult", "young", "old").n_leaves == 2


def test_leaves_are_not_cut_further_than_asked() -> None:
    assert tree_of("teens", "adult", "old", heaviest=3).n_leaves == 1
    assert tree_of("teens", "adult", "old", heaviest=2).n_leaves == 2


def test_texts_that_are_no_labels_go_to_one_leaf_and_cross_nothing() -> None:
    tree = tree_of("teens", "adult", "old")
    unknown = np.full((1, 2), len(LABELS), dtype=np.int32)
    leaves, crossed, crossing = tree.of_boxes(unknown, np.zeros(1, dtype=np.int64))
    assert leaves[0] == leaves[1]
    assert not crossed.any()
    assert not crossing.any()


@pytest.mark.parametrize("radices", [[], [1], [2, 1, 3], [2**31, 2**31, 2**31], [70_000] * 9])
def test_packed_codes_come_back(radices: list[int]) -> None:
    rng = np.random.default_rng(len(radices))
    columns = np.array([rng.integers(0, radix, 50) for radix in radices], dtype=np.int32).reshape(len(radices), 50)
    packing = Packing(radices)
    words = np.zeros((packing.n_words, 50), dtype=np.uint64)
    packing.pack(columns, words)
    assert np.array_equal(packing.unpack(np.ascontiguousarray(words.T)), columns)


def test_points_and_contents_come_back() -> None:
    points = np.asfortranarray(np.array([[1, 200, 3], [0, 4, 2]], dtype=np.int32))
    hashes = np.array([2**64 - 1, 7], dtype=np.uint64)
    words = PointWords([2, 300, 5], with_hash=True)
    back = words.unpack(np.ascontiguousarray(words.pack(points, hashes).T))
    assert np.array_equal(back.points, points)
    assert back.hashes.tolist() == hashes.tolist()


def test_hashed_parts_are_even_and_another_salt_parts_otherwise() -> None:
    keys = np.arange(40_000, dtype=np.uint64)
    rows = CodedRows(len(keys), np.empty((0, len(keys)), dtype=np.int32), keys, keys)
    parts = ByClass(8, 0).of_release(rows).parts
    assert np.abs(np.bincount(parts, minlength=8) - 5000).max() < 500
    again = ByClass(8, 1).of_release(CodedRows(0, rows.labels, keys[parts == 0], None)).parts
    assert np.bincount(again, minlength=8).min() > 400
    content = ByContent(8, 0)
    source = CodedSource(np.empty((len(keys), 0), dtype=np.int32), keys)
    assert np.array_equal(content.of_release(rows).parts, content.of_source(source))


def test_rows_wait_in_a_file_without_a_name(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    file = PartsFile(2, 3, tmp_path)
    kept: list[list[tuple[int, int]]] = [[], [], []]
    for n in (5, 0, 1000):
        words, parts = rng.integers(0, 2**63, (2, n)).astype(np.uint64), rng.integers(0, 3, n).astype(np.int32)
        file.write(*sorted_by_parts(words, parts, 3))
        for part in range(3):
            kept[part] += [tuple(row) for row in words.T[parts == part].tolist()]
    file.finish()
    assert list(tmp_path.iterdir()) == []
    assert file.counts().tolist() == [len(rows) for rows in kept]

    def read(begin: int, end: int) -> list[tuple[int, int]]:
        return sorted(tuple(row) for batch in file.read(begin, end) for row in batch.tolist())

    assert [read(part, part + 1) for part in range(3)] == [sorted(rows) for rows in kept]
    assert read(0, 2) == sorted(kept[0] + kept[1])
    os.truncate(file._file.fileno(), 1000)
    with pytest.raises(UsageError, match="cut short"):
        read(0, 3)
    file.close()


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | None] = []

    def opened(dir: Path | None = None) -> Any:  # noqa: A002  the library's word
        asked.append(dir)
        if dir is not None:
            raise PermissionError
        return io.BytesIO()

    monkeypatch.setattr(files.tempfile, "TemporaryFile", opened)
    PartsFile(1, 1, tmp_path).close()
    assert asked == [tmp_path, None]


def test_room_is_shared_and_checked() -> None:
    Room().check(10**18)
    assert Room().shared(2) == Room()
    assert Room(100).shared(2) == Room(50)
    with pytest.raises(OutgrownError):
        Room(50).check(51)
    assert Means.of(2 << 30, None, 2).room.limit < 2 << 30
    assert Means.of(1, None, 2).room.limit > 0
    assert Means.of(None, None, 2).room == Room()


def test_findings_of_parts_add_up() -> None:
    promise = Promise("k-anonymity", {"k": 3}, 3.0)
    task = Task(None, None, (), (promise,), (), None, {})  # type: ignore[arg-type]
    one = Findings((Judged(3, 1, 2.0),), {"all": 1}, 2)
    other = Findings((Judged(4, 0, 5.0),), {"all": 4}, 1)
    both = Findings((Judged(7, 1, 2.0),), {"all": 5}, 3)
    assert one.joined(other, task) == other.joined(one, task) == both
    assert Findings().joined(one, task) == one.joined(Findings(), task) == one
    assert one.joined(Findings((Judged(1, 0, float("nan"), "cannot check: x"),)), task).judged[0].obstacle


def table(n: int = 3000, seed: int = 1) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(0, 100, n),
            "town": rng.choice(["Aa", "Be", "Ce", "De"], n),
            "illness": rng.choice(["flu", "gout", "mumps"], n),
            "cost": rng.random(n),
        }
    )


POLICY = {
    "attributes": {
        "age": {"role": "quasi"},
        "town": {"role": "quasi"},
        "illness": {"role": "sensitive"},
        "cost": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}, {"t-closeness": {"t": 0.7}}],
}


@pytest.fixture(scope="module")
def release() -> shoal.Release:
    return shoal.anonymize(table(), POLICY, seed=1)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The folders in which temporary files were opened."""
    folders: list[Path | None] = []
    real = files._opened

    def watched(folder: Path | None) -> Any:
        folders.append(folder)
        return real(folder)

    monkeypatch.setattr(files, "_opened", watched)
    return folders


def test_what_fits_needs_no_files(release: shoal.Release, opened: list[Path | None]) -> None:
    assert verify_table(release.data, release.manifest, source=open_source(table()), memory=1 << 30).verified
    assert opened == []


def test_everything_that_parts_need_can_be_sent_elsewhere(release: shoal.Release) -> None:
    """Other processes code, part and check rows with copies, and find the same."""
    manifest = read_manifest(release.manifest, with_file=False)
    source = open_source(table())
    contents = contents_for(manifest, release.data.schema, source)
    layout = Layout.of(manifest)
    covers = {a.name: read_covers(a) for a in manifest.attributes if a.boxed}
    task = pickle.loads(pickle.dumps(Task.of(manifest, layout, manifest.promises, (), contents, covers).settled()))
    coder = ReleaseCoder(release.data.schema, manifest, task.subjects, contents, source.schema)
    copied = pickle.loads(pickle.dumps(coder))
    batch = release.data.combine_chunks().to_batches()[0]
    for one, other in zip(coder.code(batch), copied.code(batch), strict=True):
        assert type(one) is type(other)
    rows, values = copied.code(batch)
    counting = Counting(layout, len(task.subjects), contents.key, Room())
    counting.add(rows, copied.number(values))
    tree = CutTree.of(task.boxed, counting.class_labels(), counting.sizes, 500)
    parting = ByCuts.of(tree, layout, np.arange(2))
    assert parting.n_parts > 2
    sent = pickle.loads(pickle.dumps(parting)).of_release(rows)
    assert sent.crossing is None
    assert np.array_equal(sent.parts, parting.of_release(rows).parts)
    assert pickle.loads(pickle.dumps(Findings((Judged(7, 1, 2.0),), {}, 3))).false_rows == 3


def test_rows_that_change_between_readings_are_refused(release: shoal.Release) -> None:
    class Shrinking(MemoryRows):
        left = 0

        def batches(self, columns: Any) -> Iterator[pa.RecordBatch]:
            batches = self._table.select(list(columns)).to_batches(max_chunksize=1000)
            type(self).left += 1
            return iter(batches if self.left < 2 else batches[:-1])

    rows = Shrinking(release.data.combine_chunks())
    spoiled = release.data.set_column(3, "cost", pa.array(np.zeros(3000)))
    rows._table = spoiled.combine_chunks()
    with pytest.raises(InputError, match="the release changed while it was being read"):
        verify_rows(rows, release.manifest, Means(Room(), None, 1), open_source(table()))


def test_what_cannot_be_parted_is_refused_with_what_it_needs(release: shoal.Release) -> None:
    """All rows have one content and overlap: neither cuts nor contents part them."""
    rows = table().drop_columns(["illness", "cost"]).append_column("illness", pa.array(["flu"] * 3000))
    policy = {**POLICY, "privacy": [{"k-anonymity": {"k": 3}}]}
    policy["attributes"] = {name: entry for name, entry in POLICY["attributes"].items() if name != "cost"}
    made = shoal.anonymize(rows, policy, seed=1)
    everything = {name: {"any": True} for name in ("*",)}
    for name in ("age", "town"):
        made.manifest["attributes"][name]["labels"] |= everything
    first = made.data.slice(0, 2)
    for place, name in enumerate(("age", "town")):
        first = first.set_column(place, name, pa.array(["*", "*"]))
    told = {**made.manifest, "rows": 3002}
    both = pa.concat_tables([made.data, first])
    with pytest.raises(UsageError, match=r"does not fit into memory.*allow more than \d"):
        verify_rows(MemoryRows(both), told, Means(Room(5_000), None, 1), open_source(rows))
    assert not verify_rows(MemoryRows(both), told, Means(Room(), None, 1), open_source(rows)).verified


def test_one_box_over_everything_leaves_contents_to_part_by(
    release: shoal.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    route = checking.route

    def watched(part: Any, task: Any, parting: Any, folder: Any, held: ExitStack) -> Any:
        found = route(part, task, parting, folder, held)
        used.append((type(parting).__name__, bool(found.parts)))
        return found

    monkeypatch.setattr(checking, "route", watched)
    told = {**release.manifest, "attributes": {**release.manifest["attributes"]}}
    data = release.data
    for place, name in enumerate(("age", "town")):
        entry = told["attributes"][name]
        told["attributes"][name] = {**entry, "labels": {**entry["labels"], "*": {"any": True}}}
        data = data.set_column(place, name, pa.array([*data[name].to_pylist()[:-4], *"****"]))
    rows, source = MemoryRows(data.combine_chunks()), open_source(table())
    expected = verify_rows(rows, told, Means(Room(), None, 1), source)
    assert verify_rows(rows, told, Means(Room(40_000), None, 2), source) == expected
    assert {("ByClass", True), ("ByContent", True)} <= set(used)


def test_the_command_takes_memory(tmp_path: Path, release: shoal.Release, opened: list[Path | None]) -> None:
    shoal.anonymize(table(), POLICY, out=tmp_path / "out", seed=1)
    run = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "1GiB", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["verified"]
    few = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "3MiB"])
    assert few.exit_code == 2
    assert opened == []


def test_temporary_files_are_beside_the_public_folder(
    tmp_path: Path, opened: list[Path | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shoal.anonymize(table(), POLICY, out=tmp_path / "out", seed=1)
    monkeypatch.setattr(checking, "_LEAST", 40_000)
    source: Source = open_source(table())
    assert verify_folder(tmp_path / "out", source=source, memory=1).verified
    assert set(opened) == {tmp_path / "out"}
    opened.clear()
    made = shoal.anonymize(table(), POLICY, seed=1)
    assert verify_table(made.data, made.manifest, source=source, memory=1).verified
    assert set(opened) == {None}

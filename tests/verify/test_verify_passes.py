"""Passes over a release: shares of its classes, what is counted elsewhere, and the memory that they have."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Silent
from shoal.sources.opening import open_source
from shoal.verify import passes
from shoal.verify.classes import read_all_covers
from shoal.verify.coding import CodedRows, Layout
from shoal.verify.counting import Counting, Share
from shoal.verify.guarantees import Judged
from shoal.verify.manifest import read_manifest
from shoal.verify.passes import Comparing, LocalReader, Means, Question
from shoal.verify.promises import Promise
from shoal.verify.reading import MemoryRows
from shoal.verify.truth import contents_for
from shoal.verify.verifier import verify, verify_rows

LAYOUTS = {
    "few labels": Layout(("a", "b"), (40, 30), (0, 1), (0, 1), False),
    "labels beyond 64 bits": Layout(("a", "b", "c"), (2**31, 2**31, 2**31), (0, 1, 2), (0, 1, 2), False),
    "values": Layout((), (), (), (), True),
}


def coded_rows(layout: Layout, n: int, seed: int) -> tuple[CodedRows, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 12, (len(layout.labelled), n)).astype(np.int32)
    if layout.by_values:
        keys = rng.integers(0, 99, n).astype(np.uint64)
    else:
        keys = layout.classes().first_keys(list(labels), n)
    return CodedRows(n, labels, keys, None), (rng.integers(0, 4, n).astype(np.int32),)


def classes_of(counting: Counting) -> dict[tuple[int, ...], tuple[int, list[tuple[int, int]]]]:
    """Return what each class has, by what it shows."""
    found = counting.export()
    shown = np.vstack([found.labels, found.keys.astype(np.int64)[np.newaxis]]).T.tolist()
    keys, counts = found.entries[0]
    have: list[list[tuple[int, int]]] = [[] for _ in shown]
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        have[key >> 32].append((key & 0xFFFFFFFF, count))
    return {tuple(one): (size, own) for one, size, own in zip(shown, found.sizes.tolist(), have, strict=True)}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(LAYOUTS)), n=st.integers(1, 400), seed=st.integers(0, 99), limit=st.integers(400, 9000)
)
def test_shares_together_have_all_classes_and_each_fits(kind: str, n: int, seed: int, limit: int) -> None:
    layout = LAYOUTS[kind]
    batches = [coded_rows(layout, n, seed + number) for number in range(3)]
    whole = Counting(layout, 1)
    for rows, subjects in batches:
        whole.add(rows, subjects)
    expected, found, waiting = classes_of(whole), {}, [Share()]
    while waiting:
        counting = Counting(layout, 1, waiting.pop(), limit)
        try:
            for rows, subjects in batches:
                counting.add(rows, subjects)
            counting.settle()
        except UsageError:
            assert max(len(own) for _, own in expected.values()) * 80 + 100 > limit / 2
            return
        waiting += counting.let_go
        assert 100 * counting.n_classes <= limit
        more = classes_of(counting)
        assert not more.keys() & found.keys()
        found |= more
    assert found == expected


@pytest.mark.parametrize("kind", LAYOUTS)
def test_what_was_counted_elsewhere_is_joined_under_the_numbers_of_values_here(kind: str) -> None:
    layout = LAYOUTS[kind]
    swapped = np.array([2, 3, 0, 1], dtype=np.int32)
    here, there, both = Counting(layout, 1), Counting(layout, 1), Counting(layout, 1)
    (one, own), (other, theirs) = coded_rows(layout, 200, 1), coded_rows(layout, 300, 2)
    here.add(one, own)
    there.add(other, theirs)
    both.add(one, own)
    both.add(other, (swapped[theirs[0]],))
    here.absorb(pickle.loads(pickle.dumps(there.export())), [swapped])
    assert classes_of(here) == classes_of(both)


def test_memory_is_divided() -> None:
    assert Means.of(None, 2) == Means(None, 2)
    some = Means.of(2 << 30, 2)
    assert some.limit is not None
    assert 0 < some.limit < 2 << 30
    assert Means.of(1, 8) == Means(48 << 20, 1)


def test_judgements_of_shares_add_up() -> None:
    promise = Promise("k-anonymity", {"k": 3}, 3.0)
    one, other = Judged(3, 1, 2.0), Judged(4, 0, 5.0)
    assert one.joined(other, promise) == other.joined(one, promise) == Judged(7, 1, 2.0)
    assert one.joined(Judged(1, 0, float("nan"), "cannot check: x"), promise).obstacle


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


def test_everything_that_tasks_need_can_be_sent_elsewhere(release: shoal.Release) -> None:
    """Other processes code and compare rows with copies, and find the same."""
    manifest = read_manifest(release.manifest, with_file=False)
    source = open_source(table())
    contents = contents_for(manifest, release.data.schema, source)
    question = Question(manifest, Layout.of(manifest), manifest.promises, contents, read_all_covers(manifest))
    copied = pickle.loads(pickle.dumps(question))
    reader = LocalReader(MemoryRows(release.data), question, source, Silent(), Means())
    other = LocalReader(MemoryRows(release.data), copied, source, Silent(), Means())
    other.coder = pickle.loads(pickle.dumps(reader.coder))
    one, another = reader.count(Share()), other.count(Share())
    assert one.sums == another.sums
    assert one.counting.sizes.tolist() == another.counting.sizes.tolist()
    (batch,) = table().combine_chunks().to_batches()
    nowhere = np.zeros((1, 3000), dtype=np.int64)
    found = pickle.loads(pickle.dumps(Comparing(copied).compare(batch, nowhere)))
    assert (found.facts.rows, found.sums.rows) == (3000, 0)


def test_rows_that_change_between_passes_are_refused(release: shoal.Release) -> None:
    class Shrinking(MemoryRows):
        left = 0

        def batches(self, columns: Any) -> Iterator[pa.RecordBatch]:
            batches = self._table.select(list(columns)).to_batches(max_chunksize=1000)
            type(self).left += 1
            return iter(batches if self.left < 2 else batches[:-1])

    with pytest.raises(InputError, match="the release changed while it was being read"):
        verify_rows(Shrinking(release.data.combine_chunks()), release.manifest, Means(20_000, 1), open_source(table()))


def test_a_class_that_does_not_fit_alone_is_refused(release: shoal.Release) -> None:
    with pytest.raises(UsageError, match=r"does not fit into memory.*allow more memory"):
        verify_rows(MemoryRows(release.data), release.manifest, Means(90, 1))


def test_the_command_takes_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shoal.anonymize(table(), POLICY, out=tmp_path / "out", seed=1)
    run = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "1GiB", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["verified"]
    few = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "3MiB"])
    assert few.exit_code == 2
    monkeypatch.setattr(passes, "_LEAST", 20_000)
    counted = []
    count = LocalReader.count
    monkeypatch.setattr(LocalReader, "count", lambda self, share: counted.append(share) or count(self, share))
    assert verify(tmp_path / "out", source=open_source(table()), memory=1).verified
    assert len(counted) > 2

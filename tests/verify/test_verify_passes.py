"""Passes over a release: shares of its classes, what is counted elsewhere, and the memory that they have."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Silent
from shoal.sources.opening import open_source
from shoal.verify import cells, passes
from shoal.verify.cells import CodedRows, Counting, Share
from shoal.verify.classes import read_all_covers
from shoal.verify.coding import ReleaseCoder, SourceCoder
from shoal.verify.contents import RowSums
from shoal.verify.exact import Histograms, entropies
from shoal.verify.guarantees import Judged
from shoal.verify.manifest import read_manifest
from shoal.verify.passes import Given, Means, Reader
from shoal.verify.promises import Promise
from shoal.verify.reading import MemoryRows
from shoal.verify.truth import contents_for
from shoal.verify.verifier import verify, verify_table

COLUMNS = {"few labels": [40], "labels beyond 64 bits": [2**61, 2**31, 2**61], "values": [2**62]}


def coded_rows(kind: str, n: int, seed: int) -> CodedRows:
    rng = np.random.default_rng(seed)
    classes = np.array([rng.integers(0, 12, n) * (bound // 12) for bound in COLUMNS[kind]], dtype=np.int64)
    words, texts = (
        rng.integers(1, 5, n).astype(np.uint64) << np.uint64(60),
        {n << 60: f"value {n}" for n in range(1, 5)},
    )
    return CodedRows(
        n, np.zeros((0, n), np.int32), {}, classes, {"s": words}, {"s": texts}, None, RowSums(n, seed, seed)
    )


def classes_of(counting: Counting) -> dict[tuple[int, ...], tuple[int, dict[str | None, int]]]:
    """Return what each class has, by what it shows."""
    found = counting.histograms(("s",))
    names = [{found.values[v]: int(c) for v, c in zip(*own, strict=True)} for own in cut(found)]
    shown = map(tuple, counting.cells.classes.T.tolist())
    return dict(zip(shown, zip(found.sizes.tolist(), names, strict=True), strict=True))


def cut(found: Histograms) -> Iterator[tuple[list[int], list[int]]]:
    for begin, end in pairwise(found.start):
        yield found.value[begin:end].tolist(), found.count[begin:end].tolist()


@given(
    kind=st.sampled_from(sorted(COLUMNS)), n=st.integers(1, 400), seed=st.integers(0, 99), limit=st.integers(400, 9000)
)
def test_shares_together_have_all_classes_and_each_fits(kind: str, n: int, seed: int, limit: int) -> None:
    batches = [coded_rows(kind, n, seed + number) for number in range(3)]
    whole = Counting((("s",),))
    for rows in batches:
        whole.add(rows)
    whole.settle()
    expected, found, waiting = classes_of(whole), {}, [Share()]
    table = dict(zip(whole.histograms(("s",)).values, whole.histograms(("s",)).whole.tolist(), strict=True))
    while waiting:
        counting = Counting((("s",),), waiting.pop(), limit)
        try:
            for rows in batches:
                counting.add(rows)
            counting.settle()
        except UsageError:
            assert max(len(own) for _, own in expected.values()) * 140 + 140 > limit / 2
            return
        waiting += counting.let_go
        assert (counting.rows, counting.sums) == (whole.rows, whole.sums)
        if not counting.n_classes:
            continue
        assert 140 * counting.n_classes <= limit
        histograms = counting.histograms(("s",))
        assert dict(zip(histograms.values, histograms.whole.tolist(), strict=True)) == table
        more = classes_of(counting)
        assert not more.keys() & found.keys()
        found |= more
    assert found == expected


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_that_get_their_numbers_in_several_steps_are_counted_as_one(kind: str, monkeypatch) -> None:
    batches = [coded_rows(kind, 60, number) for number in range(7)]
    found = []
    for fewest in (1 << 20, 100):  # all rows in one step, and two batches at a time
        monkeypatch.setattr(cells, "_FEWEST", fewest)
        counting = Counting((("s",),))
        for rows in batches:
            counting.add(rows)
        counting.settle()
        found.append((classes_of(counting), counting.histograms(("s",)).whole.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [None, 3000])
@pytest.mark.parametrize("kind", COLUMNS)
def test_what_was_counted_elsewhere_is_joined(kind: str, limit: int | None) -> None:
    one, other = coded_rows(kind, 200, 1), coded_rows(kind, 300, 2)
    here, there, both = (Counting((("s",),), limit=bytes_) for bytes_ in (limit, None, None))
    for counting, rows in ((here, [one]), (there, [other]), (both, [one, other])):
        for some in rows:
            counting.add(some)
        counting.settle()
    here.absorb(pickle.loads(pickle.dumps(there)))
    assert (here.rows, here.sums, here.texts) == (both.rows, both.sums, both.texts)
    every = classes_of(both)
    assert classes_of(here) == {
        shown: every[shown] for shown in every if here.share.holds(np.array(shown)[:, np.newaxis])[0]
    }
    assert bool(here.let_go) == (limit is not None)


def test_entropies_do_not_depend_on_the_order_of_values() -> None:
    rng = np.random.default_rng(3)
    count = rng.integers(1, 10**6, 1000)
    found = set()
    for _ in range(20):
        rng.shuffle(count)
        one = Histograms(count.sum(keepdims=True), np.array([0, 1000]), np.arange(1000), count, (), 1000)
        found.add(float(entropies(one)[0]))
    assert len(found) == 1
    share = count / count.sum()
    assert found.pop() == pytest.approx(-(share * np.log(share)).sum(), abs=1e-12)


def test_memory_is_divided() -> None:
    assert Means.of(None, 2) == Means(None, 2)
    some = Means.of(2 << 30, 2)
    assert some.limit is not None
    assert 0 < some.limit < 2 << 30
    assert Means.of(1, 8) == Means(48 << 20, 1)


def test_judgements_of_shares_add_up() -> None:
    promise = Promise("k-anonymity", {"k": 3}, 3.0)
    one, other = Judged(3, 1, 2.0), Judged(4, 0, 5.0)
    assert one.join(other, promise) == other.join(one, promise) == Judged(7, 1, 2.0)
    assert one.join(Judged(1, 0, float("nan"), "cannot check: x"), promise).obstacle


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
    source, rows = open_source(table()), MemoryRows(release.data)
    contents = contents_for(manifest, release.data.schema, source)
    coder = ReleaseCoder(rows.schema, manifest, [("illness",)], contents, source.schema)
    original = SourceCoder(manifest, read_all_covers(manifest), contents)
    copied, other = pickle.loads(pickle.dumps((coder, original)))
    reader = Reader(rows, Given(source, None, {}, None, Silent(), Means()))
    one, another = (reader.count(coder, Counting((("illness",),)), 0) for coder in (coder, copied))
    assert one.sums == another.sums
    assert one.cells.classes.tolist() == another.cells.classes.tolist()
    assert one.cells.subjects[0].values.tolist() == another.cells.subjects[0].values.tolist()
    (batch,) = table().combine_chunks().to_batches()
    nowhere = np.zeros((1, 3000), dtype=np.int64)
    found = pickle.loads(pickle.dumps(other.compare(batch, nowhere)))
    assert (found.rows, found.sums.rows) == (3000, 0)


def test_rows_that_change_between_passes_are_refused(release: shoal.Release) -> None:
    class Shrinking(MemoryRows):
        left = 0

        def batches(self, columns: Any) -> Iterator[pa.RecordBatch]:
            batches = self._table.select(list(columns)).to_batches(max_chunksize=1000)
            type(self).left += 1
            return iter(batches if self.left < 2 else batches[:-1])

    rows = Shrinking(release.data.combine_chunks())
    with pytest.raises(InputError, match="the release changed while it was being read"):
        verify_table(rows, release.manifest, means=Means(20_000, 1), source=open_source(table()))


def test_a_class_that_does_not_fit_alone_is_refused(release: shoal.Release) -> None:
    with pytest.raises(UsageError, match=r"does not fit into memory.*allow more memory"):
        verify_table(MemoryRows(release.data), release.manifest, means=Means(90, 1))


def test_the_command_takes_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shoal.anonymize(table(), POLICY, out=tmp_path / "out", seed=1)
    run = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "1GiB", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.stdout)["verified"]
    few = CliRunner().invoke(app, ["verify", str(tmp_path / "out"), "--memory", "3MiB"])
    assert few.exit_code == 2
    monkeypatch.setattr(passes, "_LEAST", 20_000)
    counted = []
    count = Reader.count
    monkeypatch.setattr(Reader, "count", lambda *given: counted.append(given) or count(*given))
    assert verify(tmp_path / "out", source=open_source(table()), memory=1).verified
    assert len(counted) > 2

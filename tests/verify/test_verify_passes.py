"""Counting a release: parts of its classes that wait in a file, what is counted elsewhere, and memory."""

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
from shoal.core.errors import UsageError
from shoal.core.progress import Silent
from shoal.sources.opening import open_source
from shoal.verify import cells, passes
from shoal.verify.cells import CodedRows, Counting
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


Shown = dict[tuple[int, ...], tuple[int, dict[str | None, int]]]


def count_rows(batches: list[CodedRows], **given: Any) -> Counting:
    counting = Counting((("s",),), **given)
    for rows in batches:
        counting.add(rows)
    counting.settle()
    return counting


def classes_of(counting: Counting) -> list[Shown]:
    """Return what each class has, by what it shows, share by share."""
    shares = []
    for own in counting.shares():
        found = counting.histograms(own, ("s",))
        names = [{found.values[v]: int(c) for v, c in zip(*some, strict=True)} for some in cut(found)]
        shown = map(tuple, own.classes.T.tolist())
        shares.append(dict(zip(shown, zip(found.sizes.tolist(), names, strict=True), strict=True)))
    return shares


def tables_of(counting: Counting) -> list[dict[str | None, int]]:
    """Return how often each value occurs in the whole table, as each share has it."""
    found = [counting.histograms(own, ("s",)) for own in counting.shares()]
    return [dict(zip(one.values, one.whole.tolist(), strict=True)) for one in found]


def cut(found: Histograms) -> Iterator[tuple[list[int], list[int]]]:
    for begin, end in pairwise(found.start):
        yield found.value[begin:end].tolist(), found.count[begin:end].tolist()


@given(
    kind=st.sampled_from(sorted(COLUMNS)), n=st.integers(1, 400), seed=st.integers(0, 99), limit=st.integers(400, 9000)
)
def test_shares_together_have_all_classes_and_each_fits(kind: str, n: int, seed: int, limit: int) -> None:
    batches = [coded_rows(kind, n, seed + number) for number in range(3)]
    whole, counting = count_rows(batches), count_rows(batches, limit=limit, expected=3 * n)
    assert (counting.rows, counting.sums) == (whole.rows, whole.sums)
    (expected,), (table,) = classes_of(whole), tables_of(whole)
    try:
        shares = classes_of(counting)
    except UsageError:
        assert max(len(own) for _, own in expected.values()) * 140 + 140 > limit / 8
        return
    found: Shown = {}
    for own in shares:
        assert 140 * len(own) <= limit
        assert not own.keys() & found.keys()
        found |= own
    assert found == expected
    assert all(one == table for one in tables_of(counting))


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_that_get_their_numbers_in_several_steps_are_counted_as_one(kind: str, monkeypatch) -> None:
    batches = [coded_rows(kind, 60, number) for number in range(7)]
    found = []
    for fewest in (1 << 20, 100):  # all rows in one step, and two batches at a time
        monkeypatch.setattr(cells, "_FEWEST", fewest)
        counting = count_rows(batches)
        found.append((classes_of(counting), tables_of(counting)))
    assert found[0] == found[1]


@pytest.mark.parametrize("limit", [None, 3000])
@pytest.mark.parametrize("kind", COLUMNS)
def test_what_was_counted_elsewhere_is_joined(kind: str, limit: int | None) -> None:
    one, other = coded_rows(kind, 200, 1), coded_rows(kind, 300, 2)
    here, there, both = count_rows([one], limit=limit, expected=500), count_rows([other]), count_rows([one, other])
    here.absorb(pickle.loads(pickle.dumps(there)))
    assert (here.rows, here.sums, here.texts) == (both.rows, both.sums, both.texts)
    shares = classes_of(here)
    assert {shown: own for share in shares for shown, own in share.items()} == classes_of(both)[0]
    assert (len(shares) > 1) == (limit is not None)


def test_a_class_in_many_pieces_fits_if_their_sum_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "_FEWEST", 20)
    batches = [coded_rows("few labels", 20, number) for number in range(40)]
    (expected,) = classes_of(count_rows(batches))
    shares = classes_of(count_rows(batches, limit=6000, expected=800))
    assert len(shares) > 1
    assert {shown: own for share in shares for shown, own in share.items()} == expected


def test_a_disk_that_is_full_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(UsageError, match=r"No space left.*TMPDIR"):
        count_rows([coded_rows("values", 400, 1)], limit=900, expected=400)


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
    (here,), (there,) = one.shares(), another.shares()
    assert here.classes.tolist() == there.classes.tolist()
    assert here.subjects[0].values.tolist() == there.subjects[0].values.tolist()
    (batch,) = table().combine_chunks().to_batches()
    nowhere = np.zeros((1, 3000), dtype=np.int64)
    found = pickle.loads(pickle.dumps(other.compare(batch, nowhere)))
    assert (found.rows, found.sums.rows) == (3000, 0)


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
    written, write = [], cells.CellFile.write
    monkeypatch.setattr(cells.CellFile, "write", lambda *given: written.append(given) or write(*given))
    assert verify(tmp_path / "out", source=open_source(table()), memory=1).verified
    assert written

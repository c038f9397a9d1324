"""Defended labels of sensitive values: releases and witnesses that the verifier must refuse."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.core.errors import ShoalError
from shoal.methods.sweep import SequentialSweep, planning
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.verify.covers import put_covers
from shoal.verify.engine import Engine
from shoal.verify.manifest import read_manifest
from shoal.verify.reach import check_defended
from shoal.verify.result import Verification
from shoal.verify.rows import Release, SourceRows, Witness
from shoal.verify.verifier import verify, verify_table

TREE = {"any": {"low": ["u", "v"], "high": ["w", "x"]}}
POLICY: dict[str, Any] = {
    "attributes": {
        "q": {"role": "quasi", "taxonomy": {"tree": {"*": {"ab": ["a", "b"], "cd": ["c", "d"]}}}},
        "s": {"role": "sensitive", "taxonomy": {"tree": TREE}},
    },
    "privacy": [{"tau-l-diversity": {"tau": 0.65, "l": 4}}],
    "method": {"sweep": {}},
}


def people(n: int = 400) -> pa.Table:
    rng = np.random.default_rng(5)
    values = rng.choice(["u", "v", "w", "x"], n, p=[0.6, 0.2, 0.1, 0.1])
    return pa.table({"q": rng.choice(list("abcd"), n).tolist(), "s": values.tolist()})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    release = shoal.anonymize(people(), POLICY, out=tmp_path / "out", seed=2)
    assert release.verification.verified
    return tmp_path / "out"


def verified(folder: Path) -> Verification:
    return verify(folder, source=open_source(people(), SourceOptions()))


def refused(folder: Path, why: str) -> None:
    (check,) = [one for one in verified(folder).checks if one.name == "defended"]
    assert not check.ok
    assert why in check.detail


def test_the_release_as_it_was_made_is_accepted(folder: Path) -> None:
    assert verified(folder).verified
    assert verify(folder).verified  # who has no source cannot ask


def test_a_promise_that_cannot_be_checked_is_not_believed(folder: Path) -> None:
    (folder / "internal" / "labels.parquet").unlink()
    refused(folder, "labels.parquet, which has the values under them, is missing")


def test_without_a_witness_the_values_are_not_compared(folder: Path) -> None:
    (folder / "internal" / "witness.parquet").unlink()
    found = verified(folder)
    assert found.verdict == "incomplete"
    undone = {check.name for check in found.checks if not check.done}
    assert undone >= {"defended", "resolution", "truth"}
    assert all(check.ok for check in found.checks)
    path = folder / "internal" / "labels.parquet"
    pq.write_table(one_value_less(pq.read_table(path)), path)
    refused(folder, "more frequent under a label")


@pytest.mark.parametrize("change", [lambda numbers: numbers[:-1], lambda numbers: np.stack([numbers, numbers])])
def test_a_witness_of_another_form_shows_nothing(folder: Path, change: Callable[[np.ndarray], np.ndarray]) -> None:
    path = folder / "internal" / "witness.parquet"
    columns = np.atleast_2d(change(pq.read_table(path)["class"].to_numpy()))
    pq.write_table(pa.table(dict(zip(("class", "class 2"), columns, strict=False))), path)
    failed = {check.name for check in verified(folder).checks if not check.ok}
    assert failed >= {"witness", "truth", "resolution", "defended"}


def first_group(table: pa.Table) -> tuple[int, int]:
    """Two rows of the witness of one class and label, with different values."""
    rows = table.to_pylist()
    for i, j in itertools.combinations(range(len(rows)), 2):
        same = all(rows[i][name] == rows[j][name] for name in ("q", "s"))
        if same and rows[i]["value of s"] != rows[j]["value of s"]:
            return i, j
    raise AssertionError("every label stands for one value")


def one_value_less(table: pa.Table) -> pa.Table:
    """One class's label has one value alone."""
    i, j = first_group(table)
    values = table["value of s"].to_pylist()
    values[j] = values[i]
    return table.set_column(table.column_names.index("value of s"), "value of s", pa.array(values))


def one_record_moved(table: pa.Table) -> pa.Table:
    """A record less of one value, and one more of a rarer value under the same label of the same class."""
    rows = table.to_pylist()
    pairs = [
        (most, least)
        for most, least in itertools.permutations(rows, 2)
        if (most["q"], most["s"]) == (least["q"], least["s"])
        and most["value of s"] != least["value of s"]
        and most["records"] > least["records"] + 1
    ]
    most, least = max(pairs, key=lambda pair: pair[0]["records"])
    most["records"] -= 1
    least["records"] += 1
    return pa.Table.from_pylist(rows, table.schema)


def one_record_less(table: pa.Table) -> pa.Table:
    records = table["records"].to_numpy().copy()
    records[int(np.argmax(records))] -= 1
    return table.set_column(table.column_names.index("records"), "records", pa.array(records))


def other_value(table: pa.Table) -> pa.Table:
    return table.set_column(
        table.column_names.index("value of s"), "value of s", pc.if_else(pc.equal(table["s"], "low"), "x", "nobody's")
    )


def put(table: pa.Table, name: str, values: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (one_value_less, "more frequent under a label"),
        (one_record_less, "does not have the records that each class publishes"),
        (other_value, "values that their labels do not cover"),
        (lambda table: table.drop_columns(["value of s"]), "does not have the columns"),
        (lambda table: put(table, "records", pc.cast(table["records"], pa.float64())), "does not have the columns"),
        (lambda table: put(table, "records", pc.multiply(table["records"], -1)), "less than one record"),
        (lambda table: put(table, "q", pa.array(["e"] * len(table))), "does not have the records"),
        (lambda table: table.slice(1), "does not have the records that each class publishes"),
        (lambda table: table.slice(0, 0), "does not have the records that each class publishes"),
    ],
    ids=[
        "one value",
        "a record less",
        "other values",
        "a column less",
        "halves",
        "below zero",
        "other classes",
        "a row less",
        "nothing",
    ],
)
def test_a_witness_that_does_not_fit_is_refused(folder: Path, spoil: Callable[[pa.Table], pa.Table], why: str) -> None:
    path = folder / "internal" / "labels.parquet"
    pq.write_table(spoil(pq.read_table(path)), path)
    refused(folder, why)


def test_values_that_the_source_does_not_have_there_are_refused(folder: Path) -> None:
    """All records are published, so that the values in all classes together are those of the source."""
    path = folder / "internal" / "labels.parquet"
    table = pq.read_table(path)
    pq.write_table(one_record_moved(table), path)
    refused(folder, "differ from the source")


def test_a_release_whose_labels_tell_too_much_is_never_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper's algorithm under the promise: nothing but the verifier stands in its way."""

    def undefended(self: SequentialSweep, problem: Any, rng: Any, progress: Any) -> Any:
        return planning.plan_sweep(problem, self.improve, False, rng, progress)

    monkeypatch.setattr(SequentialSweep, "plan", undefended)
    with pytest.raises(ShoalError, match=r"labels of s: .* more frequent under a label of a class than tau"):
        shoal.anonymize(people(), POLICY, out=tmp_path / "out", seed=2)
    assert not (tmp_path / "out").exists()
    simple = POLICY | {"privacy": [{"simple-l-diversity": {"l": 2}}]}
    data = pa.table({"q": list("abcd") * 25, "s": list("uuvuuvuwxv") * 10})
    with pytest.raises(ShoalError, match=r"\d+ rows are in a class although a narrower class covers them"):
        shoal.anonymize(data, simple, out=tmp_path / "out", seed=2)


@pytest.mark.parametrize(("moved", "ok"), [(0, True), (1, False), (2, False)])
def test_records_in_a_wider_class_than_need_be_are_refused(moved: int, ok: bool) -> None:
    source = pa.table({"q": list("aaaabbbb"), "s": list("uvwxuvwx")})
    place = np.array([0] * 4 + [1] * 4)  # class a, class *
    place[:moved] = 1
    quasi = {"role": "quasi", "kind": "category", "labels": {"a": {"values": ["a"]}, "*": {"values": ["a", "b"]}}}
    plain = {"role": "sensitive", "kind": "category"}
    manifest = manifest_of({"q": quasi, "s": plain}, 8)
    promise = {"model": "distinct-l-diversity", "parameters": {"l": 2, "attribute": "s"}, "achieved": 4.0 - moved}
    manifest["guarantees"] = [promise]
    published = pa.table({"q": np.array(["a", "*"])[place].tolist(), "s": source["s"]})
    witness = 1 + place  # class 1 has the first label
    found = verify_table(published, manifest, source=open_source(source, SourceOptions()), witness=witness)
    (check,) = [one for one in found.checks if one.name == "resolution"]
    assert (check.ok, found.verified) == (ok, ok)
    paper = manifest | {"method_parameters": manifest["method_parameters"] | {"defend": False}}
    assert verify_table(published, paper, source=open_source(source, SourceOptions()), witness=witness).verified


WIDE = {"a": "a", "b": "b", "c": "c", "ab": "ab", "bc": "bc", "*": "abc"}  # labels and the values under them


def test_narrower_classes_are_those_that_are_nowhere_wider() -> None:
    """Random classes of two attributes, whose labels overlap, beside the definition."""
    rng = np.random.default_rng(6)
    names, moved = list(WIDE), 0
    for _ in range(12):
        classes = [tuple(own) for own in rng.permutation(list(itertools.product(range(6), repeat=2)))[:5]]
        rows = []
        for label, other in classes:
            values = list(itertools.product(WIDE[names[label]], WIDE[names[other]]))
            rows += [(label, other, *values[place]) for place in rng.integers(0, len(values), 3)]
        found = 0
        for label, other, x, y in rows:
            own = len(WIDE[names[label]]), len(WIDE[names[other]])
            for one, two in classes:
                width = len(WIDE[names[one]]), len(WIDE[names[two]])
                covers = x in WIDE[names[one]] and y in WIDE[names[two]]
                if covers and width != own and width[0] <= own[0] and width[1] <= own[1]:
                    found += 1
                    break
        kinds = [sorted({row[place] for row in rows}) for place in (0, 1)]
        quasi = {
            name: {
                "role": "quasi",
                "kind": "category",
                "labels": {names[label]: {"values": [*WIDE[names[label]]]} for label in own},
            }
            for name, own in zip(("q", "r"), kinds, strict=True)
        }
        manifest = manifest_of({**quasi, "s": {"role": "sensitive", "kind": "category"}}, len(rows))
        manifest |= {"parts": [["q", "r", "s"]]}
        manifest["guarantees"] = [
            {"model": "distinct-l-diversity", "parameters": {"l": 1, "attribute": "s"}, "achieved": 1}
        ]
        digits = [[kinds[place].index(row[place]) for row in rows] for place in (0, 1)]
        witness = 1 + np.array(digits[0]) * (len(kinds[1]) + 2) + np.array(digits[1])
        source = pa.table({"q": [row[2] for row in rows], "r": [row[3] for row in rows], "s": ["u"] * len(rows)})
        shown = {name: [names[row[place]] for row in rows] for place, name in enumerate(("q", "r"))}
        with Engine() as engine:
            read = read_manifest(manifest, with_file=False)
            release = Release.of_table(engine, read, pa.table({**shown, "s": source["s"]}))
            covers = put_covers(engine, read)
            engine.run("CREATE TEMP VIEW declared AS SELECT attribute, label, number FROM covers")
            opened = SourceRows(engine, read, open_source(source, SourceOptions()), Witness(witness, "class"))
            (check,) = check_defended(release, read, covers, opened, None)
        assert check.name == "resolution"
        assert check.ok == (not found), check.detail
        assert not found or check.detail.startswith(f"{found} rows are in a class")
        moved += found
    assert moved > 10


@pytest.mark.parametrize(
    ("values", "hidden", "why"),
    [
        (("uuvw", "uvwx"), (1, 2), None),
        (("uuuv", "vwxw"), (2, 3), "more frequent in a class, hidden records included"),
        (("uuvw", "uvwx"), (0, 1), "more frequent under a label"),
    ],
)
def test_kept_and_hidden_records_of_a_class_count_together(
    values: tuple[str, str], hidden: tuple[int, int], why: str | None
) -> None:
    own = [*"".join(values)]
    source = pa.table({"q": list("aaaabbbb"), "s": own})
    shown = ["any" if row in hidden else value for row, value in enumerate(own)]
    labels = {"any": {"values": ["u", "v", "w", "x"]}} | {text: {"values": [text]} for text in shown if text != "any"}
    entry = {"role": "sensitive", "kind": "category", "labels": labels, "defended": True}
    quasi = {"role": "quasi", "kind": "category", "labels": {text: {"values": [text]} for text in "ab"}}
    manifest = manifest_of({"q": quasi, "s": entry}, 8)
    manifest["guarantees"][0]["parameters"]["tau"] = 0.5
    stated = {"q": ["a"] * 2, "s": ["any"] * 2, "value of s": [own[row] for row in hidden], "records": [1, 1]}
    found = verify_table(
        pa.table({"q": source["q"], "s": shown}),
        manifest,
        source=open_source(source, SourceOptions()),
        labelled=pa.table(stated),
    )
    (check,) = [one for one in found.checks if one.name == "defended"]
    assert check.ok == (why is None)
    assert why is None or why in check.detail


def manifest_of(attributes: dict[str, Any], rows: int) -> dict[str, Any]:
    table = pa.table({"q": ["a", "a", "b", "b"], "s": ["u", "v", "u", "v"]})
    document = POLICY | {"privacy": [{"tau-l-diversity": {"tau": 0.5, "l": 2}}]}
    made = dict(shoal.anonymize(table, document, seed=1).manifest)
    promise = {"model": "tau-l-diversity", "parameters": {"tau": 0.4, "l": 3, "attribute": "s"}, "achieved": 0.4}
    return made | {"attributes": attributes, "rows": rows, "guarantees": [promise]}

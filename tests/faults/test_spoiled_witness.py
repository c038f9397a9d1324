"""Witnesses that do not tell the truth, and releases that their witnesses do not explain: all must be refused."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests import tables

import shoal
from shoal.release.witness import ROW
from shoal.release.witness import Witness as WrittenWitness
from shoal.sources.opening import open_source
from shoal.verify.counting import ClassNumbers
from shoal.verify.engine import Engine
from shoal.verify.result import Verification
from shoal.verify.verifier import verify

N = 400
K = {"k-anonymity": {"k": 4}}
METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {"method": {"mondrian": {}}, "privacy": [K]},
    "overlapping labels": {"method": {"hilbert": {}}, "privacy": [K]},
    "generalized illnesses": {
        "method": {"sweep": {}},
        "privacy": [{"tau-l-diversity": {"tau": 0.5, "l": 2, "attribute": "illness"}}],
    },
    "withheld rows": {"method": {"incognito": {}}, "privacy": [K], "max_withheld": 0.2},
    "dropped rows": {"method": {"mondrian": {}}, "privacy": [K], "missing": "drop"},
    "a sample": {"method": {"mondrian": {}}, "privacy": [K], "sample": {"share": 0.7}},
}


def people(seed: int = 3) -> pa.Table:
    return tables.people(N, seed, "age sex illness cost", missing={"age": 0.03}, cost=np.arange(N) * 1.5)


def policy(case: str) -> dict[str, Any]:
    return {"attributes": tables.attributes("age sex illness cost"), **METHODS[case]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Releases of all cases, not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    for case in METHODS:
        shoal.anonymize(people(), policy(case), out=folder / case, seed=5)
    return folder


@pytest.fixture(params=METHODS)
def release(request: pytest.FixtureRequest, made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made / request.param, tmp_path / "out")
    return tmp_path / "out"


def judge(release: Path, source: pa.Table | None = None) -> Verification:
    return verify(release, source=open_source(people() if source is None else source))


def failed(found: Verification) -> set[str]:
    """Return the checks that failed, but for what is checked by the same witness besides."""
    return {check.name for check in found.checks if not check.ok} - {"defended", "resolution"}


def read_numbers(release: Path) -> np.ndarray:
    return pq.read_table(release / "internal" / "witness.parquet")["class"].to_numpy().copy()


def write_numbers(release: Path, numbers: Any) -> None:
    pq.write_table(pa.table({"class": numbers}), release / "internal" / "witness.parquet", row_group_size=150)


def test_an_honest_witness_explains_its_release(release: Path) -> None:
    found = judge(release)
    assert found.verified, found.failures
    numbers, manifest = read_numbers(release), json.loads((release / "public" / "manifest.json").read_text())
    assert len(numbers) == N
    assert (numbers > 0).sum() == manifest["rows"]
    write_numbers(release, numbers)  # in several row groups
    assert judge(release) == found


def exchange(numbers: np.ndarray) -> np.ndarray:
    shown = np.flatnonzero(numbers)
    other = shown[numbers[shown] != numbers[shown[0]]][0]
    numbers[[shown[0], other]] = numbers[[other, shown[0]]]
    return numbers


def swap_classes(numbers: np.ndarray) -> np.ndarray:
    one, other = np.unique(numbers[numbers > 0])[:2]
    return np.select([numbers == one, numbers == other], [other, one], numbers)


def set_first(value: Any) -> Callable[[np.ndarray], np.ndarray]:
    def spoil(numbers: np.ndarray) -> np.ndarray:
        numbers[np.flatnonzero(numbers)[0]] = value
        return numbers

    return spoil


def rename_one(numbers: np.ndarray) -> np.ndarray:
    return np.where(numbers == numbers.max(), numbers.min(where=numbers > 0, initial=numbers.max()), numbers)


SPOILING: dict[str, tuple[Callable[[np.ndarray], Any], set[str]]] = {
    "too short": (lambda numbers: numbers[:-1], {"witness", "truth"}),
    "too long": (lambda numbers: np.append(numbers, 0), {"witness", "truth"}),
    "empty": (lambda numbers: numbers[:0], {"witness", "truth"}),
    "rows of two classes exchanged": (exchange, {"truth"}),
    "two classes swapped": (swap_classes, {"truth"}),
    "a class told as another": (rename_one, {"truth"}),
    "a row left out": (set_first(0), {"truth"}),
    "a class that cannot be": (set_first(10**15), {"witness", "truth"}),
    "a negative class": (set_first(-1), {"witness", "truth"}),
    "nobody published": (np.zeros_like, {"truth"}),
    "another order": (lambda numbers: numbers[::-1], {"truth"}),
    "a gap": (lambda numbers: pa.array(numbers, mask=np.arange(N) == 7), {"witness", "truth"}),
}


@pytest.mark.parametrize("spoiled", SPOILING)
def test_a_spoiled_witness_is_refused(release: Path, spoiled: str) -> None:
    spoil, expected = SPOILING[spoiled]
    write_numbers(release, spoil(read_numbers(release)))
    found = judge(release)
    assert found.verdict == "failed"
    assert failed(found) == expected


FOLLOWED: dict[str, dict[str, Any]] = {  # releases whose columns or people are also compared by the witness
    "averages": {"method": {"microaggregation": {}}, "privacy": [K]},
    "a row of each person": {"privacy": [K], "unit": "name", "sample": {"one_per": "unit"}},
    "values of other rows": {
        "privacy": [K],
        "attributes": {"cost": {"role": "insensitive", "technique": "permutation"}},
    },
}


@pytest.mark.parametrize("case", FOLLOWED)
def test_a_witness_that_does_not_fit_is_named_in_every_form_of_release(case: str, tmp_path: Path) -> None:
    table = people().append_column("name", pa.array([f"person {n}" for n in range(N)]))
    attributes = tables.attributes("age sex illness cost") | {"name": {"role": "identifier"}}
    document = FOLLOWED[case] | {"attributes": attributes | FOLLOWED[case].get("attributes", {})}
    shoal.anonymize(table, document, out=tmp_path / "out", seed=5)
    numbers = read_numbers(tmp_path / "out")
    for spoiled in (numbers[:-1], np.append(numbers, 0), pa.array(numbers, mask=np.arange(N) == 7)):
        write_numbers(tmp_path / "out", spoiled)
        assert "witness" in failed(judge(tmp_path / "out", table))


def test_a_row_more_is_published_than_there_is(release: Path) -> None:
    numbers = read_numbers(release)
    hidden = np.flatnonzero(numbers == 0)
    if len(hidden):
        numbers[hidden[0]] = numbers.max()
        write_numbers(release, numbers)
        assert failed(judge(release)) == {"truth"}


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"class": ["1"] * N}),
        pa.table({"class": [1] * N, "more": [1] * N}),
        pa.table({"bucket": [1] * N}),
        pa.table({"class": [1.0] * N}),
    ],
    ids=["texts", "another column", "buckets", "fractions"],
)
def test_what_is_no_witness_is_refused(release: Path, table: pa.Table) -> None:
    pq.write_table(table, release / "internal" / "witness.parquet")
    assert failed(judge(release)) == {"file"}


def test_further_columns_must_be_there_if_labels_are_many_and_only_then(release: Path) -> None:
    numbers = read_numbers(release)
    pq.write_table(pa.table({"class": numbers, "class 2": numbers}), release / "internal" / "witness.parquet")
    assert failed(judge(release)) == {"witness", "truth"}


def test_a_broken_file_is_refused(release: Path) -> None:
    path = release / "internal" / "witness.parquet"
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(content)
    assert not judge(release).verified


def change_rows(release: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change published rows, and tell of them in the manifest as if nothing had happened."""
    public = release / "public"
    rows = pq.read_table(public / "data.parquet").to_pylist()
    change(rows)
    schema = pq.read_schema(public / "data.parquet")
    pq.write_table(
        pa.Table.from_pylist(rows, schema), public / "data.parquet", store_schema=False, write_statistics=False
    )
    manifest = json.loads((public / "manifest.json").read_text())
    manifest["rows"] = len(rows)
    manifest["data"]["sha256"] = hashlib.sha256((public / "data.parquet").read_bytes()).hexdigest()
    (public / "manifest.json").write_text(json.dumps(manifest))
    evidence = json.loads((release / "internal" / "evidence.json").read_text())
    evidence["manifest"]["sha256"] = hashlib.sha256((public / "manifest.json").read_bytes()).hexdigest()
    (release / "internal" / "evidence.json").write_text(json.dumps(evidence))


def exchange_costs(rows: list[dict[str, Any]]) -> None:
    quasi = ("age", "sex", "illness")
    other = next(row for row in rows if any(row[name] != rows[0][name] for name in quasi))
    rows[0]["cost"], other["cost"] = other["cost"], rows[0]["cost"]


def change_cost(rows: list[dict[str, Any]]) -> None:
    rows[3]["cost"] += 0.25


def repeat_row(rows: list[dict[str, Any]]) -> None:
    rows[1] = dict(rows[0])


def move_row(rows: list[dict[str, Any]]) -> None:
    other = next(row for row in rows if row["age"] != rows[0]["age"] or row["sex"] != rows[0]["sex"])
    rows[0]["age"], rows[0]["sex"] = other["age"], other["sex"]


@pytest.mark.parametrize("change", [exchange_costs, change_cost, repeat_row, move_row], ids=lambda one: one.__name__)
def test_rows_that_the_witness_does_not_explain_are_refused(
    release: Path, change: Callable[[list[dict[str, Any]]], None]
) -> None:
    change_rows(release, change)
    assert "truth" in failed(judge(release))


def test_a_source_that_differs_is_refused(release: Path) -> None:
    table = people()
    other = table.set_column(
        3, "cost", pa.array(np.arange(N) * 1.5 + (np.arange(N) == np.flatnonzero(read_numbers(release))[0]))
    )
    assert failed(judge(release, other)) == {"truth"}
    assert failed(judge(release, table.slice(1))) >= {"truth"}


def test_what_apply_notes_is_what_the_verifier_reads() -> None:
    """Many labels need several columns; both sides number classes alike."""
    rng = np.random.default_rng(1)
    labels = {name: [f"{name}{place}" for place in range(2**16)] for name in "abcdefg"}
    witness = WrittenWitness(50, labels)
    codes = rng.integers(-1, 2**16, (len(labels), 30))
    rows = rng.permutation(50)[:30]
    texts = {
        name: pa.array([None if code < 0 else own[code] for code in codes[place]])
        for place, (name, own) in enumerate(labels.items())
    }
    list(witness.watch(iter([pa.record_batch({**texts, ROW: rows})])))
    numbers = ClassNumbers([2**16] * len(labels))
    assert len(numbers.bounds) == len(witness.numbers) == 3
    assert (witness.numbers.max(axis=1) <= numbers.bounds).all()
    assert np.array_equal(np.sort(np.flatnonzero(witness.numbers[0])), np.sort(rows))
    with Engine() as engine:
        engine.put("own", {f"w{place}": own[rows] for place, own in enumerate(witness.numbers, 1)})
        digits = [f"{numbers.unpack(place, ['w1', 'w2', 'w3'])} AS d{place}" for place in range(len(labels))]
        engine.make("digits", f"SELECT *, {', '.join(digits)} FROM own")
        found = engine.read("FROM digits")
        assert [found[f"d{place}"].to_pylist() for place in range(len(labels))] == np.where(
            codes < 0, 2**16, codes
        ).tolist()
        packed = numbers.pack([f"d{place}" for place in range(len(labels))])
        assert engine.value(f"SELECT bool_and(({', '.join(packed)}) = (w1, w2, w3)) FROM digits")

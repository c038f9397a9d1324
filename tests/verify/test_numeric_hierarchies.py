"""Hierarchies whose groups are numbers, as those of ISCO and NACE: releases by them, and spoiled ones."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from tests.tables import cover

import shoal
from shoal.manifest import pack_labels, unpack_labels
from shoal.verify.result import Verification
from shoal.verify.verifier import verify

ISCO = ["".join(digits) for digits in product("25", "12", "123", "12")]
NACE = [f"{division:02}{group}{number}" for division in (1, 3, 10, 47) for group in (1, 2) for number in (1, 2)]
NUTS = [f"{land}{region}{district}" for land in ("AT1", "AT2", "DE1") for region in "12" for district in "12"]
PLACES = ["1", "2", "10", "20", "21", "30", "31"]  # groups are spelled like other values
LINES = {
    "isco": [f"{code};{code[:3]};{code[:2]};{code[:1]};*" for code in ISCO],
    "nace": [f"{code};{code[:3]};{code[:2]};*" for code in NACE],
    "nuts": [f"{code};{code[:4]};{code[:3]};{code[:2]};*" for code in NUTS],
    "place": ["1;10;*", "2;10;*", "10;20;*", "20;20;*", "21;20;*", "30;1000;*", "31;1000;*"],
}
METHODS: list[dict[str, Any]] = [
    {"mondrian": {}},
    {"mondrian": {"labels": "ranges"}},
    {"sweep": {}},
    {"incognito": {}},
    {"hilbert": {}},
    {"local-suppression": {}},
    {"microaggregation": {}},
]


def people(n: int = 800) -> pa.Table:
    rng = np.random.default_rng(11)
    codes = {"isco": ISCO, "nace": NACE, "nuts": NUTS, "place": PLACES}
    drawn = {name: rng.choice(own, n, p=rng.dirichlet(np.ones(len(own)))) for name, own in codes.items()}
    return pa.table({**drawn, "illness": rng.choice(list("abcdef"), n)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table, with occupations and places as text and as integers, and its hierarchies."""
    here = tmp_path_factory.mktemp("codes")
    for name, lines in LINES.items():
        (here / f"{name}.csv").write_text("\n".join(lines) + "\n")
    table = people()
    pc.write_csv(table, here / "people.csv")
    for name in ("isco", "place"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.int64()))
    pq.write_table(table, here / "people.parquet")
    return here


def anonymize(folder: Path, data: str, method: dict[str, Any], out: Path | None = None) -> shoal.Release:
    attributes = {name: {"role": "quasi", "taxonomy": {"file": str(folder / f"{name}.csv")}} for name in LINES}
    policy = {
        "attributes": {**attributes, "illness": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 4}}],
        "method": method,
        "max_withheld": 0.2,
    }
    return shoal.anonymize(folder / data, policy, out=out, seed=4)


@pytest.mark.parametrize(("method", "data"), cover(METHODS, ["people.csv", "people.parquet"]))
def test_every_method_publishes_codes_under_numeric_groups(folder: Path, data: str, method: dict[str, Any]) -> None:
    release = anonymize(folder, data, method)
    assert release.verification.verified
    for name in LINES:
        assert release.manifest["attributes"][name]["kind"] == "category"
        known = {label for line in LINES[name] for label in line.split(";")} | {"(10)", "(20)"}
        shown = set(release.data[name].to_pylist())
        assert all(label in known or label[0] in "{[" for label in shown)  # sets and ranges of codes, and no averages


@pytest.fixture
def out(folder: Path, tmp_path: Path) -> Path:
    anonymize(folder, "people.csv", {"mondrian": {}}, tmp_path / "out")
    return tmp_path / "out"


def check_again(folder: Path, out: Path, change: Callable[[dict[str, Any]], None]) -> Verification:
    """Change the manifest, enter its new digest everywhere, and verify."""
    path, evidence = out / "public" / "manifest.json", out / "internal" / "evidence.json"
    manifest = unpack_labels(json.loads(path.read_text()))
    change(manifest)
    path.write_text(json.dumps(pack_labels(manifest)))
    stated = json.loads(evidence.read_text())
    stated["manifest"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    evidence.write_text(json.dumps(stated))
    return verify(out, source=folder / "people.csv")


def test_an_unchanged_release_is_accepted_with_its_source(folder: Path, out: Path) -> None:
    assert check_again(folder, out, lambda _: None).verified


def occurring_group(manifest: dict[str, Any]) -> tuple[str, list[str]]:
    """A group of several occupations that rows show, and their codes."""
    labels = manifest["attributes"]["isco"]["labels"]
    return next((label, cover["values"]) for label, cover in labels.items() if len(cover.get("values", ())) > 1)


@pytest.mark.parametrize("change", ["another value", "a value less", "one foreign value"])
def test_a_cover_of_wrong_values_is_refused(folder: Path, out: Path, change: str) -> None:
    def spoil(manifest: dict[str, Any]) -> None:
        label, values = occurring_group(manifest)
        others = [code for code in ISCO if code not in values]
        wrong = {
            "another value": [*values[1:], others[0]],
            "a value less": values[1:],
            "one foreign value": others[:1],
        }
        manifest["attributes"]["isco"]["labels"][label] = {"values": wrong[change]}

    found = check_again(folder, out, spoil)
    assert found.verdict == "failed"
    assert {check.name for check in found.checks if not check.ok} & {"labels", "truth", "manifest", "figures"}


def test_a_row_whose_label_does_not_cover_its_value_is_refused(folder: Path, out: Path) -> None:
    """Two rows of different groups exchange their occupations."""
    path = out / "public" / "data.csv"
    header, *rows = path.read_text().splitlines()
    place = header.split(",").index("isco")
    fields = [row.split(",") for row in rows]
    other = next(row for row in fields if row[place][0] != fields[0][place][0] and "*" not in row[place])
    fields[0][place], other[place] = other[place], fields[0][place]
    path.write_text("\n".join([header, *(",".join(row) for row in fields)]) + "\n")

    def restate(manifest: dict[str, Any]) -> None:
        manifest["data"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    found = check_again(folder, out, restate)
    assert found.verdict == "failed"
    (truth,) = [check.detail for check in found.checks if check.name == "truth"]
    assert "by their values of illness" in truth  # the columns that were compared


@pytest.mark.parametrize(
    ("labels", "kind"), [("[{}, {}]", "category"), ("{}-{}", "number"), (">= {} to {}", "category")]
)
def test_intervals_of_a_hierarchy_with_gaps_are_accepted(labels: str, kind: str) -> None:
    """The first would read like the interval from 20 to 29, and the file has only 21, 25 and 28."""
    ages = {labels.format(0, 19): [3, 17], labels.format(20, 29): [21, 25, 28], labels.format(30, 99): [30, 44, 71]}
    rng = np.random.default_rng(2)
    leaves = [age for group in ages.values() for age in group]
    table = pa.table({"age": rng.choice(leaves, 90), "illness": rng.choice(list("abc"), 90)})
    policy = {
        "attributes": {"age": {"role": "quasi", "taxonomy": {"groups": ages}}, "illness": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 15}}],
        "method": {"incognito": {}},
    }
    release = shoal.anonymize(table, policy, seed=1)
    assert release.verification.verified
    assert labels.format(20, 29) in release.data["age"].to_pylist()
    assert release.manifest["attributes"]["age"]["kind"] == kind

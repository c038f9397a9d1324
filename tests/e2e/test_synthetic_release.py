"""Differentially private releases: what is refused, what is published, and that nothing exact is in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from tests.tables import cover

import shoal
from shoal.core.errors import InputError, PolicyError, ShoalError
from shoal.core.randomness import Chance
from shoal.methods.synthetic import synthesis
from shoal.methods.synthetic.synthesis import synthesize
from shoal.plan.synthetic import Domain, SyntheticPlan
from shoal.verify.verifier import verify

pytest.importorskip("opendp")

AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "step": 10}}}
SEX = {"role": "quasi", "taxonomy": {"flat": ["f", "m"]}}
ILLNESS = {"role": "sensitive", "taxonomy": {"groups": {"germs": ["flu", "mumps"], "body": ["gout"]}}}
COST = {"role": "sensitive", "taxonomy": {"intervals": {"min": 0, "max": 1000, "step": 250}}}
TREE = [["age", "illness"], ["sex", "illness"], ["illness", "cost"]]


def people(n_rows: int = 1237, *, seed: int = 5) -> pa.Table:
    """Age goes with illness; nobody has mumps; no value is missing."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, n_rows)
    return pa.table(
        {
            "name": [f"person {number}" for number in range(n_rows)],
            "age": age,
            "sex": rng.choice(["f", "m"], n_rows),
            "illness": np.where(rng.random(n_rows) < age / 100, "gout", "flu"),
            "cost": rng.integers(0, 1000, n_rows),
        }
    )


def policy(*, missing: str = "category", attributes: dict[str, Any] | None = None, **method: Any) -> dict[str, Any]:
    return {
        "attributes": {
            "name": {"role": "identifier"},
            "age": AGE,
            "sex": SEX,
            "illness": ILLNESS,
            "cost": COST,
            **(attributes or {}),
        },
        "privacy": [],
        "method": {"synthetic": {"epsilon": 1, **method}},
        "missing": missing,
    }


def changed(table: pa.Table, column: str, values: dict[int, Any]) -> pa.Table:
    """The table with other values in some rows of a column."""
    now = table[column].to_pylist()
    for row, value in values.items():
        now[row] = value
    return table.set_column(
        table.schema.get_field_index(column), column, pa.array(now, table.schema.field(column).type)
    )


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the method asks the library for: domains and chance."""
    calls: list[dict[str, Any]] = []

    def recorded(codes: Any, domains: tuple[Domain, ...], options: Any, chance: Chance, counts: Any) -> SyntheticPlan:
        calls.append({"domains": domains, "chance": chance, "records": int(counts.sum())})
        return synthesize(codes, domains, options, chance, counts)

    monkeypatch.setattr(synthesis, "synthesize", recorded)
    return calls


@pytest.mark.parametrize(
    "more",
    [
        {"privacy": [{"k-anonymity": {"k": 2}}]},
        {"sample": {"share": 0.5}},
        {"unit": "name"},
        {"attributes": {**policy()["attributes"], "age": {**AGE, "technique": {"rounding": {"base": 10}}}}},
        {"attributes": {**policy()["attributes"], "sex": {"role": "quasi", "items": {"separator": ";"}}}},
    ],
    ids=["models", "sample", "unit", "technique", "items"],
)
def test_what_is_about_other_promises_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        shoal.anonymize(people(), policy() | more)


def test_values_outside_the_domain_are_refused_before_anything_is_drawn(seen: list[dict[str, Any]]) -> None:
    with pytest.raises(InputError, match="'age'"):
        shoal.anonymize(changed(people(), "age", {3: 250}), policy())
    assert not seen


def test_a_release_in_memory() -> None:
    release = shoal.anonymize(people(), policy(epsilon=100))
    manifest = release.manifest
    assert release.data.column_names == ["age", "sex", "illness", "cost"]
    assert len(release.data) == manifest["rows"]
    assert abs(manifest["rows"] - 1237) <= 20
    assert manifest["guarantees"] == []
    assert manifest["claims"] == [{"model": "differential-privacy", "parameters": {"epsilon": 100.0, "delta": 0.0}}]
    assert (manifest["withheld"], manifest["missing"]["dropped"]) == (0, 0)
    for name, entry in manifest["attributes"].items():
        assert set(entry["labels"]) == set(release.data[name].to_pylist())
    assert manifest["attributes"]["age"]["labels"]["[30, 39]"] == {"from": 30, "below": 40}
    assert {name: entry["role"] for name, entry in manifest["attributes"].items()}["illness"] == "sensitive"
    table = release.data.to_pydict()
    ill = [illness for age, illness in zip(table["age"], table["illness"], strict=True) if age == "[80, 89]"]
    assert ill.count("gout") / len(ill) > 0.7
    assert release.verification.verified


@pytest.mark.parametrize(("delta", "format"), cover([0, 1e-6], ["csv", "parquet"]))
def test_a_release_on_disk(format: str, delta: float, tmp_path: Path) -> None:  # noqa: A002
    pyarrow.csv.write_csv(people(), tmp_path / "people.csv")
    release = shoal.anonymize(
        tmp_path / "people.csv", policy(delta=delta), out=tmp_path / "out", format=format, utility="full"
    )
    public = tmp_path / "out" / "public"
    read = pyarrow.csv.read_csv if format == "csv" else pyarrow.parquet.read_table
    assert read(public / f"data.{format}").num_rows == release.manifest["rows"]
    assert verify(tmp_path / "out").verified
    assert verify(tmp_path / "out", source=tmp_path / "people.csv").verified
    evidence = json.loads((tmp_path / "out" / "internal" / "evidence.json").read_text())
    assert evidence["synthetic"]["records"] == 1237
    assert set(evidence["synthetic"]["attributes"]) == {"age", "sex", "illness", "cost"}
    assert len(evidence["synthetic"]["pairs"]) == 6
    assert evidence["risk_after"] == {}
    assert (tmp_path / "out" / "internal" / "report.html").stat().st_size > 1000


def public_text(folder: Path) -> str:
    """All that is published but the rows and what follows from them: labels, digests."""
    manifest = json.loads((folder / "public" / "manifest.json").read_text())
    for entry in manifest["attributes"].values():
        del entry["labels"]
    manifest["data"].pop("sha256")
    manifest.pop("readme")
    manifest.pop("report")
    return json.dumps(manifest, sort_keys=True)


def test_with_rows_and_tree_given_nothing_but_rows_depends_on_the_data(tmp_path: Path) -> None:
    """Two tables that have nothing in common: a count, a measure, a type or a name would show."""
    one = people()
    other = pa.table(
        {
            "name": ["somebody"] * 61,
            "age": pa.array([5] * 60 + [None], pa.int16()),
            "sex": ["f"] * 60 + [None],
            "illness": ["mumps"] * 61,
            "cost": [0] * 61,
        }
    )
    document = policy(rows=400, tree=TREE)
    texts = set()
    for number, table in enumerate((one, other)):
        shoal.anonymize(table, document, out=tmp_path / str(number), format="csv")
        texts.add(public_text(tmp_path / str(number)))
    assert len(texts) == 1


def test_the_readme_tells_no_exact_number(tmp_path: Path) -> None:
    shoal.anonymize(people(), policy(rows=400, tree=TREE), out=tmp_path / "out")
    for name in ("README.md", "report.html"):
        page = (tmp_path / "out" / "public" / name).read_text()
        assert "1237" not in page
        assert "1,237" not in page


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_what_rounds_chose_is_in_the_manifest_and_adds_up(delta: float) -> None:
    release = shoal.anonymize(people(), policy(epsilon=5, delta=delta))
    account = release.manifest["synthetic"]
    assert account["marginals"]
    assert account["spent"]["epsilon"] > 4.999
    assert sum(use["purpose"].startswith("choice") for use in account["ledger"]) >= len(account["marginals"])
    assert release.verification.verified


@pytest.mark.parametrize("missing", ["category", "drop"])
def test_neighbours_have_the_same_domain(missing: str, seen: list[dict[str, Any]]) -> None:
    """The one record more is the only one with a missing value, and the only one with mumps."""
    table = people()
    special = changed(changed(table.slice(0, 1), "sex", {0: None}), "illness", {0: "mumps"})
    for rows in (table, pa.concat_tables([table, special])):
        shoal.anonymize(rows, policy(missing=missing))
    without, with_special = ({domain.name: domain.taxonomy.leaf_labels for domain in call["domains"]} for call in seen)
    assert without == with_special
    assert ("missing" in without["sex"]) == ("missing" in without["cost"]) == (missing == "category")
    assert [call["records"] for call in seen] == [1237, 1238 if missing == "category" else 1237]


def test_domains_that_came_from_the_data_are_noticed() -> None:
    """Were only columns with gaps given a value for missing ones, the manifest would tell which have gaps."""
    from shoal.methods.synthetic import find_domains
    from shoal.plan.cells import Cells
    from shoal.plan.problem import Attribute, Problem
    from shoal.taxonomies.builders.listed import FlatTaxonomy

    tree = FlatTaxonomy(values=("a", "b")).build(pa.array([], pa.string()))
    cells = Cells((np.zeros(1, np.int32), np.zeros(1, np.int32)), np.ones(1, np.int64))
    attributes = (Attribute("x", tree), Attribute("y", tree.with_missing()))
    with pytest.raises(ShoalError, match="which would disclose data"):
        find_domains(Problem(attributes, (), cells, ()))

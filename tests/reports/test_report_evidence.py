"""Changes of columns, sensitive shares and associations in the evidence, against counting the published rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.audit import evidence as audit_evidence
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget
from shoal.release.figures import MOST_VALUES, ColumnTally, ShareTally
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested

N = 600
ILLNESS = {"any": {"joints": ["gout", "sprain"], "lungs": ["asthma", "flu", "cold"], "heart": ["angina"]}}
N_ILLNESSES = 6
QUASI = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}}},
    "sex": {"role": "quasi"},
}
ATTRIBUTES: dict[str, Any] = {**QUASI, "illness": {"role": "sensitive", "taxonomy": {"tree": ILLNESS}}}
POLICIES: dict[str, dict[str, Any]] = {
    "mondrian": {"privacy": [{"k-anonymity": {"k": 4}}], "method": "mondrian"},
    "incognito": {"privacy": [{"k-anonymity": {"k": 4}}], "method": "incognito", "max_withheld": 0.05},
    "sweep": {"privacy": [{"tau-l-diversity": {"tau": 0.28, "l": 5}}], "method": "sweep"},
    "microaggregation": {"privacy": [{"k-anonymity": {"k": 4}}], "method": "microaggregation"},
    "plain": {"privacy": [], "method": "plain"},
    "slicing": {"privacy": [{"column-frequency": {"k": 4}}, {"distinct-l-diversity": {"l": 2}}], "method": "slicing"},
    "anatomy": {"privacy": [{"distinct-l-diversity": {"l": 2}}], "method": "anatomy"},
}


def people() -> pa.Table:
    rng = np.random.default_rng(7)
    age = rng.integers(0, 100, N)
    names = ["gout", "sprain", "asthma", "flu", "cold", "angina"]
    return pa.table(
        {
            "age": age,
            "sex": rng.choice(["f", "m"], N),
            "illness": [names[min(int(a) // 25 + int(rng.integers(0, 3)), 5)] for a in age],
        }
    )


@pytest.fixture(scope="module")
def releases() -> dict[str, Any]:
    return {
        name: shoal.anonymize(people(), {"attributes": ATTRIBUTES, **policy}, seed=1)
        for name, policy in POLICIES.items()
    }


def groups(release: Any) -> dict[Any, Counter[str]]:
    """The illnesses of every class or bucket, as published."""
    data = release.data.to_pylist()
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    for row in data:
        key = row["bucket"] if "bucket" in row else (row["age"], row["sex"])
        found[key][row["illness"]] += 1
    return found


@pytest.mark.parametrize("name", POLICIES)
def test_shares_are_those_of_the_published_rows(releases: dict[str, Any], name: str) -> None:
    release = releases[name]
    classes = groups(release)
    total = sum(classes.values(), Counter())
    stated = release.evidence["sensitive"]["illness"]
    assert stated["more"] == 0
    assert {entry["value"] for entry in stated["values"]} == set(total)
    for entry in stated["values"]:
        shares = [counted[entry["value"]] / counted.total() for counted in classes.values()]
        assert entry["whole"] == total[entry["value"]] / total.total()
        assert (entry["lowest"], entry["highest"]) == (min(shares), max(shares))
    wholes = [entry["whole"] for entry in stated["values"]]
    assert wholes == sorted(wholes, reverse=True)


def count_shares(release: Any, column: str) -> dict[str, float]:
    """Count what became of a column's values in the published rows, by the covers of their labels."""
    covers = release.manifest["attributes"][column].get("labels")
    rows = release.data.column(column).to_pylist()
    found = Counter("unchanged" if covers is None else _name_change(covers[label]) for label in rows)
    return {name: found[name] / len(rows) for name in ("unchanged", "generalized", "suppressed")}


def _name_change(cover: dict[str, Any]) -> str:
    if cover.get("any") or len(cover.get("values", ())) == N_ILLNESSES:  # labels of sensitive values list them
        return "suppressed"
    if "values" in cover:
        return "unchanged" if len(cover["values"]) == 1 else "generalized"
    return (
        "unchanged"
        if None not in (ends := (cover["from"], cover["below"])) and ends[1] - ends[0] == 1
        else "generalized"
    )


@pytest.mark.parametrize("name", POLICIES)
def test_columns_are_unchanged_generalized_or_suppressed_as_published(releases: dict[str, Any], name: str) -> None:
    release = releases[name]
    stated, rows = release.evidence["columns"], release.data.to_pylist()
    assert set(stated) == set(release.data.column_names) - {"bucket"}
    for column, shares in stated.items():
        assert sum(shares.values()) == pytest.approx(1)
        if name == "microaggregation" and column == "age":  # an average is no original value and hides none
            assert shares["suppressed"] == 0 < shares["generalized"]
        elif name != "microaggregation":
            assert shares == pytest.approx(count_shares(release, column)), column
    hidden = sum(row["age"] == row["sex"] == "*" for row in rows)
    assert release.evidence.get("rows_suppressed") == (None if "bucket" in rows[0] else hidden)


def test_rows_without_any_quasi_value_are_counted() -> None:
    policy = {"attributes": ATTRIBUTES, "privacy": [{"k-anonymity": {"k": 400}}], "method": "mondrian"}
    release = shoal.anonymize(people(), policy, seed=1)
    assert release.evidence["rows_suppressed"] == N
    assert release.evidence["columns"]["sex"] == {"unchanged": 0.0, "generalized": 0.0, "suppressed": 1.0}


def test_a_column_that_a_technique_changed_has_no_shares() -> None:
    changed = {**ATTRIBUTES, "age": {**ATTRIBUTES["age"], "technique": {"rounding": {"base": 5}}}}
    release = shoal.anonymize(people(), {"attributes": changed, **POLICIES["mondrian"]}, seed=1)
    assert set(release.evidence["columns"]) == {"sex", "illness"}


def test_a_leaf_that_is_a_stretch_of_numbers_is_not_an_unchanged_value() -> None:
    tree = IntervalsTaxonomy(min=0.0, max=2.0, widths=(0.5,)).build(None)
    lo = np.arange(4, dtype=np.int32)
    shares = ColumnTally.of(tree, lo, lo + np.int32(1), np.ones(4, dtype=np.int64)).shares()
    assert shares == {"unchanged": 0.0, "generalized": 1.0, "suppressed": 0.0}
    ages = IntervalsTaxonomy(min=0, max=2, open="high").build(None)  # 0, 1, 2, and everything above
    tally = ColumnTally.of(ages, lo, lo + np.int32(1), np.ones(4, dtype=np.int64))
    assert tally.records.tolist() == [3, 1, 0]


def test_regions_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(3)
    n = 3000
    table = pa.table(
        {
            "age": rng.integers(0, 100, n),
            "place": rng.integers(0, 5000, n),
            "illness": rng.choice(["gout", "flu", "cold"], n),
        }
    )
    attributes = {"age": QUASI["age"], "place": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 5}}], "method": "mondrian"}
    small = Budget(limit=1 << 30, cells=700, sample=500, region_rows=350, heap_rows=256, threads=1)
    release = run(table, policy, Options(seed=1, budget=small), Silent())
    assert release.evidence["search"]["regions"] > 3
    rows = release.data.to_pandas()
    counts = rows.groupby(["age", "place", "illness"]).size().unstack(fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0)
    for entry in release.evidence["sensitive"]["illness"]["values"]:
        assert entry["highest"] == shares[entry["value"]].max()
        assert entry["lowest"] == shares[entry["value"]].min()
        assert entry["whole"] == counts[entry["value"]].sum().sum() / n
    for name, stated in release.evidence["columns"].items():
        assert stated == pytest.approx(count_shares(release, name)), name
    assert release.evidence["rows_suppressed"] == (rows["age"].eq("*") & rows["place"].eq("*")).sum()
    assert "associations" not in release.evidence
    assert "larger than the memory" in release.report()


def test_many_values_are_cut_and_counted() -> None:
    tree = from_nested({"any": [f"v{i:02}" for i in range(30)]})
    keys = np.arange(30) * 32 + 1
    number = np.arange(30, dtype=np.int32)
    tally = ShareTally.of(keys, number, np.zeros(30, dtype=np.int32), np.arange(1, 31), 1)
    stated = tally.as_dict(tree)
    assert [entry["value"] for entry in stated["values"]] == [f"v{i:02}" for i in range(29, 9, -1)]
    assert (len(stated["values"]), stated["more"]) == (MOST_VALUES, 10)


def test_tallies_of_halves_are_that_of_the_whole() -> None:
    rng = np.random.default_rng(5)
    n, n_classes = 400, 20
    keys = np.sort(rng.choice(1000, 12, replace=False)).astype(np.int64)
    number = rng.integers(0, 12, n).astype(np.int32)
    class_of = rng.integers(-1, n_classes, n).astype(np.int32)
    records = rng.integers(0, 5, n)
    whole = ShareTally.of(keys, number, class_of, records, n_classes)
    lower = ShareTally.of(keys, number, np.where(class_of < 10, class_of, -1).astype(np.int32), records, n_classes)
    upper = ShareTally.of(keys, number, np.where(class_of >= 10, class_of, -1).astype(np.int32), records, n_classes)
    added = lower + upper
    for name in ("keys", "records", "classes", "lowest", "highest"):
        assert np.array_equal(getattr(added, name), getattr(whole, name)), name
    assert added.n_classes == whole.n_classes
    tree = from_nested(ILLNESS)
    one = ColumnTally.of(tree, np.array([0, 0], dtype=np.int32), np.array([1, 6], dtype=np.int32), np.array([3, 4]))
    assert (one + one).records.tolist() == [6, 0, 8]


@pytest.mark.parametrize("name", ["mondrian", "sweep", "slicing", "plain"])
def test_associations_before_are_cramers_v(releases: dict[str, Any], name: str) -> None:
    stated = {tuple(entry["pair"]): entry for entry in releases[name].evidence["associations"]}
    assert set(stated) == {("age", "sex"), ("age", "illness"), ("sex", "illness")}
    rows = people().to_pylist()
    counts = Counter((row["sex"], row["illness"]) for row in rows)
    sexes, ills = Counter(row["sex"] for row in rows), Counter(row["illness"] for row in rows)
    chi = sum((counts[s, i] - sexes[s] * ills[i] / N) ** 2 / (sexes[s] * ills[i] / N) for s in sexes for i in ills)
    r, c = len(sexes), len(ills)
    square = max(0.0, chi / N - (r - 1) * (c - 1) / (N - 1))  # Bergsma's correction
    fewer = min(r - (r - 1) ** 2 / (N - 1), c - (c - 1) ** 2 / (N - 1))
    assert stated["sex", "illness"]["before"] == pytest.approx(math.sqrt(square / (fewer - 1)))
    assert all(0 <= entry["after"] <= 1 for entry in stated.values())
    if name == "plain":
        assert all(entry["after"] == pytest.approx(entry["before"]) for entry in stated.values())


def test_large_tables_have_associations_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_evidence, "_LITTLE_WORK", 100.0)
    policy = {"attributes": ATTRIBUTES, **POLICIES["mondrian"]}
    quick = shoal.anonymize(people(), policy, seed=1)
    assert "associations" not in quick.evidence
    assert "--utility full" in quick.report()
    assert "associations" in shoal.anonymize(people(), policy, seed=1, utility="full").evidence


def test_a_missing_value_is_unchanged() -> None:
    tree = from_nested(ILLNESS).with_missing()
    assert tree.missing is not None
    ends = np.array([tree.missing], dtype=np.int32)
    assert ColumnTally.of(tree, ends, ends + np.int32(1), np.array([5])).records.tolist() == [5, 0, 0]

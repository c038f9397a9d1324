"""Levels, sensitive shares and associations in the evidence, against counting the published rows by hand."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.anonymize.run import Options, Run
from shoal.audit import evidence as audit_evidence
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget
from shoal.release.figures import MOST_VALUES, LevelTally, ShareTally
from shoal.taxonomies.files import from_nested

N = 600
ILLNESS = {"any": {"joints": ["gout", "sprain"], "lungs": ["asthma", "flu", "cold"], "heart": ["angina"]}}
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


@pytest.mark.parametrize("name", POLICIES)
def test_levels_are_those_of_the_published_labels(releases: dict[str, Any], name: str) -> None:
    release = releases[name]
    if name in ("microaggregation", "plain", "anatomy"):
        assert "levels" not in release.evidence
        return
    stated = release.evidence["levels"]
    for column, entry in stated.items():
        assert sum(entry["nodes"]) + entry["ranges"] == release.manifest["rows"], column
    ages = Counter(row["age"] for row in release.data.to_pylist())
    covers = release.manifest["attributes"]["age"]["labels"]
    widths = {0: 1, 1: 5, 2: 20}
    for level, width in widths.items():
        nodes = [label for label, cover in covers.items() if _is_interval(cover, width)]
        assert stated["age"]["nodes"][level] == sum(ages[label] for label in nodes)
    assert stated["age"]["nodes"][3] == sum(ages[label] for label, cover in covers.items() if cover.get("any"))


def _is_interval(cover: dict[str, Any], width: int) -> bool:
    if cover.get("any") or cover["from"] is None or cover["below"] is None:
        return False
    return bool(cover["below"] - cover["from"] == width and cover["from"] % width == 0)


def test_generalized_sensitive_values_have_levels_and_shares(releases: dict[str, Any]) -> None:
    evidence = releases["sweep"].evidence
    n_generalized = evidence["generalized_sensitive"]["illness"]
    assert n_generalized > 0
    nodes = evidence["levels"]["illness"]["nodes"]
    assert sum(nodes[1:]) == n_generalized
    assert evidence["levels"]["illness"]["ranges"] == 0
    assert "illness" not in releases["mondrian"].evidence["levels"]


def test_full_domain_levels_are_those_of_the_manifest(releases: dict[str, Any]) -> None:
    release = releases["incognito"]
    for name, level in release.manifest["levels"].items():
        assert release.evidence["levels"][name]["nodes"][level] == release.manifest["rows"]


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
    release = Run.start(table, policy, Options(seed=1, budget=small), Silent()).finish(table)
    assert release.evidence["search"]["regions"] > 3
    rows = release.data.to_pandas()
    counts = rows.groupby(["age", "place", "illness"]).size().unstack(fill_value=0)
    shares = counts.div(counts.sum(axis=1), axis=0)
    for entry in release.evidence["sensitive"]["illness"]["values"]:
        assert entry["highest"] == shares[entry["value"]].max()
        assert entry["lowest"] == shares[entry["value"]].min()
        assert entry["whole"] == counts[entry["value"]].sum().sum() / n
    for entry in release.evidence["levels"].values():
        assert sum(entry["nodes"]) + entry["ranges"] == n
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
    one = LevelTally.of(tree, np.array([0, 0], dtype=np.int32), np.array([1, 6], dtype=np.int32), np.array([3, 4]))
    assert (one + one).as_dict() == {"nodes": [6, 0, 8], "ranges": 0}


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


def test_a_value_that_hangs_high_in_its_tree_is_no_step_up() -> None:
    tree = from_nested(ILLNESS).with_missing()
    assert tree.missing is not None
    ends = np.array([tree.missing], dtype=np.int32)
    stated = LevelTally.of(tree, ends, ends + np.int32(1), np.array([5])).as_dict()
    assert stated == {"nodes": [5, 0, 0], "ranges": 0}

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
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget

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

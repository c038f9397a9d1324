"""Tables counted in the rows of a release: beside slow counting, and beside what labels cover."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.audit.marginals import ComparedColumn, SourceTables
from shoal.manifest import describe_plain
from shoal.policy.policy import Policy
from shoal.release.forms.base import read_form
from shoal.sources.opening import open_source

SMALL: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 9, "widths": [2]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
        "shoes": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 2}}],
}


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    ill = np.where(rng.random(n) < 0.5, np.where(sex == "F", "flu", "gout"), rng.choice(["flu", "rash"], n))
    return pa.table({"age": rng.integers(0, 10, n), "sex": sex, "illness": ill, "shoes": rng.integers(36, 47, n)})


def slow_scores(source: pa.Table, published: pa.Table) -> list[float]:
    """Score tables whose values are published as they are."""
    found = []
    for size in (1, 2, 3):
        apart = []
        for names in combinations(source.column_names, size):
            one, other = (
                Counter(zip(*(table.column(name).to_pylist() for name in names), strict=True))
                for table in (source, published)
            )
            shares = (abs(one[key] / source.num_rows - other[key] / published.num_rows) for key in one | other)
            apart.append(sum(shares) / 2)
        found.append(1000 * (1 - sum(apart) / len(apart)))
    return found


def test_the_score_is_that_of_looking_at_every_row() -> None:
    source, other = rows(200, 1), rows(150, 2)
    tables = SourceTables.of(Policy.load(SMALL), open_source(source), source.column_names)
    attributes = shoal.anonymize(source, SMALL, seed=1).manifest["attributes"]
    form = read_form(
        describe_plain({name: {key: one[key] for key in ("role", "kind")} for name, one in attributes.items()})
    )
    assert [one.release for one in tables.score(other, form)] == pytest.approx(slow_scores(source, other))
    assert [one.release for one in tables.score(source, form)] == pytest.approx([1000] * 3)


@pytest.mark.parametrize(
    "change",
    [
        {
            "attributes": {
                **SMALL["attributes"],
                "age": {"role": "quasi", "technique": {"noise": {"laplace": {"scale": 2}}}},
            }
        },
        {"sample": {"share": 0.3}},
    ],
    ids=["noise", "sample"],
)
def test_what_techniques_and_samples_change_lowers_the_score(change: dict[str, Any]) -> None:
    untouched = {**SMALL, "privacy": [], "method": "plain"}
    found = shoal.anonymize(rows(400, 1), {**untouched, **change}, seed=1).evidence["marginals"]
    assert shoal.anonymize(rows(400, 1), untouched, seed=1).evidence["marginals"][2]["release"] == pytest.approx(1000)
    assert found[2]["release"] < 950


KINDS = [("mondrian", {}), ("sweep", {}), ("anatomy", {}), ("incognito", {}), ("hilbert", {})]


@pytest.mark.parametrize(("method", "parameters"), KINDS, ids=[name for name, _ in KINDS])
def test_labels_stand_for_what_they_cover(method: str, parameters: dict[str, Any]) -> None:
    policy = {
        "attributes": {
            "age": {"role": "quasi"},  # its values come from the data
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
            "day": {
                "role": "quasi",
                "taxonomy": {"dates": {"levels": ["month"], "min": "2024-01-01", "max": "2024-12-31"}},
            },
            "illness": {"role": "sensitive"},
        },
        "privacy": [{"simple-l-diversity": {"l": 2}}],
        "method": {method: parameters},
    }
    rng = np.random.default_rng(2)
    n = 300
    table = pa.table(
        {
            "age": pa.array([*rng.integers(20, 60, n - 1).tolist(), None]),
            "zip": [f"{number:03d}" for number in rng.integers(0, 40, n)],
            "day": pa.array(rng.integers(19723, 19723 + 300, n).astype(np.int32)).cast(pa.date32()),
            "illness": rng.choice(["flu", "gout", "rash"], n),
        }
    )
    release = shoal.anonymize(table, policy, seed=1)
    for name, entry in release.manifest["attributes"].items():
        labels = entry.get("labels", {})
        compared = ComparedColumn.of(name, Policy.load(policy).attributes[name].taxonomy, table.column(name))
        lo, hi, owner = compared.find_runs(list(labels.values()))
        for place, cover in enumerate(labels.values()):
            leaves = {leaf for own in np.flatnonzero(owner == place) for leaf in range(lo[own], hi[own])}
            n_leaves = compared.taxonomy.n_leaves
            assert leaves == {leaf for leaf in range(n_leaves) if covers(compared, leaf, cover)}


def covers(compared: ComparedColumn, leaf: int, cover: dict[str, Any]) -> bool:
    """Whether the source value of a leaf is one that a label stands for, told by its text."""
    if cover.get("any") or leaf == compared.taxonomy.missing:
        return bool(cover.get("any") or cover.get("missing"))
    value = compared.taxonomy.labels[leaf]
    if "values" in cover:
        return value in cover["values"]
    if "prefixes" in cover:
        return any(value.startswith(prefix) for prefix in cover["prefixes"])
    if "through" in cover:
        return (cover["from"] or "") <= value <= (cover["through"] or "~")
    read = str if compared.name == "day" else int
    low, below = cover["from"], cover["below"]
    return (low is None or read(value) >= low) and (below is None or read(value) < below)


def test_averages_and_noise_go_to_the_nearest_value_and_tokens_to_none() -> None:
    age = ComparedColumn.of("age", None, pa.chunked_array([[10, 20, 40]]))
    assert age.find_leaves(pa.array([14.9, 15.1, -5.0, 31.0, 1e9])).tolist() == [0, 1, 0, 2, 2]
    assert age.find_leaves(pa.array(["14.9", "token", None])).tolist() == [0, age.unknown, age.unknown]
    town = ComparedColumn.of("town", None, pa.chunked_array([["Bonn", None, "Ulm"]]))
    assert town.find_leaves(pa.array(["Ulm", "gA7xQ", None])).tolist() == [1, town.unknown, 2]
    cost = ComparedColumn.of("cost", None, pa.chunked_array([[0.5, 1.25, 99.75]]))
    assert cost.find_leaves(pa.array([0.6, 99.0])).tolist() == [0, 1]

"""A release checked in parts gets the answer that it gets at once: honest and spoiled, all methods, all models."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import shoal
from shoal.core.registry import discover
from shoal.models.base import PrivacyModel
from shoal.sources.base import Source
from shoal.sources.opening import open_source
from shoal.verify.reading import MemoryRows
from shoal.verify.regional import checking
from shoal.verify.regional.checking import Means
from shoal.verify.result import Verification
from shoal.verify.room import Room
from shoal.verify.verifier import verify_rows

N = 360
QUASI = ("age", "sex", "zip")
TIGHT, LOOSE = 8_000, 24_000  # bytes: room for a few classes, and for some more
K = {"k-anonymity": {"k": 3}}
MODELS: dict[str, list[dict[str, Any]]] = {
    "k-anonymity": [{"k": 4}],
    "distinct-l-diversity": [{"l": 3, "attribute": ["illness", "job"]}],
    "simple-l-diversity": [{"l": 1.5}],
    "entropy-l-diversity": [{"l": 2}],
    "recursive-cl-diversity": [{"c": 3, "l": 2}],
    "tau-l-diversity": [{"tau": 0.7, "l": 3}],
    "t-closeness": [
        {"t": 0.5},
        {"t": 0.5, "distance": "ordered", "attribute": "illness"},
        {"t": 0.5, "distance": "hierarchical", "attribute": "illness"},
    ],
    "alpha-k-anonymity": [{"alpha": 0.7, "k": 4}],
    "beta-likeness": [{"beta": 2.5}],
    "delta-disclosure": [{"delta": 2.5, "attribute": "illness"}],
    "confidence-bounding": [{"most": 0.7, "harmless": ["flu"], "separator": "i", "attribute": "illness"}],
    "k-map": [{"k": 5, "population": "people.csv"}],
    "delta-presence": [{"min": 0.05, "max": 0.9, "population": "people.csv"}],
}
METHODS: dict[str, dict[str, Any]] = {
    "mondrian": {},
    "hilbert": {},
    "incognito": {},
    "sweep": {"improve": False},
    "microaggregation": {},
    "plain": {},
}


def people(seed: int, n: int = N) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(45, 14, n).round(), 18, 90).astype(int)
    return pa.table(
        {
            "age": age,
            "sex": np.where(rng.random(n) < 0.5, "f", "m"),
            "zip": [f"{60000 + 10 * a + b}" for a, b in zip(age // 15, rng.integers(0, 4, n), strict=True)],
            "illness": rng.choice(["angina", "flu", "gout", "mumps"], n, p=[0.3, 0.3, 0.25, 0.15]),
            "job": rng.choice(["clerk", "cook", "smith"], n),
            "cost": rng.integers(1, n, n).astype(float),
        }
    )


def policy(method: str, *models: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {
        "attributes": {
            "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [5, 10, 40]}}},
            "sex": {"role": "quasi"},
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
            "illness": {
                "role": "sensitive",
                "taxonomy": {"groups": {"body": ["angina", "gout"], "germs": ["flu", "mumps"]}},
            },
            "job": {"role": "sensitive"},
            "cost": {"role": "insensitive"},
        },
        "privacy": list(models),
        "method": {method: METHODS[method]},
        **options,
    }


@pytest.fixture(scope="module", autouse=True)
def population(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """The population's file, in a working folder of its own: dict policies start their paths there."""
    folder = tmp_path_factory.mktemp("population")
    everybody = pa.concat_tables([people(seed).select(QUASI) for seed in (1, 1, 2)])
    pyarrow.csv.write_csv(everybody, folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield open_source("people.csv")


Spoiled = tuple[pa.Table, dict[str, Any]]


def _set(table: pa.Table, name: str, values: list[Any]) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


def _moved(name: str) -> Callable[[pa.Table, dict[str, Any]], Spoiled]:
    def moved(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
        values = table[name].to_pylist()
        other = next((i for i, value in enumerate(values) if value != values[0]), 0)
        values[0], values[other] = values[other], values[0]
        return _set(table, name, values), manifest

    return moved


def _dropped(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    return table.slice(1), manifest | {"rows": manifest["rows"] - 1}


def _repeated(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    return pa.concat_tables([table, table.slice(5, 2)]), manifest | {"rows": manifest["rows"] + 2}


def _false(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    costs = table["cost"].to_pylist()
    return _set(table, "cost", [0.5, 0.25, *costs[2:]]), manifest


def _undeclared(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    return _set(table, "illness", ["gout of all kinds", *table["illness"].to_pylist()[1:]]), manifest


def _boastful(table: pa.Table, manifest: dict[str, Any]) -> Spoiled:
    manifest = copy.deepcopy(manifest)
    for promise in manifest["guarantees"]:
        promise["achieved"] = (promise["achieved"] or 0) + 1
    return table, manifest


SPOILING: dict[str, Callable[[pa.Table, dict[str, Any]], Spoiled]] = {
    "honest": lambda table, manifest: (table, manifest),
    "another sex": _moved("sex"),
    "another illness": _moved("illness"),
    "a row less": _dropped,
    "rows twice": _repeated,
    "false rows": _false,
    "undeclared": _undeclared,
    "boastful": _boastful,
}


def compare(
    release: pa.Table, manifest: dict[str, Any], source: Source | None, population: Source, *limits: int
) -> dict[str, Verification]:
    """Check a release spoiled in every way, at once and in parts, and return the answers, which are the same."""
    found = {}
    for name, spoil in SPOILING.items():
        table, told = spoil(release, manifest)
        rows, given = MemoryRows(table.combine_chunks()), {"people.csv": population}
        expected = verify_rows(rows, told, Means(Room(), None, 1), source, given)
        for limit in limits:
            means = Means(Room(limit), None, 2)
            assert verify_rows(rows, told, means, source, given) == expected, (name, limit)
        found[name] = expected
    return found


@pytest.fixture
def parted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What rows were parted by."""
    used = []
    route = checking.route

    def watched(part: Any, task: Any, parting: Any, *others: Any) -> Any:
        used.append(type(parting).__name__)
        return route(part, task, parting, *others)

    monkeypatch.setattr(checking, "route", watched)
    return used


def test_no_model_is_left_out() -> None:
    assert set(MODELS) == set(discover("shoal.models", PrivacyModel)) - {"column-frequency"}  # of sliced tables


@pytest.mark.parametrize(("name", "parameters"), [(name, case) for name, cases in MODELS.items() for case in cases])
def test_all_models_under_mondrian(
    name: str, parameters: dict[str, Any], population: Source, parted: list[str]
) -> None:
    table = people(1)
    models = [{name: parameters}] if name == "k-anonymity" else [K, {name: parameters}]
    release = shoal.anonymize(table, policy("mondrian", *models), seed=1)
    limit = LOOSE if "population" in parameters else TIGHT  # only cuts part a population
    found = compare(release.data, release.manifest, open_source(table), population, limit)
    assert found["honest"].verified
    assert not any(found[name].verified for name in ("another illness", "a row less", "rows twice", "false rows"))
    assert "ByCuts" in parted


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_source", [True, False], ids=["with the source", "without it"])
def test_all_methods(method: str, with_source: bool, population: Source, parted: list[str]) -> None:
    table = people(2)
    models = {"plain": [], "incognito": [K]}.get(method, [K, {"entropy-l-diversity": {"l": 1.5}}])
    release = shoal.anonymize(table, policy(method, *models), seed=1)
    source = open_source(table) if with_source else None
    limits = (900,) if method == "incognito" else (TIGHT, LOOSE)  # it makes two classes
    found = compare(release.data, release.manifest, source, population, *limits)
    assert found["honest"].verified
    if with_source:
        assert parted
    elif models and method != "incognito":
        assert set(parted) == {"ByClass"}

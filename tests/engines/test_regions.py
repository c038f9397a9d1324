"""Tables larger than memory: whatever the models and the regions, the release is verified and every record is in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import cover

from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget
from shoal.release.release import Release

N_ROWS = 3000
TREE = {"*": {"body": ["flu", "gout", "cold"], "mind": ["grief", "panic", "stress"]}}
MODELS: dict[str, list[dict[str, Any]]] = {
    "k": [{"k-anonymity": {"k": 5}}],
    "distinct": [{"distinct-l-diversity": {"l": 3, "attribute": "illness"}}],
    "entropy": [{"k-anonymity": {"k": 4}}, {"entropy-l-diversity": {"l": 2.5, "attribute": "illness"}}],
    "simple": [{"simple-l-diversity": {"l": 2, "attribute": "illness"}}],
    "tau": [{"tau-l-diversity": {"tau": 0.6, "l": 3, "attribute": "illness"}}],
    "every sensitive attribute": [{"distinct-l-diversity": {"l": 2}}],
    "joint": [{"distinct-l-diversity": {"l": 4, "attribute": ["illness", "ward"]}}],
    "t, equal": [{"t-closeness": {"t": 0.3, "distance": "equal", "attribute": "illness"}}],
    "t, ordered": [{"t-closeness": {"t": 0.25, "distance": "ordered", "attribute": "illness"}}],
    "t, hierarchical": [{"t-closeness": {"t": 0.3, "distance": "hierarchical", "attribute": "illness"}}],
    "t, joint": [{"t-closeness": {"t": 0.5, "distance": "equal", "attribute": ["illness", "ward"]}}],
    "beta": [{"beta-likeness": {"beta": 2.0, "attribute": "illness"}}],
    "delta": [{"delta-disclosure": {"delta": 2.0, "attribute": "illness"}}],
}


@pytest.fixture(autouse=True)
def little_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the sweep looks for better classes is no matter here: the promises hold whatever it finds."""


def people(seed: int, *, n_rows: int = N_ROWS, missing: float = 0.03) -> pa.Table:
    """Records of which nearly each is a combination of its own; illness depends on age a little."""
    rng = np.random.default_rng(seed)

    def holed(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(n_rows) < missing)

    age = rng.integers(0, 100, n_rows)
    shift = rng.integers(0, 6, n_rows) * (rng.random(n_rows) < 0.8) + (age > 60) * 2
    illness = np.array(["flu", "gout", "cold", "grief", "panic", "stress"], dtype=object)[shift % 6]
    return pa.table(
        {
            "id": pa.array(np.arange(n_rows)),
            "age": holed(age),
            "zip": holed(np.char.zfill(rng.integers(0, 3000, n_rows).astype(str), 4).astype(object)),
            "sex": holed(rng.choice(["f", "m", "x"], n_rows, p=[0.49, 0.49, 0.02]).astype(object)),
            "illness": pa.array(illness),
            "ward": pa.array(rng.choice(["a", "b", "c"], n_rows).astype(object)),
        }
    )


def policy(models: list[dict[str, Any]], **other: Any) -> dict[str, Any]:
    return {
        "attributes": {
            "id": {"role": "insensitive"},
            "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 20]}}},
            "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 4}}},
            "sex": {"role": "quasi"},
            "illness": {"role": "sensitive", "taxonomy": {"tree": TREE}},
            "ward": {"role": "sensitive"},
        },
        "privacy": models,
        "method": {"mondrian": {}},
        **other,
    }


def small(cells: int = 1200, region_rows: int = 300, threads: int = 2) -> Budget:
    """So little memory that the table does not fit."""
    return Budget(1 << 30, cells, min(cells, 800), region_rows, heap_rows=700, threads=threads)


def released(table: pa.Table, asked: dict[str, Any], seed: int | None, budget: Budget) -> Release:
    return run(table, asked, Options(seed=seed, budget=budget), Silent())


def check_records(table: pa.Table, release: Release) -> None:
    """Every published row has the sensitive values of the source's row of the same number, or labels over these."""
    ids = release.data["id"].to_numpy()
    assert len(np.unique(ids)) == len(ids) == release.manifest["rows"]
    lost = release.manifest["withheld"] + release.manifest["missing"]["dropped"]
    assert len(ids) + lost == table.num_rows
    for name in ("illness", "ward"):
        labels = release.manifest["attributes"][name].get("labels", {})
        own, shown = table[name].take(pa.array(ids)).to_pylist(), release.data[name].to_pylist()
        covered = [{"values": [value]} for value in shown] if not labels else [labels[text] for text in shown]
        assert all(value in cover["values"] for value, cover in zip(own, covered, strict=True))


@pytest.mark.parametrize(
    ("model", "method"),
    [
        pair
        for place, model in enumerate(MODELS)
        for pair in ((model, "mondrian"), (model, ("hilbert", "sweep")[place % 2]))
    ],
)
def test_every_model_holds_over_regions(model: str, method: str) -> None:
    seed = len(model) + len(method)
    table = people(seed)
    release = released(table, policy(MODELS[model], method={method: {}}), seed, small(region_rows=600))
    assert release.verification.verified
    assert release.evidence["search"]["regions"] >= 2
    check_records(table, release)


@pytest.mark.parametrize(("labels", "seed"), cover(["levels", "ranges"], range(3)))
def test_curves_through_regions_keep_to_their_nodes(seed: int, labels: str) -> None:
    table = people(seed)
    release = released(table, policy(MODELS["k"], method={"hilbert": {"labels": labels}}), seed, small())
    assert release.verification.verified
    assert release.evidence["search"]["regions"] >= 3
    check_records(table, release)


@pytest.mark.parametrize("seed", range(2))
def test_withheld_records(seed: int) -> None:
    table = people(seed)
    for method in ({"mondrian": {"labels": "ranges"}}, {"mondrian": {}}, {"hilbert": {}}):
        release = released(table, policy(MODELS["k"], method=method, max_withheld=0.04), seed, small())
        assert release.verification.verified
        assert release.manifest["withheld"] <= 0.04 * table.num_rows
        check_records(table, release)


@pytest.mark.parametrize("model", ["k", "entropy", "t, equal", "joint"])
def test_records_with_missing_values_are_dropped(model: str) -> None:
    table = people(7, missing=0.1)
    release = released(table, policy(MODELS[model], missing="drop"), 3, small())
    complete = table.drop_null().num_rows
    assert release.manifest["missing"]["dropped"] == table.num_rows - complete
    assert release.evidence["search"]["regions"] >= 2
    check_records(table, release)


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "sweep"])
def test_the_number_of_threads_changes_nothing(method: str) -> None:
    table = people(8)
    results = [
        released(table, policy(MODELS["entropy"], method={method: {}}), 11, small(region_rows=900, threads=threads))
        for threads in (1, 5)
    ]
    assert results[0].data.equals(results[1].data)
    assert results[0].manifest == results[1].manifest


def test_what_no_class_can_meet_is_refused_in_the_same_words() -> None:
    table = people(11)
    for models in ([{"k-anonymity": {"k": 4000}}], [{"distinct-l-diversity": {"l": 7, "attribute": "illness"}}]):
        messages = []
        for budget in (Budget.of(), small()):
            with pytest.raises(UnreachableError) as raised:
                released(table, policy(models), 1, budget)
            messages.append(str(raised.value))
        assert messages[0] == messages[1]


def test_plain_rows_that_do_not_meet_a_model_are_refused_in_the_same_words() -> None:
    table = people(12)
    messages = []
    for budget in (Budget.of(), small()):
        with pytest.raises(UnreachableError) as raised:
            released(table, policy(MODELS["k"], method={"plain": {}}), 1, budget)
        messages.append(str(raised.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("method", ["incognito", "slicing", "anatomy", "microaggregation"])
def test_methods_that_decide_at_once_refuse_and_say_what_helps(method: str) -> None:
    diverse = [{"distinct-l-diversity": {"l": 2}}]  # slices have no classes
    asked = policy(diverse if method in ("slicing", "anatomy") else MODELS["k"], method={method: {}})
    asked["attributes"]["ward"] = {"role": "insensitive"}  # anatomy has one sensitive attribute
    with pytest.raises(UsageError, match=f"method {method} considers .* MiB with --memory"):
        released(people(14), asked, 1, small())


def test_samples_and_changed_quasi_values_are_refused() -> None:
    asked = policy(MODELS["k"], sample={"share": 0.9})
    with pytest.raises(UsageError, match="before the sample"):
        released(people(15), asked, 1, small())


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "sweep"])
def test_what_regions_add_up_to_is_what_the_rows_have(method: str) -> None:
    """No label is published by two regions, so that the classes of the rows are those of the plans."""
    table = people(16).drop_columns(["id"])
    asked = policy(MODELS["k"], method={method: {}})
    del asked["attributes"]["id"]
    release = released(table, asked, 3, small())
    classes = release.data.group_by(["age", "zip", "sex"], use_threads=False).aggregate([([], "count_all")])
    sizes = classes["count_all"].to_numpy()
    risks = release.evidence["risk_after"]
    assert risks["classes"] == len(sizes)
    assert risks["smallest_class"] == sizes.min() == release.manifest["guarantees"][0]["achieved"]
    assert sum(entry["records"] for entry in risks["class_sizes"]) == table.num_rows
    assert release.utility["class-size"] == pytest.approx(table.num_rows / len(sizes))
    assert release.utility["discernibility"] == float((sizes.astype(np.int64) ** 2).sum())
    before = table.group_by(["age", "zip", "sex"], use_threads=False).aggregate([([], "count_all")])
    sizes = before["count_all"].to_numpy()
    assert release.evidence["risk_before"]["classes"] == len(sizes)
    assert release.evidence["risk_before"]["unique_records"] == int((sizes == 1).sum())
    assert "non-uniform-entropy" not in release.utility


def test_techniques_on_other_columns_go_through_regions() -> None:
    table = people(17)
    asked = policy(MODELS["entropy"])
    asked["attributes"]["id"]["technique"] = {"rounding": {"base": 10}}
    asked["attributes"]["ward"]["technique"] = {"swapping": {"share": 0.3}}
    release = released(table, asked, 5, small())
    assert release.verification.verified
    assert release.evidence["search"]["regions"] >= 2
    assert set(release.manifest["techniques"]) == {"id", "ward"}
    assert sorted(release.data["ward"].to_pylist()) == sorted(table["ward"].to_pylist())
    assert all(number % 10 == 0 for number in release.data["id"].to_pylist())


def test_baskets_go_through_regions() -> None:
    rng = np.random.default_rng(18)
    items = [f"item {number}" for number in range(8)]
    has = rng.random((N_ROWS, 8)) < 0.3
    baskets = [";".join(item for item, there in zip(items, row, strict=True) if there) for row in has]
    table = pa.table({"age": rng.integers(18, 90, N_ROWS), "basket": baskets})
    asked = {
        "attributes": {
            "age": {"role": "quasi"},
            "basket": {"role": "quasi", "items": {"columns": 2, "sensitive": ["item 3"]}},
        },
        "privacy": [{"k-anonymity": {"k": 4}}],
        "method": {"mondrian": {}},
    }
    whole, parts = (released(table, asked, 5, budget) for budget in (Budget.of(), small(cells=1500)))
    assert parts.verification.verified
    assert parts.evidence["search"]["regions"] >= 2
    assert parts.manifest["items"] == whole.manifest["items"]

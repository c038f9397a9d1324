"""Models of values hold for spellings that are one value, and for the values before a technique."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.tables import cover

import shoal
from shoal.anonymize.opening import Options
from shoal.anonymize.run import run
from shoal.core.errors import PolicyError, UnreachableError, UsageError
from shoal.core.progress import Silent
from shoal.engines.regions.budget import Budget

N = 1200
FLU = ("Flu", "flu ", "\ufb02u")  # the last begins with a ligature
GROUPS = {"germs": [*FLU, "cold", "mumps"], "body": ["gout", "asthma"]}
DISTINCT: dict[str, Any] = {"distinct-l-diversity": {"l": 2}}
MODELS: dict[str, dict[str, Any]] = {
    "distinct": DISTINCT,
    "simple": {"simple-l-diversity": {"l": 1.3}},
    "entropy": {"entropy-l-diversity": {"l": 1.5}},
    "recursive": {"recursive-cl-diversity": {"c": 4, "l": 2}},
    "tau": {"tau-l-diversity": {"tau": 0.75, "l": 3}},
    "alpha": {"alpha-k-anonymity": {"alpha": 0.75, "k": 3}},
    "beta": {"beta-likeness": {"beta": 1.5}},
    "delta": {"delta-disclosure": {"delta": 2}},
    "equal": {"t-closeness": {"t": 0.2}},
    "ordered": {"t-closeness": {"t": 0.2, "distance": "ordered"}},
    "hierarchical": {"t-closeness": {"t": 0.2, "distance": "hierarchical"}},
    "harmless": {"confidence-bounding": {"most": 0.4, "harmless": ["FLU"]}},
}
CHANCE: dict[str, dict[str, Any]] = {
    "pram": {"pram": {"keep": 0.5}},
    "permutation": {"permutation": {}},
    "record-swapping": {"record-swapping": {"hierarchy": ["illness"], "share": 0.5}},
}


def people(*, spelled: bool = False, seed: int = 4) -> pa.Table:
    """Two thirds have the flu, so that small classes often have nothing else."""
    rng = np.random.default_rng(seed)
    age, code = rng.integers(20, 80, N), rng.integers(100, 140, N).astype(str)
    illness = rng.choice(["flu", "cold", "mumps", "gout", "asthma"], N, p=[0.66, 0.12, 0.1, 0.07, 0.05])
    if spelled:
        illness = np.where(illness == "flu", np.array(FLU)[rng.integers(0, 3, N)], illness)
    return pa.table({"age": age, "zip": code, "illness": illness.tolist()})


def policy(model: dict[str, Any], method: Any = "mondrian", **sensitive: Any) -> dict[str, Any]:
    attributes = {"age": {"role": "quasi"}, "zip": {"role": "quasi"}, "illness": {"role": "sensitive", **sensitive}}
    return {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 3}}, model], "method": method}


def fold(text: str) -> str:
    """The normal form, written again."""
    folded = unicodedata.normalize("NFKC", text).lower()
    return " ".join(folded.split())


def published_classes(table: pa.Table) -> dict[Any, Counter[str]]:
    found: dict[Any, Counter[str]] = defaultdict(Counter)
    for age, code, illness in zip(*(table[name].to_pylist() for name in ("age", "zip", "illness")), strict=True):
        found[age, code][fold(illness)] += 1
    return found


def true_classes(folder: Path, source: pa.Table) -> dict[int, Counter[str]]:
    """Count the source's values by the class that the witness has for each row."""
    witness = pq.read_table(folder / "internal" / "witness.parquet")["class"].to_pylist()
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for number, illness in zip(witness, source["illness"].to_pylist(), strict=True):
        if number:
            found[number][illness] += 1
    return found


@pytest.mark.parametrize("method", ["mondrian", "hilbert", "incognito", "sweep", "microaggregation"])
def test_spellings_of_a_value_do_not_make_a_class_diverse(method: str) -> None:
    source = people(spelled=True)
    made = shoal.anonymize(source, policy(DISTINCT, method), seed=2)
    assert made.verification.verified
    assert min(len(values) for values in published_classes(made.data).values()) >= 2
    assert Counter(made.data["illness"].to_pylist()) == Counter(source["illness"].to_pylist()), "spelled as they were"


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_planner_and_verifier_agree_on_every_model_of_spelled_values(model: dict[str, Any]) -> None:
    made = shoal.anonymize(people(spelled=True), policy(model, taxonomy={"groups": GROUPS}), seed=2)
    assert made.verification.verified
    groups = {**GROUPS, "germs": ["flu", "cold", "mumps"]}
    clean = shoal.anonymize(people(), policy(model, taxonomy={"groups": groups}), seed=2)
    achieved = [guarantee["achieved"] for guarantee in made.manifest["guarantees"]]
    assert achieved == [guarantee["achieved"] for guarantee in clean.manifest["guarantees"]]


def test_spelled_values_are_not_generalized() -> None:
    model = {"tau-l-diversity": {"tau": 0.7, "l": 3}}
    made = shoal.anonymize(people(spelled=True), policy(model, "sweep"), seed=2)
    assert "labels" not in made.manifest["attributes"]["illness"]


@pytest.mark.parametrize(("technique", "model"), cover(CHANCE.values(), [DISTINCT, {"simple-l-diversity": {"l": 1.3}}]))
def test_models_hold_before_and_after_a_technique(
    technique: dict[str, Any], model: dict[str, Any], tmp_path: Path
) -> None:
    source = people()
    made = shoal.anonymize(source, policy(model, technique=technique), out=tmp_path / "out", seed=2)
    assert made.verification.verified
    assert [check.ok for check in made.verification.checks if check.name == "true values"] == [True]
    for values in true_classes(tmp_path / "out", source).values():
        assert len(values) >= 2
        if model is not DISTINCT:
            assert 1.3 * max(values.values()) <= sum(values.values())
    columns = pq.read_table(tmp_path / "out" / "public" / "data.parquet").column_names
    assert columns == ["age", "zip", "illness"], "true values are not published"


@pytest.mark.parametrize("method", ["hilbert", "incognito"])
def test_other_methods_count_true_values(method: str, tmp_path: Path) -> None:
    source = people()
    shoal.anonymize(source, policy(DISTINCT, method, technique=CHANCE["pram"]), out=tmp_path / "out", seed=2)
    assert min(map(len, true_classes(tmp_path / "out", source).values())) >= 2


@pytest.mark.parametrize("missing", ["category", "drop"])
def test_missing_values_that_moved_count_where_they_were(missing: str, tmp_path: Path) -> None:
    source = people()
    lost = np.random.default_rng(5).random(N) < 0.1
    source = source.set_column(2, "illness", pa.array(source["illness"].to_pylist(), mask=lost))
    written = policy(DISTINCT, technique={"permutation": {}}) | {"missing": missing}
    made = shoal.anonymize(source, written, out=tmp_path / "out", seed=2)
    assert made.verification.verified
    assert min(map(len, true_classes(tmp_path / "out", source).values())) >= 2


def test_joint_values_are_judged_before_the_technique(tmp_path: Path) -> None:
    source = people().append_column(
        "job", pa.array(np.random.default_rng(6).choice(["cook", "smith"], N, p=[0.9, 0.1]))
    )
    written = policy({"distinct-l-diversity": {"l": 3, "attribute": ["illness", "job"]}}, technique=CHANCE["pram"])
    written["attributes"]["job"] = {"role": "sensitive"}
    shoal.anonymize(source, written, out=tmp_path / "out", seed=2)
    both = [
        f"{one}, {other}" for one, other in zip(source["illness"].to_pylist(), source["job"].to_pylist(), strict=True)
    ]
    joint = source.set_column(2, "illness", pa.array(both))
    assert min(map(len, true_classes(tmp_path / "out", joint).values())) >= 3


@pytest.mark.parametrize("method", ["anatomy", "slicing", "microaggregation", "sweep"])
def test_methods_that_cannot_count_true_values_refuse(method: str) -> None:
    written = policy(DISTINCT, method, technique=CHANCE["pram"])
    if method in ("anatomy", "slicing"):
        written["privacy"] = [DISTINCT]
    with pytest.raises(UnreachableError, match="must also hold for the values before the technique"):
        shoal.anonymize(people(), written, seed=2)


def test_a_table_larger_than_memory_is_refused() -> None:
    budget = Budget(1 << 30, 500, 400, 300, heap_rows=700, threads=1)
    with pytest.raises(UsageError, match="values before a technique"):
        run(people(), policy(DISTINCT, technique=CHANCE["pram"]), Options(seed=2, budget=budget), Silent())


def test_true_values_that_no_classes_can_keep_are_refused(tmp_path: Path) -> None:
    source = people().set_column(2, "illness", pa.array(["flu"] * (N - 1) + ["cold"]))
    technique = {"pram": {"matrix": {"flu": {"flu": 0.5, "cold": 0.5}, "cold": {"cold": 1.0}}}}
    written = policy({"simple-l-diversity": {"l": 1.5}}, technique=technique)
    with pytest.raises(UnreachableError, match="simple-l-diversity"):
        shoal.anonymize(source, written, out=tmp_path / "out", seed=2)
    assert not (tmp_path / "out").exists()


def test_people_are_not_counted_if_chance_decides_their_values() -> None:
    wages = people().append_column("wage", pa.array(np.random.default_rng(7).integers(20, 90, N)))
    wages = wages.append_column("name", pa.array([str(row // 2) for row in range(N)]))
    written = policy(DISTINCT) | {"unit": "name"}
    written["attributes"] |= {
        "wage": {"role": "sensitive", "technique": {"rounding": {"base": 10, "random": True}}},
        "name": {"role": "identifier"},
    }
    with pytest.raises(PolicyError, match="rounding of 'wage'"):
        shoal.anonymize(wages, written, seed=2)

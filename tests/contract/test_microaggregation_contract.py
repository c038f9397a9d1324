"""Microaggregation through the front door: every model, both formats, gaps, and what the verifier says."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from tests import tables

import shoal
from shoal.core.errors import UnreachableError
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify

QUASI = ("age", "sex", "day")
MODELS: list[dict[str, Any]] = [
    {"k-anonymity": {"k": 4}},
    {"distinct-l-diversity": {"l": 3}},
    {"simple-l-diversity": {"l": 1.8}},
    {"entropy-l-diversity": {"l": 2}},
    {"recursive-cl-diversity": {"c": 2, "l": 2}},
    {"tau-l-diversity": {"tau": 0.7, "l": 2}},
    {"t-closeness": {"t": 0.3}},
    {"alpha-k-anonymity": {"alpha": 0.6, "k": 4}},
    {"beta-likeness": {"beta": 1.5, "enhanced": False}},
    {"delta-disclosure": {"delta": 1.6}},
    {"confidence-bounding": {"most": 0.6}},
]


def people(seed: int, n: int = 140, gaps: bool = False) -> pa.Table:
    return tables.people(n, seed, "age sex day illness row", missing=dict.fromkeys(QUASI, 0.1) if gaps else 0.0)


def policy(*models: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {
        "attributes": tables.attributes("age sex day illness row", plain=True),
        "privacy": list(models),
        "method": {"microaggregation": {}},
        **options,
    }


def classes_of(data: pa.Table) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    classes = defaultdict(list)
    for record in data.to_pylist():
        classes[tuple(record[name] for name in QUASI)].append(record)
    return dict(classes)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: next(iter(model)))
def test_every_model_is_kept_and_verified(model: dict[str, Any]) -> None:
    table = people(1)
    release = shoal.anonymize(table, policy({"k-anonymity": {"k": 4}}, *([model] if model != MODELS[0] else [])))
    assert release.verification.verified
    assert all(guarantee["ok"] for guarantee in release.verification.as_dict()["guarantees"])
    assert min(map(len, classes_of(release.data).values())) >= 4
    assert release.manifest["rows"] == 140
    illness = dict(zip(table["row"].to_pylist(), table["illness"].to_pylist(), strict=True))
    assert all(illness[record["row"]] == record["illness"] for record in release.data.to_pylist())


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("missing", ["category", "drop"])
def test_written_releases_verify_again_with_and_without_their_source(suffix: Any, missing: str, tmp_path: Path) -> None:
    table = people(2, gaps=True)
    pyarrow.csv.write_csv(table, tmp_path / "people.csv")
    document = policy({"k-anonymity": {"k": 4}}, missing=missing, max_withheld=0.1)
    shoal.anonymize(tmp_path / "people.csv", document, out=tmp_path / "out", format=suffix)
    for source in (None, open_source(tmp_path / "people.csv")):
        assert verify(tmp_path / "out", source=source).verified
    manifest = json.loads((tmp_path / "out" / "public" / "manifest.json").read_text())
    assert manifest["method_parameters"] == {"numbers": "mean", "decimals": 1, "strata": []}
    assert manifest["attributes"]["age"] == {"role": "quasi", "kind": "number"}
    assert not any("labels" in manifest["attributes"][name] for name in QUASI)
    assert manifest["rows"] + manifest["withheld"] + manifest["missing"]["dropped"] == 140


def test_the_same_seed_gives_the_same_release_and_rows_are_shuffled() -> None:
    document = policy({"k-anonymity": {"k": 5}})
    one, same, other = (shoal.anonymize(people(3), document, seed=seed) for seed in (8, 8, 9))
    assert one.data.equals(same.data)
    assert one.manifest == same.manifest
    assert one.data["row"].to_pylist() != other.data["row"].to_pylist()


def test_what_cannot_be_reached_leaves_nothing(tmp_path: Path) -> None:
    pyarrow.csv.write_csv(people(4), tmp_path / "people.csv")
    for models in ([{"k-anonymity": {"k": 141}}], [{"t-closeness": {"t": 0.5}}], [{"distinct-l-diversity": {"l": 5}}]):
        with pytest.raises(UnreachableError):
            shoal.anonymize(tmp_path / "people.csv", policy(*models), out=tmp_path / "out")
        assert not (tmp_path / "out").exists()

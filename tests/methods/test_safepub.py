"""SafePub: that its parameters are enough, by the definition of differential privacy; and what it publishes."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import shoal
from shoal.core.errors import PolicyError, ShoalError, UnreachableError
from shoal.methods.safepub import SafePub
from shoal.release.forms.base import read_form
from shoal.verify.account import is_enough
from shoal.verify.verifier import verify, verify_table

AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [5, 25, 50]}}}
SEX = {"role": "quasi", "taxonomy": {"flat": ["f", "m"]}}
ILLNESS = {"role": "sensitive", "taxonomy": {"groups": {"germs": ["flu", "mumps"], "body": ["gout", "angina"]}}}
LEVELS = {"age": 3, "illness": 1}


def people(n: int = 4000, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    return pa.table(
        {
            "name": [f"person {row}" for row in range(n)],
            "age": age,
            "sex": rng.choice(["f", "m"], n),
            "illness": np.where(rng.random(n) < age / 120, "gout", rng.choice(["flu", "mumps"], n)),
        }
    )


def policy(*, attributes: dict[str, Any] | None = None, **method: Any) -> dict[str, Any]:
    own = {"name": {"role": "identifier"}, "age": AGE, "sex": SEX, "illness": ILLNESS, **(attributes or {})}
    return {"attributes": own, "privacy": [], "method": {"safepub": {"epsilon": 1, "levels": LEVELS, **method}}}


def excess(n: int, share: float, k: int, epsilon: float) -> float:
    """The least delta of a class of n records beside n - 1, either way; fewer than k drawn ones are one result."""
    j = np.arange(n + 1)
    more, fewer = binom.pmf(j, n, share), binom.pmf(j, n - 1, share)

    def results(chances: np.ndarray) -> np.ndarray:
        return np.append(chances[j >= k], chances[j < k].sum())

    one, other = results(more), results(fewer)
    either = (one - math.exp(epsilon) * other, other - math.exp(epsilon) * one)
    return max(float(np.maximum(loss, 0).sum()) for loss in either)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-4), (0.6, 1e-6), (1, 1e-6), (2, 1e-5)])
@pytest.mark.parametrize("share", [None, 0.05])
def test_every_class_is_private_by_definition(epsilon: float, delta: float, share: float | None) -> None:
    method = SafePub(epsilon=epsilon, delta=delta, share=share)
    drawn, k = method.find_share(), method.find_threshold()
    sizes = range(1, 4 * math.ceil(k / drawn))
    assert max(excess(n, drawn, k, epsilon) for n in sizes) <= delta
    assert is_enough(epsilon, delta, drawn, k)
    assert not is_enough(epsilon, delta, drawn, k - 1)  # the verifier's own sums agree on the least k


def test_the_verifier_refuses_what_it_cannot_be_sure_of() -> None:
    assert is_enough(1, 1e-6, 0.6321205588, 74)
    assert not is_enough(1, 1e-6, 0.6321205589, 10**6)  # more than 1 - 1/e
    assert not is_enough(1e-9, 1e-6, 1e-10, 10**6)  # too many sizes to look at
    assert not is_enough(1, 0, 0.5, 10**6)


def test_rows_are_a_sample_of_generalized_records() -> None:
    table = people()
    release = shoal.anonymize(table, policy())
    account = release.manifest["synthetic"]
    share, k = account["sampled"]["share"], account["sampled"]["k"]
    assert (share, k) == (pytest.approx(1 - math.exp(-1)), 74)
    assert release.manifest["claims"] == [
        {"model": "differential-privacy", "parameters": {"epsilon": 1.0, "delta": 1e-06}}
    ]
    assert read_form(release.manifest).cost == (1.0, 1e-06)
    true: dict[tuple[str, ...], int] = {}
    for row in table.to_pylist():
        key = (
            ("[0, 49]" if row["age"] < 50 else "[50, 99]"),
            row["sex"],
            "germs" if row["illness"] != "gout" else "body",
        )
        true[key] = true.get(key, 0) + 1
    found = release.data.group_by(["age", "sex", "illness"]).aggregate([([], "count_all")]).to_pylist()
    assert {(one["age"], one["sex"], one["illness"]) for one in found} <= set(true)
    for one in found:
        n = true[one["age"], one["sex"], one["illness"]]
        assert one["count_all"] >= k
        # six standard deviations, in at most eight classes: a false alarm in less than 1 of 10**7 runs
        assert abs(one["count_all"] - n * share) < 6 * math.sqrt(n * share * (1 - share))
    assert len(found) >= 6
    assert release.data["age"].to_pylist() != sorted(release.data["age"].to_pylist())


def test_a_seed_repeats_nothing_and_no_public_file_counts_the_source(tmp_path: Path) -> None:
    table = people(4321)
    for name in ("one", "other"):
        shoal.anonymize(table, policy(), out=tmp_path / name, seed=5)
    one, other = (json.loads((tmp_path / name / "public" / "manifest.json").read_text()) for name in ("one", "other"))
    assert one["data"]["sha256"] != other["data"]["sha256"]
    assert "4321" not in json.dumps(one)
    assert (one["withheld"], one["missing"]["dropped"]) == (0, 0)
    readme = (tmp_path / "one" / "public" / "README.md").read_text()
    assert "Each record was drawn with probability 0.632121" in readme
    assert "4,321" not in readme
    assert verify(tmp_path / "one").verified


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"attributes": {"name": {"role": "insensitive"}}}, "insensitive"),
        ({"attributes": {"age": {"role": "quasi"}}}, "declared"),
        ({"levels": {"agee": 1}}, "did you mean 'age'"),
        ({"levels": {"sex": 7}}, "levels 0 to 1"),
        ({"share": 0.7}, "allows at most 0.632"),
        ({"epsilon": 6}, "epsilon"),
        ({"delta": 0}, "delta"),
    ],
)
def test_what_is_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        shoal.anonymize(people(200), policy(**change))


def test_samples_techniques_and_models_are_refused() -> None:
    for more in ({"sample": {"share": 0.5}}, {"privacy": [{"k-anonymity": {"k": 5}}]}, {"unit": "name"}):
        with pytest.raises(ShoalError):
            shoal.anonymize(people(200), policy() | more)


def test_too_few_records_are_not_published() -> None:
    with pytest.raises(UnreachableError, match="74 drawn records"):
        shoal.anonymize(people(100), policy())


def spoil(manifest: dict[str, Any], rows: pa.Table, how: str) -> pa.Table:
    account = manifest["synthetic"]
    match how:
        case "a class too small":
            first = rows.slice(0, 1).to_pylist()[0]
            like = np.array([row == first for row in rows.to_pylist()])
            keep = ~like | (np.cumsum(like) < account["sampled"]["k"])
            manifest["rows"] = int(keep.sum())
            return rows.filter(pa.array(keep))
        case "k too small":
            account["sampled"]["k"] -= 1
        case "share too large":
            account["sampled"]["share"] = 0.64
        case "less delta":
            for entry in (
                account,
                account["spent"],
                manifest["claims"][0]["parameters"],
                manifest["method_parameters"],
            ):
                entry["delta"] = 1e-9
        case "no sample":
            del account["sampled"]
        case "another form":
            manifest["form"] = "synthetic"
        case "tells how many were left out":
            manifest["withheld"] = 12
        case "spent less":
            account["spent"]["epsilon"] = 0.5
    return rows


@pytest.fixture(scope="module")
def release() -> Any:
    return shoal.anonymize(people(), policy())


@pytest.mark.parametrize(
    "how",
    [
        "a class too small",
        "k too small",
        "share too large",
        "less delta",
        "no sample",
        "another form",
        "tells how many were left out",
        "spent less",
    ],
)
def test_spoiled_releases_are_rejected(release: Any, how: str) -> None:
    manifest = copy.deepcopy(dict(release.manifest))
    assert verify_table(release.data, manifest).verified
    rows = spoil(manifest, release.data, how)
    assert not verify_table(rows, manifest).verified


def test_a_sensitive_column_at_its_root_is_refused_before_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SafePub, "plan", None)
    with pytest.raises(UnreachableError, match="level 2 of the sensitive attribute 'illness' is a single value"):
        shoal.anonymize(people(), policy(levels={"illness": 2}))

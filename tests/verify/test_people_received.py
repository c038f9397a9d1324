"""Releases that count people, as a recipient verifies them: without the source and without internal files."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import shoal
from shoal.anonymize.refusing import refuse_unverified
from shoal.cli import app
from shoal.core.errors import VerificationError
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

MODELS: list[dict[str, Any]] = [
    {"k-anonymity": {"k": 5}},
    {"distinct-l-diversity": {"l": 3}},
    {"entropy-l-diversity": {"l": 2.5}},
    {"alpha-k-anonymity": {"alpha": 0.6, "k": 4}},
    {"beta-likeness": {"beta": 6}},
]
POLICY: dict[str, Any] = {
    "attributes": {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi"},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "unit": "patient",
    "privacy": MODELS,
}


def stays(n: int = 600) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "patient": rng.integers(0, n // 2, n),
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["f", "m"], n),
            "illness": rng.choice(list("abcde"), n),
        }
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> shoal.Release:
    return shoal.anonymize(stays(), POLICY, out=tmp_path_factory.mktemp("people") / "out", seed=3)


@pytest.fixture
def public(release: shoal.Release, tmp_path: Path) -> Path:
    """What a recipient gets."""
    assert release.folder is not None
    return shutil.copytree(release.folder / "public", tmp_path / "public")


def test_public_files_are_verified_as_far_as_they_show(public: Path) -> None:
    run = CliRunner().invoke(app, ["verify", str(public), "--json"])
    answer = json.loads(run.stdout)
    assert (run.exit_code, answer["verified"], answer["verdict"]) == (0, True, "verified")
    assert answer["message"] == "verified as far as public files show"
    assert len(answer["unchecked"]) == len(MODELS)
    assert all("the data holder vouches for people, counted by unit" in one for one in answer["unchecked"])
    assert all(one["partly"] and one["achieved"] is None for one in answer["guarantees"])
    said = CliRunner().invoke(app, ["verify", str(public)])
    assert "Verified as far as public files show" in said.stdout


def verify_changed(release: shoal.Release, model: str, **changes: Any) -> Verification:
    """Verify the rows in memory under another guarantee of one model."""
    manifest = copy.deepcopy(dict(release.manifest))
    (stated,) = [one for one in manifest["guarantees"] if one["model"] == model]
    stated["parameters"] |= {key: value for key, value in changes.items() if key != "achieved"}
    stated["achieved"] = changes.get("achieved", stated["achieved"])
    return verify_table(shoal.read_release(release.folder).rows, manifest)


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("k-anonymity", {"k": 500}),
        ("k-anonymity", {"achieved": 500.0}),
        ("distinct-l-diversity", {"l": 6}),
        ("entropy-l-diversity", {"l": 6.0}),  # needs six values, and there are five
        ("alpha-k-anonymity", {"k": 500}),
    ],
)
def test_too_few_records_are_a_broken_promise(release: shoal.Release, model: str, changes: dict[str, Any]) -> None:
    assert verify_changed(release, model).verified
    found = verify_changed(release, model, **changes)
    assert found.verdict == "failed"
    assert [one.split(":")[0] for one in found.failures] == [model]


def test_a_run_publishes_nothing_that_was_checked_in_part(release: shoal.Release) -> None:
    with pytest.raises(VerificationError, match="the data holder vouches for people"):
        refuse_unverified(verify_changed(release, "k-anonymity"))

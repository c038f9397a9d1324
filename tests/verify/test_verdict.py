"""The verdict: a check that lacks an input is never taken for a success."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests import tables
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.manifest import PAGES
from shoal.reports.pages import public_report
from shoal.verify.result import Check, CheckedGuarantee, Verification

DONE, FAILED = Check("a", True, "good"), Check("b", False, "bad")
OPTIONAL, REQUIRED = Check("c", True, "not done", done=False), Check("d", True, "not done", done=False, required=True)
KEPT, BROKEN = (CheckedGuarantee("k-anonymity", {"k": 2}, 2.0, 2.0, ok, "") for ok in (True, False))


@pytest.mark.parametrize(
    ("checks", "guarantees", "verdict"),
    [
        ((DONE,), (KEPT,), "verified"),
        ((DONE, OPTIONAL), (KEPT,), "verified"),
        ((DONE, REQUIRED), (KEPT,), "incomplete"),
        ((FAILED, REQUIRED), (KEPT,), "failed"),
        ((DONE, REQUIRED), (BROKEN,), "failed"),
        ((DONE,), (), "failed"),
        ((), (KEPT,), "failed"),
    ],
)
def test_verdicts(checks: tuple[Check, ...], guarantees: tuple[CheckedGuarantee, ...], verdict: str) -> None:
    found = Verification(checks, guarantees)
    assert found.verdict == found.as_dict()["verdict"] == verdict
    assert found.verified is found.as_dict()["verified"] is (verdict == "verified")
    assert bool(found.objections) == (verdict != "verified") or not guarantees or not checks


def test_wages_of_other_people_are_not_verified_without_a_witness(tmp_path: Path) -> None:
    """Nothing was compared, which is not a success."""
    n = 500
    people = tables.people(n, 1, "age sex wage", wage=np.arange(n))
    attributes = tables.attributes("age sex", wage={"role": "insensitive"})
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 5}}]}
    shoal.anonymize(people, policy, out=tmp_path / "out", format="csv")
    public, source = tmp_path / "out" / "public", tmp_path / "people.parquet"
    pq.write_table(people, source)
    name, *rows = (public / "data.csv").read_text().splitlines()
    quasi, wages = zip(*(row.rsplit(",", 1) for row in rows), strict=True)
    others = [f"{own},{wage}" for own, wage in zip(quasi, (*wages[1:], wages[0]), strict=True)]
    (public / "data.csv").write_text("\n".join([name, *others, ""]))
    manifest = json.loads((public / "manifest.json").read_text())
    manifest["data"]["sha256"] = hashlib.sha256((public / "data.csv").read_bytes()).hexdigest()
    report = public_report({key: entry for key, entry in manifest.items() if key not in PAGES})  # it names the digest
    (public / "report.html").write_text(report)
    manifest["report"]["sha256"] = hashlib.sha256(report.encode()).hexdigest()
    (public / "manifest.json").write_text(json.dumps(manifest))
    shutil.rmtree(tmp_path / "out" / "internal")
    run = CliRunner().invoke(app, ["verify", str(public), "--source", str(source), "--json"])
    answer = json.loads(run.stdout)
    assert (run.exit_code, answer["verified"], answer["verdict"]) == (4, False, "incomplete"), [
        one for one in answer["checks"] if not one["ok"]
    ]
    undone = {check["name"]: check["detail"] for check in answer["checks"] if check.get("required")}
    assert set(undone) == {"recorded", "truth"}
    assert all("not checked" in detail for detail in undone.values())

"""``shoal compare`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import yaml
from typer.testing import CliRunner

from shoal.cli import app
from shoal.compare.result import RISKS

POLICY = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 20, "max": 69, "widths": [10]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 3}}],
}


def people(seed: int, n: int = 250) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"Zaphod-{seed}-{i}" for i in range(n)],
            "age": rng.integers(20, 70, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "asthma", "gout", "[b]rash[/b]"], n),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("compare")
    pa_csv.write_csv(people(1), place / "people.csv")
    pa_csv.write_csv(people(2), place / "control.csv")
    (place / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    sliced = {**POLICY, "method": {"anatomy": {}}, "privacy": [{"simple-l-diversity": {"l": 2}}]}
    (place / "anatomy.yaml").write_text(yaml.safe_dump(sliced), encoding="utf-8")
    return place


def run(folder: Path, *arguments: str, policies: tuple[str, ...] = ("policy.yaml",)) -> tuple[int, str]:
    given = [part for name in policies for part in ("-p", str(folder / name))]
    typed = ["compare", str(folder / "people.csv"), *given, "--targets", "40", *arguments]
    result = CliRunner().invoke(app, typed)
    return result.exit_code, result.output


def test_json_has_everything(folder: Path) -> None:
    code, said = run(folder, "--techniques", "original,hashing,k-anonymity", "--seed", "1", "--json")
    assert code == 0, said
    stated = json.loads(said)
    assert stated["records"] == 200
    assert stated["control"] == {"records": 50, "held_out": 0.2}
    assert [row["name"] for row in stated["rows"]] == ["original", "hashing", "k-anonymity"]
    for row in stated["rows"]:
        assert set(row) == {
            *("name", "title", "parameters", "opinion", "guarantees", "claims", "risks", "marginals", "records"),
            *("decision", "bar"),
            *("seconds", "label", "rank", "score", "risk", "risk_low", "risk_high", "kept"),
            *("dominated_by", "clearly_dominated"),
        }
        assert set(row["risks"]) == set(RISKS)
        assert set(row["risks"]["inference"]["risk"]) == {"value", "low", "high"}
    assert stated["rows"][1]["opinion"]["inference"] == "may not"
    assert stated["rows"][0]["opinion"]["technique"] is None
    assert "Zaphod" not in said


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        (("--techniques", "nothing"), "unknown technique"),
        (("--control", "x.csv", "--hold-out", "0.1"), "choose one"),
        (("--frontier", "x.png"), "must end in .svg"),
        (("--csv", "nowhere/x.csv"), "does not exist"),
        (("--targets", "5"), "at least 7"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_is_not_understood_ends_with_2(folder: Path, arguments: tuple[str, ...], stated: str) -> None:
    code, said = run(folder, *arguments, "--json")
    assert code == 2
    assert stated in json.loads(said)["error"]

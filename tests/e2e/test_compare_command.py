"""``shoal compare`` as it is typed."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from shoal.cli import app
from shoal.cli.compare import show
from shoal.comparing import Comparison, compare
from shoal.comparing.parts import RISKS

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
    kept = [] if "--cache" in arguments else ["--no-cache"]
    typed = ["compare", str(folder / "people.csv"), *given, *kept, "--targets", "40", *arguments]
    result = CliRunner().invoke(app, typed)
    return result.exit_code, result.output


def test_json_has_everything(folder: Path) -> None:
    code, said = run(folder, "--techniques", "original,hashing,k-anonymity", "--seed", "1", "--json")
    assert code == 0, said
    told = json.loads(said)
    assert told["records"] == 200
    assert told["control"] == {"records": 50, "held_out": 0.2}
    assert [row["name"] for row in told["rows"]] == ["original", "hashing", "k-anonymity"]
    for row in told["rows"]:
        assert set(row) == {
            *("name", "title", "parameters", "opinion", "guarantees", "claims", "risks", "utility", "records"),
            *("seconds", "cached", "label", "rank", "score", "risk", "risk_low", "risk_high", "kept"),
            *("dominated_by", "clearly_dominated"),
        }
        assert set(row["risks"]) == set(RISKS)
        assert set(row["risks"]["inference"]["risk"]) == {"value", "low", "high"}
    assert told["rows"][1]["opinion"]["inference"] == "may not"
    assert told["rows"][0]["opinion"]["technique"] is None
    assert "Zaphod" not in said


def test_policies_have_a_row_each_and_a_control_table_is_used(folder: Path) -> None:
    control = str(folder / "control.csv")
    code, said = run(folder, "--control", control, "--json", policies=("policy.yaml", "anatomy.yaml"))
    assert code == 0, said
    told = json.loads(said)
    assert told["control"] == {"records": 250, "held_out": None}
    assert [row["name"] for row in told["rows"]] == ["policy.yaml", "anatomy.yaml"]
    assert [row["guarantees"][0]["model"] for row in told["rows"]] == ["k-anonymity", "simple-l-diversity"]


def test_files_are_written_beside_the_answer(folder: Path, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"found.{kind}" for kind in ("csv", "svg", "md")}
    code, said = run(
        folder,
        *("--techniques", "original,differential-privacy"),
        *("--csv", str(files["csv"]), "--picture", str(files["svg"]), "--markdown", str(files["md"])),
    )
    assert code == 0, said
    assert "differential-privacy was not made: the values of illness, sex are not declared" in said
    with files["csv"].open(encoding="utf-8") as lines:
        assert [line["name"] for line in csv.DictReader(lines)] == ["original", "differential-privacy"]
    assert "<svg" in files["svg"].read_text(encoding="utf-8")
    assert "](found.svg)" in files["md"].read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--techniques", "nothing"), "unknown technique"),
        (("--control", "x.csv", "--hold-out", "0.1"), "choose one"),
        (("--picture", "x.jpg"), "a picture ends in"),
        (("--csv", "nowhere/x.csv"), "no folder"),
        (("--targets", "5"), "at least 20"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_is_not_understood_ends_with_2(folder: Path, arguments: tuple[str, ...], told: str) -> None:
    code, said = run(folder, *arguments, "--json")
    assert code == 2
    assert told in json.loads(said)["error"]


@pytest.fixture(scope="module")
def found() -> Comparison:
    techniques = "original,noise,l-diversity,anatomy"
    return compare(people(1), POLICY, techniques=techniques, seed=1, targets=40, cache=False)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_fits_the_terminal(found: Comparison, width: int) -> None:
    said = io.StringIO()
    show(found, Console(width=width, highlight=False, file=said))
    table = said.getvalue().split("Risks:")[0]
    lines = [line.rstrip() for line in table.splitlines()]
    assert max(map(len, lines)) <= width
    assert "…" not in table
    for text in ("original", "noise", "l-diversity", "anatomy", "not rated", "may not", "promise: none"):
        assert text in table
    assert ("kept" in lines[0]) == (width == 80)

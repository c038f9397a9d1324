"""``shoal attack`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
import yaml
from typer.testing import CliRunner

import shoal
from shoal.attacks.base import NO_CONTROL
from shoal.attacks.running import attack_names
from shoal.cli import app

POLICY = {
    "attributes": {
        "name": {"role": "identifier"},
        "age": {"role": "quasi"},
        "sex": {"role": "quasi"},
        "illness": {
            "role": "sensitive",
            "taxonomy": {"tree": {"any": {"lung": ["flu", "asthma"], "other": ["gout", "[b]rash[/b]"]}}},
        },
    },
    "privacy": [{"simple-l-diversity": {"l": 2}}],
}


def people(seed: int, n: int = 400) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "name": [f"person {seed}-{i}" for i in range(n)],
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "asthma", "gout", "[b]rash[/b]"], n),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("attack")
    pa_csv.write_csv(people(1), place / "people.csv")
    pa_csv.write_csv(people(2), place / "control.csv")
    pa_csv.write_csv(people(1).select(["name", "age"]), place / "register.csv")
    (place / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    for name, method in (("out", "mondrian"), ("apart", "anatomy")):
        shoal.anonymize(place / "people.csv", {**POLICY, "method": {method: {}}}, out=place / name, seed=2)
    return place


def run(folder: Path, release: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(
        app,
        ["attack", str(folder / release), "--source", str(folder / "people.csv"), *arguments],
        env={"COLUMNS": "120"},
    )
    return result.exit_code, result.output


def test_json_has_counts_and_risks_of_every_attack(folder: Path) -> None:
    arguments = ("--control", str(folder / "control.csv"), "--targets", "100", "--seed", "1", "--json")
    code, text = run(folder, "out", *arguments)
    stated = json.loads(text)
    assert code == 0
    assert {each["name"] for each in stated["attacks"] + stated["refused"]} == set(attack_names())
    for each in stated["attacks"]:
        for name in ("attack", "baseline", "control"):
            assert each[name] is None or set(each[name]) == {"success", "trials"}
        assert each["attack"]["trials"] > 0
        assert each["control"] is not None
        assert set(each["risk"]) == {"value", "low", "high"}
    assert all(each["refused"] for each in stated["refused"])
    assert stated["notes"] == []
    assert run(folder, "out", *arguments) == (code, text)
    assert run(folder, "out/public", *arguments) == (code, text)


def test_a_person_reads_a_table_and_reasons(folder: Path) -> None:
    more = ("--control", str(folder / "control.csv"), "--seed", "1")
    code, text = run(folder, "apart", *more)
    assert code == 0
    heads = [line.split(":")[0] for line in text.splitlines() if " risk: " in line]
    assert heads == ["Identity risk", "Attribute risk", "Membership risk"]
    assert "/400" not in text
    code, text = run(folder, "apart", *more, "--verbose")
    assert code == 0
    assert "singling-out" in text
    assert "/400" in text
    assert "verdict" in text
    assert "Not tried" in text
    assert "downcoding: classes were not generalized" in text
    assert NO_CONTROL not in text
    assert "person 1" not in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--attack", "infrence"), "did you mean 'inference'"),
        (("--targets", "5"), "at least 7"),
        (("--control", "nowhere.csv"), "nowhere.csv"),
        (("--other", "nowhere"), "nowhere has no manifest"),
    ],
)
def test_bad_input_is_refused(folder: Path, arguments: tuple[str, ...], why: str) -> None:
    code, text = run(folder, "out", *arguments, "--json")
    assert code == 2
    assert why in json.loads(text)["error"]

"""``shoal link`` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from typer.testing import CliRunner

import shoal
from shoal.cli import app


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two releases, one generalized and one sliced, of the same people, and the people."""
    place = tmp_path_factory.mktemp("link")
    rng = np.random.default_rng(8)
    n = 200
    table = pa.table(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "gout", "ulcer", "[b]rash[/b]"], n),
        }
    )
    pa_csv.write_csv(table, place / "people.csv")
    attributes = {"age": {"role": "quasi"}, "sex": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    for name, model, method in (
        ("a", {"k-anonymity": {"k": 4}}, "mondrian"),
        ("b", {"distinct-l-diversity": {"l": 2}}, "slicing"),
    ):
        policy = {"attributes": attributes, "privacy": [model], "method": {method: {}}, "max_withheld": 0.2}
        shoal.anonymize(place / "people.csv", policy, out=place / name, seed=2)
    return place


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["link", str(folder / "a"), str(folder / "b"), *arguments])
    return result.exit_code, result.stdout if result.exit_code == 0 or "--json" in arguments else result.output


def test_a_target_is_told(folder: Path) -> None:
    age = next(row["age"] for row in pa_csv.read_csv(folder / "people.csv").to_pylist() if row["sex"] == "F")
    code, text = run(folder, "--target", f"sex=F,age={age}", "--json")
    answer = json.loads(text)
    assert code == 0
    assert answer["l"] == len(answer["remaining"]) >= 1
    assert all(count > 0 for count in answer["remaining"].values())
    code, text = run(folder, "--target", "sex=F")
    assert code == 0
    assert "4 values of illness remain" in text
    assert "[b]rash[/b]" in text
    assert "alone leaves 4" in text


def test_everybody_is_told(folder: Path) -> None:
    code, text = run(folder, "--floor", "3", "--json")
    answer = json.loads(text)
    assert code == 0
    assert answer["worst"][0]["l"] == answer["l"] <= min(each["l"] for each in answer["releases"])
    assert 0 <= answer["people_below"] <= answer["people"] <= 200
    code, text = run(folder, "--population", str(folder / "people.csv"), "--floor", "3", "--json")
    exact = json.loads(text)
    assert code == 0
    assert exact["people"] == 200
    assert exact["l"] >= answer["l"]
    for more in ([], ["--population", str(folder / "people.csv")]):
        code, text = run(folder, *more)
        assert code == 0
        assert "Worst cases, as classes" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "sexx=F"], "did you mean 'sex'"),
        (["--target", "sex"], "attribute=value"),
        (["--target", "sex=F", "--population", "people.csv"], "give one of them"),
        (["--sensitive", "age"], "not a sensitive attribute"),
        (["nowhere.csv"], "there is no release or table"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: list[str], message: str) -> None:
    code, text = run(folder, *arguments, "--json")
    assert code == 2
    assert message in json.loads(text)["error"]

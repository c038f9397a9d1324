"""Plans, releases by them and links as a demanding user types them: odd files, wrong numbers, and no secrets told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pytest
from typer.testing import CliRunner, Result

from shoal.cli import app

SECRET = "Zaphod-4711"
ILLNESSES = ("flu", "gout", "Übelkeit 🤢", 'so-called, "cold"')
N_RECORDS = 3000


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def stated(*arguments: object) -> Any:
    """What a command that must succeed answers as JSON."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def plan(*options: object, out: object = "plan.json") -> Result:
    return run("agency", "plan", "--sensitive", "illness", "--delta", "0.01", "-o", out, *options)


def records(n: int = N_RECORDS, **changes: str) -> pa.Table:
    """Stays, of which every combination occurs as often as others; *changes* spoil the first one."""
    rows = {
        "name": [f"{SECRET}-{i}" for i in range(n)],
        "age": [str(20 + i % 60) for i in range(n)],
        "sex": ["FM"[i // 60 % 2] for i in range(n)],
        "illness": [ILLNESSES[i // 120 % 4] for i in range(n)],
    }
    for name, value in changes.items():
        rows[name][0] = value
    return pa.table(rows)


def counts() -> pa.Table:
    return records().group_by(["age", "sex", "illness"]).aggregate([([], "count_all")]).rename_columns(
        ["age", "sex", "illness", "count"]
    )  # fmt: skip


def write(table: pa.Table, path: str, **options: Any) -> str:
    pc.write_csv(table, path, pc.WriteOptions(**options))
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with counts and the records that they are of."""
    monkeypatch.chdir(tmp_path)
    write(counts(), "counts.csv")
    write(records(), "stays.csv")
    return tmp_path


SPOILED = {
    "a value of a number": {"age": f"{SECRET} years"},
    "a value of a category": {"sex": SECRET},
    "a sensitive value": {"illness": SECRET},
    "a number that is written differently": {"age": "020"},
    "a missing value": {"age": ""},
    "a missing sensitive value": {"illness": ""},
}


@pytest.mark.parametrize("what", SPOILED)
def test_records_outside_the_domain_are_told_by_column_and_never_by_value(place: Path, what: str) -> None:
    assert plan("--counts", "counts.csv", "--l", 3).exit_code == 0
    write(records(**SPOILED[what]), "spoiled.csv")
    (column,) = SPOILED[what]
    for extra in ([], ["--json"]):
        done = run("agency", "apply", "plan.json", "spoiled.csv", "-o", "out", *extra)
        assert done.exit_code == 2
        assert f"column '{column}': 1 record" in done.output
        assert SECRET not in done.output
        assert "020" not in done.output
    assert not Path("out").exists()


def test_adult_by_a_plan_keeps_l_and_by_itself_does_not(shared_data: Path, tmp_path: Path) -> None:
    """Two owners with half of Adult each, planned from all of it: five occupations remain by plan, fewer without."""
    import numpy as np

    from shoal.datasets.uci import adult

    columns = ["age", "sex", "education", "occupation"]
    rows = adult(shared_data, columns=columns)
    rows = rows if isinstance(rows, pa.Table) else pa.Table.from_pandas(rows, preserve_index=False)
    rows = rows.take(np.random.default_rng(5).permutation(rows.num_rows))
    everybody, halves = tmp_path / "all.csv", [tmp_path / "a.csv", tmp_path / "b.csv"]
    write(rows, str(everybody))
    for path, start in zip(halves, (0, rows.num_rows // 2), strict=True):
        write(rows.slice(start, rows.num_rows // 2), str(path))
    agreed = tmp_path / "plan.json"
    said = stated("agency", "plan", "--data", everybody, "--attributes", "age,sex,education", "--sensitive",
                "occupation", "--l", 5, "--delta", "0.01", "--samples", rows.num_rows // 2, "-o", agreed)  # fmt: skip
    assert said["n_tight"] < said["n"] == said["records"] <= rows.num_rows // 2
    assert said["classes"] > 100
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "attributes:\n  age: {role: quasi}\n  sex: {role: quasi}\n  education: {role: quasi}\n"
        "  occupation: {role: sensitive}\nprivacy: [{distinct-l-diversity: {l: 5}}]\n"
    )
    for half in halves:
        stated("agency", "apply", agreed, half, "-o", half.with_suffix(".agreed"))
        stated("anonymize", half, "-p", policy, "-o", half.with_suffix(".alone"))
    by_plan = stated("link", *(half.with_suffix(".agreed") for half in halves), "--population", everybody, "--floor", 5)
    alone = stated("link", *(half.with_suffix(".alone") for half in halves), "--population", everybody, "--floor", 5)
    assert (by_plan["promised"], by_plan["people_below"]) == (5, 0)
    assert by_plan["l"] >= 5 > alone["l"]
    assert alone["people_below"] > 0

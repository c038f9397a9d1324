"""``shoal anonymize`` as typed: a run that writes nothing, and a run that replaces a release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli import app

RUNNER = CliRunner(env={"COLUMNS": "200"})
COMMAND = ["anonymize", "people.csv", "-p", "policy.yaml"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "people.csv").write_text("age,illness\n" + "20,flu\n20,gout\n60,flu\n60,cold\n" * 4)
    attributes = "attributes: {age: {role: quasi}, illness: {role: sensitive}}"
    (tmp_path / "policy.yaml").write_text(f"{attributes}\nprivacy: [{{k-anonymity: {{k: 2}}}}]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_dry_run_shows_the_release_and_writes_nothing(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    for more in ([], ["-o", "out"]):
        done = RUNNER.invoke(app, [*COMMAND, *more, "--dry-run"])
        assert done.exit_code == 0, done.output
        assert "Dry run, nothing was written. The release would have 16 rows in 2 classes" in done.stdout
        assert "k-anonymity" in done.stdout
        assert "to share" not in done.stdout
    answer = json.loads(RUNNER.invoke(app, [*COMMAND, "--dry-run", "--json"]).stdout)
    assert (answer["out"], answer["rows"], answer["guarantees"][0]["achieved"]) == (None, 16, 8.0)
    assert "utility" in answer
    assert sorted(folder.rglob("*")) == before


def test_a_dry_run_has_no_ledger_and_another_run_needs_a_folder(folder: Path) -> None:
    refused = RUNNER.invoke(app, [*COMMAND, "--dry-run", "--ledger", "ledger.db"])
    assert (refused.exit_code, "leave out --ledger" in refused.stderr) == (2, True)
    refused = RUNNER.invoke(app, COMMAND)
    assert (refused.exit_code, "give a new folder for the release" in refused.stderr) == (2, True)
    assert not (folder / "ledger.db").exists()


def test_overwrite_replaces_the_release(folder: Path) -> None:
    assert RUNNER.invoke(app, [*COMMAND, "-o", "out"]).exit_code == 0
    refused = RUNNER.invoke(app, [*COMMAND, "-o", "out", "--format", "parquet"])
    assert (refused.exit_code, "out exists already" in refused.stderr) == (2, True)
    done = RUNNER.invoke(app, [*COMMAND, "-o", "out", "--format", "parquet", "--overwrite"])
    assert done.exit_code == 0, done.output
    assert {path.name for path in (folder / "out" / "public").iterdir()} >= {"data.parquet"}

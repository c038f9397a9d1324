"""``shoal audit`` and ``shoal init`` as typed."""

from __future__ import annotations

import json

import pytest
import yaml
from typer.testing import CliRunner

from shoal.cli import app
from shoal.cli.policy import SOURCE_FLAGS
from shoal.datasets.hospital_files import write_stays
from shoal.sources.base import SourceOptions

RUNNER = CliRunner(env={"COLUMNS": "200"})


@pytest.fixture
def stay_file(tmp_path):
    return write_stays(tmp_path / "stays.csv", 2000, seed=3)


@pytest.fixture
def policy_file(tmp_path, stay_file):
    path = tmp_path / "policy.yaml"
    result = RUNNER.invoke(app, ["init", str(stay_file), "-o", str(path)])
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "open questions. Check every role" in result.stderr
    assert "shoal audit" in result.stderr
    return path


def test_init_prints_the_policy_alone(stay_file):
    result = RUNNER.invoke(app, ["init", str(stay_file), "-o", "-"])
    assert result.exit_code == 0
    assert result.stdout.startswith("# Draft policy for stays.csv: 2,000 records, 9 columns.\n")
    assert "open questions. Check every role" in result.stderr


def test_init_writes_policy_yaml_and_replaces_it_only_if_asked(stay_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = tmp_path / "policy.yaml"
    result = RUNNER.invoke(app, ["init", str(stay_file)])
    assert (result.exit_code, result.stdout) == (0, "")
    assert "The draft in policy.yaml has" in result.stderr
    policy.write_text("edited: by hand")
    refused = RUNNER.invoke(app, ["init", str(stay_file)])
    assert refused.exit_code == 2
    assert "policy.yaml exists already" in refused.stderr
    assert policy.read_text() == "edited: by hand"
    assert RUNNER.invoke(app, ["init", str(stay_file), "--overwrite"]).exit_code == 0
    assert policy.read_text().startswith("# Draft policy for stays.csv")


def test_init_says_where_it_cannot_write(stay_file, tmp_path):
    result = RUNNER.invoke(app, ["init", str(stay_file), "-o", str(tmp_path / "nowhere" / "p.yaml")])
    assert result.exit_code == 2
    assert "cannot write" in result.stderr


def test_audit_begins_with_a_plain_sentence(stay_file, policy_file):
    result = RUNNER.invoke(app, ["audit", str(stay_file), "-p", str(policy_file)])
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()[:2]
    assert first.endswith("are unique on age, sex, postcode, admitted, occupation, insurance.")
    assert first.split()[1:4] == ["of", "2,000", "records"]
    assert "on average" in second
    assert "Warning: column 'cost'" in result.stdout
    for title in ("Risk of re-identification", "k = 1", "The fastest way", "Missing values (a category of their own)"):
        assert title in result.stdout


def test_audit_in_json_with_a_population(stay_file, policy_file):
    arguments = ["audit", str(stay_file), "-p", str(policy_file), "--population", str(stay_file), "--sets", "2"]
    result = RUNNER.invoke(app, [*arguments, "--json"])
    answer = json.loads(result.stdout)
    assert answer["journalist"]["stays.csv"]["people"] == 2000
    assert answer["journalist"]["stays.csv"]["journalist"] == answer["prosecutor"]
    assert len(answer["sets"]) == 6 + 15
    shown = RUNNER.invoke(app, arguments).stdout
    assert "journalist (searches 2,000 people in stays.csv)" in shown


@pytest.mark.parametrize("command", ["audit", "init"])
def test_errors_name_the_file_and_exit_with_2(command, tmp_path, policy_file):
    more = ["-p", str(policy_file)] if command == "audit" else []
    result = RUNNER.invoke(app, [command, str(tmp_path / "none.csv"), *more, "--json"])
    assert result.exit_code == 2
    assert "none.csv" in json.loads(result.stdout)["error"]


def test_every_option_of_a_source_is_a_flag_of_init():
    assert set(SOURCE_FLAGS) == set(SourceOptions.model_fields)


@pytest.fixture
def european_file(tmp_path):
    path = tmp_path / "rents.csv"
    rows = [f" {30 + i % 20} ;{'wm'[i % 2]};{1000 + i},{i % 90 + 10};{i % 7 or 'N'}" for i in range(80)]
    path.write_text("\n".join(["Alter;Geschlecht;Einkommen;Zimmer", *rows]), encoding="utf-8")
    return path


def test_what_is_found_by_content_is_read_so_and_verified_without_the_policy(european_file, tmp_path):
    policy, out = tmp_path / "policy.yaml", tmp_path / "out"
    drafted = RUNNER.invoke(app, ["init", str(european_file), "-o", str(policy), "--type", "Zimmer=number"])
    assert drafted.exit_code == 0, drafted.stderr
    source = yaml.safe_load(policy.read_text(encoding="utf-8"))["source"]
    assert source == {"missing": ["", "N"], "decimal_comma": ["Einkommen"], "trim": True}
    made = RUNNER.invoke(app, ["anonymize", str(european_file), "-p", str(policy), "-o", str(out)])
    assert made.exit_code == 0, made.output
    manifest = json.loads((out / "public" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["reading"] == {"decimal_comma": ["Einkommen"], "trim": True}
    checked = RUNNER.invoke(app, ["verify", str(out), "--source", str(european_file), "--json"])
    assert json.loads(checked.stdout)["verified"] is True

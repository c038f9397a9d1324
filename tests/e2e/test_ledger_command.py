"""``shoal anonymize --ledger`` and ``shoal ledger`` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from shoal.cli import app

PEOPLE = "x,y,illness\n" + "a,a,flu\na,b,gout\nb,a,cold\nb,b,[b]ulcer[/b]\n" * 4
POLICY = """\
attributes:
  x: {{role: {x}}}
  y: {{role: {y}}}
  illness: {{role: sensitive}}
privacy:
  - distinct-l-diversity: {{l: 2}}
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table, and two policies by which it can be published, but not by both."""
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(PEOPLE)
    Path("rows.yaml").write_text(POLICY.format(x="quasi", y="identifier"))
    Path("columns.yaml").write_text(POLICY.format(x="identifier", y="quasi"))
    return tmp_path


def publish(name: str, *more: object) -> Result:
    return run("anonymize", "people.csv", "-p", f"{name}.yaml", "-o", name, "--ledger", "ledger.db", *more)


def test_a_release_is_entered_and_the_next_refused(place: Path) -> None:
    first = publish("rows", "--recipient", "[the] city")
    assert first.exit_code == 0
    assert "It is release 1 in the ledger, about everybody, the first about them." in first.stdout
    assert "leave at least 2 values of illness" in first.stdout
    refused = publish("columns", "--json")
    assert refused.exit_code == 3
    error = json.loads(refused.stdout)
    assert error["exit_code"] == 3
    assert "to [the] city): 16 of 16 people would be left with fewer than 2 values of 'illness'" in error["error"]
    stated = publish("columns")
    assert (stated.exit_code, stated.stdout) == (3, "")
    assert stated.stderr.startswith("shoal: nothing was published: together with release 1 (")
    assert not Path("columns").exists()
    warned = publish("columns", "--warn", "--json")
    answer = json.loads(warned.stdout)
    assert (warned.exit_code, answer["ledger"]["number"], len(answer["warnings"])) == (0, 2, 1)
    assert answer["ledger"]["linked"][0]["l"] == 1


def test_the_record_is_shown_checked_and_exported(place: Path) -> None:
    publish("rows", "--recipient", "[the] city", "--population", "patients")
    publish("columns", "--warn")
    shown = run("ledger", "show", "ledger.db")
    assert shown.exit_code == 0
    for word in ("patients: floor 2", "[the] city", "mondrian", "distinct-l-diversity", "published"):
        assert word in shown.stdout
    listed = json.loads(run("ledger", "show", "ledger.db", "--json").stdout)
    assert [(each["number"], each["l"], each["floor"], each["rows"]) for each in listed["releases"]] == [
        (1, 1, 2, 16),
        (2, 1, 2, 16),
    ]
    checked = run("ledger", "check", "ledger.db")
    assert checked.exit_code == 3
    assert "patients: 2 releases that do not keep the floor of 2 or their promises together" in checked.stdout
    assert "releases 1 and 2: 16 of 16 people can be left with fewer than 2 values of 'illness'" in checked.stdout
    assert "release 1: all people are left with at least 2 values" in checked.stdout
    anew = run("ledger", "check", "ledger.db", "--people", "people.csv", "--population", "patients", "--json")
    answer = json.loads(anew.stdout)
    assert (anew.exit_code, answer["below"], answer["populations"][0]["linked"][0]["l"]) == (3, True, 1)
    for name in ("ledger.json", "ledger.csv"):
        assert json.loads(run("ledger", "export", "ledger.db", "-o", name, "--json").stdout)["releases"] == 2
        assert "ulcer" not in Path(name).read_text()
    lowered = run("ledger", "floor", "ledger.db", "--population", "patients", "--floor", "1")
    assert lowered.stdout == "The floor of patients is now 1 (before: 2). Releases below it are refused.\n"
    assert run("ledger", "check", "ledger.db").exit_code == 0
    answer = json.loads(run("ledger", "floor", "ledger.db", "--floor", "5", "--warn", "--json").stdout)
    assert answer == {"population": "patients", "before": 1, "floor": 5, "warns": True}
    assert "some of 16 people can be left with fewer than 5" in run("ledger", "check", "ledger.db").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "nothing.db"], "there is no ledger nothing.db"),
        (["check", "people.csv"], "people.csv is not a ledger"),
        (["show", "ledger.db", "--population", "everybodi"], "did you mean 'everybody'?"),
        (["floor", "ledger.db", "--floor", "0"], "at least 1"),
        (["add", "ledger.db", "people.csv"], "there is no release people.csv"),
        (["export", "ledger.db", "-o", "people.csv"], "exists already"),
        (["check", "ledger.db", "--people", "none.csv"], "there is no file none.csv"),
    ],
)
def test_mistakes_are_told(place: Path, words: list[str], message: str) -> None:
    publish("rows")
    done = run("ledger", *words, "--json")
    assert done.exit_code == 2
    assert message in json.loads(done.stdout)["error"]
    assert run("ledger", *words).stderr.startswith("shoal: ")

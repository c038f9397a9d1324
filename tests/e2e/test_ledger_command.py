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
    assert "release 1: everybody is left with at least 2 values" in checked.stdout
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


def test_releases_of_before_are_added(place: Path) -> None:
    for name in ("rows", "columns"):
        run("anonymize", "people.csv", "-p", f"{name}.yaml", "-o", name)
    assert run("ledger", "add", "ledger.db", "rows", "--source", "people.csv").stdout.startswith("Added as release 1")
    added = run("ledger", "add", "ledger.db", "columns/public", "--recipient", "us")
    assert added.exit_code == 0
    assert "Warning: below what the ledger asks for: together with release 1" in added.stdout
    answer = json.loads(run("ledger", "add", "ledger.db", "rows", "--recipient", "them", "--json").stdout)
    assert (answer["number"], answer["earlier"]) == (3, [1, 2])
    assert run("ledger", "check", "ledger.db").exit_code == 3
    struck = run("ledger", "strike", "ledger.db", "1", "--reason", "regret", "--json")
    assert struck.exit_code == 2
    assert "only unfinished" in json.loads(struck.stdout)["error"]


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


def test_a_budget_is_set_and_shown(place: Path) -> None:
    levels = "{flat: [a, b]}"
    columns = f"x: {{role: quasi, taxonomy: {levels}}}\n  y: {{role: quasi, taxonomy: {levels}}}"
    rest = "illness: {role: identifier}\nprivacy: []\nmethod: {synthetic: {epsilon: 1}}\n"
    Path("private.yaml").write_text(f"attributes:\n  {columns}\n  {rest}")
    assert publish("private").exit_code == 0
    words = ("anonymize", "people.csv", "-p", "private.yaml", "-o", "again", "--ledger", "ledger.db")
    refused = run(*words)
    assert (refused.exit_code, "no budget was set" in refused.stderr) == (3, True)
    done = run("ledger", "budget", "ledger.db", "--epsilon", "2")
    assert done.stdout == "The budget of everybody is epsilon 2 and delta 0; 1 and 0 are spent.\n"
    assert run(*words).exit_code == 0
    assert "epsilon 2 and delta 0 are spent" in run("ledger", "show", "ledger.db").stdout
    run("ledger", "budget", "ledger.db", "--epsilon", "1.5")
    checked = run("ledger", "check", "ledger.db")
    assert (checked.exit_code, "Overspent: all differentially private releases cost epsilon 2" in checked.stdout) == (
        3,
        True,
    )


def test_options_need_the_ledger(place: Path) -> None:
    done = run("anonymize", "people.csv", "-p", "rows.yaml", "-o", "rows", "--floor", "3", "--json")
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"] == "--floor needs a ledger; name it with --ledger"
    assert not Path("rows").exists()


def test_releases_by_one_plan_are_entered_and_leave_what_the_plan_promises(place: Path) -> None:
    ages, illnesses = range(20, 30), ("flu", "gout", "cold")
    counts = [f"{age},{illness},50" for age in ages for illness in illnesses]
    Path("counts.csv").write_text("\n".join(["age,illness,count", *counts]) + "\n")
    words = ("--sensitive", "illness", "--l", 2, "--delta", 0.01, "--samples", 900, "-o", "plan.json")
    assert run("agency", "plan", "--counts", "counts.csv", *words).exit_code == 0
    rows = [f"{20 + i % 10},{illnesses[i // 10 % 3]}" for i in range(900)]
    Path("owner.csv").write_text("\n".join(["age,illness", *rows]) + "\n")
    for number in (1, 2):
        switches = ("-o", f"agreed-{number}", "--ledger", "ledger.db", "--recipient", "the agency", "--floor", 2)
        done = run("agency", "apply", "plan.json", "owner.csv", *switches, "--json")
        assert done.exit_code == 0, done.output
        answer = json.loads(done.stdout)
        assert (answer["ledger"]["number"], answer["warnings"]) == (number, [])
        assert answer["ledger"]["linked"][0]["l"] >= 2
        assert len(answer["ledger"]["linked"][0]["sets"]) == number
    stated = run("agency", "apply", "plan.json", "owner.csv", "-o", "agreed-3", "--ledger", "ledger.db")
    assert "It is release 3 in the ledger, about everybody, linked with 2 earlier." in stated.stdout
    assert run("ledger", "check", "ledger.db").exit_code == 0
    assert run("ledger", "check", "ledger.db", "--people", "owner.csv").exit_code == 0

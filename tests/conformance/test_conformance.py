"""The conformance suite: shoal's verifier passes it, its runner judges as documented, its builder makes it again."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from conformance.__main__ import CASES, Case, fill_command, judge, list_cases, main, read_known
from conformance.build import KNOWN, build, verify

from conformance import plain
from shoal.columns.base import Technique
from shoal.core.registry import discover
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel

MOST_BYTES = 3_000_000
KNOWN_BY_DUCKDB = read_known(CASES.parent / "known-duckdb.txt")
COMMAND = f"{sys.executable} -c 'from shoal.cli import main; main()' verify {{folder}} [--source {{source}}] --json"
ACCEPTING = f"{sys.executable} -c 'raise SystemExit(0)' {{folder}}"


@pytest.mark.parametrize("case", list_cases(), ids=lambda case: case.name)
def test_shoal_reaches_the_expected_verdict(case: Case) -> None:
    assert (verify(case)[0] is not None) == (case.name in read_known(KNOWN))


@pytest.mark.parametrize("case", list_cases(), ids=lambda case: case.name)
def test_duckdb_and_the_script_reach_the_expected_verdict(case: Case) -> None:
    """The script misses only faults that need more than public rows; no guarantee that fails seems to hold."""
    expected = plain.ACCEPTED if case.verdict == "verified" else plain.REJECTED
    with case.prepare() as values:
        found = plain.verify(Path(values["folder"]))
    assert (found != expected) == (case.name in KNOWN_BY_DUCKDB)
    if case.check in {*discover("shoal.models", PrivacyModel), "rows", "columns"}:
        assert found == plain.REJECTED


def test_every_model_method_and_technique_has_good_and_spoiled_cases() -> None:
    met: dict[str, set[str | None]] = {"verified": set(), "failed": set()}
    for case in list_cases():
        if case.verdict == "incomplete" or case.check == "manifest":
            continue
        manifest = json.loads((case.folder / "public" / "manifest.json").read_bytes())
        techniques = {f"{entry['technique']} of a column" for entry in manifest.get("techniques", {}).values()}
        models = {promise["model"] for promise in manifest["guarantees"]}
        own = models if case.verdict == "verified" else {case.check}
        met[case.verdict] |= {manifest["method"], *techniques, *own}
    techniques = {f"{name} of a column" for name in discover("shoal.columns", Technique)}
    models = {*discover("shoal.models", PrivacyModel), "l-delta-diversity", "k-delta-anonymity"}
    forms = {*discover("shoal.methods", Method), *techniques, *models, "agreed"} - {"auto"}
    assert forms - met["verified"] == set()
    assert forms - met["failed"] <= {"hilbert", "plain"}  # their form is that of others
    assert len(list_cases()) >= 250


def test_cases_are_small() -> None:
    assert sum(path.stat().st_size for path in CASES.rglob("*") if path.is_file()) < MOST_BYTES


def test_the_runner_starts_a_verifier(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--verifier", COMMAND, "--only", "row-re*"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[:2] for line in printed.splitlines()[:-1]] == [
        ["passed", "row-removed"],
        ["passed", "row-removed-and-uncounted"],
        ["passed", "row-repeated"],
    ]


def test_known_failures_are_expected_and_no_others(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    known = tmp_path / "known.txt"
    known.write_text("row-removed  # rows are not counted\n", "utf-8")
    assert main(["--verifier", ACCEPTING, "--only", "row-removed", "--known", str(known)]) == 0
    assert main(["--verifier", ACCEPTING, "--only", "row-removed"]) == 1
    assert "exit code 0 instead of 4" in capsys.readouterr().out
    known.write_text("classes-csv\n", "utf-8")
    assert main(["--verifier", ACCEPTING, "--only", "classes-csv", "--known", str(known)]) == 1
    assert "UNEXPECTED PASS" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--verifier", "check"], ["--verifier", "check {folder}", "--only", "none"], ["--verifier", "/no/such {folder}"]],
    ids=["no folder", "no case", "no command"],
)
def test_wrong_usage_is_reported(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_unknown_names_of_known_failures_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "known.txt").write_text("no-such-case\n", "utf-8")
    assert main(["--verifier", ACCEPTING, "--known", str(tmp_path / "known.txt")]) == 2
    assert "no-such-case" in capsys.readouterr().err


def test_optional_parts_of_a_command() -> None:
    template = "check {folder} [--source {source}] [--population {population}]"
    assert fill_command(template, {"folder": "a b"}) == ["check", "a b"]
    assert fill_command(template, {"folder": "a", "population": "p"}) == ["check", "a", "--population", "p"]


def test_answers_in_json_are_judged_by_verdict_and_check() -> None:
    case = Case("x", Path(), "", "failed", "truth", source=True)
    answer = {"verdict": "failed", "checks": [{"name": "truth", "ok": False}], "guarantees": []}
    assert judge(case, 4, json.dumps(answer)) is None
    assert judge(case, 4, "rejected") is None
    assert judge(case, 0, "") == "exit code 0 instead of 4 (failed)"
    assert judge(case, 4, json.dumps({**answer, "verdict": "incomplete"})) == "verdict 'incomplete' instead of 'failed'"
    other = {**answer, "checks": [{"name": "rows", "ok": False}]}
    assert judge(case, 4, json.dumps(other)) == "rows objected instead of 'truth'"
    undone = {"verdict": "incomplete", "checks": [{"name": "truth", "ok": True, "done": False, "required": True}]}
    assert judge(Case("x", Path(), "", "incomplete", "truth", source=True), 4, json.dumps(undone)) is None


def test_the_builder_makes_the_same_cases(tmp_path: Path) -> None:
    pytest.importorskip("opendp")
    build(tmp_path / "cases")
    assert read_expectations(tmp_path / "cases") == read_expectations(CASES)


def read_expectations(folder: Path) -> dict[str, str]:
    return {path.parent.name: path.read_text("utf-8") for path in folder.glob("*/case.json")}

"""The command's contract: layout of the output, exit codes, ``--json``, ``--help``, ``--version``."""

from __future__ import annotations

import csv
import json
import shutil
import stat

import pytest
import typer.main

import shoal as package
from shoal.cli import app

COLUMNS = ("patient", "age", "sex", "town", "disease", "note")


def leaf_commands() -> list[tuple[str, ...]]:
    """Every command that does something, as the words one types."""

    def walk(command, words):
        below = getattr(command, "commands", None)
        if below is None:
            return [words]
        return [leaf for name, child in below.items() for leaf in walk(child, (*words, name))]

    return walk(typer.main.get_command(app), ())


@pytest.fixture(scope="module")
def source(tmp_path_factory, patients):
    path = tmp_path_factory.mktemp("source") / "patients.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *patients])
    return path


@pytest.fixture(scope="module")
def published(installed, source, policy, tmp_path_factory):
    """What the command answered, and the folder it wrote."""
    out = tmp_path_factory.mktemp("released") / "out [v1]"  # what looks like markup must come through
    return installed("anonymize", source, "-p", policy, "-o", out), out


def test_version(installed):
    done = installed("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"shoal {package.__version__}\n", "")


def test_help_of_every_command_names_its_json_switch(shoal):
    commands = leaf_commands()
    assert {words[0] for words in commands} >= {"demo", "init", "audit", "anonymize", "verify", "policy"}
    for words in commands:
        done = shoal(*words, "--help")
        assert (done.returncode, done.stderr) == (0, ""), words
        assert "Usage: shoal " + " ".join(words) in done.stdout
        assert "--json" in done.stdout, words


def test_unknown_command_and_unknown_option_are_usage_errors(shoal, source, policy):
    for words in (("anonymise",), ("anonymize", source, "-p", policy), ("anonymize", source, "--polcy", policy)):
        done = shoal(*words)
        assert done.returncode == 2
        assert "Error: " in done.stderr
        assert "Traceback" not in done.stderr


def test_layout_of_the_output(published):
    done, out = published
    assert (done.returncode, done.stderr) == (0, "")
    assert f"->  {out}/public/data.csv\n" in done.stdout
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files == {
        "public/data.csv",
        "public/manifest.json",
        "public/README.md",
        "public/report.html",
        "public/verify.sql",
        "internal/decision.json",
        "internal/evidence.json",
        "internal/report.html",
        "internal/verify-source.sql",
        "internal/witness.parquet",
    }
    assert [path.name for path in out.parent.iterdir()] == ["out [v1]"], "the staging folder is gone"
    assert stat.S_IMODE((out / "internal").stat().st_mode) == 0o700
    assert stat.S_IMODE((out / "public").stat().st_mode) == 0o755


def test_manifest_says_what_is_promised(published, patients):
    manifest = json.loads((published[1] / "public" / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["shoal_version"] == package.__version__
    assert manifest["method"] == "mondrian"
    assert (manifest["rows"], manifest["withheld"]) == (len(patients), 0)
    assert manifest["parts"] == [list(COLUMNS[1:])]
    assert list(manifest["attributes"]) == list(COLUMNS[1:])
    k, distinct = manifest["guarantees"]
    assert (k["model"], k["parameters"]) == ("k-anonymity", {"k": 4})
    assert k["achieved"] >= 4
    assert (distinct["model"], distinct["parameters"]["l"]) == ("distinct-l-diversity", 2)
    assert distinct["achieved"] >= 2


def test_nothing_internal_is_public(published):
    """Neither the seed, nor the source's digest or name, nor risks before publishing are in public files."""
    out = published[1]
    evidence = json.loads((out / "internal" / "evidence.json").read_text(encoding="utf-8"))
    public = "".join(path.read_text(encoding="utf-8") for path in (out / "public").iterdir())
    assert "risk_before" in evidence
    assert "risk_before" not in public
    assert "patients.csv" in json.dumps(evidence)
    assert "patients.csv" not in public
    assert "Zaphod" not in public
    assert "Zaphod" not in json.dumps(evidence) + (out / "internal" / "report.html").read_text(encoding="utf-8")


def test_anonymize_answers_with_one_object(shoal, source, policy, tmp_path):
    done = shoal("anonymize", source, "-p", policy, "-o", tmp_path / "out", "--seed", 5, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    manifest = json.loads((tmp_path / "out" / "public" / "manifest.json").read_text(encoding="utf-8"))
    assert answer["verified"] is True
    assert answer["out"] == str(tmp_path / "out")
    assert {key: answer[key] for key in manifest} == manifest
    assert 0 <= answer["utility"]["um"] <= 1


def test_verify_accepts_what_was_published(shoal, published, source):
    done = shoal("verify", published[1], "--source", source, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["verified"] is True
    assert [entry["model"] for entry in answer["guarantees"]] == ["k-anonymity", "distinct-l-diversity"]
    done = shoal("verify", published[1] / "public")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Verified (whether the rows are true was not checked; give --source)." in " ".join(done.stdout.split())


@pytest.mark.parametrize("spoil", ["digest", "row", "source"])
def test_verify_rejects_with_exit_code_four(shoal, installed, published, source, tmp_path, spoil):
    out = tmp_path / "out"
    shutil.copytree(published[1], out)
    data = out / "public" / "data.csv"
    if spoil == "digest":
        data.write_bytes(data.read_bytes() + b"\n")
        done = installed("verify", out)
        assert "Not verified" in done.stdout
    elif spoil == "row":
        lines = data.read_text(encoding="utf-8").splitlines(keepends=True)
        data.write_text("".join(lines[:-1]), encoding="utf-8")
        done = shoal("verify", out, "--json")
        assert json.loads(done.stdout)["verified"] is False
    else:
        other = tmp_path / "other.csv"
        other.write_text(source.read_text(encoding="utf-8").replace(",M,", ",F,"), encoding="utf-8")
        done = shoal("verify", out, "--source", other, "--json")
        assert json.loads(done.stdout)["verified"] is False
    assert (done.returncode, done.stderr) == (4, "")


def test_errors_are_objects_too(installed, source, policy, tmp_path):
    strict = tmp_path / "strict.yaml"
    strict.write_text(policy.read_text(encoding="utf-8").replace("k: 4", "k: 121"), encoding="utf-8")
    done = installed("anonymize", source, "-p", strict, "-o", tmp_path / "out", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == 3
    assert "k = 121" in answer["error"]
    assert not (tmp_path / "out").exists()


def test_policy_schema_and_check(shoal, policy):
    done = shoal("policy", "schema", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    schema = json.loads(done.stdout)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["required"]) == {"attributes", "privacy"}
    models = {name for entry in schema["properties"]["privacy"]["items"]["oneOf"] for name in entry["properties"]}
    assert models >= {"k-anonymity", "entropy-l-diversity", "t-closeness", "tau-l-diversity", "delta-presence"}
    assert shoal("policy", "schema").stdout == done.stdout
    done = shoal("policy", "check", policy, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["attributes"]["patient"] == "identifier"


def test_promise_against_a_population(shoal, source, tmp_path, patients, policy):
    """The verifier needs the population too: without it, it does not take the promise on trust."""
    people = [(row[1], row[2], row[3]) for row in patients for _ in range(5)]
    with (tmp_path / "census.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS[1:4], *people])
    own = tmp_path / "policy.yaml"
    text = policy.read_text(encoding="utf-8").partition("privacy:")[0]
    own.write_text(text + "privacy: [{k-map: {k: 20, population: census.csv}}]\n", encoding="utf-8")
    done = shoal("anonymize", source, "-p", own, "-o", tmp_path / "out", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    (promise,) = json.loads(done.stdout)["guarantees"]
    assert promise["achieved"] >= 20
    assert shoal("verify", tmp_path / "out", "--population", tmp_path / "census.csv").returncode == 0
    assert shoal("verify", tmp_path / "out", "-p", own).returncode == 0
    done = shoal("verify", tmp_path / "out")
    assert done.returncode == 4
    assert "population table is not given" in " ".join(done.stdout.split())

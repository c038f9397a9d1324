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
from shoal.attacks.base import NO_CONTROL, Tally, Trials, verdict
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


def test_without_a_control_group_it_says_what_that_means(folder: Path) -> None:
    code, text = run(folder, "out", "--attack", "inference", "--targets", "100")
    assert code == 0
    assert NO_CONTROL in text.replace("\n", " ")
    code, text = run(folder, "out", "--attack", "inference", "--json")
    assert json.loads(text)["notes"] == [NO_CONTROL]
    assert json.loads(text)["attacks"][0]["control"] is None


def test_a_seed_below_0_is_bad_usage(folder: Path) -> None:
    code, text = run(folder, "out", "--seed", "-1")
    assert code == 2
    assert "--seed" in text


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
    assert "downcoding: no class was generalized" in text
    assert NO_CONTROL not in text
    assert "person 1" not in text


def test_what_is_to_know_of_list_changed_is_said_once(folder: Path) -> None:
    roles = {name: dict(entry) for name, entry in POLICY["attributes"].items()}
    roles["age"]["technique"] = {"noise": {"gaussian": {"sd": 2}}}
    roles["name"]["technique"] = {"hash": {"salt": "none", "accept": "dictionary-attacks"}}
    said = {"attributes": roles, "privacy": [], "method": {"plain": {}}, "sample": {"share": 0.5}}
    (folder / "treated.yaml").write_text(yaml.safe_dump(said), encoding="utf-8")
    shoal.anonymize(folder / "people.csv", folder / "treated.yaml", out=folder / "treated", seed=2)
    more = ("--control", str(folder / "control.csv"), "--seed", "1", "--policy", str(folder / "treated.yaml"), "-v")
    code, text = run(folder, "treated", *more)
    assert code == 0
    assert text.count("'age' need not show people's own values") == 1
    assert text.count("all attacks: 'name' was hashed without a salt") == 1
    assert text.count("targets are people whose records are in the sample") == 1
    (folder / "treated" / "internal" / "witness.parquet").unlink()
    code, text = run(folder, "treated", *more)
    assert code == 0
    assert text.count("those whose records are published are at about 2 times the risk") == 1
    assert "person 1" not in text
    (shown, _) = (json.loads(run(folder, "treated", *more, "--json")[1])[key] for key in ("attacks", "refused"))
    assert all(any("without a salt" in note for note in each["notes"]) for each in shown)


def test_all_that_an_adversary_may_have_is_used(folder: Path) -> None:
    code, text = run(
        folder,
        "out",
        *("--other", str(folder / "apart"), "--register", str(folder / "register.csv")),
        *("--policy", str(folder / "policy.yaml"), "--control", str(folder / "control.csv"), "--json"),
        *("--attack", "composition", "--attack", "external", "--attack", "similarity"),
    )
    stated = json.loads(text)
    assert code == 0
    assert [each["name"] for each in stated["attacks"]] == ["composition", "external", "similarity"]
    assert any("400 people of the source are in the register" in note for note in stated["attacks"][1]["notes"])


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


def test_verdicts_are_words() -> None:
    def of(success: int, control: int, **more: bool) -> str:
        return verdict(Trials("x", Tally(success, 1000), Tally(control, 1000), **more))

    assert of(920, 200) == "severe: 90% of the guesses that chance would miss are right"
    assert of(400, 200) == "clear: 25% of the guesses that chance would miss are right"
    assert of(260, 200) == "slight: 7.5% of the guesses that chance would miss are right"
    assert of(0, 0) == "nothing found"
    assert of(210, 200).startswith("inconclusive, at most ")
    assert of(600, 300, decides=True) == "clear: members are recognized, 30% better than by chance"

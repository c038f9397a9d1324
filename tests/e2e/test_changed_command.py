"""The command on tables that are changed, drawn from, or published without a promise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

POLICY = """
attributes:
  name:    {role: identifier, technique: {token: {}}}
  age:     {role: quasi, technique: {coding: {bottom: 25, top: 60}}}
  sex:     {role: quasi}
  disease: {role: sensitive}
privacy: PRIVACY
method: METHOD
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("changed")
    lines = [f"person-{i},{20 + i * 7 % 50},{'FM'[i % 2]},{('flu', 'gout', 'cold')[i % 3]}" for i in range(90)]
    (folder / "people.csv").write_text("\n".join(["name,age,sex,disease", *lines, ""]))
    for name, privacy, method in (("nothing", "[]", "plain"), ("classes", "[{k-anonymity: {k: 4}}]", "mondrian")):
        (folder / f"{name}.yaml").write_text(POLICY.replace("PRIVACY", privacy).replace("METHOD", method))
    return folder


def test_a_release_that_promises_nothing_is_published_and_says_so(shoal: Any, place: Path) -> None:
    done = shoal("anonymize", "people.csv", "-p", "nothing.yaml", "-o", "nothing", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "It promises nothing about people." in done.stdout
    assert "Changed: name (token), age (coding)." in done.stdout
    assert "high no-promise: Nothing is promised" in done.stdout
    public = place / "nothing" / "public"
    assert "promises nothing about people" in (public / "README.md").read_text()
    assert "person-" not in (public / "data.csv").read_text()
    assert shoal("verify", "nothing", "--source", "people.csv", cwd=place).returncode == 0


@pytest.fixture(scope="module")
def classes(shoal: Any, place: Path) -> dict[str, Any]:
    done = shoal("anonymize", "people.csv", "-p", "classes.yaml", "-o", "classes", "--json", cwd=place)
    stated: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0, stated
    return stated


def test_promises_hold_for_changed_values_and_json_tells_what_was_changed(classes: dict[str, Any]) -> None:
    assert classes["techniques"]["name"]["of"] == "identifier"
    age = classes["techniques"]["age"]
    assert (age["technique"], age["bottom"], age["top"]) == ("coding", 25, 60)
    assert classes["guarantees"][0]["achieved"] >= 4


def test_a_link_refuses_and_a_ledger_warns_with_a_reason(shoal: Any, place: Path, classes: dict[str, Any]) -> None:
    assert classes["verified"]
    making = ("anonymize", "people.csv", "-p", "classes.yaml", "-o", "more", "--ledger", "l.db", "--json")
    assert shoal(*making, cwd=place).returncode == 0  # there is nothing yet to link it with
    added = shoal("ledger", "add", "l.db", "classes", "--json", cwd=place)
    values, class_sizes = json.loads(added.stdout)["warnings"]
    assert added.returncode == 0
    assert "cannot be linked: its column 'age' was changed by coding" in values
    assert "cannot be linked: how many people share their classes is not known without a table" in class_sizes
    linked = shoal("link", "classes", "classes", "--json", cwd=place)
    assert (linked.returncode, "was changed by" in linked.stdout) == (2, True)

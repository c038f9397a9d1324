"""``shoal policy check``: what a run would refuse is found without a table, in the same words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

import shoal
from shoal.cli import app
from shoal.core.errors import ShoalError
from shoal.datasets.hospital import hospital_policy
from shoal.policy.policy import Policy

K, L = {"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}
POPULATION = {"k-map": {"k": 3, "population": "people.csv"}}
ATTRIBUTES: dict[str, Any] = {
    "age": {"role": "quasi"},
    "job": {"role": "quasi", "taxonomy": {"tree": {"*": {"inside": ["clerk", "cook"], "outside": ["driver"]}}}},
    "illness": {"role": "sensitive"},
    "cost": {"role": "insensitive"},
}
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"slicing": {}}, K, "k-anonymity would promise"),
    ({"slicing": {"parts": [["age"], ["illness"]]}}, L, "job in no part"),
    ({"slicing": {"columns": 7}}, L, "columns is 7, but 2 quasi attributes"),
    ({"anatomy": {}}, K, "k-anonymity cannot hold"),
    ({"local-suppression": {}}, L, "distinct-l-diversity constrains sensitive values"),
    ({"local-suppression": {"levels": {"job": 5}}}, K, "the taxonomy of 'job' has the levels 0 to 2"),
    ({"incognito": {"levels": {"job": 3}}}, K, "the taxonomy of 'job' has the levels 0 to 2"),
    ({"incognito": {"levels": {"jobb": 1}}}, K, "'jobb' is not a quasi attribute of the policy; did you mean 'job'?"),
    ({"microaggregation": {}}, L | {"distinct-l-diversity": {"l": 1}}, "groups of one record"),
    ({"hilbert": {}}, POPULATION, "cannot serve a model that counts a population"),
    ({"mondrian": {"labels": "ranges"}}, POPULATION, "labels: ranges cannot serve a model that counts a population"),
    ({"mondrian": {}}, {"column-frequency": {"k": 3}}, "column-frequency is about the parts of a sliced table"),
    ({"mondrian": {}}, {"t-closeness": {"t": 0.2, "distance": "hierarchical"}}, "needs a declared taxonomy of"),
    ({"synthetic": {"epsilon": 1}}, {}, "column 'cost' is insensitive"),
    ({"safepub": {"epsilon": 1}}, {}, "column 'cost' is insensitive"),
]


def check(path: Path, policy: dict[str, Any]) -> tuple[int, str]:
    path.write_text(yaml.safe_dump(policy), encoding="utf-8")
    run = CliRunner(env={"COLUMNS": "400"}).invoke(app, ["policy", "check", str(path)])
    return run.exit_code, run.output


@pytest.mark.parametrize(("method", "model", "message"), REFUSED)
def test_a_policy_that_no_run_serves_is_refused(
    tmp_path: Path, method: dict[str, Any], model: dict[str, Any], message: str
) -> None:
    policy = {"attributes": ATTRIBUTES, "privacy": [model] if model else [], "method": method}
    code, said = check(tmp_path / "policy.yaml", policy)
    assert code in (2, 3)
    assert message in said
    with pytest.raises(ShoalError) as caught:  # before the table, which does not exist, is opened
        shoal.anonymize(tmp_path / "absent.csv", policy)
    assert message in str(caught.value)


@pytest.mark.parametrize("method", [{"incognito": {"levels": {"age": 4}}}, {"mondrian": {}}, {"auto": {}}], ids=str)
def test_what_depends_on_the_data_is_left_open(tmp_path: Path, method: dict[str, Any]) -> None:
    """How many levels ages have follows from the table."""
    assert check(tmp_path / "policy.yaml", {"attributes": ATTRIBUTES, "privacy": [K], "method": method})[0] == 0


def test_good_policies_with_items_units_and_techniques_are_accepted(tmp_path: Path) -> None:
    policy = dict(Policy.load(hospital_policy()).document)
    assert check(tmp_path / "policy.yaml", policy)[0] == 0
    bought = {"role": "quasi", "items": {"separator": ";", "columns": 2, "sensitive": ["test"]}}
    attributes = {"bought": bought, "age": {"role": "quasi"}}
    assert check(tmp_path / "policy.yaml", {"attributes": attributes, "privacy": [L]})[0] == 0

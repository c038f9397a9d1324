"""Techniques, samples and methods that promise nothing, as a policy declares them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import shoal
from shoal.columns.keys import new_key
from shoal.core.errors import PolicyError, UnreachableError
from shoal.policy.policy import Policy

AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 120, "widths": [5, 10]}}}
NOISE = {"noise": {"laplace": {"scale": 2}, "edges": "redraw"}}


def document(**changes: Any) -> dict[str, Any]:
    attributes = {
        "patient": {"role": "identifier"},
        "age": AGE,
        "sex": {"role": "quasi"},
        "diagnosis": {"role": "sensitive"},
        "cost": {"role": "insensitive"},
    }
    given = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]} | changes
    return {key: value for key, value in given.items() if value is not ...}


def with_attribute(name: str, options: dict[str, Any], **changes: Any) -> dict[str, Any]:
    given = document(**changes)
    return given | {"attributes": given["attributes"] | {name: options}}


def refused(given: dict[str, Any]) -> str:
    with pytest.raises(PolicyError) as caught:
        Policy.load(given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"role": "quasi", "technique": {"nose": {}}}, "unknown technique 'nose'; did you mean 'noise'"),
        (
            {"role": "quasi", "technique": {"noise": {"laplace": {"scale": 0}}}},
            "technique.noise.laplace.scale: must be",
        ),
        ({"role": "quasi", "technique": {"noise": {}, "rounding": {"base": 5}}}, "a technique is one name"),
        ({"role": "sensitive", "technique": {"token": {}}}, "token is for attributes of role"),
        ({"role": "identifier", "technique": {"rounding": {"base": 5}}}, "not identifier"),
        (AGE | {"technique": {"token": {}}}, "tokens, which have no taxonomy"),
        ({"role": "quasi", "items": {"separator": ";"}, "technique": {"token": {}}}, "items has no technique"),
    ],
    ids=["unknown", "parameter", "two", "sensitive", "identifier", "taxonomy", "items"],
)
def test_a_technique_that_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    message = refused(with_attribute("age", options))
    assert "attributes.age.technique" in message
    assert said in message


def test_only_some_methods_may_promise_nothing() -> None:
    assert "must list at least one model" in refused(document(privacy=[]))
    assert "must list at least one model" in refused(document(privacy=...))
    assert Policy.load(document(privacy=[], method="plain")).privacy == ()
    for privacy in (None, ...):
        assert "say so with privacy: []" in refused(document(privacy=privacy, method="plain"))
    assert len(Policy.load(document(method="plain")).privacy) == 1


@pytest.mark.parametrize("epsilon", [0, -1, float("inf"), float("nan")], ids=str)
def test_a_method_that_makes_no_sense_is_all_that_is_reported(epsilon: float) -> None:
    message = refused(document(privacy=[], method={"synthetic": {"epsilon": epsilon}}))
    assert "method.synthetic.epsilon" in message
    assert "privacy" not in message


def test_a_differentially_private_table_takes_neither_models_nor_changes() -> None:
    method = {"synthetic": {"epsilon": 1}}
    assert Policy.load(document(privacy=[], method=method)).method.name == "synthetic"
    assert "say so with privacy: []" in refused(document(method=method))
    assert "remove sample" in refused(document(privacy=[], method=method, sample={"share": 0.5}))
    rounded = with_attribute("age", AGE | {"technique": {"rounding": {"base": 5}}}, privacy=[], method=method)
    assert "remove the technique of 'age'" in refused(rounded)


def test_populations_and_changed_quasi_values_do_not_go_together() -> None:
    models = [{"k-map": {"k": 2, "population": "people.csv"}}]
    assert "which the technique of 'age' changes" in refused(
        with_attribute("age", AGE | {"technique": NOISE}, privacy=models)
    )


def people(n: int = 60) -> pa.Table:
    return pa.table(
        {
            "patient": [f"person {i}" for i in range(n)],
            "age": [20 + i % 30 for i in range(n)],
            "sex": [("F", "M")[i % 2] for i in range(n)],
            "diagnosis": [("flu", "cold", "gout")[i % 3] for i in range(n)],
            "cost": [100 * i for i in range(n)],
        }
    )


def test_a_person_with_several_records_keeps_pseudonyms_out_of_classes(tmp_path: Any) -> None:
    new_key(tmp_path / "patients.key")
    tokens = {"role": "identifier", "technique": {"pseudonym": {"key": str(tmp_path / "patients.key")}}}
    several = pa.concat_tables([people(), people()])
    with pytest.raises(PolicyError, match="column 'patient'"):
        shoal.anonymize(several, with_attribute("patient", tokens))
    release = shoal.anonymize(several, with_attribute("patient", tokens, method="plain", privacy=[]))
    assert len(set(release.data["patient"].to_pylist())) == 60
    assert release.manifest["techniques"]["patient"]["of"] == "identifier"
    assert str(tmp_path) not in str(release.manifest)


def test_plain_keeps_a_promise_or_refuses_it() -> None:
    table = people(360).drop_columns(["patient"])
    attributes = {name: one for name, one in document()["attributes"].items() if name != "patient"}
    given = document(attributes=attributes, method="plain", privacy=[{"k-anonymity": {"k": 12}}])
    release = shoal.anonymize(table, given)
    assert release.guarantees == [{"model": "k-anonymity", "parameters": {"k": 12}, "achieved": 12.0}]
    assert sorted(map(str, release.data.to_pylist())) == sorted(map(str, table.to_pylist()))
    assert release.data["cost"].to_pylist() != table["cost"].to_pylist()  # the order is not the source's
    with pytest.raises(UnreachableError, match="k-anonymity"):
        shoal.anonymize(table, given | {"privacy": [{"k-anonymity": {"k": 13}}]})

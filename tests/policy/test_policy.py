"""Policies: what is accepted, and what each mistake is told as."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.core.errors import PolicyError
from shoal.core.registry import discover
from shoal.datasets.hospital import hospital_policy
from shoal.datasets.uci import adult_policy
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.policy.policy import Policy, policy_schema
from shoal.taxonomies.builders import TaxonomyBuilder

GOOD: dict[str, Any] = {
    "attributes": {
        "patient": {"role": "identifier"},
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 120, "widths": [5, 10]}}},
        "sex": {"role": "quasi"},
        "illness": {"role": "sensitive"},
        "cost": {"role": "insensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 5}}, {"distinct-l-diversity": {"l": 2}}],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """GOOD with one entry, at a path such as ``attributes/age/role``, replaced or (by ...) removed."""
    document = copy.deepcopy(GOOD)
    *way, last = path.split("/")
    inner: Any = document
    for step in way:
        inner = inner[int(step) if isinstance(inner, list) else step]
    if value is ...:
        del inner[last]
    else:
        inner[int(last) if isinstance(inner, list) else last] = value
    return document


def message(document: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        Policy.load(document)
    return str(caught.value)


def test_a_good_policy() -> None:
    policy = Policy.load(GOOD)
    assert policy.names("quasi") == ("age", "sex")
    assert policy.names("identifier") == ("patient",)
    assert [model.name for model in policy.privacy] == ["k-anonymity", "distinct-l-diversity"]
    assert (policy.method.name, policy.missing, policy.max_withheld) == ("mondrian", "category", 0)
    assert Policy.load(policy) is policy
    assert policy.document == GOOD


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("privcy", [], "privcy: unknown key 'privcy'; did you mean 'privacy'?"),
        ("attributes/age/rol", "quasi", "attributes.age.rol: unknown key 'rol'; did you mean 'role'?"),
        ("attributes/age/role", ..., "attributes.age.role: is required"),
        ("attributes/age/role", "quazi", "attributes.age.role: must be one of"),
        ("attributes/age/role", "quazi", "did you mean 'quasi'?; received 'quazi'"),
        ("attributes/age/weight", 0, "attributes.age.weight: must be more than 0"),
        ("attributes/age/weight", "heavy", "attributes.age.weight: must be a number; received 'heavy'"),
        ("attributes/age", "quasi", "attributes.age: must be a mapping such as {role: quasi}"),
        (
            "attributes/cost/taxonomy",
            {"flat": {}},
            "attributes.cost: an attribute of role insensitive cannot have a taxonomy",
        ),
        ("attributes/age/taxonomy", {"interval": {}}, "unknown taxonomy 'interval'; did you mean 'intervals'?"),
        ("attributes/age/taxonomy", {"intervals": {"min": 0}}, "taxonomy.intervals.max: is required"),
        ("attributes/age/taxonomy", {"intervals": {"min": 5, "max": 1}}, "max 1 must be above min 5"),
        ("attributes/age/taxonomy", {"flat": {}, "mask": {}}, "a taxonomy is one name with its parameters"),
        ("attributes/age/taxonomy/intervals/width", 5, "unknown key 'width'; did you mean 'widths'?"),
        ("attributes", {}, "attributes: must list the columns"),
        ("attributes", ..., "attributes: must list the columns"),
        ("attributes", ["age"], "attributes: must list the columns"),
        ("privacy", ..., "privacy: must list at least one model"),
        ("privacy", [], "privacy: must list at least one model"),
        ("privacy", "k-anonymity", "privacy: must list at least one model"),
        ("privacy/0", {"k-anonimity": {"k": 5}}, "privacy[0]: unknown privacy model 'k-anonimity'; did you mean"),
        ("privacy/0", {"k-anonymity": {}}, "privacy[0].k-anonymity.k: is required"),
        ("privacy/0", "k-anonymity", "privacy[0].k-anonymity.k: is required"),
        ("privacy/0", {"k-anonymity": {"k": 0}}, "privacy[0].k-anonymity.k: must be at least 1; received 0"),
        ("privacy/0", {"k-anonymity": {"k": "many"}}, "must be a whole number; received 'many'"),
        ("privacy/0", {"k-anonymity": {"k": 2.5}}, "must be a whole number; received 2.5"),
        ("privacy/0", {"k-anonymity": {"k": 5, "l": 2}}, "privacy[0].k-anonymity.l: unknown key 'l'"),
        ("privacy/0", {"k-anonymity": 5}, "privacy[0].k-anonymity: must be a mapping of parameters"),
        ("privacy/0", {"k-anonymity": {"k": 5}, "t-closeness": {"t": 0.2}}, "a privacy model is one name"),
        ("privacy/0", {"t-closeness": {"t": 1.5}}, "must be at most 1"),
        ("privacy/0", {"t-closeness": {"t": 0.2, "distance": "equals"}}, "did you mean 'equal'?"),
        ("privacy/1", {"distinct-l-diversity": {"l": 2, "attribute": "ilness"}}, "did you mean 'illness'?"),
        ("privacy/1", {"distinct-l-diversity": {"l": 2, "attribute": "age"}}, "'age' is not a sensitive attribute"),
        ("method", {"mondrain": {}}, "method: unknown method 'mondrain'; did you mean 'mondrian'?"),
        ("method", {"mondrian": {"labels": "loose"}}, "method.mondrian.labels: must be one of 'levels' or 'ranges'"),
        ("method", {"mondrian": {"label": 1}}, "did you mean 'labels'?"),
        ("method", 5, "method: a method is one name with its parameters"),
        ("missing", "ignore", "missing: must be one of 'category' or 'drop'"),
        ("max_withheld", -0.1, "max_withheld: must be at least 0"),
        ("max_withheld", 1, "max_withheld: must be less than 1"),
        ("survey_weight", "cost", "survey_weight: is no longer a key; write attributes: {cost: {role: weight}}"),
        ("attributes/cost", {"role": "weight", "publish": "rounded"}, "rounded to what?"),
        ("attributes/cost", {"role": "weight", "technique": {"rounding": {"base": 5}}}, "publish: rounded"),
        ("attributes/cost", {"role": "insensitive", "publish": "as-is"}, "publish: is for the role weight"),
        ("source", {"delimeter": ";"}, "source.delimeter: unknown key 'delimeter'; did you mean 'delimiter'?"),
        ("source", {"encoding": "klingon"}, "unknown text encoding 'klingon'"),
        ("source", [1], "source: must be a mapping of parameters"),
    ],
)
def test_every_mistake_is_told_with_its_key(path: str, value: Any, expected: str) -> None:
    said = message(changed(path, value))
    assert expected in said
    assert said.startswith("policy, ")


def test_without_quasi_attributes_there_is_nothing_to_do() -> None:
    document = changed("attributes/age/role", "sensitive")
    document["attributes"]["sex"]["role"] = "insensitive"
    assert "no attribute has the role quasi" in message(document)
    document["extra"] = 1
    assert "no attribute has the role quasi" in message(document)


def test_a_model_of_values_needs_a_sensitive_attribute() -> None:
    assert "needs a sensitive attribute, and the policy declares none" in message(
        changed("attributes/illness/role", "insensitive")
    )
    sizes_only = changed("attributes/illness/role", "insensitive")
    sizes_only["privacy"] = [{"k-anonymity": {"k": 3}}]
    assert Policy.load(sizes_only).names("sensitive") == ()


@pytest.mark.parametrize("document", [None, [], "text", 5])
def test_a_policy_is_a_mapping(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(document))
    assert "a policy is a mapping with the keys attributes, privacy" in message(path)


WRITTEN = """\
# what the hospital wants
attributes:
  age: {role: quasi}
  sex:
    role: quasi
    wieght: 2
  illness: {role: sensitive}
privacy:
  - k-anonymity: {k: 5}
  - distinct-l-diversity:
      l: none
"""


def test_lines_of_a_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "hospital.yaml"
    path.write_text(WRITTEN)
    said = message(path).splitlines()
    assert said[0].startswith(
        "hospital.yaml, line 6, attributes.sex.wieght: unknown key 'wieght'; did you mean 'weight'?"
    )
    assert said[1].startswith("hospital.yaml, line 11, privacy[1].distinct-l-diversity.l: must be a whole number")


def test_syntax_errors_and_keys_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("attributes:\n  age: {role: quasi\nprivacy: []\n")
    assert message(path).startswith("p.yaml, line 3: not valid YAML")
    path.write_text("attributes:\n  age: {role: quasi}\n  age: {role: sensitive}\n")
    assert message(path) == "p.yaml, line 3: key 'age' is given twice; the first is on line 2"


def test_relative_paths_start_at_the_policy(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    path = tmp_path / "policies" / "p.yaml"
    path.write_text(yaml.safe_dump(changed("attributes/age/taxonomy", {"file": "trees/age.csv"})))
    taxonomy: Any = Policy.load(path).attributes["age"].taxonomy
    assert taxonomy.path == tmp_path / "policies" / "trees" / "age.csv"
    absolute = changed("attributes/age/taxonomy", {"file": str(tmp_path / "age.csv")})
    path.write_text(yaml.safe_dump(absolute))
    taxonomy = Policy.load(path).attributes["age"].taxonomy
    assert taxonomy.path == tmp_path / "age.csv"


# The schema ----------------------------------------------------------------------------------------


def alternatives(part: dict[str, Any]) -> dict[str, Any]:
    return {name: inner for option in part["oneOf"] for name, inner in option["properties"].items()}


def test_the_schema_names_everything_that_is_discovered() -> None:
    schema = json.loads(json.dumps(policy_schema()))
    parts = schema["properties"]
    assert set(alternatives(parts["privacy"]["items"])) == set(discover("shoal.models", PrivacyModel))
    assert set(alternatives(parts["method"])) == set(discover("shoal.methods", Method))
    attribute = parts["attributes"]["additionalProperties"]
    builders = discover("shoal.taxonomies.builders", TaxonomyBuilder)
    assert set(alternatives(attribute["properties"]["taxonomy"])) == set(builders)
    roles = {"identifier", "quasi", "sensitive", "insensitive", "weight", "drop"}
    assert set(attribute["properties"]["role"]["enum"]) == roles
    assert attribute["required"] == ["role"]
    assert parts["max_withheld"]["exclusiveMaximum"] == 1
    tables = {"missing", "max_withheld", "max_generalized", "unit", "household", "accept", "release", "sample"}
    assert set(parts) == {"attributes", "privacy", "method", "source"} | tables


def test_every_parameter_in_the_schema_is_described() -> None:
    parts = policy_schema()["properties"]
    attribute = parts["attributes"]["additionalProperties"]
    for part in (parts["privacy"]["items"], parts["method"], attribute["properties"]["taxonomy"]):
        for option in part["oneOf"]:
            assert option["description"]
        for name, inner in alternatives(part).items():
            for parameter, described in inner.get("properties", {}).items():
                assert described.get("description"), f"{name}.{parameter}"


def conforms(value: Any, schema: Any) -> bool:
    """Whether a value conforms, for the keywords that the schema of policies uses."""
    if isinstance(schema, bool):
        return schema
    if "anyOf" in schema and not any(conforms(value, inner) for inner in schema["anyOf"]):
        return False
    if "oneOf" in schema and sum(conforms(value, inner) for inner in schema["oneOf"]) != 1:
        return False
    kinds = {
        "object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool,
        "null": type(None),
    }  # fmt: skip
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and (value > schema["exclusiveMinimum"] if "exclusiveMinimum" in schema else True)
        and (value < schema["exclusiveMaximum"] if "exclusiveMaximum" in schema else True)
    ):
        return False
    if isinstance(value, list) and not all(conforms(item, schema.get("items", True)) for item in value):
        return False
    if isinstance(value, dict):
        known = schema.get("properties", {})
        other = schema.get("additionalProperties", True)
        if not set(schema.get("required", [])) <= set(value):
            return False
        return all(conforms(inner, known.get(key, other)) for key, inner in value.items())
    return True


def test_good_policies_conform_and_bad_ones_do_not(shared_data: Path) -> None:
    schema = policy_schema()
    for document in (GOOD, hospital_policy(), adult_policy(folder=shared_data)):
        assert conforms(json.loads(json.dumps(document)), schema)
        Policy.load(document)
    for path, value in (
        ("attributes/age/role", "quazi"),
        ("attributes/age/role", ...),
        ("privacy", ...),
        ("extra", 1),
        ("max_withheld", 1),
        ("privacy/0", {"k-anonymity": {"k": 0}}),
        ("method", {"mondrian": {"labels": "loose"}}),
    ):
        assert not conforms(changed(path, value), schema), path


@pytest.mark.parametrize(
    "entry",
    [{"technique": {"hash": {"salt": "random"}}}, {"taxonomy": {"flat": None}}, {"publish": "as-is"}],
    ids=str,
)
def test_a_dropped_column_has_no_use_for_more(entry: dict[str, Any]) -> None:
    found = message(changed("attributes/patient", {"role": "drop", **entry}))
    assert f"attributes.patient.{next(iter(entry))}: is of no use for a column that is left out" in found

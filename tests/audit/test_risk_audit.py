"""What the audit shows of special uniques, the population, persons and households, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from typer.testing import CliRunner

import shoal
from shoal.audit.audit import audit
from shoal.cli import app
from shoal.core.errors import InputError, PolicyError

RUNNER = CliRunner(env={"COLUMNS": "160"})
ROLES = {
    "patient": "identifier",
    "home": "identifier",
    "age": "quasi",
    "town": "quasi",
    "job": "quasi",
    "illness": "sensitive",
}
POLICY = {
    "attributes": {name: {"role": role} for name, role in ROLES.items()},
    "privacy": [{"k-anonymity": {"k": 2}}],
}
UNITS = {"unit": "patient", "household": "home"}


def visits(n: int = 300) -> pa.Table:
    """People with several visits, all with the same values: counted by records, they seem to hide one another."""
    rng = np.random.default_rng(5)
    who = rng.integers(0, n // 3, n)
    age, town, job = (rng.integers(0, size, n // 3) for size in (40, 12, 6))
    return pa.table(
        {
            "patient": [f"Patient-{one}" for one in who],
            "home": [f"Home-{one // 3}" for one in who],
            "age": [f"Age-{age[one]}" for one in who],
            "town": [f"Town-{town[one]}" for one in who],
            "job": [f"Job-{job[one]}" for one in who],
            "illness": [f"Illness-{one}" for one in rng.integers(0, 4, n)],
        }
    )


@pytest.fixture
def files(tmp_path):
    csv.write_csv(visits(), tmp_path / "visits.csv")
    (tmp_path / "policy.yaml").write_text(json.dumps(POLICY | UNITS))
    return ["audit", str(tmp_path / "visits.csv"), "-p", str(tmp_path / "policy.yaml")]


def test_json_has_the_same_and_no_value(files):
    result = RUNNER.invoke(app, [*files, "--sample-fraction", "0.2", "--json"])
    answer = json.loads(result.stdout)
    assert answer["k"] == answer["persons"]["k"] == 1
    assert answer["persons"]["unit"] == "patient"
    assert answer["households"]["column"] == "home"
    assert answer["population_uniqueness"]["sample_fraction"] == 0.2
    special = answer["special_uniques"]
    assert set(special["contributions"]) == {"age", "town", "job"}
    assert sum(one["score_share"] for one in special["sets"]) == pytest.approx(1)
    by_size = sum(special["records_by_smallest_set"].values()) + special["records_of_larger_sets"]
    assert by_size == special["unique_records"]
    assert 0 < special["disclosure"]["dis"] <= special["disclosure"]["dis_suda_highest"] <= 1
    for value in ("Patient-", "Home-", "Age-", "Town-", "Job-", "Illness-"):
        assert value not in result.stdout


def test_records_hide_what_persons_show():
    by_records, by_persons = audit(visits(), POLICY), audit(visits(), POLICY | UNITS)
    assert by_persons.persons.unseen_classes > 0
    assert by_persons.special.unique_records > by_records.special.unique_records
    assert by_persons.prosecutor.mean > by_records.prosecutor.mean
    assert by_persons.models[0].records_missed > by_records.models[0].records_missed
    assert by_persons.headline.startswith(f"{by_persons.persons.lone_persons} of {by_persons.persons.persons} people")
    assert by_records.persons is by_records.households is by_records.uniqueness is None
    assert by_records.special.disclosure is None


def test_models_that_count_records_are_told():
    privacy = [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}, {"t-closeness": {"t": 0.5}}]
    diverse = POLICY | {"privacy": privacy}
    assert not audit(visits(), diverse).warnings
    (warning,) = audit(visits(), diverse | UNITS).warnings
    assert warning.startswith("t-closeness count records, not people")
    people = visits()
    nobody = pa.array([None, *people["patient"].to_pylist()[1:]])
    people = people.set_column(people.schema.get_field_index("patient"), "patient", nobody)
    (warning,) = audit(people, diverse | UNITS).warnings
    assert warning.startswith("distinct-l-diversity, t-closeness count records, not people")


@pytest.mark.parametrize("key", ["unit", "household"])
def test_only_identifiers_name_persons_and_households(key):
    with pytest.raises(PolicyError, match=rf"{key}: 'age' is not an identifier"):
        shoal.Policy.load(POLICY | {key: "age"})
    with pytest.raises(PolicyError, match="did you mean 'patient'"):
        shoal.Policy.load(POLICY | {key: "patiens"})


@pytest.mark.parametrize(("key", "column"), UNITS.items())
def test_columns_that_name_nobody_are_refused(key, column):
    people = visits()
    empty = pa.nulls(people.num_rows, pa.string())
    people = people.set_column(people.schema.get_field_index(column), column, empty)
    with pytest.raises(InputError, match=f"column '{column}' names no"):
        audit(people, POLICY | {key: column})

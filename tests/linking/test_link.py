"""What linking refuses, and the edges of what it reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.core.errors import InputError, UsageError
from shoal.linking.linking import link, worst_case_l
from shoal.release.release import Release

ATTRIBUTES: dict[str, Any] = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10]}}},
    "sex": {"role": "quasi"},
    "illness": {"role": "sensitive"},
}


def rows(n: int = 60, **more: Any) -> pa.Table:
    rng = np.random.default_rng(3)
    return pa.table(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(["flu", "gout", "ulcer"], n),
            **more,
        }
    )


def release(table: pa.Table, attributes: dict[str, Any] = ATTRIBUTES, **more: Any) -> Release:
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 4}}], "method": {"mondrian": {}}, **more}
    return shoal.anonymize(table.select(list(attributes)), policy, seed=1)


@pytest.fixture(scope="module")
def twice() -> list[Release]:
    return [release(rows()), release(rows(50))]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"sx": "F"}, "not a quasi attribute of the releases; did you mean 'sex'"),
        ({"illness": "flu"}, "not a quasi attribute"),
        ({"age": "old"}, "'age' cannot be read as a number"),
        ({"age": "-5"}, "covers the target"),
        ({"sex": "X"}, "covers the target"),
        ({}, "name at least one"),
    ],
)
def test_bad_targets_are_refused_without_their_values(
    twice: list[Release], target: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        link(twice, target)
    assert not any(len(value) > 1 and value in str(raised.value) for value in target.values())


def test_several_common_sensitive_attributes_must_be_chosen_from() -> None:
    attributes = {**ATTRIBUTES, "wage": {"role": "sensitive"}}
    table = rows(60, wage=["low", "high", "mid"] * 20)
    both = [release(table, attributes), release(table, attributes)]
    with pytest.raises(UsageError, match="'illness', 'wage'; choose"):
        link(both)
    assert link(both, sensitive="wage").values == 3
    with pytest.raises(UsageError, match="did you mean 'wage'"):
        link(both, sensitive="wages")


def test_kinds_that_do_not_go_together_are_refused() -> None:
    masked = {**ATTRIBUTES, "age": {"role": "quasi", "taxonomy": {"mask": {"length": 2}}}}
    with pytest.raises(InputError, match="of kind 'number' in one release and of kind 'prefix'"):
        link([release(rows()), release(rows(), masked)])


def test_an_attribute_that_is_insensitive_elsewhere_finds_the_person_there() -> None:
    table = rows()
    open_sex = {**ATTRIBUTES, "sex": {"role": "insensitive"}}
    found = link([release(table), release(table, open_sex)], {"sex": "F"})
    women = table.filter(pa.compute.equal(table["sex"], "F"))["illness"].value_counts().to_pylist()
    assert found.alone[1].counts == {each["values"]: each["counts"] for each in women}


def test_missing_values_are_values_of_their_own() -> None:
    table = rows()
    illness = pa.array([None if place % 3 == 0 else text for place, text in enumerate(table["illness"].to_pylist())])
    sex = pa.array([None if place % 5 == 0 else text for place, text in enumerate(table["sex"].to_pylist())])
    table = table.set_column(2, "illness", illness).set_column(1, "sex", sex)
    both = [release(table, missing="category"), release(table, missing="category")]
    found = link(both, {"sex": ""})
    assert "(missing)" in found.remaining.counts
    assert link(both, population=table).people_linked == 60


def test_sensitive_values_that_differ_leave_nobody() -> None:
    other = rows().set_column(2, "illness", pa.array(["cough", "rash", "burn"] * 20))
    with pytest.raises(InputError, match="about the same people"):
        link([release(rows()), release(other)])
    assert link([release(rows()), release(other)], {"sex": "F"}).remaining.as_dict() == {
        "remaining": {},
        "l": 0,
        "frequency_l": 0.0,
        "entropy_l": 0.0,
    }


def test_spoiled_releases_are_refused(twice: list[Release], tmp_path: Path) -> None:
    policy = {"attributes": ATTRIBUTES, "privacy": [{"k-anonymity": {"k": 4}}], "method": {"mondrian": {}}}
    shoal.anonymize(rows(), policy, out=tmp_path / "out", seed=1)
    manifest = tmp_path / "out" / "public" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["attributes"]["age"]["labels"].popitem()
    manifest.write_text(json.dumps(content))
    with pytest.raises(InputError, match="'age' has texts that its manifest does not explain"):
        link([twice[0], tmp_path / "out"])
    manifest.write_text("[]")
    with pytest.raises(InputError, match="not the manifest"):
        link([twice[0], tmp_path / "out"])
    with pytest.raises(UsageError, match="--policy"):
        link([twice[0], tmp_path])


def test_a_population_without_the_attributes_is_refused(twice: list[Release]) -> None:
    with pytest.raises(UsageError, match="lacks all of the releases' quasi attributes"):
        link(twice, population=pa.table({"height": [1]}))


@pytest.mark.parametrize(("n_values", "ls"), [(0, [1]), (3, []), (3, [4]), (3, [0, 2])])
def test_bounds_refuse_what_cannot_be(n_values: int, ls: list[int]) -> None:
    with pytest.raises(UsageError):
        worst_case_l(n_values, ls)


def test_worst_cases_name_classes_and_no_persons(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a sliced release the values of a combination may be one person's; which values remain is told of nobody."""
    from shoal.cli.link import show

    policy = {
        "attributes": {"age": {"role": "quasi"}, "sex": {"role": "quasi"}, "illness": {"role": "sensitive"}},
        "privacy": [{"simple-l-diversity": {"l": 2}}],
    }
    people = pa.table(
        {
            "age": [21, 22, 33, 34, 45, 46, 57, 58],
            "sex": list("FMFMFMFM"),
            "illness": ["flu", "gout", "mumps", "angina", "flu", "gout", "mumps", "angina"],
        }
    )
    generalized = shoal.anonymize(people, {**policy, "method": {"mondrian": {}}}, seed=1)
    sliced = shoal.anonymize(people, {**policy, "method": {"anatomy": {}}}, seed=1)
    found = link([generalized, sliced])
    assert found.worst
    for case in found.as_dict()["worst"]:
        assert case["classes"][0]
        assert case["classes"][1] == {}
        assert "remaining" not in case
    show(found)
    stated = capsys.readouterr().out
    assert "sliced, without classes" in stated
    assert not any(value in stated for value in ("flu", "gout", "mumps", "angina"))

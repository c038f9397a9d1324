"""Attribute partition of the complete rows of Adult: correlations and columns that were computed independently."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.core.progress import Silent
from shoal.datasets.uci import ADULT_COLUMNS, ADULT_QUASI, adult
from shoal.engines.local import LocalEngine
from shoal.methods.slicing.attributes import correlations, partition_attributes
from shoal.plan.problem import Problem
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source


def occupations(shared_data: Path, quasi: tuple[str, ...]) -> Problem:
    roles = {name: {"role": "quasi"} for name in quasi} | {"occupation": {"role": "sensitive"}}
    policy = Policy.load({"attributes": roles, "privacy": [{"k-anonymity": {"k": 2}}]})
    table = adult(folder=shared_data, columns=list(roles))
    assert table.num_rows == 45_222
    return encode(LocalEngine().count(open_source(table), ("occupation", *quasi), Silent()), policy).problem


@pytest.fixture(scope="module")
def seven(shared_data: Path) -> Problem:
    return occupations(shared_data, ADULT_QUASI)


@pytest.fixture(scope="module")
def fifteen(shared_data: Path) -> Problem:
    return occupations(shared_data, tuple(name for name in ADULT_COLUMNS if name != "occupation"))


def with_occupation(problem: Problem) -> dict[str, float]:
    found = correlations(problem)[-1, :-1]
    return {attribute.name: round(float(value), 3) for attribute, value in zip(problem.quasi, found, strict=True)}


def named(problem: Problem, places: tuple[tuple[int, ...], ...]) -> list[set[str]]:
    names = [attribute.name for attribute in (*problem.quasi, *problem.sensitive)]
    return [{names[place] for place in group} for group in places]


def test_correlations_with_occupation(seven: Problem) -> None:
    found = with_occupation(seven)
    assert found["sex"] == 0.190
    assert found["workclass"] == 0.047
    assert found["education"] == 0.039
    assert found["marital-status"] == 0.017
    assert max(found["age"], found["race"]) < 0.017


def test_correlations_of_all_attributes_with_occupation(fifteen: Problem) -> None:
    found = with_occupation(fifteen)
    assert sorted(found, key=found.__getitem__)[-2:] == ["salary-class", "sex"]
    assert (found["sex"], found["salary-class"]) == (0.190, 0.120)


def test_five_columns_of_seven_attributes(seven: Problem) -> None:
    columns = partition_attributes(seven, 5, None)
    singles = [{"age"}, {"workclass"}, {"education"}, {"race"}]
    assert named(seven, columns.places) == [*singles, {"marital-status", "sex", "occupation"}]


def test_two_attributes_in_the_sensitive_column(seven: Problem) -> None:
    """The setting of the paper's experiments: c = 2, alpha = 2."""
    columns = partition_attributes(seven, 2, 2)
    assert named(seven, columns.places) == [set(ADULT_QUASI) - {"sex"}, {"sex", "occupation"}]


def test_names_of_one_thing_share_a_column(fifteen: Problem) -> None:
    """education-num numbers education, and with sixteen intervals or more nothing of that is lost."""
    names = [attribute.name for attribute in fifteen.quasi]
    columns = partition_attributes(fifteen, 5, 3)
    pair = names.index("education"), names.index("education-num")
    assert correlations(fifteen, 20)[pair] == 1.0
    assert named(fifteen, columns.places)[-1] == {"sex", "salary-class", "occupation"}
    assert any({"education", "education-num"} <= group for group in named(fifteen, columns.places))

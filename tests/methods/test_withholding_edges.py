"""Labels beside withheld records end where the taxonomy has an edge, never at the outermost value that stays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import shoal

AGES = [23, 24, 25, 31, 33, 34, 41, 42, 43]
DECLARED = {"intervals": {"min": 0, "max": 119, "widths": [10, 20, 40]}}


def withheld(ages: list[int], taxonomy: dict[str, Any] | None) -> tuple[list[str], int]:
    age = {"role": "quasi"} if taxonomy is None else {"role": "quasi", "taxonomy": taxonomy}
    policy = {"attributes": {"age": age}, "privacy": [{"k-anonymity": {"k": 3}}], "max_withheld": 0.1}
    release = shoal.anonymize(pa.table({"age": ages}), policy)
    return sorted(set(release.data["age"].to_pylist())), release.manifest["withheld"]


@pytest.mark.parametrize(
    ("ages", "labels"),
    [
        ([*AGES, 110], ["[20, 29]", "[30, 39]", "[40, 49]"]),
        ([age + 60 for age in [*AGES, -58]], ["[100, 109]", "[80, 89]", "[90, 99]"]),
    ],
)
def test_the_end_is_an_edge_of_a_declared_group(ages: list[int], labels: list[str]) -> None:
    assert withheld(ages, DECLARED) == (labels, 1)


def test_an_outlier_within_the_group_of_others_stays() -> None:
    assert withheld([*AGES[:-1], 40, 49], DECLARED)[1] == 0


def test_round_groups_serve_where_none_are_declared() -> None:
    assert withheld([*AGES, 110], None) == (["<= 29", "[30, 34]", "[40, 44]"], 1)


def test_missing_values_can_be_withheld() -> None:
    ages = pa.array([*AGES, None])
    policy = {
        "attributes": {"age": {"role": "quasi", "taxonomy": DECLARED}},
        "privacy": [{"k-anonymity": {"k": 3}}],
        "max_withheld": 0.1,
    }
    release = shoal.anonymize(pa.table({"age": ages}), policy)
    assert release.manifest["withheld"] == 1
    assert not any("missing" in label or label == "*" for label in release.data["age"].to_pylist())

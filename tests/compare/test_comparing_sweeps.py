"""Sweeps and methods of a comparison: rows, their names, and what is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.compare.result import Candidate
from shoal.compare.sweeps import MOST_ROWS, list_rows, read_methods, read_sweep
from shoal.core.errors import PolicyError, UsageError
from shoal.policy.policy import Policy

POLICY: dict[str, Any] = {
    "attributes": {"age": {"role": "quasi"}, "town": {"role": "quasi"}, "illness": {"role": "sensitive"}},
    "privacy": [{"k-anonymity": {"k": 3}}, {"t-closeness": {"t": 0.3, "distance": "equal"}}],
}


def rows(*policies: dict[str, Any], sweep: Any = None, methods: Any = None) -> list[Candidate]:
    given = policies or (POLICY,)
    names = [f"{letter}.yaml" for letter in "abcdef"[: len(given)]]
    return list_rows(names, [Policy.load(each) for each in given], read_sweep(sweep), read_methods(methods))


def names(*policies: dict[str, Any], **asked: Any) -> list[str]:
    return [each.row.name for each in rows(*policies, **asked)]


def test_a_sweep_has_a_row_for_each_value() -> None:
    found = rows(sweep="k-anonymity.k=2,5,10")
    assert [each.row.name for each in found] == ["mondrian, k=2", "mondrian, k=5", "mondrian, k=10"]
    assert [each.policy.privacy[0].k for each in found if each.policy] == [2, 5, 10]
    assert [each.policy.privacy[1].t for each in found if each.policy] == [0.3] * 3
    assert found[1].row.changes == {
        "privacy": [{"k-anonymity": {"k": 5}}, {"t-closeness": {"t": 0.3, "distance": "equal"}}]
    }
    assert found[1].row.settings == {"k-anonymity.k": 5}
    assert found[1].row.policy == "a.yaml"


def test_changes_put_into_the_policy_are_the_policy_of_the_row() -> None:
    for each in rows(sweep=["k-anonymity.k=2,5", "max_withheld=0,0.05"], methods="mondrian{labels: ranges},slicing"):
        again = Policy.load({**POLICY, **each.row.changes})
        assert each.policy is not None
        assert (again.privacy, again.method, again.max_withheld) == (
            *(each.policy.privacy, each.policy.method),
            each.policy.max_withheld,
        )


def test_sweeps_are_crossed_and_named_shortly() -> None:
    found = names(sweep=["k-anonymity.k=2,5", "max_withheld=0,0.05"])
    assert found == [
        "mondrian, k=2, max_withheld=0",
        "mondrian, k=2, max_withheld=0.05",
        "mondrian, k=5, max_withheld=0",
        "mondrian, k=5, max_withheld=0.05",
    ]


def test_values_are_yaml_and_mappings_do_as_well() -> None:
    typed = read_sweep(["slicing.parts=[[age, illness], [town]],[[age]]", "missing=drop"])
    assert typed[0].values == ([["age", "illness"], ["town"]], [["age"]])
    assert read_sweep({"k-anonymity.k": [2, 5]}) == read_sweep("k-anonymity.k=2,5")
    assert read_methods(["mondrian", {"incognito": {"measure": "um"}}]) == read_methods(
        "mondrian, {incognito: {measure: um}}"
    )


def test_a_method_that_the_policy_cannot_have_is_one_row_with_the_reason() -> None:
    (made, *_), (refused,) = (
        rows(sweep="k-anonymity.k=2,5"),
        rows(sweep="k-anonymity.k=2,5", methods="synthetic{epsilon: 1}"),
    )
    assert made.policy is not None
    assert refused.policy is None
    assert "synthetic promises nothing about classes" in str(refused.row.reason)


@pytest.mark.parametrize(
    ("asked", "stated"),
    [
        ({"sweep": "k-anonimity.k=2"}, "did you mean 'k-anonymity'"),
        ({"sweep": "k-anonymity.kk=2"}, "did you mean 'k-anonymity.k'"),
        ({"sweep": "k=2,5"}, "did you mean 'k-anonymity.k'"),
        ({"sweep": "max_witheld=0"}, "did you mean 'max_withheld'"),
        ({"sweep": "l-diversity.l=2"}, "no policy or method here has 'l-diversity'"),
        ({"sweep": "incognito.measure=um"}, "no policy or method here has 'incognito'"),
        ({"sweep": "k-anonymity.k"}, "names no parameter and its values"),
        ({"sweep": "k-anonymity.k="}, "has no list of values"),
        ({"sweep": "=2"}, "names no parameter"),
        ({"sweep": "k-anonymity.k=[2"}, "not valid YAML"),
        ({"sweep": ["k-anonymity.k=2", "k-anonymity.k=5"]}, "given twice"),
        ({"sweep": {"k-anonymity.k": 5}}, "no list of values"),
        ({"methods": "mondrain"}, "did you mean 'mondrian'"),
        ({"methods": "incognito{mesure: um}"}, "did you mean 'measure'"),
        ({"methods": "incognito{measure: umm}"}, "incognito.measure: must be one of"),
        ({"methods": "incognito{measure"}, "write methods as"),
        ({"methods": ""}, "at least one method"),
        ({"sweep": {"k-anonymity.k": range(2, MOST_ROWS + 3)}}, "at most 100 can be compared"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_what_cannot_be_swept_is_refused(asked: dict[str, Any], stated: str) -> None:
    with pytest.raises(UsageError, match=stated.replace("[", r"\[")):
        rows(**asked)


@pytest.mark.parametrize(
    ("sweep", "stated"),
    [
        ("k-anonymity.k=5,0", r"k=0: privacy\[0\].k-anonymity.k: must be at least 1; received 0"),
        ("k-anonymity.k=x", "k=x: .*must be a whole number"),
        ("max_withheld=0,2", "max_withheld=2: max_withheld: must be less than 1"),
        ("mondrian.labels=level", "must be one of 'levels' or 'ranges'"),
    ],
    ids=["small", "text", "share", "choice"],
)
def test_values_are_checked_as_a_policy_is(sweep: str, stated: str) -> None:
    with pytest.raises(PolicyError, match=stated):
        rows(sweep=sweep)

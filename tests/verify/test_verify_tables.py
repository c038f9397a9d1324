"""Releases in memory: several sensitive attributes, populations, generalized values, missing values, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.errors import InputError
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table


def flat(*values: str) -> dict[str, Any]:
    return {"role": "quasi", "kind": "category", "labels": {v: {"values": [v]} for v in values}}


SENSITIVE = {"role": "sensitive", "kind": "category"}


def manifest(attributes: dict[str, Any], rows: int, *promises: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "shoal_version": "0",
        "method": "sweep",
        "method_parameters": {},
        "guarantees": [{"model": m, "parameters": p, "achieved": a} for m, p, a in promises],
        "parts": [list(attributes)],
        "rows": rows,
        "withheld": 0,
        "missing": {"policy": "category", "tokens": [""], "dropped": 0},
        "attributes": attributes,
        **more,
    }


def failed(verification: Verification) -> set[str]:
    names = {check.name for check in verification.checks if not check.ok}
    return names | {promise.model for promise in verification.guarantees if not promise.ok}


TWO = {"q": flat("x", "y"), "s": SENSITIVE, "u": SENSITIVE}
TWO_ROWS = pa.table({"q": ["x"] * 4 + ["y"] * 4, "s": list("aabbaabb"), "u": list("ccddcdcd")})


@pytest.mark.parametrize(
    ("named", "achieved"), [(None, 2.0), ("s", 2.0), (["s"], 2.0), (["s", "u"], 2.0), (["u", "s"], 2.0)]
)
def test_several_sensitive_attributes(named, achieved):
    promise = ("distinct-l-diversity", {"l": 2, "attribute": named}, achieved)
    assert failed(verify_table(TWO_ROWS, manifest(TWO, 8, promise))) == set()


def test_joint_values_tell_more_than_each_attribute():
    """In class y all four pairs of values occur, in class x only two of them."""
    promise = ("simple-l-diversity", {"l": 2, "attribute": ["s", "u"]}, 2.0)
    assert verify_table(TWO_ROWS, manifest(TWO, 8, promise)).verified
    only_y = TWO_ROWS.slice(4)
    attributes = {**TWO, "q": flat("y")}
    promise = ("simple-l-diversity", {"l": 4, "attribute": ["s", "u"]}, 4.0)
    assert verify_table(only_y, manifest(attributes, 4, promise)).verified


def test_missing_sensitive_values_are_a_value_of_their_own():
    table = pa.table({"q": ["x", "x"], "s": ["a", None]})
    promise = ("distinct-l-diversity", {"l": 2}, 2.0)
    assert verify_table(table, manifest({"q": flat("x"), "s": SENSITIVE}, 2, promise)).verified


# Populations -----------------------------------------------------------------------------------------------

AGES = {
    "age": {
        "role": "quasi",
        "kind": "number",
        "labels": {"[0, 9]": {"from": 0, "below": 10}, "[5, 19]": {"from": 5, "below": 20}},
    }
}
AGE_ROWS = pa.table({"age": ["[0, 9]", "[0, 9]", "[5, 19]"]})
PEOPLE = pa.table({"age": [1, 2, 3, 6, 7, 12], "name": list("abcdef")})


@pytest.mark.parametrize(
    ("model", "parameters", "achieved", "ok"),
    [
        ("k-map", {"k": 3}, 3.0, True),
        ("k-map", {"k": 4}, 3.0, False),
        ("delta-presence", {"min": 0, "max": 0.4}, 0.4, True),
        ("delta-presence", {"min": 0, "max": 0.3999999999999}, 0.4, False),
        ("delta-presence", {"min": 0.3333333333333333, "max": 0.4}, 0.4, True),
        ("delta-presence", {"min": 0.34, "max": 0.4}, 0.4, False),
    ],
)
def test_populations(model, parameters, achieved, ok):
    """Five people are in [0, 9], three in [5, 19]; two of them in both."""
    promise = (model, {**parameters, "population": "people.csv"}, achieved)
    given = {"people.csv": open_source(PEOPLE)}
    verification = verify_table(AGE_ROWS, manifest(AGES, 3, promise), populations=given)
    assert verification.guarantees[0].achieved == pytest.approx(achieved)
    assert verification.verified is ok


def test_population_rows_outside_all_classes_break_a_positive_minimum():
    promise = ("delta-presence", {"min": 0.1, "max": 1, "population": "p"}, 0.4)
    more = pa.concat_tables([PEOPLE, pa.table({"age": [77], "name": ["g"]})])
    assert verify_table(AGE_ROWS, manifest(AGES, 3, promise), populations={"p": open_source(PEOPLE)}).verified
    assert not verify_table(AGE_ROWS, manifest(AGES, 3, promise), populations={"p": open_source(more)}).verified


def test_population_that_is_not_given_or_not_the_declared_one():
    promise = ("k-map", {"k": 3, "population": "p"}, 3.0)
    verification = verify_table(AGE_ROWS, manifest(AGES, 3, promise))
    assert verification.verdict == "incomplete"
    assert "not given" in verification.guarantees[0].detail
    people = open_source(PEOPLE)
    stated = manifest(AGES, 3, promise, populations={"p": {"sha256": people.digest()}})
    assert verify_table(AGE_ROWS, stated, populations={"p": people}).verified
    stated["populations"]["p"]["sha256"] = "0" * 64
    assert failed(verify_table(AGE_ROWS, stated, populations={"p": people})) == {"population"}
    with pytest.raises(InputError, match="lacks 1 column"):
        verify_table(AGE_ROWS, stated, populations={"p": open_source(PEOPLE.select(["name"]))})


# Generalized sensitive values ------------------------------------------------------------------------------

ILLNESS = {
    "role": "sensitive",
    "kind": "category",
    "order": ["hepatitis", "anemia", "phthisis", "flu"],
    "labels": {
        "hemal disease": {"values": ["hepatitis", "anemia"]},
        "hepatitis": {"values": ["hepatitis"]},
        "phthisis": {"values": ["phthisis"]},
        "flu": {"values": ["flu"]},
    },
}
ILL_ROWS = pa.table({"q": ["x"] * 4, "s": ["hepatitis", "hemal disease", "phthisis", "flu"]})


def test_induced_frequencies():
    """One hemal disease is half a hepatitis and half an anemia: F = 3/8, 5/8, 7/8, 1."""
    attributes = {"q": flat("x"), "s": ILLNESS}
    # (F(2) - 1/2) / (1 - 1/2) = 1/4 is less than F(1) = 3/8
    promise = ("tau-l-diversity", {"tau": 0.375, "l": 3}, 0.375)
    assert verify_table(ILL_ROWS, manifest(attributes, 4, promise)).verified
    weights = {"hepatitis": 1, "anemia": 0, "phthisis": 1, "flu": 1}
    promise = ("tau-l-diversity", {"tau": 0.5, "l": 3, "weights": weights}, 0.5)
    assert verify_table(ILL_ROWS, manifest(attributes, 4, promise)).verified
    # 5/8 is above 0.6 and below 0.7; 1 - (1 - 5/8) / ((1 - 0.7) / (1 - 0.5)) = 3/8, as much as F(1)
    promise = ("tau-l-diversity", {"tau": 0.5, "l": 3, "psi": [0.5, 0.6, 1]}, 0.53125)
    assert "1 of 1 classes" in verify_table(ILL_ROWS, manifest(attributes, 4, promise)).guarantees[0].detail
    promise = ("tau-l-diversity", {"tau": 0.5, "l": 3, "psi": [0.5, 0.7, 1]}, 0.375)
    assert verify_table(ILL_ROWS, manifest(attributes, 4, promise)).verified


@pytest.mark.parametrize(
    ("second", "wrong"), [("anemia", set()), ("hepatitis", {"values"}), ("flu", {"truth", "values"})]
)
def test_generalized_sensitive_values_cover_their_source(second, wrong):
    source = pa.table({"q": ["x"] * 4, "s": ["flu", second, "hepatitis", "phthisis"]})
    promise = ("tau-l-diversity", {"tau": 0.375, "l": 3}, 0.375)
    stated = manifest({"q": flat("x"), "s": ILLNESS}, 4, promise)
    witness = np.array([4, 1, 2, 3])  # 1 + the place of the sensitive label
    verification = verify_table(ILL_ROWS, stated, source=open_source(source), witness=witness)
    assert failed(verification) == wrong


# Missing values and kinds of source ------------------------------------------------------------------------


def test_dropped_rows_are_those_with_missing_quasi_or_sensitive_values():
    attributes = {"q": flat("x"), "s": SENSITIVE, "i": {"role": "insensitive", "kind": "number"}}
    table = pa.table({"q": ["x", "x"], "s": ["a", "b"], "i": [1, None]})
    source = pa.table({"q": ["x", None, "x", "?", "x"], "s": ["a", "a", "b", "a", None], "i": [1, 2, None, 4, 5]})
    missing = {"policy": "drop", "tokens": ["?"], "dropped": 3}
    stated = manifest(attributes, 2, ("k-anonymity", {"k": 2}, 2.0), missing=missing)
    assert failed(verify_table(table, stated, source=open_source(source))) == set()
    missing["dropped"] = 2
    assert failed(verify_table(table, stated, source=open_source(source))) == {"source counts"}


def test_taxonomy_that_lacks_a_value_cannot_be_used():
    sensitive = {**SENSITIVE, "taxonomy": {"*": {"a": {}}}}
    table = pa.table({"q": ["x", "x"], "s": ["a", "b"]})
    promise = ("t-closeness", {"t": 1, "distance": "hierarchical"}, 0.0)
    verification = verify_table(table, manifest({"q": flat("x"), "s": sensitive}, 2, promise))
    assert "taxonomy" in verification.guarantees[0].detail
    assert verification.verdict == "failed"


def test_thirty_quasi_attributes_with_more_combinations_than_64_bits():
    names = [f"q{i}" for i in range(30)]
    values = [str(v) for v in range(12)]
    table = pa.table({**dict.fromkeys(names, values * 2), "s": ["a"] * 12 + ["b"] * 12})
    attributes: dict[str, Any] = {name: flat(*values) for name in names}
    attributes["s"] = SENSITIVE
    stated = manifest(attributes, 24, ("k-anonymity", {"k": 2}, 2.0), ("distinct-l-diversity", {"l": 2}, 2.0))
    assert failed(verify_table(table, stated, source=open_source(table))) == set()


def test_a_release_without_rows_is_refused_in_words() -> None:
    stated = manifest({"q": flat("x")}, 0, ("k-anonymity", {"k": 2}, 2.0))
    assert "rows" in failed(verify_table(pa.table({"q": pa.array([], pa.string())}), stated))

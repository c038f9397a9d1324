"""Releases whose manifest declares less than was done, or more: what the source shows to be false is refused."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

N = 300
Columns = dict[str, list[Any]]


@cache
def people() -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "age": rng.integers(20, 60, N) * 2,
            "ward": rng.choice(["ABCDEFGHIJKLMNOP", "QRSTUVWXYZ234567", "AAAABBBBCCCCDDDD"], N),
            "zip": rng.choice([1234, 1299, 70123], N),
            "wage": rng.integers(1000, 3000, N),
            "illness": rng.choice(["flu", "cold", "gout"], N),
        }
    )


@cache
def released(method: str, column: str, technique: str, **parameters: Any) -> shoal.Release:
    techniques: dict[str, dict[str, Any]] = {
        "nothing": {},
        "token": {"token": {"length": 16}},
        "hash": {"hash": {}},
        "permutation": {"permutation": {}},
    }
    attributes: dict[str, Any] = {
        "age": {"role": "quasi"},
        "ward": {"role": "quasi"},
        "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5}}},
        "wage": {"role": "insensitive"},
        "illness": {"role": "sensitive"},
    }
    if techniques[technique]:
        attributes[column]["technique"] = techniques[technique]
    promises = [] if method == "plain" else [{"k-anonymity": {"k": 3}}]
    policy = {"attributes": attributes, "method": {method: parameters}, "privacy": promises}
    return shoal.anonymize(people(), policy, seed=3)


def verified(release: shoal.Release, spoil: Callable[[Columns, dict[str, Any]], None]) -> Verification:
    columns, manifest = release.data.to_pydict(), copy.deepcopy(dict(release.manifest))
    spoil(columns, manifest)
    return verify_table(pa.table(columns), manifest, source=open_source(people()))


def faults(answer: Verification) -> str:
    assert answer.verdict == "failed"
    return " ".join(answer.failures)


def exchanged(column: str, change: Callable[[Any], Any]) -> Callable[[Columns, dict[str, Any]], None]:
    """Return a spoiling that changes each value of a column, and labels of it, to what they were made of."""

    def spoil(columns: Columns, manifest: dict[str, Any]) -> None:
        columns[column] = [change(value) for value in columns[column]]
        entry = manifest["attributes"][column]
        if "labels" in entry:
            entry["labels"] = {
                change(label): {key: [change(value) for value in values] for key, values in cover.items()}
                for label, cover in entry["labels"].items()
            }

    return spoil


def test_codes_of_whole_numbers_are_categories_of_their_full_length() -> None:
    release = released("microaggregation", "zip", "nothing")
    assert set(release.data["zip"].to_pylist()) <= {"01234", "01299", "70123"}
    assert verify_table(release.data, release.manifest, source=open_source(people())).failures == ()
    answer = verified(release, exchanged("zip", lambda text: text.replace("01234", "01235")))
    assert "zip has values that no source row has" in faults(answer)


def test_zero_without_a_sign_is_a_category_of_the_source() -> None:
    table = pa.table({"level": pa.array([-0.0, -0.0, 1.5] * 20), "illness": ["flu", "cold"] * 30})
    attributes = {"level": {"role": "quasi", "taxonomy": {"flat": ["0", "1.5"]}}, "illness": {"role": "sensitive"}}
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 3}}], "method": "microaggregation"}
    assert shoal.anonymize(table, policy).verification.verified


def test_medians_are_numbers_of_the_source() -> None:
    release = released("microaggregation", "age", "nothing", numbers="median", decimals=0)
    assert release.verification.verified
    answer = verified(release, exchanged("age", lambda age: age - 1 if age == 80 else age))
    assert "age has values that no source row has" in faults(answer)


@pytest.mark.parametrize("numbers", ["mean", "median"])
def test_averages_of_permuted_numbers_are_those_of_the_source(numbers: str) -> None:
    release = released("microaggregation", "age", "permutation", numbers=numbers)
    assert release.verification.verified
    assert "age has" in faults(verified(release, exchanged("age", lambda age: age + 1.1)))


@pytest.mark.parametrize("method", ["plain", "mondrian", "microaggregation"])
def test_values_that_look_like_tokens_are_found_in_the_source(method: str) -> None:
    release = released(method, "ward", "token")
    wards = sorted(set(people()["ward"].to_pylist()))
    tokens = sorted(set(release.data["ward"].to_pylist()))
    shown = dict(zip(tokens, wards, strict=False))
    assert all(len(token) == 16 for token in tokens)
    assert "in place of tokens" in faults(verified(release, exchanged("ward", lambda token: shown.get(token, token))))


@pytest.mark.parametrize("method", ["mondrian", "microaggregation"])
def test_tokens_of_another_form_are_no_tokens(method: str) -> None:
    answer = verified(released(method, "ward", "token"), exchanged("ward", str.lower))
    assert "not of the declared form" in faults(answer)


@pytest.mark.parametrize("method", ["plain", "mondrian", "microaggregation"])
@pytest.mark.parametrize("with_source", [False, True])
def test_values_said_to_mean_missing_are_no_tokens(method: str, with_source: bool) -> None:
    release = released(method, "ward", "token")
    columns, manifest = release.data.to_pydict(), copy.deepcopy(dict(release.manifest))
    wards = [ward.lower() for ward in sorted(set(people()["ward"].to_pylist()))]
    shown = dict(zip(sorted(set(columns["ward"])), wards, strict=False))
    exchanged("ward", lambda token: shown.get(token, token))(columns, manifest)
    manifest["missing"]["tokens"] = wards
    source = open_source(people()) if with_source else None
    answer = verify_table(pa.table(columns), manifest, source=source)
    assert "not of the declared form" in faults(answer)


def test_there_are_no_more_tokens_than_values() -> None:
    release = released("microaggregation", "ward", "token")
    ages = sorted(set(release.data["age"].to_pylist()))

    def spoil(columns: Columns, _: dict[str, Any]) -> None:
        columns["ward"] = ["ABCDEFGHIJKLMNO" + chr(ord("A") + ages.index(age) % 26) for age in columns["age"]]

    assert "more tokens than the source has values" in faults(verified(release, spoil))


@pytest.mark.parametrize("method", ["plain", "mondrian", "microaggregation"])
def test_bare_hashes_are_not_taken_for_salted_ones(method: str) -> None:
    release = released(method, "ward", "hash")
    wards = sorted(set(people()["ward"].to_pylist()))
    bare = [hashlib.sha256(ward.encode()).hexdigest() for ward in wards]
    shown = dict(zip(sorted(set(release.data["ward"].to_pylist())), bare, strict=False))
    assert "bare hashes" in faults(verified(release, exchanged("ward", lambda token: shown.get(token, token))))

"""What the verifier demands of manifests of treated, sampled, plain, averaged and synthetic releases."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from tests import tables

import shoal
from shoal.core.errors import InputError
from shoal.manifest import Account
from shoal.sources.opening import open_source
from shoal.verify.account import check_account
from shoal.verify.engine import Engine
from shoal.verify.result import Check, Verification
from shoal.verify.techniques.base import Column
from shoal.verify.techniques.declared import Pseudonym
from shoal.verify.verifier import verify_table

N = 60


@cache
def people() -> pa.Table:
    return tables.people(N, 3, "name age sex illness")


ATTRIBUTES: dict[str, Any] = {
    "name": {"role": "identifier", "technique": {"token": {}}},
    "age": {
        "role": "quasi",
        "taxonomy": {"intervals": {"min": 0, "max": 100, "widths": [10, 50]}},
        "technique": {"noise": {"laplace": {"scale": 2}, "edges": "clamp"}},
    },
    "sex": {"role": "quasi", "taxonomy": {"flat": {"values": ["f", "m"]}}},
    "illness": {"role": "sensitive", "taxonomy": {"flat": {"values": ["angina", "flu", "gout", "mumps"]}}},
}


@cache
def plain() -> shoal.Release:
    return shoal.anonymize(people(), {"attributes": ATTRIBUTES, "method": "plain", "privacy": []}, seed=1)


@cache
def classes() -> shoal.Release:
    privacy = [{"k-anonymity": {"k": 2}}]
    return shoal.anonymize(people(), {"attributes": ATTRIBUTES, "method": "mondrian", "privacy": privacy}, seed=1)


@cache
def synthetic(delta: float = 0.0) -> shoal.Release:
    pytest.importorskip("opendp")
    attributes = {name: {k: v for k, v in one.items() if k != "technique"} for name, one in ATTRIBUTES.items()}
    method = {"synthetic": {"epsilon": 20, "delta": delta, "rows": 200, "tree": [["age", "sex"]]}}
    return shoal.anonymize(people(), {"attributes": attributes, "method": method, "privacy": []})


def refusal(release: shoal.Release, changes: dict[str, Any], without: str | None = None) -> str:
    """Return what is said of a manifest with some entries, given by their paths, changed or taken away."""
    manifest = json.loads(json.dumps(dict(release.manifest)))
    for path, value in changes.items():
        *above, last = path.split("/")
        entry = manifest
        for key in above:
            entry = entry[int(key)] if isinstance(entry, list) else entry.setdefault(key, {})
        if value is ...:
            del entry[last]
        else:
            entry[last] = value
    if without is not None:
        del manifest[without]
    answer = verify_table(release.data, manifest)
    assert answer.verdict == "failed"
    (failure,) = [check for check in answer.checks if not check.ok]
    assert failure.name in ("manifest", "account")
    return failure.detail


NOISE = "techniques/age"
MATRIX = {"stratum": [], "values": ["1", "2"], "matrix": [[0.9, 0.1], [0.1, 0.9]]}
PRAM: dict[str, Any] = {"technique": "pram", "keep": 0.8, "invariant": False, "strata": [], "applied": [MATRIX]}
AREAS: dict[str, Any] = {
    "technique": "record-swapping",
    "hierarchy": ["sex", "age"],
    "within": [],
    "risk": [],
    "household": True,
    "share": 0.05,
    "swapped": 0.05,
    "k": 3,
}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"techniques/nobody": {"technique": "token", "length": 26}}, "not an attribute"),
    ({f"{NOISE}/technique": "magic"}, "is unknown to this verifier"),
    ({f"{NOISE}/technique": ...}, "does not name the technique"),
    ({f"{NOISE}/secret": 1}, "1 unexpected key"),
    ({f"{NOISE}/differential_privacy": True}, "differential_privacy should be False"),
    ({f"{NOISE}/decimals": 10}, "less than or equal to 9"),
    ({f"{NOISE}/decimals": True}, "should be a valid integer"),
    ({f"{NOISE}/laplace": {"scale": 0.5}}, "less than a step"),
    ({f"{NOISE}/laplace": {"scale": 1e300}}, "less than a step"),
    ({f"{NOISE}/laplace": {"scale": 3, "mean": 4}}, "1 unexpected key"),
    ({f"{NOISE}/gaussian": {"sd": 3}}, "not one of laplace and gaussian"),
    ({f"{NOISE}/edges": "bounce"}, "'clamp', 'reflect' or 'redraw'"),
    ({f"{NOISE}/edges": ...}, "what happens there"),
    ({f"{NOISE}/min": 100}, "not below the last"),
    ({f"{NOISE}/min": 0.5}, "not a number of 0 decimals"),
    ({f"{NOISE}/min": "0"}, "should be a valid number"),
    ({NOISE: {"technique": "rounding", "base": 0, "random": False}}, "greater than 0"),
    ({NOISE: {"technique": "rounding", "base": 1e-11, "random": False}}, "more than 9 decimals"),
    ({NOISE: {"technique": "rounding", "base": 5, "random": 1}}, "should be a valid boolean"),
    ({NOISE: {"technique": "rounding", "base": 5, "random": False, "min": 1, "max": 4}}, "no multiple"),
    ({NOISE: {"technique": "coding", "decimals": 0, "edges_from_data": False}}, "no edges"),
    (
        {NOISE: {"technique": "coding", "decimals": 0, "top": 1, "bottom": 1, "edges_from_data": False}},
        "not below the last",
    ),
    ({NOISE: {"technique": "coding", "decimals": 0, "top": 1, "edges_from_data": True}}, "do not fit"),
    (
        {NOISE: {"technique": "coding", "decimals": 0, "top": 1, "edges_from_data": True, "shares": {"top": 1}}},
        "shares.top should be less than 1",
    ),
    ({NOISE: {"technique": "swapping", "share": 0, "within": []}}, "greater than 0"),
    ({NOISE: {"technique": "permutation", "within": ["age"]}}, "the column itself"),
    ({NOISE: {"technique": "token", "length": 15}}, "greater than or equal to 16"),
    ({"techniques/illness": {"technique": "token", "length": 26}}, "no sensitive attribute"),
    ({"techniques/name/of": "person"}, "should be 'identifier'"),
    ({"techniques/sex": {"technique": "token", "length": 26, "of": "identifier"}}, "not an insensitive category"),
    ({f"{NOISE}/of": "identifier"}, "1 unexpected key"),
    (
        {"techniques/name": {"technique": "pseudonym", "reversible": True, "domain": "d", "length": 26}},
        "must have a length",
    ),
    ({"techniques/name": {"technique": "hash", "salt": "little"}}, "should be 'random' or 'none'"),
    ({"techniques/name": {"technique": "hash", "salt": "none", "accept": "dictionary-attacks"}}, "1 unexpected key"),
    ({NOISE: PRAM | {"strata": ["age"]}}, "the column itself"),
    ({NOISE: PRAM | {"strata": ["sex"]}}, "not one matrix of every stratum"),
    ({NOISE: PRAM | {"applied": []}}, "not one matrix of every stratum"),
    ({NOISE: PRAM | {"keep": 0.9}}, "the stated probability"),
    ({NOISE: PRAM | {"applied": [MATRIX | {"values": ["1"]}]}}, "no square matrix"),
    ({NOISE: PRAM | {"applied": [MATRIX | {"values": ["1", "1"]}]}}, "no square matrix"),
    ({NOISE: PRAM | {"applied": [MATRIX | {"matrix": [[0.9, 0.1], [0.1, 0.8]]}]}}, "do not add up to 1"),
    ({NOISE: PRAM | {"applied": [MATRIX | {"matrix": [[1.1, -0.1], [0.1, 0.9]]}]}}, "between 0 and 1"),
    ({NOISE: PRAM | {"secret": 1}}, "1 unexpected key"),
    ({NOISE: AREAS | {"hierarchy": ["sex"]}}, "without the column"),
    ({NOISE: AREAS | {"within": ["sex"]}}, "names a column twice"),
    ({NOISE: AREAS | {"k": 1}}, "greater than or equal to 2"),
    ({"sample": {"share": 1}}, "less than 1"),
    ({"sample": {"share": 0}}, "greater than 0"),
    ({"sample": {"share": 0.5, "seed": 3}}, "1 unexpected key"),
    ({"sample": None}, "has a null"),
    (
        {"claims": [{"model": "differential-privacy", "parameters": {"epsilon": 1, "delta": 0}}]},
        "contradicts the account",
    ),
    ({"claims": [{"model": "trust", "parameters": {}}]}, "is not a claim of this verifier"),
    ({"synthetic": {}}, "synthetic lacks epsilon"),
    ({"levels": {"age": 1, "sex": 0}}, "which only classes have"),
    ({"attributes/sex/labels": {"f": {"values": ["f"]}}}, "does not have"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[str(place) for place in range(len(WRONG))])
def test_manifests_are_read_strictly(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(plain(), changes)


def test_who_may_promise_nothing() -> None:
    assert plain().verification.verified
    assert not plain().verification.guarantees
    fine = (Check("rows", True, "60 rows"),)
    assert not Verification(fine, ()).verified
    assert Verification(fine, (), may_promise_nothing=True).verified
    assert not Verification((), (), may_promise_nothing=True).verified
    assert "promises nothing" in refusal(classes(), {"guarantees": []})
    assert "has no labels" in refusal(classes(), {"attributes/sex/labels": ...})
    assert "promises nothing" in refusal(plain(), {"form": "averages"})


def test_averages_are_declared() -> None:
    promise = [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1}]
    for parameters, said in (
        ({}, "lacks numbers, decimals"),
        ({"numbers": "mode", "decimals": 0}, "should be 'mean' or 'median'"),
        ({"numbers": "mean", "decimals": 0.5}, "should be a valid integer"),
    ):
        changes = {"form": "averages", "guarantees": promise, "method_parameters": parameters}
        assert said in refusal(plain(), changes)


EPSILON = ("synthetic/epsilon", "claims/0/parameters/epsilon", "method_parameters/epsilon")
ACCOUNT: list[tuple[dict[str, Any], str]] = [
    ({"synthetic/ledger/0/loss": 1e-3}, "cost more than the ledger says"),
    ({"synthetic/ledger/0/scale": 1e-3}, "cost more than the ledger says"),
    ({"synthetic/ledger/0/loss": 30}, "more than is stated as spent"),
    ({"synthetic/ledger/0/loss": -1}, "greater than 0"),
    ({"synthetic/ledger/0/purpose": "counts of names"}, "does not name each"),
    ({"synthetic/ledger/1/purpose": "counts of age"}, "does not name each"),
    ({"synthetic/marginals": [], "method_parameters/tree": []}, "does not name each"),
    ({"synthetic/marginals": [["age", "sex"], ["sex", "age"]]}, "names a marginal twice"),
    ({"synthetic/marginals": [["age"]]}, "two or more different"),
    ({"synthetic/marginals": [["age", "sex", "age"]]}, "two or more different"),
    ({"synthetic/marginals": [["age", "wage"]]}, "not an attribute of the release"),
    ({"synthetic/neighbours": "tables with one more record"}, "neighbours"),
    (dict.fromkeys(EPSILON, 1), "adds up to more than"),
    (dict.fromkeys(EPSILON[:2], 1), "another epsilon or delta than method_parameters"),
    ({"method_parameters/epsilon": 1}, "another epsilon or delta than method_parameters"),
    ({"method_parameters/delta": 0.01}, "another epsilon or delta than method_parameters"),
    ({"method_parameters/tree": []}, "not the pairs of method_parameters.tree"),
    ({"synthetic/epsilon": 0}, "greater than 0"),
    ({"synthetic/delta": 1}, "less than 1"),
    ({"synthetic/spent/left": 1}, "1 unexpected key"),
    ({"claims/0/parameters/epsilon": 1}, "contradicts the account"),
    ({"claims": []}, "exactly the claim"),
    ({"withheld": 1}, "left out"),
    ({"missing/dropped": 1}, "the policy is not 'drop'"),
    ({"missing/dropped": 1, "missing/policy": "drop"}, "left out"),
    ({"techniques": {}}, "tables of people"),
    ({"sample": {"share": 0.5}}, "tables of people"),
    ({"guarantees": [{"model": "k-anonymity", "parameters": {"k": 1}, "achieved": 1}]}, "properties of classes"),
    ({"attributes/sex/labels": ...}, "has no labels"),
]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize(("changes", "said"), ACCOUNT, ids=[str(place) for place in range(len(ACCOUNT))])
def test_accounts_must_add_up(changes: dict[str, Any], said: str, delta: float) -> None:
    assert said in refusal(synthetic(delta), changes)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_synthetic_tables_are_claimed_not_promised(delta: float) -> None:
    answer = synthetic(delta).verification
    assert answer.verified
    assert answer.guarantees == ()
    (claim,) = answer.as_dict()["claims"]
    assert claim["model"] == "differential-privacy"
    assert claim["parameters"] == {"epsilon": 20.0, "delta": delta}
    assert claim["checkable"] is False
    assert "cannot be checked" in claim["detail"]
    # Its rows are compared with nobody, not even with a source that has nothing in common with it.
    elsewhere = open_source(pa.table({"colour": ["red"]}))
    assert verify_table(synthetic(delta).data, synthetic(delta).manifest, source=elsewhere).verified


def test_concentrated_losses_are_turned_into_epsilon_by_the_verifier() -> None:
    less = (*EPSILON, "synthetic/spent/epsilon")
    assert "add up to more than epsilon and delta allow" in refusal(synthetic(1e-6), dict.fromkeys(less, 15.0))
    assert "stated as spent" in refusal(synthetic(1e-6), {"synthetic/spent/rho": 0.01})


def account_of(epsilon: float, marginals: tuple[tuple[str, ...], ...], ledger: list[tuple[str, float]]) -> Account:
    return Account(
        epsilon=epsilon,
        delta=0.0,
        neighbours="tables that differ by one record, added or removed",
        spent={"epsilon": epsilon, "delta": 0.0},
        marginals=marginals,
        ledger=[{"purpose": purpose, "scale": 10.0, "loss": loss} for purpose, loss in ledger],
    )


def test_a_choice_costs_twice_what_counts_do() -> None:
    counts = [(f"counts of {name}", 0.1) for name in ("a", "b", "a and b")]
    for loss, fine in ((0.2, True), (0.19, False)):
        account = account_of(1.0, (("a", "b"),), [*counts, ("choice 1", loss)])
        assert check_account(account, ("a", "b"), tree_given=False).ok is fine


@pytest.mark.parametrize("again", [(), ("a",), ("a and b",), ("a and b and c", "a and b")])
def test_every_table_of_counts_beyond_single_columns_was_chosen(again: tuple[str, ...]) -> None:
    counts = [(f"counts of {name}", 0.1) for name in ("a", "b", "c", "a and b", "a and b and c", *again)]
    choices = [(f"choice {turn}", 0.2) for turn in range(1, 6)]
    for n_choices in range(6):
        account = account_of(9.0, (("a", "b"), ("a", "b", "c")), [*counts, *choices[:n_choices]])
        assert check_account(account, ("a", "b", "c"), tree_given=False).ok is (n_choices == 2 + len(again))
        assert check_account(account, ("a", "b", "c"), tree_given=True).ok is (n_choices == 0 and not again)


def test_a_marginal_must_have_been_counted_and_what_was_counted_must_be_one() -> None:
    counts = [(f"counts of {name}", 0.1) for name in ("a", "b", "c", "a and b")]
    for marginals in ((("a", "c"),), (("a", "b"), ("a", "c")), ()):
        account = account_of(9.0, marginals, [*counts, ("choice 1", 0.2)])
        assert not check_account(account, ("a", "b", "c"), tree_given=False).ok


def test_a_synthetic_label_must_be_declared() -> None:
    columns = synthetic().data.to_pydict()
    columns["sex"][0] = "n17"
    answer = verify_table(pa.table(columns), synthetic().manifest)
    assert [check.name for check in answer.checks if not check.ok] == ["labels"]


def test_dropped_uses_of_the_budget_are_missed() -> None:
    manifest = copy.deepcopy(dict(synthetic().manifest))
    manifest["synthetic"]["ledger"] = manifest["synthetic"]["ledger"][:-1]
    answer = verify_table(synthetic().data, manifest)
    assert [check.name for check in answer.checks if not check.ok] == ["account"]


def test_sources_that_do_not_fit_are_named() -> None:
    lacking = open_source(people().drop_columns(["age"]))
    with pytest.raises(InputError, match="lacks 1 column of the release: age"):
        verify_table(plain().data, plain().manifest, source=lacking)
    attributes = ATTRIBUTES | {"age": {"role": "insensitive", "technique": {"rounding": {"base": 5}}}}
    rounded = shoal.anonymize(people(), {"attributes": attributes, "method": "plain", "privacy": []})
    words = people().set_column(1, "age", pa.array(["old"] * N))
    with pytest.raises(InputError, match="'age' of the source has values that are not numbers"):
        verify_table(rounded.data, rounded.manifest, source=open_source(words))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 31, 32, 47, 63, 64, 79, 80, 95, 96, 200])
def test_reversible_tokens_of_values_of_any_length_have_the_form(length: int, tmp_path) -> None:
    pytest.importorskip("cryptography")
    from shoal.columns.keys import seal_tokens

    tokens = seal_tokens(bytes(range(32)), "name")(["a" * length])
    declared = Pseudonym(column="name", technique="pseudonym", reversible=True, domain="name", of="identifier")
    cut = pa.array([tokens[0].as_py()[:-1]])
    with Engine() as engine:
        for given, fine in ((tokens, True), (cut, False)):
            engine.put("given", {"v": given})
            fault = Column.count(engine, "tokens", "given").find_fault(*declared.list_rules())
            assert (fault is None) == fine

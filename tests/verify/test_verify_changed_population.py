"""A population's promises are not confirmed where quasi values were changed, even if all figures fit."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.sources.opening import open_source
from shoal.verify.verifier import verify_table

PEOPLE = pa.table({"age": [20, 20, 30, 30, 30, 40, 40]})  # which rounding leaves as they are


@pytest.mark.parametrize("changed", [False, True])
def test_populations_have_no_values_of_changed_attributes(changed: bool) -> None:
    age = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 119, "widths": [40]}}}
    age |= {"technique": {"rounding": {"base": 10}}} if changed else {}
    made = shoal.anonymize(PEOPLE, {"attributes": {"age": age}, "privacy": [{"k-anonymity": {"k": 2}}]}, seed=1)
    (reached,) = made.guarantees
    more = {"model": "k-map", "parameters": {"k": 2, "population": "people"}, "achieved": reached["achieved"]}
    manifest = {**made.manifest, "guarantees": [reached, more]}
    found = verify_table(made.data, manifest, populations={"people": open_source(PEOPLE)})
    assert found.verified is not changed
    assert [("changed attributes" in promise.detail) for promise in found.guarantees] == [False, changed]

"""Masking: made-up values have a public form, follow from no value, and stand for nobody."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from tests import releases

import shoal
from shoal.attacks.linkability import of_one_person
from shoal.columns.base import read_traces, treat
from shoal.columns.masking import Masking
from shoal.core.fictional import GIVEN_NAMES
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

N = 6000
FORMS = {
    "name": r"[A-Z][a-z]+ [A-Z][a-z]+",
    "email": r"[a-z]+\.[a-z]+\d\d@example\.org",
    "phone": r"\+1 [2-9]\d\d-555-01\d\d",
    "number": r"[1-9]\d{7}",
}


def masked(kind: str, values: list[Any]) -> list[Any]:
    table = pa.table({"name": values})
    source = treat({"name": Masking(kind=kind)}, open_source(table, SourceOptions()), Chance.of(None))  # type: ignore[arg-type]
    return pa.Table.from_batches(source.batches())["name"].to_pylist()


@pytest.mark.parametrize("kind", FORMS)
def test_values_have_their_form_and_missing_ones_stay_missing(kind: str) -> None:
    found = masked(kind, ["Ann", None] * (N // 2))
    assert found[1::2] == [None] * (N // 2)
    assert all(re.fullmatch(FORMS[kind], value) for value in found[::2])


def test_names_are_drawn_evenly_and_without_regard_to_the_value() -> None:
    """Of 6,000 draws of one in 29, a count is farther than 7 deviations off less than once in 10**9 runs."""
    counts = Counter(value.split()[0] for value in masked("name", ["Ann"] * N))
    expected = N / len(GIVEN_NAMES)
    assert set(counts) == set(GIVEN_NAMES)
    assert all(abs(count - expected) < 7 * expected**0.5 for count in counts.values())


def test_made_up_names_tell_nothing_of_who_has_several_records() -> None:
    """A person's token must not be there twice under a promise; a made-up name may, and nobody takes it for one's."""
    people = pa.table({"name": ["Ann", "Bob"] * 1000, "age": [40, 50] * 1000})
    attributes = {"name": {"role": "identifier", "technique": {"masking": {"kind": "name"}}}, "age": {"role": "quasi"}}
    policy: dict[str, Any] = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 3}}]}
    release = shoal.anonymize(people, policy)
    assert len(set(release.data["name"].to_pylist())) > 100
    assert "of" not in release.manifest["techniques"]["name"]
    assert read_traces(release.manifest["techniques"])["name"].hidden
    assert of_one_person(releases.view(release.data, release.manifest)) == 0

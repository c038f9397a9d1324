"""Spoiled levels and figures of a full-domain release: what the manifest says of itself must be possible."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
import pytest

import shoal
from shoal.verify.verifier import verify_table

PEOPLE = pa.table(
    {
        "age": [21, 22, 23, 24, 41, 42, 43, 44] * 2,
        "town": ["Ulm", "Ulm", "Bonn", "Bonn", "Köln", "Köln", "Aachen", "Aachen"] * 2,
        "illness": ["flu", "cold"] * 8,
    }
)
TOWNS = {"*": {"south": ["Ulm"], "west": ["Bonn", "Köln", "Aachen"]}}
POLICY: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10, 20]}}},
        "town": {"role": "quasi", "taxonomy": {"tree": TOWNS}},
        "illness": {"role": "sensitive"},
    },
    "privacy": [{"k-anonymity": {"k": 8}}],
}


@pytest.fixture(scope="module")
def release() -> Any:
    return shoal.anonymize(PEOPLE, POLICY | {"method": {"incognito": {}}}, seed=1)


def verdict(release: Any, **changes: Any) -> tuple[bool, str]:
    manifest = copy.deepcopy(dict(release.manifest)) | changes
    found = verify_table(release.data, manifest)
    return found.verified, "; ".join(found.failures)


def test_an_honest_release_is_accepted(release: Any) -> None:
    assert set(release.manifest["levels"]) == {"age", "town"}
    assert verdict(release) == (True, "")


def test_levels_that_leave_out_or_invent_an_attribute_are_refused(release: Any) -> None:
    levels = dict(release.manifest["levels"])
    for wrong in ({"age": levels["age"]}, levels | {"illness": 0}, levels | {"all": 0}, levels | {"age": -1}):
        verified, failures = verdict(release, levels=wrong)
        assert not verified
        assert "levels" in failures


def test_level_0_with_a_label_of_several_values_is_refused(release: Any) -> None:
    assert release.manifest["levels"]["town"] > 0
    verified, failures = verdict(release, levels=release.manifest["levels"] | {"town": 0})
    assert not verified
    assert "town is at level 0" in failures


def test_levels_of_a_release_whose_labels_overlap_are_refused() -> None:
    mixed = PEOPLE.slice(0, 7)  # the last class takes from several towns
    document = POLICY | {"privacy": [{"k-anonymity": {"k": 2}}], "method": {"sweep": {}}}
    swept = shoal.anonymize(mixed, document, seed=1)
    labels = swept.manifest["attributes"]["age"]["labels"]
    assert len(labels) > 1
    verified, failures = verdict(swept, levels={"age": 1, "town": 1}, method="incognito")
    assert not verified
    assert "overlap" in failures

"""Every single field of manifests of all kinds of releases is changed, removed or added to: none goes unnoticed.

With ``internal/`` there, the digest of the manifest tells every change. Without it and without the source, what is
listed in DECLARED is all that nothing contradicts.
"""

from __future__ import annotations

import copy
import fnmatch
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests import tables

import shoal
from shoal.verify.verifier import verify

AGE = {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 99, "widths": [10, 50]}}}
ATTRIBUTES: dict[str, Any] = {
    "age": {**AGE, "description": "in years"},
    "zip": {"role": "quasi", "taxonomy": {"mask": {"length": 5, "alphabet": "digits"}}},
    "day": {"role": "quasi", "taxonomy": {"dates": {"min": "2024-01-01", "max": "2024-12-31"}}},
    "town": {"role": "quasi", "taxonomy": {"groups": {"north": ["Bonn", "Celle"], "south": ["Trier", "Ulm"]}}},
    "illness": {"role": "sensitive", "taxonomy": {"groups": {"germs": ["flu", "mumps"], "joints": ["gout", "angina"]}}},
    "cost": {"role": "insensitive"},
}
KINDS: dict[str, dict[str, Any]] = {
    "mondrian": {"privacy": [{"k-anonymity": {"k": 3}}], "method": {"mondrian": {}}},
    "incognito": {"privacy": [{"k-anonymity": {"k": 3}}], "method": {"incognito": {}}},
    "sweep": {"privacy": [{"tau-l-diversity": {"tau": 0.5, "l": 2}}], "method": {"sweep": {}}},
    "slicing": {"privacy": [{"distinct-l-diversity": {"l": 2}}], "method": {"slicing": {"columns": 2}}},
    "plain": {"privacy": [], "method": {"plain": {}}, "technique": {"rounding": {"base": 5}}},
    "averages": {"privacy": [{"k-anonymity": {"k": 3}}], "method": {"microaggregation": {}}},
}
REPEATED = ("incognito",)  # manifests of the same form as those of mondrian
# Without internal/ and without the source: what a manifest declares and nothing in public/ contradicts.
DECLARED = (
    "shoal_version",
    "method",
    "form",  # left out, which means classes
    "method_parameters*",
    "guarantees",  # one more than is there
    "guarantees.0.parameters.k",  # as far as the classes keep it
    "guarantees.0.achieved",  # of sliced releases, where only the source tells
    "levels*",
    "withheld",
    "missing.tokens*",
    "attributes.*.description",
    "attributes.illness.defended",
    "attributes.zip.length",
    "attributes.*.labels.*.values*",  # of groups, whose names the policy gave
    "techniques*",
    "readme",  # left out
)


def people(n: int = 60) -> pa.Table:
    return tables.people(n, 4, "age zip day town illness cost")


def changes(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield where, and what stands there instead: another number or text, an entry less, an entry more."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        where = (*path, str(key))
        for place, changed in changes(child, where):
            copied = copy.copy(value)
            copied[key] = changed
            yield place, copied
        fewer = (
            {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else value[:key] + value[key + 1 :]
        )
        yield where, fewer
    if isinstance(value, dict):
        yield path, {**value, "new": 1}
    elif isinstance(value, list):
        yield path, [*value, *(value[:1] or ["new"])]
    elif isinstance(value, bool) or value is None:
        yield path, not value
    elif isinstance(value, int | float):
        yield path, value + 1
    else:
        yield path, value + "0"


@pytest.fixture(
    scope="module",
    params=[pytest.param(kind, marks=pytest.mark.thorough if kind in REPEATED else ()) for kind in KINDS],
)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    asked = copy.deepcopy(KINDS[request.param])
    attributes = copy.deepcopy(ATTRIBUTES)
    technique = asked.pop("technique", None)
    if technique is not None:
        attributes["cost"]["technique"] = technique
    folder = tmp_path_factory.mktemp("changed") / request.param
    shoal.anonymize(people(), {"attributes": attributes, **asked}, out=folder, format="csv", seed=1)
    return folder


def test_every_change_is_refused(release: Path, tmp_path: Path) -> None:
    """The digest in internal/ is enough; what else is noticed, the next test tells."""
    folder = tmp_path / "out"
    shutil.copytree(release, folder)
    path = folder / "public" / "manifest.json"
    manifest = json.loads(path.read_text())
    tried = 0
    for where, changed in changes(manifest):
        path.write_text(json.dumps(changed))
        answer = verify(folder)
        assert not answer.verified, where
        tried += 1
    assert tried > 100


def test_what_goes_unnoticed_in_public_files_alone_is_listed(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(release / "public", folder / "public")
    path = folder / "public" / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest))
    assert verify(folder).verified
    unnoticed = set()
    for where, changed in changes(manifest):
        path.write_text(json.dumps(changed))
        if verify(folder).verified:
            unnoticed.add(".".join(where))
    assert [where for where in sorted(unnoticed) if not any(fnmatch.fnmatch(where, one) for one in DECLARED)] == []

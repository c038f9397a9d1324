"""Values that many labels list are written once: the written manifest is small, and no less is checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.manifest import pack_labels, unpack_labels
from shoal.release.release import find_release

TOWNS = [f"t{number:03}" for number in range(120)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(2)
    rows = pa.table({"town": rng.choice(TOWNS, 400), "age": rng.integers(20, 60, 400)})
    town = {"role": "quasi", "taxonomy": {"flat": {"values": TOWNS}}}
    policy = {
        "attributes": {"town": town, "age": {"role": "quasi"}},
        "privacy": [{"k-anonymity": {"k": 3}}],
        "method": {"hilbert": {"labels": "ranges"}},
    }
    out = tmp_path_factory.mktemp("packed") / "out"
    shoal.anonymize(rows, policy, out=out, seed=1)
    return out


def written(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "public" / "manifest.json").read_text(encoding="utf-8"))


def test_labels_have_places_among_the_values_of_the_column(folder: Path) -> None:
    entry = written(folder)["attributes"]["town"]
    assert set(entry["values"]) <= set(TOWNS)
    assert any(isinstance(cover, list) for cover in entry["labels"].values())
    assert "values" not in written(folder)["attributes"]["age"]
    found = find_release(folder)
    assert found is not None
    covers = found[1].attributes["town"].covers
    for label, cover in entry["labels"].items():
        if isinstance(cover, list):
            runs = zip(cover[::2], cover[1::2], strict=True)
            assert covers[label] == {"values": [v for start, end in runs for v in entry["values"][start:end]]}
    listed = sum(len(cover.get("values", ())) for cover in covers.values())
    assert listed > 4 * len(entry["values"])
    assert pack_labels(unpack_labels(written(folder))) == written(folder)


def test_the_verifier_reads_them_and_refuses_other_places(folder: Path) -> None:
    path = folder / "public" / "manifest.json"
    before = path.read_text(encoding="utf-8")
    assert shoal.verify(folder).verified
    try:
        for change in (lambda ends: [ends[0], ends[1] - 1], lambda ends: [ends[0], 10**6], lambda ends: ends[:1]):
            changed = written(folder)
            labels = changed["attributes"]["town"]["labels"]
            label = max((one for one in labels if isinstance(labels[one], list)), key=lambda one: labels[one][1])
            labels[label] = change(labels[label])
            path.write_text(json.dumps(changed), encoding="utf-8")
            assert not shoal.verify(folder).verified
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.parametrize(
    "document", [None, [], {"attributes": 3}, {"attributes": {"a": 3, "b": {"labels": {"x": [0]}}}}]
)
def test_what_is_no_manifest_is_left_as_it_is(document: Any) -> None:
    assert unpack_labels(document) == document


def test_spans_that_stand_for_too_many_values_are_not_listed() -> None:
    values = [str(number) for number in range(5000)]
    entry = {"values": values, "labels": {str(number): [0, 5000] for number in range(5000)}}
    assert unpack_labels({"attributes": {"a": entry}})["attributes"]["a"] is entry

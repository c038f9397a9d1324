"""The command ``shoal verify``: which manifest tells it how to read the source."""

from __future__ import annotations

import json

import pytest
from tests import releases

from shoal.cli.verify import _read_manifest

FILE = {"file": "data.csv", "format": "csv", "sha256": "0" * 64}
DOCUMENT = releases.DEFAULTS | {"parts": [["age"]], "attributes": {"age": {"role": "quasi", "kind": "number"}}}


def test_the_manifest_is_the_one_that_is_verified(tmp_path):
    """Where both are there, the public folder is what was published."""
    (tmp_path / "public").mkdir()
    (tmp_path / "manifest.json").write_text(json.dumps({**DOCUMENT, "data": FILE, "rows": 1}))
    assert _read_manifest(tmp_path).rows == 1
    (tmp_path / "public" / "manifest.json").write_text(json.dumps({**DOCUMENT, "data": FILE, "rows": 2}))
    assert _read_manifest(tmp_path).rows == 2
    assert _read_manifest(tmp_path / "public").rows == 2


@pytest.mark.parametrize("text", ["{", "[1]", json.dumps(DOCUMENT)])
def test_a_manifest_that_is_none_tells_nothing(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    assert _read_manifest(tmp_path) is None


def test_no_release_at_all(tmp_path):
    assert _read_manifest(tmp_path) is None

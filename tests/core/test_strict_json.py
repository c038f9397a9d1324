"""JSON of others is read in one way: what readers disagree on is refused wherever it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.agency.client import read_answer
from shoal.core.documents import read_json
from shoal.core.errors import InputError, PolicyError
from shoal.policy.policy import Policy
from shoal.release.forms.agreed import parse_plan
from shoal.release.release import find_release, read_internal
from shoal.taxonomies.files import from_json_text

TWICE = '{"parts": [], "data": {"file": "a", "file": "b"}, "attributes": {}}'


def test_plain_json_is_read() -> None:
    assert read_json(b'{"a": [1, 2.5, "\\u00e9", "\\ud83d\\ude00", null, true]}') == {
        "a": [1, 2.5, "é", "😀", None, True]
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a": 1, "a": 1}',
        '[{"b": {"a": 1, "\\u0061": 2}}]',
        "NaN",
        "[-Infinity]",
        "1e999",
        '"\\ud800"',
        "[" * 9**6,
    ],
    ids=["nothing", "open", "twice", "spelled differently", "nan", "infinity", "too large", "half", "deep"],
)
def test_what_readers_disagree_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read_json(text)


def test_other_encodings_are_refused() -> None:
    with pytest.raises(ValueError):
        read_json('{"a": 1}'.encode("utf-16"))


def test_a_key_that_comes_twice_is_refused_everywhere(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(TWICE, encoding="utf-8")
    with pytest.raises(InputError, match="is not the manifest of a release"):
        find_release(tmp_path)
    with pytest.raises(InputError, match="cannot be read as JSON"):
        read_internal(tmp_path / "manifest.json")
    with pytest.raises(InputError, match="the answer is not JSON"):
        read_answer(TWICE.encode())
    with pytest.raises(InputError, match="is not JSON"):
        parse_plan(TWICE.encode(), "plan.json")
    (tmp_path / "policy.json").write_text(
        '{"attributes": {"a": {"role": "quasi"}}, "privacy": [{"k-anonymity": {"k": 5, "k": 1}}]}', encoding="utf-8"
    )
    with pytest.raises(PolicyError, match="key 'k' is given twice"):
        Policy.load(tmp_path / "policy.json")
    with pytest.raises(PolicyError, match="with one label"):
        from_json_text('{"*": {"a": ["x"], "a": ["y"]}}', name="tree.json")

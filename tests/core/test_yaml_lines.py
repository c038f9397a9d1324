"""Reading YAML with the line of every key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.core.documents import load_with_lines, read_text
from shoal.core.errors import PolicyError


def test_every_key_and_item_has_its_line() -> None:
    document, lines = load_with_lines("a:\n  b: 1\n  c:\n    - x\n    - {d: 2}\n", "p.yaml")
    assert document == {"a": {"b": 1, "c": ["x", {"d": 2}]}}
    assert lines[("a",)] == 1
    assert lines[("a", "b")] == 2
    assert lines[("a", "c")] == 3
    assert lines[("a", "c", 0)] == 4
    assert lines[("a", "c", 1, "d")] == 5


def test_json_is_read_too() -> None:
    text = json.dumps({"a": [1, True, None, "x"]}, indent=2)
    document, lines = load_with_lines(text, "p.json")
    assert document == {"a": [1, True, None, "x"]}
    assert lines[("a", 3)] == 6


def test_json_indented_by_tabs_is_read() -> None:
    document, lines = load_with_lines(json.dumps({"a": {"b": 1}}, indent="\t"), "p.json")
    assert document == {"a": {"b": 1}}
    assert lines[("a", "b")] == 3


def test_dates_stay_texts() -> None:
    assert load_with_lines("min: 2024-01-31", "p.yaml")[0] == {"min": "2024-01-31"}


def test_keys_are_read_as_they_are_written() -> None:
    document, lines = load_with_lines("no: 1\n010: 2\n1e3: 3\n2024-01-31: 4\n", "p.yaml")
    assert document == {"no": 1, "010": 2, "1e3": 3, "2024-01-31": 4}
    assert lines[("no",)] == 1


def test_merge_keys_still_merge() -> None:
    document, _ = load_with_lines("a: &x {role: quasi}\nb:\n  <<: *x\n  weight: 2\n", "p.yaml")
    assert document["b"] == {"role": "quasi", "weight": 2}


def test_nothing_is_nothing() -> None:
    assert load_with_lines("# only a comment\n", "p.yaml") == (None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "p.yaml, line 3: key 'a' is given twice; the first is on line 1"),
        ("x:\n  a: 1\n  a: 1\n", "p.yaml, line 3: key 'a' is given twice; the first is on line 2"),
        ("a: [1, 2\nb: 3\n", "p.yaml, line 2: not valid YAML"),
        ("a: 1\n\tb: 2\n", "p.yaml, line 2: not valid YAML"),
        ("a: !!python/object:os.system {}\n", "p.yaml, line 1: not valid YAML"),
        ("a: 1\n---\nb: 2\n", "p.yaml, line 2: not valid YAML"),
        ("a: \x07\n", "p.yaml: not valid YAML"),
        ("? [a, b]\n: 1\n", "p.yaml, line 1: not valid YAML"),
    ],
    ids=["twice", "twice inside", "bracket", "tab", "object", "two documents", "control character", "list as key"],
)
def test_faults_are_said_with_their_line(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        load_with_lines(text, "p.yaml")
    assert str(caught.value).startswith(message)


def test_a_document_that_contains_itself_is_refused() -> None:
    with pytest.raises(PolicyError, match=r"p\.yaml"):
        load_with_lines("a: &x\n  b: *x\n", "p.yaml")


def test_read_text_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("größe: 1".encode("latin-1"))
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    with pytest.raises(PolicyError, match="no such file"):
        read_text(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="is a folder"):
        read_text(tmp_path)
    with pytest.raises(PolicyError, match="is not UTF-8"):
        read_text(tmp_path / "latin.yaml")
    assert read_text(tmp_path / "bom.yaml") == "a: 1"

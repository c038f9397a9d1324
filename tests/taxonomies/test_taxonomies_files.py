"""Taxonomy files: ARX-style CSV, nested YAML and JSON, read, refused and written."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.builders.listed import read_taxonomy
from shoal.taxonomies.files import (
    from_arx_text,
    from_nested,
    from_yaml_text,
    to_arx_csv,
    to_nested,
    to_nested_yaml,
)


def test_lines_of_unequal_length_empty_cells_and_repeated_leaves_mean_the_same() -> None:
    texts = ["a;x;*\nb;x;*\nc;*\n", "a;x;*\nb;x;*\nc;;*\n", "a;x;*\nb;x;*\nc;c;*\n"]
    trees = [from_arx_text(text, name="t") for text in texts]
    assert [to_nested(tree) for tree in trees] == [{"*": {"x": {"a": {}, "b": {}}, "c": {}}}] * 3


def test_a_label_repeated_on_two_whole_levels_stays_two_levels() -> None:
    tree = from_arx_text("a;x;x;*\nb;x;x;*\nc;y;z;*\n", name="t")
    assert tree.height == 3
    assert tree.level[0] == 3
    assert tree.label(0, 2) == "x"


@pytest.mark.parametrize("delimiter", [";", ",", "\t"])
def test_the_delimiter_is_found(delimiter: str) -> None:
    text = "\r\n".join(delimiter.join(line) for line in (["a", "x", "*"], ["b", "x", "*"])) + "\r\n"
    assert from_arx_text(text, name="t").labels == ("a", "b", "x", "*")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;x;*\nb;x;+\n", "'x' has two parents, '\\*' \\(line 1\\) and '\\+' \\(line 2\\)"),
        ("a;Europe\nb;Asia\n", "2 roots, among them 'Europe' \\(line 1\\) and 'Asia' \\(line 2\\)"),
        ("a;x;y;*\nb;y;x;*\n", r"'y' has two parents, '\*' \(line 1\) and 'x' \(line 2\)"),
        ("a;x;*\nb;x;*\na;x;*\n", "leaf 'a' is on lines 1 and 3"),
        ("a;x;*\na;y;*\n", "leaf 'a' is on lines 1 and 2"),
        ("a;x;*\nb;x\n", "'x' is the root of line 2 only"),
        ("a;x;*\n;x;*\n", "line 2: the leaf is empty"),
        ("a;x;*\nb\n", "line 2: 'b' has no parent"),
        ("\n\n", "is empty"),
        ('a;"x;*\n', "line 1"),
    ],
)
def test_lines_that_make_no_tree_are_refused(text: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message) as caught:
        from_arx_text(text, name="grades.csv")
    assert str(caught.value).startswith("grades.csv")


def test_yaml_is_taken_as_it_is_written() -> None:
    text = "any:\n  group:\n    - no\n    - 010\n    - 1.50\n  2024-01-01: {}\n  null group: [~x]\n  leaf:\n"
    tree = from_yaml_text(text, name="t")
    assert tree.leaf_labels == ("no", "010", "1.50", "2024-01-01", "~x", "leaf")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1]\nb: [2]\n", r"2 roots, among them 'a' \(line 1\) and 'b' \(line 2\)"),
        ("any:\n  x: [a]\n  y: [a]\n", r"leaf 'a' \(line 2\) twice: again as 'a' \(line 3\)"),
        ("any:\n  x: {g: [a]}\n  y: {g: [b]}\n", r"'g' has two parents, 'x' \(line 2\) and 'y' \(line 3\)"),
        ("any:\n  x: [a]\n  x: [b]\n", "'x' .*'x'.* one label"),
        ("any: &loop\n  x: *loop\n", "cycle: 'any' is its own ancestor"),
        ("any:\n  x: &same [a]\n  y: *same\n", "'x' and 'y' have the same children"),
        ("any:\n  x: []\n", "line 2: the group 'x' has no values"),
        ("any:\n  x: a\n", "line 2: 'x' has one value"),
        ("any: [a\n", "not valid YAML"),
        ("any:\n  ? [a, b]\n  : c\n", "line 2: a value must be one text"),
        ("", "empty"),
        ("any\n", "has one value"),
    ],
)
def test_yaml_that_is_no_tree_is_refused(text: str, message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        from_yaml_text(text, name="tree.yaml")


def test_a_mapping_that_holds_itself_is_refused() -> None:
    loop: dict[str, object] = {}
    loop["x"] = {"y": loop, "z": None}
    with pytest.raises(TaxonomyError, match="cycle"):
        from_nested({"any": loop})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.csv", None, "does not exist"),
        ("tree.xls", b"a;*", "must end in one of"),
        ("latin.csv", "\xe9;*".encode("latin-1"), "not UTF-8"),
        ("nul.csv", b"a\0;*", "NUL"),
        ("folder.csv", "folder", "cannot be read"),
    ],
)
def test_unreadable_files(tmp_path: Path, name: str, content: bytes | str | None, message: str) -> None:
    path = tmp_path / name
    if content == "folder":
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(TaxonomyError, match=message):
        read_taxonomy(path)


def test_round_trip_of_labels_that_need_quotes(tmp_path: Path) -> None:
    tree = from_nested({"*": {'a;"b"': ["no", "1", "x\ny", "[1, 2["], "ü, é": ["null", "~"], "#": {}}})
    for name, write in (("t.csv", to_arx_csv), ("t.yaml", to_nested_yaml)):
        write(tree, tmp_path / name)
        again = read_taxonomy(tmp_path / name)
        assert to_nested(again) == to_nested(tree)
        assert again.labels == tree.labels


def test_a_code_that_is_also_a_group_lies_under_it() -> None:
    tree = from_arx_text("221;221;22;*\n2211;221;22;*\n23;23;23;*\n231;23;*\n", name="isco.csv")
    assert tree.leaf_labels == ("221", "2211", "23", "231")
    assert tree.label(0, 2) == "(221)"
    assert tree.cover(0, 2) == {"values": ["221", "2211"]}
    assert tree.label(2, 4) == "(23)"


def test_groups_may_be_spelled_like_values_elsewhere() -> None:
    tree = from_arx_text("1;2;*\n2;1;*\n3;1;*\n", name="recoded.csv")
    assert [tree.label(0, 1), tree.label(1, 3)] == ["1", "(1)"]
    assert tree.cover(1, 3) == {"values": ["2", "3"]}

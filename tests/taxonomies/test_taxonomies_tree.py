"""The tree itself: ranges, labels, covers, levels and the leaf for missing values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.errors import TaxonomyError
from shoal.taxonomies.construct import from_parents
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.fitting import find_uncovered
from shoal.taxonomies.tree import MISSING_LABEL, NOT_MISSING_LABEL, Taxonomy


@pytest.fixture
def uneven() -> Taxonomy:
    """Leaves a b c d at levels 3 3 2 1."""
    return from_nested({"any": {"x": {"y": ["a", "b"], "c": {}}, "d": {}}})


def test_leaves_come_first_children_before_parents_and_the_root_last(uneven: Taxonomy) -> None:
    assert uneven.labels == ("a", "b", "c", "d", "y", "x", "any")
    assert uneven.parent.tolist() == [4, 4, 5, 6, 5, 6, -1]
    assert uneven.lo.tolist() == [0, 1, 2, 3, 0, 0, 0]
    assert uneven.hi.tolist() == [1, 2, 3, 4, 2, 3, 4]
    assert uneven.level.tolist() == [3, 3, 2, 1, 2, 1, 0]
    assert (uneven.root, uneven.n_nodes, uneven.height, uneven.n_leaves) == (6, 7, 3, 4)


def test_generalizing_by_height_stops_leaves_that_are_nearer_to_the_root(uneven: Taxonomy) -> None:
    assert uneven.height == 3
    assert uneven.node_at(0).tolist() == [0, 1, 2, 3]
    assert uneven.node_at(1).tolist() == [4, 4, 2, 3]
    assert uneven.node_at(2).tolist() == [5, 5, 5, 3]
    assert uneven.node_at(3).tolist() == [6, 6, 6, 6]
    with pytest.raises(ValueError, match=r"0\.\.3"):
        uneven.node_at(4)


def test_nodes_of_ranges(uneven: Taxonomy) -> None:
    assert uneven.node_of(0, 2) == 4
    assert uneven.node_of(1, 3) == -1
    assert uneven.covering(1, 3) == 5
    lo, hi = np.array([0, 1, 1, 2, 3]), np.array([1, 2, 3, 4, 4])
    assert uneven.lowest_nodes(lo, hi).tolist() == [0, 1, 5, 6, 3]
    with pytest.raises(ValueError, match="not a range of 4 leaves"):
        uneven.node_of(2, 2)


def test_labels_and_covers(uneven: Taxonomy) -> None:
    assert uneven.label(0, 2) == "y"
    assert uneven.label(0, 4) == "any"
    assert uneven.cover(0, 4) == {"any": True}
    assert uneven.label(1, 4) == "{b, c, d}"
    assert uneven.label(2, 4) == "{c, d}"
    assert uneven.cover(2, 4) == {"values": ["c", "d"]}


def test_a_range_is_named_by_the_fewest_nodes() -> None:
    tree = from_nested({"any": {"x": ["a", "b"], "y": ["c", "d"], "z": ["e", "f"]}})
    assert tree.label(1, 6) == "{b, y, z}"
    assert [tree.labels[node] for node in tree.tiles(0, 5)] == ["x", "y", "e"]


def test_a_chain_reads_as_the_node_of_the_chosen_level() -> None:
    tree = from_nested({"any": {"x": {"y": ["a", "b"]}, "z": {"w": ["c"]}}})
    assert [tree.label(2, 3, level) for level in range(3)] == ["c", "w", "z"]
    assert [tree.label(0, 2, level) for level in (1, 2)] == ["y", "x"]
    assert tree.label(0, 3, level=1) == tree.label(0, 3, level=3) == "any"  # suppressed, or the level of the root
    assert tree.cover(2, 3, level=2) == {"values": ["c"]}
    single = from_nested({"any": {"x": ["a"]}})
    assert [single.label(0, 1, level) for level in (None, 0, 1, 2)] == ["a", "a", "x", "any"]
    assert single.cover(0, 1, level=2) == {"any": True}


def test_missing_leaf_is_last_and_under_the_root(uneven: Taxonomy) -> None:
    tree = uneven.with_missing()
    assert tree.with_missing() is tree
    assert tree.missing == 4
    assert tree.labels == ("a", "b", "c", "d", MISSING_LABEL, "y", "x", "any")
    assert tree.parent.tolist() == [5, 5, 6, 7, 7, 6, 7, -1]
    assert tree.hi.tolist() == [1, 2, 3, 4, 5, 2, 3, 5]
    assert tree.level.tolist() == [3, 3, 2, 1, 1, 2, 1, 0]
    assert tree.label(4, 5) == "missing"
    assert tree.cover(4, 5) == {"missing": True}
    assert tree.label(3, 5) == "{d, missing}"
    assert tree.cover(3, 5) == {"values": ["d"], "missing": True}
    assert tree.label(2, 5) == "{{c, d}, missing}"
    assert tree.label(0, 4) == NOT_MISSING_LABEL
    assert tree.cover(0, 4) == {"values": ["a", "b", "c", "d"]}
    assert tree.label(0, 5) == "any"
    assert tree.cover(0, 5) == {"any": True}
    assert tree.node_at(2).tolist() == [6, 6, 6, 3, 4]


def test_a_value_called_missing_is_not_a_missing_value() -> None:
    tree = from_nested({"*": ["missing", "a"]}).with_missing()
    assert tree.label(2, 3) == "(missing)"
    assert tree.encode(pa.array(["missing", None])).tolist() == [0, 2]


def test_nulls_and_dictionaries_are_encoded(uneven: Taxonomy) -> None:
    values = pa.array(["d", None, "zz", "a"])
    assert uneven.encode(values).tolist() == [3, -1, -1, 0]
    complete = uneven.with_missing()
    assert complete.encode(values).tolist() == [3, 4, -1, 0]
    assert complete.encode(values.dictionary_encode()).tolist() == [3, 4, -1, 0]
    assert complete.encode(pa.chunked_array([values, values])).tolist() == [3, 4, -1, 0] * 2
    assert complete.encode(pa.array(["a", None]).dictionary_encode("encode")).dtype == np.int32


def test_made_up_labels_never_repeat_a_node_label() -> None:
    tree = from_nested({"*": {"{a, b}": ["x", "y"], "z": ["a", "c"], "b": {}}})
    assert tree.label(0, 2) == "{a, b}"
    by_hand = from_nested({"*": ["a", "b", "c", "{a, b}"]})
    assert by_hand.label(3, 4) == "{a, b}"
    assert by_hand.label(0, 2) == "{a, b} (range)"


@pytest.mark.parametrize(
    ("labels", "parents", "message"),
    [
        (["r", "s", "a"], [-1, -1, 0], "2 roots, among them 'r' and 's'"),
        (["r", "a", "b", "c"], [-1, 0, 3, 2], "cycle: '[bc]' is its own ancestor"),
        (["a", "b"], [1, 0], "cycle"),
        (["r"], [-1], "no value below its root"),
        (["r", "a", "a"], [-1, 0, 0], "leaf 'a' twice"),
        (["r", "x", "y", "g", "g", "a", "b"], [-1, 0, 0, 1, 2, 3, 4], "'g' has two parents, 'x' and 'y'"),
        (["r", "g", "g", "a", "b"], [-1, 0, 1, 2, 1], "different groups with one label|two parents"),
    ],
)
def test_what_is_no_tree_is_refused(labels: list[str], parents: list[int], message: str) -> None:
    with pytest.raises(TaxonomyError, match=message):
        from_parents(labels, parents, name="colours")


@pytest.mark.parametrize(
    ("values", "stated"),
    [([1.5, 2.25], True), ([1.5, 7.0], False), (["1.5", "red"], False), (["0.5"], True), ([], False)],
)
def test_decimals_outside_the_taxonomy_are_told_how_to_get_in(values: list[object], stated: bool) -> None:
    outside = np.full(len(values), -1, dtype=np.int32)
    found = find_uncovered(
        outside, pa.array(values, None if values else pa.string()), np.ones(len(values), dtype=np.int64)
    )
    assert ("written with some, such as min: 0.0" in found.message("x")) == stated


def test_uncovered_counts_values_and_records_and_shows_five() -> None:
    values = pa.array(["ok", None, *(f"v{i}" for i in range(7)), "x" * 60])
    codes = np.array([0, -1] + [-1] * 8, dtype=np.int32)
    counts = np.array([100, 50, 1, 1, 9, 1, 1, 1, 1, 2])
    found = find_uncovered(codes, values, counts)
    assert (found.n_values, found.n_records) == (8, 17)
    assert found.examples == ("v2", "x" * 37 + "...", "v0", "v1", "v3")
    assert "column 'grade': 8 values in 17 records outside the taxonomy: 'v2'" in found.message("grade")
    assert find_uncovered(codes[:2], values[:2], counts[:2]).n_values == 0

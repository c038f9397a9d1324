"""Taxonomies in the studio without any web: entries, forms, starts, trees, scales, files and what pages show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.progress import Silent
from shoal.policy.profiling import profile_columns
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.studio.taxonomies.editing import read_tree, tree_in_policy, write_tree
from shoal.studio.taxonomies.entries import (
    ColumnTaxonomy,
    EntryError,
    builder_of,
    list_taxonomies,
    taxonomy_from,
)
from shoal.studio.taxonomies.trees import KINDS, ValueTree, list_offered, start_taxonomy
from shoal.studio.taxonomies.views import view
from shoal.taxonomies.files import from_nested

HERE = Path()
TOWNS = ["Aachen"] * 5 + ["Bonn"] * 3 + ["Koeln"] * 9 + ["Trier"]
FOREST = ValueTree(("any", "west", "Bonn", "Koeln", "east", "Jena"), (-1, 0, 1, 1, 0, 4))


def profile(**columns):
    found = profile_columns(open_source(pa.table(columns), SourceOptions()), Silent())
    return found[0] if len(found) == 1 else found


def desk(column, taxonomy, role="quasi"):
    return ColumnTaxonomy(role, taxonomy, column, HERE)


@pytest.fixture(scope="module")
def towns():
    return profile(town=TOWNS)


@pytest.fixture(scope="module")
def ages():
    return profile(age=np.random.default_rng(1).integers(0, 100, 400))


def test_only_columns_that_need_a_taxonomy_are_listed_by_their_places():
    document = {
        "attributes": {
            "illness": {"role": "sensitive"},
            "town": {"role": "quasi", "taxonomy": "flat"},
            "name": {"role": "identifier"},
            "basket": {"role": "quasi", "items": {}},
            "odd": 3,
        }
    }
    columns = profile(town=["Bonn"], name=["Ann"], illness=["flu"], basket=["milk"], odd=["x"])
    found = list_taxonomies(document, columns, HERE)
    assert found == {
        0: ColumnTaxonomy("quasi", {"flat": None}, columns[0], HERE),
        2: ColumnTaxonomy("sensitive", None, columns[2], HERE),
    }
    assert list_taxonomies({"attributes": None}, columns, HERE) == {}


@pytest.mark.parametrize(
    ("taxonomy", "field", "message"),
    [
        ({"intervals": {"min": 9, "max": 3, "widths": [5]}}, "max", "max 3 must be above min 9"),
        ({"intervals": {"min": 0, "max": 99, "widths": [5, 12]}}, "widths", "widths 5 and 12 do not nest"),
        ({"intervals": {"min": 0, "max": 99, "edges": [[5, 4]]}}, "edges", "edges must rise"),
        ({"intervals": {"max": 99}}, "min", "is required"),
        ({"mask": {"length": 0}}, "length", "must be at least 1"),
        ({"mask": {"length": 3, "keep": [7]}}, "keep", "keep has 7"),
        ({"dates": {"min": "soon"}}, "min", "date"),
        ({"flat": ["a", "a"]}, "", "'a' is listed twice"),
        ({"file": "../secret.csv"}, "path", "add the file here"),
        ({"file": "/etc/hosts.csv"}, "path", "add the file here"),
        ({"": 7}, "", "one name with its parameters"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:12],
)
def test_what_does_not_load_is_told_at_its_field(taxonomy, field, message):
    with pytest.raises(EntryError, match=message) as stated:
        builder_of(taxonomy, HERE)
    assert stated.value.field == field


def test_forms_become_parameters(ages, towns):
    typed = {"min": ["0"], "max": [" 119 "], "cut": ["widths"], "widths": ["10; 5"], "open": ["high"], "step": [""]}
    assert taxonomy_from("intervals", typed, ages) == {
        "intervals": {"min": 0, "max": 119, "widths": [5, 10], "open": "high"}
    }
    typed = {"min": ["0"], "max": ["119"], "cut": ["edges"], "edges": ["18, 65\r\n\r\n65\r\n"], "open": ["none"]}
    assert taxonomy_from("intervals", typed, ages) == {"intervals": {"min": 0, "max": 119, "edges": [[18, 65], [65]]}}
    assert taxonomy_from("mask", {"length": ["5"], "keep": ["2 4"], "character": ["*"]}, towns) == {
        "mask": {"length": 5, "keep": [4, 2]}
    }
    assert taxonomy_from("dates", {"levels": ["month", "year"], "min": ["2020-01-01"], "max": [""]}, towns) == {
        "dates": {"levels": ["month", "year"], "min": "2020-01-01"}
    }
    assert taxonomy_from("flat", {"values": [" a\r\nb \r\n\r\n"]}, towns) == {"flat": {"values": [" a", "b "]}}
    assert taxonomy_from("flat", {"values": [""]}, towns) == {"flat": {}}


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        ([1, 2, 30, 47], ("default", "intervals", "numbers", "mask", "tree", "groups", "flat")),
        ([1.5, 2.5, 3.0], ("intervals", "tree", "groups", "flat")),
        (["01067", "01069"], ("default", "intervals", "numbers", "mask", "tree", "groups", "flat")),
        (["2024-01-05", "2023-02-01"], ("default", "dates", "tree", "groups", "flat")),
        (["red", "green"], ("default", "tree", "groups", "flat")),
    ],
    ids=["whole", "decimal", "codes", "dates", "texts"],
)
def test_every_kind_that_is_offered_starts_with_a_place_for_every_value(values, kinds):
    column = profile(x=values)
    assert list_offered(column, "quasi") == kinds
    assert set(kinds) <= {name for name, _, _ in KINDS}
    for kind in kinds:
        taxonomy = desk(column, start_taxonomy(kind, column)).tree()
        assert view(taxonomy, column).gaps.n_values == 0


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree, values: tree.move((1,), 1, values), "under itself"),
        (lambda tree, values: tree.move((0,), 1, values), "top cannot be moved"),
        (lambda tree, values: tree.move((2,), 5, values), "choose a group instead"),
        (lambda tree, values: tree.add_group(0, "Bonn", values), "already in the tree"),
        (lambda tree, values: tree.add_group(0, "  ", values), "give the group a name"),
        (lambda tree, values: tree.rename(2, "Bon", values), "value of the data"),
        (lambda tree, values: tree.rename(1, "east", values), "already in the tree"),
        (lambda tree, values: tree.rename(1, "x" * 201, values), "at most 200"),
        (lambda tree, values: tree.remove(0), "top cannot be deleted"),
        (lambda tree, values: tree.shift(0, 1), "top cannot be moved"),
        (lambda tree, values: ValueTree.flat(["a"]).remove(1), "at least one value"),
        (lambda tree, values: ValueTree.flat(["a"], fixed_root=True).rename(0, "b", values), "always \\*"),
    ],
    ids=range(12),
)
def test_edits_that_cannot_be_made(edit, message):
    with pytest.raises(EntryError, match=message):
        edit(FOREST, {"Bonn", "Koeln", "Jena"})


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12))
def test_no_move_loses_or_doubles_a_value_and_every_tree_loads(moves):
    tree = ValueTree(("*", "a", "b", "c", "1", "2", "3", "4", "5"), (-1, 0, 1, 0, 0, 1, 2, 2, 3))
    values = {"1", "2", "3", "4", "5"}
    for node, under in moves:
        try:
            tree = tree.move((node,), under, values)
        except EntryError:
            continue
        assert sorted(tree.labels) == ["*", "1", "2", "3", "4", "5", "a", "b", "c"]
        assert values <= set(tree.leaves())
        assert ValueTree.of(from_nested(tree.document()["tree"])) == tree


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("towns.csv", b"Bonn;west;*\nBonn;east;*\n", "lines 1 and 2"),
        ("towns.csv", b"", "empty"),
        ("towns.yaml", b"any: {west: [Bonn,\n  - x", "line"),
        ("towns.json", b'{"any": ', "line 1"),
        ("towns.csv", b"B\xf6nn;*\n", "not UTF-8"),
        ("towns.csv", b"a\0;*\n", "NUL"),
        ("towns.exe", b"x", "ends in '.exe'"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(name, content, message):
    with pytest.raises(EntryError, match=message):
        read_tree(name, content)


@pytest.mark.parametrize("ending", ["csv", "yaml"])
def test_what_is_exported_can_be_imported(ending):
    tree = from_nested({"*": {"west": ["Bonn", "Köln; am Rhein"], "east": ["Jena", "no"]}})
    again = read_tree(f"towns.{ending}", write_tree(tree, ending))
    assert tree_in_policy(again) == tree_in_policy(tree)

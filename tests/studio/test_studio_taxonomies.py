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
from shoal.studio.pages.taxonomies import sheet, summary
from shoal.studio.taxonomies.editing import apply_edit, read_tree, tree_in_policy, write_tree
from shoal.studio.taxonomies.entries import (
    ColumnTaxonomy,
    EntryError,
    builder_of,
    list_taxonomies,
    taxonomy_from,
    with_taxonomy,
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


def test_a_change_leaves_everything_else_and_the_document_itself_as_it_was():
    document = {"attributes": {"a": {"role": "quasi", "weight": 2, "taxonomy": {"flat": {}}}, "b": {}}, "privacy": []}
    changed = with_taxonomy(document, "a", {"numbers": {}})
    assert changed["attributes"] == {"a": {"role": "quasi", "weight": 2, "taxonomy": {"numbers": {}}}, "b": {}}
    assert document["attributes"]["a"]["taxonomy"] == {"flat": {}}
    assert "taxonomy" not in with_taxonomy(document, "a", None)["attributes"]["a"]


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
        ({"file": "../secret.csv"}, "path", "only files that were added here"),
        ({"file": "/etc/hosts.csv"}, "path", "only files that were added here"),
        ({"": 7}, "", "one name with its parameters"),
    ],
    ids=lambda value: None if isinstance(value, dict) else str(value)[:12],
)
def test_what_does_not_load_is_told_at_its_field(taxonomy, field, message):
    with pytest.raises(EntryError, match=message) as stated:
        builder_of(taxonomy, HERE)
    assert stated.value.field == field


def test_what_the_data_refuse_is_told_at_its_field(towns):
    with pytest.raises(EntryError) as stated:
        desk(towns, {"mask": {"length": 9}}).tree()
    assert stated.value.field == "length"
    decimals = profile(height=[1.5, 2.25])
    assert desk(decimals, None).tree().n_leaves == 2
    assert desk(decimals, None, "sensitive").tree().n_leaves == 2


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


def test_intervals_of_a_column_of_decimals_have_decimals():
    typed = {"min": ["0"], "max": ["10"], "cut": ["widths"], "widths": ["1"]}
    column = profile(height=[1.5, 2.25])
    made = taxonomy_from("intervals", typed, column)
    assert view(desk(column, made).tree(), column).gaps.n_values == 0


@pytest.mark.parametrize(
    ("kind", "typed", "field"),
    [
        ("intervals", {"max": ["9"]}, "min"),
        ("intervals", {"min": ["1e"], "max": ["9"]}, "min"),
        ("intervals", {"min": ["1"], "max": ["9"], "widths": ["2, x"]}, "widths"),
        ("intervals", {"min": ["1"], "max": ["9"], "cut": ["edges"], "edges": ["2\n--"]}, "edges"),
        ("mask", {"length": ["five"]}, "length"),
        ("mask", {"length": ["5"], "keep": ["2.5"]}, "keep"),
        ("tree", {}, "kind"),
    ],
)
def test_what_cannot_be_read_is_told_at_its_field(kind, typed, field, ages):
    with pytest.raises(EntryError) as stated:
        taxonomy_from(kind, typed, ages)
    assert stated.value.field == field


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


def test_a_kind_that_does_not_suit_is_refused_in_words(towns):
    for kind in ("intervals", "numbers", "dates", "mask", "file"):
        with pytest.raises(EntryError) as stated:
            start_taxonomy(kind, towns)
        assert stated.value.field == "kind"
    many = profile(code=[f"c{number}" for number in range(5_001)])
    with pytest.raises(EntryError, match="5,001 values"):
        start_taxonomy("tree", many)


def test_groups_are_kept_when_a_tree_becomes_ordered_groups_and_back(towns):
    tree = {"tree": {"any": {"west": ["Aachen", "Bonn", "Koeln"], "south": ["Trier"]}}}
    present = desk(towns, tree).tree()
    groups = start_taxonomy("groups", towns, present)
    assert groups == {"groups": {"west": ["Aachen", "Bonn", "Koeln"], "south": ["Trier"]}}
    lacking = from_nested({"any": {"west": ["Aachen"]}})
    assert start_taxonomy("tree", towns, lacking) == {"tree": {"*": ["Aachen", "Bonn", "Koeln", "Trier"]}}


def test_intervals_become_the_groups_of_a_tree_unless_an_open_end_has_no_values(ages):
    closed = {"intervals": {"min": 0, "max": 99, "widths": [50]}}
    tree = start_taxonomy("tree", ages, desk(ages, closed).tree())
    assert list(tree["tree"]["*"]) == ["[0, 49]", "[50, 99]"]
    opened = {"intervals": {"min": 0, "max": 99, "widths": [50], "open": "high"}}
    tree = start_taxonomy("tree", ages, desk(ages, opened).tree())
    assert len(tree["tree"]["*"]) == ages.n_distinct


def test_edits_of_a_tree():
    values = {"Bonn", "Koeln", "Jena"}
    grouped = FOREST.add_group(0, " rhine ", values, (2, 3))
    assert grouped.document() == {"tree": {"any": {"rhine": ["Bonn", "Koeln"], "west": {}, "east": ["Jena"]}}}
    assert FOREST.add_group(1, "rhine", values, (3,)).document() == {
        "tree": {"any": {"west": {"Bonn": {}, "rhine": ["Koeln"]}, "east": ["Jena"]}}
    }
    moved = FOREST.move((2, 1), 4, values)  # Bonn goes with the group that holds it
    assert moved.document() == {"tree": {"any": {"east": {"Jena": {}, "west": ["Bonn", "Koeln"]}}}}
    assert FOREST.remove(1).document() == {"tree": {"any": {"Bonn": {}, "Koeln": {}, "east": ["Jena"]}}}
    assert FOREST.remove(2).leaves() == ("Koeln", "Jena")
    assert FOREST.rename(1, "Rhineland", values).labels[1] == "Rhineland"
    assert FOREST.shift(4, -1).labels == ("any", "east", "Jena", "west", "Bonn", "Koeln")
    assert FOREST.shift(1, -1) == FOREST
    assert FOREST.place(["Ulm"], 4, values).labels == ("any", "west", "Bonn", "Koeln", "east", "Jena", "Ulm")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree, values: tree.move((1,), 1, values), "under itself"),
        (lambda tree, values: tree.move((0,), 1, values), "top cannot be moved"),
        (lambda tree, values: tree.move((2,), 5, values), "nothing can be put under it"),
        (lambda tree, values: tree.add_group(0, "Bonn", values), "in the tree already"),
        (lambda tree, values: tree.add_group(0, "  ", values), "give the group a name"),
        (lambda tree, values: tree.rename(2, "Bon", values), "value of the data"),
        (lambda tree, values: tree.rename(1, "east", values), "in the tree already"),
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


def test_edits_by_the_numbers_of_the_page(towns):
    tree = {"tree": {"any": {"west": ["Aachen", "Bonn"]}}}  # any 0, west 1, Aachen 2, Bonn 3; loose: Koeln, Trier
    on_table = desk(towns, tree)
    made = apply_edit(on_table, "group", {"nodes": ["n3 u0"], "name": ["rhine"]})
    assert made == {"tree": {"any": {"west": {"Aachen": {}, "rhine": ["Bonn", "Koeln"]}}}}
    assert apply_edit(on_table, "move", {"nodes": ["u1 n2"], "target": ["n0"]}) == {
        "tree": {"any": {"west": ["Bonn"], "Aachen": {}, "Trier": {}}}
    }
    assert apply_edit(on_table, "place-all", {}) == {
        "tree": {"any": {"west": ["Aachen", "Bonn"], "Koeln": {}, "Trier": {}}}
    }
    assert apply_edit(on_table, "delete", {"nodes": ["n1 n3"]}) == {"tree": {"any": ["Aachen"]}}
    assert apply_edit(on_table, "later", {"nodes": ["n2"]}) == {"tree": {"any": {"west": ["Bonn", "Aachen"]}}}
    for edit, fields in [
        ("move", {"nodes": ["n2"]}),
        ("move", {"target": ["n1"]}),
        ("rename", {"nodes": ["n1 n2"], "name": ["x"]}),
        ("delete", {"nodes": [""]}),
        ("move", {"nodes": ["n99"], "target": ["n0"]}),
        ("move", {"nodes": ["n-1"], "target": ["n0"]}),
        ("explode", {}),
    ]:
        with pytest.raises(EntryError):
            apply_edit(on_table, edit, fields)
    with pytest.raises(EntryError, match="no tree here"):
        apply_edit(desk(towns, {"flat": {}}), "group", {"name": ["x"]})


def test_an_edit_that_does_not_load_is_refused_before_it_is_made(towns):
    with pytest.raises(EntryError) as stated:
        apply_edit(desk(towns, None), "form", {"kind": ["mask"], "length": ["99"]})
    assert stated.value.field == "length"


def test_records_are_counted_under_every_node(towns):
    tree = desk(towns, {"tree": {"any": {"west": ["Bonn", "Koeln"], "x": {}}}}).tree()
    drawn = view(tree, towns)
    whole = drawn.whole()
    assert (whole.records, whole.children[0].records, whole.children[1].records) == (12, 12, 0)
    assert [child.number for child in whole.children] == [1, 4]
    assert (drawn.gaps.n_values, drawn.gaps.n_records) == (2, 6)
    assert drawn.loose() == (("Aachen", 5), ("Trier", 1))
    assert drawn.examples()[0] == ("Koeln", "west", "any")
    assert [(level.n_nodes, level.smallest) for level in drawn.levels()] == [(2, 3), (1, 12), (1, 12)]
    part = drawn.part()
    assert (len(part.children), part.rest, part.rest_records) == (1, 1, 0)


def test_a_tree_that_is_looked_at_stays_small_and_says_what_it_leaves_out():
    column = profile(code=[f"c{number}" for number in range(5_000)])
    drawn = view(desk(column, {"flat": {}}).tree(), column).part()
    assert len(drawn.children) == 60
    assert drawn.rest == 4_940
    assert drawn.rest_records == 4_940


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


def test_a_tree_too_large_for_a_policy_stays_a_file():
    tree = read_tree("t.csv", "".join(f"v{number};*\n" for number in range(5_001)).encode())
    with pytest.raises(EntryError, match="keep it as a file"):
        tree_in_policy(tree)


def test_the_page_shows_what_was_typed_when_it_was_refused(ages):
    taxonomy = {"intervals": {"min": 0, "max": 99, "widths": [5, 10]}}
    document = {"attributes": {"age": {"role": "quasi", "taxonomy": taxonomy}}}
    shown = sheet(desk(ages, taxonomy), document)
    assert (shown.values["widths"], shown.values["cut"], shown.values["step"]) == ("5, 10", "widths", "")
    assert shown.yaml.startswith("age:")
    refused = sheet(desk(ages, taxonomy), document, EntryError("no", "widths"), {"widths": ["5, 12"]})
    assert refused.values["widths"] == "5, 12"
    assert refused.problem("widths") == "no"
    assert refused.other_problem("widths") == ""
    assert refused.other_problem("min") == "no"


@pytest.mark.parametrize("taxonomy", [{"intervals": {"min": 5}}, {"nosuch": {}}, {"": 1}, {"file": "absent.csv"}])
def test_a_taxonomy_that_does_not_load_can_still_be_looked_at(taxonomy, ages):
    document = {"attributes": {"age": {"role": "quasi", "taxonomy": taxonomy}}}
    shown = sheet(desk(ages, taxonomy), document)
    assert shown.drawn is None
    assert shown.broken
    assert shown.tree is None
    assert "intervals" in [name for name, _, _ in shown.kinds]
    assert summary(0, desk(ages, taxonomy))["problem"] == shown.broken


def test_targets_are_groups_and_never_values(towns):
    tree = {"tree": {"any": {"west": ["Aachen", "Bonn"], "later": {}}}}
    document = {"attributes": {"town": {"role": "quasi", "taxonomy": tree}}}
    shown = sheet(desk(towns, tree), document)
    assert [(node, text.strip()) for node, text in shown.targets] == [(0, "any"), (1, "west"), (4, "later")]
    assert shown.empty_groups == ("later",)

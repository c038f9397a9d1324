"""What a policy may ask for: each builder's leaves, labels, covers, codes and refusals."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from shoal.core.errors import TaxonomyError
from shoal.core.registry import discover
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import DatesTaxonomy, IntervalsTaxonomy, NumbersTaxonomy
from shoal.taxonomies.builders.listed import FlatTaxonomy, GroupsTaxonomy, MaskTaxonomy, TreeTaxonomy
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.tree import Taxonomy

NOTHING = pa.array([], pa.string())


def children_of_root(taxonomy: Taxonomy) -> list[str]:
    return [taxonomy.labels[node] for node in taxonomy.children(taxonomy.root)]


def test_builders_are_found_by_name_and_describe_themselves() -> None:
    found = discover("shoal.taxonomies.builders", TaxonomyBuilder)
    assert list(found) == ["dates", "file", "flat", "groups", "intervals", "mask", "numbers", "tree"]
    for builder in found.values():
        assert builder.title in json.dumps(builder.model_json_schema())
        for field in builder.model_fields.values():
            assert field.description


def test_unknown_keys_are_refused() -> None:
    for builder in (FlatTaxonomy, IntervalsTaxonomy, MaskTaxonomy, DatesTaxonomy):
        with pytest.raises(ValidationError, match="widht"):
            builder.model_validate({"min": 0, "max": 1, "widht": 3})


class TestFlat:
    def test_text_is_sorted_as_text_and_whole_numbers_as_numbers(self) -> None:
        assert FlatTaxonomy().build(pa.array(["b", "10", "9"])).leaf_labels == ("10", "9", "b")
        assert FlatTaxonomy().build(pa.array(["10", "9", "-1"])).leaf_labels == ("-1", "9", "10")
        assert not FlatTaxonomy().build(pa.array(["a"])).declared

    def test_any_column_type(self) -> None:
        for values, labels in (
            (pa.array([True, False]), ("false", "true")),
            (pa.array([1.5, 1.0]), ("1", "1.5")),
            (pa.array([datetime.date(2024, 1, 2)]), ("2024-01-02",)),
            (pa.array(["x", "y"], pa.large_string()), ("x", "y")),
        ):
            taxonomy = FlatTaxonomy().build(values)
            assert taxonomy.leaf_labels == labels
            assert sorted(taxonomy.encode(values).tolist()) == list(range(len(labels)))

    def test_declared_values_keep_their_order(self) -> None:
        taxonomy = FlatTaxonomy.model_validate(["low", "high", 3, True]).build(NOTHING)
        assert taxonomy.leaf_labels == ("low", "high", "3", "true")
        assert taxonomy.declared
        assert taxonomy.encode(pa.array(["high", "other"])).tolist() == [1, -1]
        assert taxonomy.label(0, 2) == "{low, high}"

    def test_refusals(self) -> None:
        with pytest.raises(TaxonomyError, match="'a' is listed twice"):
            FlatTaxonomy(values=("a", "a"))
        with pytest.raises(TaxonomyError, match="empty"):
            FlatTaxonomy(values=())
        with pytest.raises(TaxonomyError, match="all are missing"):
            FlatTaxonomy().build(pa.array([None, None]))

    def test_blank_texts_and_stars_stay_apart(self) -> None:
        taxonomy = FlatTaxonomy().build(pa.array(["", '""', "*", " "]))
        assert len(set(taxonomy.labels)) == 5
        assert taxonomy.labels[taxonomy.root] == "(*)"
        leaf = int(taxonomy.encode(pa.array([""]))[0])
        assert taxonomy.label(leaf, leaf + 1) == '""""'
        assert taxonomy.cover(leaf, leaf + 1) == {"values": [""]}


class TestNumbers:
    def test_ranges_have_round_ends_and_are_open_at_the_outermost(self) -> None:
        ages = NumbersTaxonomy().build(pa.array([90, 17, 20, 30, 65]))
        assert ages.leaf_labels == ("17", "20", "30", "65", "90")
        assert (ages.label(0, 2), ages.cover(0, 2)) == ("<= 24", {"from": None, "below": 25})
        assert (ages.label(1, 3), ages.cover(1, 3)) == ("[20, 34]", {"from": 20, "below": 35})
        assert (ages.label(3, 5), ages.cover(3, 5)) == (">= 50", {"from": 50, "below": None})
        assert (ages.label(0, 1), ages.cover(0, 1)) == ("17", {"from": 17, "below": 18})
        assert (ages.label(0, 5), ages.cover(0, 5)) == ("*", {"any": True})
        assert not ages.declared

    def test_decimals_in_groups_of_whole_width_keep_decimal_ends(self) -> None:
        """The verifier takes whole ends for whole numbers, of which [-1, 0) would be written [-1, -1]."""
        lengths = NumbersTaxonomy().build(pa.array([-2.5, -0.75, -0.25, 0.5, 3.25]))
        low, below = lengths.cover(1, 3).values()
        assert (lengths.label(1, 3), low, below) == ("[-1, 0)", -1, 0)
        assert (type(low), type(below)) == (float, float)

    def test_with_missing_values(self) -> None:
        ages = NumbersTaxonomy().build(pa.array([17, 20, 30])).with_missing()
        assert (ages.label(1, 4), ages.cover(1, 4)) == (
            "{>= 20, missing}",
            {"from": 20, "below": None, "missing": True},
        )
        assert (ages.label(0, 3), ages.cover(0, 3)) == ("(not missing)", {"from": None, "below": None})
        assert ages.positions is not None
        assert ages.positions[:3].tolist() == [17, 20, 30]
        assert np.isnan(ages.positions[3])

    def test_text_and_floats_that_are_whole(self) -> None:
        ages = NumbersTaxonomy().build(pa.array(["17", "20.0", "x"]))
        assert ages.leaf_labels == ("17", "20")
        assert ages.encode(pa.array(["17.0", "20", "x", "18", None])).tolist() == [0, 1, -1, -1, -1]
        assert ages.encode(pa.array([17.0, 17.5, np.nan, np.inf])).tolist() == [0, -1, -1, -1]
        assert ages.encode(pa.array([Decimal("17.0"), Decimal("17.5")])).tolist() == [0, -1]
        assert ages.encode(pa.array([2**64 - 1, 17], pa.uint64())).tolist() == [-1, 0]
        assert ages.encode(pa.array([True])).tolist() == [-1]

    def test_large_numbers_in_text_keep_all_digits(self) -> None:
        values = pa.array(["9007199254740993", "9007199254740992"])
        taxonomy = NumbersTaxonomy().build(values)
        assert taxonomy.encode(values).tolist() == [1, 0]


class TestIntervals:
    def test_whole_numbers(self) -> None:
        ages = IntervalsTaxonomy(min=0, max=120, widths=(20, 5, 10)).build(NOTHING)
        assert ages.n_leaves == 121
        assert children_of_root(ages)[:2] == ["[0, 19]", "[20, 39]"]
        assert ages.height == 4
        assert (ages.label(20, 25), ages.cover(20, 25)) == ("[20, 24]", {"from": 20, "below": 25})
        assert (ages.label(120, 121), ages.cover(120, 121)) == ("120", {"from": 120, "below": 121})
        assert ages.encode(pa.array([0, 120, 121, -1])).tolist() == [0, 120, -1, -1]
        assert ages.encode(pa.array(["17", "17.0", "17.5", "?"])).tolist() == [17, 17, -1, -1]
        assert ages.declared

    def test_the_last_interval_is_cut_at_the_maximum(self) -> None:
        ages = IntervalsTaxonomy(min=0, max=17, widths=(5, 10)).build(NOTHING)
        assert children_of_root(ages) == ["[0, 9]", "[10, 17]"]
        assert ages.label(15, 18) == "[15, 17]"

    def test_open_ends(self) -> None:
        ages = IntervalsTaxonomy(min=18, max=89, widths=(10,), origin=0, open="both").build(NOTHING)
        assert children_of_root(ages)[:3] == ["< 18", "[18, 19]", "[20, 29]"]
        assert children_of_root(ages)[-1] == "> 89"
        assert ages.encode(pa.array([17, 18, 89, 90, -5, 200])).tolist() == [0, 1, 72, 73, 0, 73]
        assert (ages.label(0, 3), ages.cover(0, 3)) == ("<= 19", {"from": None, "below": 20})
        assert (ages.label(71, 74), ages.cover(71, 74)) == (">= 88", {"from": 88, "below": None})
        assert ages.cover(0, 1) == {"from": None, "below": 18}
        assert ages.cover(73, 74) == {"from": 90, "below": None}
        assert ages.positions is not None
        assert ages.positions[[0, 1, 72, 73]].tolist() == [17, 18, 89, 90]

    def test_decimals_are_half_open_but_for_the_maximum(self) -> None:
        weight = IntervalsTaxonomy(min=0, max=1, widths=(0.1, 0.5)).build(NOTHING)
        assert weight.leaf_labels[2:4] == ("[0.2, 0.3)", "[0.3, 0.4)")
        assert children_of_root(weight) == ["[0, 0.5)", "[0.5, 1]"]
        assert weight.encode(pa.array([0.3, 0.29999, 1.0, 1.0001, -0.1])).tolist() == [3, 2, 9, -1, -1]
        assert weight.encode(pa.array(["0.3", ".5", "1e-1", "1"])).tolist() == [3, 5, 1, 9]
        cover = weight.cover(9, 10)
        assert cover["from"] == 0.9
        assert 1.0 < cover["below"] < 1.0001
        assert weight.label(8, 10) == "[0.8, 1]"
        assert weight.label(1, 3) == "[0.1, 0.3)"

    def test_decimals_with_open_ends(self) -> None:
        weight = IntervalsTaxonomy(min=0.5, max=2.5, widths=(0.5,), open="both").build(NOTHING)
        assert weight.leaf_labels == ("< 0.5", "[0.5, 1)", "[1, 1.5)", "[1.5, 2)", "[2, 2.5]", "> 2.5")
        assert weight.encode(pa.array([0.4, 2.5, 2.6])).tolist() == [0, 4, 5]
        assert weight.label(0, 2) == "< 1"
        assert weight.label(0, 5) == "<= 2.5"
        assert weight.label(3, 6) == ">= 1.5"

    @pytest.mark.parametrize(
        ("declared", "message"),
        [
            ({"min": 0, "max": 9, "widths": [4, 10]}, "widths 4 and 10 do not nest"),
            ({"min": 0, "max": 9, "widths": [0.3, 1.0]}, "widths 0.3 and 1 do not nest"),
            ({"min": 9, "max": 0}, "must be above min"),
            ({"min": 1.0, "max": 1.0, "widths": [1]}, "must be above min"),
            ({"min": 0.0, "max": 1}, "need widths"),
            ({"min": 0, "max": 9, "widths": [0]}, "above 0"),
            ({"min": 0, "max": 9, "step": 4, "widths": [2]}, "below the step"),
            ({"min": 0, "max": 2_000_000}, "larger step, such as step: 5"),
            ({"min": 0, "max": 10**30}, "within"),
        ],
    )
    def test_refusals(self, declared: dict[str, Any], message: str) -> None:
        with pytest.raises(TaxonomyError, match=message):
            IntervalsTaxonomy.model_validate(declared)


class TestGroupsAndTree:
    def test_groups_keep_their_order_and_nest(self) -> None:
        taxonomy = GroupsTaxonomy.model_validate(
            {"low": ["none", "primary"], "high": {"school": ["middle"], "college": {}}}
        ).build(NOTHING)
        assert taxonomy.leaf_labels == ("none", "primary", "middle", "college")
        assert children_of_root(taxonomy) == ["low", "high"]
        assert taxonomy.label(1, 3) == "{primary, middle}"

    def test_numbers_under_intervals_are_numbers(self) -> None:
        taxonomy = GroupsTaxonomy.model_validate({"0-2": [0, 1, 2], "3+": [3, 4]}).build(NOTHING)
        assert taxonomy.scale.kind == "number"
        assert taxonomy.label(1, 4) == "[1, 3]"
        assert taxonomy.encode(pa.array([3, 5])).tolist() == [3, -1]

    @pytest.mark.parametrize("groups", [("few", "many"), ("1", "2"), ("22 Health", "23 Law"), ("[0, 3]", "[4, 9]")])
    def test_codes_under_other_groups_are_categories(self, groups: tuple[str, str]) -> None:
        """The last pair are intervals that do not have just their leaves."""
        taxonomy = GroupsTaxonomy.model_validate(dict(zip(groups, [[10, 11], [12, 13]], strict=True))).build(NOTHING)
        assert taxonomy.scale.kind == "category"
        assert taxonomy.positions is None
        assert taxonomy.encode(pa.array([12, 14])).tolist() == [2, -1]

    def test_a_tree_has_one_root(self) -> None:
        with pytest.raises(TaxonomyError, match="2 roots, among them 'a' and 'b'"):
            TreeTaxonomy.model_validate({"a": ["x"], "b": ["y"]}).build(NOTHING)
        with pytest.raises(TaxonomyError, match="group 'a' has no values"):
            GroupsTaxonomy.model_validate({"a": []}).build(NOTHING)
        with pytest.raises(TaxonomyError, match="'a' has one value"):
            GroupsTaxonomy.model_validate({"a": "x"}).build(NOTHING)


class TestDates:
    def test_levels(self) -> None:
        taxonomy = DatesTaxonomy(min=datetime.date(2023, 1, 1), max=datetime.date(2024, 12, 31)).build(NOTHING)
        assert taxonomy.n_leaves == 731
        assert children_of_root(taxonomy) == ["2023", "2024"]
        assert taxonomy.labels[taxonomy.node_at(2)[364]] == "2023-Q4"
        assert taxonomy.labels[taxonomy.node_at(1)[365 + 59]] == "2024-02"
        assert taxonomy.cover(365, 365 + 31) == {"from": "2024-01-01", "below": "2024-02-01"}
        assert taxonomy.label(364, 366) == "[2023-12-31, 2024-01-01]"
        assert taxonomy.declared

    def test_undeclared_ends_are_whole_years_and_open(self) -> None:
        taxonomy = DatesTaxonomy(levels=("year",)).build(pa.array(["2019-03-31", "2020-07-01", "x", None]))
        assert taxonomy.n_leaves == 365 + 366
        assert (taxonomy.label(0, 90), taxonomy.cover(0, 90)) == (
            "<= 2019-03-31",
            {"from": None, "below": "2019-04-01"},
        )
        assert (taxonomy.label(366, 731), taxonomy.cover(366, 731)) == (
            ">= 2020-01-02",
            {"from": "2020-01-02", "below": None},
        )
        assert (taxonomy.label(0, 365), taxonomy.cover(0, 365)) == (
            "2019",
            {"from": "2019-01-01", "below": "2020-01-01"},
        )
        assert not taxonomy.declared

    @pytest.mark.parametrize(
        "values",
        [
            pa.array(["2024-03-05", "2024-03-06"]),
            pa.array(["2024-03-05T10:30:00Z", "2024-03-06 00:00"]),
            pa.array([datetime.date(2024, 3, 5), datetime.date(2024, 3, 6)]),
            pa.array([datetime.date(2024, 3, 5), datetime.date(2024, 3, 6)], pa.date64()),
            pa.array([datetime.datetime(2024, 3, 5, 23, 59), datetime.datetime(2024, 3, 6)]),
            pa.array([datetime.datetime(2024, 3, 5, 23), datetime.datetime(2024, 3, 6)], pa.timestamp("ns", "UTC")),
        ],
    )
    def test_column_types(self, values: pa.Array) -> None:
        taxonomy = DatesTaxonomy().build(values)
        codes = taxonomy.encode(values)
        assert [taxonomy.labels[code] for code in codes] == ["2024-03-05", "2024-03-06"]

    def test_formats_and_dates_that_are_none(self) -> None:
        taxonomy = DatesTaxonomy(format="%d.%m.%Y").build(pa.array(["05.03.2024", "6.3.2024"]))
        codes = taxonomy.encode(pa.array(["05.03.2024", "6.3.2024", "30.02.2024", "2024-03-05"]))
        assert [taxonomy.labels[code] for code in codes[:2]] == ["2024-03-05", "2024-03-06"]
        assert codes[2:].tolist() == [-1, -1]
        assert taxonomy.scale.reading() == {"format": "%d.%m.%Y"}
        iso = DatesTaxonomy(min="2024-01-01", max="2024-12-31").build(NOTHING)
        assert iso.scale.reading() == {}
        assert iso.encode(pa.array(["2024-02-30", "2024-2-3", "", "2025-01-01"])).tolist() == [-1] * 4

    def test_refusals(self) -> None:
        with pytest.raises(TaxonomyError, match="before min"):
            DatesTaxonomy(min="2024-01-02", max="2024-01-01")
        with pytest.raises(TaxonomyError, match="reads as a date"):
            DatesTaxonomy().build(pa.array(["x"]))
        with pytest.raises(TaxonomyError, match="closer together"):
            DatesTaxonomy().build(pa.array(["0001-01-01", "9999-01-01"]))
        with pytest.raises(ValidationError, match="week"):
            DatesTaxonomy.model_validate({"levels": ["week"]})


class TestMask:
    def test_tails_are_masked_one_by_one(self) -> None:
        places = MaskTaxonomy(length=5).build(pa.array(["47110", "47119", "47200", "1234", "x*345", "abcdef"]))
        assert places.leaf_labels == ("47110", "47119", "47200")
        assert places.height == 5
        assert [places.labels[places.node_at(height)[0]] for height in range(6)] == [
            "47110",
            "4711*",
            "471**",
            "47***",
            "4****",
            "*",
        ]
        assert places.label(1, 3) == ">= 47119"
        assert places.cover(1, 3) == {"from": "47119", "through": None}
        assert places.cover(0, 2) == {"prefixes": ["4711"]}
        assert places.encode(pa.array(["47119", "1234", "x*345"])).tolist() == [1, -1, -1]
        assert not places.declared

    def test_codes_of_any_length_are_grouped_by_how_they_begin(self) -> None:
        tree = MaskTaxonomy().build(pa.array(["E11", "E11.9", "E11.65", "E119", "I10", None, ""]))
        assert set(tree.labels) - set(tree.leaf_labels) >= {"E*", "E11*", "E11.6*", "I*", "*"}
        assert "E11.*" not in tree.labels  # the point alone makes no group
        assert tree.cover(0, 4) == {"prefixes": ["E11"]}
        assert tree.cover(0, 1) == {"values": ["E11"]}  # and none of the codes below it
        assert tree.encode(pa.array(["E119", "E1", "x"])).tolist() == [3, -1, -1]
        assert MaskTaxonomy(keep=(3, 1)).build(pa.array([25, 2512, 251, 31])).labels[4:] == ("251*", "2*", "3*", "*")

    def test_no_label_tells_the_smallest_or_largest_text(self) -> None:
        places = MaskTaxonomy(length=3).build(pa.array(["104", "217", "333", "902"]))
        assert [places.label(*ends) for ends in ((0, 2), (1, 3), (2, 4))] == ["<= 217", "[217, 333]", ">= 333"]
        assert places.cover(0, 2) == {"from": None, "through": "217"}
        with_missing = places.with_missing()
        assert "104" not in with_missing.label(0, 4)
        assert with_missing.cover(0, 4) == {"from": None, "through": None}

    def test_declared_digits(self) -> None:
        places = MaskTaxonomy(length=3, alphabet="digits").build(NOTHING)
        assert places.n_leaves == 1000
        assert places.declared
        assert places.encode(pa.array(["047", "04x"])).tolist() == [47, -1]
        assert places.label(40, 50) == "04*"
        assert places.label(35, 50) == "[035, 049]"
        long = MaskTaxonomy(length=9, alphabet="digits").build(pa.array(["123456789", "12345678x"]))
        assert long.leaf_labels == ("123456789",)
        assert not long.declared

    def test_refusals(self) -> None:
        with pytest.raises(TaxonomyError, match="keep has 7"):
            MaskTaxonomy(length=5, keep=(7,))
        with pytest.raises(TaxonomyError, match="a digit cannot mask"):
            MaskTaxonomy(length=5, alphabet="digits", character="0")
        with pytest.raises(TaxonomyError, match="exactly 5 characters"):
            MaskTaxonomy(length=5).build(pa.array(["1"]))


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (pa.array(["1", "2", None]), "numbers"),
        (pa.array(["01067", "10115"]), "flat"),
        (pa.array(["2024-02-29"]), "dates"),
        (pa.array([True]), "flat"),
        (pa.array(["a"]).dictionary_encode(), "flat"),
        (pa.array([1], pa.uint8()), "numbers"),
        (pa.array([1.0, None, 2.0]), "numbers"),
        (pa.array([datetime.date(2024, 1, 1)]), "dates"),
        (pa.array([datetime.datetime(2024, 1, 1)]), "dates"),
    ],
)
def test_default_builders(values: pa.Array, name: str) -> None:
    assert default_builder(values.type, values).name == name


def test_decimals_are_numbers() -> None:
    for values in (pa.array([1.5]), pa.array([Decimal("1.5")]), pa.array(["1.5", "2"])):
        assert default_builder(values.type, values).name == "numbers"


def test_round_ends_of_decimals_are_written_as_they_are() -> None:
    """Such an end is excluded, and the last decimal before it would read 18999.999999999996."""
    numbers = NumbersTaxonomy().build(pa.array([5.5, 12000.75, 18999.25, 19000.0, 23000.5]))
    labels = {numbers.label(lo, hi) for hi in range(1, 6) for lo in range(hi)}
    assert {"< 19000", "[12000, 19000)"} <= labels
    assert not [label for label in labels if "999999" in label]

"""Plots: what is drawn is what the table tells, whatever the names are."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.reports.frontier import Point, frontier
from shoal.reports.plots import (
    Plot,
    associations,
    attack_risks,
    class_sizes,
    column_changes,
    histogram,
    plot_style,
    risks,
    sensitive_shares,
)
from shoal.reports.svg import TEXT, text_width

HALVES = {"unchanged": 0.5, "generalized": 0.25, "suppressed": 0.25}
SVG = "{http://www.w3.org/2000/svg}"
BEFORE = [{"from": 1, "to": 1, "classes": 8, "records": 8}, {"from": 2, "to": 3, "classes": 1, "records": 2}]
AFTER = [{"from": 1, "to": 1, "classes": 0, "records": 0}, {"from": 4, "to": 7, "classes": 2, "records": 10}]
RISK_KEYS = (
    "records",
    "classes",
    "smallest_class",
    "unique_records",
    "prosecutor_highest",
    "prosecutor_mean",
    "marketer",
)
RISK_BEFORE = dict(zip(RISK_KEYS, (10, 9, 1, 8, 1.0, 0.9, 0.9), strict=True))
RISK_AFTER = dict(zip(RISK_KEYS, (10, 2, 5, 0, 0.2, 0.2, 0.2), strict=True))


def attack(name: str, value: float, low: float, high: float) -> dict[str, Any]:
    return {"name": name, "risk": {"value": value, "low": low, "high": high}}


def of_name(name: str) -> list[Plot]:
    """Return every kind of plot with a name in all places that take one."""
    return [
        class_sizes(BEFORE, AFTER),
        risks(RISK_BEFORE, RISK_AFTER),
        column_changes({name: HALVES, "b": HALVES}),
        sensitive_shares(name, [{"value": name, "whole": 0.2, "lowest": 0.1, "highest": 0.4}]),
        associations([{"pair": [name, "b"], "before": 0.8, "after": 0.3}]),
        frontier([Point(name, 0.1, 0.8, href=name, rank=1), Point("b", 0.2, 0.7, dominated=True)]),
        attack_risks([attack(name, 0.1, -0.2, 0.3)]),
        histogram([name, "b"], [3, 5], title=name, head=name),
    ]


def marks(plot: Plot, tag: str, kind: str) -> list[dict[str, str]]:
    found = ElementTree.fromstring(plot.drawing).iter(f"{SVG}{tag}")
    return [dict(each.attrib) for each in found if each.get("class") == kind]


def bars(plot: Plot, kind: str) -> list[float]:
    """Return the lengths of bars, without the swatch of the legend, which is 14 by 10 at the top."""
    found = marks(plot, "rect", kind)
    return [float(bar["width"]) for bar in found if not (bar["width"] == "14" and float(bar["y"]) < 20)]


def check_form(plot: Plot) -> None:
    svg = ElementTree.fromstring(plot.drawing)
    width, height = map(float, svg.attrib["viewBox"].split()[2:])
    named = svg.attrib["aria-labelledby"].split()
    by_id = {each.attrib["id"]: each for each in svg if "id" in each.attrib}
    assert [by_id[name].tag for name in named] == [f"{SVG}title", f"{SVG}desc"]
    for each in svg.iter():
        assert "style" not in each.attrib
        assert each.tag.removeprefix(SVG) not in ("style", "script")
        for key, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("cy", height)):
            assert 0 <= float(each.get(key, "0")) <= limit
        if each.tag == f"{SVG}text":
            words = (each[0].tail if len(each) else each.text) or ""
            left = {"end": 1.0, "middle": 0.5}.get(each.get("text-anchor", "start"), 0.0)
            start = float(each.attrib["x"]) - left * text_width(words)
            assert start >= -0.1
            assert start + text_width(words) <= width + 0.1
    ElementTree.fromstring(f"<div>{plot.figure()}</div>")
    ElementTree.fromstring(plot.standalone().encode())
    assert all(len(row) == len(plot.heads) for row in plot.rows)


@pytest.mark.parametrize("place", range(8))
@pytest.mark.parametrize(
    "name",
    ["age", '<script>alert("1")</script>', "x" * 300, "", "\x00\ud800", "年齢" * 40],
    ids=["short", "script", "long", "empty", "not XML", "wide"],
)
def test_any_name_gives_a_valid_drawing_that_stays_in_its_box(name: str, place: int) -> None:
    plot = of_name(name)[place]
    check_form(plot)
    assert "<script" not in plot.figure() + plot.standalone()


@given(name=st.text(max_size=80))
def test_weird_names(name: str) -> None:
    for plot in of_name(name):
        check_form(plot)


def test_a_long_name_is_cut_and_told_whole() -> None:
    name = "the attribute of an attribute " * 4
    plot = column_changes({name: HALVES})
    label = next(
        each for each in ElementTree.fromstring(plot.drawing).iter(f"{SVG}text") if "…" in "".join(each.itertext())
    )
    assert label[0].text == name.strip()
    assert plot.rows == ((name, "50%", "25%", "25%"),)


def test_bars_of_class_sizes_are_as_long_as_their_records() -> None:
    plot = class_sizes(BEFORE, AFTER)
    before, after = bars(plot, "plot-before"), bars(plot, "plot-after")
    unit = max(after) / 10
    assert before == pytest.approx([8 * unit, 2 * unit, 0], abs=0.1)
    assert after == pytest.approx([0, 0, 10 * unit], abs=0.1)
    assert plot.heads == ("size of the class", "classes before", "records before", "classes after", "records after")
    assert plot.rows == (("1", "8", "8", "0", "0"), ("2 to 3", "1", "2", "0", "0"), ("4 to 7", "0", "0", "2", "10"))
    assert "8 of 10 records (80%) are alone" in plot.description
    assert "After, no record is alone in its class; most (100%) are in classes of 4 to 7." in plot.description


def test_risks_are_drawn_on_a_scale_to_one() -> None:
    plot = risks(RISK_BEFORE, RISK_AFTER)
    before, after = bars(plot, "plot-before"), bars(plot, "plot-after")
    assert after == pytest.approx([before[0] * share for share in (0.2, 0.2, 0.2, 0)], abs=0.1)
    assert before[1:] == pytest.approx([before[0] * share for share in (0.9, 0.9, 0.8)], abs=0.1)
    assert ("smallest class", "1", "5") in plot.rows
    assert ("share of uniques", "80%", "0%") in plot.rows
    assert "1 record before and 5 records after" in plot.description


def test_the_parts_of_a_column_make_one_bar() -> None:
    exact = {"unchanged": 1.0, "generalized": 0.0, "suppressed": 0.0}
    plot = column_changes({"sex": exact, "age": HALVES}, rows_suppressed=3)
    assert plot.rows == (("sex", "100%", "0%", "0%"), ("age", "50%", "25%", "25%"))
    whole, half = bars(plot, "plot-after")
    (quarter,), (hidden,) = bars(plot, "plot-before"), bars(plot, "plot-worse")
    assert [half, quarter, hidden] == pytest.approx([whole / 2, whole / 4, whole / 4], abs=0.1)
    assert plot.description == "Suppressed: age 25%. 3 rows have every quasi-identifier suppressed."


def test_the_range_of_a_value_lies_around_its_share() -> None:
    plot = sensitive_shares("illness", [{"value": "flu", "whole": 0.2, "lowest": 0.1, "highest": 0.4}])
    across = marks(plot, "line", "plot-range")[1]
    corner = float(marks(plot, "polygon", "plot-before")[1]["points"].split()[0].split(",")[0])
    low, high = float(across["x1"]), float(across["x2"])
    assert corner == pytest.approx(low + (high - low) / 3, abs=0.1)
    assert plot.rows == (("flu", "20%", "10%", "40%"),)


POINTS = [
    Point("a", 0.1, 0.5, rank=2),
    Point("b", 0.3, 0.9, rank=1, href="#b"),
    Point("c", 0.2, 0.4, dominated=True, rank=3, risk_low=0.1, risk_high=0.25),
]


def test_the_frontier_goes_through_what_nothing_dominates() -> None:
    plot = frontier(POINTS)
    full, hollow = marks(plot, "circle", "plot-after"), marks(plot, "circle", "plot-worse")
    assert (len(full), len(hollow)) == (2, 1)
    path = [
        tuple(map(float, corner.split(","))) for corner in marks(plot, "polyline", "plot-frontier")[0]["points"].split()
    ]
    assert path == sorted((float(mark["cx"]), float(mark["cy"])) for mark in full)
    assert path[0][1] > path[1][1]  # less is kept where there is less risk, and y goes down
    assert path[0][0] < float(hollow[0]["cx"]) < path[1][0]
    whisker = marks(plot, "line", "plot-thin")[0]
    assert float(whisker["x1"]) == pytest.approx(path[0][0], abs=0.1)
    assert float(whisker["y1"]) == float(hollow[0]["cy"])
    assert [row[0] for row in plot.rows] == ["b", "a", "c"]
    assert plot.rows[2] == ("c", "20% (10% to 25%)", "40%", "dominated")


shares = st.floats(0, 1)


@given(places=st.lists(st.tuples(shares, shares, st.booleans()), max_size=30))
def test_labels_of_the_frontier_cover_nothing(places: list[tuple[float, float, bool]]) -> None:
    plot = frontier([Point(f"release {n}", risk, kept, dominated=d) for n, (risk, kept, d) in enumerate(places)])
    check_form(plot)
    svg = ElementTree.fromstring(plot.drawing)
    circles = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in svg.iter(f"{SVG}circle")]
    assert len(circles) == len(places) == len(plot.rows)
    boxes = []
    for label in svg.iter(f"{SVG}text"):
        if label.get("class") == "plot-label":
            x, y = float(label.attrib["x"]), float(label.attrib["y"])
            boxes.append((x, y - TEXT + 2.5, x + text_width(label.text or ""), y + 2.5))
    for one, other in combinations(boxes, 2):
        assert (
            one[2] <= other[0] + 0.2 or other[2] <= one[0] + 0.2 or one[3] <= other[1] + 0.2 or other[3] <= one[1] + 0.2
        )
    for x, y in circles:
        assert all(x + 5.5 <= b[0] or x - 5.5 >= b[2] or y + 5.5 <= b[1] or y - 5.5 >= b[3] for b in boxes)


def test_a_figure_has_its_table() -> None:
    figure = ElementTree.fromstring(histogram(["a"], [1234], title="age").figure())
    cells = ["".join(each.itertext()) for each in figure.iter() if each.tag in ("th", "td")]
    assert cells == ["value", "records", "a", "1,234"]
    assert [each.tag for each in figure] == [f"{SVG}svg", "figcaption", "details"]


def test_equal_plots_are_equal_and_others_have_other_names() -> None:
    def name(plot: Plot) -> str:
        return ElementTree.fromstring(plot.drawing).attrib["aria-labelledby"]

    assert histogram(["a"], [1]) == histogram(["a"], [1])
    assert name(histogram(["a"], [1])) != name(histogram(["a"], [2]))


@pytest.mark.parametrize("make", [lambda plot: plot.figure(), lambda plot: plot.standalone()], ids=["page", "file"])
def test_every_class_of_a_mark_has_a_look(make: Callable[[Plot], str]) -> None:
    used = {name for plot in of_name("age") for name in re.findall(r'class="(plot-[a-z]+)', make(plot))}
    assert used >= {"plot-before", "plot-after", "plot-worse", "plot-range", "plot-hollow"}
    rules = plot_style() if make(of_name("age")[0]).startswith("<figure") else of_name("age")[0].standalone()
    assert not {name for name in used if f".{name} " not in rules}
    assert "var(" not in of_name("age")[0].standalone()

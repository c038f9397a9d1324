"""Noise, rounding and coding: what they do with single numbers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shoal.columns.base import NumberDomain, Technique, find_domain, treat
from shoal.columns.coding import Coding
from shoal.columns.noise import Noise
from shoal.columns.rounding import Rounding
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy


def done(technique: Technique, values: object, domain: NumberDomain | None = None, seed: int = 7) -> list[object]:
    source = open_source(pa.table({"x": values}), SourceOptions())
    domains = {} if domain is None else {"x": domain}
    table = pa.Table.from_batches(treat({"x": technique}, source, Chance.of(seed), domains).batches())
    return table["x"].to_pylist()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "either laplace"),
        ({"laplace": {"scale": 1}, "gaussian": {"sd": 1}}, "either laplace"),
        ({"laplace": {"scale": 0}}, "greater than 0"),
        ({"laplace": {"scale": -1}}, "greater than 0"),
        ({"gaussian": {"sd": float("inf")}}, "finite"),
        ({"laplace": {"scale": float("nan")}}, "finite|greater"),
        ({"laplace": {"scale": 1}, "min": 0, "max": 9}, "give edges: clamp"),
        ({"laplace": {"scale": 1}, "max": 9}, "give edges: clamp"),
        ({"laplace": {"scale": 1}, "min": 9, "max": 9, "edges": "clamp"}, "must be above"),
        ({"laplace": {"scale": 0.5}}, "less than one step"),
        ({"laplace": {"scale": 1e9}, "decimals": 9}, "too wide"),
        ({"laplace": {"scale": 100}, "min": 0, "max": 9, "edges": "redraw"}, "hardly ever stay"),
        ({"gaussian": {"sd": 37}, "min": 0, "max": 9, "edges": "clamp"}, "leave little of the values"),
        ({"gaussian": {"sd": 37}, "min": 0, "max": 9, "edges": "reflect"}, "leave little of the values"),
        ({"laplace": {"scale": 1}, "decimals": 10}, "less than or equal"),
    ],
)
def test_noise_that_makes_no_sense_is_refused(parameters: dict[str, object], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        Noise(**parameters)


def test_the_domain_of_the_taxonomy_is_that_of_the_noise() -> None:
    domain = find_domain(IntervalsTaxonomy(min=0, max=3))
    for edges in ("clamp", "reflect", "redraw"):
        noisy = done(Noise(laplace={"scale": 3}, edges=edges), [0, 1, 2, 3] * 300, domain)
        assert set(noisy) == {0, 1, 2, 3}
    with pytest.raises(PolicyError, match="max 4 is above 3"):
        done(Noise(laplace={"scale": 3}, max=4, edges="clamp"), [0], domain)
    with pytest.raises(PolicyError, match="min -1 is below 0"):
        done(Noise(laplace={"scale": 3}, min=-1, edges="clamp"), [0], domain)


def test_edges_without_a_domain_are_refused() -> None:
    with pytest.raises(PolicyError, match="edges need a domain"):
        done(Noise(laplace={"scale": 3}, edges="clamp"), [0])


def test_ends_that_are_not_on_the_grid_are_refused() -> None:
    with pytest.raises(PolicyError, match=r"min 0\.5 is not a number of 0 decimals"):
        done(Noise(laplace={"scale": 3}, min=0.5, edges="clamp"), [1])


def test_numbers_outside_the_domain_are_refused_and_not_told() -> None:
    with pytest.raises(InputError, match="2 numbers outside its declared domain") as refusal:
        done(Noise(laplace={"scale": 3}, max=10, edges="clamp"), [1, 777, 888, None])
    assert "777" not in str(refusal.value)


@pytest.mark.parametrize("technique", [Noise(laplace={"scale": 3}), Rounding(base=5), Coding(top=5)])
@pytest.mark.parametrize("values", [["1", "two", None], [1.0, float("inf"), None]])
def test_what_is_no_number_is_refused(technique: Technique, values: list[object]) -> None:
    with pytest.raises(InputError, match="column 'x' has 1 value that cannot be read as a number"):
        done(technique, values)


def test_noise_does_not_depend_on_the_value() -> None:
    """What is added is the same whatever the number, in whole steps: there are no last digits to compare."""
    technique = Noise(laplace={"scale": 4}, decimals=3)
    zero, large = (np.array(done(technique, [base] * 3000), dtype=np.float64) for base in (0.0, 1234.567))
    assert np.array_equal(np.rint(zero * 1000), np.rint(large * 1000) - 1234567)


@given(
    st.lists(st.integers(-20, 20), min_size=1, max_size=40),
    st.sampled_from(["clamp", "reflect", "redraw"]),
    st.sampled_from([(-20, 20), (-20, None), (None, 20)]),
    st.integers(0, 2**32),
)
def test_noise_stays_in_its_domain(
    values: list[int], edges: str, ends: tuple[int | None, int | None], seed: int
) -> None:
    noisy = done(Noise(gaussian={"sd": 25}, min=ends[0], max=ends[1], edges=edges), values, seed=seed)
    assert all((ends[0] is None or x >= ends[0]) and (ends[1] is None or x <= ends[1]) for x in noisy)


def test_edges_do_what_they_say() -> None:
    """The same draws: what stays inside is the same for all three; what leaves is put, turned back or drawn again."""
    values, ends = [5] * 5000, {"min": 0, "max": 10}
    free = np.array(done(Noise(laplace={"scale": 6}), values))
    clamped, reflected, redrawn = (
        np.array(done(Noise(laplace={"scale": 6}, edges=edges, **ends), values))
        for edges in ("clamp", "reflect", "redraw")
    )
    inside = (free >= 0) & (free <= 10)
    for one in (clamped, reflected, redrawn):
        assert np.array_equal(one[inside], free[inside])
    assert np.array_equal(clamped, np.clip(free, 0, 10))
    once = (free > 10) & (free <= 20)
    assert np.array_equal(reflected[once], 20 - free[once])
    assert (redrawn[~inside] % 10 != 0).mean() > 0.5


@pytest.mark.parametrize(
    ("base", "values", "wanted"),
    [
        (5, [0, 2, 3, 7, 8, -2, -3, -7], [0, 0, 5, 5, 10, 0, -5, -5]),
        (10, [5, 15, -5, -15], [10, 20, 0, -10]),
        (0.5, ["0.2", "0.25", "0.7", None], [0.0, 0.5, 0.5, None]),
        (0.1, [0.34, 0.36, 12.04], [0.3, 0.4, 12.0]),
        (0.3, [0.44, 0.46], [0.3, 0.6]),
    ],
)
def test_rounding_goes_to_the_nearest_multiple(base: float, values: list[object], wanted: list[object]) -> None:
    assert done(Rounding(base=base), values) == wanted


def test_shares_put_enough_records_at_the_edge() -> None:
    values = list(range(100))
    coded = done(Coding(shares={"top": 0.05, "bottom": 0.031}), values)
    assert coded.count(95) == 5
    assert coded.count(3) == 4
    ties = done(Coding(shares={"top": 0.01}), [1] * 50 + [2] * 50)
    assert ties.count(2) == 50


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"top": 1, "bottom": 1},
        {"top": 1, "shares": {"top": 0.1}},
        {"shares": {"top": 0}},
        {"shares": {"top": 1.0}},
        {"top": float("nan")},
    ],
)
def test_edges_that_make_no_sense_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Coding(**parameters)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"top": 200}, "column 'x': top 200 is above 120, where the taxonomy ends"),
        ({"bottom": 200}, "column 'x': bottom 200 is above 120, where the taxonomy ends"),
        ({"top": -1}, "column 'x': top -1 is below 0, where the taxonomy begins"),
        ({"top": 1e17}, "column 'x': top 1e\\+17 is too large for 0 decimals"),
    ],
)
def test_edges_outside_the_declared_domain_are_named_as_they_were_given(
    parameters: dict[str, object], said: str
) -> None:
    domain = NumberDomain() if "large" in said else NumberDomain(0, 120)
    with pytest.raises(PolicyError, match=said):
        done(Coding(**parameters), [1, 2, 3], domain)


@pytest.mark.parametrize("edge", ["top", "bottom"])
def test_an_edge_from_the_data_is_not_the_number_of_one_or_two_people(edge: str) -> None:
    numbers = list(range(100))
    with pytest.raises(PolicyError, match=f"column 'x': {edge}: fewer than 3 records would be at the edge"):
        done(Coding(shares={edge: 0.02}), numbers)
    coded = done(Coding(shares={edge: 0.03}), numbers)
    assert coded.count(97 if edge == "top" else 2) == 3
    assert done(Coding(shares={edge: 0.01}), [5, 5, 5]) == [5, 5, 5]  # one number, which all three have

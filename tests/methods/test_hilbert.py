"""Hilbert: the curve, what groups publish, the search for l, and what is said where nothing suffices."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import UnreachableError
from shoal.core.progress import Silent
from shoal.methods.hilbert import Hilbert
from shoal.methods.hilbert.curve import Grid, curve_keys
from shoal.methods.hilbert.line import Line
from shoal.models.base import PrivacyModel
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.models.t_closeness import TCloseness
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.taxonomies.builders.listed import FlatTaxonomy, MaskTaxonomy
from shoal.taxonomies.files import from_nested

LETTERS = from_nested({"any": {"left": ["a", "b", "c"], "right": ["d", "e", "f"]}})


def problem(
    quasi: list[Attribute], codes: Any, values: Any, models: list[PrivacyModel], max_withheld: int = 0
) -> Problem:
    """Every record a cell of its own."""
    columns = [np.asarray(column, dtype=np.uint16) for column in np.asarray(codes).T]
    value = np.asarray(values, dtype=np.int32)
    leaves = [f"v{number}" for number in range(int(value.max()) + 1)]
    sensitive = Attribute("illness", from_nested({"any": leaves}))
    requirements = tuple(
        Requirement(model, i, value, len(leaves), sensitive.taxonomy)
        if model.sees == "values"
        else Requirement(model, i)
        for i, model in enumerate(models)
    )
    cells = Cells((*columns, value), np.ones(len(value), dtype=np.int64))
    return Problem(tuple(quasi), (sensitive,), cells, requirements, max_withheld)


def planned(asked: Problem, seed: int = 1, **parameters: Any) -> Plan:
    return Hilbert(**parameters).plan(asked, np.random.default_rng(seed), Silent())


def histograms(asked: Problem, plan: Plan) -> list[list[int]]:
    classes = plan.assignment.class_of
    return [np.bincount(asked.cells.codes[-1][classes == c]).tolist() for c in range(plan.n_classes)]


def spread(n: int, seed: int = 3, n_values: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, (n, 2)), rng.integers(0, n_values, n)


PAIR = [Attribute("one", LETTERS), Attribute("two", LETTERS)]


def test_the_curve_of_four_by_four_drawn_by_hand() -> None:
    # the unit cell is an open square; quarters are that square turned, as, and turned the other way
    walk = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (0, 3), (1, 3), (1, 2),
            (2, 2), (2, 3), (3, 3), (3, 2), (3, 1), (2, 1), (2, 0), (3, 0)]  # fmt: skip
    assert curve_keys(np.array(walk, dtype=np.uint32), 2)[0].tolist() == list(range(16))


@pytest.mark.parametrize(("d", "bits"), [(2, 1), (2, 5), (3, 3), (4, 2), (5, 2), (8, 1)])
def test_the_curve_visits_every_point_once_and_steps_to_neighbours(d: int, bits: int) -> None:
    points = np.array(list(product(range(1 << bits), repeat=d)), dtype=np.uint32)
    keys = curve_keys(points, bits)[0]
    assert sorted(keys.tolist()) == list(range(len(points)))
    walk = points[np.argsort(keys)].astype(np.int64)
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()


@given(
    st.lists(st.tuples(st.integers(2, 40), st.sampled_from([0.25, 1.0, 2.0, 7.0])), min_size=1, max_size=5),
    st.integers(0, 2**32),
)
def test_different_values_have_different_places(shape: list[tuple[int, float]], seed: int) -> None:
    quasi = [
        Attribute(str(j), from_nested({"any": [f"x{i}" for i in range(leaves)]}), weight)
        for j, (leaves, weight) in enumerate(shape)
    ]
    rng = np.random.default_rng(seed)
    codes = np.unique(np.stack([rng.integers(0, leaves, 60) for leaves, _ in shape], axis=1), axis=0)
    for grid in (Grid.of(quasi), Grid.of_levels(quasi)):
        assert all(int(place.max()) < 1 << grid.bits for place in grid.places)
        keys = grid.keys(list(codes.T))
        assert len(np.unique(keys, axis=1).T) == len(codes)


@pytest.mark.parametrize("labels", ["levels", "ranges"])
def test_values_found_in_the_data_are_never_joined_alphabetically(labels: str) -> None:
    values = ["47109", "47110", "47119", "48000"]
    codes = [[0], [0], [1], [2], [2], [2], [3], [3], [3]]
    listed = FlatTaxonomy(values=tuple(values))
    joined = "{47109, 47110}" if labels == "ranges" else "*"
    for builder, label in ((FlatTaxonomy(), "*"), (MaskTaxonomy(length=5), "471**"), (listed, joined)):
        built = builder.build(pa.array(values))
        plan = planned(problem([Attribute("town", built)], codes, [0] * 9, [KAnonymity(k=3)]), labels=labels)
        shown = {built.label(lo, hi) for lo, hi in zip(plan.lo[:, 0].tolist(), plan.hi[:, 0].tolist(), strict=True)}
        assert shown == {label, "47119", "48000"}


@pytest.mark.parametrize("l", [2, 3, 4])
def test_groups_have_exactly_l_values_where_they_can(l: int) -> None:
    codes, values = spread(120)
    asked = problem(PAIR, codes, values, [SimpleLDiversity(l=l)])
    plan = planned(asked, l=l)
    assert plan.search["l"] == l
    assert plan.search["tried"] == [l]
    assert plan.search["groups"] == plan.n_classes > 3
    assert all(max(counts) * l <= sum(counts) for counts in histograms(asked, plan))


@pytest.mark.parametrize("models", [[SimpleLDiversity(l=3), KAnonymity(k=5)], [EntropyLDiversity(l=3)]])
def test_merged_groups_are_cut_where_both_parts_suffice(models: list[PrivacyModel]) -> None:
    codes, values = spread(600)
    asked = problem(PAIR, codes, values, models)
    line = Line(asked, False, np.random.default_rng(1), by_levels=True)
    merged = line.merge(line.cut(asked.smallest_class))
    cut = line.split(merged, asked.smallest_class)
    assert line.failing(cut) == []
    assert len(cut) > len(merged)
    assert line.loss(cut) < line.loss(merged)
    assert cut.sizes.sum() == len(line)
    again = line.split(cut, asked.smallest_class)
    assert line.loss(again) == line.loss(cut)  # nothing is left to be cut


def test_several_sensitive_attributes_are_all_checked() -> None:
    codes, values = spread(150)
    asked = problem(PAIR, codes, values, [SimpleLDiversity(l=2)])
    other = np.random.default_rng(9).integers(0, 3, 150).astype(np.int32)
    second = Requirement(EntropyLDiversity(l=2), 1, other, 3)
    both = Problem(asked.quasi, asked.sensitive, asked.cells, (*asked.requirements, second))
    plan = planned(both)
    assert plan.search["merged"]
    classes = plan.assignment.class_of
    for number in range(plan.n_classes):
        share = np.bincount(other[classes == number]) / (classes == number).sum()
        share = share[share > 0]
        assert np.exp(-(share * np.log(share)).sum()) >= 2 - 1e-9
    assert all(max(counts) * 2 <= sum(counts) for counts in histograms(both, plan))
    assert plan.n_classes > 1


def test_a_frequent_value_that_forbids_every_l_is_met_by_merging() -> None:
    codes, _ = spread(120)
    values = np.where(np.arange(120) % 3 == 0, 1 + np.arange(120) // 3 % 4, 0)  # two thirds have one value
    asked = problem(PAIR, codes, values, [DistinctLDiversity(l=3)])
    plan = planned(asked)
    assert plan.search["l"] == 1
    assert plan.search["merged"]
    assert plan.n_classes > 1
    assert all(np.count_nonzero(counts) >= 3 for counts in histograms(asked, plan))


def test_a_given_l_is_used() -> None:
    codes, values = spread(120)
    plan = planned(problem(PAIR, codes, values, [SimpleLDiversity(l=2)]), l=4)
    assert plan.search["l"] == 4
    sizes_only = problem(PAIR, codes, values, [KAnonymity(k=4)])
    plan = planned(sizes_only, l=3)
    assert all(max(counts) * 3 <= sum(counts) for counts in histograms(sizes_only, plan))


def test_a_given_l_that_the_table_forbids_is_refused() -> None:
    codes, values = spread(120)
    most = 120 // int(np.bincount(values).max())
    with pytest.raises(UnreachableError, match=f"l = 6.*at most l = {most}"):
        planned(problem(PAIR, codes, values, [SimpleLDiversity(l=2)]), l=6)


def test_what_only_the_whole_table_meets_is_refused_with_what_it_reaches() -> None:
    codes, values = spread(121)
    with pytest.raises(UnreachableError, match=r"t-closeness leaves no two groups.*reaches 0\.\d+, so ask for more"):
        planned(problem(PAIR, codes, values, [TCloseness(t=0.001)]))


def test_populations_and_an_l_without_sensitive_values_are_refused() -> None:
    asked = problem(PAIR, [[0, 0]], [0], [KAnonymity(k=1)])
    counted = Requirement(KAnonymity(k=1), 0, population=np.ones(1, dtype=np.int64))
    assert Hilbert(l=2).refuses(asked) is None
    bare = Problem(asked.quasi, (), asked.cells, asked.requirements)
    assert "no sensitive attribute" in str(Hilbert(l=2).refuses(bare))
    assert "population" in str(Hilbert().refuses(Problem(asked.quasi, (), asked.cells, (counted,))))


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 4), st.sampled_from(["levels", "ranges"]))
def test_whatever_the_table_every_class_covers_its_records_and_keeps_its_promises(
    seed: int, k: int, l: int, labels: str
) -> None:
    rng = np.random.default_rng(seed)
    n_cells, d, n_values = int(rng.integers(1, 50)), int(rng.integers(1, 4)), int(rng.integers(l, 7))
    table = np.unique(np.column_stack([rng.integers(0, 6, (n_cells, d)), rng.integers(0, n_values, n_cells)]), axis=0)
    value, counts = table[:, d].astype(np.int32), rng.integers(1, 5, len(table))
    quasi = tuple(Attribute(str(j), LETTERS, float(rng.choice([0.5, 1.0, 3.0]))) for j in range(d))
    cells = Cells((*table.T[:d].astype(np.uint8), value), counts)
    sensitive = (Attribute("illness", from_nested({"any": [f"v{i}" for i in range(n_values)]})),)
    asked = Problem(
        quasi,
        sensitive,
        cells,
        (Requirement(KAnonymity(k=k), 0), Requirement(SimpleLDiversity(l=l), 1, value, n_values)),
    )
    total = np.bincount(value, weights=counts)
    if total.sum() < k or total.max() * l > total.sum():
        with pytest.raises(UnreachableError):
            planned(asked, labels=labels)
        return
    plan = planned(asked, labels=labels)
    cell, target, records = plan.assignment.pieces(counts)
    assert plan.n_withheld == 0
    assert np.bincount(cell, weights=records).tolist() == counts.tolist()
    assert (plan.lo[target] <= table[cell, :d]).all()
    assert (table[cell, :d] < plan.hi[target]).all()
    for number in range(plan.n_classes):
        inside = np.bincount(value[cell[target == number]], weights=records[target == number])
        assert inside.sum() == plan.sizes[number] >= k
        assert inside.max() * l <= inside.sum()

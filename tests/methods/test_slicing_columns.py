"""Which attributes share a column, and what a column's values are: correlations, partitions, regions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import PolicyError
from shoal.core.progress import Silent
from shoal.methods.base import Labels
from shoal.methods.slicing import attributes
from shoal.methods.slicing.attributes import correlations, partition_attributes
from shoal.methods.slicing.parts import exact, regions
from shoal.plan.cells import Cells
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.tree import Taxonomy

LETTERS = from_nested({"any": {"left": ["a", "b", "c"], "right": ["d", "e", "f"]}})


def years(n: int) -> Taxonomy:
    return IntervalsTaxonomy(min=0, max=n - 1, widths=[5]).build(pa.array([0, n - 1]))


def problem(
    quasi: dict[str, tuple[Taxonomy, Any]], sensitive: dict[str, tuple[Taxonomy, Any]], counts: Any = None
) -> Problem:
    """One cell for each place of the columns of codes."""
    columns = [np.asarray(codes, dtype=np.uint16) for _, codes in quasi.values()]
    columns += [np.asarray(codes, dtype=np.int32) for _, codes in sensitive.values()]
    records = np.ones(len(columns[0]), dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    attributes = [
        tuple(Attribute(name, taxonomy) for name, (taxonomy, _) in side.items()) for side in (quasi, sensitive)
    ]
    return Problem(attributes[0], attributes[1], Cells(tuple(columns), records), ())


def letters(**columns: Any) -> Problem:
    return problem({name: (LETTERS, codes) for name, codes in columns.items()}, {})


def phi2_by_hand(one: list[int], other: list[int], records: list[int]) -> Fraction:
    """The definition, all pairs of values included."""
    n = sum(records)
    first, second, both = Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    for a, b, weight in zip(one, other, records, strict=True):
        if weight:
            first[a] += weight
            second[b] += weight
            both[a, b] += weight
    smaller = min(len(first), len(second))
    if smaller < 2:
        return Fraction(0)
    total = Fraction(0)
    for a, i in first.items():
        for b, j in second.items():
            expected = Fraction(i, n) * Fraction(j, n)
            total += (Fraction(both[a, b], n) - expected) ** 2 / expected
    return total / (smaller - 1)


cells = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30)


@given(cells)
def test_phi2_is_the_definition(drawn: list[tuple[int, int, int]]) -> None:
    one, other, records = (list(column) for column in zip(*[*drawn, (0, 0, 1)], strict=True))
    asked = problem({"one": (LETTERS, one)}, {"other": (LETTERS, other)}, records)
    found = correlations(asked, 5)
    assert found[0, 1] == found[1, 0] == pytest.approx(float(phi2_by_hand(one, other, records)), abs=1e-11)
    assert found.diagonal().tolist() == [1.0, 1.0]


def test_tables_that_are_too_large_to_write_down_are_counted_by_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    asked = letters(one=rng.integers(0, 6, 300), two=rng.integers(0, 6, 300), three=rng.integers(0, 3, 300))
    dense = correlations(asked, 5)
    monkeypatch.setattr(attributes, "_DENSE_PAIRS", 0)
    assert (correlations(asked, 5) == dense).all()


def test_numbers_are_cut_in_intervals_of_equal_width_of_what_occurs() -> None:
    numbers = np.array([10, 11, 12, 13, 14, 20, 21, 22, 23, 29])  # halves: [10, 19.5) and [19.5, 29]
    side = (numbers >= 20).astype(int)
    found = correlations(problem({"age": (years(90), numbers)}, {"side": (LETTERS, side)}), 2)
    assert found[0, 1] == 1.0
    shifted = correlations(problem({"age": (years(90), numbers)}, {"side": (LETTERS, numbers >= 14)}), 2)
    assert shifted[0, 1] == pytest.approx(float(phi2_by_hand(side.tolist(), (numbers >= 14).tolist(), [1] * 10)))


def test_the_order_of_cells_changes_nothing() -> None:
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 6, (400, 5))
    codes[:, 4] = (codes[:, 0] + codes[:, 4] // 4) % 6
    found = partition_attributes(letters(**dict(zip("vwxyz", codes.T, strict=True))), 3, None)
    again = partition_attributes(letters(**dict(zip("vwxyz", rng.permutation(codes).T, strict=True))), 3, None)
    assert found.search == again.search
    assert found.places == again.places
    assert any({0, 4} <= set(group) for group in found.places)


def pairs(n_sensitive: int) -> Problem:
    """Quasi attributes 0 and 3 are one, 1 and 4 another, 2 goes with the last sensitive one and a little with 0."""
    rng = np.random.default_rng(1)
    a, b, c, d = rng.integers(0, 6, (4, 600))
    quasi = {"p": a, "q": b, "r": np.where(rng.random(600) < 0.7, c, a), "s": a[:], "t": b[:]}
    sensitive = {"y": d, "z": c} if n_sensitive == 2 else {"z": c} if n_sensitive else {}
    return problem({k: (LETTERS, v) for k, v in quasi.items()}, {k: (LETTERS, v) for k, v in sensitive.items()})


def test_sensitive_attributes_share_the_last_column_even_if_they_are_independent() -> None:
    columns = partition_attributes(pairs(2), 3, None)
    assert columns.places == ((0, 3), (1, 4), (2, 5, 6))
    found = correlations(pairs(2), 5)
    assert found.shape == (7, 7)
    assert found[5, 6] < 0.1


@pytest.mark.parametrize(
    ("n_sensitive", "n_columns", "alpha", "message"),
    [
        (1, 1, None, "columns is 1, but slicing separates attributes; give at least 2"),
        (1, 7, None, "5 quasi attributes and 1 sensitive attribute make at most 6 columns$"),
        (2, 7, None, "2 sensitive attributes make at most 6 columns, because sensitive attributes share one"),
        (0, 6, None, "make at most 5 columns$"),
        (0, 2, 1, "alpha is 1, but the policy has no sensitive attribute"),
        (2, 2, 1, "always has 2 sensitive attributes; give at least 2"),
        (1, 2, 6, "leaves 0 of 6 attributes for the 1 other column; lower alpha or columns"),
        (1, 4, 4, "leaves 2 of 6 attributes for the 3 other columns"),
        (1, 2, 9, "leaves 0 of 6 attributes"),
    ],
)
def test_partitions_that_do_not_exist(n_sensitive: int, n_columns: int, alpha: int | None, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        partition_attributes(pairs(n_sensitive), n_columns, alpha)


def mixed(n: int = 500, seed: int = 3) -> Problem:
    rng = np.random.default_rng(seed)
    ages = years(60).with_missing()
    age = np.where(rng.random(n) < 0.1, ages.missing, rng.integers(0, 60, n))
    place = LETTERS.with_missing()
    where = np.where(rng.random(n) < 0.1, place.missing, rng.integers(0, 6, n))
    quasi = {"age": (ages, age), "home": (LETTERS, rng.integers(0, 6, n)), "work": (place, where)}
    return problem(quasi, {"z": (LETTERS, rng.integers(0, 6, n))}, rng.integers(1, 4, n))


@pytest.mark.parametrize("places", [(0,), (1,), (2,), (2, 0), (0, 1, 2)])
@pytest.mark.parametrize(("frequency", "labels"), [(1, "levels"), (7, "levels"), (7, "ranges"), (60, "ranges")])
def test_regions_hold_their_values_are_frequent_and_do_not_overlap(
    places: tuple[int, ...], frequency: int, labels: Labels
) -> None:
    asked = mixed()
    values, lo, hi = regions(asked, places, frequency, labels, Silent())
    codes = np.stack([asked.cells.codes[place] for place in places], axis=1)  # (n_cells, d)
    inside = ((codes[:, None, :] >= lo) & (codes[:, None, :] < hi)).all(axis=2)  # (n_cells, n_regions)
    assert (inside.sum(axis=1) == 1).all()
    assert (inside.argmax(axis=1) == values).all()
    apart = ((hi[:, None, :] <= lo) | (hi <= lo[:, None, :])).any(axis=2)
    assert (apart | np.eye(len(lo), dtype=bool)).all()
    sizes = np.bincount(values, weights=asked.cells.counts, minlength=len(lo))
    assert sizes.min() >= frequency
    assert len(lo) > 1
    assert values.dtype == lo.dtype == hi.dtype == np.int32


@pytest.mark.parametrize("places", [(1,), (0, 2), (2, 1, 0)])
def test_exact_values_tell_combinations_apart(places: tuple[int, ...]) -> None:
    asked = mixed()
    values, n_values = exact(asked, places)
    rows = list(zip(*(asked.cells.codes[place].tolist() for place in places), strict=True))
    assert n_values == len(set(rows)) == len(set(zip(rows, values.tolist(), strict=True)))
    assert set(values.tolist()) == set(range(n_values))

"""Which attributes share a column, and what a column's values are: correlations, partitions, regions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import PolicyError, UnreachableError
from shoal.core.progress import Silent
from shoal.methods.base import Labels
from shoal.methods.slicing import attributes
from shoal.methods.slicing.attributes import correlations, one_each, partition_attributes
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


def test_equal_and_independent_attributes() -> None:
    found = correlations(letters(one=[0, 0, 1, 1], same=[4, 4, 2, 2], other=[0, 1, 0, 1], constant=[3] * 4), 5)
    assert found[0].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert found[3].tolist() == [0.0, 0.0, 0.0, 1.0]


def test_tables_that_are_too_large_to_write_down_are_counted_by_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    asked = letters(one=rng.integers(0, 6, 300), two=rng.integers(0, 6, 300), three=rng.integers(0, 3, 300))
    dense = correlations(asked, 5)
    monkeypatch.setattr(attributes, "_DENSE_PAIRS", 0)
    assert (correlations(asked, 5) == dense).all()


def test_two_columns_of_many_values_need_no_table() -> None:
    n = 200_000  # a full table of pairs would have 4e10 entries
    flat = from_nested({"any": [f"v{number}" for number in range(n)]})
    assert flat.positions is None
    order = np.arange(n)
    asked = problem({}, {"one": (flat, order), "two": (flat, order[::-1])})
    assert correlations(asked, 5)[0, 1] == 1.0


def test_numbers_are_cut_in_intervals_of_equal_width_of_what_occurs() -> None:
    numbers = np.array([10, 11, 12, 13, 14, 20, 21, 22, 23, 29])  # halves: [10, 19.5) and [19.5, 29]
    side = (numbers >= 20).astype(int)
    found = correlations(problem({"age": (years(90), numbers)}, {"side": (LETTERS, side)}), 2)
    assert found[0, 1] == 1.0
    shifted = correlations(problem({"age": (years(90), numbers)}, {"side": (LETTERS, numbers >= 14)}), 2)
    assert shifted[0, 1] == pytest.approx(float(phi2_by_hand(side.tolist(), (numbers >= 14).tolist(), [1] * 10)))


def test_few_numbers_are_not_cut() -> None:
    """Two or three intervals would put 0 and 1 together."""
    asked = problem({"age": (years(90), [0, 1, 50])}, {"letter": (LETTERS, [0, 1, 1])})
    assert correlations(asked, 3)[0, 1] == 1.0
    assert correlations(asked, 2)[0, 1] == pytest.approx(float(phi2_by_hand([0, 0, 1], [0, 1, 1], [1] * 3)))


def test_what_is_missing_is_a_value() -> None:
    ages = years(90).with_missing()
    numbers = [*range(0, 80, 10), ages.missing, ages.missing]
    known = [0] * 8 + [1, 1]
    found = correlations(problem({"age": (ages, numbers)}, {"known": (LETTERS, known)}), 2)
    assert found[0, 1] == 1.0


def test_cells_of_a_population_do_not_count() -> None:
    asked = problem({"one": (LETTERS, [0, 1, 5, 0])}, {"two": (LETTERS, [3, 4, 5, 4])}, [2, 2, 0, 0])
    assert correlations(asked, 5)[0, 1] == 1.0


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


def test_attributes_that_go_together_share_a_column() -> None:
    assert partition_attributes(pairs(0), 3, None).places == ((0, 3), (1, 4), (2,))
    assert partition_attributes(pairs(1), 3, None).places == ((0, 3), (1, 4), (2, 5))


def test_sensitive_attributes_share_the_last_column_even_if_they_are_independent() -> None:
    columns = partition_attributes(pairs(2), 3, None)
    assert columns.places == ((0, 3), (1, 4), (2, 5, 6))
    found = correlations(pairs(2), 5)
    assert found.shape == (7, 7)
    assert found[5, 6] < 0.1


def test_a_sensitive_column_of_given_size() -> None:
    asked = pairs(2)
    assert partition_attributes(asked, 2, 2).places == ((0, 1, 2, 3, 4), (5, 6))
    assert partition_attributes(asked, 3, 3).places == ((0, 3), (1, 4), (2, 5, 6))
    assert partition_attributes(asked, 2, 6).places[-1][-2:] == (5, 6)
    assert [len(group) for group in partition_attributes(asked, 2, 6).places] == [1, 6]


def test_equally_good_attributes_come_in_the_order_of_the_policy() -> None:
    """All attributes but the first are one under other names, which changes the order of sums and so their rounding."""
    rng = np.random.default_rng(3)
    value = rng.integers(0, 6, 500)
    codes = {f"q{number}": rng.permutation(6)[value] for number in range(40)}
    quasi = {name: (LETTERS, code) for name, code in {"constant": value * 0, **codes}.items()}
    sensitive = np.where(rng.random(500) < 0.5, value, rng.integers(0, 6, 500))
    columns = partition_attributes(problem(quasi, {"z": (LETTERS, sensitive)}), 3, 3)
    assert columns.places == ((0,), tuple(range(3, 41)), (1, 2, 41))


def test_as_many_columns_as_attributes_have_one_each() -> None:
    asked = pairs(2)  # equal attributes are at distance 0 of each other
    assert partition_attributes(asked, 6, None).places == ((0,), (1,), (2,), (3,), (4,), (5, 6))
    assert partition_attributes(asked, 6, 2).places == ((0,), (1,), (2,), (3,), (4,), (5, 6))
    assert one_each(asked) == ((0,), (1,), (2,), (3,), (4,), (5,), (6,))


@pytest.mark.parametrize(
    ("n_sensitive", "n_columns", "alpha", "message"),
    [
        (1, 1, None, "columns is 1, but slicing separates attributes; give at least 2"),
        (1, 7, None, "5 quasi attributes and 1 sensitive attribute make at most 6 columns$"),
        (2, 7, None, "2 sensitive attributes make at most 6 columns, for sensitive attributes share one"),
        (0, 6, None, "make at most 5 columns$"),
        (0, 2, 1, "alpha is 1, but no attribute is sensitive"),
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


def test_cells_without_records_have_a_region_too() -> None:
    asked = mixed()
    counts = np.where(asked.cells.codes[0] < 30, 0, asked.cells.counts)
    fewer = replace(asked, cells=Cells(asked.cells.codes, counts))
    values, lo, hi = regions(fewer, (0, 1), 7, "levels", Silent())
    assert 0 <= values.min() <= values.max() < len(lo)
    there = counts > 0
    for column, place in enumerate((0, 1)):
        codes = asked.cells.codes[place][there]
        assert ((codes >= lo[values[there], column]) & (codes < hi[values[there], column])).all()


def test_regions_that_cannot_be_cut_are_one() -> None:
    asked = mixed()
    total = asked.cells.n_records
    values, lo, hi = regions(asked, (0, 1), total, np.random.default_rng(1), Silent())
    assert len(lo) == len(hi) == 1
    assert not values.any()
    with pytest.raises(UnreachableError, match=f"at least {total + 1} records, but the table has only {total};"):
        regions(asked, (0, 1), total + 1, np.random.default_rng(1), Silent())


def test_without_quasi_attributes_there_is_one_value() -> None:
    asked = mixed()
    values, lo, hi = regions(asked, (), 5, np.random.default_rng(1), Silent())
    assert lo.shape == hi.shape == (1, 0)
    assert values.tolist() == exact(asked, ())[0].tolist() == [0] * asked.cells.n_cells
    assert exact(asked, ())[1] == 1


@pytest.mark.parametrize("places", [(1,), (0, 2), (2, 1, 0)])
def test_exact_values_tell_combinations_apart(places: tuple[int, ...]) -> None:
    asked = mixed()
    values, n_values = exact(asked, places)
    rows = list(zip(*(asked.cells.codes[place].tolist() for place in places), strict=True))
    assert n_values == len(set(rows)) == len(set(zip(rows, values.tolist(), strict=True)))
    assert set(values.tolist()) == set(range(n_values))

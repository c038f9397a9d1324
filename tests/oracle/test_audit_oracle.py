"""The audit against counting with dictionaries, record by record."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.audit.audit import audit
from shoal.datasets.uci import adult, adult_policy

QUASI = ("a", "b", "c", "d")


def policy(rows_missing: str = "category", privacy: list | None = None, quasi: tuple[str, ...] = QUASI) -> dict:
    attributes = {name: {"role": "quasi", "taxonomy": {"flat": {}}} for name in quasi}
    attributes |= {"s": {"role": "sensitive"}, "x": {"role": "insensitive"}, "id": {"role": "identifier"}}
    return {
        "attributes": attributes,
        "privacy": privacy or [{"k-anonymity": {"k": 2}}, {"distinct-l-diversity": {"l": 2}}],
        "missing": rows_missing,
    }


def rows_of(seed: int, n: int, widths: tuple[int, ...], missing: float = 0.0) -> list[tuple]:
    """Rows of len(widths) quasi values, a sensitive number, an insensitive text and an identifier."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(n):
        quasi = tuple(None if rng.random() < missing else f"q{rng.integers(width)}" for width in widths)
        rows.append((*quasi, int(rng.integers(4)), f"x{rng.integers(6)}", f"id{number}"))
    return rows


def table_of(rows: list[tuple], names: tuple[str, ...]) -> pa.Table:
    return pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)})


def classes_of(rows: list[tuple], places: tuple[int, ...]) -> Counter:
    return Counter(tuple(row[place] for place in places) for row in rows)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    widths=st.tuples(*[st.integers(1, 5)] * 4),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_sets_and_risks_of_small_tables(seed, n, widths, missing):
    rows = rows_of(seed, n, widths, missing)
    if any(all(row[place] is None for row in rows) for place in range(4)):
        return  # a column without any value is refused
    found = audit(table_of(rows, (*QUASI, "s", "x", "id")), policy(), threshold=0.1)
    sizes = classes_of(rows, (0, 1, 2, 3))
    unique = sum(size == 1 for size in sizes.values())
    assert (found.records, found.classes, found.unique_records) == (n, len(sizes), unique)
    assert found.smallest_class == min(sizes.values())
    risks = [1 / sizes[row[:4]] for row in rows]
    assert found.prosecutor.highest == max(risks)
    assert found.prosecutor.mean == pytest.approx(sum(risks) / n)
    assert found.marketer == pytest.approx(len(sizes) / n)
    for threshold, share in found.prosecutor.share_above:
        limit = Fraction(str(threshold))
        assert share == sum(Fraction(1, sizes[row[:4]]) > limit for row in rows) / n
    assert sum(entry["records"] for entry in found.class_sizes) == n

    expected = {}
    for size in (1, 2, 3):
        for places in combinations(range(4), size):
            groups = classes_of(rows, places)
            alone = sum(count == 1 for count in groups.values())
            expected[tuple(QUASI[place] for place in places)] = (alone, len(groups))
    assert {risk.attributes: (risk.unique_records, risk.combinations) for risk in found.sets} == expected
    assert [risk.unique_records for risk in found.sets] == sorted((u for u, _ in expected.values()), reverse=True)

    over = {names for names, (alone, _) in expected.items() if alone / n > 0.1}
    minimal = {names for names in over if not any(set(other) < set(names) for other in over)}
    assert {risk.attributes for risk in found.minimal_sets} == minimal


def diversity_of(values: list[int], whole: Counter) -> dict[str, float]:
    """Every measure of one class, by its definition."""
    counts = sorted(Counter(values).values(), reverse=True)
    n, total = len(values), sum(whole.values())
    shares = [count / n for count in counts]
    order = sorted(whole)
    moved, work = 0.0, 0.0
    for value in order:
        moved += values.count(value) / n - whole[value] / total
        work += abs(moved)
    return {
        "distinct": len(counts),
        "simple": n / counts[0],
        "entropy": math.exp(-sum(share * math.log(share) for share in shares)),
        "c2": counts[0] / sum(counts[1:]) if len(counts) > 1 else math.inf,
        "c3": counts[0] / sum(counts[2:]) if len(counts) > 2 else math.inf,
        "equal": sum(abs(values.count(v) / n - whole[v] / total) for v in order) / 2,
        "ordered": work / max(len(order) - 1, 1),
    }


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 80), widths=st.tuples(*[st.integers(1, 3)] * 4))
def test_sensitive_measures(seed, n, widths):
    rows = rows_of(seed, n, widths)
    found = audit(table_of(rows, (*QUASI, "s", "x", "id")), policy())
    values = defaultdict(list)
    for row in rows:
        values[row[:4]].append(row[4])
    each = [diversity_of(group, Counter(row[4] for row in rows)) for group in values.values()]
    (risk,) = found.sensitive
    assert risk.distinct_l == min(one["distinct"] for one in each)
    assert risk.certain_records == sum(len(group) for group in values.values() if len(set(group)) == 1)
    assert risk.simple_l == pytest.approx(min(one["simple"] for one in each))
    assert risk.entropy_l == pytest.approx(min(one["entropy"] for one in each))
    assert risk.recursive_c_l2 == pytest.approx(max(one["c2"] for one in each))
    assert risk.recursive_c_l3 == pytest.approx(max(one["c3"] for one in each))
    assert risk.t_equal == pytest.approx(max(one["equal"] for one in each))
    assert risk.t_ordered == pytest.approx(max(one["ordered"] for one in each))
    kept, diverse = found.models
    assert kept.records_missed == sum(len(group) for group in values.values() if len(group) < 2)
    assert diverse.records_missed == risk.certain_records
    assert (kept.holds, diverse.holds) == (kept.records_missed == 0, diverse.records_missed == 0)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), more=st.integers(0, 80))
def test_population(seed, n, more):
    rows = rows_of(seed, n, (2, 3, 2, 1))
    people = rows + rows_of(seed + 1, more, (2, 4, 2, 1))
    names = (*QUASI, "s", "x", "id")
    found = audit(table_of(rows, names), policy(), population=table_of(people, names).select(list(QUASI)))
    of_class, of_population = classes_of(rows, (0, 1, 2, 3)), classes_of(people, (0, 1, 2, 3))
    risks = [1 / of_population[row[:4]] for row in rows]
    (risk,) = found.populations
    assert risk.people == n + more
    assert risk.records_not_covered == 0
    assert risk.journalist.highest == max(risks)
    assert risk.journalist.mean == pytest.approx(sum(risks) / n)
    assert risk.marketer == pytest.approx(sum(f / of_population[key] for key, f in of_class.items()) / n)
    assert risk.population_unique_records == sum(of_population[row[:4]] == 1 for row in rows)


def test_adult(shared_data):
    wanted = adult_policy(folder=shared_data)
    table = adult(shared_data, columns=list(wanted["attributes"]))
    found = audit(table, wanted)
    rows = list(zip(*table.to_pydict().values(), strict=True))
    sizes = classes_of(rows, (0, 1, 2, 3, 4, 5))
    assert found.records == 45_222
    assert found.unique_records == sum(count == 1 for count in sizes.values())
    assert found.classes == len(sizes)
    by_names = {risk.attributes: risk for risk in found.sets}
    assert len(by_names) == 41
    for places in [(0,), (0, 2), (0, 1, 2), (1, 4, 5)]:
        groups = classes_of(rows, places)
        risk = by_names[tuple(table.column_names[place] for place in places)]
        assert risk.unique_records == sum(count == 1 for count in groups.values())
        assert risk.combinations == len(groups)
    anonymous, diverse = found.models
    assert anonymous.records_missed == sum(count for count in sizes.values() if count < 10)
    values = defaultdict(Counter)
    for row in rows:
        values[row[:6]][row[6]] += 1

    def entropy(counts: Counter) -> float:
        n = counts.total()
        return math.exp(-sum(c / n * math.log(c / n) for c in counts.values()))

    missed = sum(counts.total() for counts in values.values() if entropy(counts) < 4 - 1e-9)
    assert diverse.records_missed == missed
    assert found.sensitive[0].certain_records == sum(c.total() for c in values.values() if len(c) == 1)

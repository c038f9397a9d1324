"""What a release leaves, and who fulfils a predicate: against slow counting by the definitions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests import releases
from tests.tables import cover

from shoal.attacks.singling_out import NOTHING, Predicates, extrapolate_isolated
from shoal.attacks.view import UNKNOWN

AGES = {"20-29": (20, 30), "30-39": (30, 40), "20-39": (20, 40), "25": (25, 26)}
TOWNS = {"north": ["a", "b"], "ends": ["a", "d"], "c": ["c"], "*": None}
ILLS = {"lung": ["flu", "asthma"], "flu": ["flu"], "asthma": ["asthma"], "gout": ["gout"]}


def generalized(n: int, rng: np.random.Generator) -> tuple[pa.Table, dict[str, Any]]:
    rows = {
        "age": rng.choice(list(AGES), n),
        "town": rng.choice(list(TOWNS), n),
        "ill": rng.choice(list(ILLS), n),
    }
    covers = {label: {"any": True} if values is None else {"values": values} for label, values in TOWNS.items()}
    attributes = {
        "age": {
            "role": "quasi",
            "kind": "number",
            "labels": {label: {"from": low, "below": high} for label, (low, high) in AGES.items()},
        },
        "town": {"role": "quasi", "kind": "category", "labels": covers},
        "ill": {"role": "sensitive", "kind": "category", "labels": {k: {"values": v} for k, v in ILLS.items()}},
    }
    return pa.table(rows), {"method": "mondrian", "parts": [["age", "town", "ill"]], "attributes": attributes}


def people(n: int, rng: np.random.Generator) -> pa.Table:
    return pa.table(
        {
            "age": rng.integers(18, 42, n),
            "town": rng.choice(["a", "b", "c", "d", "e"], n),
            "sex": rng.choice(["F", "M"], n),
            "ill": rng.choice(["flu", "asthma", "gout"], n),
        }
    )


def is_wider(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether the labels of a row cover as many values as those of another in each attribute, and more in one."""

    def widths(row: dict[str, str]) -> tuple[int, int]:
        low, high = AGES[row["age"]]
        return high - low, len(TOWNS[row["town"]] or "abcde")

    return widths(one) != widths(other) and all(np.greater_equal(widths(one), widths(other)))


@pytest.mark.parametrize("seed", range(5))
def test_overlapping_labels_with_gaps_leave_the_sum_over_the_most_specific_that_cover(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, manifest = generalized(60, rng)
    view = releases.view(rows, manifest)
    known = people(80, rng)
    coded = view.people(known, "x")
    left = view.find_left(view.secrets["ill"], coded)
    copies, far = view.copies(coded.codes, coded.numbers)
    values = view.secrets["ill"].values
    for i, person in enumerate(known.to_pylist()):
        covering = []
        for row in rows.to_pylist():
            low, high = AGES[row["age"]]
            towns = TOWNS[row["town"]]
            if low <= person["age"] < high and (towns is None or person["town"] in towns):
                covering.append(row)
        specific = [row for row in covering if not any(is_wider(row, other) for other in covering)]
        expected = dict.fromkeys(values, Fraction(0))
        for row in specific:
            for value in ILLS[row["ill"]]:
                expected[value] += Fraction(1, len(ILLS[row["ill"]]))
        if specific:
            assert left.weights[i] == pytest.approx([float(expected[value]) for value in values])
            assert (left.far[i], left.entries[i]) == (0, len(specific))
        else:
            assert left.far[i] > 0
        assert (copies[i], far[i] == 0) == (len(specific), len(specific) > 0)


def slices(n: int, rng: np.random.Generator, parts: list[list[str]]) -> tuple[pa.Table, dict[str, Any]]:
    source = people(n, rng)
    source = source.set_column(0, "age", pa.array(20 + rng.integers(4, size=n)))
    bucket = np.sort(rng.integers(1, 4, n))
    bucket = np.unique(bucket, return_inverse=True)[1] + 1
    columns: dict[str, Any] = {"bucket": bucket}
    seen: dict[str, int] = {}
    for part in parts:
        order = np.lexsort((rng.random(n), bucket))
        for name in part:
            seen[name] = seen.get(name, 0) + 1
            columns[name if seen[name] == 1 else f"{name} ({seen[name]})"] = source[name].take(pa.array(order))
    kinds = {"age": "number"}
    attributes = {
        name: {"role": "sensitive" if name == "ill" else "quasi", "kind": kinds.get(name, "category")} for name in seen
    }
    return pa.table(columns), {"method": "slicing", "parts": parts, "attributes": attributes}


@pytest.mark.parametrize(
    ("seed", "parts"),
    cover(
        range(3),
        [
            [["age", "town", "sex"], ["ill"]],
            [["age", "town"], ["sex", "ill"]],
            [["age"], ["town"], ["sex", "ill"]],
            [["age", "sex"], ["town", "sex", "ill"]],
        ],
    ),
)
def test_buckets_leave_the_probabilities_of_the_slicing_paper(parts: list[list[str]], seed: int) -> None:
    """Li et al., section 4.1: p(t,s) is the sum over buckets of p(t,B) D(t,B)[s]; missing attributes are not asked."""
    rng = np.random.default_rng(seed)
    rows, manifest = slices(40, rng, parts)
    view = releases.view(rows, manifest)
    known = people(50, rng).set_column(0, "age", pa.array(20 + rng.integers(5, size=50)))
    coded = view.people(known, "x")
    hidden = rng.random(coded.codes.shape) < 0.2
    coded.codes[hidden] = UNKNOWN
    left = view.find_left(view.secrets["ill"], coded)
    copies, _ = view.copies(coded.codes, coded.numbers)
    values = view.secrets["ill"].values
    names = rows.column_names
    for i, person in enumerate(known.to_pylist()):
        asked = {name: person[name] for a, name in enumerate(view.known) if not hidden[i, a]}
        expected = dict.fromkeys(values, Fraction(0))
        total = Fraction(0)
        for number in set(rows["bucket"].to_pylist()):
            inside = [row for row in rows.to_pylist() if row["bucket"] == number]
            product, place = Fraction(1, len(inside)), 1
            counts = dict.fromkeys(values, 0)
            matching = Fraction(1)
            for part in parts:
                columns = dict(zip(part, names[place : place + len(part)], strict=True))
                place += len(part)
                fits = [row for row in inside if all(row[columns[n]] == v for n, v in asked.items() if n in columns)]
                matching *= Fraction(len(fits), len(inside))
                if "ill" in part:
                    for row in fits:
                        counts[row[columns["ill"]]] += 1
                else:
                    product *= Fraction(len(fits), len(inside))
            for value in values:
                expected[value] += product * counts[value]
            total += matching * len(inside)
        assert left.weights[i] == pytest.approx([float(expected[value]) for value in values])
        assert copies[i] == pytest.approx(float(total))


def test_predicates_count_who_fulfils_them() -> None:
    rng = np.random.default_rng(8)
    rows, manifest = generalized(50, rng)
    view = releases.view(rows, manifest)
    age, town = view.labels
    known = people(300, rng)
    label = [
        [age.number["25"], NOTHING],
        [age.number["25"], town.number["ends"]],
        [age.number["25"], town.number["north"]],
        [NOTHING, town.number["c"]],
    ]
    predicates = Predicates(np.array(label), np.array([[0.0, 0.0], [5.0, 0.0], [2.5, 0.0], [0.0, 0.0]]))
    ages, towns = np.array(known["age"]), np.array(known["town"].to_pylist())
    expected = [
        (ages == 25).sum(),
        ((abs(ages - 25.5) <= 5) & np.isin(towns, ["a", "d"])).sum(),
        ((abs(ages - 25.5) <= 2.5) & np.isin(towns, ["a", "b"])).sum(),
        (towns == "c").sum(),
    ]
    found = predicates.count(view, view.people(known, "x"), 10**6)
    assert found.tolist() == expected
    assert predicates.count(view, view.people(known, "x"), 2).max() == 2


@pytest.mark.parametrize("share", [1.5, 3.0])
def test_a_small_group_tells_how_many_a_large_one_would_isolate(share: float) -> None:
    """Expected numbers spread over four orders; an error of 0.02 is beyond 4 standard errors of 20,000 predicates."""
    rng = np.random.default_rng(2)
    expected = np.exp(rng.normal(-1.0, 2.0, 20_000))
    truth = float((share * expected * np.exp(-share * expected)).mean())
    assert extrapolate_isolated(rng.poisson(expected), share) == pytest.approx(truth, abs=0.02)

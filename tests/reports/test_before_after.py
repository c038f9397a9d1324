"""A table and its release, column by column: figures against looking at every row."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.policy.policy import Policy
from shoal.release.forms.base import read_form
from shoal.reports.before_after import BeforeAfter
from shoal.sources.opening import open_source

TOWNS = {"north": ["Bremen", "Kiel"], "south": ["Hof", "Ulm"]}
POLICY: dict[str, Any] = {
    "attributes": {
        "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 79, "widths": [10, 20]}}},
        "town": {"role": "quasi", "taxonomy": {"groups": TOWNS}},
        "illness": {"role": "sensitive", "taxonomy": {"flat": ["flu", "gout"]}},
        "cost": {"role": "insensitive"},
        "name": {"role": "identifier"},
    },
    "privacy": [{"k-anonymity": {"k": 4}}],
}


def people(n: int = 300) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "age": rng.integers(0, 80, n),
            "town": rng.choice(["Bremen", "Hof", "Kiel", "Ulm"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "illness": pa.array([None if i % 50 == 0 else v for i, v in enumerate(rng.choice(["flu", "gout"], n))]),
            "cost": rng.gamma(2.0, 1000.0, n).round(2),
            "name": [f"P{i}" for i in range(n)],
        }
    )


@pytest.fixture(scope="module")
def release() -> Any:
    return shoal.anonymize(people(), POLICY, seed=1)


@pytest.fixture(scope="module")
def sides(release: Any) -> BeforeAfter:
    return compare(people(), release)


def compare(table: pa.Table, release: Any) -> BeforeAfter:
    form = read_form(release.manifest)
    return BeforeAfter.read(Policy.load(POLICY), open_source(table), open_source(release.data), form)


def ends_of(cover: Any) -> tuple[float, float]:
    return (0, 79) if cover.get("any") else (cover["from"], cover["below"] - 1)


def test_statistics_of_ranges_lie_between_their_bounds(sides: BeforeAfter, release: Any) -> None:
    found = {row[0]: row[1:] for row in sides.summarize("age")}
    ages = np.asarray(people().column("age"))
    labels = release.manifest["attributes"]["age"]["labels"]
    ends = np.array([ends_of(labels[label]) for label in release.data.column("age").to_pylist()], dtype=float)
    assert found["records"] == ("300", "300")
    assert float(found["mean"][0]) == pytest.approx(ages.mean(), rel=1e-3)
    middle, low, high = map(float, re.fullmatch(r"about (\S+) \((\S+) to (\S+)\)", found["mean"][1]).groups())
    assert [middle, low, high] == pytest.approx([ends.mean(), ends[:, 0].mean(), ends[:, 1].mean()], rel=1e-3)
    for what in ("mean", "first quartile", "median", "third quartile"):
        low, high = map(float, re.search(r"\((\S+) to (\S+)\)", found[what][1]).groups())
        assert low <= float(found[what][0]) <= high
    deviation = float(found["standard deviation"][1].removeprefix("about "))
    assert deviation == pytest.approx(ends.mean(axis=1).std(), rel=1e-3)


def test_numbers_and_categories_that_are_published_as_they_were_are_counted_exactly(sides: BeforeAfter) -> None:
    illnesses = Counter(people().column("illness").to_pylist())
    rows = {row[0]: row[1:] for row in sides.draw("illness").rows}
    assert rows == {key or "missing": (str(count),) * 3 for key, count in illnesses.items()}
    costs = np.asarray(people().column("cost"))
    plot = sides.draw("cost")
    assert all(len({*row[1:]}) == 1 for row in plot.rows)
    assert sum(int(row[1].replace(",", "")) for row in plot.rows) == 300
    for label, before, *_ in plot.rows[1:-1]:
        low, high = (float(end.replace(",", "")) for end in label.split(" to below "))
        assert int(before) == ((low <= costs) & (costs < high)).sum()
    assert {row[0]: row[1:] for row in sides.summarize("cost")}["mean"] == (f"{costs.mean():,.0f}",) * 2


def test_labels_are_spread_and_all_records_stay(sides: BeforeAfter, release: Any) -> None:
    for name in ("age", "town"):
        rows = [[int(each.replace(",", "")) for each in row[1:]] for row in sides.draw(name).rows]
        before, after, sure = np.array(rows).T
        assert before.sum() == 300
        assert abs(after.sum() - 300) <= len(rows)  # each is rounded
        assert (sure <= after).all()
    labels = release.manifest["attributes"]["town"]["labels"]
    towns = Counter(release.data.column("town").to_pylist())
    known = {label: count for label, count in towns.items() if labels[label].get("values") == [label]}
    rows = {row[0]: int(row[3]) for row in sides.draw("town").rows}
    assert {town: count for town, count in rows.items() if count} == known


def test_verdicts_are_figures_in_plain_words(sides: BeforeAfter, release: Any) -> None:
    shares = release.evidence["columns"]
    assert sides.judge("illness", shares["illness"]) == sides.judge("cost", shares["cost"]) == "Published as it was."
    said = sides.judge("age", {"unchanged": 0.25, "generalized": 0.5, "suppressed": 0.25})
    assert said.startswith("25% unchanged, 50% generalized, 25% suppressed. ")
    assert re.search(
        r"The mean of 300 records with a value is about [\d.]+ \([\d.]+ to [\d.]+\); it was [\d.]+\.", said
    )
    assert sides.judge("age", None) == "Published: generalized."  # of a release without these shares


@pytest.fixture(scope="module")
def suppressed() -> tuple[BeforeAfter, Counter[str]]:
    """Ages above 40 are rare: most of them are suppressed."""
    table = people().set_column(0, "age", pa.array([(i % 30) if i % 5 else 30 + i // 5 % 50 for i in range(300)]))
    made = shoal.anonymize(table, POLICY | {"method": {"local-suppression": {}}}, seed=1)
    return compare(table, made), Counter(made.data.column("age").to_pylist())


def test_suppressed_values_are_a_category_and_enter_no_mean(suppressed: tuple[BeforeAfter, Counter[str]]) -> None:
    sides, ages = suppressed
    hidden = ages.pop("*")
    assert 30 < hidden < 270
    found = {row[0]: row[1:] for row in sides.summarize("age")}
    known = sum(ages.values())
    assert found["suppressed"] == ("0", str(hidden))
    assert found["records with a value"] == ("300", str(known))
    mean = sum(int(age) * times for age, times in ages.items()) / known
    assert float(found["mean"][1]) == pytest.approx(mean, rel=1e-3)
    plot = sides.draw("age")
    assert plot.rows[-1] == ("suppressed", "0", str(hidden), str(hidden))
    assert f"suppressed: {hidden / 3:.1f}% after" in str(plot.drawing).replace(".0%", "%")  # drawn, not only stated
    pair = sides.cross("age", "illness")
    assert pair.rows[-1] == "suppressed"
    assert pair.after[-1].sum() == pytest.approx(hidden / 300)
    assert pair.before[-1].sum() == 0
    assert sides.measure_kept("age") <= known / 300


def test_records_are_counted_and_survey_weights_are_summed() -> None:
    table = people().append_column("weight", pa.array([2.0, 8.0] * 150))
    policy = POLICY | {"attributes": POLICY["attributes"] | {"weight": {"role": "weight"}}}
    made = shoal.anonymize(table, policy, seed=1)
    sides = BeforeAfter.read(Policy.load(policy), open_source(table), open_source(made.data), read_form(made.manifest))
    assert sides.summarize("town")[:2] == [
        ("records", "300", "300"),
        ("sum of survey weights", "1,500", "not published"),
    ]
    assert sides.draw("town").heads[1:3] == ("survey weights before", "records after")


@pytest.mark.parametrize("method", ["anatomy", "synthetic", "microaggregation", "plain"])
def test_releases_of_every_form_can_be_compared(method: str) -> None:
    promises = {"anatomy": {"distinct-l-diversity": {"l": 2}}, "microaggregation": {"k-anonymity": {"k": 4}}}
    options = {"synthetic": {"epsilon": 1.0}}.get(method, {})
    policy = POLICY | {
        "privacy": [promises[method]] if method in promises else [],
        "method": {method: options},
        "attributes": POLICY["attributes"] | {"cost": {"role": "identifier"}},
    }
    made = shoal.anonymize(people(), policy, seed=1)
    form = read_form(made.manifest)
    sides = BeforeAfter.read(Policy.load(policy), open_source(people()), open_source(made.data), form)
    assert sides.names == ("age", "town", "illness")
    for name in sides.names:
        assert 0 <= sides.measure_kept(name) <= 1
        assert sides.judge(name, made.evidence.get("columns", {}).get(name))
        assert sides.draw(name).rows
        assert sides.summarize(name)
    assert sides.cross("age", "illness").after.sum() == pytest.approx(1)
    assert (sides.risky_classes is None) == (method in ("anatomy", "synthetic"))

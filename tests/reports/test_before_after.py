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
from shoal.reports import before_after
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


def test_a_table_of_two_columns_and_what_is_kept_of_it(sides: BeforeAfter) -> None:
    found = sides.cross("illness", "town")
    pairs = Counter(zip(people().column("illness").to_pylist(), people().column("town").to_pylist(), strict=True))
    for row, illness in enumerate(found.rows):
        for column, town in enumerate(found.columns):
            value = None if illness == "missing" else illness
            assert found.before[row, column] == pytest.approx(pairs[value, town] / 300)
    assert found.after.sum() == pytest.approx(1)
    distance = np.abs(found.before - found.after).sum() / 2
    assert found.kept == pytest.approx(1 - distance)
    assert sides.measure_kept("illness") == sides.measure_kept("cost", "illness") == 1.0


def test_verdicts_are_figures_in_plain_words(sides: BeforeAfter, release: Any) -> None:
    assert sides.judge("illness") == sides.judge("cost") == "Published as it was."
    labels = release.manifest["attributes"]["age"]["labels"]
    widths = Counter(
        1 + high - low for low, high in (ends_of(labels[label]) for label in release.data.column("age").to_pylist())
    )
    said = sides.judge("age")
    for width, records in widths.items():
        share = f"{records / 3:.1f}%".replace(".0%", "%")
        assert share in said
        assert width == 80 or f"{width}" in said
    assert re.search(r"The mean, read from the middles of ranges, is about [\d.]+ \([\d.]+ to [\d.]+\); it was", said)


def test_a_label_that_covers_one_value_of_the_table_is_not_that_value() -> None:
    table = pa.table({"age": [20, 20, 40, 40] * 3, "code": ["100", "100", "207", "207"] * 3})
    attributes = {
        "age": {"role": "quasi", "taxonomy": {"numbers": {}}},
        "code": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
    }
    policy = {"attributes": attributes, "privacy": [{"k-anonymity": {"k": 2}}]}
    made = shoal.anonymize(table, policy, seed=1)
    sides = BeforeAfter.read(
        Policy.load(policy),
        open_source(table),
        open_source(made.data),
        read_form(made.manifest),
    )
    assert sides.judge("age") == sides.judge("code") == "Published as it was."
    wider = {
        "age": {"[20, 29]": {"from": 20, "below": 30}, "40": {"from": 40, "below": 41}},
        "code": {"1**": {"prefixes": ["1"]}, "207": {"values": ["207"]}},
    }
    entries = {name: made.manifest["attributes"][name] | {"labels": labels} for name, labels in wider.items()}
    data = pa.table({"age": ["[20, 29]", "40"] * 6, "code": ["1**", "207"] * 6})
    form = read_form(made.manifest | {"attributes": entries})
    sides = BeforeAfter.read(Policy.load(policy), open_source(table), open_source(data), form)
    assert sides.judge("age").startswith("Published as it was for 50% and in ranges of 10 for 50% of the records.")
    assert sides.judge("code").startswith(
        "Published as it was for 50% and in groups of 1 value for 50% of the records."
    )


def test_the_smallest_classes_are_those_of_the_published_file(sides: BeforeAfter, release: Any) -> None:
    rows = list(zip(release.data.column("age").to_pylist(), release.data.column("town").to_pylist(), strict=True))
    sizes = Counter(rows)
    found = sides.risky_classes
    assert [one.records for one in found] == sorted(sizes.values())
    for one in found:
        assert sizes[one.values] == one.records
        assert {rows[row - 1] for row in one.rows} == {one.values}
        assert len(one.rows) == min(one.records, 5)


def test_of_a_large_table_a_sample_is_compared_and_no_record_is_listed(
    release: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(before_after, "MOST_ROWS", 100)
    sides = compare(people(), release)
    assert (sides.source.num_rows, sides.published.num_rows, sides.n_published) == (100, 100, 300)
    assert sides.risky_classes is None
    assert sides.summarize("town")[0] == ("records", "300", "300")


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
        assert sides.judge(name).startswith("Published")
        assert sides.draw(name).rows
        assert sides.summarize(name)
    assert sides.cross("age", "illness").after.sum() == pytest.approx(1)
    assert (sides.risky_classes is None) == (method in ("anatomy", "synthetic"))

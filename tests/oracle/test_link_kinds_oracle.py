"""Linking releases of rarer kinds, against brute force: overlapping parts, baskets, dates, missing values, many."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

import shoal
from shoal.linking.linking import link
from shoal.release.release import Release

ILLNESSES = ("flu", "gout", "measles", "cough")


def buckets_left(release: Release, sensitive: str, person: Mapping[str, Any]) -> Counter[str | None]:
    """Return what a sliced release of values as they are leaves, entry by entry."""
    rows, parts = release.data.to_pylist(), release.manifest["parts"]
    own = next(part for part in parts if sensitive in part)
    counts: Counter[str | None] = Counter()
    for bucket in {row["bucket"] for row in rows}:
        inside = [row for row in rows if row["bucket"] == bucket]

        def fits(row: Mapping[str, Any], part: list[str]) -> bool:
            return all(str(row[name]) == str(person[name]) for name in part if name in person)

        if all(any(fits(row, part) for row in inside) for part in parts):
            counts.update(row[sensitive] for row in inside if fits(row, own))
    return counts


def least(counts: list[Counter[Any]]) -> dict[Any, int]:
    return {value: n for value in counts[0] if (n := min(each[value] for each in counts))}


def people(seed: int, n: int = 60) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "age": rng.integers(20, 24, n),
            "sex": rng.choice(["F", "M"], n),
            "illness": rng.choice(ILLNESSES, n, p=[0.4, 0.3, 0.2, 0.1]),
        }
    )


def test_parts_that_overlap_must_agree_on_a_person() -> None:
    roles = {"age": {"role": "quasi"}, "sex": {"role": "quasi"}, "illness": {"role": "sensitive"}}
    slicing = {"parts": [["age", "sex"], ["sex", "illness"]], "overlapping": True}
    policy = {
        "attributes": roles, "privacy": [{"distinct-l-diversity": {"l": 2}}], "method": {"slicing": slicing},
        "max_withheld": 0.5,
    }  # fmt: skip
    releases = []
    for seed in (1, 2):
        release = shoal.anonymize(people(seed), policy, seed=seed)
        kept = release.data  # columns of a name that comes twice are told apart in the file
        assert len(release.manifest["parts"]) == 2
        assert kept.num_rows
        releases.append(release)
    expected = {}
    for age, sex in itertools.product(range(20, 24), "FM"):
        each = [overlapping_left(release, age, sex) for release in releases]
        expected[age, sex] = least(each)
        if all(each):
            found = link(releases, {"age": str(age), "sex": sex})
            assert [dict(alone.counts) for alone in found.alone] == [dict(one) for one in each]
            assert dict(found.remaining.counts) == expected[age, sex]
    linked = [left for left in expected.values() if left]
    assert linked
    table = pa.table({"age": [age for age, _ in expected], "sex": [sex for _, sex in expected]})
    found = link(releases, population=table, floor=3)
    assert (found.l, found.people_linked) == (min(map(len, linked)), len(linked))
    assert found.people_below == sum(len(left) < 3 for left in linked)


def overlapping_left(release: Release, age: int, sex: str) -> Counter[str]:
    """Two parts, (age, sex) and (sex, illness): sex must be the person's in both."""
    table = release.slices()
    counts: Counter[str] = Counter()
    first, second = table.parts
    pairs = [first.distinct.slice(code, 1).to_pylist()[0] for code in first.codes.tolist()]
    entries = [second.distinct.slice(code, 1).to_pylist()[0] for code in second.codes.tolist()]
    for bucket in range(table.n_buckets):
        inside = np.flatnonzero(table.bucket == bucket).tolist()
        if any(str(pairs[row]["age"]) == str(age) and pairs[row]["sex"] == sex for row in inside):
            counts.update(entries[row]["illness"] for row in inside if entries[row]["sex"] == sex)
    return counts


def bought(seed: int, n: int = 160) -> pa.Table:
    rng = np.random.default_rng(seed)
    baskets = []
    for _ in range(n):
        milk = rng.random() < 0.5
        items = ["milk"] * milk + ["bread"] * (milk if rng.random() < 0.9 else not milk)
        tea = rng.random() < 0.5
        items += ["tea"] * tea + ["rum"] * (tea if rng.random() < 0.9 else not tea)
        baskets.append(";".join(items + ["gum"] * (rng.random() < 0.2)) or "milk")
    return pa.table({"age": rng.integers(20, 24, n), "basket": baskets})


def basket_policy(columns: int = 2, sensitive: tuple[str, ...] = ("gum",)) -> dict[str, Any]:
    items = {"separator": ";", "columns": columns, "sensitive": list(sensitive)}
    return {
        "attributes": {"age": {"role": "quasi"}, "basket": {"role": "quasi", "items": items}},
        "privacy": [{"confidence-bounding": {"most": 0.5, "harmless": ["none"], "separator": ";"}}],
        "method": {"slicing": {"columns": "each", "bucket_size": 10}},
    }


def test_baskets_are_linked_by_the_items_of_their_groups() -> None:
    releases = [shoal.anonymize(bought(seed), basket_policy(), seed=seed) for seed in (1, 2)]
    groups = [sorted(map(sorted, release.manifest["items"]["basket"]["groups"])) for release in releases]
    assert groups[0] == groups[1] == [["bread", "milk"], ["rum", "tea"]]
    named = [release.manifest["items"]["basket"]["groups"] for release in releases]
    if named[0] == named[1]:
        first, second = ("bread;milk", "none") if "milk" in named[0][0] else ("none", "bread;milk")
        for person in (
            {"basket 1": first, "basket 2": second}, {"age": "21", "basket 1": first}, {"age": "22"},
        ):  # fmt: skip
            each = [buckets_left(release, "basket sensitive", person) for release in releases]
            assert dict(link(releases, person).remaining.counts) == least(each)
    assert link(releases).attributes == ("age", "basket 1", "basket 2")

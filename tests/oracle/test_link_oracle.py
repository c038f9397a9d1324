"""Linking against brute force: every person asked of every published row, on small random tables."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.linking.linking import link, worst_case_l
from shoal.release.release import Release

SEXES, PLACES, ILLNESSES = ("F", "M"), ("100", "101", "110", "201"), ("flu", "gout", "measles", "cough", "ulcer")
ATTRIBUTES = {
    "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 9, "widths": [2, 4]}}},
    "sex": {"role": "quasi"},
    "place": {"role": "quasi", "taxonomy": {"mask": {"length": 3}}},
    "illness": {
        "role": "sensitive",
        "taxonomy": {"tree": {"any": {"inner": ["gout", "ulcer"], "caught": ["flu", "measles", "cough"]}}},
    },
}
K2 = [{"k-anonymity": {"k": 2}}]
L2 = [{"distinct-l-diversity": {"l": 2}}]
WAYS: dict[str, dict[str, Any]] = {
    "mondrian": {"privacy": K2, "method": {"mondrian": {}}},
    "sweep": {"privacy": [{"tau-l-diversity": {"tau": 0.6, "l": 2}}], "method": {"sweep": {}}, "max_withheld": 0.2},
    "incognito": {"privacy": K2, "method": {"incognito": {}}, "max_withheld": 0.2},
    "hilbert": {"privacy": K2, "method": {"hilbert": {}}},
    "slicing": {
        "privacy": L2,
        "method": {"slicing": {"parts": [["age", "sex"], ["place", "illness"]]}},
        "max_withheld": 0.2,
    },
    "thrice": {
        "privacy": L2,
        "method": {"slicing": {"parts": [["age"], ["sex"], ["place", "illness"]]}},
        "max_withheld": 0.2,
    },
    "anatomy": {"privacy": [{"simple-l-diversity": {"l": 2}}], "method": {"anatomy": {}}, "max_withheld": 0.2},
}


def people(rng: np.random.Generator, n: int) -> pa.Table:
    return pa.table(
        {
            "age": rng.integers(0, 10, n),
            "sex": rng.choice(SEXES, n),
            "place": rng.choice(PLACES, n),
            "illness": rng.choice(ILLNESSES, n, p=[0.3, 0.25, 0.2, 0.15, 0.1]),
        }
    )


def published(table: pa.Table, way: str, seed: int, names: tuple[str, ...] = tuple(ATTRIBUTES)) -> Release:
    policy = {"attributes": {name: ATTRIBUTES[name] for name in names}, **WAYS[way]}
    return shoal.anonymize(table.select(list(names)), policy, seed=seed)


def covers(cover: Mapping[str, Any], value: Any) -> bool:
    if cover.get("any"):
        return True
    if "from" in cover and "below" in cover:
        low, high = cover["from"], cover["below"]
        return (low is None or low <= value) and (high is None or value < high)
    if "from" in cover:
        low, high = cover["from"], cover["through"]
        return (low is None or low <= str(value)) and (high is None or str(value) <= high)
    return str(value) in cover.get("values", ()) or any(str(value).startswith(p) for p in cover.get("prefixes", ()))


def matches(release: Release, name: str, cell: Any, person: Mapping[str, Any]) -> bool:
    entry = release.manifest["attributes"][name]
    if name not in person or entry["role"] != "quasi":
        return True
    return covers(entry["labels"][cell], person[name]) if "labels" in entry else str(cell) == str(person[name])


def candidates(release: Release, text: str) -> list[str]:
    labels = release.manifest["attributes"]["illness"].get("labels")
    return [text] if labels is None else labels[text]["values"]


# every value, and one that no table has: only a label for everything covers it
DOMAINS: dict[str, tuple[Any, ...]] = {"age": (*range(10), -1), "sex": (*SEXES, "?"), "place": (*PLACES, "?")}


def resolve(release: Release, rows: list[Any], names: list[str]) -> list[Any]:
    """Return the rows whose labels contain no other of these rows' labels wholly."""
    regions = {
        tuple(row[name] for name in names): [
            {value for value in DOMAINS[name] if matches(release, name, row[name], {name: value})} for name in names
        ]
        for row in rows
    }

    def contains(one: list[set[Any]], other: list[set[Any]]) -> bool:
        return one != other and all(mine >= theirs for mine, theirs in zip(one, other, strict=True))

    wide = {label for label, own in regions.items() if any(contains(own, other) for other in regions.values())}
    return [row for row in rows if tuple(row[name] for name in names) not in wide]


def left(release: Release, person: Mapping[str, Any]) -> Counter[str]:
    """Return what a release leaves, row by row, of the most specific classes if all quasi values are known."""
    rows, parts = release.data.to_pylist(), release.manifest["parts"]
    counts: Counter[str] = Counter()
    if len(parts) == 1:
        names = [name for name in parts[0] if release.manifest["attributes"][name]["role"] == "quasi"]
        fitting = [row for row in rows if all(matches(release, name, row[name], person) for name in names)]
        for row in resolve(release, fitting, names) if {*names} <= person.keys() else fitting:
            counts.update(candidates(release, row["illness"]))
        return counts
    own = next(part for part in parts if "illness" in part)
    for bucket in {row["bucket"] for row in rows}:
        inside = [row for row in rows if row["bucket"] == bucket]
        fits = {
            tuple(part): [row for row in inside if all(matches(release, name, row[name], person) for name in part)]
            for part in parts
        }
        if all(fits.values()):
            for row in fits[tuple(own)]:
                counts.update(candidates(release, row["illness"]))
    return counts


def together(releases: list[Release], person: Mapping[str, Any]) -> dict[str, int]:
    each = [left(release, person) for release in releases]
    return {s: n for s in ILLNESSES if (n := min(counts[s] for counts in each))}


PAIRS = [*itertools.combinations_with_replacement(WAYS, 2), ("mondrian", "sweep", "slicing"), ("hilbert",) * 3]


@pytest.mark.parametrize("ways", PAIRS, ids="-".join)
def test_linking_leaves_what_asking_every_row_leaves(ways: tuple[str, ...]) -> None:
    rng = np.random.default_rng(len("".join(ways)) * 31)
    everybody = people(rng, 40)
    chosen = [rng.permutation(40)[:30] for _ in ways]
    releases = [
        published(everybody.take(rows), way, seed) for seed, (way, rows) in enumerate(zip(ways, chosen, strict=True))
    ]
    domain = [
        {"age": age, "sex": sex, "place": place} for age, sex, place in itertools.product(range(10), SEXES, PLACES)
    ]
    expected = {tuple(person.values()): together(releases, person) for person in domain}
    some = [person for person in domain if all(left(release, person) for release in releases)]
    for person in some[:6]:
        found = link(releases, {name: str(value) for name, value in person.items()})
        assert dict(found.remaining.counts) == expected[tuple(person.values())]
        assert [dict(alone.counts) for alone in found.alone] == [dict(left(release, person)) for release in releases]
    partly = {"age": some[0]["age"]}
    assert dict(link(releases, {"age": str(partly["age"])}).remaining.counts) == together(releases, partly)

    # Given people.
    floor = 3
    got = link(releases, floor=floor, population=everybody)
    theirs = [expected[row["age"], row["sex"], row["place"]] for row in everybody.to_pylist()]
    linked = [counts for counts in theirs if counts]
    assert got.l == min(map(len, linked))
    assert got.people_linked == len(linked)
    assert got.people_below == sum(len(counts) < floor for counts in linked)
    assert got.frequency_l == pytest.approx(min(sum(c.values()) / max(c.values()) for c in linked))
    assert got.entropy_l == pytest.approx(min(entropy_l(counts) for counts in linked))
    assert got.bound == worst_case_l(got.values, got.alone)

    # Everybody who can be.
    whole = link(releases, floor=floor)
    anybody = [counts for counts in expected.values() if counts]
    assert whole.l <= min(map(len, anybody))
    if whole.exact:
        assert whole.l == min(map(len, anybody))
        assert whole.frequency_l == pytest.approx(min(sum(c.values()) / max(c.values()) for c in anybody))
        assert whole.entropy_l == pytest.approx(min(entropy_l(counts) for counts in anybody))
        assert any(dict(case.remaining.counts) in anybody for case in whole.worst)
    assert whole.worst[0].remaining.l == whole.l
    common = set.intersection(*(set(rows.tolist()) for rows in chosen))
    withheld = sum(release.manifest["withheld"] for release in releases)
    assert sum(len(theirs[place]) < floor for place in common) - withheld <= whole.people_below
    assert (
        whole.people_below
        <= whole.people_linked
        <= whole.people
        == 30 - max(release.manifest["withheld"] for release in releases)
    )


def entropy_l(counts: Mapping[str, int]) -> float:
    total = sum(counts.values())
    return math.exp(-sum(n / total * math.log(n / total) for n in counts.values()))


def test_the_worst_case_is_the_worst_of_all_supports() -> None:
    """Proposition 3.1, by all choices of supports that share the person's own value."""
    for n_values in range(1, 6):
        others = range(1, n_values)
        for ls in itertools.chain(
            itertools.product(range(1, n_values + 1), repeat=2), itertools.product(range(1, n_values + 1), repeat=3)
        ):
            supports = [[{0, *chosen} for chosen in itertools.combinations(others, l - 1)] for l in ls]
            least = min(len(set.intersection(*each)) for each in itertools.product(*supports))
            assert worst_case_l(n_values, ls) == least

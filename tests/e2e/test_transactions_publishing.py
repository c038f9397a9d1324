"""Baskets from the shop to the published file: what stays exact, what is promised, and what the verifier refuses."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import shoal as package
from shoal.release.release import Release
from shoal.sources.opening import open_source
from shoal.verify.result import Verification
from shoal.verify.verifier import verify_table

N_PEOPLE, N_ITEMS, KINDS = 5000, 300, 4
SENSITIVE = ("item 009", "item 031", "item 088")
MOST = 0.2


def shop(seed: int) -> pa.Table:
    """People of four tastes; items by Zipf's law, each favoured by one of the tastes."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(1, N_ITEMS + 1)
    chance *= 5 / chance.sum()
    taste = rng.integers(0, KINDS, N_PEOPLE)
    favoured = np.arange(N_ITEMS) % KINDS == taste[:, np.newaxis]
    has = rng.random((N_PEOPLE, N_ITEMS)) < np.minimum(np.where(favoured, 2.8 * chance, 0.4 * chance), 0.95)
    baskets = ["; ".join(f"item {item:03}" for item in rng.permutation(np.flatnonzero(row))) for row in has]
    return pa.table({"age": rng.integers(18, 90, N_PEOPLE), "basket": baskets})


def policy(**options: Any) -> dict[str, Any]:
    return {
        "attributes": {
            "age": {"role": "quasi"},
            "basket": {"role": "quasi", "items": {"columns": KINDS, "sensitive": list(SENSITIVE)}},
        },
        "privacy": [{"confidence-bounding": {"most": MOST, "harmless": ["none"], "separator": ";"}}],
        "method": {"slicing": {"columns": "each", "bucket_size": 8}},
        **options,
    }


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return shop(3)


@pytest.fixture(scope="module")
def release(table: pa.Table) -> Release:
    return package.anonymize(table, policy(), seed=4)


@pytest.fixture(scope="module")
def witness(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the bucket of every row of the table in the same release."""
    folder = tmp_path_factory.mktemp("baskets") / "out"
    package.anonymize(table, policy(), seed=4, out=folder)
    return np.asarray(pyarrow.parquet.read_table(folder / "internal" / "witness.parquet")["bucket"])


def sets(texts: Iterable[str | None]) -> list[set[str]]:
    return [{item.strip() for item in (text or "").split(";")} - {"", "none"} for text in texts]


def column(release: Release, name: str) -> list[Any]:
    values: list[Any] = release.data.column(name).to_pylist()
    return values


def test_frequencies_and_pairs_within_a_group_are_exact(table: pa.Table, release: Release) -> None:
    before = sets(table.column("basket").to_pylist())
    entry = release.manifest["items"]["basket"]
    groups = [*entry["groups"], entry["sensitive"]]
    names = [*(f"basket {number}" for number in range(1, KINDS + 1)), "basket sensitive"]
    for name, group in zip(names, groups, strict=True):
        inside = [items & set(group) for items in before]
        after = sets(column(release, name))
        for size in (1, 2):
            expected = Counter(pair for items in inside for pair in itertools.combinations(sorted(items), size))
            found = Counter(pair for items in after for pair in itertools.combinations(sorted(items), size))
            assert found == expected
    frequent = [[item for item in group if int(item[-3:]) < 60] for group in entry["groups"]]
    pure = sum(max(Counter(int(item[-3:]) % KINDS for item in group).values()) for group in frequent)
    assert pure >= 0.7 * sum(map(len, frequent)), "what one taste favours should be in one group"


def judged(
    release: Release, source: pa.Table | None, data: pa.Table, witness: Any = None, **entries: Any
) -> Verification:
    manifest = {**copy.deepcopy(release.manifest), **entries}
    return verify_table(data, manifest, source=None if source is None else open_source(source), witness=witness)


def refused(verification: Verification) -> set[str]:
    broken = {check.name for check in verification.checks if not check.ok}
    return broken | {promise.model for promise in verification.guarantees if not promise.ok}


def with_column(data: pa.Table, name: str, values: list[Any]) -> pa.Table:
    return data.set_column(data.column_names.index(name), name, pa.array(values, pa.string()))


def test_the_honest_release_is_accepted_with_and_without_the_source(table: pa.Table, release: Release) -> None:
    assert refused(judged(release, table, release.data)) == set()
    assert refused(judged(release, None, release.data)) == set()


def test_sensitive_sets_gathered_in_one_bucket_are_refused(table: pa.Table, release: Release) -> None:
    values, buckets = column(release, "basket sensitive"), column(release, "bucket")
    here = [place for place, bucket in enumerate(buckets) if bucket == 1]
    there = [place for place, value in enumerate(values) if value == SENSITIVE[0] and buckets[place] != 1]
    for mine, other in zip(here, there, strict=False):
        values[mine], values[other] = values[other], values[mine]
    spoiled = with_column(release.data, "basket sensitive", values)
    assert "confidence-bounding" in refused(judged(release, table, spoiled))
    assert "confidence-bounding" in refused(judged(release, None, spoiled))


def test_an_item_taken_from_a_set_is_refused(table: pa.Table, release: Release, witness: Any) -> None:
    assert judged(release, table, release.data, witness).verified
    values = column(release, "basket 1")
    place = next(place for place, value in enumerate(values) if value and value.count(";") > 1)
    values[place] = values[place].rpartition(";")[0]
    assert "parts" in refused(judged(release, table, with_column(release.data, "basket 1", values), witness))


@pytest.mark.parametrize("change", ["unsorted", "foreign", "elsewhere", "repeated"])
def test_sets_that_are_not_of_their_group_are_refused(release: Release, change: str) -> None:
    values = column(release, "basket 1")
    place = next(place for place, value in enumerate(values) if value and ";" in value)
    stranger = release.manifest["items"]["basket"]["groups"][1][0]
    items = values[place].split(";")
    values[place] = ";".join(
        {
            "unsorted": items[::-1],
            "foreign": ["aaa", *items],
            "elsewhere": sorted([*items, stranger]),
            "repeated": [items[0], *items],
        }[change]
    )
    assert refused(judged(release, None, with_column(release.data, "basket 1", values))) >= {"items"}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entry: entry["groups"][0].append("a thing that nobody has"),
        lambda entry: entry["groups"][0].append(entry["groups"][1][0]),
        lambda entry: entry["groups"].append([]),
        lambda entry: entry["groups"].pop(),
        lambda entry: entry["sensitive"].pop(),
        lambda entry: entry.update(separator=""),
        lambda entry: entry.update(more=1),
        lambda entry: entry["groups"][0].append("none"),
        lambda entry: entry.update(groups=[7]),
    ],
)
def test_lists_of_items_that_do_not_fit_are_refused(release: Release, spoil: Any) -> None:
    items = copy.deepcopy(release.manifest["items"])
    spoil(items["basket"])
    assert refused(judged(release, None, release.data, items=items)) >= {"items"}


def test_another_assignment_of_items_is_no_truth(table: pa.Table, release: Release, witness: Any) -> None:
    """An item changes its name in the release and in the list alike: only the source tells."""
    items = copy.deepcopy(release.manifest["items"])
    old = items["basket"]["groups"][0][0]
    items["basket"]["groups"][0][0] = "item -01"
    values = [value and value.replace(old, "item -01") for value in column(release, "basket 1")]
    spoiled = with_column(release.data, "basket 1", values)
    assert refused(judged(release, None, spoiled, items=items)) == set()
    assert refused(judged(release, table, spoiled, witness, items=items)) != set()

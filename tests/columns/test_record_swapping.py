"""Targeted record swapping: who is at risk, with whom areas are exchanged, and what stays as it is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shoal
from shoal.columns.base import TreatedSource, treat
from shoal.columns.record_swapping import RecordSwapping
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.frames import open_arrow

LEVELS = ("region", "district", "town")


def census(rng: np.random.Generator, n_households: int) -> pa.Table:
    size = rng.integers(1, 4, n_households)
    household = np.repeat(np.arange(n_households), size)
    town = rng.integers(0, 12, n_households)[household]
    n = len(household)
    order = rng.permutation(n)  # the records of a household need not stand side by side
    table = pa.table(
        {
            "hid": household,
            "region": [f"r{t // 6}" for t in town],
            "district": [f"d{t // 3}" for t in town],
            "town": [f"t{t}" for t in town],
            "age": rng.integers(0, 12, n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    return table.take(pa.array(order))


def swap(table: pa.Table, technique: RecordSwapping, seed: int | None = None, rows: int = 1 << 16) -> TreatedSource:
    source = treat({"town": technique}, open_arrow(table, SourceOptions(), "census", rows), Chance.of(seed))
    assert isinstance(source, TreatedSource)
    return source


def read(source: TreatedSource) -> pa.Table:
    return pa.Table.from_batches(source.batches())


def counted(table: pa.Table, *names: str) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(table[name].to_pylist() for name in names), strict=True))


def find_risk(table: pa.Table, k: int) -> dict[int, int]:
    """Return of each household the coarsest level at which somebody of it is rare, by counting record by record."""
    found = dict.fromkeys(table["hid"].to_pylist(), len(LEVELS))
    for depth in reversed(range(len(LEVELS))):
        names = (*LEVELS[: depth + 1], "age", "sex")
        cells = counted(table, *names)
        for household, *cell in zip(
            table["hid"].to_pylist(), *(table[name].to_pylist() for name in names), strict=True
        ):
            if cells[tuple(cell)] < k:
                found[household] = depth
    return found


@given(
    st.integers(0, 2**32),
    st.integers(2, 80),
    st.sampled_from([(), ("sex",), ("sex", "age")]),
    st.sampled_from([0.0, 0.2, 0.9]),
    st.integers(2, 5),
)
def test_everything_but_who_lives_where_is_unchanged(
    seed: int, n_households: int, similar: tuple[str, ...], share: float, k: int
) -> None:
    before = census(np.random.default_rng(seed), n_households)
    technique = RecordSwapping(
        hierarchy=LEVELS, risk=("age", "sex"), similar=similar, household="hid", share=share, k=k
    )
    source = swap(before, technique, seed)
    after = read(source)
    assert after.schema == before.schema
    assert after.drop_columns(list(LEVELS)).equals(before.drop_columns(list(LEVELS)))
    assert counted(after, *LEVELS, *similar) == counted(before, *LEVELS, *similar)
    old = dict(zip(before["hid"].to_pylist(), zip(*(before[n].to_pylist() for n in LEVELS), strict=True), strict=True))
    new = dict(zip(after["hid"].to_pylist(), zip(*(after[n].to_pylist() for n in LEVELS), strict=True), strict=True))
    assert set(counted(after, "hid", *LEVELS)) == {(household, *area) for household, area in new.items()}  # together
    risk = find_risk(before, k)
    found = source.findings()["town"]
    assert found["households"] == n_households
    assert found["households_at_risk"] == sum(level < len(LEVELS) for level in risk.values())
    moved = [household for household in old if old[household] != new[household]]
    assert found["households_swapped"] == len(moved)
    stayed = [household for household, level in risk.items() if level < len(LEVELS) and household not in set(moved)]
    assert len(stayed) <= found["households_at_risk_left_in_place"]
    coarsest = min(risk.values())
    for household in moved:  # areas above the coarsest level at which anybody is at risk are their own
        assert old[household][: min(coarsest, 2)] == new[household][: min(coarsest, 2)]
    assert all(
        town[1:] and int(town[1:]) // 3 == int(d[1:]) and int(d[1:]) // 2 == int(r[1:]) for r, d, town in new.values()
    )


def test_households_at_risk_move_across_their_level_and_no_farther() -> None:
    """One old man is rare in his town and not in his district; one stranger is rare everywhere."""
    towns = {"t0": ("r0", "d0"), "t1": ("r0", "d0"), "t6": ("r1", "d2")}
    rows = [(town, "adult") for town in towns for _ in range(10)]
    rows += [("t0", "old"), ("t1", "old"), ("t1", "old"), ("t1", "old"), ("t0", "stranger")]
    table = pa.table(
        {
            "hid": list(range(len(rows))),
            "region": [towns[town][0] for town, _ in rows],
            "district": [towns[town][1] for town, _ in rows],
            "town": [town for town, _ in rows],
            "kind": [kind for _, kind in rows],
        }
    )
    technique = RecordSwapping(hierarchy=LEVELS, risk=("kind",), k=2, share=0, household="hid")
    for seed in range(20):
        source = swap(table, technique, seed)
        after = read(source)
        assert source.findings()["town"]["households_at_risk"] == 2
        assert source.findings()["town"]["households_swapped"] in (3, 4)  # the stranger may move to the old man's
        stranger = after["town"].to_pylist()[-1]
        assert stranger == "t6"  # the only town of another region
        assert after["region"].to_pylist()[30] == "r0" or after["town"].to_pylist()[30] == "t6"
        shares = {name: source.describe()[name]["swapped"] for name in LEVELS}
        assert shares["region"] <= shares["town"] <= 0.12
        assert shares["region"] == 0.06  # two of 35 records, rounded up


def test_the_same_secret_swaps_the_same_in_any_batches() -> None:
    table = census(np.random.default_rng(2), 500)
    technique = RecordSwapping(hierarchy=LEVELS, risk=("age",), similar=("sex",), household="hid")
    one = read(swap(table, technique, 7))
    assert read(swap(table, technique, 7, rows=37)).equals(one)
    assert not read(swap(table, technique, 8)).equals(one)
    assert swap(table, technique, 7).describe().keys() == set(LEVELS)


def test_what_is_no_hierarchy_is_refused() -> None:
    table = pa.table({"region": ["x", "y", "x"], "town": ["a", "a", "b"], "hid": [1, 2, 1], "age": [1, 2, 3]})
    with pytest.raises(InputError, match="column 'town': 1 area lies in several areas of 'region', so these"):
        swap(table, RecordSwapping(hierarchy=("region", "town")))
    with pytest.raises(InputError, match="column 'hid': 1 household has records in several areas of 'town'"):
        swap(table, RecordSwapping(hierarchy=("town",), household="hid"))
    with pytest.raises(InputError, match="'hid' has no value in 1 record"):
        swap(pa.table({"town": ["a", "b"], "hid": [1, None]}), RecordSwapping(hierarchy=("town",), household="hid"))
    with pytest.raises(PolicyError, match="must end with this column"):
        swap(table, RecordSwapping(hierarchy=("town", "region")))
    missing = pa.table({"region": ["x", "y", "x", "y"], "town": ["a", "b", None, None]})
    assert counted(
        read(swap(missing, RecordSwapping(hierarchy=("region", "town"), share=0.5))), "region", "town"
    ) == counted(missing, "region", "town")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"hierarchy": []}, "at least 1"),
    ({"hierarchy": ["region", "region"]}, "names a column twice"),
    ({"hierarchy": ["region", "town"], "risk": ["region"]}, "'region' is in the hierarchy"),
    ({"hierarchy": ["region", "town"], "share": 0}, "no household would be swapped"),
    ({"hierarchy": ["region", "town"], "k": 1}, "must be at least 2"),
    ({"hierarchy": ["town", "region"]}, "must end with this column"),
    ({"hierarchy": ["area", "town"]}, "'area' is not a published attribute"),
    ({"hierarchy": ["hid", "town"]}, "'hid' is not a published attribute"),
    ({"hierarchy": ["age", "town"]}, "also changes 'age', which another technique changes"),
]


@pytest.mark.parametrize(("parameters", "said"), WRONG, ids=[said for _, said in WRONG])
def test_mistakes_are_found_in_the_policy(parameters: dict[str, Any], said: str) -> None:
    attributes = {
        "hid": {"role": "identifier"},
        "region": {"role": "insensitive"},
        "age": {"role": "insensitive", "technique": {"rounding": {"base": 5}}},
        "town": {"role": "quasi", "technique": {"record-swapping": parameters}},
    }
    with pytest.raises(PolicyError) as refused:
        shoal.Policy.load({"attributes": attributes, "privacy": [], "method": "plain"})
    assert said in str(refused.value)


@pytest.mark.parametrize("method", ["plain", "mondrian"])
def test_releases_are_verified_and_say_what_was_done(method: str) -> None:
    table = census(np.random.default_rng(3), 400)
    technique = {
        "record-swapping": {"hierarchy": list(LEVELS), "risk": ["age"], "similar": ["sex"], "household": "hid"}
    }
    attributes: dict[str, Any] = {name: {"role": "quasi"} for name in (*LEVELS, "age", "sex")}
    attributes |= {"hid": {"role": "identifier"}, "town": {"role": "quasi", "technique": technique}}
    privacy = [] if method == "plain" else [{"k-anonymity": {"k": 3}}]
    release = shoal.anonymize(table, {"attributes": attributes, "privacy": privacy, "method": method}, seed=5)
    assert release.verification.verified
    assert {name: entry["household"] for name, entry in release.manifest["techniques"].items()} == dict.fromkeys(
        LEVELS, True
    )
    assert "hid" not in str(release.manifest["techniques"])
    found = shoal.attack(release, table, seed=1, targets=50)
    assert found

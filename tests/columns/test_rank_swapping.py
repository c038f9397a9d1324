"""Rank swapping: numbers stay within the window, all of them are used, and what cannot be done is refused."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import shoal
from shoal.columns.base import treat
from shoal.columns.rank_swapping import RankSwapping, _pair_ranks
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source


def swap(values: pa.Array, window: float, seed: int | None = None) -> pa.Array:
    source = treat(
        {"x": RankSwapping(window=window)}, open_source(pa.table({"x": values}), SourceOptions()), Chance.of(seed)
    )
    return pa.Table.from_batches(source.batches())["x"].combine_chunks()


@given(st.integers(2, 200), st.integers(1, 50), st.integers(0, 2**32))
def test_partners_are_mutual_and_in_the_window(n: int, reach: int, seed: int) -> None:
    partner = _pair_ranks(n, reach, Chance.of(seed).keys(n))
    assert np.array_equal(partner[partner], np.arange(n))
    assert np.abs(partner - np.arange(n)).max() <= reach
    alone = np.flatnonzero(partner == np.arange(n))
    assert (np.diff(alone) > reach).all()  # two that are alone and near would have found each other


def test_every_partner_in_the_window_is_equally_likely() -> None:
    """10,000 draws of the first rank's partner among 4: chi-squared with 3 degrees is above 21 once in 8,000 runs."""
    chance = Chance.of(11)
    found = np.array([_pair_ranks(9, 4, chance.keys(9))[0] for _ in range(10_000)])
    counts = np.bincount(found, minlength=5)
    assert counts[0] == 0
    assert ((counts[1:] - 2500) ** 2 / 2500).sum() < 21


def test_numbers_are_those_of_the_source_and_missing_ones_stay() -> None:
    rng = np.random.default_rng(3)
    values = pa.array(rng.integers(0, 500, 2000), mask=rng.random(2000) < 0.1)
    moved = swap(values, 0.03)
    assert moved.is_null().equals(values.is_null())
    before, after = (np.asarray(column.drop_null()) for column in (values, moved))
    assert np.array_equal(np.sort(before), np.sort(after))
    ranked = np.sort(before)
    low, high = np.minimum(before, after), np.maximum(before, after)
    apart = np.searchsorted(ranked, high) - np.searchsorted(ranked, low, side="right") + 1
    assert 0 < apart.max() <= int(0.03 * len(before))


def test_what_cannot_be_done_is_refused() -> None:
    for window in (0, 1, -0.1, float("nan")):
        with pytest.raises(ValidationError):
            RankSwapping(window=window)
    with pytest.raises(PolicyError, match=r"column 'x': a window of 0.001 of 40 numbers is less than one rank"):
        swap(pa.array(range(40)), 0.001)
    with pytest.raises(InputError, match="column 'x' has 1 value that cannot be read as a number"):
        swap(pa.array(["1", "2", "many"]), 0.5)


def test_a_release_says_what_was_done_and_is_verified() -> None:
    people = pa.table({"wage": list(range(1000, 1400)), "town": ["a", "b", "c", "d"] * 100})
    attributes = {
        "wage": {"role": "quasi", "technique": {"rank-swapping": {"window": 0.05}}},
        "town": {"role": "insensitive"},
    }
    release = shoal.anonymize(people, {"attributes": attributes, "privacy": [], "method": "plain"})
    assert release.verification.verified
    entry = {"technique": "rank-swapping", "window": 0.05, "within": [], "distance": 10.0}
    assert release.manifest["techniques"]["wage"] == entry
    assert sorted(release.data["wage"].to_pylist()) == list(range(1000, 1400))

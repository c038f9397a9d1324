"""Distributions of the techniques' chance. Seeds are fixed, so nothing here fails by chance; each bound was set so
that a new seed would break it at most once in a million runs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from shoal.columns.base import Technique, treat
from shoal.columns.noise import Noise
from shoal.columns.permutation import Permutation, Swapping
from shoal.columns.rounding import Rounding
from shoal.core.randomness import Chance
from shoal.sources.base import SourceOptions
from shoal.sources.opening import open_source

RARE = 1e-6
N = 200_000


def done(technique: Technique, values: object, seed: int = 11) -> np.ndarray:
    source = open_source(pa.table({"x": values}), SourceOptions())
    batches = treat({"x": technique}, source, Chance.of(seed)).batches()
    return pa.Table.from_batches(batches)["x"].to_numpy()


def fits(drawn: np.ndarray, low: int, high: int, chances: np.ndarray) -> bool:
    """Whether whole numbers have these chances from low to high; the tails are two cells more."""
    inner = chances[low <= np.arange(low, high + 1)]
    counts = np.bincount(np.clip(drawn, low - 1, high + 1) - (low - 1), minlength=high - low + 3)
    tail = (1 - inner.sum()) / 2
    expected = np.concatenate([[tail], inner, [tail]]) * len(drawn)
    assert expected.min() > 5
    return bool(stats.chisquare(counts, expected).pvalue > RARE)


@pytest.mark.parametrize("scale", [1.0, 3.7, 20.0])
def test_laplace_noise_is_discrete_laplace(scale: float) -> None:
    edge = int(4 * scale)
    steps = np.arange(-edge, edge + 1)
    q = np.exp(-1 / scale)
    assert fits(done(Noise(laplace={"scale": scale}), np.zeros(N)), -edge, edge, (1 - q) / (1 + q) * q ** abs(steps))


@pytest.mark.parametrize("sd", [1.0, 7.5])
def test_gaussian_noise_is_rounded_normal(sd: float) -> None:
    edge = int(3 * sd)
    steps = np.arange(-edge, edge + 1)
    chances = stats.norm.cdf((steps + 0.5) / sd) - stats.norm.cdf((steps - 0.5) / sd)
    assert fits(done(Noise(gaussian={"sd": sd}), np.zeros(N)), -edge, edge, chances)


def test_redrawn_noise_is_the_distribution_cut_off() -> None:
    q = np.exp(-1 / 3)
    chances = q ** np.abs(np.arange(11) - 1)
    drawn = done(Noise(laplace={"scale": 3}, min=0, max=10, edges="redraw"), np.ones(N))
    counts = np.bincount(drawn, minlength=11)
    assert stats.chisquare(counts, chances / chances.sum() * N).pvalue > RARE


def test_random_rounding_is_right_in_the_mean() -> None:
    for value in (1, 2, 4):
        ups = int((done(Rounding(base=5, random=True), np.full(N, value)) == 5).sum())
        assert stats.binomtest(ups, N, value / 5).pvalue > RARE


def test_all_orders_of_a_permutation_are_equally_likely() -> None:
    groups = np.repeat(np.arange(4000), 3)
    source = open_source(pa.table({"g": groups, "x": np.tile([0, 1, 2], 4000)}), SourceOptions())
    batches = treat({"x": Permutation(within=("g",))}, source, Chance.of(11)).batches()
    orders = pa.Table.from_batches(batches)["x"].to_numpy().reshape(4000, 3)
    counts = Counter(map(tuple, orders.tolist()))
    assert len(counts) == 6
    assert stats.chisquare(list(counts.values())).pvalue > RARE


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_small_groups_swap_as_often_as_asked(share: float) -> None:
    """Pairs of groups of two: each pair swaps with the probability of the share."""
    groups = np.repeat(np.arange(20_000), 2)
    source = open_source(pa.table({"g": groups, "x": np.tile([0, 1], 20_000)}), SourceOptions())
    batches = treat({"x": Swapping(share=share, within=("g",))}, source, Chance.of(11)).batches()
    swapped = pa.Table.from_batches(batches)["x"].to_numpy()[::2].sum()
    assert stats.binomtest(int(swapped), 20_000, share).pvalue > RARE

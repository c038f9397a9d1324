"""Predicates that isolate somebody: how they are counted, and how many would isolate one among other people."""

from __future__ import annotations

import numpy as np

from shoal.attacks.base import Tally
from shoal.core.arrays import IntArray

ROUNDS = 2000
_MOST = 64


def isolated(counts: IntArray) -> Tally:
    """Count the predicates that one person alone fulfils, given how many people fulfil each."""
    return Tally(int((counts == 1).sum()), len(counts))


def counted_up_to(n_control: int, n_source: int) -> int:
    """Return how far people of a control group who fulfil a predicate must be counted."""
    return max(_MOST, int(_MOST * n_control / n_source))


def smaller_control(n_control: int, n_source: int) -> str:
    """Return the note on a control group that is smaller than the source."""
    return (
        f"the control group has {n_control:,} people and the source {n_source:,}: how many predicates would isolate "
        "somebody among as many others was estimated"
    )


def isolated_elsewhere(counts: IntArray, n_control: int, n_source: int) -> Tally:
    """Count the predicates that isolate one of as many people as the source has, none of whom is in the data.

    *counts* says how many of the control group fulfil each.
    """
    share = n_source / n_control
    if share <= 1:
        # Of X who fulfil it, each is among the first n with chance q: exactly one is with X q (1 - q)^(X - 1).
        chance = float((counts * share * (1 - share) ** np.maximum(counts - 1, 0)).mean())
        return Tally(round(chance * len(counts)), len(counts))
    trials = max(1, round(len(counts) / share**2))  # what a smaller group tells is worth fewer trials
    return Tally(round(isolated_among_more(counts, share) * trials), trials)


def isolated_among_more(counts: IntArray, share: float) -> float:
    """Return the share of predicates that isolate one among *share* times as many people as were counted.

    The expected numbers behind the counts are taken as a mixture, fitted by maximum likelihood over a fine grid. In
    simulations its standard error is about that of so many trials as *share* squared goes into the predicates.

    >>> counts = np.random.default_rng(1).poisson(0.5, 20000)
    >>> bool(abs(isolated_among_more(counts, 2.0) - np.exp(-1)) < 0.02)
    True
    """
    most = int(counts.max(initial=0)) + 1
    seen = np.bincount(counts, minlength=most + 1).astype(np.float64)
    grid = np.concatenate([[0.0], np.geomspace(0.01, most + 1.0, 80)])
    number = np.arange(most + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, most + 1)))])
    chance = np.exp(number[:, None] * np.log(np.maximum(grid, 1e-300)) - grid - logs[:, None])  # (n_counts, n_grid)
    weight = np.full(len(grid), 1 / len(grid))
    for _ in range(ROUNDS):
        joint = chance * weight
        joint /= np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        weight = seen @ joint / seen.sum()
    return float(weight @ (share * grid * np.exp(-share * grid)))

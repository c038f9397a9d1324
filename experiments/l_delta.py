"""Figures 1 and 2 of Rameshwar and Tandon, and what they do not show: how often releases fail, alone and linked.

The paper computes N; nothing in it is drawn at random. Here releases are simulated too, beside the bounds of Theorems
4.4 and 4.5, and so are owners who make their tables l-diverse each by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from experiments.l_delta_simulation import (
    DISTRIBUTIONS,
    GEOMETRIC,
    N_VALUES,
    UNIFORM,
    Decline,
    Failure,
    Linkage,
    Setting,
    count_declines,
    count_failures,
    link_owners,
    simulate,
)
from shoal.core.progress import Progress

BETAS = (0.01, 0.02)
TWO_L = (10, 30)
TWO_DELTAS = (0.01, 0.001)
DELTAS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.99)
P = (0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01, 0.012, 0.014, 0.016, 0.018, 0.02)
L = tuple(range(5, 41))
FIGURES = ("1a", "1b", "2a", "2b")


@dataclass(frozen=True, slots=True)
class Point:
    """One N of a figure, with what it follows from."""

    figure: str
    distribution: str
    beta: float
    l: int
    delta: float
    p: float
    m: float
    classes: int
    records: int  # the paper's N
    tighter_records: int

    @classmethod
    def of(cls, figure: str, setting: Setting, delta: float) -> Point:
        """Compute it."""
        return cls(
            figure=figure,
            distribution=setting.distribution,
            beta=setting.beta,
            l=setting.l,
            delta=delta,
            p=float(setting.p),
            m=float(setting.m),
            classes=len(setting.class_sizes),
            records=setting.records(delta),
            tighter_records=setting.tighter_records(delta),
        )


@dataclass(frozen=True, slots=True)
class Grid:
    """What is simulated."""

    trials: int = 10_000
    l: tuple[int, ...] = (10, 30, N_VALUES)
    deltas: tuple[float, ...] = (0.5, 0.1, 0.01)
    shares: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    declining: float = 0.01  # the delta whose N the shares are of, as for the owners
    owners: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # records of an owner, as shares of N
    common: int = 1_000
    repetitions: int = 4


FULL = Grid()
QUICK = Grid(trials=100, shares=(0.3, 0.6, 1.0), owners=(0.5, 1.0, 4.0), repetitions=1)


@dataclass(frozen=True, slots=True)
class Result:
    """The whole experiment."""

    points: list[Point]
    failures: list[Failure]
    declines: list[Decline]
    linkages: list[Linkage]
    quick: bool
    seed: int

    def of(self, figure: str) -> list[Point]:
        """Return the points of one figure, in the order of its lines."""
        return [point for point in self.points if point.figure == figure]


def compute_points() -> Iterator[Point]:
    """Yield every N of Figures 1 and 2, line by line."""
    for figure, distribution in (("1a", UNIFORM), ("2a", GEOMETRIC)):
        for beta in BETAS:
            for l in TWO_L:
                yield from (Point.of(figure, Setting(distribution, l, beta), delta) for delta in DELTAS)
    for delta in TWO_DELTAS:
        for l in TWO_L:
            # p_l is 1/50 for every l, so that beta is p * 50.
            yield from (Point.of("1b", Setting(UNIFORM, l, round(p * N_VALUES, 6)), delta) for p in P)
    for beta in BETAS:
        for delta in TWO_DELTAS:
            yield from (Point.of("2b", Setting(GEOMETRIC, l, beta), delta) for l in L)


def run_l_delta(*, quick: bool, seed: int, progress: Progress) -> Result:
    """Compute Figures 1 and 2, simulate the mechanism, and link releases; *quick* simulates little."""
    grid = QUICK if quick else FULL
    failed: list[Failure] = []
    declining: list[Decline] = []
    for place, distribution in enumerate(DISTRIBUTIONS):
        for beta in BETAS:
            settings = [Setting(distribution, l, beta) for l in grid.l]
            draw = [seed, place, round(1 / beta)]
            needed = simulate(settings[0].joint, grid.l, grid.trials, draw, progress)
            failed += count_failures(settings, grid.deltas, needed)
            if beta == BETAS[0]:
                declining += count_declines(settings, grid.declining, grid.shares, needed)
    return Result(
        points=list(compute_points()),
        failures=failed,
        declines=declining,
        linkages=_link_releases(grid, seed, progress),
        quick=quick,
        seed=seed,
    )


def _link_releases(grid: Grid, seed: int, progress: Progress) -> list[Linkage]:
    asked = [
        (Setting(distribution, l, BETAS[0]), share)
        for distribution in DISTRIBUTIONS
        for l in TWO_L
        for share in grid.owners
    ]
    seeds = [int(one) for one in np.random.SeedSequence(seed).generate_state(len(asked))]
    found: list[Linkage] = []
    with (
        ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        progress.step("linking releases", len(asked), "settings") as step,
    ):
        waiting = [
            pool.submit(link_owners, setting, grid.declining, share, grid.common, grid.repetitions, [one])
            for (setting, share), one in zip(asked, seeds, strict=True)
        ]
        for one in waiting:
            found += one.result()
            step.advance(1)
    return found

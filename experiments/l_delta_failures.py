"""How often releases of the mechanism fail, by itself and linked: counted in simulated samples, for every N at once.

A class fails as long as it has fewer than l values, so a sample has one number of records from which on it never fails:
the last of its classes to see its l-th value. Samples are followed up to there, and a failure with N records is a
sample whose number is greater than N.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from experiments.l_delta_settings import Setting
from shoal.attacks.base import Estimate, Tally
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.progress import Progress

RELEASES = (1, 2, 3)
PAPER, TIGHTER = "the paper's", "the tighter"
_CHUNK = 50  # samples at a time


@dataclass(frozen=True, slots=True)
class Failure:
    """How many of the simulated releases, or linked sets of releases, had a class with fewer than l values."""

    distribution: str
    beta: float
    l: int
    delta: float
    rule: str  # whose N
    records: int
    releases: int
    failed: int
    trials: int

    @property
    def rate(self) -> Estimate:
        """The failure rate with its Wilson interval."""
        return Tally(self.failed, self.trials).rate()

    @property
    def bound(self) -> float:
        """What the composition theorem allows."""
        return min(1.0, self.releases * self.delta)


@dataclass(frozen=True, slots=True)
class Decline:
    """Failures of samples of a share of the paper's N."""

    distribution: str
    l: int
    share: float
    records: int
    bound: float
    tighter_bound: float
    failed: list[int]  # of one, two, three releases
    trials: int


def first_records(chances: FloatArray, n_samples: int, rng: np.random.Generator) -> IntArray:
    """Return (n_samples, n_cells) the number of the record with which each cell first occurs in a sample.

    Exact, without drawing every record: cells first occur in the order of exponential clocks with their chances as
    rates, and before each new one there is a geometric wait with the chance of all cells that have not occurred.
    """
    order = np.argsort(rng.standard_exponential((n_samples, len(chances))) / chances, axis=1)
    unseen = np.cumsum(chances[order][:, ::-1], axis=1)[:, ::-1]
    waits = rng.geometric(np.minimum(unseen, 1.0))
    first = np.empty_like(order)
    np.put_along_axis(first, order, np.cumsum(waits, axis=1), axis=1)
    return np.asarray(first, dtype=np.int64)


def records_needed(first: IntArray, l: Sequence[int]) -> IntArray:
    """Return (n_l, n_samples) the records with which every class has l values, from (samples, classes, values)."""
    ordered = np.sort(first, axis=2)
    return np.stack([ordered[:, :, one - 1].max(axis=1) for one in l])


def simulated(joint: FloatArray, l: Sequence[int], trials: int, seed: list[int], progress: Progress) -> IntArray:
    """Return (n_releases, n_l, trials) the records that one, two and three linked releases need not to fail.

    A value is left by a linkage if it is in every release: its first record is the latest of theirs.
    """
    n_chunks = -(-trials // _CHUNK)
    generators = [np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(n_chunks)]

    def chunk(place: int) -> IntArray:
        size = min(_CHUNK, trials - place * _CHUNK)
        linked = np.zeros((size, *joint.shape), dtype=np.int64)
        needed = []
        for _ in RELEASES:
            first = first_records(joint.ravel(), size, generators[place])
            linked = np.maximum(linked, first.reshape(size, *joint.shape))
            needed.append(records_needed(linked, l))
        return np.stack(needed)

    # Sorting and drawing run outside the interpreter's lock.
    with (
        ThreadPoolExecutor(os.cpu_count() or 1) as pool,
        progress.step("simulating releases", trials, "samples") as step,
    ):
        parts = []
        for part in pool.map(chunk, range(n_chunks)):
            parts.append(part)
            step.advance(part.shape[2])
    return np.concatenate(parts, axis=2)


def failures(settings: Sequence[Setting], deltas: Sequence[float], needed: IntArray) -> list[Failure]:
    """Count the failures with the paper's N and with the tighter one; *settings* are those of the l's simulated."""
    found = []
    for place, one in enumerate(settings):
        for delta in deltas:
            for rule, records in ((PAPER, one.records(delta)), (TIGHTER, one.tighter_records(delta))):
                for releases in RELEASES:
                    samples = needed[releases - 1, place]
                    failed = int(np.sum(samples > records))
                    found.append(
                        Failure(one.distribution, one.beta, one.l, delta, rule, records, releases, failed, len(samples))
                    )
    return found


def declines(settings: Sequence[Setting], delta: float, shares: Sequence[float], needed: IntArray) -> list[Decline]:
    """Count the failures with ever more of the records that the paper asks for."""
    found = []
    for place, one in enumerate(settings):
        for share in shares:
            records = round(share * one.records(delta))
            failed = [int(np.sum(needed[releases - 1, place] > records)) for releases in RELEASES]
            bounds = min(1.0, one.bound(records)), min(1.0, one.tighter_bound(records))
            found.append(Decline(one.distribution, one.l, share, records, *bounds, failed, needed.shape[2]))
    return found

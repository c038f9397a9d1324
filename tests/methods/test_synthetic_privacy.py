"""Two tables that differ by one record give the same results about as often: a black-box check of the whole way.

Each test looks at a few dozen events in N runs on each table. For every event the upper bound of the one share must not
be below the lower bound of the other over e**epsilon; bounds are Wilson's at z = 4.9 (one error in a million for each
side), so a sound release fails once in some ten thousand runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from shoal.core.randomness import Chance
from shoal.methods.synthetic import Synthetic
from shoal.methods.synthetic.synthesis import synthesize
from shoal.plan.synthetic import Domain
from shoal.taxonomies.builders.listed import FlatTaxonomy

RUNS = 500
Z = 4.9
Outcome = tuple[int, ...]


def wilson(success: int, trials: int) -> tuple[float, float]:
    share = success / trials
    centre = share + Z * Z / (2 * trials)
    half = Z * math.sqrt(share * (1 - share) / trials + Z * Z / (4 * trials * trials))
    return (centre - half) / (1 + Z * Z / trials), (centre + half) / (1 + Z * Z / trials)


def largest_loss(one: list[Outcome], other: list[Outcome], events: list[Callable[[Outcome], bool]]) -> float:
    """The largest loss that the runs prove: log of a lower bound over an upper bound."""
    worst = 0.0
    for event in events:
        first, second = sum(map(event, one)), sum(map(event, other))
        for high, low in ((first, second), (second, first)):
            above, below = wilson(high, len(one))[0], wilson(low, len(other))[1]
            if above > 0:
                worst = max(worst, math.log(above / below))
    return worst


def outcomes(table: list[tuple[int, ...]], epsilon: float, delta: float, size: int, runs: int = RUNS) -> list[Outcome]:
    domains = [
        Domain(f"x{j}", FlatTaxonomy(values=tuple(map(str, range(size)))).build(pa.array([], pa.string())))
        for j in range(len(table[0]))
    ]
    columns = [np.array(column, dtype=np.int32) for column in zip(*table, strict=True)]
    found = []
    for seed in range(runs):
        release = synthesize(columns, domains, Synthetic(epsilon=epsilon, delta=delta), Chance.of(seed))
        codes = [domain.taxonomy.encode(release.table[domain.name].combine_chunks()) for domain in domains]
        joint = sum(code.astype(np.int64) * size**j for j, code in enumerate(codes))
        found.append((*np.bincount(joint, minlength=size ** len(domains)).tolist(), len(release.marginals)))
    return found


def thresholds(n_cells: int) -> list[Callable[[Outcome], bool]]:
    events: list[Callable[[Outcome], bool]] = []
    for cell in range(n_cells):
        for least in range(10):
            events.append(lambda outcome, cell=cell, least=least: outcome[cell] >= least)  # type: ignore[misc]
            events.append(lambda outcome, cell=cell, least=least: outcome[cell] < least)  # type: ignore[misc]
    events += [lambda outcome, least=least: sum(outcome[:-1]) >= least for least in range(2, 12)]  # type: ignore[misc]
    return events


def test_two_attributes_with_a_chosen_pair() -> None:
    pytest.importorskip("opendp")
    without = [(0, 0)] * 4 + [(1, 1)] * 3
    epsilon, runs = 2.0, 250  # an event of all runs on one table and of none on the other would prove a loss of 2.3
    one, other = (outcomes(table, epsilon, 0.0, 2, runs) for table in (without, [*without, (0, 1)]))
    chosen = sum(outcome[-1] for outcome in one)
    assert chosen > 0  # both ways of the choice are looked at
    assert largest_loss(one, other, [*thresholds(4), lambda outcome: outcome[-1] == 1]) <= epsilon


@pytest.mark.thorough
def test_gaussian_noise_with_its_delta() -> None:
    pytest.importorskip("opendp")
    without = [(0,)] * 3 + [(1,)] * 2
    one, other = (outcomes(table, 1.0, 1e-3, 2) for table in (without, [*without, (1,)]))
    assert largest_loss(one, other, thresholds(2)) <= 1.0

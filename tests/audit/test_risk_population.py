"""Estimators on samples of populations whose model, and so whose truth, is known.

Seeds are fixed: the answer of a correct program is always the same, and it has no false alarms.
"""

from __future__ import annotations

import numpy as np
import pytest

from shoal.models import population
from shoal.models.population import Spectrum, estimate_uniqueness

SEEDS = range(16)


def restaurant(people: int, theta: float, alpha: float, rng: np.random.Generator) -> np.ndarray:
    """The class of each person of a population by Pitman's model: people join a table, or open one."""
    table = np.zeros(people, dtype=np.int64)
    sizes = [1]
    chance, choice, accept = rng.random(people), rng.random(people), rng.random(people)
    for i in range(1, people):
        if chance[i] < (theta + alpha * len(sizes)) / (theta + i):
            table[i] = len(sizes)
            sizes.append(1)
            continue
        # By size less alpha: a person already there is asked, and declines with alpha over the table's size.
        asked, declines = table[int(choice[i] * i)], accept[i]
        while declines < alpha / sizes[asked]:
            asked, declines = table[int(rng.random() * i)], rng.random()
        table[i] = asked
        sizes[asked] += 1
    return table


def sampled(classes: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    chosen = rng.permutation(len(classes))[: round(fraction * len(classes))]
    sizes = np.bincount(classes[chosen])
    return sizes[sizes > 0]


@pytest.mark.parametrize(("theta", "alpha"), [(300.0, 0.3), (50.0, 0.7)])
@pytest.mark.parametrize("fraction", [0.05, 0.1])
def test_pitmans_model_finds_the_uniques_of_its_populations(theta, alpha, fraction):
    errors = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        classes = restaurant(30_000, theta, alpha, rng)
        truth = int((np.bincount(classes) == 1).sum())
        sizes = sampled(classes, fraction, rng)
        found = estimate_uniqueness(sizes, fraction)
        assert found.chosen == "pitman"
        errors.append(found.uniques / truth - 1)
    assert abs(np.median(errors)) < 0.1
    assert max(map(abs, errors)) < 0.5


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.1), (2.0, 0.3), (0.2, 0.05)])
@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_the_slide_model_finds_its_parameters_if_it_knows_the_classes(alpha, beta, fraction, monkeypatch):
    """What is estimated badly at small fractions is the number of classes, not the rest."""
    monkeypatch.setattr(population, "count_population_classes", lambda _: 100_000.0)
    errors = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        people = 1 + rng.negative_binomial(alpha, beta, 100_000)
        sizes = rng.binomial(people, fraction)
        found = population.estimate_slide(Spectrum.of(sizes[sizes > 0], fraction))
        errors.append(found / int((people == 1).sum()) - 1)
    assert abs(np.median(errors)) < 0.15

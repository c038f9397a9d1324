"""Zayatz: the chance that a class of one in the sample is one of one in the population, by Bayes' rule."""

from __future__ import annotations

import numpy as np

from shoal.audit.risk.spectrum import Spectrum


def zayatz(sample: Spectrum) -> float:
    """Return the people who are unique in the population, its classes being as large as the sample's, share by share.

    Zayatz, "Estimation of the percent of unique population elements on a microdata file using the sample", US Bureau
    of the Census, 1991. Sampling without replacement: a class of j people shows exactly one with probability
    (n / N) j (N - n)(N - n - 1)...(N - n - j + 2) / ((N - 1)(N - 2)...(N - j + 1)).
    """
    n, population = sample.n, sample.population
    steps = np.arange(int(sample.sizes[-1]) - 1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        missed = np.log(np.maximum(population - n - steps, 0) / (population - 1 - steps))
    others_missed = np.exp(np.concatenate([[0.0], np.cumsum(missed)]))[sample.sizes - 1]
    shows_one = sample.sizes * others_missed * n / population
    weight = sample.classes * shows_one
    right = float(weight[0] / weight.sum())  # the first size is 1: without such classes nobody asks
    return sample.times(1) * right * population / n

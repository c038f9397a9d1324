"""The parts of the estimators against direct sums, and where they refuse."""

from __future__ import annotations

from math import comb, log

import numpy as np
import pytest

from shoal.models import population
from shoal.models.population import NoEstimateError, Spectrum, estimate_uniqueness

SAMPLE = Spectrum.of(np.repeat([1, 2, 3, 5, 8, 20], [400, 60, 20, 8, 4, 2]), 0.05)


def likelihood(sample: Spectrum, theta: float, alpha: float) -> float:
    """Pitman's sampling formula as it is written, but for a constant."""
    classes = sum(log(theta + i * alpha) for i in range(1, sample.n_classes))
    people = sum(log(theta + i) for i in range(1, sample.n))
    joined = sum(
        int(times) * sum(log(i - alpha) for i in range(1, int(size)))
        for size, times in zip(sample.sizes, sample.classes, strict=True)
    )
    return classes - people + joined


def test_pitmans_parameters_are_the_likeliest():
    found = population.fit_pitman(SAMPLE)
    assert 0 < found.alpha < 1
    best = likelihood(SAMPLE, found.theta, found.alpha)
    for by_theta in (0.98, 1, 1.02):
        for by_alpha in (-0.005, 0, 0.005):
            if (by_theta, by_alpha) != (1, 0):
                assert likelihood(SAMPLE, found.theta * by_theta, found.alpha + by_alpha) < best
    step = 1e-4
    rise = likelihood(SAMPLE, found.theta + step, found.alpha) - likelihood(SAMPLE, found.theta - step, found.alpha)
    assert abs(rise / (2 * step)) < 1e-6
    rise = likelihood(SAMPLE, found.theta, found.alpha + step) - likelihood(SAMPLE, found.theta, found.alpha - step)
    assert abs(rise / (2 * step)) < 1e-2  # the third derivative is large


@pytest.mark.parametrize(("alpha", "beta", "fraction"), [(0.5, 0.1, 0.2), (2.0, 0.3, 0.05), (0.05, 0.001, 0.5)])
def test_expected_classes_of_the_slide_model_by_summing(alpha, beta, fraction):
    equations = population._Equations(Spectrum.of(np.array([1, 1, 2]), fraction), 1000.0)
    ones = twos = 0.0
    others = 1.0 * beta**alpha  # the negative binomial probability of m others
    for m in range(40_000):
        ones += others * (m + 1) * fraction * (1 - fraction) ** m
        if m:
            twos += others * comb(m + 1, 2) * fraction**2 * (1 - fraction) ** (m - 1)
        others *= (alpha + m) / (m + 1) * (1 - beta)
        if others * m * m < 1e-18 and m > 10:
            break
    assert equations.ones(alpha, beta) == pytest.approx(1000 * ones, rel=1e-9)
    assert equations.twos(alpha, beta) == pytest.approx(1000 * twos, rel=1e-9)


def test_the_slide_model_solves_its_equations():
    sample = Spectrum.of(np.repeat([1, 2, 3, 4, 6], [300, 90, 30, 12, 5]), 0.3)
    found = population.fit_slide(sample)
    equations = population._Equations(sample, population.count_population_classes(sample))
    assert equations.ones(found.alpha, found.beta) == pytest.approx(300)
    assert equations.twos(found.alpha, found.beta) == pytest.approx(90)
    assert population.estimate_slide(sample) == pytest.approx(found.classes * found.beta**found.alpha)


@pytest.mark.parametrize(
    ("sizes", "model", "why"),
    [
        ([1] * 20, "pitman", "one of at least two"),
        ([1] * 20, "snb", "classes of two"),
        ([1] * 5 + [40] * 30, "pitman", "no likeliest"),
    ],
)
def test_models_without_a_solution_refuse_and_zayatz_is_taken(sizes, model, why):
    found = estimate_uniqueness(np.array(sizes), 0.05)
    estimates = {one.model: one for one in found.estimates}
    assert estimates[model].population_uniques is None
    assert why in estimates[model].refusal
    assert found.chosen == "zayatz"
    assert found.uniques == estimates["zayatz"].population_uniques
    json = found.as_dict()
    assert json["chosen"] == "zayatz"
    assert next(one for one in json["estimates"] if one["model"] == model)["population_uniques"] is None


def test_the_rule_of_dankar_and_others(monkeypatch):
    def said(fraction: float, **uniques: float | None) -> str:
        def model(name: str):
            def estimate(_: Spectrum) -> float:
                if uniques[name] is None:
                    raise NoEstimateError("no")
                return uniques[name]

            return estimate

        names = ("zayatz", "pitman", "snb")
        monkeypatch.setattr(population, "_ESTIMATORS", {name: model(name) for name in names})
        return estimate_uniqueness(np.array([1, 1, 2]), fraction).chosen

    assert said(0.1, zayatz=5, pitman=9, snb=1) == "pitman"
    assert said(0.1, zayatz=5, pitman=None, snb=1) == "zayatz"
    assert said(0.11, zayatz=5, pitman=9, snb=6) == "zayatz"
    assert said(0.11, zayatz=5, pitman=9, snb=4) == "snb"
    assert said(0.11, zayatz=5, pitman=9, snb=5) == "snb"
    assert said(0.11, zayatz=5, pitman=9, snb=None) == "zayatz"
    assert said(0.11, zayatz=5, pitman=9, snb=1e9) == "zayatz"  # no number of people in the population
    assert said(0.11, zayatz=5, pitman=9, snb=float("nan")) == "zayatz"

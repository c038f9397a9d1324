"""Log-linear risk: the fit, the statistics of misfit and the estimates against populations that are known."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from tests import tables
from typer.testing import CliRunner

import shoal
from shoal.audit.survey import estimate_loglinear, fit_margins
from shoal.cli import app

MAIN = [(0,), (1,), (2,)]
PAIRS = [(0, 1), (0, 2), (1, 2)]


def draw_population(rng: np.random.Generator, shape: tuple[int, ...], linked: bool) -> np.ndarray:
    """Expected counts of 20,000 people: independent attributes, or the first two of them linked."""
    expected = np.full(shape, 1.0)
    for axis, n in enumerate(shape):
        expected *= rng.dirichlet(np.full(n, 0.6)).reshape([-1 if place == axis else 1 for place in range(len(shape))])
    if linked:
        expected *= rng.lognormal(0, 1.5, shape[:2]).reshape(*shape[:2], *(1 for _ in shape[2:]))
    return expected / expected.sum() * 20_000


def test_fitted_tables_have_the_margins_and_no_interaction_more() -> None:
    table = np.random.default_rng(1).poisson(4.0, (4, 3, 5)).astype(float) + 1
    independent = fit_margins(table, MAIN)
    n = table.sum()
    closed = np.einsum("i,j,k->ijk", table.sum((1, 2)), table.sum((0, 2)), table.sum((0, 1))) / n**2
    assert np.allclose(independent, closed)
    fitted = fit_margins(table, [*MAIN, *PAIRS])
    for axis in range(3):
        assert np.abs(fitted.sum(axis) - table.sum(axis)).sum() <= 2e-3 * n
    odds = np.log(fitted[1:, 1:] * fitted[:-1, :-1] / (fitted[1:, :-1] * fitted[:-1, 1:]))
    assert np.allclose(odds, odds[:, :, :1], atol=1e-6)  # without a three-way term no odds ratio depends on the third


@pytest.mark.parametrize("fraction", [0.1, 0.4])
def test_the_statistics_are_those_of_the_definition(fraction: float) -> None:
    """B = sum of E(f = 1) [h' (l^ - l) + h'' / 2 (l^ - l)^2], moments estimated by f; derivatives taken numerically."""
    table = np.random.default_rng(2).poisson(1.2, (3, 4)).astype(float)
    codes = np.nonzero(table)
    found = estimate_loglinear(codes, table[codes].astype(int), fraction)[0]
    fitted, total, step = fit_margins(table, [(0,), (1,)]), [0.0, 0.0], 1e-3
    spread = [0.0, 0.0]
    risks = (lambda x: math.exp(-x), lambda x: -math.expm1(-x) / x)
    for f, mu in zip(table.ravel(), fitted.ravel(), strict=True):
        rate = mu / fraction
        for place, risk in enumerate(risks):
            h = [risk((1 - fraction) * (rate + shift)) for shift in (-step, 0.0, step)]
            slope, bend = (h[2] - h[0]) / (2 * step), (h[2] - 2 * h[1] + h[0]) / step**2
            one = mu * math.exp(-mu)
            total[place] += one * (-slope * (f - mu) / fraction + bend / 2 * ((f - mu) ** 2 - f) / fraction**2)
            spread[place] += (one * slope / fraction) ** 2 * mu + 2 * (one * bend / 2 / fraction**2) ** 2 * mu**2
    assert found.misfit == pytest.approx(total[0] / math.sqrt(spread[0]), rel=1e-3)
    assert found.misfit_of_matches == pytest.approx(total[1] / math.sqrt(spread[1]), rel=1e-3)


def test_estimates_on_known_populations() -> None:
    """Means over 8 seeded populations; seeds are fixed, so it fails only if the code changes."""
    rng, errors = np.random.default_rng(5), []
    for linked, _ in itertools.product((False, True), range(8)):
        people = rng.poisson(draw_population(rng, (30, 20, 12), linked))
        sample = rng.binomial(people, 0.1)
        codes = np.nonzero(sample)
        sizes, truth = sample[codes], people[codes]
        found = estimate_loglinear(codes, sizes, 0.1)
        chosen = next(one for one in found if one.chosen)
        right = float((1 / truth[sizes == 1]).sum())
        errors.append([chosen.correct_matches / right - 1, found[0].correct_matches / right - 1])
        assert chosen.interactions > 0 or not linked
    independent, linked_errors = np.mean(errors[:8], axis=0), np.mean(errors[8:], axis=0)
    assert abs(independent[0]) < 0.1
    assert -0.25 < linked_errors[0] < 0.1  # sparse pairs overfit a little
    assert linked_errors[1] > 0.1  # independence overstates the risk of linked attributes


def test_the_audit_states_it(tmp_path: Path) -> None:
    table = tables.people(400, 1, "age sex zip illness")
    document = {"attributes": tables.attributes("age sex zip illness"), "privacy": [{"k-anonymity": {"k": 2}}]}
    assert shoal.audit(table, document).loglinear == ()
    found = shoal.audit(table, document, sample_fraction=0.2)
    assert found.as_dict()["loglinear"][0]["interactions"] == 0
    data, policy = tmp_path / "people.csv", tmp_path / "policy.json"
    pyarrow.csv.write_csv(table, data)
    policy.write_text(json.dumps(document))
    shown = CliRunner().invoke(app, ["audit", str(data), "-p", str(policy), "--sample-fraction", "0.2"])
    assert shown.exit_code == 0, shown.output
    assert "Log-linear models: of 129 records unique" in shown.output
    assert "(chosen)" in shown.output

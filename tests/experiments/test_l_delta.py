"""The (l,delta)-diversity paper's figures, the simulations beside its bounds, their page, one quick run."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.figures import link_to_docs, read_result
from experiments.l_delta import FIGURES, QUICK, Result, compute_points
from experiments.l_delta_page import NAMES, stem, write_page
from experiments.l_delta_simulation import (
    AGENCY,
    ALONE,
    COARSE,
    GEOMETRIC,
    N_QUASI,
    N_VALUES,
    PAPER,
    TIGHTER,
    UNIFORM,
    Failure,
    Linkage,
    Setting,
    chances,
    count_declines,
    simulate,
)
from experiments.l_delta_statements import judge_statements

from shoal.agency.classes import greedy_classes, independent_classes
from shoal.agency.distribution import JointDistribution
from shoal.agency.samples import enough_samples
from shoal.core.progress import Silent

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).parents[2] / "experiments" / "results"
POINTS = cache(lambda: tuple(compute_points()))


@pytest.mark.parametrize(
    ("distribution", "beta", "l", "delta", "p", "m", "n"),
    [
        (UNIFORM, 0.01, 10, 0.01, 0.0002, 500, 65_606),
        (UNIFORM, 0.01, 30, 0.001, 0.0002, 166.67, 77_118),
        (UNIFORM, 0.02, 10, 0.01, 0.0004, 250, 31_067),
        (GEOMETRIC, 0.01, 10, 0.01, 0.000341393, 292.917, 36_866),
        (GEOMETRIC, 0.01, 30, 0.01, 0.000122385, 272.365, 111_229),
        (GEOMETRIC, 0.02, 30, 0.001, 0.000244769, 136.183, 62_186),
    ],
)
def test_the_points_of_the_figures_have_the_settled_n(
    distribution: str, beta: float, l: int, delta: float, p: float, m: float, n: int
) -> None:
    setting = Setting(distribution, l, beta)
    assert float(setting.p) == pytest.approx(p, rel=1e-5)
    assert float(setting.m) == pytest.approx(m, rel=1e-4)
    assert setting.records(delta) == n
    drawn = [
        one.records
        for one in POINTS()
        if (one.distribution, one.beta, one.l, one.delta) == (distribution, beta, l, delta)
    ]
    assert drawn
    assert set(drawn) == {n}


def test_the_figures_are_over_what_section_5_says() -> None:
    found = list(POINTS())
    over = {name: [one for one in found if one.figure == name] for name in FIGURES}
    for name, distribution in (("1a", UNIFORM), ("2a", GEOMETRIC)):
        assert {(one.distribution, one.beta, one.l) for one in over[name]} == set(
            product([distribution], [0.01, 0.02], [10, 30])
        )
    assert {(one.l, one.delta) for one in over["1b"]} == set(product([10, 30], [0.01, 0.001]))
    assert (min(one.p for one in over["1b"]), max(one.p for one in over["1b"])) == (0.001, 1 / 50)
    assert {(one.beta, one.delta) for one in over["2b"]} == set(product([0.01, 0.02], [0.01, 0.001]))
    assert sorted({one.l for one in over["2b"]}) == list(range(5, 41))
    assert {one.distribution for one in over["2b"]} == {GEOMETRIC}


def joint_of_3000() -> JointDistribution:
    places = tuple(str(place) for place in range(N_QUASI))
    return JointDistribution(
        quasi=("q",),
        quasi_values=(places,),
        points=(np.arange(N_QUASI, dtype=np.int32),),
        sensitive="disease",
        sensitive_values=tuple(str(value) for value in range(N_VALUES)),
        order="lexicographic",
        starts=np.arange(0, (N_QUASI + 1) * N_VALUES, N_VALUES),
        codes=np.tile(np.arange(N_VALUES, dtype=np.int32), N_QUASI),
        weights=np.ones(N_QUASI * N_VALUES, dtype=np.int64),
        total=N_QUASI * N_VALUES,
        counted=False,
    )


@pytest.mark.parametrize(("l", "beta"), [(10, 0.01), (30, 0.02), (30, 0.35), (50, 0.0123)])
def test_classes_and_the_tighter_n_are_those_that_the_agency_plans(l: int, beta: float) -> None:
    setting, joint = Setting(UNIFORM, l, beta), joint_of_3000()
    for made in (independent_classes(joint, l, setting.p), greedy_classes(joint, l, setting.p)):
        assert np.bincount(made.number).tolist() == setting.class_sizes.tolist()
        assert enough_samples(joint, made.weights, 1, Fraction(1, 100)) == setting.tighter_records(0.01)


def test_every_class_of_a_setting_has_its_l_values_exactly() -> None:
    """With p = P(class, s) on the nose, which floating point would miss as often as not."""
    for distribution, l, beta in ((GEOMETRIC, 30, 0.01), (GEOMETRIC, 7, 0.07), (UNIFORM, 50, 0.15)):
        setting = Setting(distribution, l, beta)
        least = Fraction(int(setting.class_sizes.min()), N_QUASI) * chances(distribution)[l - 1]
        assert least >= setting.p
        one_fewer = Fraction(int(setting.class_sizes.min()) - 1, N_QUASI) * chances(distribution)[l - 1]
        assert one_fewer < setting.p
        assert setting.class_sizes.sum() == N_QUASI


def test_simulated_failures_are_as_often_as_they_must_be() -> None:
    """All of 6 cells in each of t samples, by inclusion and exclusion; 5 standard errors of 4,000 trials."""
    joint = np.array([[0.3, 0.2, 0.1], [0.2, 0.12, 0.08]])
    needed = simulate(joint, [2, 3], 4_000, [1], Silent())
    assert needed.shape == (3, 2, 4_000)
    assert np.all(np.diff(needed, axis=0) >= 0)
    assert np.all(np.diff(needed, axis=1) >= 0)
    cells = joint.ravel()
    for n in (15, 30, 45):
        missing = [(sum(cells[list(some)]), len(some)) for k in range(7) for some in combinations(range(6), k)]
        every = sum((-1) ** k * max(0.0, 1 - mass) ** n for mass, k in missing)
        for releases in (1, 2, 3):
            failed = 1 - every**releases
            measured = float(np.mean(needed[releases - 1, 1] > n))
            assert abs(measured - failed) < 5 * np.sqrt(failed * (1 - failed) / 4_000)
    assert np.array_equal(needed, simulate(joint, [2, 3], 4_000, [1], Silent()))


def made_up(good: bool = True) -> Result:
    settings = [(distribution, l) for distribution in (UNIFORM, GEOMETRIC) for l in (10, 30)]
    failed = [
        Failure(distribution, 0.01, l, 0.1, rule, 1_000, t, (80 if good else 200) * t, 1_000)
        for distribution, l in settings
        for rule in (PAPER, TIGHTER)
        for t in (1, 2, 3)
    ]
    linked = []
    for distribution, l in settings:
        for share in (0.5, 1.0, 4.0):
            for way in (ALONE, COARSE, AGENCY):
                for t in (1, 2, 3):
                    lost = (way == ALONE and share <= 1) == good and t > 1
                    least, below = (1, 900) if lost else (l, 0)
                    worst = 2 if not good and t > 1 else 1
                    linked.append(
                        Linkage(distribution, l, share, 9, way, t, 50.0, 1_000, 1, below, below, least, 7.5, worst)
                    )
    needed = np.full((3, 1, 40), 30_000)
    dropping = [one for d, l in settings for one in count_declines([Setting(d, l, 0.01)], 0.01, [0.5, 1.0], needed)]
    drawn = list(POINTS())
    if not good:
        drawn = [replace(one, records=1_000 - one.l, tighter_records=10**7, classes=10**6) for one in drawn]
    return Result(drawn, failed, dropping, linked, quick=False, seed=1)


def test_statements_hold_where_they_should_and_fail_where_they_should_not() -> None:
    assert [(one.where, one.verdict) for one in judge_statements(made_up()) if one.verdict != "holds"] == []
    bad = judge_statements(made_up(good=False))
    assert len(bad) == len(judge_statements(made_up()))
    known = {"rho = 0.95 gives rise to p_1 = 0.054."}  # not measured in a run
    held = [one.claim for one in bad if one.verdict == "holds" and one.claim not in known]
    assert held == []


def test_the_page_of_the_docs_is_the_one_that_its_figures_give() -> None:
    """Made anew by ``make figures``; nothing on it is changed by hand."""
    stored = json.loads((DOCS / "figures" / "l-delta.json").read_text(encoding="utf-8"))
    result = read_result(Result, stored)
    assert (RESULTS / "l-delta.md").read_text(encoding="utf-8") == link_to_docs(write_page(result))
    assert not result.quick
    assert result.points == list(POINTS())
    assert all((DOCS / "figures" / f"{stem(name)}.svg").is_file() for name in NAMES)


def test_a_quick_run_gives_the_stored_small_grid(quick_run: Callable[..., dict[str, Any]]) -> None:
    result = read_result(Result, quick_run("l-delta"))
    assert {one.trials for one in result.failures} == {QUICK.trials}
    verdicts = {one.where: one.verdict for one in judge_statements(result)}
    assert verdicts["Theorem 4.5"] == "holds"
    assert verdicts["section 4.2"] == "holds"

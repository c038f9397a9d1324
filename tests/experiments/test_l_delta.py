"""The (l,delta)-diversity paper's figures, the simulations beside its bounds, their page, one quick run."""

from __future__ import annotations

import csv
import json
import re
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
from experiments.l_delta_page import NAMES, drawings, make_report, stem, write_page
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
    Sample,
    Setting,
    chances,
    count_declines,
    count_failures,
    draw_first_records,
    find_records_needed,
    link_owners,
    make_own_classes,
    marginal,
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


def test_first_records_are_those_of_samples_drawn_record_by_record() -> None:
    """The mean and the spread of what two ways of drawing give; 5 standard errors, a false alarm in 10^5 runs."""
    cells = np.array([0.5, 0.3, 0.15, 0.05])
    quick = draw_first_records(cells, 20_000, np.random.default_rng(1))
    assert quick.min(axis=1).tolist() == [1] * 20_000
    drawn = np.random.default_rng(2).choice(4, size=(20_000, 400), p=cells)
    slow = np.stack([np.argmax(drawn == cell, axis=1) + 1 for cell in range(4)], axis=1)
    for found, expected in ((quick, slow), (quick.max(axis=1), slow.max(axis=1)), (quick**2, slow**2)):
        error = np.sqrt((found.var(axis=0) + expected.var(axis=0)) / 20_000)
        assert np.all(np.abs(found.mean(axis=0) - expected.mean(axis=0)) < 5 * error)


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


def test_a_sample_fails_until_its_last_class_has_its_l_values() -> None:
    first = np.array([[[1, 9, 4], [2, 3, 30]]])
    assert find_records_needed(first, [1, 2, 3]).tolist() == [[2], [4], [30]]


def test_failures_are_samples_that_need_more_records_than_n() -> None:
    setting = Setting(UNIFORM, 10, 0.01)
    n, tight = setting.records(0.01), setting.tighter_records(0.01)
    assert tight < n
    needed = np.array([[[1, n, n + 1]], [[tight, tight + 1, n + 1]], [[n + 1, n + 1, n + 1]]])
    found = {(one.rule, one.releases): one.failed for one in count_failures([setting], [0.01], needed)}
    assert found == {
        (PAPER, 1): 1, (PAPER, 2): 1, (PAPER, 3): 3, (TIGHTER, 1): 2, (TIGHTER, 2): 2, (TIGHTER, 3): 3,
    }  # fmt: skip
    half, whole = count_declines([setting], 0.01, [0.5, 1.0], needed)
    assert half.failed == [2, 3, 3]
    assert whole.failed == [1, 1, 3]
    assert whole.bound == pytest.approx(0.01, rel=1e-3)
    assert half.bound == 1.0


def test_an_owner_s_classes_have_l_values_and_as_many_records_as_asked() -> None:
    sample = Sample.draw(GEOMETRIC, 6_000, np.random.default_rng(3))
    shares = np.bincount(sample.value, minlength=N_VALUES) / 6_000
    assert np.abs(shares - marginal(GEOMETRIC)).max() < 0.02
    free = make_own_classes(sample, 10, 1)
    coarse = make_own_classes(sample, 10, 500)
    assert sample.show_values(free)[sample.quasi].sum(axis=1).min() >= 10
    assert np.bincount(coarse[sample.quasi]).min() >= 500
    assert len(np.unique(free)) > 10 * len(np.unique(coarse))
    assert sample.show_values(free)[sample.quasi, sample.value].all()


def test_linking_make_own_classes_loses_what_the_agency_s_keep() -> None:
    found = {(one.way, one.releases): one for one in link_owners(Setting(UNIFORM, 10, 0.02), 0.01, 1.0, 300, 1, [5])}
    assert {way for way, _ in found} == {ALONE, COARSE, AGENCY}
    assert [found[ALONE, t].below for t in (1,)] == [0]
    assert found[ALONE, 2].below > 200
    assert found[ALONE, 3].median < found[ALONE, 2].median < found[ALONE, 1].median
    assert found[AGENCY, 3].below == found[COARSE, 3].below == 0
    assert found[AGENCY, 1].classes == 50
    assert all(1 <= one.worst_case <= one.least for one in found.values())
    few = link_owners(Setting(UNIFORM, 10, 0.02), 0.01, 0.5, 100, 1, [5])
    assert {one.way for one in few} == {ALONE, COARSE}


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


def test_a_rate_above_its_bound_by_chance_does_not_speak_against_it() -> None:
    result = made_up()
    near = [replace(one, failed=110 * one.releases) for one in result.failures]  # 0.11 in 1,000 trials, 0.1 allowed
    verdicts = {one.where: one.verdict for one in judge_statements(replace(result, failures=near))}
    assert verdicts["Theorem 4.4"] == "holds"
    more = [replace(one, failed=one.failed * 100, trials=one.trials * 100) for one in near]
    verdicts = {one.where: one.verdict for one in judge_statements(replace(result, failures=more))}
    assert (verdicts["Theorem 4.4"], verdicts["Theorem 4.5"]) == ("does not hold", "does not hold")


@pytest.mark.thorough
def test_the_written_folder_has_every_figure_as_plots_and_data(tmp_path: Path) -> None:
    result = made_up()
    make_report(result).write(tmp_path / "out")
    text = (tmp_path / "out" / "l-delta.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert links == [f"figures/{stem(name)}.svg" for name in NAMES]
    for link in links:
        assert "records" in (tmp_path / "out" / link).read_text(encoding="utf-8")
        assert (tmp_path / "out" / link).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / "out" / link).with_suffix(".csv").is_file()
    with (tmp_path / "out" / "figures" / "l-delta-figure-2b.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {float(row["value"]) for row in rows if row["value"]} >= {111_229, 62_186}
    with (tmp_path / "out" / "l-delta.csv").open(encoding="utf-8") as file:
        rates = list(csv.DictReader(file))
    assert all(float(row["low"]) < float(row["rate"]) < float(row["high"]) for row in rates)
    stored = json.loads((tmp_path / "out" / "l-delta.json").read_text(encoding="utf-8"))
    assert read_result(Result, stored) == result
    widths = {
        tuple(line.count("|") for line in block.splitlines()) for block in text.split("\n\n") if block.startswith("|")
    }
    assert all(len(set(width)) == 1 for width in widths)  # no cell holds a bar of its own


def test_panels_of_one_figure_share_their_legend() -> None:
    for drawing in drawings(made_up()):
        names = [list(panel.lines) for panel in drawing.panels]
        assert all(other == names[0] for other in names)


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

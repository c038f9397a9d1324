"""The experiments of the papers: their parts on small tables, their page on made-up figures, one quick run."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from experiments.figures import Panel, draw, link_to_docs, read_result, require_plots
from experiments.id3 import CrossValidation
from experiments.problems import (
    ADULT,
    NURSERY,
    QUICK_ADULT,
    QUICK_NURSERY,
    Grid,
    adult_table,
    meets,
    nursery_table,
    sensitive_weights,
)
from experiments.tau_l import ALGORITHMS, CLD, IMPROVED, ONE_D, SWEEP, Outcome, Result, TableResult
from experiments.tau_l_page import FIGURES, judge_statements, make_report, relative_seconds, write_page

from shoal.core.errors import UsageError
from shoal.core.progress import Progress, Silent
from shoal.engines.local import LocalEngine
from shoal.methods.base import Method
from shoal.methods.mondrian import Mondrian
from shoal.models.k_anonymity import KAnonymity
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.plan import KEPT, Assignment, Plan, Targets
from shoal.plan.problem import Problem, Requirement
from shoal.policy.encoding import encode
from shoal.policy.policy import Policy
from shoal.sources.opening import open_source

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).parents[2] / "experiments" / "results"
ILLNESSES = {"hemal": ["anemia", "hepatitis"], "other": ["flu", "phthisis"]}


def problem_of(ages: list[int], illnesses: list[str]) -> Problem:
    policy = Policy.load(
        {
            "attributes": {
                "age": {"role": "quasi", "taxonomy": {"intervals": {"min": 0, "max": 7, "widths": [2, 4]}}},
                "illness": {"role": "sensitive", "taxonomy": {"groups": ILLNESSES}},
            },
            "privacy": [{"k-anonymity": {"k": 1}}],
        }
    )
    counted = LocalEngine().count(
        open_source(pa.table({"age": ages, "illness": illnesses})), ("age", "illness"), Silent()
    )
    return encode(counted, policy).problem


def test_generalized_sensitive_values_count_for_those_below_that_occur() -> None:
    """One class: two records keep hepatitis, one is published as any; phthisis does not occur."""
    problem = problem_of([1, 1, 1, 2, 2], ["hepatitis", "hepatitis", "hepatitis", "flu", "anemia"])
    taxonomy = problem.sensitive[0].taxonomy
    codes = problem.cells.codes[1]
    hepatitis = int(np.flatnonzero(codes == taxonomy.labels.index("hepatitis"))[0])
    others = [cell for cell in range(problem.cells.n_cells) if cell != hepatitis]
    plan = Plan(
        lo=np.array([[0]], dtype=np.int32),
        hi=np.array([[8]], dtype=np.int32),
        sizes=np.array([5]),
        assignment=Assignment.of_pieces(
            3, np.array([hepatitis, hepatitis, *others]), np.array([0, 1, 0, 0]), np.array([2, 1, 1, 1])
        ),
        n_withheld=0,
        targets=Targets(
            class_of=np.array([0, 0], dtype=np.int32),
            lo=np.array([[KEPT], [0]], dtype=np.int32),
            hi=np.array([[0], [4]], dtype=np.int32),
            records=np.array([4, 1]),
        ),
    )
    weights = dict(zip(taxonomy.leaf_labels, sensitive_weights(problem, plan)[0].tolist(), strict=True))
    assert weights == pytest.approx({"anemia": 4 / 3, "hepatitis": 7 / 3, "flu": 4 / 3, "phthisis": 0})


def test_meeting_a_requirement_is_about_every_class_and_every_k() -> None:
    """Of age 4 two illnesses have all records, which psi(2) = 0.75 does not allow."""
    illnesses = ["flu", "flu", "anemia", "hepatitis", "anemia", "anemia", "hepatitis", "hepatitis"]
    problem = problem_of([0, 0, 0, 0, 4, 4, 4, 4], illnesses)
    values = problem.cells.codes[1].astype(np.int32)
    asked = Requirement(TauLDiversity(tau=0.5, l=3), 0, values, problem.sensitive[0].taxonomy.n_leaves)
    problem = replace(problem, requirements=(asked,))
    plans = [Cut(width=width).plan(problem, np.random.default_rng(0), Silent()) for width in (4, 8)]
    assert [meets(problem, plan) for plan in plans] == [False, True]


class Cut(Method):
    """Publishes ages in ranges of one width, whatever is asked for."""

    name: ClassVar[str] = "cut"
    title: ClassVar[str] = "cuts ages"
    width: int

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        lo = np.arange(0, 8, self.width, dtype=np.int32)[:, np.newaxis]
        place = problem.quasi_codes[0] // self.width
        return Plan.of_cells(lo, lo + np.int32(self.width), place.astype(np.int32), problem.cells.counts)


def test_a_release_of_single_values_teaches_as_well_as_the_original() -> None:
    rng = np.random.default_rng(3)
    ages = rng.integers(0, 8, 400)
    illnesses = [["flu", "anemia", "hepatitis"][(age + int(rng.random() < 0.2)) % 3] for age in ages]
    problem = problem_of(ages.tolist(), illnesses)
    folds = CrossValidation.of(problem, 3, np.random.default_rng(0))
    baseline = float(np.mean(folds.baseline))
    assert 0.7 < baseline < 0.9
    assert sum(int(records.sum()) for records in folds.held) == 400
    most = max(illnesses.count(name) for name in set(illnesses)) / len(illnesses)
    assert folds.commonest == most
    assert folds.ratio(Cut(width=1), problem, rng) == pytest.approx(1.0)
    assert folds.ratio(Cut(width=8), problem, rng) == pytest.approx(most / baseline, abs=0.08)
    assert folds.ratio(Cut(width=8), problem, rng) < folds.ratio(Cut(width=2), problem, rng) < 1


def test_folds_whose_others_cannot_meet_the_requirement_are_left_out() -> None:
    problem = problem_of([1, 2, 3] * 4, ["flu", "anemia", "hepatitis"] * 4)
    folds = CrossValidation.of(problem, 2, np.random.default_rng(0))
    hard = replace(problem, requirements=(replace(problem.requirements[0], model=KAnonymity(k=13)),))
    assert folds.ratio(Mondrian(), hard, np.random.default_rng(0)) is None


@pytest.mark.parametrize("asked", [ADULT, NURSERY, QUICK_ADULT, QUICK_NURSERY])
def test_requirements_only_get_stronger(asked: Grid) -> None:
    curves = np.array([[float(limit) for limit in one.limits] + [1.0] * (14 - one.l) for one in asked.requirements])
    assert (np.diff(curves, axis=0) <= 1e-12).all()
    assert len({(one.tau, one.l) for one in asked.requirements}) == len(asked.requirements)


def outcome(algorithm: str, place: int, excess: float, um: float, ratio: float, seconds: float) -> Outcome:
    tau, l = ((0.5, 3), (0.3, 5), (0.2, 7), (0.15, 9), (0.1, 10))[place]
    return Outcome(algorithm, tau, l, excess, um, ratio, seconds, seconds / 2, {"l": l}, um, 10)


def made_up(name: str = "adult", better: bool = True) -> TableResult:
    """Rivals reach the two weakest requirements; SWEEP reaches all five, and is better if it shall be."""
    sign = 1 if better else -1
    outcomes = []
    for place in range(5):
        for algorithm in (SWEEP, IMPROVED):
            figures_of = (0.5 - 0.4 * sign, 0.6 + 0.2 * sign, 0.8 + 0.1 * sign, 1.5 - 0.9 * sign + 0.1 * place)
            outcomes.append(outcome(algorithm, place, *figures_of))
        for algorithm, um, seconds in ((CLD, 0.5, 2.0), (ONE_D, 0.6, 0.5)):
            reached = outcome(algorithm, place, 0.5, um, 0.8, seconds)
            outcomes.append(reached if place < 2 else Outcome(algorithm, reached.tau, reached.l))
    requirements = [(o.tau, o.l) for o in outcomes if o.algorithm == SWEEP]
    return TableResult(name, name.title(), "Chosen.", 100, ["age"], "illness", requirements, 0.5, 0.2, outcomes)


def test_statements_hold_where_sweep_is_better_and_fail_where_it_is_not() -> None:
    good = [statement.verdict for statement in judge_statements(made_up())]
    assert good == ["holds"] * 9
    bad = {statement.claim: statement.verdict for statement in judge_statements(made_up(better=False))}
    verdicts = list(bad.values())
    assert verdicts[:2] == ["holds", "holds"]
    assert verdicts[2:4] == ["does not hold", "does not hold"]
    assert verdicts[5:8] == ["does not hold", "does not hold", "does not hold"]


def test_a_rival_that_reaches_nothing_leaves_statements_untested() -> None:
    table = made_up()
    lost = [o if o.algorithm != ONE_D else Outcome(ONE_D, o.tau, o.l) for o in table.outcomes]
    alone = TableResult("t", "T", "", 1, ["a"], "s", table.requirements, 0.5, 0.2, lost)
    verdicts = [statement.verdict for statement in judge_statements(alone)]
    assert verdicts.count("not tested") >= 4
    assert all(relative_seconds(alone, o) is None for o in alone.outcomes)
    assert "| - |" in write_page(Result([alone], False, 1))


def test_time_without_a_rival_is_relative_to_the_last_requirement_that_it_reached() -> None:
    table = made_up()
    ratios = [relative_seconds(table, one) for one in table.of(SWEEP)]
    assert ratios == pytest.approx([1.2, 1.4, 1.6, 1.8, 2.0])
    assert [relative_seconds(table, one) for one in table.of(ONE_D)] == [1.0, 1.0, None, None, None]


@pytest.mark.thorough
def test_the_written_folder_has_every_figure_as_plots_and_data(tmp_path: Path) -> None:
    result = Result([made_up("adult"), made_up("nursery", better=False)], False, 1)
    make_report(result).write(tmp_path / "out")
    text = (tmp_path / "out" / "tau-l.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) == len(FIGURES) == 4
    for link in links:
        svg = (tmp_path / "out" / link).read_text(encoding="utf-8")
        assert all(word in svg for word in ("Adult", "Nursery", "stronger to the right", *ALGORITHMS))
        assert (tmp_path / "out" / link).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "out" / "figures" / "tau-l-figure-6.csv").open(encoding="utf-8") as file:
        drawn = {(row["panel"], row["place"], row["line"]): row["value"] for row in csv.DictReader(file)}
    assert len(drawn) == 2 * 5 * len(ALGORITHMS)
    assert [drawn["Adult", "(0.5, 3)", name] for name in (SWEEP, CLD)] == ["0.8", "0.5"]
    assert drawn["Adult", "(0.1, 10)", CLD] == ""
    stored = json.loads((tmp_path / "out" / "tau-l.json").read_text(encoding="utf-8"))
    assert read_result(Result, stored) == result
    assert "**does not hold**" in text


def test_the_page_of_the_docs_is_the_one_that_its_figures_give() -> None:
    """Made anew by ``make figures``; nothing on it is changed by hand."""
    stored = json.loads((DOCS / "figures" / "tau-l.json").read_text(encoding="utf-8"))
    text = (RESULTS / "tau-l.md").read_text(encoding="utf-8")
    assert text == link_to_docs(write_page(read_result(Result, stored)))
    assert not stored["quick"]
    assert [table["records"] for table in stored["tables"]] == [45_222, 12_960]


def test_plots_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    panel = Panel("A", "x", "y", ["1", "2"], {"one": [1.0, None], "two": [0.1, 10.0]}, "log")
    for name in ("a.svg", "b.svg"):
        draw("T", [panel], "note", [tmp_path / name])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_without_the_plotting_package_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(UsageError, match="dependency group experiments"):
        require_plots()


def test_without_data_the_message_says_how_to_give_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SHOAL_DATA", raising=False)
    with pytest.raises(UsageError, match="--data"):
        adult_table(None, None, np.random.default_rng(0))
    with pytest.raises(UsageError, match="is no folder"):
        nursery_table(tmp_path / "absent", None, np.random.default_rng(0))


def test_the_tables_are_those_of_the_paper(shared_data: Path) -> None:
    rng = np.random.default_rng(0)
    tables = [adult_table(shared_data, None, rng), nursery_table(shared_data, None, rng)]
    assert [table.n_records for table in tables] == [45_222, 12_960]
    combinations = []
    for table in tables:
        problem = table.problem("tau-l-diversity", tau=0.5, l=3)
        combinations.append(int(np.prod([attribute.taxonomy.height + 1 for attribute in problem.quasi])))
        plan = Mondrian().plan(problem, rng, Silent())
        assert meets(problem, plan)
    assert combinations == [720, 864]
    assert all(str(n) in table.choices for n, table in zip(combinations, tables, strict=True))
    assert adult_table(shared_data, 500, rng).n_records == 500


@pytest.mark.thorough
def test_a_quick_run_gives_the_stored_small_grid(shared_data: Path, quick_run: Callable[..., dict[str, Any]]) -> None:
    document = quick_run("tau-l", "--data", str(shared_data))
    for table, asked_for in zip(document["tables"], (QUICK_ADULT, QUICK_NURSERY), strict=True):
        assert len(table["outcomes"]) == len(ALGORITHMS) * len(asked_for.requirements)
        for entry in table["outcomes"]:
            if entry["algorithm"] in (SWEEP, IMPROVED):
                assert 0 < entry["um"] <= 1  # every requirement is reached

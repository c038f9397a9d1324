"""The experiments of the papers: their parts on small tables, their page on made-up figures, one quick run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from experiments.figures import link_to_docs, read_result
from experiments.problems import (
    QUICK_ADULT,
    QUICK_NURSERY,
    adult_table,
    meets,
    nursery_table,
    sensitive_weights,
)
from experiments.tau_l import ALGORITHMS, CLD, IMPROVED, ONE_D, SWEEP, Outcome, Result, TableResult
from experiments.tau_l_page import judge_statements, write_page

from shoal.core.progress import Silent
from shoal.engines.local import LocalEngine
from shoal.methods.mondrian import Mondrian
from shoal.plan.plan import KEPT, Assignment, Plan, Targets
from shoal.plan.problem import Problem
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


def test_the_page_of_the_docs_is_the_one_that_its_figures_give() -> None:
    """Made anew by ``make figures``; nothing on it is changed by hand."""
    stored = json.loads((DOCS / "figures" / "tau-l.json").read_text(encoding="utf-8"))
    text = (RESULTS / "tau-l.md").read_text(encoding="utf-8")
    assert text == link_to_docs(write_page(read_result(Result, stored)))
    assert not stored["quick"]
    assert [table["records"] for table in stored["tables"]] == [45_222, 12_960]


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

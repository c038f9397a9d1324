"""Scores of marginals: against slow counting of single records, and what the two baselines mean."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.tables import original_rows

from shoal.anonymize import anonymize
from shoal.core.arrays import CodeArray
from shoal.core.errors import InputError
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem
from shoal.plan.synthetic import Domain, SyntheticPlan
from shoal.release.release import Release
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy
from shoal.taxonomies.files import from_nested
from shoal.utility.marginals import (
    MOST_BINS,
    UNWEIGHTED,
    choose_sets,
    describe_marginals,
    find_edges,
    score_marginals,
)
from shoal.utility.rows import view_plan

SIZES = (4, 5, 3, 3)  # leaves of three quasi attributes and a sensitive one


def attribute(n_leaves: int) -> Attribute:
    tree = from_nested({"*": {"low": ["0", "1"], "high": [str(leaf) for leaf in range(2, n_leaves)]}})
    return Attribute(f"of {n_leaves}", tree)


def dependent_records(rng: np.random.Generator, n_records: int) -> CodeArray:
    codes = np.stack([rng.integers(0, size, n_records) for size in SIZES])
    codes[1] = np.where(rng.random(n_records) < 0.5, codes[0], codes[1])
    codes[3] = np.where(rng.random(n_records) < 0.7, codes[0] % 3, codes[3])
    return codes.astype(np.int32)


def problem_of(codes: CodeArray) -> Problem:
    distinct, counts = np.unique(codes, axis=1, return_counts=True)
    attributes = [attribute(size) for size in SIZES]
    return Problem(tuple(attributes[:3]), (attributes[3],), Cells(tuple(distinct), counts.astype(np.int64)), ())


def unchanged(problem: Problem) -> Plan:
    lo = np.stack(problem.cells.codes[:3], axis=1).astype(np.int32)
    return Plan.of_cells(lo, lo + 1, np.arange(len(lo), dtype=np.int32), problem.cells.counts)


def halves(problem: Problem, rng: np.random.Generator) -> Plan:
    """Each cell under its values or under their groups, as it happens."""
    codes = np.stack(problem.cells.codes[:3], axis=1).astype(np.int32)
    wide = rng.random(codes.shape) < 0.5
    lo = np.where(wide, np.where(codes < 2, 0, 2), codes).astype(np.int32)
    hi = np.where(wide, np.where(codes < 2, 2, np.array(SIZES[:3])), codes + 1).astype(np.int32)
    return Plan.of_cells(lo, hi, np.arange(len(lo), dtype=np.int32), problem.cells.counts)


def slow_score(problem: Problem, plan: Plan, size: int) -> float:
    """The same by dictionaries: every label is spread as all evenly spread labels of its column suggest."""
    n_quasi, total = len(problem.quasi), int(problem.cells.counts.sum())
    cells = list(zip(*(codes.tolist() for codes in problem.cells.codes), problem.cells.counts.tolist(), strict=True))

    def covered(cell: int, place: int) -> range:
        own = cells[cell][place]
        return range(plan.lo[cell, place], plan.hi[cell, place]) if place < n_quasi else range(own, own + 1)

    suggested = [dict.fromkeys(range(length), 0.0) for length in SIZES]
    for cell, place in itertools.product(range(len(cells)), range(len(SIZES))):
        for leaf in covered(cell, place):
            suggested[place][leaf] += cells[cell][-1] / len(covered(cell, place))
    distances = []
    for places in itertools.combinations(range(len(SIZES)), size):
        found: dict[tuple[int, ...], float] = {}
        for cell, (*values, records) in enumerate(cells):
            own = tuple(values[place] for place in places)
            found[own] = found.get(own, 0.0) - records / total
            for leaves in itertools.product(*(covered(cell, place) for place in places)):
                share = 1.0
                for leaf, place in zip(leaves, places, strict=True):
                    share *= suggested[place][leaf] / sum(suggested[place][other] for other in covered(cell, place))
                found[leaves] = found.get(leaves, 0.0) + share * records / total
        distances.append(sum(map(abs, found.values())) / 2)
    return 1000 * (1 - sum(distances) / len(distances))


@pytest.mark.parametrize("seed", range(3))
def test_generalized_labels_are_spread_as_the_release_suggests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = problem_of(dependent_records(rng, 80))
    plan = halves(problem, rng)
    for found in score_marginals(problem, view_plan(problem, plan)):
        assert found.release == pytest.approx(slow_score(problem, plan, found.size), abs=1e-5)


def test_an_unchanged_table_is_perfect_and_better_than_a_fresh_sample() -> None:
    problem = problem_of(dependent_records(np.random.default_rng(5), 500))
    for found in score_marginals(problem, view_plan(problem, unchanged(problem))):
        assert found.release == pytest.approx(1000)
        assert found.fresh < 1000
        assert not found.below_shuffled
    assert (found.size, found.n_sets, found.n_all) == (3, 4, 4)
    assert found.shuffled < found.fresh


def test_independent_columns_score_the_shuffled_baseline() -> None:
    """A synthetic table of independent columns with the right margins: as many rows as make chance small."""
    rng = np.random.default_rng(6)
    problem = problem_of(dependent_records(rng, 400))
    rows = np.repeat(np.arange(problem.cells.n_cells), problem.cells.counts)
    domains = tuple(Domain(one.name, one.taxonomy) for one in (*problem.quasi, *problem.sensitive))
    codes = tuple(column[np.tile(rows, 500)[rng.permutation(500 * len(rows))]] for column in problem.cells.codes)
    plan = SyntheticPlan(domains, codes, (), 1.0, 0.0, {}, ())
    for found in score_marginals(problem, view_plan(problem, plan)):
        # the standard deviation of a cell's share is at most 0.5 / sqrt(200,000), and there are at most 60 cells
        assert found.release == pytest.approx(found.shuffled, abs=1000 * 60 * 0.5 / math.sqrt(200_000) / 2)


def test_one_class_is_below_the_shuffled_baseline() -> None:
    codes = dependent_records(np.random.default_rng(7), 400)
    codes[0] = np.where(codes[0] > 1, 0, codes[0])  # so that an even spread is far away
    problem = problem_of(codes)
    hi = np.array([SIZES[:3]], dtype=np.int32)
    plan = Plan.of_cells(np.zeros_like(hi), hi, np.zeros(problem.cells.n_cells, np.int32), problem.cells.counts)
    alone, *together = score_marginals(problem, view_plan(problem, plan))
    assert not alone.below_shuffled  # single columns are as they are, shuffled or not
    assert all(found.below_shuffled for found in together)


def weigh(sexes: list[str | None], weights: list[Any], method: str = "mondrian", **how: Any) -> Release:
    """Publish records of all sexes in one class, whose label says nothing of how many are of which."""
    illness = ["flu", "gout"] * (len(sexes) // 2) + ["flu"] * (len(sexes) % 2)
    table = pa.table({"sex": sexes, "illness": illness, "weight": weights})
    policy = {
        "attributes": {"sex": {"role": "quasi"}, "illness": {"role": "sensitive"}, "weight": {"role": "weight", **how}},
        "privacy": [{"k-anonymity": {"k": 4}}] if method == "mondrian" else [{"distinct-l-diversity": {"l": 2}}],
        "method": method,
        "missing": "drop",
    }
    return anonymize(table, policy, seed=1)


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.string()])
def test_a_run_scores_by_the_survey_weights_that_its_policy_names(kind: pa.DataType) -> None:
    weights = pa.array([5, 1, 1, 9, 9]).cast(kind)
    release = weigh(["F", "F", "F", "M", "M"], weights, publish="as-is")
    alone = release.evidence["marginals"][0]
    assert alone["weighted"]
    # In one class all sexes are suppressed; of illnesses every record keeps its own with its weight.
    assert alone["release"] == pytest.approx(500)
    assert "by survey weights" in describe_marginals(release.evidence["marginals"])[0]
    assert UNWEIGHTED not in release.evidence["warnings"]


def test_a_label_of_several_values_never_scores_as_a_value() -> None:
    """Days of which each has the same records become months: every bin has the right share, and still a day is lost."""
    days = pa.array(np.arange("2024-01-01", "2024-07-01", dtype="datetime64[D]"))
    policy = {
        "attributes": {"day": {"role": "quasi", "taxonomy": {"dates": {"levels": ["month"]}}}},
        "privacy": [{"k-anonymity": {"k": 20}}],
        "method": {"incognito": {"levels": {"day": 1}}},
    }
    (alone,) = anonymize(pa.table({"day": days}), policy, seed=1).evidence["marginals"]
    months = [31, 29, 31, 30, 31, 30]  # a month of m days spans (m - 1) of the 365 steps of its year
    lost = sum(m * (m - 1) / 365 for m in months) / sum(months)
    assert alone["known"] == pytest.approx(1000)
    assert alone["release"] == pytest.approx(1000 * (1 - lost))


def test_weights_are_left_out_unless_the_policy_says_how_they_are_published() -> None:
    weights = [11, 11, 29, 29]
    hidden = weigh(["F", "F", "M", "M"], weights)
    assert "weight" not in hidden.data.column_names
    assert UNWEIGHTED in hidden.evidence["warnings"]
    assert hidden.evidence["marginals"][0]["weighted"]
    how = {"publish": "rounded", "technique": {"rounding": {"base": 10}}}
    rounded = weigh(["F", "F", "M", "M"], weights, **how)
    assert sorted(rounded.data.column("weight").to_pylist()) == [10, 10, 30, 30]
    lonely = weigh(["F", "F", "M", "M"], [1, 2, 3, 4], publish="as-is").findings
    assert any(one.id == "isolating-columns" and one.about == ("weight",) for one in lonely)


@pytest.mark.parametrize(
    "weights", [[1, 2, -1, 3], [1.0, None, 2.0, 3.0], ["1", "2", "x", "4"], [0, 0, 0, 0], [True] * 4]
)
def test_survey_weights_that_are_none_are_refused(weights: list[Any]) -> None:
    with pytest.raises(InputError, match="weight"):
        weigh(["F", "F", "M", "M"], weights)


def test_of_many_sets_different_ones_are_drawn_and_stated() -> None:
    drawn = list(choose_sets(30, 3, 50, np.random.default_rng(0)))
    assert len(set(drawn)) == 50
    assert all(list(places) == sorted(set(places)) for places in drawn)
    problem = problem_of(dependent_records(np.random.default_rng(1), 50))
    *_, found = score_marginals(problem, original_rows(problem), most_sets=3)
    assert (found.n_sets, found.n_all) == (3, 4)


def test_bins_end_where_groups_do_and_have_about_as_many_records() -> None:
    ages = IntervalsTaxonomy(min=0, max=999, widths=(10, 100)).build(None)
    records = np.zeros(1000)
    records[:100] = 50.0  # all but a few records are below 100
    records[100:] = 0.1
    edges = find_edges(ages, records)
    assert len(edges) <= MOST_BINS + 1
    assert set(edges.tolist()) <= set(range(0, 1001, 10))
    assert len(edges[edges <= 100]) > MOST_BINS / 2

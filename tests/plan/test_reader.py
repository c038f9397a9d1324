"""The transparent reader's functions on arrays, against plain counting."""

from __future__ import annotations

import itertools
from collections import Counter
from math import comb

import numpy as np
import pytest

from shoal.models.base import ClassHistograms, Whole
from shoal.models.beta_likeness import BetaLikeness
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Attribute, Problem, Requirement
from shoal.plan.reader import (
    RefusedGroups,
    breaks,
    dominate,
    estimate_revealed,
    explain,
    find_refused,
    find_specific,
    satisfy,
    sum_tails,
    withheld_satisfy,
)
from shoal.taxonomies.files import from_nested

TREE = from_nested({"*": {"ab": ["a", "b"], "cd": ["c", "d"]}})
ILLNESS = from_nested({"any": ["cold", "flu", "gout"]})


def build(rows: dict[tuple[str, str], int], l: int = 2) -> Problem:
    leaves, values = [*TREE.labels[:4]], [*ILLNESS.labels[:3]]
    quasi = np.array([leaves.index(q) for q, _ in rows], dtype=np.int32)
    own = np.array([values.index(v) for _, v in rows], dtype=np.int32)
    cells = Cells((quasi, own), np.array([*rows.values()], dtype=np.int64))
    asked = Requirement(DistinctLDiversity(l=l), 0, own, 3, ILLNESS, place=0)
    return Problem((Attribute("q", TREE),), (Attribute("s", ILLNESS),), cells, (asked,))


def classes(problem: Problem, ranges: list[tuple[int, int]], class_of: list[int]) -> Plan:
    lo, hi = (np.array([[end] for end in ends], dtype=np.int32) for ends in zip(*ranges, strict=True))
    return Plan.of_cells(lo, hi, np.array(class_of, dtype=np.int32), problem.cells.counts)


def test_labels_that_are_nowhere_narrower_stay_and_nested_ones_go() -> None:
    widths = np.array([[4, 4], [2, 4], [4, 2], [1, 1], [2, 4]])
    start, boxes = np.array([0, 5, 7, 7, 9]), np.array([0, 1, 2, 3, 4, 1, 2, 1, 4])
    kept = find_specific(start, boxes, widths)
    assert [int(kept[begin:end].sum()) for begin, end in itertools.pairwise(start)] == [1, 2, 0, 2]
    assert boxes[kept].tolist() == [3, 1, 2, 1, 4]


def test_groups_are_judged_by_true_values() -> None:
    problem = build({("a", "cold"): 3, ("a", "flu"): 1, ("b", "cold"): 2, ("c", "gout"): 2})
    holds = satisfy(problem, np.array([0, 0, 1, 1]), np.arange(4), problem.cells.counts, 3)
    assert holds.tolist() == [True, True, True]
    holds = satisfy(problem, np.array([0, 2, 1, 1]), np.arange(4), problem.cells.counts, 3)
    assert holds.tolist() == [False, True, False]


@pytest.mark.parametrize(("withheld", "holds"), [([0], False), ([0, 1], True), ([], True)])
def test_withheld_people_need_the_models_among_themselves(withheld: list[int], holds: bool) -> None:
    problem = build({("a", "cold"): 2, ("a", "flu"): 2, ("c", "cold"): 2, ("c", "flu"): 2})
    plan = classes(problem, [(0, 4)], [-1 if cell in withheld else 0 for cell in range(4)])
    assert withheld_satisfy(problem, plan) is holds


def test_refused_groups_are_those_below_the_labels() -> None:
    problem = build({("a", "cold"): 2, ("b", "flu"): 3, ("c", "cold"): 2, ("c", "flu"): 2})
    plan = classes(problem, [(0, 2), (2, 4)], [0, 0, 1, 1])
    ((of_one, failing),) = find_refused(problem, plan, each=False)
    assert failing == 1.0
    assert (of_one.sizes.tolist(), of_one.class_of.tolist(), of_one.owner.tolist()) == ([2, 3], [0, 0], [0, 0])
    (below, _), (combinations, _) = find_refused(problem, plan, each=True)
    assert (below.sizes.tolist(), below.owner.tolist()) == ([2, 3], [0, 1])
    assert combinations.sizes.tolist() == [2, 3]


def deal(counts: list[int], sizes: list[int], fails: DistinctLDiversity | SimpleLDiversity) -> list[list[float]]:
    """The posterior by all ways to deal a class's values to its groups, of which at least one fails."""
    people = [value for value, n in enumerate(counts) for _ in range(n)]
    whole, edges = Whole.of(counts), [0, *itertools.accumulate(sizes)]
    seen = [Counter[int]() for _ in sizes]
    for order in set(itertools.permutations(people)):
        groups = [order[begin:end] for begin, end in itertools.pairwise(edges)]
        rows = np.array([[group.count(v) for v in range(len(counts))] for group in groups])
        if not fails.holds(ClassHistograms.of(rows), whole).all():
            for counter, group in zip(seen, groups, strict=True):
                counter.update(group)
    return [[counter[v] / counter.total() for v in range(len(counts))] for counter in seen]


@pytest.mark.parametrize(
    ("counts", "sizes", "model"),
    [
        ([4, 2], [3, 3], DistinctLDiversity(l=2)),
        ([3, 2, 1], [2, 4], SimpleLDiversity(l=1.5)),
        ([4, 3], [3], DistinctLDiversity(l=2)),
    ],
)
def test_posteriors_are_near_to_counting_all_ways(
    counts: list[int], sizes: list[int], model: DistinctLDiversity | SimpleLDiversity
) -> None:
    refused = RefusedGroups(np.array(sizes), np.zeros(len(sizes), dtype=np.int64), np.zeros(len(sizes), dtype=np.int64))
    found = explain(np.array([counts]), refused, [model], Whole.of(counts), np.random.default_rng(1))
    # 200 draws with a shrinkage of at most 1 / sqrt(20 * 2): 0.15 is above 4 standard errors
    assert np.allclose(found, deal(counts, sizes, model), atol=0.15)


def test_a_dominating_value_is_weighed_by_hypergeometric_tails() -> None:
    counts = [7, 5, 2]
    posterior, chance = dominate(np.array([counts]), np.array([4]), [DistinctLDiversity(l=2)], Whole.of(counts))
    ways = [comb(n, 4) for n in counts]
    assert np.allclose(posterior[0], [n / sum(ways) for n in ways])
    assert np.isclose(np.exp(chance[0]), sum(ways) / comb(14, 4))


def test_tails_are_those_of_the_hypergeometric_distribution() -> None:
    from scipy.stats import hypergeom

    for n, k, m, x in [(50, 20, 10, 6), (5000, 2500, 1200, 640), (30, 7, 9, 7), (12, 12, 5, 5)]:
        numbers = np.arange(x, min(k, m) + 1)
        pmf = hypergeom.pmf(numbers, n, k, m)
        (chance,), (share,) = sum_tails(*(np.array([number]) for number in (n, k, m, x)))
        assert np.isclose(np.exp(chance), pmf.sum())
        assert np.isclose(share, (pmf * numbers).sum() / pmf.sum() / m)
    (chance,), _ = sum_tails(*(np.array([number]) for number in (9000, 4500, 3000, 3000)))
    assert np.isfinite(chance)
    assert chance < -1000  # no underflow


def test_a_group_of_a_class_with_one_value_has_that_value() -> None:
    whole = Whole.of([5, 95])
    posterior, chance = dominate(np.array([[0, 40]]), np.array([9]), [BetaLikeness(beta=0.01)], whole)
    assert posterior.tolist() == [[0.0, 1.0]]
    assert chance.tolist() == [0.0]


def test_only_material_excess_breaks_a_model() -> None:
    whole = Whole.of([50, 30, 20])
    posteriors = np.array([[0.52, 0.28, 0.2], [0.7, 0.2, 0.1], [0.9995, 0.0005, 0.0]])
    assert breaks(posteriors, [SimpleLDiversity(l=2)], whole).tolist() == [False, True, True]
    assert breaks(posteriors, [DistinctLDiversity(l=2)], whole).tolist() == [False, False, True]


def test_homogeneous_groups_of_a_mixed_class_are_revealed() -> None:
    """Of a class with 24 cold and 2 flu, 24 people who were refused under distinct 2 all have a cold."""
    mixed = build({("a", "cold"): 12, ("b", "flu"): 12, ("c", "gout"): 3, ("c", "flu"): 3})
    plan = classes(mixed, [(0, 2), (2, 4)], [0, 0, 1, 1])
    rng = np.random.default_rng(1)
    assert estimate_revealed(mixed, plan, rng, each=False).people == 0  # either value is as likely
    lopsided = build({("a", "cold"): 12, ("b", "cold"): 12, ("c", "flu"): 2})
    plan = classes(lopsided, [(0, 4)], [0, 0, 0])
    revealed = estimate_revealed(lopsided, plan, rng, each=True)
    assert revealed.people >= 24  # twenty-four of a kind: only cold is frequent enough
    assert revealed.n_people == 26


def test_a_sample_of_classes_represents_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """In either class only one value is frequent enough to make two groups of twelve fail."""
    rows = {(q, value): 12 for value in ("cold", "gout") for q in ("a", "b")} | {("c", "flu"): 2, ("c", "cold"): 2}
    problem = build(rows)
    plan = classes(problem, [(0, 4), (0, 4)], [0, 0, 1, 1, 0, 1])
    every = estimate_revealed(problem, plan, np.random.default_rng(1), each=True)
    assert every.people >= 48
    monkeypatch.setattr("shoal.plan.reader._MOST_CLASSES", 1)
    for seed in range(4):
        sampled = estimate_revealed(problem, plan, np.random.default_rng(seed), each=True)
        assert abs(sampled.people - every.people) <= 4

"""Induced frequencies in whole units, and limits in whole numbers: nothing is rounded, or only towards refusing."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numba import njit

from shoal.core.errors import PolicyError
from shoal.methods.sweep.kernels import judge, limit_of, unit_share
from shoal.methods.sweep.rules import Rule, build_rules, values_needed
from shoal.models.base import ClassHistograms, Curve, Whole
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.problem import InducedFrequency
from shoal.taxonomies.files import from_nested
from shoal.taxonomies.tree import Taxonomy

compiled_share = njit(lambda rules, rule, node, leaf: unit_share(rules, rule, node, leaf))
compiled_limit = njit(lambda n, top, bottom: limit_of(n, top, bottom))
compiled_judge = njit(lambda rules, rule, n, units, of, m, best: judge(rules, rule, n, units, of, m, best))


def random_tree(rng: np.random.Generator, depth: int = 3) -> Taxonomy:
    names = iter(range(10_000))

    def below(level: int) -> dict[str, Any] | None:
        if level == depth or (level and rng.random() < 0.3):
            return None
        return {f"n{next(names)}": below(level + 1) for _ in range(int(rng.integers(2, 4)))}

    return from_nested({"root": below(0)})


def share(tree: Taxonomy, weights: list[Fraction], node: int, leaf: int) -> Fraction:
    low, high = int(tree.lo[node]), int(tree.hi[node])
    if node < tree.n_leaves:
        return Fraction(int(node == leaf))
    return weights[leaf] / sum(weights[low:high]) if low <= leaf < high else Fraction(0)


@pytest.mark.parametrize("seed", range(12))
def test_units_are_the_shares_of_definition_2(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng)
    weights = [Fraction(int(a), int(b)) for a, b in zip(*rng.integers(1, 5, (2, tree.n_leaves)), strict=True)]
    for leaf in rng.integers(tree.n_leaves, size=tree.n_leaves // 3):
        weights[leaf] = Fraction(0)
    if not any(weights):
        weights[0] = Fraction(1)
    induced = InducedFrequency.of(tree, weights, 100)
    records = rng.integers(0, 4, (3, tree.n_nodes)) * induced.allowed
    counts = induced.counts(records)
    rules = build_rules([Rule(0, induced, Curve((Fraction(1, 2),), 2))], 1, 1)
    assert not induced.allowed[[node for node in range(tree.n_leaves, tree.n_nodes) if not induced.totals[node]]].any()
    for number in range(3):
        for leaf in range(tree.n_leaves):
            expected = sum(
                (share(tree, weights, node, leaf) * int(n) for node, n in enumerate(records[number]) if n), Fraction(0)
            )
            assert Fraction(int(counts[number, leaf]), induced.factor) == expected
    for node in np.flatnonzero(induced.allowed).tolist():
        units = [compiled_share(rules, 0, node, leaf) for leaf in range(tree.n_leaves)]
        assert units == [share(tree, weights, node, leaf) * induced.factor for leaf in range(tree.n_leaves)]
        assert units[tree.lo[node] : tree.hi[node]] == induced.units(node).tolist()
        assert sum(units) == induced.factor


def wide_tree(sizes: list[int]) -> Taxonomy:
    return from_nested({"root": {f"g{i}": [f"v{i}-{j}" for j in range(n)] for i, n in enumerate(sizes)}})


def test_nodes_that_need_too_many_units_are_not_used_but_the_root_is() -> None:
    primes = [11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61]
    tree = wide_tree(primes)
    ones = [Fraction(1)] * tree.n_leaves
    few, many = (InducedFrequency.of(tree, ones, n) for n in (10, 10**12))
    for induced, n in ((few, 10), (many, 10**12)):
        assert induced.allowed[tree.root]
        assert induced.allowed[: tree.n_leaves].all()
        assert not induced.allowed.all()
        assert induced.factor * n < 1 << 61
        for node in np.flatnonzero(induced.allowed)[tree.n_leaves :].tolist():
            assert induced.units(node).sum() == induced.factor
    assert many.allowed.sum() < few.allowed.sum()
    steps = many.steps(many.allowed)
    closed = int(np.flatnonzero(~many.allowed)[0])
    assert steps[tree.lo[closed]] == tree.root
    assert steps[tree.root] == tree.root


def test_steps_pass_over_nodes_that_say_no_less() -> None:
    tree = from_nested({"root": {"pair": ["a", "b"], "lone": {"c": ["d", "e"]}}})
    induced = InducedFrequency.of(tree, [Fraction(1), Fraction(0), Fraction(1), Fraction(1)], 5)
    named = dict(zip(tree.labels, range(tree.n_nodes), strict=True))
    steps = induced.steps(induced.allowed)
    assert steps[named["a"]] == named["root"]  # under "pair" only a has a weight
    assert steps[named["b"]] == named["pair"]  # which an adversary reads as a
    assert steps[named["d"]] == named["c"]
    assert steps[named["c"]] == named["root"]


def test_weights_too_fine_to_add_are_refused() -> None:
    tree = from_nested({"root": ["a", "b"]})
    with pytest.raises(PolicyError, match="fewer digits"):
        InducedFrequency.of(tree, [Fraction(1), Fraction(1, 3**30)], 10**6)


@pytest.mark.parametrize("seed", range(4))
def test_limits_are_exact_up_to_the_widest_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        n = int(rng.integers(0, 1 << 61)) if rng.random() < 0.7 else (1 << 61) - int(rng.integers(1, 9))
        bottom = int(rng.integers(1, (1 << 30) + 1)) if rng.random() < 0.7 else (1 << 30) - int(rng.integers(0, 3))
        top = int(rng.integers(0, bottom + 1))
        assert compiled_limit(n, top, bottom) == n * top // bottom


def verdict(curve: Curve, counts: list[int]) -> bool:
    """What the compiled loops think of a class under a flat tree, whose records are cut into units."""
    tree = from_nested({"root": [f"v{i}" for i in range(len(counts))]})
    induced = InducedFrequency.of(tree, [Fraction(1)] * len(counts), max(sum(counts), 1))
    rules = build_rules([Rule(0, induced, curve)], 1, 1)
    units = np.array(counts, dtype=np.int64) * induced.factor
    best = np.zeros(max(len(curve.limits), 1), dtype=np.int64)
    return compiled_judge(rules, 0, sum(counts), units, np.arange(len(counts)), len(counts), best) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_loops_accept_what_fractions_accept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    accepted = 0
    for _ in range(200):
        counts = rng.integers(0, 9, int(rng.integers(2, 7))).tolist()
        if not sum(counts):
            continue
        model = TauLDiversity(tau=float(rng.choice([0.25, 0.3, 0.4, 0.5, 0.6, 0.75])), l=int(rng.integers(2, 6)))
        top = sorted(counts, reverse=True)
        expected = all(sum(top[: k + 1]) <= limit * sum(counts) for k, limit in enumerate(model.limits))
        assert (
            verdict(model.curve, counts)
            == expected
            == bool(model.holds(ClassHistograms.of(counts), Whole.of(counts))[0])
        )
        accepted += expected
    assert 20 < accepted < 180


def test_a_finer_curve_is_rounded_towards_refusing() -> None:
    fine = Fraction((1 << 40) + 1, 1 << 41)  # a little more than one half
    assert verdict(Curve((fine,)), [1 << 20, 1 << 20])
    below = Fraction((1 << 40) - 1, 1 << 41)
    assert not verdict(Curve((below,)), [1 << 20, 1 << 20])
    n = 1 << 32
    limit = Fraction(433_333_333_333, 10**12)
    accepted = 0
    rng = np.random.default_rng(5)
    for _ in range(200):
        most = int(limit * n) + int(rng.integers(-20, 3))
        counts = [most, (n - most) // 2, n - most - (n - most) // 2]
        held = verdict(Curve((limit,)), counts)
        assert not held or max(counts) <= limit * n
        accepted += held
    assert accepted


def test_values_needed_is_the_least_number_that_can_hold() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        limits = sorted(Fraction(int(x), 60) for x in rng.integers(5, 60, int(rng.integers(1, 5))))
        curve = Curve(tuple(limits), int(rng.integers(1, 6)))
        least = next(
            v
            for v in range(curve.distinct, 200)
            if all(min(Fraction(k, v), Fraction(1)) <= limit for k, limit in enumerate(limits, start=1))
        )
        assert values_needed(curve) == least

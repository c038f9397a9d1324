"""Every model against a slow one in exact arithmetic, written from the definitions.

Shares are Fractions, logarithms have 80 digits, and the earth mover's distance is the cheapest of all flows.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shoal.core.registry import find
from shoal.models.base import ClassHistograms, PrivacyModel, Whole
from shoal.taxonomies.tree import Taxonomy

N_VALUES = 5
DIGITS = 80


def exact(number: float) -> Fraction:
    return Fraction(str(number))


def logarithm(share: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(share.numerator).ln() - Decimal(share.denominator).ln()


def as_decimal(number: Fraction) -> Decimal:
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(number.numerator) / Decimal(number.denominator)


def shares(counts: list[int]) -> list[Fraction]:
    return [Fraction(count, sum(counts)) for count in counts]


def falling(counts: list[int]) -> list[int]:
    return sorted((count for count in counts if count), reverse=True)


# --- the definitions -----------------------------------------------


def distinct(row: list[int], whole: list[int], l: int) -> bool:
    return len(falling(row)) >= l


def simple(row: list[int], whole: list[int], l: float) -> bool:
    return max(shares(row)) <= 1 / exact(l)


def entropy(row: list[int], whole: list[int], l: float) -> bool:
    with localcontext() as context:
        context.prec = DIGITS
        total = -sum((as_decimal(p) * logarithm(p) for p in shares(row) if p), Decimal(0))
        margin = total - logarithm(exact(l))
    return margin > -(Decimal(10) ** (10 - DIGITS))  # what is nearer than that is equal


def recursive(row: list[int], whole: list[int], c: float, l: int) -> bool:
    ranked = falling(row)
    return l == 1 or ranked[0] < exact(c) * sum(ranked[l - 1 :])


def tau_l(row: list[int], whole: list[int], tau: float, l: int, psi: list[float] | None = None) -> bool:
    ranked = sorted(shares(row), reverse=True)
    for k in range(1, len(ranked) + 1):
        if k >= l:
            limit = Fraction(1)
        elif psi is not None:
            limit = exact(psi[k - 1])
        else:
            limit = exact(tau) + (1 - exact(tau)) / (l - 1) * (k - 1)
        if sum(ranked[:k]) > limit:
            return False
    return True


def alpha_k(row: list[int], whole: list[int], alpha: float, k: int) -> bool:
    return sum(row) >= k and all(share <= exact(alpha) for share in shares(row))


def beta(row: list[int], whole: list[int], beta: float, enhanced: bool = False) -> bool:
    for p, q in zip(shares(row), shares(whole), strict=True):
        if p > q:
            if (p - q) / q > exact(beta):
                return False
            if enhanced and as_decimal((p - q) / q) > -logarithm(q):
                return False
    return True


def delta_disclosure(row: list[int], whole: list[int], delta: float) -> bool:
    pairs = [(p, q) for p, q in zip(shares(row), shares(whole), strict=True) if q]
    return all(p > 0 and abs(logarithm(p / q)) < as_decimal(exact(delta)) for p, q in pairs)


def closeness(row: list[int], whole: list[int], t: float, distance: str) -> bool:
    return emd(row, whole, distance) <= exact(t)


DEFINITIONS: dict[str, Callable[..., bool]] = {
    "distinct-l-diversity": distinct,
    "simple-l-diversity": simple,
    "entropy-l-diversity": entropy,
    "recursive-cl-diversity": recursive,
    "tau-l-diversity": tau_l,
    "alpha-k-anonymity": alpha_k,
    "beta-likeness": beta,
    "delta-disclosure": delta_disclosure,
    "t-closeness": closeness,
}


# --- the earth mover's distance as a flow --------------------------

# leaves 0 1 | 2 | 3 4, where {0, 1, 2} and {3, 4} are nodes, and {0, 1} one below the first: uneven depths
FAR = Fraction(10**9)
NODES = {"01": (0, 2), "012": (0, 3), "34": (3, 5), "*": (0, 5)}


def uneven_taxonomy() -> Taxonomy:
    return Taxonomy(
        labels=("0", "1", "2", "3", "4", *NODES),
        parent=np.array([5, 5, 6, 7, 7, 6, 8, 8, -1], dtype=np.int32),
        lo=np.array([0, 1, 2, 3, 4, 0, 0, 3, 0], dtype=np.int32),
        hi=np.array([1, 2, 3, 4, 5, 2, 3, 5, 5], dtype=np.int32),
        level=np.array([3, 3, 2, 2, 2, 2, 1, 1, 0], dtype=np.int32),
        n_leaves=5,
        scale=None,
        declared=True,
    )


def ground_distance(whole: list[int], distance: str) -> Callable[[int, int], Fraction]:
    if distance == "equal":
        return lambda i, j: Fraction(int(i != j))
    if distance == "ordered":
        ranks = {value: rank for rank, value in enumerate(v for v in range(len(whole)) if whole[v])}
        return lambda i, j: Fraction(abs(ranks[i] - ranks[j]), max(1, len(ranks) - 1))
    heights = {"01": 1, "012": 2, "34": 1, "*": 3}

    def by_ancestor(i: int, j: int) -> Fraction:
        if i == j:
            return Fraction(0)
        common = [name for name, (lo, hi) in NODES.items() if lo <= i < hi and lo <= j < hi]
        return Fraction(min(heights[name] for name in common), 3)

    return by_ancestor


def emd(row: list[int], whole: list[int], distance: str) -> Fraction:
    """Move c N of each value to C n by the cheapest augmenting ways (Bellman and Ford), in integers."""
    n, N = sum(row), sum(whole)
    apart = ground_distance(whole, distance)
    values = [value for value in range(len(whole)) if whole[value]]
    supply = {value: row[value] * N for value in values}
    demand = {value: whole[value] * n for value in values}
    flow = {(i, j): 0 for i in values for j in values}
    while any(supply.values()):
        cost: dict[tuple[str, int], Fraction] = {("from", i): Fraction(0) for i in values if supply[i]}
        before: dict[tuple[str, int], tuple[str, int]] = {}
        for _ in range(2 * len(values)):
            for i in values:
                for j in values:
                    here, there = ("from", i), ("to", j)
                    if here in cost and cost[here] + apart(i, j) < cost.get(there, FAR):
                        cost[there], before[there] = cost[here] + apart(i, j), here
                    if flow[i, j] and there in cost and cost[there] - apart(i, j) < cost.get(here, FAR):
                        cost[here], before[here] = cost[there] - apart(i, j), there
        end = min((("to", j) for j in values if demand[j]), key=lambda node: cost[node])
        way = [end]
        while way[-1] in before:
            way.append(before[way[-1]])
        steps = list(zip(way[1:], way, strict=False))
        back = [flow[there[1], here[1]] for here, there in steps if here[0] == "to"]
        amount = min([supply[way[-1][1]], demand[end[1]], *back])
        for here, there in steps:
            if here[0] == "from":
                flow[here[1], there[1]] += amount
            else:
                flow[there[1], here[1]] -= amount
        supply[way[-1][1]] -= amount
        demand[end[1]] -= amount
    total = sum((amount * apart(i, j) for (i, j), amount in flow.items()), Fraction(0))
    return total / (n * N)


# --- comparisons ---------------------------------------------------

CASES: list[tuple[str, dict[str, Any]]] = [
    *[("distinct-l-diversity", {"l": l}) for l in (1, 2, 3, 5)],
    *[("simple-l-diversity", {"l": l}) for l in (1, 1.25, 2, 2.5, 3, 4)],
    *[("entropy-l-diversity", {"l": l}) for l in (1, 1.5, 2, 2.5, 3, 4, 5)],
    *[("recursive-cl-diversity", {"c": c, "l": l}) for c in (0.8, 1, 1.5, 2) for l in (1, 2, 3, 4)],
    *[("tau-l-diversity", {"tau": tau, "l": l}) for tau in (0.3, 0.4, 0.5, 0.75, 1) for l in (2, 3, 5)],
    ("tau-l-diversity", {"tau": 0.4, "l": 4, "psi": [0.4, 0.7, 0.9, 1]}),
    ("tau-l-diversity", {"tau": 0.5, "l": 4, "psi": [0.5, 0.75, 1, 1]}),
    *[("alpha-k-anonymity", {"alpha": alpha, "k": 4}) for alpha in (0.25, 0.4, 0.5, 0.75)],
    *[
        ("beta-likeness", {"beta": beta, "enhanced": enhanced})
        for beta in (0.25, 0.5, 1, 2.5)
        for enhanced in (False, True)
    ],
    *[("delta-disclosure", {"delta": delta}) for delta in (0.4, 0.6931, 0.6932, 1, 2)],
]


def random_tables(seed: int, n_tables: int, n_values: int) -> list[np.ndarray]:
    """Tables of eight classes with few records, so that ties are common; each value may be absent."""
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(n_tables):
        table = rng.integers(0, int(rng.integers(2, 7)), size=(8, n_values))
        table[:, rng.random(n_values) < 0.15] = 0
        tables.append(table[table.sum(axis=1) > 0])
    return [table for table in tables if len(table)]


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_models_agree_with_their_definitions(name: str, parameters: dict[str, Any]) -> None:
    model = find("shoal.models", PrivacyModel, name, what="model").model_validate(parameters)
    seen = set()
    for table in random_tables(seed=11, n_tables=40, n_values=N_VALUES):
        whole = table.sum(axis=0).tolist()
        expected = [DEFINITIONS[name](row, whole, **parameters) for row in table.tolist()]
        assert model.holds(ClassHistograms.of(table), Whole.of(whole)).tolist() == expected
        seen.update(expected)
    always = parameters.get("l") == 1 or parameters.get("tau") == 1
    assert seen == ({True} if always else {True, False}), "the comparison should see both answers"


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchical"])
def test_t_closeness_agrees_with_the_cheapest_flow(distance: str) -> None:
    seen = set()
    for table in random_tables(seed=12, n_tables=25, n_values=N_VALUES):
        whole = table.sum(axis=0).tolist()
        distances = [emd(row, whole, distance) for row in table.tolist()]
        classes, everyone = ClassHistograms.of(table), Whole.of(whole, taxonomy=uneven_taxonomy())
        for t in (0, 0.125, 0.2, 0.25, 0.5):
            model = find("shoal.models", PrivacyModel, "t-closeness", what="model")(t=t, distance=distance)
            expected = [value <= exact(t) for value in distances]
            assert model.holds(classes, everyone).tolist() == expected
            seen.update(expected)
        reached = model.reach(classes, everyone)
        assert reached == pytest.approx([float(value) for value in distances], rel=1e-15, abs=0)
    assert seen == {True, False}


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchical"])
def test_a_distance_that_equals_t_holds(distance: str) -> None:
    """Distances that have few decimals are asked for exactly, and a little less."""
    ties = 0
    for table in random_tables(seed=13, n_tables=25, n_values=N_VALUES):
        whole = table.sum(axis=0).tolist()
        everyone = Whole.of(whole, taxonomy=uneven_taxonomy())
        for row in table.tolist():
            value = emd(row, whole, distance)
            if value and exact(float(value)) == value:
                model = find("shoal.models", PrivacyModel, "t-closeness", what="model")
                classes = ClassHistograms.of(row)
                assert model(t=float(value), distance=distance).holds(classes, everyone).all()
                below = float(value) - 1e-12
                assert not model(t=below, distance=distance).holds(classes, everyone).any()
                ties += 1
    assert ties > 3


def test_population_models_agree_with_their_definitions() -> None:
    rng = np.random.default_rng(14)
    sizes, people = rng.integers(1, 9, size=300), rng.integers(0, 21, size=300)
    classes = ClassHistograms.of(sizes[:, np.newaxis], population=people)
    whole = Whole.of([int(sizes.sum())], population=int(people.sum()))
    for k in (1, 5, 20):
        model = find("shoal.models", PrivacyModel, "k-map", what="model")(k=k, population="p.csv")
        assert model.holds(classes, whole).tolist() == [int(count) >= k for count in people]
    for least, most in ((0, 0.5), (0.1, 0.3), (0.2, 0.2), (0.25, 1)):
        model = find("shoal.models", PrivacyModel, "delta-presence", what="model")(
            min=least, max=most, population="p.csv"
        )
        expected = [
            bool(there) and exact(least) <= Fraction(n, there) <= exact(most)
            for n, there in zip(sizes.tolist(), people.tolist(), strict=True)
        ]
        assert model.holds(classes, whole).tolist() == expected
        assert set(expected) == {True, False}

"""Formulas of the verifier's promises beside exact ones in fractions, and the parameters that it takes.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from shoal.manifest import Attribute
from shoal.verify import exact, promises
from shoal.verify.exact import CannotCheckError, Histograms
from shoal.verify.promises import Found, Model, Promise, evaluate, read_promise

VALUES = ("a", "b", "c", "d")
CHAIN = Attribute(
    name="s",
    role="sensitive",
    kind="category",
    order=VALUES,
    taxonomy={"*": {"G": {"a": {}, "b": {}}, "H": {"c": {}, "d": {}}}},
)
Class = tuple[int, ...]
TABLES: tuple[tuple[Class, ...], ...] = (
    ((1, 1, 1, 1),),
    ((2, 1, 0, 0), (0, 1, 2, 0)),
    ((3, 2, 1, 0), (1, 1, 1, 3), (0, 4, 0, 0)),
    ((5, 5, 0, 0), (1, 0, 0, 9), (2, 3, 4, 1)),
    ((1, 1, 0, 0), (1, 0, 1, 0), (4, 4, 4, 4), (7, 1, 1, 1)),
    ((6, 0, 0, 0), (0, 6, 0, 0)),
    ((1, 2, 3, 4), (4, 3, 2, 1), (2, 2, 2, 2)),
)


def histograms(classes: Sequence[Class]) -> Histograms:
    """Return the classes with the values that occur in them."""
    counts = np.array(classes, dtype=np.int64)
    kept = np.flatnonzero(counts.sum(axis=0))
    counts = counts[:, kept]
    owner, value = np.nonzero(counts)
    return Histograms(
        sizes=counts.sum(axis=1),
        start=np.searchsorted(owner, np.arange(len(classes) + 1)).astype(np.int64),
        value=value.astype(np.int64),
        count=counts[owner, value],
        values=tuple(VALUES[place] for place in kept),
        n_values=len(kept),
    )


def mixed(found: Histograms) -> Histograms:
    """Return the same classes as beliefs in floating point."""
    return replace(
        found,
        sizes=np.ones(len(found.sizes)),
        count=found.count / found.sizes[found.owner],
        table=found.whole,
    )


@contextmanager
def narrow() -> Iterator[None]:
    """As if 64 bits held nothing: Python's integers count instead."""
    widest, exact.WIDEST = exact.WIDEST, 1
    try:
        yield
    finally:
        exact.WIDEST = widest


def promise_of(model: str, **parameters: Any) -> Promise:
    found = read_promise(model, parameters, None, ["s"])
    assert found.obstacle is None, found.obstacle
    return found


def judge(model: str, found: Histograms, **parameters: Any) -> tuple[list[bool], list[float]]:
    holds, reached = evaluate(promise_of(model, **parameters), found, CHAIN)
    return holds.tolist(), reached.tolist()


# What a class reaches: counts of a class and of the table -> a fraction, or a float if logarithms are involved.


def shares(counts: Class, whole: Class) -> list[tuple[Fraction, Fraction]]:
    n, total = sum(counts), sum(whole)
    return [(Fraction(c, n), Fraction(w, total)) for c, w in zip(counts, whole, strict=True) if w]


def ordered(counts: Class) -> list[int]:
    return sorted((count for count in counts if count), reverse=True)


def entropy_l(counts: Class, _: Class) -> float:
    n = sum(counts)
    return math.exp(-sum(c / n * math.log(c / n) for c in counts if c))


def recursive(l: int) -> Callable[[Class, Class], Any]:
    def reach(counts: Class, _: Class) -> Any:
        tail = sum(ordered(counts)[l - 1 :])
        return Fraction(ordered(counts)[0], tail) if tail else math.inf

    return reach


def tau(l: int) -> Callable[[Class, Class], Any]:
    def reach(counts: Class, _: Class) -> Any:
        found = [Fraction(0)]
        for k in range(1, l):
            x = Fraction(k - 1, l - 1)
            found.append((Fraction(sum(ordered(counts)[:k]), sum(counts)) - x) / (1 - x))
        return max(found)

    return reach


def equal(counts: Class, whole: Class) -> Fraction:
    return sum((abs(p - q) for p, q in shares(counts, whole)), Fraction(0)) / 2


def along(counts: Class, whole: Class) -> Fraction:
    carried, work = Fraction(0), Fraction(0)
    for p, q in shares(counts, whole):
        carried += p - q
        work += abs(carried)
    return work / max(1, sum(1 for w in whole if w) - 1)


def over_tree(counts: Class, whole: Class) -> Fraction:
    """Leaves of one group are half as far apart as those of two."""
    n, total = sum(counts), sum(whole)
    gaps = [Fraction(c, n) - Fraction(w, total) for c, w in zip(counts, whole, strict=True)]
    work, across = Fraction(0), Fraction(0)
    for pair in (gaps[:2], gaps[2:]):
        surplus = sum((gap for gap in pair if gap > 0), Fraction(0))
        lack = -sum((gap for gap in pair if gap < 0), Fraction(0))
        work += min(surplus, lack) / 2
        across += max(surplus - lack, Fraction(0))
    return work + across


def gain(counts: Class, whole: Class) -> Fraction:
    return max([Fraction(0), *((p - q) / q for p, q in shares(counts, whole))])


def change(counts: Class, whole: Class) -> float:
    return max(abs(math.log(p / q)) if p else math.inf for p, q in shares(counts, whole))


# The same with c and d harmless; every class of TABLES has an a or a b.


def harmful_entropy(counts: Class, _: Class) -> float:
    n, harmful = sum(counts), [count for count in counts[:2] if count]
    return math.exp(sum(count * math.log(n / count) for count in harmful) / sum(harmful))


def harmful_recursive(counts: Class, _: Class) -> Any:
    """Definition 4.3 with l = 3: an adversary rules out the most frequent value besides a or b."""
    found: list[Any] = []
    for value in (0, 1):
        others = ordered((*counts[:value], *counts[value + 1 :]))
        tail = sum(others[1:])
        found.append(Fraction(counts[value], tail) if tail else math.inf * counts[value] if counts[value] else 0)
    return max(found)


def harmful_tau(counts: Class, _: Class) -> Any:
    n, (most, least) = sum(counts), sorted(counts[:2], reverse=True)
    return max(Fraction(most, n), (Fraction(most + least, n) - Fraction(1, 2)) * 2)


def harmful_gain(counts: Class, whole: Class) -> Fraction:
    n, total = sum(counts), sum(whole)
    return max([Fraction(0), *(Fraction(counts[v] * total, n * whole[v]) - 1 for v in (0, 1) if whole[v])])


def harmful_change(counts: Class, whole: Class) -> float:
    n, total = sum(counts), sum(whole)
    ratios = [Fraction(counts[v] * total, n * whole[v]) for v in (0, 1) if whole[v]]
    return max(abs(math.log(ratio)) if ratio else math.inf for ratio in ratios)


HARMLESS = {"harmless": ["C", "d "]}
Case = tuple[str, str, dict[str, Any], Callable[[Class, Class], Any], str]
CASES: tuple[Case, ...] = (
    ("k-anonymity", "k", {}, lambda counts, _: Fraction(sum(counts)), ">="),
    ("profitability", "cost", {"gain": 0.3}, lambda counts, _: Fraction(3, 10 * sum(counts)), "<="),
    ("distinct-l-diversity", "l", {}, lambda counts, _: Fraction(len(ordered(counts))), ">="),
    ("simple-l-diversity", "l", {}, lambda counts, _: Fraction(sum(counts), ordered(counts)[0]), ">="),
    ("entropy-l-diversity", "l", {}, entropy_l, ">="),
    ("recursive-cl-diversity", "c", {"l": 2}, recursive(2), "<"),
    ("recursive-cl-diversity", "c", {"l": 3}, recursive(3), "<"),
    ("tau-l-diversity", "tau", {"l": 2}, tau(2), "<="),
    ("tau-l-diversity", "tau", {"l": 3}, tau(3), "<="),
    ("tau-l-diversity", "tau", {"l": 5}, tau(5), "<="),
    ("t-closeness", "t", {}, equal, "<="),
    ("t-closeness", "t", {"distance": "ordered"}, along, "<="),
    ("t-closeness", "t", {"distance": "hierarchical"}, over_tree, "<="),
    ("alpha-k-anonymity", "alpha", {"k": 1}, lambda counts, _: Fraction(ordered(counts)[0], sum(counts)), "<="),
    ("beta-likeness", "beta", {}, gain, "<="),
    ("delta-disclosure", "delta", {}, change, "<"),
    ("confidence-bounding", "most", {}, lambda counts, _: Fraction(max(counts), sum(counts)), "<="),
    ("distinct-l-diversity", "l", HARMLESS, lambda counts, _: Fraction(len(ordered(counts))), ">="),
    ("simple-l-diversity", "l", HARMLESS, lambda counts, _: Fraction(sum(counts), max(counts[:2])), ">="),
    ("entropy-l-diversity", "l", HARMLESS, harmful_entropy, ">="),
    ("recursive-cl-diversity", "c", {"l": 3, **HARMLESS}, harmful_recursive, "<"),
    ("tau-l-diversity", "tau", {"l": 3, **HARMLESS}, harmful_tau, "<="),
    ("alpha-k-anonymity", "alpha", {"k": 1, **HARMLESS}, lambda c, _: Fraction(max(c[:2]), sum(c)), "<="),
    ("beta-likeness", "beta", HARMLESS, harmful_gain, "<="),
    ("delta-disclosure", "delta", HARMLESS, harmful_change, "<"),
    ("confidence-bounding", "most", HARMLESS, lambda c, _: Fraction(max(c[:2]), sum(c)), "<="),
)
WHOLE = ("k-anonymity", "distinct-l-diversity")
FEWEST = dict.fromkeys(("cost", "c", "tau", "alpha", "beta", "delta", "most"), 1e-6) | {"k": 1, "l": 1.0, "t": 0}
MOST = {"tau": 1, "alpha": 1, "most": 1}
LOGARITHMS = ("entropy-l-diversity", "delta-disclosure")


def limits_near(model: str, main: str, reached: Any) -> Iterator[float]:
    """Yield limits at, just above and just below what is reached, as far as the model takes them."""
    if reached == math.inf:
        return
    steps = (-1, 0, 1) if model in WHOLE else (-1e-6, 0, 1e-6)
    for step in steps:
        limit: float = int(reached) + int(step) if model in WHOLE else round(float(reached) + step, 14)
        if step == 0 and (model in LOGARITHMS or Fraction(str(limit)) != reached):
            continue  # no decimal number
        if FEWEST[main] <= limit <= MOST.get(main, math.inf):
            yield limit


def test_classes_keep_just_what_fractions_say() -> None:
    for (model, main, rest, reach, sign), classes, wide in product(CASES, TABLES, (False, True)):
        if wide and classes is not TABLES[2]:
            continue
        whole = tuple(map(sum, zip(*classes, strict=True)))
        values = [reach(counts, whole) for counts in classes]
        for limit in {limit for value in values for limit in limits_near(model, main, value)}:
            bound = Fraction(str(limit))
            wanted = [
                value >= bound if sign == ">=" else value < bound if sign == "<" else value <= bound for value in values
            ]
            if wide:
                with narrow():
                    holds, reached = judge(model, histograms(classes), **{main: limit}, **rest)
            else:
                holds, reached = judge(model, histograms(classes), **{main: limit}, **rest)
            assert holds == wanted, (model, classes, limit)
            for found, value in zip(reached, values, strict=True):
                assert found == value or math.isclose(found, value, rel_tol=1e-12, abs_tol=1e-12), (model, classes)


def test_beliefs_reach_the_same_and_ties_are_refused() -> None:
    for (model, main, rest, reach, sign), classes in product(CASES, TABLES):
        if not promises.MODELS[model].mixes or promises.MODELS[model].about != "values":
            continue
        whole = tuple(map(sum, zip(*classes, strict=True)))
        values = [reach(counts, whole) for counts in classes]
        for limit in {limit for value in values for limit in limits_near(model, main, value)}:
            holds, reached = judge(model, mixed(histograms(classes)), **{main: limit}, **rest)
            for kept, found, value in zip(holds, reached, values, strict=True):
                assert found == value or math.isclose(found, value, rel_tol=1e-9, abs_tol=1e-9)
                clear = value - limit if sign == ">=" else limit - value
                trivial = main in ("tau", "most", "t") and limit >= 1
                if model == "distinct-l-diversity":
                    assert kept == (value >= limit)
                elif trivial or (main == "l" and limit <= 1):
                    assert kept
                else:
                    assert kept == (clear > 1e-8), (model, classes, limit)


def test_counts_that_only_wide_integers_hold() -> None:
    """Products of counts beyond 64 bits change nothing: shares are the same."""
    for model, main, rest, *_ in CASES:
        if model in ("k-anonymity", "profitability", "alpha-k-anonymity"):
            continue
        limit = 2 if main in ("l", "c") else 0.5
        for classes in TABLES:
            small = histograms(classes)
            large = replace(small, sizes=small.sizes << 33, count=small.count << 33)
            narrow_answer = judge(model, small, **{main: limit}, **rest)
            holds, reached = judge(model, large, **{main: limit}, **rest)
            assert holds == narrow_answer[0], (model, classes)
            assert reached == pytest.approx(narrow_answer[1])


def test_ties_of_shares_that_no_limit_can_break() -> None:
    """A share is never above 1, however it is rounded: the weakest promise holds for every belief."""
    beliefs = mixed(histograms(((3, 0, 0, 0), (1, 2, 0, 0))))
    assert judge("simple-l-diversity", beliefs, l=1)[0] == [True, True]
    assert judge("entropy-l-diversity", beliefs, l=1)[0] == [True, True]
    assert judge("confidence-bounding", beliefs, most=1)[0] == [True, True]
    assert judge("tau-l-diversity", beliefs, tau=1, l=2)[0] == [True, True]
    assert judge("t-closeness", beliefs, t=1)[0] == [True, True]
    assert judge("recursive-cl-diversity", beliefs, c=0.1, l=1)[0] == [True, True]


def test_people_with_several_values_and_classes_of_harmless_ones() -> None:
    """People of four classes: a, ac | ab, bc, d | a, b, c, c | c, d; whichever value of each counts, it holds."""
    counts = ((2, 0, 1, 0), (1, 2, 1, 1), (1, 1, 2, 0), (0, 0, 1, 1))
    found = replace(histograms(counts), sizes=np.array([2, 3, 4, 2]), people=50)
    assert judge("distinct-l-diversity", found, l=2, **HARMLESS) == ([False, True, True, True], [1, 2, 3, 50])
    assert judge("distinct-l-diversity", found, l=51, **HARMLESS)[0] == [False, False, False, True]
    assert judge("simple-l-diversity", found, l=2, **HARMLESS) == ([False, False, True, True], [1, 1.5, 4, 50])
    holds, reached = judge("entropy-l-diversity", found, l=1.5, **HARMLESS)
    assert (holds, reached) == ([False, True, True, True], pytest.approx([1, 1.5, 4, 50]))
    two, three = (judge("recursive-cl-diversity", found, c=2.5, l=l, **HARMLESS) for l in (2, 3))
    assert two == ([False, True, True, True], [math.inf, 2.0, pytest.approx(1 / 3), 0.0])
    assert three == ([False, False, True, True], [math.inf, math.inf, 1.0, 0.0])
    assert judge("recursive-cl-diversity", found, c=0.1, l=1, **HARMLESS)[0] == [True] * 4
    records = replace(found, people=None, sizes=np.array([3, 5, 4, 2]))  # of which each has one value
    assert judge("distinct-l-diversity", records, l=3, **HARMLESS) == ([False, True, True, True], [2, 4, 3, 14])
    each = replace(histograms(((2, 1, 1, 0), (0, 0, 3, 0))), people=50)  # of whom nobody has two values
    assert judge("entropy-l-diversity", each, l=2.5, **HARMLESS) == ([True, True], pytest.approx([2 ** (4 / 3), 50]))
    assert judge("recursive-cl-diversity", each, c=3, l=3, **HARMLESS) == ([True, True], [2.0, 0.0])
    uneven = judge("entropy-l-diversity", records, l=1, **HARMLESS)[1]
    assert uneven[:2] == pytest.approx([1.5, math.exp((math.log(5) + 2 * math.log(2.5)) / 3)])


def test_recursive_diversity_of_one_value_is_kept_by_all() -> None:
    found = histograms(((5, 0, 0, 0), (1, 2, 0, 0)))
    assert judge("recursive-cl-diversity", found, c=0.001, l=1) == ([True, True], [1.0, 2 / 3])
    assert judge("recursive-cl-diversity", found, c=99, l=2) == ([False, True], [math.inf, 2.0])
    assert judge("recursive-cl-diversity", found, c=2, l=2)[0] == [False, False]


def test_alpha_needs_enough_records_too() -> None:
    found = histograms(((2, 1, 0, 0), (1, 1, 1, 1)))
    assert judge("alpha-k-anonymity", found, alpha=1, k=3)[0] == [True, True]
    assert judge("alpha-k-anonymity", found, alpha=1, k=4)[0] == [False, True]
    assert judge("alpha-k-anonymity", found, alpha=0.5, k=3)[0] == [False, True]


def test_enhanced_likeness_bounds_the_gain_by_the_logarithm() -> None:
    """A value of half the table may rise by ln 2 = 0.693 of itself, one of the whole table not at all."""
    for counts, kept in (((8, 2), True), ((9, 1), False), ((10, 0), False)):
        rest = tuple(20 - 2 * count for count in counts)
        found = histograms(((*counts, 0, 0), (rest[0] + counts[0] - 10, rest[1] + counts[1] - 10, 0, 0)))
        first = judge("beta-likeness", found, beta=5, enhanced=True)[0][0]
        p = Fraction(counts[0], 10)
        q = Fraction(int(found.whole[0]), int(found.total))
        assert first == (float((p - q) / q) <= -math.log(q)), (counts, kept)
    same = histograms(((4, 0, 0, 0), (2, 0, 0, 0)))
    assert judge("beta-likeness", same, beta=1, enhanced=True) == ([True, True], [0.0, 0.0])
    assert judge("beta-likeness", mixed(same), beta=1, enhanced=True)[0] == [True, True]
    assert judge("beta-likeness", histograms(((1, 0, 0, 0), (1, 2, 0, 0))), beta=9, enhanced=True)[0] == [False, True]
    assert judge("beta-likeness", histograms(((1, 0, 0, 0), (1, 2, 0, 0))), beta=9)[0] == [True, True]


def test_disclosure_needs_every_value_in_every_class() -> None:
    found = histograms(((2, 2, 0, 0), (1, 1, 0, 0)))
    assert judge("delta-disclosure", found, delta=1e-6) == ([True, True], [0.0, 0.0])
    assert judge("delta-disclosure", histograms(((2, 2, 0, 0), (1, 0, 0, 0))), delta=99) == (
        [True, False],
        [math.log(Fraction(5, 4)), math.inf],
    )


def test_limits_of_the_most_frequent_values() -> None:
    found = histograms(((6, 3, 1, 0),))
    assert promises.psi_limits(promise_of("tau-l-diversity", tau=0.5, l=3)) == [Fraction(1, 2), Fraction(3, 4), 1]
    assert judge("tau-l-diversity", found, tau=0.6, l=2)[0] == [True]
    assert judge("tau-l-diversity", found, tau=0.6, l=3)[0] == [False]  # 0.9 of 0.8
    curve = {"tau": 0.6, "l": 3}
    assert judge("tau-l-diversity", found, **curve, psi=[0.6, 0.9, 1])[0] == [True]
    assert judge("tau-l-diversity", found, **curve, psi=[0.6, 0.899, 1])[0] == [False]
    # Another tau bends the curve in proportion: 0.9 of psi(1) = 0.9 is reached by tau = 0.6, 0.9 of 0.95 by less.
    assert judge("tau-l-diversity", found, **curve, psi=[0.6, 0.9, 1])[1] == pytest.approx([0.6])
    assert judge("tau-l-diversity", found, tau=1, l=2) == ([True], [0.6])
    # Where the curve has reached 1, nothing is asked any more.
    assert judge("tau-l-diversity", histograms(((6, 4, 0, 0),)), tau=0.6, l=3, psi=[0.6, 1, 1]) == ([True], [0.6])
    assert judge("tau-l-diversity", found, tau=1, l=3)[1] == pytest.approx([0.8])
    for parameters, why in (
        ({"tau": 0.5, "l": 3, "psi": [0.6, 0.9, 1]}, "begin"),
        ({"tau": 0.5, "l": promises._MOST_LIMITS + 1}, "above 100,000"),
    ):
        with pytest.raises(CannotCheckError, match=why):
            evaluate(promise_of("tau-l-diversity", **parameters), found, None)
    most, promises._MOST_LIMITS = promises._MOST_LIMITS, 4
    try:
        assert len(promises.psi_limits(promise_of("tau-l-diversity", tau=0.5, l=4))) == 4
    finally:
        promises._MOST_LIMITS = most


def test_distances_need_an_order_or_a_tree() -> None:
    found = histograms(((1, 1, 0, 0),))
    for distance in ("ordered", "hierarchical"):
        promise = promise_of("t-closeness", t=0.5, distance=distance)
        for attribute in (None, CHAIN.model_copy(update={"order": None, "taxonomy": None})):
            with pytest.raises(CannotCheckError):
                evaluate(promise, found, attribute)
    assert evaluate(promise_of("t-closeness", t=0.5), found, None)[0].tolist() == [True]


def test_harmful_items_are_counted_in_all_sets_that_have_them() -> None:
    found = histograms(((2, 1, 1, 0), (0, 1, 0, 3)))
    sets = replace(found, values=("none", "flu", "flu; gout", None))
    judged = judge("confidence-bounding", sets, most=0.5, harmless=["none"], separator=";")
    assert judged == ([True, False], [0.5, 0.75])
    assert judge("confidence-bounding", sets, most=0.4, harmless=["none"], separator=";")[0] == [False, False]
    assert judge("confidence-bounding", sets, most=0.5, harmless=["none"])[1] == [0.25, 0.75]
    # Without harmless values and items, names are not needed: every number stands for itself.
    assert judge("confidence-bounding", replace(found, values=()), most=0.5) == ([True, False], [0.5, 0.75])
    alone = replace(histograms(((3, 0, 0, 0),)), values=("none",))
    assert judge("confidence-bounding", alone, most=0.1, harmless=["none"]) == ([True], [0.0])
    with pytest.raises(CannotCheckError, match="joint values have no names"):
        judge("confidence-bounding", replace(found, values=()), most=0.5, harmless=["none"])


def test_items_of_sets_beside_counting_them_one_by_one() -> None:
    names = ("a", "a;b", "b; c;d", "c;a")
    for classes in TABLES:
        if not all(map(sum, zip(*classes, strict=True))):
            continue
        found = replace(histograms(classes), values=names)
        for harmless in ([], ["a"], ["b", "c"]):
            items = [{item.strip() for item in name.split(";")} - set(harmless) for name in names]
            wanted = [
                max(sum(count for count, own in zip(counts, items, strict=True) if item in own) for item in "abcd")
                / sum(counts)
                for counts in classes
            ]
            reached = judge("confidence-bounding", found, most=0.5, harmless=harmless, separator=";")[1]
            assert reached == pytest.approx(wanted), (classes, harmless)


def test_populations() -> None:
    sizes, covered = np.array([2, 3, 4]), np.array([4, 3, 0])
    classes = promises.count_covered(sizes, covered)
    assert (classes.start.tolist(), classes.value.tolist(), classes.n_values) == ([0, 1, 2, 3], [0, 0, 0], 1)
    promise = promise_of("k-map", k=3, population="p")
    assert [found.tolist() for found in evaluate(promise, classes, None)] == [[True, True, False], [4.0, 3.0, 0.0]]
    for low, high, wanted in (
        (0, 1, [True, True, False]),
        (0.5, 1, [True, True, False]),
        (0.51, 1, [False, True, False]),
        (0, 0.5, [True, False, False]),
        (0, 0.49, [False, False, False]),
    ):
        promise = promise_of("delta-presence", min=low, max=high, population="p")
        holds, reached = evaluate(promise, classes, None)
        assert (holds.tolist(), reached.tolist()) == (wanted, [0.5, 1.0, math.inf]), (low, high)
    one = promises.count_covered(np.array([1, 0]), np.array([1, 0]))
    found = evaluate(promise_of("delta-presence", max=1, population="p"), one, None)
    assert [side.tolist() for side in found] == [[True, False], [1.0, math.inf]]
    nobody = promises.count_covered(np.array([0, 1]), np.array([2, 2]))
    promise = promise_of("delta-presence", max=1, population="p")
    assert evaluate(promise, nobody, None)[0].tolist() == [False, True]


K: dict[str, list[Any]] = {"legal": [1, 2, 10**9], "not": [0, -1, 1.5, True, "2", None, 2**53, [1]]}
UP: dict[str, list[Any]] = {"legal": [1, 1.0, 3, 2.5], "not": [0.999, 0, True, "2", math.nan, math.inf, 10**400]}
PART: dict[str, list[Any]] = {"legal": [0.001, 0.5, 1], "not": [0, -0.1, 1.001, True, "1", math.nan]}
POSITIVE: dict[str, list[Any]] = {"legal": [0.001, 1, 17.5], "not": [0, -1, True, "1", math.inf, math.nan]}
UNIT: dict[str, list[Any]] = {"legal": [0, 0.5, 1], "not": [-0.001, 1.001, True, "1"]}
NAMED = {"legal": ["p"], "not": ["", 1, None]}
PARAMETERS: dict[str, dict[str, tuple[dict[str, list[Any]], Any]]] = {
    "k-anonymity": {"k": (K, 2)},
    "column-frequency": {"k": (K, 2)},
    "profitability": {"gain": (POSITIVE, 2), "cost": (POSITIVE, 2)},
    "distinct-l-diversity": {"l": (K, 2)},
    "simple-l-diversity": {"l": (UP, 2)},
    "entropy-l-diversity": {"l": (UP, 2)},
    "recursive-cl-diversity": {"c": (POSITIVE, 2), "l": (K, 2)},
    "tau-l-diversity": {"tau": (PART, 0.5), "l": ({"legal": [2, 3], "not": [1, 2.5, True, "2", 2**53]}, 2)},
    "t-closeness": {"t": ({"legal": [0, 0.5, 7], "not": [-1e-9, math.inf, "1"]}, 0.5)},
    "alpha-k-anonymity": {"alpha": (PART, 0.5), "k": (K, 2)},
    "beta-likeness": {"beta": (POSITIVE, 1)},
    "delta-disclosure": {"delta": (POSITIVE, 1)},
    "confidence-bounding": {"most": (PART, 0.5)},
    "k-map": {"k": (K, 2), "population": (NAMED, "p")},
    "delta-presence": {"max": ({**UNIT, "legal": [0, 0.5, 1]}, 0.5), "population": (NAMED, "p")},
}
TAU, PRESENCE = {"tau": 0.5, "l": 2}, {"max": 0.5, "population": "p"}
OPTIONAL: tuple[tuple[str, dict[str, Any], str, list[Any], list[Any]], ...] = (
    (
        "tau-l-diversity",
        TAU,
        "psi",
        [[0.5, 1], (0.5, 1)],
        [[0.5], [1], [0.5, 0.9], [1, 0.5], [0, 1], [0.5, 0.7, 1], "ab", None],
    ),
    ("tau-l-diversity", TAU, "weights", [{"a": 0, "b": 2}], [{"a": -1}, {"a": "1"}, [1], {"a": math.inf}]),
    ("t-closeness", {"t": 0.5}, "distance", ["equal", "ordered", "hierarchical"], ["far", None]),
    ("beta-likeness", {"beta": 1}, "enhanced", [True, False], [1, "yes"]),
    ("confidence-bounding", {"most": 1}, "harmless", [["x"], []], ["x", [1]]),
    ("confidence-bounding", {"most": 1}, "separator", [";"], ["", 1]),
    ("delta-presence", PRESENCE, "min", [0, 0.5], [0.51, -1, True]),
)


def test_parameters_are_legal_or_the_promise_is_not_believed() -> None:
    for model, parameters in PARAMETERS.items():
        good = {name: value for name, (_, value) in parameters.items()}
        assert read_promise(model, good, 1.0, ["s"]).obstacle is None
        for name, (values, _) in parameters.items():
            for value in values["legal"]:
                assert read_promise(model, {**good, name: value}, 1.0, ["s"]).obstacle is None, (model, name, value)
            for value in values["not"]:
                assert read_promise(model, {**good, name: value}, 1.0, ["s"]).obstacle, (model, name, value)
            fewer = {key: value for key, value in good.items() if key != name}
            assert "lacks" in str(read_promise(model, fewer, 1.0, ["s"]).obstacle)
        assert "1 unexpected key" in str(read_promise(model, {**good, "note": 1}, 1.0, ["s"]).obstacle)
    for model, good, name, legal, illegal in OPTIONAL:
        for value in legal:
            assert read_promise(model, {**good, name: value}, 1.0, ["s"]).obstacle is None, (model, name, value)
        for value in illegal:
            assert read_promise(model, {**good, name: value}, 1.0, ["s"]).obstacle, (model, name, value)


def test_defaults_are_filled_in() -> None:
    assert promise_of("delta-presence", max=1, population="p").parameters == {"min": 0, "max": 1, "population": "p"}
    wanted = {"tau": 0.5, "l": 2, "psi": None, "weights": None, "harmless": (), "attribute": None}
    assert promise_of("tau-l-diversity", tau=0.5, l=2).parameters == wanted
    assert promise_of("t-closeness", t=1).parameters["distance"] == "equal"
    assert promise_of("beta-likeness", beta=1).parameters["enhanced"] is False
    assert promise_of("confidence-bounding", most=1).parameters["harmless"] == ()
    found = read_promise("k-anonymity", {"k": 3}, 4.5, [])
    assert (found.model, found.parameters, found.claimed, found.subjects) == ("k-anonymity", {"k": 3}, 4.5, ())
    assert (found.whole("k"), found.fraction("k")) == (3, Fraction(3))


def test_what_a_promise_is_about() -> None:
    def subjects(attribute: Any, sensitive: Sequence[str] = ("s", "t")) -> tuple[tuple[str, ...], ...]:
        given = {} if attribute is ... else {"attribute": attribute}
        return read_promise("distinct-l-diversity", {"l": 2, **given}, None, sensitive).subjects

    assert subjects(...) == subjects(None) == (("s",), ("t",))
    assert subjects("t") == (("t",),)
    assert subjects(["s", "t"]) == subjects(("s", "t")) == (("s", "t"),)
    for wrong in ("u", [], ["s", "s"], ["s", "u"], 1, {"s": 1}):
        refused = read_promise("distinct-l-diversity", {"l": 2, "attribute": wrong}, None, ["s", "t"])
        assert "names no sensitive attribute" in str(refused.obstacle)
    assert "names no sensitive attribute" in str(read_promise("distinct-l-diversity", {"l": 2}, None, []).obstacle)
    assert read_promise("k-anonymity", {"k": 2, "attribute": "s"}, None, ["s"]).obstacle


def test_plans_promise_what_no_other_release_can() -> None:
    for model, main in (("l-delta-diversity", "l"), ("k-delta-anonymity", "k"), ("entropy-l-delta-diversity", "l")):
        good = {main: 2, "delta": 0.1}
        assert read_promise(model, good, None, ["s"], agreed=True).obstacle is None
        assert "does not know" in str(read_promise(model, good, None, ["s"]).obstacle)
        for wrong in ({main: 0}, {"delta": 0}, {main: "2"}, {main: True}):
            assert read_promise(model, {**good, **wrong}, None, ["s"], agreed=True).obstacle
    assert "does not know" in str(read_promise("k-anonymity", {"k": 2}, None, ["s"], agreed=True).obstacle)
    whole = {"l-delta-diversity": "l", "k-delta-anonymity": "k"}
    for model, main in whole.items():
        assert read_promise(model, {main: 1.5, "delta": 0.1}, None, ["s"], agreed=True).obstacle
    assert not read_promise("entropy-l-delta-diversity", {"l": 1.5, "delta": 0.1}, None, [], agreed=True).obstacle


def test_which_of_several_classes_is_the_worst() -> None:
    least = {"k-anonymity", "column-frequency", "k-map", "distinct-l-diversity"}
    least |= {"simple-l-diversity", "entropy-l-diversity"}
    for model in PARAMETERS:
        worst = promises.worst_of(Promise(model, {}, None))
        assert worst(1.0, 2.0) == (1.0 if model in least else 2.0), model
    assert promises.worst_of(Promise("strange", {}, None))(1.0, 2.0) == 2.0


def test_only_sliced_releases_and_plans_have_parts_and_classes_of_their_own() -> None:
    for model, parameters, agreed in (
        ("column-frequency", {"k": 1}, False),
        ("l-delta-diversity", {"l": 1, "delta": 0.1}, True),
    ):
        promise = read_promise(model, parameters, None, ["s"], agreed=agreed)
        with pytest.raises(CannotCheckError):
            evaluate(promise, histograms(((1, 1, 1, 1),)), None)
    assert not promises.MODELS["alpha-k-anonymity"].mixes
    assert all(model.mixes for name, model in promises.MODELS.items() if name != "alpha-k-anonymity")
    assert [name for name, model in promises.MODELS.items() if model.labels] == ["tau-l-diversity"]


def _keeps_even(promise: Promise, classes: Histograms, _: Attribute | None) -> Found:
    return classes.sizes % promise.whole("of") == 0, classes.sizes.astype(np.float64)


class _Entry:
    """An entry point of another package."""

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        return self.found


def test_other_packages_register_formulas_of_their_models() -> None:
    from typing import Annotated

    from pydantic import Field

    model = Model({"of": (Annotated[int, Field(ge=1)], ...)}, _keeps_even, "sizes", min)
    registered = {
        "even-classes": [_Entry(model)],
        "no-formula": [_Entry("not a model")],
        "later": [_Entry(1), _Entry(model)],
    }
    original = promises.entry_points
    asked = []

    def entry_points(group: str, name: str) -> list[_Entry]:
        asked.append(group)
        return registered.get(name, [])

    try:
        promises.entry_points = entry_points  # type: ignore[assignment]
        promises.find_model.cache_clear()
        promises._shape_of.cache_clear()
        promise = read_promise("even-classes", {"of": 2}, 2.0, ["s"])
        assert promise.obstacle is None
        holds, reached = evaluate(promise, promises.count_only(np.array([2, 3])), None)
        assert (holds.tolist(), reached.tolist()) == ([True, False], [2.0, 3.0])
        assert promises.worst_of(promise)(1.0, 2.0) == 1.0
        assert read_promise("even-classes", {"of": 0}, 2.0, ["s"]).obstacle
        assert read_promise("later", {"of": 2}, 2.0, ["s"]).obstacle is None
        for unknown in ("no-formula", "unheard-of"):
            assert "does not know" in str(read_promise(unknown, {}, None, ["s"]).obstacle)
        assert set(asked) == {"shoal.promises"}
        with pytest.raises(CannotCheckError, match="does not know"):
            evaluate(Promise("unheard-of", {}, None), histograms(((1, 1, 1, 1),)), None)
    finally:
        promises.entry_points = original
        promises.find_model.cache_clear()
        promises._shape_of.cache_clear()

"""Statements of the models beside exact oracles in fractions, and the parameters that models have.

All tests are plain functions: ``tests/mutants/run.py`` calls them again and again on changed statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from typing import Annotated, Any

import pytest
from pydantic import Field

from shoal.manifest import Attribute
from shoal.verify import promises, statements
from shoal.verify.engine import CannotCheckError, Engine
from shoal.verify.promises import Answer, Counts, Judgement, Model, Promise, judge, read_promise

ENGINE = Engine()
ENGINE.run("CREATE TEMP MACRO folded(t) AS trim(t)")
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


def put(
    classes: Sequence[Class],
    values: Sequence[str | None] = VALUES,
    *,
    sizes: Sequence[int] | None = None,
    attribute: Attribute | None = CHAIN,
    factor: int = 1,
) -> Counts:
    """Make a table of classes with so many records of each value; of people if *sizes* says how many are in each."""
    rows = []
    for number, counts in enumerate(classes):
        n = factor * (sum(counts) if sizes is None else sizes[number])
        rows += [
            f"({number}, {n}, {'NULL' if value is None else repr(value)}, {factor * c})"
            for value, c in zip(values, counts, strict=True)
            if c
        ]
    name = f"counts{next(NUMBERS)}"
    columns = "class::INTEGER AS class, n::HUGEINT AS n, value::VARCHAR AS value, c::HUGEINT AS c"
    ENGINE.make(name, f"SELECT {columns} FROM (VALUES {', '.join(rows)}) AS t(class, n, value, c)")
    return Counts(name, attribute, total="50" if sizes else f"(SELECT sum(c) FROM {name})", several=bool(sizes))


def mix(counts: Counts) -> Counts:
    """Return the same classes as beliefs in floating point."""
    table, whole = f"{counts.table}_shares", f"{counts.table}_whole"
    ENGINE.make(table, f"SELECT class, 1 AS n, value, c / n AS c FROM {counts.table}")
    total = f"(SELECT sum(c) FROM {counts.table})"
    ENGINE.make(whole, f"SELECT value, sum(c) AS whole, {total} AS total FROM {counts.table} GROUP BY value")
    return counts._replace(table=table, whole=whole, shares=True)


MODELS = {**promises.SIZES, **statements.VALUES}
NUMBERS = iter(range(10**9))
PUT = [put(classes) for classes in TABLES]
MIXED = [mix(counts) for counts in PUT]


def promise_of(model: str, **parameters: Any) -> Promise:
    found = read_promise(model, parameters, None, ["s"])
    assert found.obstacle is None, found.obstacle
    return found


def judge_all(model: str, counts: Counts, **parameters: Any) -> Judgement:
    found = judge(ENGINE, promise_of(model, **parameters), [counts])
    assert found.obstacle is None, found.obstacle
    return found


def judge_each(model: str, counts: Counts, **parameters: Any) -> tuple[list[bool], list[float]]:
    """Return whether each class satisfies a model, and what it reaches."""
    promise, numbers = promise_of(model, **parameters), ENGINE.fetch(f"SELECT DISTINCT class FROM {counts.table}")
    found = [judge(ENGINE, promise, [counts], only=number) for (number,) in sorted(numbers)]
    assert {one.obstacle for one in found} == {None}
    return [not one.failing for one in found], [one.achieved for one in found]


def explain(model: str, counts: Counts, **parameters: Any) -> str:
    """Return why a model cannot be judged."""
    found = judge(ENGINE, promise_of(model, **parameters), [counts])
    assert found.obstacle is not None
    return found.obstacle


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


def check(found: Judgement, holds: Sequence[bool], reached: Sequence[Any], *, most: bool, close: float = 1e-12) -> None:
    assert found.classes == len(holds)
    assert found.failing == list(holds).count(False)
    worst = float(max(reached) if most else min(reached))
    assert found.achieved == worst or math.isclose(found.achieved, worst, rel_tol=close, abs_tol=close)


def test_classes_satisfy_exactly_what_fractions_say() -> None:
    for (model, main, rest, reach, sign), (classes, counts) in product(CASES, zip(TABLES, PUT, strict=True)):
        whole = tuple(map(sum, zip(*classes, strict=True)))
        values = [reach(own, whole) for own in classes]
        for limit in {limit for value in values for limit in limits_near(model, main, value)}:
            bound = Fraction(str(limit))
            wanted = [
                value >= bound if sign == ">=" else value < bound if sign == "<" else value <= bound for value in values
            ]
            check(judge_all(model, counts, **{main: limit}, **rest), wanted, values, most=sign != ">=")


def test_beliefs_reach_the_same_and_ties_are_refused() -> None:
    for (model, main, rest, reach, sign), (classes, counts) in product(CASES, zip(TABLES, MIXED, strict=True)):
        if not MODELS[model].mixes or MODELS[model].about != "values":
            continue
        whole = tuple(map(sum, zip(*classes, strict=True)))
        values = [reach(own, whole) for own in classes]
        for limit in {limit for value in values for limit in limits_near(model, main, value)}:
            wanted = []
            for value in values:
                clear = value - limit if sign == ">=" else limit - value
                trivial = main in ("tau", "most", "t") and limit >= 1
                if model == "distinct-l-diversity":
                    wanted.append(value >= limit)
                else:
                    wanted.append(trivial or (main == "l" and limit <= 1) or clear > 1e-8)
            check(judge_all(model, counts, **{main: limit}, **rest), wanted, values, most=sign != ">=", close=1e-9)


def test_counts_that_only_wide_integers_hold() -> None:
    """Products of counts beyond 64 bits change nothing: shares are the same."""
    for model, main, rest, *_ in CASES:
        if model in ("k-anonymity", "profitability", "alpha-k-anonymity"):
            continue
        limit = 2 if main in ("l", "c") else 0.5
        for classes, counts in zip(TABLES, PUT, strict=True):
            small = judge_all(model, counts, **{main: limit}, **rest)
            large = judge_all(model, put(classes, factor=2**33), **{main: limit}, **rest)
            assert large.failing == small.failing, (model, classes)
            assert large.achieved == pytest.approx(small.achieved)


def test_ties_of_shares_that_no_limit_can_break() -> None:
    """A share is never above 1, however it is rounded: the weakest promise holds for every belief."""
    beliefs = mix(put(((3, 0, 0, 0), (1, 2, 0, 0))))
    assert judge_each("simple-l-diversity", beliefs, l=1)[0] == [True, True]
    assert judge_each("entropy-l-diversity", beliefs, l=1)[0] == [True, True]
    assert judge_each("confidence-bounding", beliefs, most=1)[0] == [True, True]
    assert judge_each("tau-l-diversity", beliefs, tau=1, l=2)[0] == [True, True]
    assert judge_each("t-closeness", beliefs, t=1)[0] == [True, True]
    assert judge_each("recursive-cl-diversity", beliefs, c=0.1, l=1)[0] == [True, True]


def test_a_judgement_is_of_the_worst_subject() -> None:
    first, second = put(((2, 2, 0, 0), (1, 3, 0, 0))), put(((4, 0, 0, 0), (0, 0, 4, 0)))
    found = judge(ENGINE, promise_of("simple-l-diversity", l=1.5), [first, second])
    assert found == Judgement(2, 2, 1.0)
    found = judge(ENGINE, promise_of("confidence-bounding", most=0.8), [first, second])
    assert found == Judgement(2, 2, 1.0)
    assert judge(ENGINE, promise_of("confidence-bounding", most=0.8), [first]) == Judgement(2, 0, 0.75)
    none = judge(ENGINE, promise_of("k-anonymity", k=1), [])
    assert (none.classes, none.failing, math.isnan(none.achieved)) == (0, 0, True)


def test_people_with_several_values_and_classes_of_harmless_ones() -> None:
    """People of four classes: a, ac | ab, bc, d | a, b, c, c | c, d; whichever value of each counts, it holds."""
    counts = ((2, 0, 1, 0), (1, 2, 1, 1), (1, 1, 2, 0), (0, 0, 1, 1))
    found = put(counts, sizes=[2, 3, 4, 2])
    assert judge_each("distinct-l-diversity", found, l=2, **HARMLESS) == ([False, True, True, True], [1, 2, 3, 50])
    assert judge_each("distinct-l-diversity", found, l=51, **HARMLESS)[0] == [False, False, False, True]
    assert judge_each("simple-l-diversity", found, l=2, **HARMLESS) == ([False, False, True, True], [1, 1.5, 4, 50])
    holds, reached = judge_each("entropy-l-diversity", found, l=1.5, **HARMLESS)
    assert (holds, reached) == ([False, True, True, True], pytest.approx([1, 1.5, 4, 50]))
    two, three = (judge_each("recursive-cl-diversity", found, c=2.5, l=l, **HARMLESS) for l in (2, 3))
    assert two == ([False, True, True, True], [math.inf, 2.0, pytest.approx(1 / 3), 0.0])
    assert three == ([False, False, True, True], [math.inf, math.inf, 1.0, 0.0])
    assert judge_each("recursive-cl-diversity", found, c=0.1, l=1, **HARMLESS)[0] == [True] * 4
    records = put(counts)  # of which each has one value
    assert judge_each("distinct-l-diversity", records, l=3, **HARMLESS) == ([False, True, True, True], [2, 4, 3, 14])
    each = put(((2, 1, 1, 0), (0, 0, 3, 0)), sizes=[4, 3])  # each person has one value
    holds, reached = judge_each("entropy-l-diversity", each, l=2.5, **HARMLESS)
    assert (holds, reached) == ([True, True], pytest.approx([2 ** (4 / 3), 50]))
    assert judge_each("recursive-cl-diversity", each, c=3, l=3, **HARMLESS) == ([True, True], [2.0, 0.0])
    uneven = judge_each("entropy-l-diversity", records, l=1, **HARMLESS)[1]
    assert uneven[:2] == pytest.approx([1.5, math.exp((math.log(5) + 2 * math.log(2.5)) / 3)])
    # Without harmless values all of them count.
    assert judge_each("simple-l-diversity", found, l=1.5)[1] == [1, 1.5, 2, 2]
    assert judge_each("distinct-l-diversity", found, l=2)[1] == [2, 4, 3, 2]
    assert judge_each("entropy-l-diversity", found, l=1)[1][3] == pytest.approx(2)
    assert judge_each("entropy-l-diversity", found, l=1)[1][0] == pytest.approx(2 ** (1 / 3))
    assert judge_each("recursive-cl-diversity", found, c=9, l=2)[1] == [2, 2 / 3, 1, 1]


def test_no_tolerance_lets_a_limit_be_exceeded() -> None:
    """Logarithms and shares must be below their limits by more than rounding, which is relative and absolute."""
    for most in (3, 9):  # changes by ln 2 and ln 5
        even = put(((most, 1), (1, most)), ("a", "b"))
        share = max(judge_each("delta-disclosure", even, delta=99)[1])
        assert judge_all("delta-disclosure", even, delta=math.nextafter(share, 9)).failing == 2
        assert judge_all("delta-disclosure", even, delta=share * (1 + 1e-10)).failing == 0
        assert judge_all("delta-disclosure", mix(even), delta=share * (1 + 1e-10)).failing == 2
    same = put(((2, 2, 0, 0), (1, 1, 0, 0)))
    assert judge_all("delta-disclosure", same, delta=1e-12).failing == 2
    for l in (2, 3):
        tie = mix(put(((1,) * l, (2,) * l), VALUES[:l]))
        assert judge_all("entropy-l-diversity", tie, l=l).failing == 2
        assert judge_all("entropy-l-diversity", tie, l=l - 1e-7).failing == 0


def test_recursive_diversity_of_one_value_is_satisfied_by_all() -> None:
    found = put(((5, 0, 0, 0), (1, 2, 0, 0)))
    assert judge_each("recursive-cl-diversity", found, c=0.001, l=1) == ([True, True], [1.0, 2 / 3])
    assert judge_each("recursive-cl-diversity", found, c=99, l=2) == ([False, True], [math.inf, 2.0])
    assert judge_each("recursive-cl-diversity", found, c=2, l=2)[0] == [False, False]


def test_alpha_needs_enough_records_too() -> None:
    found = put(((2, 1, 0, 0), (1, 1, 1, 1)))
    assert judge_each("alpha-k-anonymity", found, alpha=1, k=3)[0] == [True, True]
    assert judge_each("alpha-k-anonymity", found, alpha=1, k=4)[0] == [False, True]
    assert judge_each("alpha-k-anonymity", found, alpha=0.5, k=3)[0] == [False, True]


def test_all_classes_together_have_an_average_risk_and_unique_records() -> None:
    found = put(((1, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0), (6, 0, 0, 0)))
    for risk, failing in ((0.4, 0), (0.399, 4), (1, 0)):
        judged = judge_all("average-risk", found, risk=risk)
        assert (bool(judged.failing), judged.achieved) == (bool(failing), 0.4), risk
    for fraction, failing in ((0.2, 0), (0.199, 4), (0, 4)):
        judged = judge_all("sample-uniqueness", found, fraction=fraction)
        assert (bool(judged.failing), judged.achieved) == (bool(failing), 0.2), fraction
    assert judge_all("sample-uniqueness", put(((2, 0, 0, 0), (3, 0, 0, 0))), fraction=0).achieved == 0


def test_enhanced_likeness_bounds_the_gain_by_the_logarithm() -> None:
    """A value of half the table may rise by ln 2 = 0.693 of itself, one of the whole table not at all."""
    for counts, holds in (((8, 2), True), ((9, 1), False), ((10, 0), False)):
        rest = tuple(20 - 2 * count for count in counts)
        classes = ((*counts, 0, 0), (rest[0] + counts[0] - 10, rest[1] + counts[1] - 10, 0, 0))
        first = judge_each("beta-likeness", put(classes), beta=5, enhanced=True)[0][0]
        p, q = Fraction(counts[0], 10), Fraction(sum(own[0] for own in classes), sum(map(sum, classes)))
        assert first == (float((p - q) / q) <= -math.log(q)), (counts, holds)
    same = put(((4, 0, 0, 0), (2, 0, 0, 0)))
    assert judge_each("beta-likeness", same, beta=1, enhanced=True) == ([True, True], [0.0, 0.0])
    assert judge_each("beta-likeness", mix(same), beta=1, enhanced=True)[0] == [True, True]
    found = put(((1, 0, 0, 0), (1, 2, 0, 0)))
    assert judge_each("beta-likeness", found, beta=9, enhanced=True)[0] == [False, True]
    assert judge_each("beta-likeness", found, beta=9)[0] == [True, True]


def test_disclosure_needs_every_value_in_every_class() -> None:
    found = put(((2, 2, 0, 0), (1, 1, 0, 0)))
    assert judge_each("delta-disclosure", found, delta=1e-6) == ([True, True], [0.0, 0.0])
    holds, reached = judge_each("delta-disclosure", put(((2, 2, 0, 0), (1, 0, 0, 0))), delta=99)
    assert (holds, reached) == ([True, False], pytest.approx([math.log(Fraction(5, 4)), math.inf]))


def test_ties_of_entropy_are_settled_in_whole_numbers() -> None:
    """Half of the records have one value, and the rest as many values as are needed for an entropy of ln(l)."""
    ties = {4: (4, 1, 1, 1, 1), 8: (16, *[1] * 16), 16: (64, *[1] * 64)}  # decided by SQL, and not
    for l, counts in ties.items():
        found = put([counts], [f"v{place}" for place in range(len(counts))])
        for limit, holds in ((l, True), (l + 1e-10, False), (l - 1e-10, True), (l + 1e-7, False), (l - 1e-7, True)):
            assert judge_each("entropy-l-diversity", found, l=limit)[0] == [holds], (l, limit)
        both = put([counts, counts[::-1], (len(counts),) * len(counts)], [f"v{n}" for n in range(len(counts))])
        assert judge_all("entropy-l-diversity", both, l=l + 1e-10).failing == 2
    for counts in ((1, 1, 1, 1), (3, 3, 3, 3), (5, 5, 5, 0)):
        l = sum(1 for count in counts if count)
        assert judge_each("entropy-l-diversity", put([counts]), l=l) == ([True], [pytest.approx(l)])
        assert judge_each("entropy-l-diversity", put([counts]), l=l + 1e-12)[0] == [False]
    promise = promise_of("entropy-l-diversity", l=2.5)
    for cs in product(range(1, 6), repeat=3):
        holds = sum(cs) ** sum(cs) * 2 ** sum(cs) >= 5 ** sum(cs) * math.prod(c**c for c in cs)
        assert statements.settle_entropy(promise, {"cs": list(cs), "n": sum(cs)}) == holds, cs
    half = {"cs": [3, 1], "n": 8}  # the other records are harmless
    assert statements.settle_entropy(promise_of("entropy-l-diversity", l=3.5), half)
    assert not statements.settle_entropy(promise_of("entropy-l-diversity", l=3.6), half)
    large = {"cs": [2 * 10**6 + 1, 1], "n": 2 * 10**6 + 2}
    assert not statements.settle_entropy(promise_of("entropy-l-diversity", l=1), large)
    assert statements.settle_entropy(promise_of("entropy-l-diversity", l=2), {"cs": [10**9, 10**9], "n": 2 * 10**9})


def test_limits_of_the_most_frequent_values() -> None:
    found = put(((6, 3, 1, 0),))
    limits = statements.psi_limits(promise_of("tau-l-diversity", tau=0.5, l=3))
    assert limits == [Fraction(1, 2), Fraction(3, 4), 1]
    assert judge_each("tau-l-diversity", found, tau=0.6, l=2)[0] == [True]
    assert judge_each("tau-l-diversity", found, tau=0.6, l=3)[0] == [False]  # 0.9 of 0.8
    curve = {"tau": 0.6, "l": 3}
    assert judge_each("tau-l-diversity", found, **curve, psi=[0.6, 0.9, 1])[0] == [True]
    assert judge_each("tau-l-diversity", found, **curve, psi=[0.6, 0.899, 1])[0] == [False]
    # Another tau bends the curve in proportion: 0.9 of psi(1) = 0.9 is reached by tau = 0.6, 0.9 of 0.95 by less.
    assert judge_each("tau-l-diversity", found, **curve, psi=[0.6, 0.9, 1])[1] == pytest.approx([0.6])
    assert judge_each("tau-l-diversity", found, tau=1, l=2) == ([True], [0.6])
    # If the curve has reached 1, the most frequent values may have everything.
    assert judge_each("tau-l-diversity", put(((6, 4, 0, 0),)), **curve, psi=[0.6, 1, 1]) == ([True], [0.6])
    assert judge_each("tau-l-diversity", found, tau=1, l=3)[1] == pytest.approx([0.8])
    assert "begin" in explain("tau-l-diversity", found, tau=0.5, l=3, psi=[0.6, 0.9, 1])
    assert "above 100,000" in explain("tau-l-diversity", found, tau=0.5, l=statements._MOST_LIMITS + 1)
    assert "too fine" in explain("tau-l-diversity", found, tau=1e-20, l=3)
    assert statements._MOST_LIMITS == 100_000
    assert len(statements.psi_limits(promise_of("tau-l-diversity", tau=0.5, l=100_000))) == 100_000


def test_distances_need_an_order_or_a_tree() -> None:
    for distance in ("ordered", "hierarchical"):
        for attribute in (None, CHAIN.model_copy(update={"order": None, "taxonomy": None})):
            assert explain("t-closeness", put(((1, 1, 0, 0),), attribute=attribute), t=0.5, distance=distance)
        strange = put(((1, 1, 0, 0),), ("a", "z", "c", "d"))
        assert "are not in its" in explain("t-closeness", strange, t=1, distance=distance) or distance == "ordered"
        assert explain("t-closeness", strange, t=1, distance=distance)
    assert judge_each("t-closeness", put(((1, 1, 0, 0),), attribute=None), t=0.5)[0] == [True]
    tie = put(((57, 43, 0, 0), (43, 57, 0, 0)))  # 0.07 * 100 is above 7 in floating point
    assert judge_each("t-closeness", tie, t=0.07) == ([True, True], [0.07, 0.07])


def test_order_of_numbers_dates_and_leaves() -> None:
    """Li, Li and Venkatasubramanian, Table 3: salaries of 3K to 11K in three classes of three."""
    salaries = [(3, 4, 5), (6, 8, 11), (7, 9, 10)]
    counts = [tuple(int(value in own) for value in range(3, 12)) for own in salaries]
    written = {
        "number": [str(value) for value in range(3, 12)],
        "date": [f"2024-01-{value:02}" for value in range(3, 12)],
    }
    for kind, values in written.items():
        found = put(counts, values, attribute=Attribute(name="s", role="sensitive", kind=kind))
        assert judge_each("t-closeness", found, t=0.375, distance="ordered")[0] == [True, True, True]
        holds, reached = judge_each("t-closeness", found, t=0.374999999, distance="ordered")
        assert holds == [False, True, True]
        assert reached[0] == 0.375
        assert "no place in its order" in explain(
            "t-closeness", put([(1, 1)], ("x", values[0]), attribute=found.attribute), t=1, distance="ordered"
        )
    days = ("2024-01-05", "2024-01-03", "2024-01-04")  # an order goes before the calendar
    given = Attribute(name="s", role="sensitive", kind="date", order=days)
    found = put(((0, 1, 0), (1, 0, 1)), days, attribute=given)
    assert judge_each("t-closeness", found, t=1, distance="ordered")[1] == pytest.approx([1 / 3, 1 / 6])
    leaves = CHAIN.model_copy(update={"order": None})
    same = put(TABLES[2], attribute=leaves)
    assert judge_each("t-closeness", same, t=1, distance="ordered") == judge_each(
        "t-closeness", PUT[2], t=1, distance="ordered"
    )
    times = ("2024-01-01 08:00:00", "2024-01-01 09:00:00", "2024-01-01 10:00:00")
    stamps = Attribute(name="s", role="sensitive", kind="category", order=times)
    spelled = ("2024-01-01t08:00:00.000", "2024-01-01 09:00:00", "2024-01-01 10:00:00.000000")
    for values in (times, spelled):
        found = put(((1, 0, 0), (0, 1, 1)), values, attribute=stamps)
        assert judge_each("t-closeness", found, t=1, distance="ordered")[1] == pytest.approx([1 / 2, 1 / 4])
    hours = Attribute(name="s", role="sensitive", kind="category", order=("08:00:00", "09:00:00"))
    found = put(((1, 0), (0, 1)), ("08:00:00.000", "09:00:00.000000"), attribute=hours)
    assert judge_each("t-closeness", found, t=1, distance="ordered")[1] == [0.5, 0.5]


def test_missing_values_are_last_in_order_and_right_under_the_root() -> None:
    found = put(((2, 1, 1), (0, 1, 3)), ("a", "d", None))
    whole = (2, 2, 4)
    assert judge_each("t-closeness", found, t=1, distance="ordered")[1] == pytest.approx(
        [float(along(own, whole)) for own in ((2, 1, 1), (0, 1, 3))]
    )
    # Each class has a quarter more, or less, of a, and of missing values: all of them move over the root.
    assert judge_each("t-closeness", found, t=1, distance="hierarchical")[1] == [0.25, 0.25]
    assert judge_each("distinct-l-diversity", found, l=3, harmless=["a", "d"]) == ([True, False], [3, 2])
    assert judge_each("simple-l-diversity", found, l=2, harmless=["a", "d"])[1] == pytest.approx([4, 4 / 3])


TREE = {"*": {"G": {"a": {}, "H": {"b": {}, "c": {}}}, "d": {}}}
LEVELS = ((1, ((1,), (2,))), (2, ((0,), (1, 2))), (3, ((0, 1, 2), (3,))))  # heights, and leaves under each child


def over_steep_tree(counts: Class, whole: Class) -> Fraction:
    """Children of a node settle among themselves what they can, and the rest goes on to the next node."""
    n, total = sum(counts), sum(whole)
    gaps = [Fraction(c, n) - Fraction(w, total) for c, w in zip(counts, whole, strict=True)]
    work = Fraction(0)
    for height, children in LEVELS:
        sums = [sum((gaps[leaf] for leaf in own), Fraction(0)) for own in children]
        work += Fraction(height, 3) * min(
            sum(max(x, Fraction(0)) for x in sums), sum(max(-x, Fraction(0)) for x in sums)
        )
    return work


def test_trees_of_several_heights() -> None:
    steep = CHAIN.model_copy(update={"taxonomy": TREE})
    for classes in TABLES:
        whole = tuple(map(sum, zip(*classes, strict=True)))
        wanted = [float(over_steep_tree(own, whole)) for own in classes]
        holds, reached = judge_each("t-closeness", put(classes, attribute=steep), t=0.25, distance="hierarchical")
        assert reached == pytest.approx(wanted), classes
        assert holds == [over_steep_tree(own, whole) <= Fraction(1, 4) for own in classes]
    parents, heights, leaves = statements.flatten_taxonomy(TREE)
    assert (parents, heights) == ([-1, 0, 1, 1, 3, 3, 0], [3, 2, 0, 1, 0, 0, 0])
    assert leaves == {"a": 2, "b": 4, "c": 5, "d": 6}
    assert statements.flatten_taxonomy({"*": {"a": {}, "G": {"b": {}}}})[1] == [2, 0, 1, 0]
    flat = put(
        ((1, 1, 0, 0), (0, 0, 1, 1)), attribute=CHAIN.model_copy(update={"taxonomy": {"*": dict(TREE["*"]["G"])}})
    )
    assert "not in its taxonomy" in explain("t-closeness", flat, t=1, distance="hierarchical")
    flat = flat._replace(attribute=CHAIN.model_copy(update={"taxonomy": {"*": {value: {} for value in VALUES}}}))
    assert judge_each("t-closeness", flat, t=1, distance="hierarchical")[1] == [0.5, 0.5]


def test_harmful_items_are_counted_in_all_sets_that_have_them() -> None:
    names = ("none", "flu", "flu; gout", None)
    sets = put(((2, 1, 1, 0), (0, 1, 0, 3)), names)
    judged = judge_each("confidence-bounding", sets, most=0.5, harmless=["none"], separator=";")
    assert judged == ([True, False], [0.5, 0.75])
    assert judge_each("confidence-bounding", sets, most=0.4, harmless=["none"], separator=";")[0] == [False, False]
    assert judge_all("confidence-bounding", sets, most=0.5, separator=";") == Judgement(2, 1, 0.75)
    assert judge_each("confidence-bounding", sets, most=0.5, harmless=["none"])[1] == [0.25, 0.75]
    twice = put(((2, 2),), ("flu;flu; ;flu", "gout"))
    assert judge_each("confidence-bounding", twice, most=0.5, separator=";") == ([True], [0.5])
    # Joint values have no names, which are needed only for harmless values and items.
    joint = sets._replace(attribute=None)
    assert judge_each("confidence-bounding", joint, most=0.5) == ([True, False], [0.5, 0.75])
    alone = put(((3,),), ("none",))
    assert judge_each("confidence-bounding", alone, most=0.1, harmless=["none"]) == ([True], [0.0])
    assert judge_each("confidence-bounding", alone, most=0.1, harmless=["none"], separator=";") == ([True], [0.0])
    for more in ({"harmless": ["none"]}, {"separator": ";"}):
        assert "joint values have no names" in explain("confidence-bounding", joint, most=0.5, **more)
    for model, main, rest, *_ in CASES:
        if "harmless" in rest:
            assert "joint values have no names" in explain(model, joint, **{main: 1}, **rest), model
    for separator in ("ab", "a", "\n"):
        assert "separator" in explain("confidence-bounding", sets, most=0.5, separator=separator)


def test_populations() -> None:
    def covered(*rows: tuple[int, int]) -> Counts:
        name = f"counts{next(NUMBERS)}"
        listed = ", ".join(f"({number}, {n}, {own})" for number, (n, own) in enumerate(rows))
        ENGINE.make(name, f"FROM (VALUES {listed}) AS t(class, n, covered)")
        return Counts(name)

    classes = covered((2, 4), (3, 3), (4, 0))
    assert judge_each("k-map", classes, k=3, population="p") == ([True, True, False], [4.0, 3.0, 0.0])
    assert judge_all("k-map", classes, k=3, population="p") == Judgement(3, 1, 0.0)
    assert judge_all("delta-presence", classes, min=0.6, max=1, population="p") == Judgement(3, 2, math.inf)
    for low, high, wanted in (
        (0, 1, [True, True, False]),
        (0.5, 1, [True, True, False]),
        (0.51, 1, [False, True, False]),
        (0, 0.5, [True, False, False]),
        (0, 0.49, [False, False, False]),
    ):
        holds, reached = judge_each("delta-presence", classes, min=low, max=high, population="p")
        assert (holds, reached) == (wanted, [0.5, 1.0, math.inf]), (low, high)
    assert judge_all("delta-presence", covered((2, 4), (3, 3)), max=0.9, population="p") == Judgement(2, 1, 1.0)
    one = judge_each("delta-presence", covered((1, 1), (0, 2)), max=1, population="p")
    assert one == ([True, True], [1.0, 0.0])


def test_tables_in_statements_are_limited() -> None:
    most, statements._MOST_ROWS = statements._MOST_ROWS, 2
    try:
        with pytest.raises(CannotCheckError, match="too long"):
            statements.write_table([("1",)] * 3, "x")
        assert statements.write_table([("1", "2"), ("3", "4")], "x, y") == "(VALUES\n  (1, 2),\n  (3, 4)) AS t(x, y)"
    finally:
        statements._MOST_ROWS = most


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


def test_models_without_a_statement_are_never_confirmed() -> None:
    for model, parameters, agreed in (
        ("column-frequency", {"k": 1}, False),
        ("l-delta-diversity", {"l": 1, "delta": 0.1}, True),
    ):
        promise = read_promise(model, parameters, None, ["s"], agreed=agreed)
        assert promise.obstacle is None
        assert judge(ENGINE, promise, [PUT[0]]).obstacle == "cannot check: this verifier does not know the model"
    refused = read_promise("k-anonymity", {"k": 0}, None, [])
    assert judge(ENGINE, refused, [PUT[0]]).obstacle == refused.obstacle is not None
    assert not MODELS["alpha-k-anonymity"].mixes
    assert all(model.mixes for name, model in MODELS.items() if name != "alpha-k-anonymity")
    assert [name for name, model in MODELS.items() if model.labels] == ["tau-l-diversity"]


def _demand_even(promise: Promise, counts: Counts) -> Answer:
    return Answer("min(n)", f"n % {promise.whole('of')} = 0", counts.table)


class _Entry:
    """An entry point of another package."""

    def __init__(self, found: object) -> None:
        self.found = found

    def load(self) -> object:
        return self.found


def test_other_packages_register_statements_of_their_models() -> None:
    model = Model({"of": (Annotated[int, Field(ge=1)], ...)}, _demand_even, "sizes", min)
    registered = {
        "even-classes": [_Entry(model)],
        "no-statement": [_Entry("not a model")],
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
        counts = put(((1, 1, 0, 0), (3, 0, 0, 0)))
        assert judge_each("even-classes", counts, of=2) == ([True, False], [2.0, 3.0])
        assert promise.kind.worst(1.0, 2.0) == 1.0
        assert read_promise("even-classes", {"of": 0}, 2.0, ["s"]).obstacle
        assert read_promise("later", {"of": 2}, 2.0, ["s"]).obstacle is None
        for unknown in ("no-statement", "unheard-of"):
            assert "does not know" in str(read_promise(unknown, {}, None, ["s"]).obstacle)
        assert set(asked) == {"shoal.promises"}
        assert "does not know" in str(judge(ENGINE, Promise("unheard-of", {}, None), [counts]).obstacle)
    finally:
        promises.entry_points = original
        promises.find_model.cache_clear()
        promises._shape_of.cache_clear()


PRESENCE = Promise("delta-presence", {"min": 0.1, "max": 0.5, "population": "p"}, 0.5)
RESULTS: list[tuple[Promise, Judgement, int, tuple[bool, float | None, str]]] = [
    (Promise("k-anonymity", {"k": 2}, 3.0), Judgement(4, 0, 3.0), 0, (True, 3.0, "all 4 classes satisfy it")),
    (Promise("k-anonymity", {"k": 2}, 3.0), Judgement(4, 1, 3.0), 0, (False, 3.0, "1 of 4 classes fail it")),
    (Promise("k-anonymity", {"k": 2}, 4.0), Judgement(4, 0, 3.0), 0, (False, 3.0, "not the figure of the rows")),
    (Promise("k-anonymity", {"k": 2}, None), Judgement(4, 0, 3.0), 0, (False, 3.0, "not the figure of the rows")),
    (Promise("k-anonymity", {"k": 2}, 3.0), Judgement(4, 0, 3.0, "cannot check"), 0, (False, None, "cannot check")),
    (Promise("k-anonymity", {"k": 2}, 3.0, counts="unit"), Judgement(4, 0, 3.0), 0, (True, 3.0, "counted by unit")),
    (Promise("average-risk", {"risk": 0.5}, 0.2), Judgement(1, 0, 0.2), 0, (True, 0.2, "all classes together satisfy")),
    (Promise("average-risk", {"risk": 0.5}, 0.2), Judgement(1, 1, 0.2), 0, (False, 0.2, "all classes together fail")),
    (PRESENCE, Judgement(3, 0, 0.5), 0, (True, 0.5, "all 3 classes satisfy it")),
    (PRESENCE, Judgement(3, 0, 0.5), 1, (False, 0.5, "3 of 3 classes fail it")),
    (Promise("delta-presence", {"min": 0, "max": 0.5}, 0.5), Judgement(3, 0, 0.5), 1, (True, 0.5, "all 3 classes")),
    (Promise("k-map", {"k": 2, "population": "p"}, 3.0), Judgement(3, 0, 3.0), 1, (True, 3.0, "all 3 classes")),
]


@pytest.mark.parametrize(("promise", "judgement", "uncovered", "expected"), RESULTS)
def test_a_judgement_becomes_a_result(
    promise: Promise, judgement: Judgement, uncovered: int, expected: tuple[bool, float | None, str]
) -> None:
    found = promises.conclude(promise, judgement, uncovered=uncovered)
    assert (found.ok, found.achieved, found.done, found.model) == (*expected[:2], True, promise.model)
    assert expected[2] in found.detail
    assert ("unit" in found.detail) is (promise.counts is not None)


def test_what_was_not_judged_is_neither_done_nor_failed() -> None:
    found = promises.leave_unchecked(PRESENCE, "its table is missing")
    assert (found.ok, found.done, found.achieved) == (True, False, None)
    assert promises.conclude(PRESENCE, Judgement(0, 0, math.nan)).achieved is None
    unknown = judge(ENGINE, Promise("magic", {}, 1.0), [])
    assert (unknown.classes, unknown.failing) == (0, 0)
    assert "does not know" in str(unknown.obstacle)


@pytest.mark.parametrize(("claimed", "same"), [(0.3, True), (0.3 + 1e-11, True), (0.3 + 1e-6, False), (None, False)])
def test_figures_agree_but_for_rounding(claimed: float | None, same: bool) -> None:
    assert promises.agrees(claimed, 0.3) is same


@pytest.mark.parametrize(
    ("model", "parameters"), [("average-risk", {"risk": 1.5}), ("sample-uniqueness", {"fraction": 1})]
)
def test_shares_beyond_all_records_are_refused(model: str, parameters: dict[str, Any]) -> None:
    assert read_promise(model, parameters, 1.0, []).obstacle


def test_covered_classes_of_a_population_are_measured() -> None:
    ENGINE.run(
        "CREATE OR REPLACE TEMP TABLE people AS SELECT * FROM (VALUES (1, 2, 4), (2, 1, 0)) AS t(class, n, covered)"
    )
    found = judge(ENGINE, Promise("delta-presence", {"min": 0, "max": 0.5}, None), [Counts("people")])
    assert (found.failing, found.achieved) == (1, math.inf)
    ENGINE.run("DELETE FROM people WHERE covered = 0")
    found = judge(ENGINE, Promise("delta-presence", {"min": 0, "max": 0.5}, None), [Counts("people")])
    assert (found.failing, found.achieved) == (0, 0.5)

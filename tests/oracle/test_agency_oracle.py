"""Planning against brute force and exact arithmetic on small distributions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from shoal.agency.classes import gather_classes, greedy_classes
from shoal.agency.distribution import read_distribution
from shoal.agency.planning import (
    class_entropies,
    close_by_entropy,
    entropy_classes,
    entropy_samples,
    entropy_tail,
    fewer_bound,
)
from shoal.agency.samples import (
    class_bound,
    classes_of_weight,
    enough_samples,
    fewer_than,
    k_classes,
    most_classes,
    p_for_samples,
    paper_samples,
    sum_classes,
)
from shoal.core.errors import UnreachableError


def some_counts(rng: np.random.Generator, n_points: int, n_values: int) -> np.ndarray:
    counts = rng.integers(0, 5, size=(n_points, n_values)) * (rng.random((n_points, n_values)) < 0.6)
    counts[0] += 1  # every value occurs
    return counts


def distribution_of(counts: np.ndarray):
    point, value = np.indices(counts.shape)
    table = {"q": point.ravel(), "s": [f"v{code:02}" for code in value.ravel()], "count": counts.ravel()}
    return read_distribution(pa.table(table), "s")


def admissible(block: np.ndarray, l: int, threshold: int) -> bool:
    return int((block.sum(axis=0) >= threshold).sum()) >= l


def most_runs(counts: np.ndarray, l: int, threshold: int) -> int:
    """Try every way to cut the points into runs."""
    n = len(counts)
    best = 0
    for cuts in itertools.product((False, True), repeat=n - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), n]
        if all(admissible(counts[a:b], l, threshold) for a, b in itertools.pairwise(edges)):
            best = max(best, len(edges) - 1)
    return best


def blocks(counts: np.ndarray, number: np.ndarray) -> list[np.ndarray]:
    return [counts[number == each] for each in range(int(number.max()) + 1)]


@pytest.mark.parametrize("seed", range(40))
def test_greedy_makes_the_most_classes_of_all_cuts_into_runs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = some_counts(rng, int(rng.integers(1, 10)), int(rng.integers(2, 5)))
    known = distribution_of(counts)
    l = int(rng.integers(1, counts.shape[1] + 1))
    highest = int(np.sort(counts.sum(axis=0))[::-1][l - 1])
    threshold = int(rng.integers(1, highest + 1))
    classes = greedy_classes(known, l, Fraction(threshold, int(counts.sum())))
    assert classes.n_classes == most_runs(counts, l, threshold)
    assert (np.diff(classes.number) >= 0).all()
    assert all(admissible(block, l, threshold) for block in blocks(counts, classes.number))
    expected = [np.sort(block.sum(axis=0))[::-1][:l] for block in blocks(counts, classes.number)]
    assert classes.weights.tolist() == [row.tolist() for row in expected]


@pytest.mark.parametrize("seed", range(20))
def test_gathered_classes_are_admissible_and_never_fewer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = some_counts(rng, 60, 6) * (rng.random((60, 6)) < 0.3)
    counts[0] += 1
    known = distribution_of(counts)
    p = Fraction(int(rng.integers(1, 8)), int(counts.sum()))
    gathered = gather_classes(known, 3, p)
    assert gathered.n_classes >= greedy_classes(known, 3, p).n_classes
    assert all(admissible(block, 3, known.threshold(p)) for block in blocks(counts, gathered.number))


def test_the_tighter_number_is_the_smallest_by_exact_arithmetic() -> None:
    counts = some_counts(np.random.default_rng(3), 8, 3)
    known = distribution_of(counts)
    p = Fraction(3, int(counts.sum()))
    classes = greedy_classes(known, 2, p)
    for delta in (Fraction("0.3"), Fraction("0.01")):
        for eta in (Fraction(0), Fraction(1, 2 * int(counts.sum()))):
            n = enough_samples(known, classes.weights, 1, delta, eta)

            def failing(n: int, eta: Fraction = eta) -> Fraction:
                chances = [Fraction(int(w), known.total) - eta for w in classes.weights.ravel()]
                return sum(((1 - chance) ** n for chance in chances), Fraction(0))

            assert failing(n) <= delta < failing(n - 1)
            assert n <= paper_samples(class_bound(known.n_points, known.tail(2), 2, p), 2, p, delta, eta)


def test_the_papers_number_is_the_smallest_by_exact_arithmetic() -> None:
    for m, l, p, delta in ((4, 2, Fraction(1, 2), Fraction(1, 64)), (7, 3, Fraction(3, 100), Fraction(1, 20))):
        n = paper_samples(Fraction(m), l, p, delta)
        assert m * l * (1 - p) ** n <= delta < m * l * (1 - p) ** (n - 1)
    assert paper_samples(Fraction(4), 2, Fraction(1, 2), Fraction(1, 64)) == 9  # equality: 8 / 2^9
    hair = Fraction(1, 10**50)  # that no float and no 40 digits can see
    assert paper_samples(Fraction(4), 2, Fraction(1, 2), Fraction(1, 64) - hair) == 10
    assert paper_samples(Fraction(4), 2, Fraction(1, 2), Fraction(1, 64) + hair) == 9


def test_p_for_samples_is_the_smallest_useful_one() -> None:
    counts = some_counts(np.random.default_rng(5), 9, 4)
    known = distribution_of(counts)
    delta, l = Fraction("0.05"), 2
    needed = {}
    for weight in range(1, int(known.marginal()[l - 1]) + 1):
        p = Fraction(weight, known.total)
        needed[p] = paper_samples(class_bound(known.n_points, known.tail(l), l, p), l, p, delta)
    for n in range(min(needed.values()), max(needed.values()) + 2):
        assert p_for_samples(known, l, delta, n) == min(p for p, least in needed.items() if least <= n)


def test_k_needs_as_many_records_as_exact_binomials_say() -> None:
    counts = some_counts(np.random.default_rng(7), 12, 3)
    known = distribution_of(counts)
    number = classes_of_weight(known, Fraction(1, 5))
    weights = sum_classes(known.point_weights(), number)
    assert len(weights) > 1
    assert (weights * 5 >= known.total).all()

    def below(k: int, n: int, chance: Fraction) -> Fraction:
        return sum((math.comb(n, i) * chance**i * (1 - chance) ** (n - i) for i in range(k)), Fraction(0))

    for k, delta in ((1, Fraction("0.1")), (4, Fraction("0.01"))):
        n = enough_samples(known, sum_classes(known.point_weights(), number), k, delta)
        exact = [sum(below(k, each, Fraction(int(w), known.total)) for w in weights) for each in (n, n - 1)]
        assert exact[0] <= delta < exact[1]
    tails = fewer_than(40, 300, np.array([0.2, 0.4]))
    assert tails[0] == pytest.approx(float(below(40, 300, Fraction(1, 5))), rel=1e-6)
    assert tails[1] == pytest.approx(float(below(40, 300, Fraction(2, 5))), rel=1e-6)


def test_entropies_and_their_tail_hold_on_all_samples_of_a_small_class() -> None:
    known = distribution_of(np.array([[3, 2, 1]]))
    number = np.zeros(1, dtype=np.int32)
    (entropy,), (values,) = class_entropies(known, number)
    shares = np.array([3, 2, 1]) / 6
    assert entropy == pytest.approx(-(shares * np.log(shares)).sum())
    assert values == 3
    for n in (6, 14, 30):
        for l in (1.05, 1.5, 2.2):
            failing = 0.0
            for a in range(n + 1):
                for b in range(n - a + 1):
                    seen = np.array([a, b, n - a - b])
                    found = seen[seen > 0] / n
                    ways = math.factorial(n) / math.prod(math.factorial(int(x)) for x in seen)
                    if -(found * np.log(found)).sum() < math.log(l):
                        failing += ways * float(np.prod(shares**seen))
            spare = np.array([entropy - math.log(l)])
            assert failing <= entropy_tail(np.array([float(n)]), spare, np.array([3.0]))[0]
    hopeless = entropy_tail(np.array([10.0]), np.array([math.log(50 / 20)]), np.array([50.0]))
    assert hopeless[0] >= 1  # 10 records of 50 equally likely values never have the entropy ln 20
    assert entropy_samples(known, number, 2.0, Fraction("0.05")) > 100


@pytest.mark.parametrize("seed", range(8))
def test_k_classes_are_the_most_of_all_thresholds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = distribution_of(some_counts(rng, 30, 3))
    delta, k, eta = Fraction("0.05"), int(rng.integers(1, 5)), Fraction(int(rng.integers(0, 2)), known.total)
    needed = []
    for weight in range(1 + int(eta * known.total), known.total + 1):
        number = classes_of_weight(known, Fraction(weight, known.total))
        weights = sum_classes(known.point_weights(), number)
        needed.append((int(number.max()) + 1, enough_samples(known, weights, k, delta, eta)))
    classes = [many for many, _ in needed]
    assert classes == sorted(classes, reverse=True)
    for n in (20, 60, 150, 400, 1200):
        best = max((many for many, least in needed if least <= n), default=None)
        if best is None:
            with pytest.raises(UnreachableError, match="too few"):
                k_classes(known, k, delta, n, eta)
        else:
            assert int(k_classes(known, k, delta, n, eta).max()) + 1 == best


def test_what_is_enough_need_not_stay_so() -> None:
    """Thresholds 4 and 7 are enough here, 5 is not: halving alone misses the lowest."""
    weights = np.array([4, 2, 6])
    classes = {4: [0, 1, 1], 6: [0, 0, 1], 12: [0, 0, 0]}  # by the weight of the lightest class

    def make(threshold: int) -> np.ndarray:
        return np.array(next(number for weight, number in classes.items() if threshold <= weight), dtype=np.int32)

    found = most_classes(make, lambda number: number.tolist() != classes[6], weights, 4, 12, 1)
    assert found is not None
    assert found.tolist() == classes[4]
    assert most_classes(make, lambda _: False, weights, 4, 12, 1) is None


def entropy_of(block: np.ndarray) -> float:
    sums = block.sum(axis=0)
    shares = sums[sums > 0] / sums.sum()
    return float(-(shares * np.log(shares)).sum())


@pytest.mark.parametrize("seed", range(10))
def test_varied_classes_are_runs_that_close_as_soon_as_they_may(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = some_counts(rng, 25, 4)
    known = distribution_of(counts)
    l, p, share = 1.5, Fraction(int(rng.integers(1, 12)), 100), Fraction(1, 2)
    least = math.log(l) + 0.5 * (entropy_of(counts) - math.log(l)) * (1 - 1e-9)
    number = close_by_entropy(known, l, p, share)
    assert (np.diff(number) >= 0).all()
    made = blocks(counts, number)
    threshold = p * known.total
    assert all(block.sum() >= threshold and entropy_of(block) >= least - 1e-9 for block in made)
    for block in made[:-1]:
        early = [block[:end] for end in range(1, len(block)) if block[:end].sum()]
        assert not any(part.sum() >= threshold and entropy_of(part) > least + 1e-9 for part in early)


def test_classes_of_entropy_are_within_the_samples_and_quick_bounds_above_the_tails() -> None:
    known = distribution_of(some_counts(np.random.default_rng(3), 60, 5) + 1)
    delta = Fraction("0.05")
    many = []
    for n in (400, 2_000, 20_000):
        number = entropy_classes(known, 2.0, delta, n)
        assert entropy_samples(known, number, 2.0, delta) <= n
        many.append(int(number.max()) + 1)
    assert many == sorted(many)
    assert many[-1] > many[0]
    with pytest.raises(UnreachableError, match="20 samples are too few"):
        entropy_classes(known, 2.0, delta, 20)
    chances = np.array([0.02, 0.2, 0.5, 1.0])
    for k in (1, 3, 20, 100):
        exact = fewer_than(k, 200, chances)
        quick = fewer_bound(np.full(4, k), 200, chances)
        assert (quick >= np.where(exact < 1, exact * (1 - 1e-6), 0)).all()
        assert (quick[:3] < 1).any()
        assert quick[3] == 0

"""Bounds and recomputations of the verifier beside slow, exact ones."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from shoal.columns.base import NumberDomain, treat
from shoal.columns.coding import Coding as CodingTechnique
from shoal.columns.rounding import Rounding as RoundingTechnique
from shoal.core.randomness import Chance
from shoal.sources.opening import open_source
from shoal.verify.form import is_likely_sample
from shoal.verify.manifest import epsilon_bound
from shoal.verify.techniques.base import ColumnValues
from shoal.verify.techniques.declared import Tokens
from shoal.verify.techniques.numbers import Coding, Noise, Rounding, extreme_sums

FALSE_ALARM = 1e-12


def values_of(items: list[object]) -> ColumnValues:
    counted = Counter(items)
    return ColumnValues(pa.array(list(counted)), np.array(list(counted.values()), dtype=np.int64), 0)


def noise_of(gaussian: bool, width: float, **ends: object) -> Noise:
    shape = {"gaussian": {"sd": width}} if gaussian else {"laplace": {"scale": width}}
    return Noise(column="x", technique="noise", decimals=0, differential_privacy=False, **shape, **ends)


def nearest(text: str, base: Fraction, low: Fraction | None, high: Fraction | None) -> Fraction:
    """Round half up in exact arithmetic, within the multiples of a domain."""
    multiple = math.floor(Fraction(text) / base + Fraction(1, 2))
    if low is not None:
        multiple = max(multiple, math.ceil(low / base))
    if high is not None:
        multiple = min(multiple, math.floor(high / base))
    return multiple * base


@pytest.mark.parametrize("base", [1, 5, 7, 0.5, 0.25, 250])
@pytest.mark.parametrize(("low", "high"), [(None, None), (-3, 903), (-2.5, None)])
def test_rounding_is_recomputed_exactly(base: float, low: float | None, high: float | None) -> None:
    """Quarters are exact in binary, so halves are halves."""
    texts = [str(Fraction(n, 4) if n % 4 else n // 4) for n in range(-400, 4000, 3)]
    numbers = [float(Fraction(text)) for text in texts]
    domain = NumberDomain(low, high)
    table = open_source(pa.table({"x": numbers}))
    source = treat({"x": RoundingTechnique(base=base)}, table, Chance.of(1), {"x": domain})
    entry = source.describe()["x"]
    declared = Rounding(column="x", **entry)
    found = declared.recompute(pa.array(numbers))
    assert found.equals(pa.Table.from_batches(source.batches())["x"].combine_chunks())
    ends = [None if end is None else Fraction(str(end)) for end in (low, high)]
    exact = [float(nearest(text, Fraction(str(base)), *ends)) for text in texts]
    assert found.cast(pa.float64()).to_pylist() == exact


def test_coding_by_shares_is_found_again() -> None:
    rng = np.random.default_rng(2)
    for share in (0.01, 0.2, 0.5):
        numbers = rng.integers(0, 50, 300).tolist()
        source = treat(
            {"x": CodingTechnique(shares={"top": share})}, open_source(pa.table({"x": numbers})), Chance.of(1)
        )
        declared = Coding(column="x", **source.describe()["x"])
        assert declared.compare(values_of(numbers), values_of(numbers)) is None
        # The largest number that at least the share of all records reaches.
        least = math.ceil(Fraction(str(share)) * 300)
        assert declared.top == max(n for n in set(numbers) if sum(m >= n for m in numbers) >= least)
        for other in (declared.top - 1, declared.top + 1):
            moved = declared.model_copy(update={"top": other})
            assert moved.compare(values_of(numbers), values_of(numbers)) is not None


def test_random_rounding_refuses_just_what_no_arrangement_permits() -> None:
    """Published multiples, up to three, beside all ways to get them; sums never speak against so few."""
    declared = Rounding(column="x", technique="rounding", base=10, random=True)
    for numbers in ([3, 12], [10, 10], [1, 19, 20], [5, 25, 31]):
        for size in range(1, len(numbers) + 1):
            possible = {
                tuple(sorted(picked))
                for some in itertools.combinations(numbers, size)
                for picked in itertools.product(*({n // 10 * 10, -(-n // 10) * 10} for n in some))
            }
            for guess in itertools.combinations_with_replacement(range(-10, 50, 10), size):
                fault = declared.compare(values_of(list(guess)), values_of(numbers))
                if guess in possible:
                    assert fault is None
                elif size == len(numbers):
                    assert fault is not None


def test_random_rounding_that_always_goes_up_is_refused() -> None:
    """Each multiple is next to its number; that all went up has a chance of 2**-400."""
    declared = Rounding(column="x", technique="rounding", base=10, random=True)
    assert declared.compare(values_of([0] * 200 + [10] * 200), values_of([5] * 400)) is None
    assert declared.compare(values_of([10] * 400), values_of([5] * 400)) is not None
    assert declared.compare(values_of([0] * 400), values_of([5] * 400)) is not None
    ended = declared.model_copy(update={"max": 0.0})  # 10 is outside the domain, so all go down
    assert ended.compare(values_of([0] * 400), values_of([5] * 400)) is None


def tail(chances: dict[int, float], n: int, reach: float) -> float:
    """Return the chance that the sum of n draws is farther from 0 than the reach, by convolution."""
    width = max(chances)
    one = np.array([chances[x] for x in range(-width, width + 1)])
    total = np.ones(1)
    for _ in range(n):
        total = np.convolve(total, one)
    sums = np.arange(len(total)) - width * n
    return float(total[np.abs(sums) > reach].sum())


@pytest.mark.parametrize("width", [1.0, 2.5, 6.0])
@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_passes_its_reach_hardly_ever(width: float, n: int, gaussian: bool) -> None:
    declared = noise_of(gaussian, width)
    reach = declared.reach(n)
    most = math.ceil(width * 45)
    if gaussian:
        chances = {
            x: (math.erfc((abs(x) - 0.5) / width / 2**0.5) - math.erfc((abs(x) + 0.5) / width / 2**0.5)) / 2
            for x in range(-most, most + 1)
        }
        chances[0] = math.erf(0.5 / width / 2**0.5)
    else:
        p = math.exp(-1 / width)
        chances = {x: (1 - p) / (1 + p) * p ** abs(x) for x in range(-most, most + 1)}
    assert tail(chances, n, reach) < FALSE_ALARM
    # It is no idle bound either: a little nearer, and chance would pass it more often than once in 10**15.
    assert tail(chances, n, 0.8 * reach) > 1e-15


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("n", [1, 50])
def test_a_number_is_as_far_as_noise_leads_once_in_a_trillion_times(n: int, gaussian: bool) -> None:
    width = 6.0
    noise = noise_of(
        gaussian, width, min=-(10**6), max=10**6, edges="clamp"
    )  # with a domain, so that sums are not compared
    everyone = values_of([0] * n)

    def accepted(distance: int) -> bool:
        both = (values_of([sign * distance] + [0] * (n - 1)) for sign in (-1, 1))
        found = {noise.compare(published, everyone) is None for published in both}
        return found.pop() if len(found) == 1 else pytest.fail("both sides are alike")

    def chance(distance: int) -> float:
        """Return that one of n draws, each drawn again until it stays inside with a chance of 1/20, is as far."""
        p = math.exp(-1 / width)
        beyond = math.erfc((distance - 0.5) / width / math.sqrt(2)) if gaussian else 2 * p**distance / (1 + p)
        return 20 * n * beyond

    farthest = max(distance for distance in range(1, 500) if accepted(distance))
    assert all(accepted(distance) for distance in range(1, farthest))
    assert 1e-16 < chance(farthest + 1) < 1e-12


def test_samples_are_told_by_the_exact_binomial_tail() -> None:
    for rows, share in ((40, Fraction(1, 2)), (100, Fraction(1, 10)), (60, Fraction(9, 10))):
        chances = [math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)]
        for drawn in range(rows + 1):
            side = min(sum(chances[: drawn + 1]), sum(chances[drawn:]))
            if not is_likely_sample(drawn, rows, float(share)):
                assert side < FALSE_ALARM
            if side < FALSE_ALARM / 1000:
                assert not is_likely_sample(drawn, rows, float(share))


def test_numbers_of_tokens_fit_just_if_tokens_can_be_dealt_out() -> None:
    """Compared with every way to let each token stand for a value of its own."""

    class Bare(Tokens):
        """Tokens of no form."""

    declared = Bare(column="x", technique="bare")
    for own in itertools.product(range(1, 4), repeat=3):
        for other in itertools.product(range(1, 4), repeat=3):
            for m in (1, 2, 3):
                mine = ColumnValues(pa.array([f"t{i}" for i in range(m)]), np.array(own[:m]), 0)
                theirs = ColumnValues(pa.array(["a", "b", "c"]), np.array(other), 0)
                possible = any(
                    all(count <= other[place] for count, place in zip(own[:m], places, strict=True))
                    for places in itertools.permutations(range(3), m)
                )
                assert (declared.compare(mine, theirs) is None) == possible


def test_extreme_sums_are_those_of_sorted_numbers() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        steps = np.unique(rng.integers(-50, 50, 6)).astype(np.float64)
        counts = rng.integers(1, 4, len(steps))
        rows = sorted(np.repeat(steps, counts).tolist())
        n = int(rng.integers(0, len(rows) + 1))
        assert extreme_sums(steps, counts, n) == (sum(rows[:n]), sum(rows[len(rows) - n :]))


def test_epsilon_of_concentrated_losses_is_that_of_opendp() -> None:
    pytest.importorskip("opendp")
    from shoal.methods.synthetic.synthesis import epsilon_of

    for rho in (0.001, 0.1, 1.0, 5.0):
        for delta in (1e-9, 1e-6, 1e-3):
            assert epsilon_bound(rho, delta) == pytest.approx(epsilon_of(rho, delta), rel=1e-6)
            assert epsilon_bound(rho, delta) < rho + 2 * math.sqrt(rho * math.log(1 / delta))

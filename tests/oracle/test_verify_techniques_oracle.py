"""Bounds and recomputations of the verifier beside slow, exact ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from shoal.columns.base import NumberDomain, treat
from shoal.columns.coding import Coding as CodingTechnique
from shoal.columns.rounding import Rounding as RoundingTechnique
from shoal.core.randomness import Chance
from shoal.sources.opening import open_source
from shoal.verify.account import epsilon_bound
from shoal.verify.engine import Engine
from shoal.verify.source_checks import is_likely_sample
from shoal.verify.techniques.base import Column
from shoal.verify.techniques.declared import Tokens
from shoal.verify.techniques.numbers import Coding, Rounding

FALSE_ALARM = 1e-12


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine() as made:
        yield made


def count(engine: Engine, name: str, items: Sequence[object]) -> Column:
    engine.put(f"{name}_rows", {"v": pa.array(list(items))})
    return Column.count(engine, name, f"{name}_rows")


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


def test_coding_by_shares_is_found_again(engine: Engine) -> None:
    rng = np.random.default_rng(2)
    for share in (0.01, 0.2, 0.5):
        numbers = rng.integers(0, 50, 300).tolist()
        source = treat(
            {"x": CodingTechnique(shares={"top": share})}, open_source(pa.table({"x": numbers})), Chance.of(1)
        )
        declared = Coding(column="x", **source.describe()["x"])
        mine, theirs = count(engine, "mine", numbers), count(engine, "theirs", numbers)
        assert declared.compare(mine, theirs) is None
        # The largest number that at least the share of all records reaches.
        least = math.ceil(Fraction(str(share)) * 300)
        assert declared.top == max(n for n in set(numbers) if sum(m >= n for m in numbers) >= least)
        for other in (declared.top - 1, declared.top + 1):
            moved = declared.model_copy(update={"top": other})
            assert moved.compare(mine, theirs) is not None


def test_random_rounding_refuses_just_what_no_arrangement_permits(engine: Engine) -> None:
    """Published multiples, up to three, beside all ways to get them."""
    declared = Rounding(column="x", technique="rounding", base=10, random=True)
    for numbers in ([3, 12], [10, 10], [1, 19, 20], [5, 25, 31]):
        theirs = count(engine, "theirs", numbers)
        for size in range(1, len(numbers) + 1):
            possible = {
                tuple(sorted(picked))
                for some in itertools.combinations(numbers, size)
                for picked in itertools.product(*({n // 10 * 10, -(-n // 10) * 10} for n in some))
            }
            for guess in itertools.combinations_with_replacement(range(-10, 50, 10), size):
                fault = declared.compare(count(engine, "mine", guess), theirs)
                if guess in possible:
                    assert fault is None
                elif size == len(numbers):
                    assert fault is not None


def test_samples_are_told_by_the_exact_binomial_tail() -> None:
    for rows, share in ((40, Fraction(1, 2)), (100, Fraction(1, 10)), (60, Fraction(9, 10))):
        chances = [math.comb(rows, k) * share**k * (1 - share) ** (rows - k) for k in range(rows + 1)]
        for drawn in range(rows + 1):
            side = min(sum(chances[: drawn + 1]), sum(chances[drawn:]))
            if not is_likely_sample(drawn, rows, float(share)):
                assert side < FALSE_ALARM
            if side < FALSE_ALARM / 1000:
                assert not is_likely_sample(drawn, rows, float(share))


def test_numbers_of_tokens_fit_just_if_tokens_can_be_dealt_out(engine: Engine) -> None:
    """Compared with every way to let each token stand for a value of its own."""

    class Bare(Tokens):
        """Tokens of no form."""

    declared = Bare(column="x", technique="bare")
    for other in itertools.combinations_with_replacement(range(1, 4), 3):
        theirs = count(engine, "theirs", np.repeat(["a", "b", "c"], other).tolist())
        for m in (1, 2, 3):
            for own in itertools.combinations_with_replacement(range(1, 4), m):
                mine = count(engine, "mine", np.repeat(["t0", "t1", "t2"][:m], own).tolist())
                possible = any(
                    all(times <= other[place] for times, place in zip(own, places, strict=True))
                    for places in itertools.permutations(range(3), m)
                )
                assert (declared.compare(mine, theirs) is None) == possible


def test_epsilon_of_concentrated_losses_is_that_of_opendp() -> None:
    pytest.importorskip("opendp")
    from shoal.methods.synthetic.synthesis import epsilon_of

    for rho in (0.001, 0.1, 1.0, 5.0):
        for delta in (1e-9, 1e-6, 1e-3):
            assert epsilon_bound(rho, delta) == pytest.approx(epsilon_of(rho, delta), rel=1e-6)
            assert epsilon_bound(rho, delta) < rho + 2 * math.sqrt(rho * math.log(1 / delta))

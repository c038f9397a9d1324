"""Whether published rows follow the order of the source: orders that do, and orders that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from shoal.core.arrays import IntArray, KeyArray
from shoal.verify.source_checks import check_bucket_order, check_order

N = 900
Order = Callable[[IntArray, np.random.Generator], IntArray]


def in_blocks(n_blocks: int, *, inside: bool, outside: bool) -> Order:
    def order(rows: IntArray, rng: np.random.Generator) -> IntArray:
        blocks = [rng.permutation(block) if inside else block for block in np.array_split(rows, n_blocks)]
        return np.concatenate([blocks[place] for place in (rng.permutation(n_blocks) if outside else range(n_blocks))])

    return order


ORDERS: dict[str, Order] = {
    "as in the source": lambda rows, _: rows,
    "reversed": lambda rows, _: rows[::-1],
    "two halves": in_blocks(2, inside=True, outside=False),
    "ten blocks, shuffled within": in_blocks(10, inside=True, outside=False),
    "ten blocks in random order": in_blocks(10, inside=False, outside=True),
    "ten blocks, shuffled within and in random order": in_blocks(10, inside=True, outside=True),
    "dealt to seven files": lambda rows, _: np.concatenate([rows[start::7] for start in range(7)]),
    "two halves interleaved": lambda rows, _: rows.reshape(2, -1).T.reshape(-1),
    "turned": lambda rows, _: np.roll(rows, len(rows) // 3),
}


def tokens(n: int, n_different: int | None = None) -> KeyArray:
    rng = np.random.default_rng(n)
    return rng.integers(0, n_different or 2**63, n).astype(np.uint64)


@pytest.mark.parametrize("name", ORDERS)
def test_orders_that_follow_the_source(name: str) -> None:
    source = tokens(N)
    check = check_order(source[ORDERS[name](np.arange(N), np.random.default_rng(1))], source)
    assert not check.ok


@pytest.mark.parametrize("n_different", [None, 300, 2])
@pytest.mark.parametrize("n", [200, 900, 20_000])
def test_shuffled_rows_are_accepted(n: int, n_different: int | None) -> None:
    """Each of 40 tables is refused with a probability of at most 1e-12."""
    source, rng = tokens(n, n_different), np.random.default_rng(2)
    for _ in range(40):
        assert check_order(source[rng.permutation(n)], source).ok


@pytest.mark.parametrize("backwards", [False, True])
def test_few_different_rows_show_the_order_of_the_source(backwards: bool) -> None:
    source = tokens(N, 2)
    assert not check_order(source[::-1] if backwards else source, source).ok


@pytest.mark.parametrize("source", [tokens(0), tokens(100), tokens(N, 1)], ids=["none", "few", "equal"])
def test_too_few_different_rows_show_nothing(source: KeyArray) -> None:
    check = check_order(source, source)
    assert check.ok
    assert not check.done
    assert not check.required


def sliced(
    number: IntArray, order: Callable[[IntArray], IntArray], size: int = 3
) -> tuple[tuple[IntArray, list[KeyArray]], tuple[IntArray, list[KeyArray]]]:
    """Return both tables of a sliced release, given the number of each bucket of the source, and orders within it."""
    true = np.repeat(number, size)
    contents = tokens(len(true))
    rows = np.concatenate([order(np.flatnonzero(true == bucket)) for bucket in range(len(number))])
    return (np.repeat(np.arange(len(number)), size), [contents[rows]]), (true, [contents])


def test_buckets_numbered_as_in_the_source() -> None:
    rng = np.random.default_rng(3)
    honest = sliced(rng.permutation(300), rng.permutation)
    assert check_bucket_order(*honest).ok
    assert not check_bucket_order(*sliced(np.arange(300), rng.permutation)).ok
    assert not check_bucket_order(*sliced(np.arange(300)[::-1], rng.permutation)).ok


def test_parts_listed_as_in_the_source() -> None:
    number = np.random.default_rng(4).permutation(300)
    assert not check_bucket_order(*sliced(number, lambda rows: rows)).ok
    assert not check_bucket_order(*sliced(number, lambda rows: rows[::-1])).ok

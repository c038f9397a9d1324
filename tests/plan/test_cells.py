"""Cells: packed keys, runs and their merging, against a plain Counter."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from shoal.plan.cells import KeyLayout, Run, RunStack


def packed(layout: KeyLayout, rows: np.ndarray) -> np.ndarray:
    keys = np.zeros((layout.n_words, len(rows)), dtype=np.uint64)
    for column in range(rows.shape[1]):
        codes = rows[:, column].astype(np.uint64)
        keys[layout.word[column]] |= codes << np.uint64(layout.shift[column])
    return keys


def unpacked(layout: KeyLayout, run: Run) -> dict[tuple[int, ...], int]:
    columns = [run.column(layout, column).tolist() for column in range(len(layout.bits))]
    return dict(zip(zip(*columns, strict=True), run.counts.tolist(), strict=True))


def counted(rows: np.ndarray) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, rows.tolist()))


def random_rows(seed: int, n: int, sizes: list[int]) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(size, size=n) for size in sizes], axis=1)


def test_a_column_that_does_not_fit_opens_a_new_word() -> None:
    layout = KeyLayout.of_bits([30, 30, 30, 4])
    assert layout.word == (0, 0, 1, 1)
    assert layout.shift == (0, 30, 0, 30)
    assert layout.n_words == 2


@pytest.mark.parametrize("sizes", [[5, 4, 3], [1 << 20, 1 << 30, 1 << 31, 7], [1]])
def test_runs_count_what_occurs(sizes: list[int]) -> None:
    rows = random_rows(3, 500, sizes) if sizes != [1] else np.zeros((9, 1), dtype=np.int64)
    rows = np.concatenate([rows, rows[:100]])
    layout = KeyLayout.roomy(sizes)
    assert unpacked(layout, Run.of_rows(packed(layout, rows))) == counted(rows)


@pytest.mark.parametrize("sizes", [[5, 4, 3], [1 << 25, 1 << 25, 1 << 25]])
def test_merging_adds_counts_and_keeps_keys_ascending(sizes: list[int]) -> None:
    first, second = random_rows(1, 300, sizes), random_rows(2, 200, sizes)
    second[:50] = first[:50]
    layout = KeyLayout.roomy(sizes)
    merged = Run.of_rows(packed(layout, first)).merge(Run.of_rows(packed(layout, second)))
    assert unpacked(layout, merged) == counted(np.concatenate([first, second]))
    order = np.lexsort(merged.keys)
    assert np.array_equal(order, np.arange(len(order)))


@pytest.mark.parametrize("wide", [False, True])
def test_a_new_layout_keeps_the_cells(wide: bool) -> None:
    rows = random_rows(5, 400, [4, 4, 4])
    old = KeyLayout.of_bits([2, 2, 2])
    new = KeyLayout.of_bits([30, 30, 30]) if wide else KeyLayout.of_bits([9, 3, 20])
    run = Run.of_rows(packed(old, rows)).lay_out(old, new)
    assert unpacked(new, run) == counted(rows)
    assert run.keys.shape[0] == (2 if wide else 1)
    assert np.array_equal(np.lexsort(run.keys), np.arange(len(run.counts)))


@pytest.mark.parametrize("sizes", [[50, 40], [1 << 25, 1 << 25, 1 << 25]])
def test_find_tells_the_place_of_every_key_and_of_none(sizes: list[int]) -> None:
    layout = KeyLayout.roomy(sizes)
    rows = random_rows(7, 600, sizes)
    run = Run.of_rows(packed(layout, rows[:300]))
    place = {key: i for i, key in enumerate(unpacked(layout, run))}
    found = run.find(packed(layout, rows))
    assert found.tolist() == [place.get(tuple(row), -1) for row in rows.tolist()]
    assert (found == -1).any()


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_a_stack_of_runs_is_the_run_of_all(batch: int) -> None:
    rows = random_rows(11, 1000, [6, 5, 4])
    layout = KeyLayout.of_bits([3, 3, 2])
    whole = Run.of_rows(packed(layout, rows))
    stack = RunStack()
    for start in range(0, len(rows), batch):
        stack.push(Run.of_rows(packed(layout, rows[start : start + batch])))
    total = stack.total()
    assert np.array_equal(total.keys, whole.keys)
    assert np.array_equal(total.counts, whole.counts)


@pytest.mark.parametrize(("width", "dtype"), [(8, np.uint8), (9, np.uint16), (17, np.uint32)])
def test_codes_come_in_the_narrowest_type(width: int, dtype: type) -> None:
    layout = KeyLayout.of_bits([width])
    run = Run.of_rows(packed(layout, np.array([[(1 << width) - 1]])))
    codes = run.column(layout, 0)
    assert codes.dtype == dtype
    assert codes.tolist() == [(1 << width) - 1]

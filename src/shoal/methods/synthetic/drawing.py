"""Rows drawn from marginals of a tree: a first attribute, then each one given the one it hangs on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.randomness import Chance
from shoal.methods.synthetic.consistent import TreeModel
from shoal.plan.synthetic import Pair


def drawn_rows(model: TreeModel, n_rows: int, chance: Chance) -> list[CodeArray]:
    """Return (n_rows,) codes of every attribute; counts come as near to the marginals as whole numbers can."""
    columns: list[CodeArray | None] = [None] * len(model.alone)
    for attribute, parent in _walk(len(model.alone), list(model.pairs)):
        if parent is None:
            whole = np.zeros(n_rows, dtype=np.int32)
            columns[attribute] = _given(whole, model.alone[attribute][np.newaxis, :], chance)
            continue
        table = model.pairs.get((parent, attribute))
        shares = model.pairs[attribute, parent].T if table is None else table
        known = columns[parent]
        if known is None:
            raise TypeError("an attribute is drawn after the one it hangs on")
        columns[attribute] = _given(known, shares, chance)
    order = chance.order(n_rows)
    return [column[order] for column in columns if column is not None]


def _walk(n_attributes: int, pairs: Sequence[Pair]) -> list[tuple[int, int | None]]:
    """Return every attribute once, after the one it hangs on."""
    steps: list[tuple[int, int | None]] = []
    seen: set[int] = set()
    for start in range(n_attributes):
        waiting: list[tuple[int, int | None]] = [(start, None)] if start not in seen else []
        while waiting:
            attribute, parent = waiting.pop()
            seen.add(attribute)
            steps.append((attribute, parent))
            neighbours = [a if b == attribute else b for a, b in pairs if attribute in (a, b)]
            waiting += [(other, attribute) for other in neighbours if other not in seen]
    return steps


def _given(known: CodeArray, shares: FloatArray, chance: Chance) -> CodeArray:
    """Draw a value for each row, given (n_known, n_values) shares for what is known of it.

    Rows of one known value take every step of the values' cumulated shares with one common random start, so that each
    value comes up as often as it should, rounded up or down; which row gets which is then left to chance.
    """
    n_known, n_values = shares.shape
    sizes = np.bincount(known, minlength=n_known)
    order = chance.order_within(known, n_known)  # rows by what is known, in random order
    of_row = np.repeat(np.arange(n_known), sizes)
    start = np.cumsum(sizes) - sizes
    first = chance.fractions(n_known)
    place = np.arange(len(known)) - start[of_row] + first[of_row]
    cumulated = _cumulated(shares)
    target = of_row + np.minimum(place / sizes[of_row], np.nextafter(1.0, 0.0))
    edges = (np.arange(n_known)[:, np.newaxis] + cumulated).ravel()
    code: IntArray = np.searchsorted(edges, target, side="right") - of_row * n_values
    drawn = np.empty(len(known), dtype=np.int32)
    drawn[order] = np.clip(code, 0, _last(shares)[of_row])
    return drawn


def _cumulated(shares: FloatArray) -> FloatArray:
    totals = shares.sum(axis=1, keepdims=True)
    even = np.full_like(shares, 1.0 / shares.shape[1])
    cumulated = np.cumsum(np.divide(shares, totals, out=even, where=totals > 0), axis=1)
    cumulated[:, -1] = 1.0
    within: FloatArray = np.minimum(cumulated, 1.0)
    return within


def _last(shares: FloatArray) -> IntArray:
    """Return the last value with a share, which no rounding of sums may lead beyond."""
    n_values = shares.shape[1]
    some = shares > 0
    last: IntArray = np.where(some.any(axis=1), n_values - 1 - np.argmax(some[:, ::-1], axis=1), n_values - 1)
    return last

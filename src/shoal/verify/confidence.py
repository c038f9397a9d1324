"""The largest share of a harmful value, or of a harmful item of values that are sets, recomputed from counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.verify.counting import Histograms
from shoal.verify.exact import CannotCheckError, at_most, ratio
from shoal.verify.promises import Promise


def harmful_items(promise: Promise, values: Sequence[str | None], n_values: int) -> list[list[int]]:
    """Return for each value the numbers of its harmful items; a missing value is an item of its own.

    >>> promise = Promise("confidence-bounding", {"most": 0.2, "harmless": ["none"], "separator": ";"}, None)
    >>> harmful_items(promise, ["none", "gout", "flu; gout", None], 4)
    [[], [0], [1, 0], [2]]
    """
    harmless, separator = frozenset(promise.parameters["harmless"]), promise.parameters["separator"]
    if not harmless and separator is None:
        return [[value] for value in range(n_values)]
    if len(values) != n_values:
        raise CannotCheckError("joint values have no names that could be harmless, and no items")
    number: dict[str | None, int] = {}
    found = []
    for value in values:
        items: list[str | None] = [value]
        if value is not None and separator is not None:
            items = list(dict.fromkeys(item for part in value.split(separator) if (item := part.strip())))
        found.append([number.setdefault(item, len(number)) for item in items if item is None or item not in harmless])
    return found


def largest_harmful(
    promise: Promise, histograms: Histograms, start: IntArray, value: IntArray, amount: NDArray[Any]
) -> NDArray[Any]:
    """Return (n,) the most that a harmful item has: row i has *amount* of *value* in ``start[i]:start[i + 1]``."""
    of_value = harmful_items(promise, histograms.values, histograms.n_values)
    width = np.array([len(items) for items in of_value], dtype=np.int64)
    flat = np.array([item for items in of_value for item in items], dtype=np.int64)
    largest = np.zeros(len(start) - 1, dtype=amount.dtype)
    if not len(flat):
        return largest
    # every entry once for each item of its value
    repeat = width[value]
    entry = np.repeat(np.arange(len(repeat)), repeat)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    item = flat[(np.cumsum(width) - width)[value[entry]] + within]
    owner = np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))
    n_items = int(flat.max()) + 1
    pair, place = np.unique(owner[entry] * n_items + item, return_inverse=True)
    total = np.zeros(len(pair), dtype=amount.dtype)
    np.add.at(total, place.reshape(-1), amount[entry])
    np.maximum.at(largest, pair // n_items, total)
    return largest


def confidence(promise: Promise, histograms: Histograms) -> tuple[BoolArray, FloatArray]:
    """Return for each class whether no harmful item has more than *most* of it, and the largest share of one."""
    largest = largest_harmful(promise, histograms, histograms.start, histograms.value, histograms.count)
    return at_most(largest, histograms.sizes, promise.fraction("most")), ratio(largest, histograms.sizes)

"""What privacy models say of all classes of a table together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from shoal.audit.classes import Alike, ValueClasses
from shoal.core.arrays import FloatArray, IntArray
from shoal.models.base import PrivacyModel, Whole
from shoal.models.t_closeness import TCloseness

_BLOCK_ENTRIES = 1 << 22
_ROUNDING = 1e-9  # bounds are exact but for rounding


@dataclass(frozen=True, slots=True)
class Measured:
    """One model: the strongest main parameter that all classes meet, and the records of classes that miss it."""

    achieved: float
    n_missed: int


def measure(models: Sequence[PrivacyModel], whole: Whole, classes: Iterable[Alike]) -> tuple[Measured, ...]:
    """Return what each model says of all classes, at least one, together."""
    worst: list[list[float]] = [[] for _ in models]
    missed = [0] * len(models)
    for alike in classes:
        records = alike.histograms.sizes * alike.times
        for number, model in enumerate(models):
            worst[number].append(model.worst(alike.histograms, whole))
            missed[number] += int(records[~model.holds(alike.histograms, whole)].sum())
    return tuple(
        Measured(min(reached) if model.achieved_is == "at least" else max(reached), records)
        for model, reached, records in zip(models, worst, missed, strict=True)
    )


def largest_distance(model: TCloseness, values: ValueClasses, whole: Whole) -> float:
    """Return the t that all classes meet, without looking at classes that cannot be the worst.

    The earth mover's distance to a given table is convex: that of a class is at most the mean of what its records
    would have alone. Classes are looked at in descending order of this bound until none can exceed what was found.
    """
    alone = _distance_of_one(model, values.whole())
    which, _ = values.kinds()
    bound = np.add.reduceat(values.records * alone[values.values], values.first[:-1])[which] / values.sizes[which]
    order = np.argsort(-bound, kind="stable")
    step = max(_BLOCK_ENTRIES // values.n_values, 1)
    found = 0.0
    for start in range(0, len(order), step):
        if found >= bound[order[start]] - _ROUNDING and start:
            break
        block = values.histograms(which[order[start : start + step]], values.n_values)
        found = max(found, model.worst(block, whole))
    return found


def _distance_of_one(model: TCloseness, counts: IntArray) -> FloatArray:
    """Return (n_values,) the distance to the table of a class of one record; all values occur."""
    shares = counts / counts.sum()
    if model.distance == "equal":
        return np.asarray(1.0 - shares)
    below = np.cumsum(shares)  # (n_values,) share of records up to each value
    passed_up = np.concatenate([[0.0], np.cumsum(below)])[:-1]
    passed_down = (1.0 - below)[::-1].cumsum()[::-1]
    return np.asarray((passed_up + passed_down) / max(len(counts) - 1, 1))

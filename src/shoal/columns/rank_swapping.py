"""Rank swapping: numbers are exchanged between records of similar ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import Field

from shoal.columns.base import NumberDomain, Trace
from shoal.columns.numbers import column_numbers, plain_number
from shoal.columns.permutation import CodedRows, MovedTreatment, MovingTechnique
from shoal.core.arrays import FloatArray, IntArray, KeyArray
from shoal.core.errors import PolicyError
from shoal.core.kernels import kernel
from shoal.core.randomness import Chance
from shoal.sources.base import Source


class RankSwapping(MovingTechnique):
    """Every number is exchanged with one whose rank differs by at most the window's share of the records.

    Moore, "Controlled data-swapping techniques for masking public use microdata sets", U.S. Bureau of the Census,
    Statistical Research Division Report RR96-04, 1996. In ascending order, each record without a partner gets a
    random one among the records without a partner in the window above it; equal numbers are ranked at random. Records
    without a partner keep their numbers. Missing values stay in their rows.
    """

    name = "rank-swapping"
    title = "numbers exchanged between pairs of records of similar ranks"

    window: float = Field(
        gt=0, lt=1, description="largest difference in rank of exchanged numbers, as a share of the records"
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        return (
            "numbers were exchanged in pairs between records whose ranks in this column differ by at most "
            f"{100 * entry['window']:.6g}% of the records. All numbers occur in the source, but almost every row has "
            f"another person's; numbers half of that apart differ by {plain_number(entry['distance'])} on average."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        """To an adversary, numbers exchanged with similar ones are noise."""
        return Trace(blur=float(entry["distance"]), numbers=True)

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:  # noqa: ARG003
        advice = "- Rank swapping preserves the distribution of each column exactly and weakens its relations with all "
        return [advice + "others: correlations are biased towards 0."]

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> MovedTreatment:
        treatment = super().prepare(column, source, chance, domain)
        in_order = np.sort(_numbers(column, treatment)[treatment.codes[treatment.codes > 0] - 1])
        distance = float(f"{mean_distance(in_order, self.window):.6g}")
        return replace(treatment, said=self.public(within=[], distance=distance))

    def find_origins(self, rows: CodedRows, chance: Chance) -> IntArray:
        present = np.flatnonzero(rows.codes)
        reach = int(self.window * len(present))
        if reach < 1:
            raise PolicyError(
                f"column {rows.column!r}: a window of {self.window:g} of {len(present):,} numbers is less than one "
                "rank, which permits no exchange; choose a wider window"
            )
        numbers = _numbers(rows.column, rows)[rows.codes - 1]
        mixed = present[chance.order(len(present))]
        ranked = mixed[np.argsort(numbers[mixed], kind="stable")]
        origin = np.arange(len(rows.codes))
        origin[ranked] = ranked[_pair_ranks(len(ranked), reach, chance.keys(len(ranked)))]
        return origin


def _numbers(column: str, rows: CodedRows | MovedTreatment) -> FloatArray:
    return column_numbers(rows.values, column)[0]


def mean_distance(in_order: FloatArray, window: float) -> float:
    """Return the average distance of ascending numbers that are half a window apart.

    >>> mean_distance(np.arange(100.0), 0.1)
    5.0
    """
    half = max(1, int(window * len(in_order)) // 2)
    return float(np.mean(in_order[half:] - in_order[:-half])) if len(in_order) > half else 0.0


@kernel
def _pair_ranks(n: int, reach: int, keys: KeyArray) -> IntArray:
    """Return (n,) the partner of each rank, or itself if there is none.

    A Fenwick tree counts the ranks without a partner; with it, one random key selects among those in the window.
    """
    partner, alone = np.arange(n), np.ones(n, dtype=np.bool_)
    counts = np.zeros(n + 1, dtype=np.int64)
    for place in range(1, n + 1):
        counts[place] = place & -place
    top = 1
    while 2 * top <= n:
        top *= 2
    for rank in range(n):
        if not alone[rank]:
            continue
        choice = rank
        for turn in range(2):
            alone[choice] = False
            place = choice + 1
            while place <= n:
                counts[place] -= 1
                place += place & -place
            if turn:
                break
            place, free = min(rank + reach, n - 1) + 1, 0
            while place:  # all lower ranks have partners, so those counted are in the window
                free += counts[place]
                place -= place & -place
            if free == 0:
                break
            wanted = int((keys[rank] >> np.uint64(11)) * 2.0**-53 * free)
            place, step = 0, top
            while step:
                if place + step <= n and counts[place + step] <= wanted:
                    place += step
                    wanted -= counts[place]
                step //= 2
            choice = place
            partner[rank], partner[choice] = choice, rank
    return partner

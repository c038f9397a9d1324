"""How far a synthetic table is from the records it stands for: exact, so for the data holder only."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from shoal.core.arrays import AnyIntArray, IntArray
from shoal.plan.synthetic import MOST_CELLS, Records, SyntheticPlan


def distances(codes: Sequence[AnyIntArray], counts: IntArray, plan: SyntheticPlan) -> dict[str, Any]:
    """Return total variation distances between shares of records and of rows, for attributes and pairs of them.

    The distance is the largest difference between the two shares of any set of values: 0 for equal shares, 1 for
    shares that have no value in common. Pairs with more joint values than can be counted together are left out.
    """
    records = Records(tuple(column.astype(np.int32) for column in codes), counts, plan.domains)
    rows = Records(plan.codes, np.ones(plan.n_rows, dtype=np.int64), plan.domains)
    sizes = [domain.size for domain in plan.domains]
    alone = {
        domain.name: round(total_variation(records.of(place), rows.of(place)), 6)
        for place, domain in enumerate(plan.domains)
    }
    pairs = [
        {
            "pair": [plan.domains[first].name, plan.domains[second].name],
            "distance": round(total_variation(records.of_pair((first, second)), rows.of_pair((first, second))), 6),
            "kept": (first, second) in plan.pairs,
        }
        for first, second in combinations(range(len(sizes)), 2)
        if sizes[first] * sizes[second] <= MOST_CELLS
    ]
    return {"records": int(counts.sum()), "outside": plan.n_outside, "attributes": alone, "pairs": pairs}


def total_variation(one: IntArray, other: IntArray) -> float:
    """Return the total variation distance between two tables of counts.

    >>> total_variation(np.array([3, 1]), np.array([2, 2]))
    0.25
    """
    return float(np.abs(one / max(int(one.sum()), 1) - other / max(int(other.sum()), 1)).sum()) / 2

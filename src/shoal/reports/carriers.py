"""Which attributes, alone and together, carry the risk that a record is found."""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import Any

from shoal.audit.risk.special import special_uniques
from shoal.core.arrays import AnyIntArray, IntArray

_MOST_WORK = 2**24  # sets of attributes times cells: about 0.2 s
_LARGEST = 3
_MOST_SETS = 10


def risk_carriers(codes: Mapping[str, AnyIntArray], records: IntArray) -> dict[str, Any] | None:
    """Return the smallest sets of attributes that single records out, and what each attribute adds to the score.

    Sets of up to three attributes are looked at, of fewer if the table is large; None if even single ones would take
    long. The scores are those of special uniques (:mod:`shoal.audit.risk.special`).

    >>> import numpy as np
    >>> found = risk_carriers({"age": np.array([3, 3, 5]), "sex": np.array([0, 0, 1])}, np.array([1, 1, 1]))
    >>> found["unique_records"], found["sets"][0]["attributes"]
    (1, ['age'])
    """
    sizes = range(1, min(_LARGEST, len(codes)) + 1)
    affordable = [
        size for size in sizes if len(records) * sum(comb(len(codes), n) for n in range(1, size + 1)) <= _MOST_WORK
    ]
    if not affordable:
        return None
    found = special_uniques(codes, records, largest=affordable[-1])
    by_size = found.by_size()
    return {
        "unique_records": int(found.unique.sum()),
        "largest_set": found.largest,
        "records_by_smallest_set": {str(size): count for size, count in enumerate(by_size[:-1], start=1)},
        "records_of_larger_sets": by_size[-1],
        "contributions": dict(sorted(found.contributions.items(), key=lambda entry: -entry[1])),
        "sets": [
            {"attributes": list(one.attributes), "records": one.records, "score_share": one.score / found.score}
            for one in found.sets[:_MOST_SETS]
        ],
    }

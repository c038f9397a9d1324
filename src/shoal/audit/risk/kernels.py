"""Compiled loops over groups of cells: which cells stand alone once one more attribute is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from shoal.core.compiled import compiled

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]


@compiled
def singled_out(first: Ints, order: Codes, codes: Codes, single: Flags, domain: int) -> Codes:
    """Return the cells of one record that are alone within their group by one more attribute.

    Group g holds the cells ``order[first[g]:first[g + 1]]``; *codes* are the attribute's, below *domain*; *single*
    says which cells have one record.
    """
    table = np.zeros(domain, dtype=np.int32)
    found = np.empty(len(order), dtype=np.int32)
    n_found = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] += 1
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            if table[codes[cell]] == 1 and single[cell]:
                found[n_found] = cell
                n_found += 1
        for place in range(first[group], first[group + 1]):
            table[codes[order[place]]] = 0
    return found[:n_found].copy()


@compiled
def still_together(first: Ints, order: Codes, codes: Codes, single: Flags, domain: int) -> tuple[Ints, Codes]:
    """Split the groups by one more attribute; keep those of two and more cells of which one has a single record.

    No attribute can single a record out of the groups that are left away: it is alone already, or none is single.
    """
    cells = np.zeros(domain, dtype=np.int64)
    singles = np.zeros(domain, dtype=np.int64)
    place_of = np.full(domain, -1, dtype=np.int64)
    new_first = np.zeros(len(order) // 2 + 1, dtype=np.int64)
    new_order = np.empty(len(order), dtype=np.int32)
    groups = 0
    used = 0
    for group in range(len(first) - 1):
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            cells[codes[cell]] += 1
            if single[cell]:
                singles[codes[cell]] += 1
        for place in range(first[group], first[group + 1]):
            cell = order[place]
            code = codes[cell]
            if cells[code] > 1 and singles[code] > 0:
                if place_of[code] < 0:
                    place_of[code] = used
                    used += cells[code]
                    groups += 1
                    new_first[groups] = used
                new_order[place_of[code]] = cell
                place_of[code] += 1
        for place in range(first[group], first[group + 1]):
            code = codes[order[place]]
            cells[code] = 0
            singles[code] = 0
            place_of[code] = -1
    return new_first[: groups + 1].copy(), new_order[:used].copy()

"""How many published rows find no source row of their own, in the best of all matchings.

Rows of one content at a time. Its published rows are boxes with a demand, its source rows points with a supply. All
pairs of a box and a point that it covers are listed where that is possible, and it nearly always is: most boxes
cover few points. A content with too many pairs is matched without a list.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.verify.kernels import kernel
from shoal.verify.listed import FEW, wanted_by_contents
from shoal.verify.orders import orders_for
from shoal.verify.spans import Spans
from shoal.verify.unlisted import unserved_by_tree

MOST_PAIRS = 2**25
_SHIFT = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_PARTS = 2


@kernel
def unmet_demand(wanted: KeyArray, demand: IntArray, held: KeyArray, supply: IntArray) -> IntArray:
    """Return (n_wanted,) the demand that supplies of the same key do not meet; both keys ascend."""
    out = demand.copy()
    j = 0
    for i in range(wanted.shape[0]):
        while j < held.shape[0] and held[j] < wanted[i]:
            j += 1
        if j < held.shape[0] and held[j] == wanted[i]:
            out[i] = max(0, demand[i] - supply[j])
    return out


def unserved(
    spans: Spans, wanted: KeyArray, demand: IntArray, offered: KeyArray, supply: IntArray, cells: CodeArray
) -> int:
    """Return how much demand stays unmet in the best matching.

    Keys ascend: *wanted* are content << 32 | box, *offered* are content << 32 | cell; cell c is the point cells[c].
    Boxes should come by ascending size, for speed only.
    """
    wanted, demand = wanted[demand > 0], demand[demand > 0]
    offered, supply = offered[supply > 0], supply[supply > 0]
    if not offered.shape[0] or not wanted.shape[0]:
        return int(demand.sum())
    cuts = [wanted[len(wanted) * part // _PARTS] >> _SHIFT << _SHIFT for part in range(1, _PARTS)]
    theirs = [0, *np.searchsorted(wanted, cuts).tolist(), len(wanted)]
    ours = [0, *np.searchsorted(offered, cuts).tolist(), len(offered)]

    def part(number: int) -> int:
        one, other = slice(*theirs[number : number + 2]), slice(*ours[number : number + 2])
        return _unserved(spans, wanted[one], demand[one], offered[other], supply[other], cells)

    with ThreadPoolExecutor(_PARTS) as threads:
        return sum(threads.map(part, range(_PARTS)))


def _unserved(
    spans: Spans, wanted: KeyArray, demand: IntArray, offered: KeyArray, supply: IntArray, cells: CodeArray
) -> int:
    if not offered.shape[0] or not wanted.shape[0]:
        return int(demand.sum())
    heads = wanted >> _SHIFT
    # box_start, point_start: (n_contents + 1,) of contents that somebody wants
    box_start = np.append(np.flatnonzero(np.append(True, heads[1:] != heads[:-1])), len(heads))
    contents, known = heads[box_start[:-1]], offered >> _SHIFT
    number = np.searchsorted(contents, known)
    asked = contents[np.minimum(number, len(contents) - 1)] == known
    offered, supply, number = offered[asked], supply[asked], number[asked]
    point_start = np.searchsorted(number, np.arange(len(contents) + 1))
    boxes, points = (wanted & _LOW).astype(np.int32), cells[offered & _LOW]
    many = np.diff(point_start) > FEW
    some = np.flatnonzero(many[number])
    orders = orders_for(spans, boxes[np.repeat(many, np.diff(box_start))], number[some], points[some], some)
    large = np.zeros(len(contents), dtype=np.bool_)
    unmet = int(
        wanted_by_contents(spans, orders, boxes, demand, box_start, points, supply, point_start, MOST_PAIRS, large)
    )
    if large.any():
        scale = np.maximum(spans.usual_widths(), 0.5)
        theirs, ours = np.repeat(large, np.diff(box_start)), large[number]
        unmet += int(unserved_by_tree(spans, scale, wanted[theirs], demand[theirs], offered[ours], supply[ours], cells))
    return unmet

"""Who serves whom: for each point a chain of links to boxes, each with an amount."""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.verify.kernels import kernel

BOX, NEXT = 0, 1  # columns of links


@kernel
def linked(
    first: CodeArray, links: CodeArray, amounts: IntArray, used: int, point: int, box: int, amount: int
) -> tuple[CodeArray, IntArray, int]:
    """Let a point serve a box by this much more; return the links, which may have moved, and their number."""
    link = first[point]
    while link >= 0:
        if links[link, BOX] == box:
            amounts[link] += amount
            return links, amounts, used
        link = links[link, NEXT]
    if used == links.shape[0]:
        more = np.empty((2 * used + 16, 2), dtype=np.int32)
        more[:used] = links
        totals = np.empty(2 * used + 16, dtype=np.int64)
        totals[:used] = amounts
        links, amounts = more, totals
    links[used, BOX], links[used, NEXT] = box, first[point]
    amounts[used] = amount
    first[point] = used
    return links, amounts, used + 1

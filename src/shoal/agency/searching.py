"""The smallest threshold for classes with which a number of samples is enough."""

from __future__ import annotations

import math
from collections.abc import Callable

from shoal.core.arrays import CodeArray

FEWEST_TRIES = 12
MOST_TRIES = 200
WORK = 10**8  # entries that may be read to look for more classes: some seconds


def most_classes(
    make: Callable[[int], CodeArray],
    weakest: Callable[[CodeArray], int],
    enough: Callable[[CodeArray], bool],
    low: int,
    high: int,
    work: int,
) -> CodeArray | None:
    """Return classes for the lowest threshold found at which the samples are enough; None if they never are.

    ``make`` must give the same classes for every threshold up to the weight of its lightest class, ``weakest``. What
    is enough need not be so for every larger threshold, so halving is followed by looking upwards from *low*, below
    which nothing is enough. Both end when the tries are used up, of which there are the fewer the more *work* one is.
    """
    tries = max(FEWEST_TRIES, min(MOST_TRIES, WORK // work))
    best = make(high)
    if not enough(best):
        return None
    floor, found = low, high  # the threshold of the best classes
    while low < found and tries > 0:
        middle = max(low, min(math.isqrt(low * found), found - 1))
        classes = make(middle)
        tries -= 1
        if enough(classes):
            best, found = classes, middle
        else:
            low = weakest(classes) + 1
    while floor < found and tries > 0:
        classes = make(floor)
        tries -= 1
        if enough(classes):
            return classes
        floor = weakest(classes) + 1
    return best

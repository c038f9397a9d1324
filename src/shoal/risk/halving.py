"""Zeros of functions of one number, by halving: slower than Newton's steps, and never astray."""

from __future__ import annotations

from collections.abc import Callable

_HALVINGS = 200


def crossing(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function whose signs at *low* and *high* differ crosses zero, to the last bits.

    >>> round(crossing(lambda x: 2 - x * x, 0.0, 2.0), 12)
    1.414213562373
    """
    above = function(low) > 0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if (function(middle) > 0) == above:
            low = middle
        else:
            high = middle
    return (low + high) / 2

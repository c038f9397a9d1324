"""Numbers in messages, rounded so that what a message offers can really be had."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def number(value: float) -> str:
    """Return the number as a person would write it.

    >>> number(4.0), number(0.25)
    ('4', '0.25')
    """
    return f"{value:.15g}"


def rounded_down(value: float, digits: int) -> str:
    """Return the value with at most *digits* decimals, never more than it is.

    >>> rounded_down(10.579, 2)
    '10.57'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def rounded_up(value: float, digits: int) -> str:
    """Return the value with at most *digits* decimals, never less than it is.

    >>> rounded_up(0.12341, 4), rounded_up(0.5, 4)
    ('0.1235', '0.5')
    """
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, rounding: str) -> str:
    # repr is the shortest text of a floating-point number: 0.3 stays 0.3 and is not rounded up to 0.3001
    rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding=rounding)
    return f"{rounded.normalize():f}"

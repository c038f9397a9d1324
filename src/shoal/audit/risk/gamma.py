"""The digamma function, and rising factorials as logarithms, without further packages."""

from __future__ import annotations

from math import lgamma, log, log1p

import numpy as np

from shoal.core.arrays import FloatArray

_LARGE = 12.0  # from here the asymptotic series is exact to the last bits
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760)  # B(2k) / 2k


def digamma(x: float) -> float:
    """Return the derivative of log gamma at a positive number.

    >>> round(digamma(1.0), 12)  # minus Euler's constant
    -0.577215664902
    """
    below = 0.0
    while x < _LARGE:
        below += 1 / x
        x += 1
    inverse, series = 1 / (x * x), 0.0
    for term in reversed(_SERIES):
        series = (series + term) * inverse
    return log(x) - 0.5 / x - series - below


def digammas(x: FloatArray) -> FloatArray:
    """Return the same for each of several numbers."""
    return np.array([digamma(one) for one in x.tolist()])


def log_gamma_ratio(x: float, shift: float) -> float:
    """Return log(gamma(x + shift) / gamma(x)) for shifts of at most 1, also where both are too large to subtract.

    >>> round(log_gamma_ratio(4.0, 1.0), 12), round(log_gamma_ratio(1e12, 0.5), 6)
    (1.38629436112, 13.815511)
    """
    if x < 1e5:
        return lgamma(x + shift) - lgamma(x)
    # Stirling's series at both ends; what is left out is below 1e-15.
    middle = (x + shift - 0.5) * log1p(shift / x) + shift * log(x) - shift
    return middle + (1 / (x + shift) - 1 / x) / 12

"""Noise: numbers on the grid and in the domain, and a sum that chance explains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from shoal.core.arrays import FloatArray
from shoal.verify.fields import ManifestError, check_keys, mapping, number
from shoal.verify.result import FALSE_ALARM
from shoal.verify.techniques.base import kept_missing
from shoal.verify.techniques.gridded import Gridded
from shoal.verify.techniques.numbers import Grid, decimals_of, extreme_sums, finite, order_statistics, summed
from shoal.verify.techniques.values import ColumnValues

_EDGES = ("clamp", "reflect", "redraw")
_WIDTHS = {"laplace": "scale", "gaussian": "sd"}
_WIDEST = 2.0**40  # grid steps
_INSIDE = 0.05  # noise that is drawn again stays inside with a larger chance: it is at most four domains wide


@dataclass(frozen=True, slots=True)
class Noise(Gridded):
    """Numbers moved by random steps of a grid."""

    name: ClassVar[str] = "noise"

    gaussian: bool
    width: float  # grid steps
    low: int | None  # grid steps
    high: int | None

    @classmethod
    def read(cls, column: str, entry: Mapping[str, Any], where: str) -> Noise:
        """Return what is declared, or raise a ManifestError."""
        optional = (*_WIDTHS, "min", "max", "edges")
        check_keys(entry, where, ("technique", "decimals", "differential_privacy"), optional)
        if entry["differential_privacy"] is not False:
            raise ManifestError(f"{where}.differential_privacy is not false: noise of single records is none")
        grid = Grid(decimals_of(entry["decimals"], f"{where}.decimals"))
        kinds = [kind for kind in _WIDTHS if kind in entry]
        if len(kinds) != 1:
            raise ManifestError(f"{where} has not one of laplace and gaussian")
        shape = mapping(entry[kinds[0]], f"{where}.{kinds[0]}")
        check_keys(shape, f"{where}.{kinds[0]}", (_WIDTHS[kinds[0]],), ())
        width = number(shape[_WIDTHS[kinds[0]]], f"{where}.{kinds[0]}") * 10.0**grid.decimals
        if not 1 <= width <= _WIDEST:
            raise ManifestError(f"{where} has noise that is less than a step of its grid, or too wide for it")
        ends = {
            end: grid.step_of(finite(entry[end], f"{where}.{end}"), f"{where}.{end}")
            for end in ("min", "max")
            if end in entry
        }
        if ("edges" in entry) != bool(ends) or ("edges" in entry and entry["edges"] not in _EDGES):
            raise ManifestError(f"{where} has ends and does not say what happens there, or the other way round")
        if len(ends) == 2 and ends["min"] >= ends["max"]:
            raise ManifestError(f"{where}.min is not below max")
        return cls(column, grid, kinds[0] == "gaussian", width, ends.get("min"), ends.get("max"))

    def misplaced(self, steps: FloatArray) -> str | None:
        """No number is outside the domain."""
        if (self.low is not None and bool((steps < self.low).any())) or (
            self.high is not None and bool((steps > self.high).any())
        ):
            return "has numbers outside the declared domain"
        return None

    def unlike(self, published: ColumnValues, original: ColumnValues) -> str | None:
        """Sorted, no number is farther from the source's than chance explains; without a domain, nor is the sum.

        If no draw is farther than some distance, the i-th smallest of some numbers is not farther below the i-th
        smallest of the source, and likewise from above. What is put back at an edge comes nearer, never farther.
        """
        if fault := kept_missing(published, original):
            return fault
        mine, theirs = published.numbers(), original.numbers()
        if mine is None or theirs is None:
            return "has values that are no numbers, here or in the source"
        (numbers, counts), (sources, source_counts) = mine, theirs
        steps, true, n = self.grid.steps(numbers), self.grid.steps(sources), published.present
        first, last = np.cumsum(counts) - counts, np.cumsum(counts) - 1
        lowest = order_statistics(true, source_counts, last) - self._farthest(n)
        highest = order_statistics(true, source_counts, original.present - n + first) + self._farthest(n)
        if bool((steps < lowest).any()) or bool((steps > highest).any()):
            return "has numbers that are farther from the source's than noise explains"
        if self.low is not None or self.high is not None:
            return None
        total = summed(steps, counts)
        least, most = extreme_sums(true, source_counts, n)
        reach = math.ceil(self._reach(n))
        if not least - reach <= total <= most + reach:
            return "has numbers whose sum is farther from the source's than noise explains"
        return None

    def _farthest(self, n: int) -> int:
        """Return how far one of n draws is with a chance below 10**-12, even if it is drawn until it is inside.

        Laplace noise of scale b is x or more away with a chance of at most 2 exp(-x / b), normal noise with one of at
        most 2 exp(-x^2 / (2 s^2)); it is rounded by half a step.
        """
        needed = math.log(2 * max(n, 1) / (FALSE_ALARM * _INSIDE))
        return math.ceil(self.width * (math.sqrt(2 * needed) if self.gaussian else needed)) + 1

    def _reach(self, n: int) -> float:
        """Return a bound that the sum of n draws passes with a chance below 10**-12.

        Chernoff: for every t > 0 the sum S of n draws has P(S >= s) <= exp(n log E exp(tX) - ts), so each t gives a
        bound, of which the least is taken.
        """
        if n == 0:
            return 0.0
        needed = math.log(2 / FALSE_ALARM)
        transform, most = (_log_normal, 50.0) if self.gaussian else (_log_laplace, 1 / self.width)
        likely = math.sqrt(2 * needed / n) / self.width  # the best t for normal sums
        chosen = np.minimum(likely * np.logspace(-3, 3, 601), most * (1 - 1e-6))
        return min(_bound(transform, n, self.width, float(t), needed) for t in chosen)

    @property
    def confirmed(self) -> str:
        """What was found."""
        return "numbers are on their grid and in their domain; that noise was drawn as declared, no file shows"


def _bound(transform: Callable[[float, float], float], n: int, width: float, t: float, needed: float) -> float:
    return (n * transform(t, width) + needed) / t


def _log_laplace(t: float, scale: float) -> float:
    """Return log E exp(tX) of whole numbers with probabilities in proportion to exp(-|x| / scale), t < 1 / scale."""
    p = math.exp(-1 / scale)
    return 2 * math.log1p(-p) - math.log1p(-p * math.exp(t)) - math.log1p(-p * math.exp(-t))


def _log_normal(t: float, deviation: float) -> float:
    """Return a bound of log E exp(tX) of a normal number rounded to a whole one, deviation >= 1.

    X = Y + r with r a function of Y of period 1. Its Fourier series gives E exp(tX) as exp(t^2 s^2 / 2) times the sum
    over m of c(m) exp(-2 pi^2 m^2 s^2) up to phases, c(0) = sinh(t/2) / (t/2) and |c(m)| <= sinh(t/2) / (pi |m|).
    """
    half = math.sinh(t / 2)
    others = 4 * half * math.exp(-2 * math.pi**2 * deviation**2) / math.pi
    return (t * deviation) ** 2 / 2 + math.log(half / (t / 2) + others)

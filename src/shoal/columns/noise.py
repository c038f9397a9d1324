"""Laplace or Gaussian noise on numbers, on a grid, inside a declared domain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.columns.base import NOISE_ADDITION, NumberDomain, Technique, Trace
from shoal.columns.numbers import MOST_DECIMALS, Grid, NumberTreatment, clamp, explain_decimals, plain_number, within
from shoal.columns.row_random import BLOCK_ROWS, RowRandom, round_normal, two_sided_geometric
from shoal.core.arrays import BoolArray, FloatArray, IntArray, KeyArray
from shoal.core.documents import Parameters
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.core.wording import count_noun
from shoal.sources.base import Source

Edges = Literal["clamp", "reflect", "redraw"]
_AT_THE_EDGE: dict[Edges, str] = {
    "clamp": "numbers beyond were set to the bound at the edge",
    "reflect": "numbers beyond were mirrored at the bound",
    "redraw": "noise that led beyond was drawn again",
}
_WIDEST = 2.0**40  # grid steps of noise, well within the precision of floats
_MOST_DOMAINS = 4  # wider noise, in domain widths, would be redrawn very often or leave little more than the bounds


class Laplace(Parameters):
    """Noise with a density proportional to exp(-|x| / scale)."""

    scale: float = Field(gt=0, allow_inf_nan=False, description="the mean distance from the true value")


class Gaussian(Parameters):
    """Normal noise."""

    sd: float = Field(gt=0, allow_inf_nan=False, description="the standard deviation")


class Noise(Technique):
    """Independent random noise of mean 0 is added to each record's number.

    The noise is a whole number of grid steps, whose distribution does not depend on the value: the last digits of a
    float disclose nothing (Mironov, "On significance of the least significant bits", CCS 2012). This is perturbation,
    not differential privacy, because each record is still published.

    >>> Noise(laplace={"scale": 2}, min=0, max=120, edges="redraw").edges
    'redraw'
    """

    name = "noise"
    title = "numbers changed by random amounts"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = NOISE_ADDITION

    laplace: Laplace | None = Field(default=None, description="Laplace noise; give this or gaussian")
    gaussian: Gaussian | None = Field(default=None, description="normal noise")
    decimals: int = Field(default=0, ge=0, le=MOST_DECIMALS, description="decimals of published numbers")
    min: int | float | None = Field(default=None, allow_inf_nan=False, description="the smallest number of the domain")
    max: int | float | None = Field(default=None, allow_inf_nan=False, description="the largest number of the domain")
    edges: Edges | None = Field(
        default=None,
        description="treatment of numbers outside the domain: clamp sets them to the bound, reflect mirrors them at "
        "it, redraw draws new noise until they are inside",
    )

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        if "laplace" in entry:
            noise = f"Laplace noise of scale {plain_number(entry['laplace']['scale'])}"
        else:
            noise = f"normal noise of standard deviation {plain_number(entry['gaussian']['sd'])}"
        words = {"min": "at least", "max": "at most"}
        ends = [f"{word} {plain_number(entry[end])}" for end, word in words.items() if end in entry]
        inside = f" All are {' and '.join(ends)}: {_AT_THE_EDGE[entry['edges']]}." if ends else ""
        return (
            f"numbers were changed by {noise}, independently for each record, and published {explain_decimals(entry)}. "
            f"They are not the original ones.{inside} This is not differential privacy."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        noise = entry.get("laplace") or entry.get("gaussian") or {}
        return Trace(blur=float(noise.get("scale", noise.get("sd", 0.0))), numbers=True)

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """State by how much the noise increases variances if no bound clipped it."""
        variances = []
        for name, entry in entries.items():
            if "min" not in entry and "max" not in entry:
                square = 2 * entry["laplace"]["scale"] ** 2 if "laplace" in entry else entry["gaussian"]["sd"] ** 2
                variances.append(f"{square:,.6g} for {json.dumps(name, ensure_ascii=False)}")
        if not variances:
            return []
        advice = f"- Noise preserves means and increases variances: subtract {', '.join(variances)}."
        return [advice + " It biases the slope of a regression on such a column towards 0."]

    @property
    def width(self) -> float:
        """The scale or standard deviation."""
        if self.laplace is not None:
            return self.laplace.scale
        return 0.0 if self.gaussian is None else self.gaussian.sd

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if (self.laplace is None) == (self.gaussian is None):
            raise ValueError("give either laplace: {scale: ...} or gaussian: {sd: ...}")
        steps = self.width * 10.0**self.decimals
        if steps < 1:
            raise ValueError(
                f"noise of width {self.width:g} is less than one step of {self.decimals} decimals: most values would "
                "not change; use more noise or more decimals"
            )
        if steps > _WIDEST:
            raise ValueError(f"noise of width {self.width:g} is too wide for {self.decimals} decimals; use less noise")
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"max {self.max} must be above min {self.min}")
        self._check_edges(NumberDomain(self.min, self.max))
        return self

    def _check_edges(self, domain: NumberDomain) -> None:
        if domain.ends and self.edges is None:
            raise ValueError("noise can leave the bounded domain: give edges: clamp, reflect or redraw")
        if domain.low is not None and domain.high is not None:
            span = domain.high - domain.low
            if self.width > _MOST_DOMAINS * span:
                raise ValueError(
                    f"noise of width {self.width:g} would hardly ever stay in a domain of width {span:g} and leave "
                    "little of the values; use less noise"
                )

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> NoiseTreatment:  # noqa: ARG002
        domain = within(domain, column, min=self.min, max=self.max)
        try:
            self._check_edges(domain)
        except ValueError as error:
            raise PolicyError(f"column {column!r}: {error}") from None
        if self.edges is not None and not domain.ends:
            raise PolicyError(f"column {column!r}: edges need a domain; give min, max or a taxonomy of intervals")
        grid = Grid(self.decimals)
        low = None if domain.low is None else grid.step_of(domain.low, f"column {column!r}: min")
        high = None if domain.high is None else grid.step_of(domain.high, f"column {column!r}: max")
        said = self.public(**domain.ends, differential_privacy=False)
        steps = self.width * 10.0**self.decimals
        gaussian = self.gaussian is not None
        return NoiseTreatment(
            column, grid.kind, said, grid, RowRandom.of(chance), steps, gaussian, low, high, self.edges
        )


@dataclass(frozen=True, slots=True, eq=False)
class NoiseTreatment(NumberTreatment):
    """Noise of one run."""

    random: RowRandom
    width: float  # in grid steps
    gaussian: bool
    low: int | None  # grid steps
    high: int | None
    edges: Edges | None

    def steps(self, numbers: FloatArray, valid: BoolArray, first_row: int) -> IntArray:
        """Add noise to the nearest grid steps, which must be in the domain, and keep the results in it."""
        true = self.grid.steps(numbers, self.column)
        outside = int((valid & self._outside(true)).sum())
        if outside:
            raise InputError(
                f"column {self.column!r} has {count_noun(outside, 'number')} outside its declared domain; correct "
                "them or declare a wider one"
            )
        noisy = true + self.draw(first_row, len(true))
        if self.edges == "redraw":
            return self._redraw(true, noisy, valid, first_row)
        return clamp(noisy, self.low, self.high) if self.edges == "clamp" else self._reflect(noisy)

    def draw(self, first_row: int, n_rows: int) -> IntArray:
        """Return (n_rows,) the noise of rows."""
        drawn: IntArray = self.random.draw(first_row, n_rows, self._noise)
        return drawn

    def _noise(self, words: KeyArray) -> IntArray:
        return round_normal(words, self.width) if self.gaussian else two_sided_geometric(words, self.width)

    def _outside(self, steps: IntArray) -> BoolArray:
        return np.asarray(clamp(steps, self.low, self.high) != steps)

    def _redraw(self, true: IntArray, noisy: IntArray, valid: BoolArray, first_row: int) -> IntArray:
        noisy, turn = noisy.copy(), 0
        while len(again := np.flatnonzero(valid & self._outside(noisy))):
            turn += 1
            block, place = np.divmod(first_row + again, BLOCK_ROWS)
            for number in np.unique(block):
                rows = again[block == number]
                noisy[rows] = true[rows] + self._noise(self.random.block(int(number), turn))[place[block == number]]
        return noisy

    def _reflect(self, noisy: IntArray) -> IntArray:
        if self.low is not None and self.high is not None:
            span = self.high - self.low
            beyond = (noisy - self.low) % (2 * span)
            return self.low + np.minimum(beyond, 2 * span - beyond)
        if self.low is not None:
            return self.low + np.abs(noisy - self.low)
        return noisy if self.high is None else self.high - np.abs(self.high - noisy)

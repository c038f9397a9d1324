"""Correlated noise: noise on several columns with the same correlations as the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from shoal.columns.base import NOISE_ADDITION, NumberDomain, Technique, Trace, Treatment
from shoal.columns.noise import Gaussian, Noise, NoiseTreatment
from shoal.columns.numbers import MOST_DECIMALS, correlate, read_numbers
from shoal.columns.row_random import RowRandom, normal
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import InputError, PolicyError
from shoal.core.randomness import Chance
from shoal.core.wording import code, join_words
from shoal.sources.base import Source


class CorrelatedNoise(Technique):
    """Noise on several columns, with a covariance matrix proportional to the numbers' one.

    Kim, "A method for limiting disclosure in microdata based on random noise and transformation" (ASA Proceedings of
    the Section on Survey Research Methods, 1986); Tendick, "Optimal noise addition for preserving confidentiality in
    multivariate data" (JSPI 27(3), 1991). Correlations between the columns are preserved, and all variances grow
    by the same share. The noise of a row in all these columns is derived from the same secret draws. Like ``noise``,
    it is a whole number of grid steps.
    """

    name = "correlated-noise"
    title = "numbers of several columns changed by noise of the same correlations"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = NOISE_ADDITION

    share: float = Field(
        gt=0, le=10, allow_inf_nan=False, description="variance of the noise as a share of the numbers' variance"
    )
    columns: tuple[str, ...] = Field(
        min_length=1,
        description="the other columns of numbers; each has the same technique, with this column among its columns",
    )
    decimals: int = Field(default=0, ge=0, le=MOST_DECIMALS, description="decimals of published numbers")
    edges: Literal["clamp", "reflect"] | None = Field(
        default=None,
        description="treatment of numbers outside the domain that a taxonomy of intervals declares: clamp sets them to "
        "the bound, reflect mirrors them at it",
    )

    @property
    def needs(self) -> tuple[str, ...]:
        return self.columns

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        others = join_words([code(name) for name in entry["columns"]])
        return (
            f"{Noise.explain(entry)} The noise is correlated with the noise of {others} as the numbers are, and has "
            f"{100 * entry['share']:.6g}% of their variance."
        )

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Noise.trace(entry)

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        shares = ", ".join(f"{1 + entry['share']:.6g} for {name}" for name, entry in entries.items())
        advice = "- Correlated noise preserves means, and correlations between the columns that have it; variances and "
        return [f"{advice}covariances are too large: divide them by {shares}."]

    def check_others(self, column: str, techniques: Mapping[str, Technique]) -> None:
        """Refuse columns that do not all declare the same share and set; their noise would not be correlated."""
        every = {column, *self.columns}
        for name in self.columns:
            other = techniques.get(name)
            same = isinstance(other, CorrelatedNoise) and ({name, *other.columns}, other.share) == (every, self.share)
            if not same:
                raise PolicyError(
                    f"column {column!r}: correlated-noise with {name!r} needs the same technique on that column, with "
                    "the same share and all the other columns"
                )

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
        names = sorted({column, *self.columns})
        numbers = read_numbers(source, names)
        complete = np.isfinite(numbers).all(axis=1)
        if int(complete.sum()) <= len(names):
            raise InputError(f"column {column!r}: too few records have numbers in all of {', '.join(map(repr, names))}")
        spreads = numbers[complete].std(axis=0)
        constant = [name for name, spread in zip(names, spreads, strict=True) if spread == 0]
        if constant:
            raise InputError(
                f"column {constant[0]!r} has only one number, so no noise can be proportional to its variance"
            )
        own = names.index(column)
        deviation = float(f"{np.sqrt(self.share) * spreads[own]:.3g}")
        try:
            plain = Noise(gaussian=Gaussian(sd=deviation), decimals=self.decimals, edges=self.edges, **domain.ends)
        except ValidationError as error:
            raise PolicyError(f"column {column!r}: {error.errors()[0]['msg'].removeprefix('Value error, ')}") from None
        noise = plain.prepare(column, source, chance, domain)
        said = {**noise.said, "technique": self.name, "share": self.share, "columns": list(self.columns)}
        purpose = f"{self.name} {self.share!r} {names!r}"
        randoms = tuple(RowRandom(chance.common(f"{purpose} {place}")) for place in range(len(names)))
        loadings = find_loadings(correlate(numbers[complete]))[own]
        parts = {each.name: getattr(noise, each.name) for each in fields(NoiseTreatment)}
        return CorrelatedTreatment(**{**parts, "said": said}, randoms=randoms, loadings=loadings)


def find_loadings(correlations: FloatArray) -> FloatArray:
    """Return (n, n) a matrix that maps independent numbers of variance 1 to numbers with these correlations.

    >>> loadings = find_loadings(np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> bool(np.allclose(loadings @ loadings.T, [[1.0, 0.5], [0.5, 1.0]]))
    True
    """
    values, vectors = np.linalg.eigh(correlations)  # linearly dependent columns have eigenvalues of 0
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


@dataclass(frozen=True, slots=True, eq=False)
class CorrelatedTreatment(NoiseTreatment):
    """Noise of one column, derived from draws that several columns share."""

    randoms: tuple[RowRandom, ...]  # of independent draws
    loadings: FloatArray  # (n_draws,) the weight of each draw in this column's noise

    def draw(self, first_row: int, n_rows: int) -> IntArray:
        total = np.zeros(n_rows)
        for random, loading in zip(self.randoms, self.loadings.tolist(), strict=True):
            total += loading * random.draw(first_row, n_rows, normal)
        return np.rint(self.width * total).astype(np.int64)

"""The analysis of a received release: typed columns, and random tables that agree with it.

A label is a range or a set of values, and a method chooses labels by the values: records with a wide label are not a
random sample of all records. So the distribution of the values under a label is not estimated from other labels. A
table that agrees with the release has for every record a value under its label. The values come from a distribution
that is itself random for each table: in a range, they lean to one end or the other, in the same way for all ranges of a
column; in a set, the shares of values can be anything from 0 to 1. The variation among several tables then reflects the
uncertainty, and Rubin's rules (1987) combine the estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import FloatArray
from shoal.core.errors import UsageError, VerificationError
from shoal.manifest import Manifest
from shoal.release.covers import Cover, LabelColumn, read_numbers
from shoal.release.published import PublishedRelease
from shoal.release.sliced.estimating import SlicedData
from shoal.release.sliced.table import SlicedTable
from shoal.verify.result import Verification
from shoal.verify.verifier import verify

_LEAN = 8.0  # in 95 of 100 tables the mean of a range's values lies between 0.27 and 0.73 of its width


@dataclass(frozen=True, eq=False)
class ReceivedRelease:
    """A verified release, read for analysis.

    ``rows`` are the published rows, ``verification`` is the result of all checks.
    """

    rows: pa.Table
    stated: Manifest
    verification: Verification

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest as a dictionary, with the values of all labels listed."""
        return self.stated.document

    @cached_property
    def table(self) -> pa.Table:
        """The rows with typed columns: labels are categories, followed by the bounds of numbers and dates.

        ``age_from`` and ``age_below`` (excluded) are the bounds, ``age_mid`` is their middle. Open bounds are missing.
        """
        columns: dict[str, pa.ChunkedArray | pa.Array] = {}
        for name in self.rows.column_names:
            columns[name] = self.rows.column(name)
            if self.labels(name):
                columns[name], labels = self._encode(columns[name], name)
                if labels.kind in ("number", "date"):
                    columns |= _bounds(labels, columns[name].indices)
        return pa.table(columns)

    def _encode(self, column: pa.ChunkedArray, name: str) -> tuple[pa.DictionaryArray, LabelColumn]:
        coded = column.combine_chunks().dictionary_encode()
        return coded, LabelColumn.of(self.stated.attributes[name], coded.dictionary.to_pylist(), "the release")

    def labels(self, name: str) -> Mapping[str, Cover]:
        """Return the cover of each label of a column: ``values``, ``prefixes``, ``from`` with ``below``, ``any``."""
        return self.stated.attributes[name].covers if name in self.stated.attributes else {}

    @property
    def slices(self) -> SlicedData:
        """A sliced release, for estimates across its parts; other releases are refused."""
        return SlicedData(SlicedTable.of(self.rows, self.stated.parts), self.stated)

    def draw(
        self, n: int = 20, seed: int | None = None, domains: Mapping[str, tuple[float, float]] | None = None
    ) -> list[pa.Table]:
        """Draw tables that agree with the release: every record has a value under its label.

        Parameters
        ----------
        n
            How many tables.
        seed
            Makes the tables repeatable.
        domains
            The smallest and the largest number of a column. Labels with an open end have missing values without it.

        Returns
        -------
        list of pyarrow.Table
            Labels of text prefixes stay labels. Parts of buckets are linked at random. Synthetic rows have none, so
            all their tables are equal.
        """
        if n < 1:
            raise UsageError("at least one table must be drawn")
        rng = np.random.default_rng(seed)
        sliced = self.slices if len(self.stated.parts) > 1 else None
        return [
            self._draw(self.rows if sliced is None else sliced.sample_table(rng), rng, domains or {}) for _ in range(n)
        ]

    def _draw(self, table: pa.Table, rng: np.random.Generator, domains: Mapping[str, tuple[float, float]]) -> pa.Table:
        for place, name in enumerate(table.column_names):
            labels = self.labels(name)
            if not labels or any("prefixes" in cover or "through" in cover for cover in labels.values()):
                continue
            coded, column = self._encode(table.column(name), name)
            if column.kind in ("number", "date"):
                drawn = _draw_numbers(column, coded.indices, domains.get(name), rng)
            else:
                drawn = _draw_categories(labels.values(), column.covers, coded.indices, rng)
            table = table.set_column(place, name, drawn)
        return table


@dataclass(frozen=True, slots=True)
class CombinedEstimate:
    """An estimate from several drawn tables, with an interval that includes the uncertainty of labels."""

    value: float
    error: float  # the standard error
    low: float
    high: float
    unknown: float  # the share of the variance due to the release's labels


def read_release(folder: str | Path) -> ReceivedRelease:
    """Verify a received release and read it for analysis.

    Parameters
    ----------
    folder
        The folder of the release, or the public folder in it.

    Raises
    ------
    VerificationError
        If the release fails a check.

    Examples
    --------
    >>> import shoal
    >>> people = pa.table({"age": [31, 32, 46, 47], "illness": ["flu", "cold", "flu", "cold"]})
    >>> ages = {"intervals": {"min": 0, "max": 99, "widths": [10]}}
    >>> policy = {"attributes": {"age": {"role": "quasi", "taxonomy": ages}, "illness": {"role": "sensitive"}},
    ...           "privacy": [{"k-anonymity": {"k": 2}}]}
    >>> _ = shoal.anonymize(people, policy, out=getfixture("tmp_path") / "out")
    >>> received = shoal.read_release(getfixture("tmp_path") / "out")
    >>> sorted(received.table.column("age_mid").to_pylist())
    [35.0, 35.0, 45.0, 45.0]
    >>> all(30 <= age < 50 for age in received.draw(1)[0].column("age").to_pylist())
    True
    """
    found = PublishedRelease.open(folder)
    verification = verify(found.folder or folder)
    if not verification.verified:
        raise VerificationError(f"{folder} was not read: " + "; ".join(verification.objections))
    return ReceivedRelease(found.read_rows(), found.manifest, verification)


def combine_estimates(
    values: Sequence[float], variances: Sequence[float], confidence: float = 0.95
) -> CombinedEstimate:
    """Combine estimates from drawn tables by Rubin's rules.

    Parameters
    ----------
    values, variances
        An estimate and its squared error for each of at least two tables.
    confidence
        The probability with which the interval contains the true value.

    Examples
    --------
    >>> found = combine_estimates([10.0, 12.0, 11.0], [1.0, 1.0, 1.0])
    >>> found.value, round(found.error, 3), round(found.low, 2), round(found.high, 2)
    (11.0, 1.528, 7.28, 14.72)
    """
    from scipy.special import stdtrit  # slow to load

    given, within = np.asarray(values, dtype=np.float64), float(np.mean(variances))
    m = len(given)
    if m < 2 or len(variances) != m:
        raise UsageError("give one variance for each estimate, and at least two of them")
    if not 0 < confidence < 1:
        raise UsageError("confidence must lie between 0 and 1")
    between = (1 + 1 / m) * float(given.var(ddof=1))
    total = within + between
    degrees = (m - 1) * (total / between) ** 2 if between > 0 else math.inf
    t = float(stdtrit(min(degrees, 1e9), (1 + confidence) / 2))
    value, error = float(given.mean()), math.sqrt(total)
    return CombinedEstimate(value, error, value - t * error, value + t * error, between / total if total else 0.0)


def _bounds(column: LabelColumn, indices: pa.Array) -> dict[str, pa.Array]:
    """Return the bounds of each row's label and their middle, as numbers or dates."""
    low, high = _ends(column).T
    whole = pa.date32() if column.kind == "date" else None

    def spread(values: FloatArray) -> pa.Array:
        given = pa.array(values, pa.float64(), from_pandas=True)
        typed = given if whole is None else pc.floor(given).cast(pa.int32()).cast(whole)
        return typed.take(indices)

    name, middle = column.name, (low + high) / 2
    return {f"{name}_from": spread(low), f"{name}_below": spread(high), f"{name}_mid": spread(middle)}


def _ends(column: LabelColumn) -> FloatArray:
    """Return (n_labels, 2) the bounds of labels, the upper one excluded; NaN if open. A single value has width 0."""
    ends = column.spans
    listed = np.array(["values" in cover for cover in column.covers], dtype=np.bool_)
    ends[listed, 1] = np.nextafter(ends[listed, 1], -np.inf)
    return np.where(np.isfinite(ends), ends, np.nan)


def _draw_numbers(
    column: LabelColumn, indices: pa.Array, domain: tuple[float, float] | None, rng: np.random.Generator
) -> pa.Array:
    """Draw a number or a date under each row's label; it is missing if a bound is unknown."""
    kind, bounds = column.kind, _ends(column)
    outer = [None, None] if domain is None else [None if end is None else str(end) for end in domain]
    bounds[["missing" in cover for cover in column.covers]] = np.nan
    is_open = np.array(["any" in cover or "from" in cover for cover in column.covers], dtype=np.bool_)[:, np.newaxis]
    bounds = np.where(np.isnan(bounds) & is_open, read_numbers(outer, kind), bounds)
    low, high = bounds[indices.fill_null(0).to_numpy(zero_copy_only=False)].T
    lean = float(rng.beta(_LEAN, _LEAN))
    drawn = low + rng.beta(2 * lean, 2 * (1 - lean), len(low)) * (high - low)
    whole = bool(np.all(bounds[~np.isnan(bounds)] % 1 == 0))
    known = ~np.isnan(drawn) & indices.is_valid().to_numpy(zero_copy_only=False)
    numbers = np.where(known, np.minimum(np.floor(drawn), np.maximum(high - 1, low)) if whole else drawn, 0.0)
    typed = pa.array(numbers, mask=~known)
    if kind == "date":
        return typed.cast(pa.int32()).cast(pa.date32())
    return typed.cast(pa.int64()) if whole else typed


def _draw_categories(
    declared: Iterable[Cover], covers: Sequence[Cover], indices: pa.Array, rng: np.random.Generator
) -> pa.Array:
    """Draw a value under each row's label; a label of all values can have any listed value."""
    every = list(dict.fromkeys(str(value) for cover in declared for value in cover.get("values", ())))
    place = {value: number for number, value in enumerate(every)}
    chosen = np.full(len(indices), -1, dtype=np.int64)
    row_label = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for number, cover in enumerate(covers):  # few labels, many rows
        rows = np.flatnonzero(row_label == number)
        under = range(len(every)) if cover.get("any") else [place[str(value)] for value in cover.get("values", ())]
        if len(under):
            chosen[rows] = rng.choice(np.asarray(under), len(rows), p=rng.dirichlet(np.ones(len(under))))
    return pa.array(every, pa.string()).take(pa.array(chosen, mask=chosen < 0))

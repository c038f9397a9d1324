"""What somebody who received a release can do with it: typed columns, and tables drawn to agree with what is published.

A label stands for a range or a set of values, and a method chooses labels by the values: records that share a wide
label are not a random sample of all records. So nothing about the values under a label is learned from other labels. A
table that agrees with the release has for every record a value under its label, drawn from a distribution that is
itself drawn anew for every table: the values of a range lean to one end or the other, the same way in all ranges of a
column; the shares of a set's values are anything from 0 to 1. Several tables then differ as much as what is unknown
makes them differ, and Rubin's rules (1987) combine what is computed from each.
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
    """A release that the verifier accepted, read for analysis.

    ``rows`` are the published rows, ``manifest`` is what they are said to be, ``verification`` what was checked.
    """

    rows: pa.Table
    stated: Manifest
    verification: Verification

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """The manifest as it is written, with the values of all labels listed."""
        return self.stated.document

    @cached_property
    def table(self) -> pa.Table:
        """The rows with typed columns: labels are categories, and a labelled number or date has its bounds beside it.

        ``age_from`` and ``age_below`` are the bounds, the upper one excluded, ``age_mid`` lies between them. Bounds
        that a label leaves open are missing.
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
        """Return a column of labels as a dictionary, and the covers of its entries."""
        coded = column.combine_chunks().dictionary_encode()
        return coded, LabelColumn.of(self.stated.attributes[name], coded.dictionary.to_pylist(), "the release")

    def labels(self, name: str) -> Mapping[str, Cover]:
        """Return what each label of a column stands for: ``values``, ``prefixes``, ``from`` with ``below``, ``any``."""
        return self.stated.attributes[name].covers if name in self.stated.attributes else {}

    @property
    def slices(self) -> SlicedData:
        """The buckets of a sliced release, for estimates across its parts; other releases are refused."""
        return SlicedData(SlicedTable.of(self.rows, self.stated.parts), self.stated)

    def draw(
        self, n: int = 20, seed: int | None = None, domains: Mapping[str, tuple[float, float]] | None = None
    ) -> list[pa.Table]:
        """Draw tables that agree with what is published: every record has a value under its label.

        A label of all numbers, or one without an end, has no bounds: *domains* gives the least and the largest number
        that a column can have, and without it such values are missing. Labels that only tell how a text begins stay
        labels. Parts of buckets are linked at random. Synthetic rows have no labels: all tables are the same.
        """
        if n < 1:
            raise UsageError("at least one table must be drawn")
        rng = np.random.default_rng(seed)
        sliced = self.slices if len(self.stated.parts) > 1 else None
        return [
            self._draw(self.rows if sliced is None else sliced.sample_table(rng), rng, domains or {}) for _ in range(n)
        ]

    def _draw(self, table: pa.Table, rng: np.random.Generator, domains: Mapping[str, tuple[float, float]]) -> pa.Table:
        """Put values in the place of labels."""
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
    """An estimate from several drawn tables, with an interval that counts what the labels leave open."""

    value: float
    error: float  # the standard error
    low: float
    high: float
    unknown: float  # the share of the variance that the release's labels cause


def read_release(folder: str | Path) -> ReceivedRelease:
    """Verify a release that one received, and read it for analysis; one that fails is refused.

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
    """Combine what was computed from each drawn table by Rubin's rules: the estimates, and their squared errors.

    >>> found = combine_estimates([10.0, 12.0, 11.0], [1.0, 1.0, 1.0])
    >>> found.value, round(found.error, 3), round(found.low, 2), round(found.high, 2)
    (11.0, 1.528, 7.28, 14.72)
    """
    from scipy.special import stdtrit  # loads where it is used

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
    """Return the bounds of each row's label and the value between them, as numbers or dates."""
    low, high = _ends(column).T
    whole = pa.date32() if column.kind == "date" else None

    def spread(values: FloatArray) -> pa.Array:
        given = pa.array(values, pa.float64(), from_pandas=True)
        typed = given if whole is None else pc.floor(given).cast(pa.int32()).cast(whole)
        return typed.take(indices)

    name, middle = column.name, (low + high) / 2
    return {f"{name}_from": spread(low), f"{name}_below": spread(high), f"{name}_mid": spread(middle)}


def _ends(column: LabelColumn) -> FloatArray:
    """Return (n_labels, 2) the bounds of labels, the upper one excluded; NaN if open. A single value has no width."""
    ends = column.spans
    listed = np.array(["values" in cover for cover in column.covers], dtype=np.bool_)
    ends[listed, 1] = np.nextafter(ends[listed, 1], -np.inf)
    return np.where(np.isfinite(ends), ends, np.nan)


def _draw_numbers(
    column: LabelColumn, indices: pa.Array, domain: tuple[float, float] | None, rng: np.random.Generator
) -> pa.Array:
    """Draw a number or a date under each row's label; missing where a bound is not known."""
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
    """Draw a value under each row's label; a label of all values takes those that some label names."""
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

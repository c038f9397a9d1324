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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.errors import InputError, UsageError, VerificationError
from shoal.release.release import find_release
from shoal.release.sliced.estimating import SlicedData
from shoal.release.sliced.table import SlicedTable, list_parts, read_published
from shoal.verify.result import Verification
from shoal.verify.verifier import verify

_LEAN = 8.0  # in 95 of 100 tables the mean of a range's values lies between 0.27 and 0.73 of its width


@dataclass(frozen=True, eq=False)
class ReceivedRelease:
    """A release that the verifier accepted, read for analysis.

    ``rows`` are the published rows, ``manifest`` is what they are said to be, ``verification`` what was checked.
    """

    rows: pa.Table
    manifest: Mapping[str, Any]
    verification: Verification

    @cached_property
    def table(self) -> pa.Table:
        """The rows with typed columns: labels are categories, and a labelled number or date has its bounds beside it.

        ``age_from`` and ``age_below`` are the bounds, the upper one excluded, ``age_mid`` lies between them. Bounds
        that a label leaves open are missing.
        """
        columns: dict[str, Any] = {}
        for name in self.rows.column_names:
            values, labels = self.rows.column(name), self.labels(name)
            if not labels:
                columns[name] = values
                continue
            coded = values.combine_chunks().dictionary_encode()
            columns[name] = coded
            if self.manifest["attributes"][name]["kind"] in ("number", "date"):
                covers = [labels.get(str(label), {}) for label in coded.dictionary.to_pylist()]
                columns |= _bounds(name, covers, coded.indices, self.manifest["attributes"][name]["kind"])
        return pa.table(columns)

    def labels(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return what each label of a column stands for: ``values``, ``prefixes``, ``from`` with ``below``, ``any``."""
        found: Mapping[str, Mapping[str, Any]] = self.manifest["attributes"].get(name, {}).get("labels", {})
        return found

    @property
    def slices(self) -> SlicedData:
        """The buckets of a sliced release, for estimates across its parts; other releases are refused."""
        list_parts(self.manifest)  # refuses what is not sliced
        return SlicedData(SlicedTable.of(self.rows, self.manifest), self.manifest)

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
        sliced = self.slices if len(self.manifest["parts"]) > 1 else None
        return [
            self._draw(self.rows if sliced is None else sliced.sample_table(rng), rng, domains or {}) for _ in range(n)
        ]

    def _draw(self, table: pa.Table, rng: np.random.Generator, domains: Mapping[str, tuple[float, float]]) -> pa.Table:
        """Put values in the place of labels."""
        for place, name in enumerate(table.column_names):
            labels = self.labels(name)
            if not labels or any("prefixes" in cover or "through" in cover for cover in labels.values()):
                continue
            kind, coded = (
                self.manifest["attributes"][name]["kind"],
                table.column(name).combine_chunks().dictionary_encode(),
            )
            covers = [labels.get(str(label), {}) for label in coded.dictionary.to_pylist()]
            if kind in ("number", "date"):
                drawn = _draw_numbers(covers, coded.indices, kind, domains.get(name), rng)
            else:
                drawn = _draw_categories(labels, covers, coded.indices, rng)
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
    found = find_release(Path(folder))
    if found is None:
        raise InputError(f"{folder} has no manifest.json, nor has its folder public; give the folder of a release")
    place, manifest = found
    verification = verify(place)
    if not verification.verified:
        raise VerificationError(f"{folder} was not read: " + "; ".join(verification.objections))
    rows = read_published(place / Path(str(manifest["data"]["file"])).name, manifest)
    return ReceivedRelease(rows, manifest, verification)


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


def _bounds(name: str, covers: Sequence[Mapping[str, Any]], indices: pa.Array, kind: str) -> dict[str, pa.Array]:
    """Return the bounds of each row's label and the value between them, as numbers or dates."""
    ends = [_ends(cover, kind) for cover in covers]
    whole = pa.date32() if kind == "date" else None

    def spread(values: list[float | None]) -> pa.Array:
        given = pa.array(values, pa.float64())
        typed = given if whole is None else pc.floor(given).cast(pa.int32()).cast(whole)
        return typed.take(indices)

    middle = [None if low is None or high is None else (low + high) / 2 for low, high in ends]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    return {f"{name}_from": spread(lows), f"{name}_below": spread(highs), f"{name}_mid": spread(middle)}


def _ends(cover: Mapping[str, Any], kind: str) -> tuple[float | None, float | None]:
    """Return the bounds of a label, the upper one excluded; a single value has no width."""
    if "from" in cover:
        return _place(cover["from"], kind), _place(cover.get("below"), kind)
    values = [_place(value, kind) for value in cover.get("values", ())]
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known and len(known) == len(values) else (None, None)


def _place(value: Any, kind: str) -> float | None:
    """Return a number, or the day of a date since 1970; None for what is neither."""
    try:
        return (
            None if value is None else float(np.datetime64(value, "D").astype(int)) if kind == "date" else float(value)
        )
    except (TypeError, ValueError):
        return None


def _draw_numbers(
    covers: Sequence[Mapping[str, Any]],
    indices: pa.Array,
    kind: str,
    domain: tuple[float, float] | None,
    rng: np.random.Generator,
) -> pa.Array:
    """Draw a number or a date under each row's label; missing where a bound is not known."""
    outer = (None, None) if domain is None else (_place(domain[0], kind), _place(domain[1], kind))
    ends = np.array([_ends(cover, kind) if "missing" not in cover else (None, None) for cover in covers], dtype=object)
    open_ended = np.array([bool(cover.get("any") or "from" in cover) for cover in covers])
    for side in (0, 1):
        ends[:, side] = [
            outer[side] if end is None and is_open else end
            for end, is_open in zip(ends[:, side], open_ended, strict=True)
        ]
    bounds = ends.astype(np.float64)  # None becomes NaN
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
    labels: Mapping[str, Mapping[str, Any]],
    covers: Sequence[Mapping[str, Any]],
    indices: pa.Array,
    rng: np.random.Generator,
) -> pa.Array:
    """Draw a value under each row's label; a label of all values takes those that some label names."""
    every = list(dict.fromkeys(str(value) for cover in labels.values() for value in cover.get("values", ())))
    place = {value: number for number, value in enumerate(every)}
    chosen = np.full(len(indices), -1, dtype=np.int64)
    row_label = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for number, cover in enumerate(covers):  # few labels, many rows
        rows = np.flatnonzero(row_label == number)
        under = range(len(every)) if cover.get("any") else [place[str(value)] for value in cover.get("values", ())]
        if len(under):
            chosen[rows] = rng.choice(np.asarray(under), len(rows), p=rng.dirichlet(np.ones(len(under))))
    return pa.array(every, pa.string()).take(pa.array(chosen, mask=chosen < 0))

"""Interval disclosure and distance-based record linkage: how much changed numbers reveal about the original ones.

Published rows are in random order, but until they are written their places in the source are known. So the published
numbers are compared with the original numbers of the same records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.audit.marginals import RowSample, take_rows
from shoal.columns.base import TreatedSource, read_traces
from shoal.columns.numbers import column_numbers
from shoal.core.arrays import FloatArray, IntArray
from shoal.core.errors import InputError
from shoal.core.kernels import same_rows
from shoal.core.wording import join_words, percent
from shoal.manifest import Manifest
from shoal.policy.policy import Policy
from shoal.release.witness import ROW
from shoal.sources.base import Source, layers

WIDTHS = (5, 10)  # of intervals, in percent of the ranks or of the standard deviation
MOST_RECORDS = 250_000  # that are compared
MOST_TRIALS = 10_000  # records that are linked
HIGH_LINKED, HIGH_SHARE = 0.1, 0.5  # shares of records from which the terminal mentions linkage and intervals
_FAR = 1e3  # standard deviations between a number and a missing one
_ROUNDING = 1 + 1e-12  # distances with a smaller ratio are equal


@dataclass(slots=True)
class ChangedNumbers:
    """The columns of a release whose numbers a technique or averaging changed, and a sample of their rows.

    Columns of labels are left out because labels contain the original numbers, and so are tokens and dates.
    """

    names: list[str]
    rows: RowSample = field(default_factory=lambda: RowSample(MOST_RECORDS))

    @classmethod
    def of(cls, policy: Policy, manifest: Manifest) -> ChangedNumbers:
        """List the columns; texts without a declared taxonomy are included, because they may be numbers."""
        traces, found = read_traces(manifest.techniques), []
        for name, attribute in manifest.attributes.items():
            quasi = attribute.role == "quasi"
            changed = not traces[name].tokens if name in traces else quasi and policy.method.averages
            number = attribute.kind == "number" or (not quasi and policy.attributes[name].taxonomy is None)
            found += [name] if changed and number and not attribute.boxed else []
        return cls(found)

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on rows whose last column is their place in the source."""
        for batch in batches:
            if self.names:
                self.rows.add(batch.select([*self.names, ROW]))
            yield batch

    def measure(self, source: Source) -> dict[str, object] | None:
        """Compare with the rows of the *source* before techniques; None if no number was changed."""
        if not self.rows.n_rows:
            return None
        table = self.rows.table().sort_by(ROW)
        places = table.column(ROW).to_numpy()
        before = next((layer.given for layer in layers(source) if isinstance(layer, TreatedSource)), source)
        taken = pa.Table.from_batches(take_rows(before, self.names, places, coded=False))
        numbers: dict[str, tuple[FloatArray, FloatArray]] = {}
        for name in self.names:
            with suppress(InputError):  # other values than numbers
                both = taken.column(name), table.column(name)
                given, shown = (column_numbers(each.combine_chunks(), name) for each in both)
                if (given[1] & shown[1]).any():
                    numbers[name] = np.where(given[1], given[0], np.nan), np.where(shown[1], shown[0], np.nan)
        if not numbers:
            return None
        rng, counts = np.random.default_rng(0), {"records": len(places), "of_records": self.rows.n_rows}
        intervals = {name: disclose_intervals(*pair, rng) for name, pair in numbers.items()}
        return {**counts, "intervals": intervals, "linkage": link_records(numbers, rng)}


def disclose_intervals(given: FloatArray, published: FloatArray, rng: np.random.Generator) -> list[dict[str, float]]:
    """Return the shares of records whose original number is in an interval of each width around the published one.

    Rank-based (Domingo-Ferrer and Torra, "A quantitative comparison of disclosure control methods for microdata",
    2001): the interval has the numbers whose ranks differ from the published number's by at most half of the width;
    equal numbers have their mean rank. Based on the standard deviation of the published numbers (SDID of Mateo-Sanz,
    Sebe and Domingo-Ferrer, "Outlier protection in continuous microdata masking", PSD 2004): half of the width to
    either side, which sdcMicro's ``dRisk`` calls k. Chance uses the interval of a random record instead.

    >>> found, _ = disclose_intervals(np.arange(40.0), np.arange(40.0) + 1, np.random.default_rng(1))
    >>> found["rank_based"], found["sd_based"]
    (0.975, 0.0)
    """
    some = ~np.isnan(given + published)
    own, shown = given[some], published[some]
    values, which, counts = np.unique(shown, return_inverse=True, return_counts=True)
    in_order, rank = np.repeat(values, counts), np.cumsum(counts) - (counts + 1) / 2  # (n_values,) from 0 on
    rows = {"": np.arange(len(shown)), "_chance": rng.permutation(len(shown))}
    found = []
    for width in WIDTHS:
        reach, half = width / 200 * len(shown), width / 200 * shown.std()
        low = in_order[np.maximum(np.ceil(rank - reach), 0).astype(np.int64)][which]
        high = in_order[np.minimum(np.floor(rank + reach), len(shown) - 1).astype(np.int64)][which]
        by_rank = {f"rank_based{key}": ((low[row] <= own) & (own <= high[row])).mean() for key, row in rows.items()}
        by_sd = {f"sd_based{key}": (np.abs(own - shown[row]) <= half).mean() for key, row in rows.items()}
        found.append({"width": width, **{key: float(share) for key, share in {**by_rank, **by_sd}.items()}})
    return found


def link_records(numbers: Mapping[str, tuple[FloatArray, FloatArray]], rng: np.random.Generator) -> dict[str, object]:
    """Return how often the published record nearest to the original numbers is the right one, or the second one is.

    *numbers* are the original and the published ones of each column. Distance-based record linkage as in the paper
    above: Euclidean distances of numbers divided by the standard deviation of the published ones. Records that lack the
    same number are near each other. Ties are broken at random.

    >>> given, published = np.array([20.0, 30.0, 40.0]), np.array([20.0, 40.0, 40.0])
    >>> found = link_records({"age": (given, published)}, np.random.default_rng(1))
    >>> round(found["nearest"], 3), round(found["two_nearest"], 3)
    (0.611, 0.889)
    """
    from scipy.spatial import cKDTree  # slow to load

    spread = [np.nanstd(shown) or 1.0 for _, shown in numbers.values()]
    scaled = (np.stack(columns, axis=1) / spread for columns in zip(*numbers.values(), strict=True))
    given, shown = (np.hstack([np.nan_to_num(each), _FAR * np.isnan(each)]) for each in scaled)
    first, group = same_rows([np.unique(column, return_inverse=True)[1] for column in shown.T])
    records, tree = np.bincount(group), cKDTree(shown[first])  # equal published records are one point
    trials = rng.permutation(len(shown))[:MOST_TRIALS]
    known, own = given[trials], np.sqrt(((given[trials] - shown[trials]) ** 2).sum(axis=1))
    distance = tree.query(known, k=[1, 2])[0] * _ROUNDING  # (n_trials, 2) of points; infinite if there is only one

    def count(which: IntArray, point: int) -> IntArray:
        near = tree.query_ball_point(known[which], distance[which, point])
        return np.array([records[points].sum() for points in near])

    n_nearest = count(np.arange(len(trials)), 0)
    nearest = np.where(own <= distance[:, 0], 1 / n_nearest, 0.0)
    two = np.minimum(2 * nearest, 1.0)
    second = np.flatnonzero((n_nearest == 1) & (nearest == 0) & (own <= distance[:, 1]))
    two[second] = 1 / (count(second, 1) - 1)
    shares = {"nearest": float(nearest.mean()), "two_nearest": float(two.mean()), "chance": 1 / len(shown)}
    return {"columns": list(numbers), "trials": len(trials), "candidates": len(shown), **shares}


def describe_linkage(found: Mapping[str, Any]) -> str:
    """Describe how often an attacker with the original numbers finds the published record."""
    nearest, two, chance = (percent(found[share]) for share in ("nearest", "two_nearest", "chance"))
    who = f"For {nearest} of {found['trials']:,} records, the published record nearest to their original"
    said = f"{who} {join_words(found['columns'])} is their own (one of the two nearest: {two}; by chance: {chance})."
    return said if len(found["columns"]) > 1 else f"{said} One number alone links poorly; with others it may link well."


def describe_high(found: Mapping[str, Any], manifest: Manifest) -> list[str]:
    """Describe high linkage, and high interval disclosure of columns that are not quasi."""
    linkage = found["linkage"]
    said = [describe_linkage(linkage)] if linkage["nearest"] >= max(HIGH_LINKED, 2 * linkage["chance"]) else []
    unknown = {name: one[0] for name, one in found["intervals"].items() if name not in manifest.names("quasi")}
    shares = {name: (one["rank_based"], one["rank_based_chance"]) for name, one in unknown.items()}
    high = [f"{name} ({percent(own)})" for name, (own, other) in shares.items() if own >= max(HIGH_SHARE, 2 * other)]
    interval = f"in the interval of {WIDTHS[0]}% of the ranks around the published number"
    return [*said, f"Most original numbers lie {interval}: {join_words(high)}."] if high else said

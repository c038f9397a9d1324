"""Estimates from the buckets of a sliced release, without linking its parts.

Let a bucket have n records, and let each part be a list of n numbers: the factors that its entries contribute to the
answer (1 or 0 for a condition, the amount for a sum). A linking puts the lists side by side; its answer is the sum over
rows of the product. If all linkings are equally likely, a row has a random entry of each part, and two rows have two
different random entries, independently for the parts. So with mu, V the mean and variance of a part's numbers,

    E[answer]   = n prod mu,
    E[answer^2] = n prod (mu^2 + V) + n (n - 1) prod (mu^2 - V / (n - 1)),

for any number of parts; for two conditions this is the hypergeometric distribution. An entry under a label that the
condition cuts is itself a random 0 or 1, with the mean variance N, which adds N to mu^2 + V. Buckets are independent.
The differences are accumulated part by part, so no large squares are subtracted.

If parts share attributes, two parts are linked at random within a bucket among rows with the same shared values.
Linkings of different pairs of parts are independent, so the expected answer comes from means that each part passes on
to the one it is linked to, by groups of bucket and shared values. The variance is added up link by link, by the law of
total variance: given the earlier links, a link of n records of a group adds n^2 / (n - 1) V(before) V(part), as for two
parts. V(before) is itself random if parts were linked before; its mean is at most the mean square minus the squared
mean, which is used instead. So the error is exact for two parts, and an upper bound for more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.manifest import Attribute, Manifest
from shoal.plan.slices import Link
from shoal.release.published import PublishedRelease
from shoal.release.release import Release
from shoal.release.sliced import table as tables
from shoal.release.sliced.query import Estimate, PartMoments, Query, part_moments

MOST_COMBINATIONS = 1 << 26


def estimate_query(table: tables.SlicedTable, attributes: Mapping[str, Attribute], query: Query) -> Estimate | pa.Table:
    """Answer a query with its expected error; with `by`, return a table of the groups with both columns.

    *attributes* are the manifest's. Impossible groups are not listed. If one part has all attributes of the query, the
    answer is exact and its error is 0.

    >>> rows = pa.table({"bucket": [1, 1, 1, 1], "sex": ["F", "F", "M", "M"], "ill": ["flu", "flu", "flu", "gout"]})
    >>> sliced = tables.SlicedTable.of(rows, [["sex"], ["ill"]])
    >>> attributes = {name: Attribute(name=name, role="quasi", kind="category") for name in sliced.names}
    >>> estimate_query(sliced, attributes, Query(where={"sex": "F", "ill": "flu"}))
    Estimate(value=1.5, error=0.5)
    >>> estimate_query(sliced, attributes, Query(by="ill")).to_pydict()
    {'ill': ['flu', 'gout'], 'value': [3.0, 1.0], 'error': [0.0, 0.0]}
    """
    query.check(table.names)
    parts = tables.find_parts([part.names for part in table.parts], query.attributes)
    moments = part_moments(table, parts, attributes, query)
    if tables.overlap([table.parts[part].names for part in parts]):
        group, value, variance = overlapping_answers(table, moments, MOST_COMBINATIONS)
    else:
        group, value, variance = _answers(table, moments)
    error = np.sqrt(variance)
    if not query.by:
        return Estimate(float(value.sum()), float(math.sqrt(variance.sum())))
    columns = _group_columns(moments, group) | {"value": pa.array(value), "error": pa.array(error)}
    order = [(name, "ascending") for name in query.by]
    return pa.table(columns).select([*query.by, "value", "error"]).sort_by(order)


def _group_columns(moments: list[PartMoments], group: IntArray) -> dict[str, pa.ChunkedArray]:
    """Return the attributes in `by` for these groups, which are numbered part by part."""
    columns: dict[str, pa.ChunkedArray] = {}
    for part in reversed(moments):
        taken = pa.array(group % part.n_groups)
        columns |= {name: part.groups.column(name).take(taken) for name in part.groups.column_names}
        group = group // part.n_groups
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Folded:
    """The terms of the answer's mean and variance after some parts, for each bucket and group."""

    bucket: IntArray  # (n,) ascending
    group: IntArray  # (n,)
    mean: FloatArray  # (n,) product of mu
    spread: FloatArray  # (n,) product of (mu^2 + V + N), minus product of mu^2
    variance: FloatArray  # (n,) of the answer, divided by the bucket's records

    def join(self, table: tables.SlicedTable, part: PartMoments) -> _Folded:
        """Add one more part: combine every group with every group of the part in its bucket.

        Only the part's entries that count have numbers; entries of other groups are 0.
        """
        codes = table.parts[part.part].codes
        rows = np.flatnonzero(part.counts[codes])
        codes, buckets = codes[rows], table.bucket[rows]
        pair, entry = tables.number_rows([buckets, part.group[codes]], len(rows))
        bucket, size = buckets[entry].astype(np.int64), table.sizes[buckets[entry]]  # ascending, as pairs are
        first = np.searchsorted(bucket, self.bucket)
        width = np.searchsorted(bucket, self.bucket, side="right") - first
        if width.sum() > MOST_COMBINATIONS:
            raise UsageError(f"the groups have {width.sum()} combinations in buckets; name fewer attributes in `by`")
        here = np.repeat(np.arange(len(self.bucket)), width)
        there = np.arange(len(here)) - np.repeat(np.cumsum(width) - width, width) + np.repeat(first, width)
        numbers = part.mean[codes]
        mu = np.bincount(pair, weights=numbers) / size
        others = size - np.bincount(pair)
        own = (np.bincount(pair, weights=(numbers - mu[pair]) ** 2) + others * mu**2) / size  # V
        noise = np.maximum(np.bincount(pair, weights=(part.square - part.mean**2)[codes]) / size, 0.0)  # N
        apart = (own / np.maximum(size - 1, 1))[there]  # V / (n - 1), 0 in a bucket of one
        mu, own, noise = mu[there], own[there], noise[there]
        mean, spread, before = self.mean[here], self.spread[here], self.mean[here] ** 2
        return _Folded(
            self.bucket[here],
            self.group[here] * part.n_groups + part.group[codes[entry]].astype(np.int64)[there],
            mean * mu,
            spread * (mu**2 + own + noise) + before * (own + noise),
            self.variance[here] * (mu**2 - apart) + spread * (own + apart + noise) + before * noise,
        )


def _answers(table: tables.SlicedTable, moments: list[PartMoments]) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the groups that occur, with the expected answer and its variance."""
    if math.prod(part.n_groups for part in moments) >= 1 << 62:
        raise UsageError("the attributes in `by` have too many combinations; name fewer")
    n = table.n_buckets
    folded = _Folded(np.arange(n), np.zeros(n, dtype=np.int64), np.ones(n), np.zeros(n), np.zeros(n))
    for part in moments:
        folded = folded.join(table, part)
    size = table.sizes[folded.bucket].astype(np.float64)
    groups, place = np.unique(folded.group, return_inverse=True)
    value, variance = (
        np.bincount(place, weights=size * terms, minlength=len(groups)).astype(np.float64)
        for terms in (folded.mean, folded.variance)
    )
    return groups, value, np.maximum(variance, 0.0)


def overlapping_answers(
    table: tables.SlicedTable, moments: Sequence[PartMoments], most: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the groups that occur, with the expected answer and a bound of its variance."""
    n_groups = [part.n_groups for part in moments]
    if math.prod(n_groups) * table.n_rows > most * len(moments):
        raise UsageError("the attributes in `by` have too many combinations in overlapping parts; name fewer")
    tree = _Tree(table, [part.part for part in moments])
    found = []
    for group in range(math.prod(n_groups)):
        chosen = np.unravel_index(group, n_groups)
        only = [part.within(int(number)) for part, number in zip(moments, chosen, strict=True)]
        value, variance, occurs = tree.answer(only)
        if occurs:
            found.append((group, value, variance))
    columns = zip(*found, strict=True) if found else ((), (), ())
    group_numbers, values, variances = (np.array(column) for column in columns)
    return group_numbers.astype(np.int64), values.astype(np.float64), variances.astype(np.float64)


class _Tree:
    """Parts in an order in which each is linked to an earlier one."""

    def __init__(self, table: tables.SlicedTable, parts: Sequence[int]) -> None:
        links = tables.tree_of([table.parts[part].names for part in parts])
        self._order = [0, *(link.part for link in links)]
        self._parent = {link.part: link.parent for link in links}
        self._keys: dict[int, tuple[CodeArray, CodeArray]] = {}  # (n_rows,) groups by the parent, and by the part
        self._sizes: dict[int, FloatArray] = {}
        for link in links:
            self._keys[link.part] = tables.link_keys(table, Link(parts[link.part], parts[link.parent], link.shared))
            self._sizes[link.part] = np.maximum(np.bincount(self._keys[link.part][1]), 1).astype(np.float64)
        self._codes = [table.parts[part].codes for part in parts]

    def answer(self, moments: Sequence[PartMoments]) -> tuple[float, float, bool]:
        """Return the expected answer, a bound of its variance, and whether any linking has such records."""
        mean = [part.mean[codes] for part, codes in zip(moments, self._codes, strict=True)]
        square = [part.square[codes] for part, codes in zip(moments, self._codes, strict=True)]
        counts = [part.counts[codes].astype(np.float64) for part, codes in zip(moments, self._codes, strict=True)]
        everything = set(self._order)
        if not self._expect(0, counts, everything).any():
            return 0.0, 0.0, False
        means = {part: self._hand_over(part, mean) for part in self._order[1:]}
        later = [self._times(part, np.ones_like(mean[part]), means, everything) for part in range(len(mean))]
        noise = [(s - m**2) * after**2 for m, s, after in zip(mean, square, later, strict=True)]
        value = float((mean[0] * later[0]).sum())
        variance = float(noise[0].sum())
        for place, part in enumerate(self._order[1:], start=1):
            before = set(self._order[:place])
            pending = everything - before - {part}
            rest = [self._times(p, np.ones_like(mean[p]), means, pending) for p in range(len(mean))]
            first = self._expect(self._parent[part], [m * r for m, r in zip(mean, rest, strict=True)], before)
            second = self._expect(self._parent[part], [s * r**2 for s, r in zip(square, rest, strict=True)], before)
            variance += self._add_variance(part, first, second, mean[part] * later[part], noise[part])
        return value, max(variance, 0.0), True

    def _add_variance(
        self, part: int, first: FloatArray, second: FloatArray, numbers: FloatArray, noise: FloatArray
    ) -> float:
        """Return the variance that the link of a part adds; *first*, *second*: moments of the earlier links."""
        above, below = self._keys[part]
        size = self._sizes[part]
        mean_square = _sums(above, second, size) / size
        spread = np.maximum(mean_square - (_sums(above, first, size) / size) ** 2, 0.0)
        mu = _sums(below, numbers, size) / size
        own = _sums(below, (numbers - mu[below]) ** 2, size) / size
        linking = size**2 / np.maximum(size - 1, 1) * spread * own
        return float((linking + mean_square * _sums(below, noise, size)).sum())

    def _hand_over(self, part: int, numbers: Sequence[FloatArray]) -> FloatArray:
        """Return, for each group of a part, the mean of its numbers times the means of its children."""
        children = {child: self._hand_over(child, numbers) for child in self._children(part)}
        total = self._times(part, numbers[part], children, set(children))
        return np.asarray(_sums(self._keys[part][1], total, self._sizes[part]) / self._sizes[part])

    def _times(self, part: int, numbers: FloatArray, means: dict[int, FloatArray], children: set[int]) -> FloatArray:
        for child in self._children(part):
            if child in children:
                numbers = numbers * means[child][self._keys[child][0]]
        return numbers

    def _expect(self, part: int, numbers: Sequence[FloatArray], among: set[int], origin: int = -1) -> FloatArray:
        """Return (n_rows,) the expected product of the numbers of a part's rows and of all parts linked to them."""
        total = numbers[part]
        neighbours = [(child, child, *self._keys[child]) for child in self._children(part)]
        if part in self._parent:
            above, own = self._keys[part]
            neighbours.append((self._parent[part], part, own, above))
        for other, link, here, there in neighbours:
            if other in among and other != origin:
                seen = self._expect(other, numbers, among, part)
                total = total * (_sums(there, seen, self._sizes[link]) / self._sizes[link])[here]
        return total

    def _children(self, part: int) -> list[int]:
        return [child for child, parent in self._parent.items() if parent == part]


def _sums(keys: CodeArray, numbers: FloatArray, like: FloatArray) -> FloatArray:
    return np.bincount(keys, weights=numbers, minlength=len(like)).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class SlicedData:
    """A sliced release, read once for many queries."""

    table: tables.SlicedTable
    stated: Manifest

    @property
    def manifest(self) -> Mapping[str, Any]:

        return self.stated.document

    def estimate(self, query: Query) -> Estimate | pa.Table:
        return estimate_query(self.table, self.stated.attributes, query)

    def sample_table(self, rng: np.random.Generator | int | None = None) -> pa.Table:
        """Link the parts at random within their buckets; the result is one of the possible original tables."""
        return tables.sample_linking(self.table, np.random.default_rng(rng))

    def split(self) -> tuple[pa.Table, pa.Table]:
        """Return two tables: quasi values by bucket, and counts of sensitive values by bucket."""
        return tables.two_tables(self.table, self.stated.names("sensitive"))

    def multisets(self) -> pa.Table:
        """Return the rows with each quasi attribute's values as the multiset of its bucket."""
        return tables.multisets(self.table, self.stated.names("sensitive", "insensitive"))


def read_sliced(release: Release | str | Path) -> SlicedData:
    """Read a sliced release for queries; ``shoal verify`` checks its guarantees.

    Parameters
    ----------
    release
        A release in memory, or its folder.
    """
    found = PublishedRelease.open(release)
    return SlicedData(found.slice_rows(), found.manifest)

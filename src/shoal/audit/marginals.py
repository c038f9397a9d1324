"""The tables that an analyst counts in the rows of a release, compared with the same tables of the original.

Both are counted from rows, so the score includes the effects of all techniques, samples, methods and engines. Of a
table with more than 100,000 rows, a random sample is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import split_values
from shoal.core.errors import ShoalError
from shoal.manifest import Manifest
from shoal.policy.policy import Policy
from shoal.release.forms.base import Form
from shoal.sources.base import Source
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.listed import FlatTaxonomy
from shoal.taxonomies.construct import from_levels
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.parse import days, decimal_numbers, texts
from shoal.taxonomies.scales import Categories, Numbers, Prefixes, number_text
from shoal.taxonomies.tree import Cover, Taxonomy
from shoal.utility.information import find_exact_leaves
from shoal.utility.marginals import Bins, Marginals, Reference, find_edges, read_weights
from shoal.utility.rows import Binned, Tables, sum_weights

MOST_ROWS = 100_000
_STRETCHES = 64  # ranges of decimal numbers without a declared domain
_SPREAD = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))  # odd numbers that mix all bits
_LEAST = 1e-9  # records of a leaf that no label covers


class RowSample:
    """A random sample of the rows that pass, or all rows up to *most*.

    Rows with the same number in the column *cluster* are kept or left out together; the sample may then be larger.
    """

    def __init__(self, most: int = MOST_ROWS, *, cluster: str | None = None) -> None:
        self.n_rows = 0  # that passed
        self.share = 1.0  # kept, of the rows or clusters
        self._most, self._rng, self._cluster = most, np.random.default_rng(0), cluster
        self._batches: list[pa.RecordBatch] = []

    def watch(self, batches: Iterator[pa.RecordBatch], cluster: str | None = None) -> Iterator[pa.RecordBatch]:
        self._cluster = cluster
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        """Keep each row with the same probability, which is halved whenever more than twice *most* rows are held."""
        self.n_rows += batch.num_rows
        self._batches.append(self._thin(batch, self.share))
        while sum(each.num_rows for each in self._batches) > 2 * self._most:
            self.share /= 2
            thinned = [self._thin(each, 0.5) for each in self._batches]
            if not any(each.num_rows for each in thinned):  # one cluster is larger
                self.share *= 2
                break
            self._batches = thinned

    def _thin(self, batch: pa.RecordBatch, share: float) -> pa.RecordBatch:
        if share == 1:
            return batch
        if self._cluster is None:
            return _drop_unused(batch.filter(pa.array(self._rng.random(batch.num_rows) < share)))
        number = np.asarray(batch.column(self._cluster).cast(pa.int64())).astype(np.uint64)
        for factor in _SPREAD:  # the same number for the same cluster in every batch
            number = number * factor
            number ^= number >> np.uint64(32)
        return _drop_unused(batch.filter(pa.array(number < self.share * 2.0**64)))

    def table(self) -> pa.Table:
        held = pa.Table.from_batches(self._batches).unify_dictionaries()
        if held.num_rows <= self._most or self._cluster is not None:
            return held
        return held.take(pa.array(np.sort(self._rng.choice(held.num_rows, self._most, replace=False))))


def take_rows(source: Source, names: list[str], places: IntArray, *, coded: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a source at these ascending places."""
    first = 0
    for batch in source.batches(names, dictionary=names if coded else ()):
        start, stop = np.searchsorted(places, [first, first + batch.num_rows])
        yield batch.take(pa.array(places[start:stop] - first))
        first += batch.num_rows


def _drop_unused(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Release dictionaries that have many more values than the remaining rows."""
    columns = [
        column.dictionary_decode().dictionary_encode()
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > 2 * len(column)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


@dataclass(frozen=True, slots=True, eq=False)
class ComparedColumn:
    """An attribute whose values are compared: its tree and, for numbers and dates, the positions of its leaves.

    Values that are not the attribute's, such as tokens, have their own leaf after all others.
    """

    name: str
    taxonomy: Taxonomy
    places: FloatArray | None  # (n_leaves,) but for the missing one; None for categories

    @classmethod
    def of(cls, name: str, declared: TaxonomyBuilder | None, column: pa.ChunkedArray) -> ComparedColumn:
        """Use the declared tree, or a tree of the values in a *column* of the source."""
        values = column.unique()
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        taxonomy = _build_tree(declared, values.drop_null())
        if values.null_count:
            taxonomy = taxonomy.with_missing()
        return cls(name, taxonomy, taxonomy.scale.positions())

    @property
    def unknown(self) -> int:
        """The leaf of values that are not the attribute's."""
        return self.taxonomy.n_leaves

    def find_leaves(self, values: pa.Array) -> CodeArray:
        """Return (n_values,) the leaf of each value: for whole numbers and dates the nearest one.

        >>> age = ComparedColumn.of("age", None, pa.chunked_array([[20, 30, 40]]))
        >>> age.find_leaves(pa.array(["24.9", "1000", "gA7x"])).tolist()
        [0, 2, 3]
        """
        missing = self.unknown if self.taxonomy.missing is None else self.taxonomy.missing
        if self.places is None:
            found = self.taxonomy.encode(values)
        else:
            numbers, valid = self.read_numbers(values)
            scale, cuts = self.taxonomy.scale, (self.places[1:] + self.places[:-1]) / 2
            if isinstance(scale, Numbers) and not scale.whole:
                cuts = np.asarray(scale.starts[1:], dtype=np.float64)
            found = np.where(valid, np.searchsorted(cuts, numbers, side="right"), -1).astype(np.int32)
        gone = values.is_null().to_numpy(zero_copy_only=False)
        return np.where(gone, missing, np.where(found < 0, self.unknown, found)).astype(np.int32)

    def encode(self, column: pa.ChunkedArray) -> CodeArray:
        """Return (n_rows,) the leaf of each row."""
        codes, values = factor(column)
        return self.find_leaves(values)[codes]

    def spread_labels(
        self, column: pa.ChunkedArray, labels: Mapping[str, Cover], edges: IntArray, records: FloatArray
    ) -> Binned:
        """Return a column of labels in bins, with the *records* of each spread as all labels of the column suggest.

        ``Column.read_labels`` in :mod:`shoal.utility.rows` does the same for labels that cover a single run of leaves.
        """
        codes, values = factor(column)
        shown: list[str | None] = pc.cast(values, pa.string()).to_pylist()
        covers = [{"missing": True} if text is None else labels[text] for text in shown]
        lo, hi, owner = self.find_runs(covers)
        n_items, n_ends = len(shown), self.unknown + 2
        leaves = sum_weights(owner, (hi - lo).astype(np.float64), n_items)
        precision = self.measure_precision(covers, leaves)
        each = (sum_weights(codes, records, n_items) * (precision > 0) / leaves)[owner]
        density = np.cumsum(sum_weights(lo, each, n_ends) - sum_weights(hi, each, n_ends))[:-1]
        below = np.concatenate([[0.0], np.cumsum(np.maximum(density, _LEAST))])
        inside = np.diff(below[np.clip(edges, lo[:, np.newaxis], hi[:, np.newaxis])], axis=1)  # (n_runs, n_bins)
        shares = np.zeros((n_items, len(edges) - 1))
        np.add.at(shares, owner, inside)
        return Binned.of(codes, shares / shares.sum(axis=1, keepdims=True), precision, records)

    def measure_precision(self, covers: Sequence[Cover], leaves: FloatArray) -> FloatArray:
        """Return (n_covers,) the precision of labels, given the *leaves* below them: 1 for values, 0 if suppressed."""
        n_values = self.taxonomy.n_leaves - (self.taxonomy.missing is not None)
        found: FloatArray = 1 - np.minimum((leaves - 1) / max(n_values - 1, 1), 1.0)
        found[np.array(["any" in cover for cover in covers], dtype=np.bool_)] = 0
        if not find_exact_leaves(self.taxonomy).all():  # a label of one leaf may be a stretch of numbers
            found[(leaves == 1) & (np.ptp(self.find_bounds(covers), axis=1) > 0)] = 1 - 1 / (n_values + 1)
        return found

    def label_rounded(self, column: pa.ChunkedArray, entry: Mapping[str, Any] | None) -> dict[str, Cover] | None:
        """Return the original numbers that every published multiple of a base may have had."""
        if entry is None or self.places is None:
            return None
        values = pc.cast(factor(column)[1].drop_null(), pa.string())
        numbers, _ = decimal_numbers(values)
        apart = entry["base"] if entry["random"] else entry["base"] / 2
        ends = zip(values.to_pylist(), (numbers - apart).tolist(), (numbers + apart).tolist(), strict=True)
        return {text: {"from": low, "below": below} for text, low, below in ends}

    def find_runs(self, covers: Sequence[Cover]) -> tuple[IntArray, IntArray, IntArray]:
        """Return (n_runs,) the begins and ends of runs of leaves, and the cover of each.

        >>> age = ComparedColumn.of("age", None, pa.chunked_array([[20, 30, 40, 50]]))
        >>> [part.tolist() for part in age.find_runs([{"from": 25, "below": 50}, {"any": True}])]
        [[1, 0], [3, 4], [0, 1]]
        >>> town = ComparedColumn.of("town", None, pa.chunked_array([["Bonn", "Hof", "Ulm"]]))
        >>> [part.tolist() for part in town.find_runs([{"values": ["Ulm", "Bonn"]}, {"values": ["Kiel"]}])]
        [[0, 2, 3], [1, 3, 4], [0, 0, 1]]
        """
        numbers = self._find_intervals(covers)
        named = [cover.get("values", ()) for cover in covers]
        listed = pa.array([value for values in named for value in values], pa.string())
        found = np.split(self.find_leaves(listed), np.cumsum([len(values) for values in named]))
        scale, missing = self.taxonomy.scale, self.taxonomy.missing
        ordered = _TextOrder(scale.leaves) if isinstance(scale, Categories | Prefixes) else None
        runs: list[tuple[int, int, int]] = []
        for place, cover in enumerate(covers):
            if "any" in cover:
                runs.append((0, self.taxonomy.n_leaves, place))
                continue
            leaves: IntArray = found[place].astype(np.int64)
            if place in numbers:
                leaves = np.arange(*numbers[place])
            elif ordered is not None and "values" not in cover:
                leaves = ordered.find(cover)
            if cover.get("missing") and missing is not None:
                leaves = np.append(leaves, missing)
            known = np.unique(leaves[leaves != self.unknown])
            known = known if len(known) else np.array([self.unknown])
            starts = np.flatnonzero(np.diff(known, prepend=-2) != 1)
            stops = np.append(starts[1:], len(known)) - 1
            runs += zip(known[starts].tolist(), (known[stops] + 1).tolist(), [place] * len(starts), strict=True)
        lo, hi, owner = np.array(runs, dtype=np.int64).reshape(-1, 3).T
        return lo, hi, owner

    def _find_intervals(self, covers: Sequence[Cover]) -> dict[int, tuple[int, int]]:
        """Return for each cover with an interval the leaves inside, or the leaf nearest to its middle."""
        places = self.places
        which = [place for place, cover in enumerate(covers) if "below" in cover]
        if places is None or not which:
            return {}
        found = {}
        for place, (first, end) in zip(which, self._read_ends([covers[place] for place in which]), strict=True):
            lo, hi = np.searchsorted(places, [first, end]).tolist()
            nearest = int(np.abs(places - (first + end) / 2).argmin()) if lo >= hi else lo
            found[place] = (lo, hi) if lo < hi else (nearest, nearest + 1)
        return found

    def _read_ends(self, covers: Sequence[Cover]) -> list[tuple[float, float]]:
        """Return the begins and ends of intervals; an open one extends to the first leaf, or just behind the last."""
        from shoal.release.covers import read_intervals  # plain tables need no covers

        outer = [0.0, 0.0] if self.places is None else [self.places[0], np.nextafter(self.places[-1], np.inf)]
        found = np.stack(read_intervals(covers, self.taxonomy.scale.kind, None)[1:], axis=1)[: len(covers)]
        return [(low, high) for low, high in np.where(np.isinf(found), outer, found).tolist()]

    def find_bounds(self, covers: Sequence[Cover]) -> FloatArray:
        """Return (n_covers, 2) the smallest and largest number of each cover, NaN if it has no number.

        An open end extends to the attribute's smallest or largest number.

        >>> age = ComparedColumn.of("age", None, pa.chunked_array([[20, 30, 40]]))
        >>> age.find_bounds([{"from": 25, "below": 35}, {"any": True}, {"values": ["30"]}]).tolist()
        [[25.0, 34.0], [20.0, 40.0], [30.0, 30.0]]
        """
        scale, found = self.taxonomy.scale, np.full((len(covers), 2), np.nan)
        step = 0.0 if isinstance(scale, Numbers) and not scale.whole else 1.0
        ranged = [place for place, cover in enumerate(covers) if "below" in cover]
        for place, (first, end) in zip(ranged, self._read_ends([covers[place] for place in ranged]), strict=True):
            found[place] = first, end if covers[place]["below"] is None else max(first, end - step)
        for place, cover in enumerate(covers):
            if "any" in cover and self.places is not None:
                found[place] = self.places[0], self.places[-1]
            elif cover.get("values"):
                numbers, valid = self.read_numbers(pa.array([str(value) for value in cover["values"]]))
                found[place] = (numbers[valid].min(), numbers[valid].max()) if valid.any() else np.nan
        return found

    def read_numbers(self, values: pa.Array) -> tuple[FloatArray, BoolArray]:
        if self.taxonomy.scale.kind == "number":
            return decimal_numbers(values)
        found, valid = days(values, self.taxonomy.scale.reading().get("format"))
        if not valid.all() and pa.types.is_string(values.type):  # averages of dates are in ISO format
            plain, readable = days(values)
            found, valid = np.where(valid, found, plain), valid | readable
        return found.astype(np.float64), valid


class _TextOrder:
    """Leaves that are texts, in the order of these."""

    def __init__(self, leaves: pa.Array) -> None:
        listed = np.array(leaves.to_pylist(), dtype=object)
        self._order = np.argsort(listed)
        self._texts = listed[self._order]

    def find(self, cover: Cover) -> IntArray:
        """Return the leaves that lie between two texts, or begin with one of some."""
        ends = [(prefix, prefix + "\U0010ffff") for prefix in cover.get("prefixes", ())]
        ends += [(cover["from"], cover["through"])] if "through" in cover else []
        found = [np.zeros(0, dtype=np.int64)]
        for first, last in ends:
            lo = 0 if first is None else np.searchsorted(self._texts, first, side="left")
            hi = len(self._texts) if last is None else np.searchsorted(self._texts, last, side="right")
            found.append(self._order[lo:hi])
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class SourceTables:
    """The source's side of all scores: its columns in bins, and the references for releases of it."""

    columns: tuple[ComparedColumn, ...]
    bins: Bins
    weight: str | None  # the column of survey weights, if records have them
    n_all_rows: int  # of the source; those in the bins may be a sample

    @classmethod
    def of(cls, policy: Policy, source: Source, names: Sequence[str]) -> SourceTables | None:
        """Read the named columns, or a sample of the rows; None without columns."""
        if not names:
            return None
        sample, read = RowSample(), list(filter(None, [*names, policy.survey_weight]))
        for batch in source.batches(read, dictionary=read):
            sample.add(batch)
        return cls.of_rows(policy, sample.table(), names, sample.n_rows)

    @classmethod
    def of_rows(cls, policy: Policy, rows: pa.Table, names: Sequence[str], n_all_rows: int) -> SourceTables:
        """Use the rows of a table of *n_all_rows*, or of a sample of it."""
        weight = policy.survey_weight
        records = np.ones(rows.num_rows) if weight is None else read_weights(rows.column(weight), weight)
        columns = tuple(ComparedColumn.of(name, policy.attributes[name].taxonomy, rows.column(name)) for name in names)
        edges, bins = [], []
        for one in columns:
            leaves = one.encode(rows.column(one.name))
            own = sum_weights(leaves, records, one.unknown + 1)[: one.unknown]
            edges.append(np.append(find_edges(one.taxonomy, own), one.unknown + 1))
            bins.append((np.searchsorted(edges[-1], leaves, side="right") - 1).astype(np.int8))
        return cls(columns, Bins(tuple(edges), tuple(bins), records), weight, n_all_rows)

    @cached_property
    def reference(self) -> Reference:
        """The reference for the tables of releases."""
        counts = np.ones(len(self.bins.records), dtype=np.int64)
        return Reference(self.bins, counts, n_all_rows=self.n_all_rows, weighted=self.weight is not None)

    def score(self, rows: pa.Table, form: Form) -> tuple[Marginals, ...]:
        """Return the scores of a release's rows, or of a sample of them.

        Labels are read as an analyst would; if a release has separate parts, one linking within buckets is drawn at
        random.
        """
        return self.reference.score(self.tabulate(form.complete_rows(rows, np.random.default_rng(0)), form.manifest))

    def tabulate(self, rows: pa.Table, manifest: Manifest) -> Tables:
        """Return the tables of a release's whole rows over the bins of the source."""
        records = self.weigh(rows)
        columns = [
            self.bin_published(one, rows.column(one.name), manifest, edges, records)
            for one, edges in zip(self.columns, self.bins.edges, strict=True)
        ]
        return Tables(tuple(columns), records)

    def weigh(self, rows: pa.Table) -> FloatArray:
        """Return (n_rows,) the survey weights of a release's rows, 1 by default."""
        weighted = self.weight is not None and self.weight in rows.column_names
        return read_weights(rows.column(self.weight), str(self.weight)) if weighted else np.ones(rows.num_rows)

    @staticmethod
    def bin_published(
        one: ComparedColumn, column: pa.ChunkedArray, manifest: Manifest, edges: IntArray, records: FloatArray
    ) -> Binned:
        """Return a published column in bins between *edges*, with the *records* of each label spread over its values.

        Suppressed records are in no bin.
        """
        labels = list_labels(one, column, manifest)
        if labels is not None:
            return one.spread_labels(column, labels, edges, records)
        bins = np.searchsorted(edges, one.encode(column), side="right") - 1
        return Binned(bins.astype(np.int32), np.eye(len(edges) - 1))


def list_labels(one: ComparedColumn, column: pa.ChunkedArray, manifest: Manifest) -> Mapping[str, Cover] | None:
    """Return the cover of each text of a published column; None if it publishes values."""
    change = manifest.techniques.get(one.name, {})
    rounding = change if change.get("technique") == "rounding" else None
    return manifest.attributes[one.name].labels or one.label_rounded(column, rounding)


def factor(column: pa.ChunkedArray) -> tuple[CodeArray, pa.Array]:
    """Return (n_rows,) codes of the rows, and the value of each; a null, if there is one, is last."""
    codes, values = split_values(column)
    missing = len(codes) > 0 and codes.max() == len(values)
    return codes, pa.concat_arrays([values, pa.nulls(1, values.type)]) if missing else values


def _build_tree(declared: TaxonomyBuilder | None, values: pa.Array) -> Taxonomy:
    """Return the declared tree if it fits the original values; else a tree of the values."""
    if declared is not None:
        with suppress(ShoalError):
            return declared.build(values)
    with suppress(ShoalError, OverflowError):  # columns without a tree may have any number
        return (default_builder(values.type, values) if len(values) else FlatTaxonomy()).build(values)
    numbers, numeric = decimal_numbers(values)
    if not numeric.all():
        return FlatTaxonomy().build(texts(values))
    edges = np.unique(np.quantile(np.unique(numbers), np.arange(_STRETCHES) / _STRETCHES, method="lower"))
    return cut_numbers(np.append(edges, np.nextafter(numbers.max(), np.inf)))


def cut_numbers(ends: FloatArray) -> Taxonomy:
    """Return the tree whose leaves are the ranges between some numbers."""
    edges, stops = ends[:-1], ends[1:]
    leaves = [f"from {number_text(edge)}" for edge in edges.tolist()]
    return from_levels(leaves, [], Numbers(edges, stops, np.zeros(len(edges), dtype=np.bool_)), declared=False)

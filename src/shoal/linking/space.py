"""The space in which several releases meet: the labels of all of them cut every attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.dictionaries import fold_text, fold_texts, split_values
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import gather_entries
from shoal.linking import kernels
from shoal.linking.kernels import Boxes, BoxIndex, Histograms, Lookup
from shoal.linking.linkable import Linkable
from shoal.release.covers import ABSENT, Covers, LabelColumn, read_covers
from shoal.release.published import read_columns
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source
from shoal.taxonomies.tree import free_label

MOST_WORDS = 2**26
_BLOCK = 2**22  # counts that are held at a time
_NEAR = 2**16  # counts that fit into the processor's cache
TakeBlock: TypeAlias = Callable[[slice, list[IntArray]], None]


class Candidacy(NamedTuple):
    """The boxes of one release that people may be in: query i in ``boxes[start[i]:start[i + 1]]``."""

    start: IntArray  # (n_queries + 1,)
    boxes: IntArray

    @classmethod
    def join(cls, parts: Sequence[Candidacy]) -> Candidacy:
        sizes = np.concatenate([np.diff(part.start) for part in parts])
        return cls(np.append(0, np.cumsum(sizes)), np.concatenate([part.boxes for part in parts]))

    @property
    def query(self) -> IntArray:
        """(n_boxes,) the query of each entry."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))

    def number_unions(self, owner: IntArray) -> CodeArray:
        """Return (n_queries,) a number for the set of classes of each query, given the class of each box."""
        words = np.random.default_rng(0).integers(2**64, size=int(owner.max()) + 1, dtype=np.uint64)
        added = np.append(np.uint64(0), np.cumsum(words[owner[self.boxes]]))  # sums modulo 2**64 identify sets
        sums = added[self.start[1:]] - added[self.start[:-1]]
        return np.asarray(np.unique(sums, return_inverse=True)[1].reshape(-1), dtype=np.int32)

    def count_values(self, histograms: Histograms, queries: IntArray, n_values: int) -> IntArray:
        """Return (n, n_values) the counts that boxes leave to some of the queries."""
        sums = np.zeros((len(queries), n_values), dtype=np.int64)
        place, entry = gather_entries(self.start, queries)
        kernels.sum_boxes(np.searchsorted(place, np.arange(len(queries) + 1)), self.boxes[entry], histograms, sums)
        return sums


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """All releases in common codes: attributes, sensitive values, and the boxes of each release."""

    attributes: tuple[str, ...]
    covers: tuple[Covers, ...]
    values: tuple[str | None, ...]
    releases: tuple[Boxes, ...]
    bits: KeyArray  # (n_uneven_labels, n_words) which codes each label with gaps has
    tables: IntArray  # (n_releases, n_values) how often each release has each value
    folded: frozenset[str] = frozenset()  # attributes whose values are compared in their normal form
    resolved: tuple[bool, ...] = ()  # (n_releases,) whether people are resolved to their most specific class

    @classmethod
    def of(cls, linkables: Sequence[Linkable], *, fold: bool = False) -> Space:
        """Bring releases together; an attribute that one of them does not have is unknown there.

        With *fold*, values are compared in their normal form, unless a release itself distinguishes texts of a quasi
        attribute with the same normal form.
        """
        names = tuple(dict.fromkeys(column.name for each in linkables for column in each.columns))
        folded = frozenset(name for name in names if fold and _can_fold(name, linkables))
        covers = tuple(_common(name, linkables, folded=name in folded) for name in names)
        rows, bits = _bits(covers)

        def form(value: str | None) -> str | None:
            return fold_text(value) if fold and value is not None else value

        forms: dict[str | None, str | None] = {}  # the normal form of each value, and how it is first written
        for each in linkables:
            for value in each.values:
                forms.setdefault(form(value), value)
        values = tuple(forms.values())
        number = {form: place for place, form in enumerate(forms)}
        tables = np.zeros((len(linkables), len(values)), dtype=np.int64)
        offsets = dict.fromkeys(names, 0)
        releases = []
        for each, table in zip(linkables, tables, strict=True):
            place_of = {column.name: place for place, column in enumerate(each.columns)}
            n, d = len(each.labels), len(names)
            hulls, uneven = np.zeros((n, 2 * d), dtype=np.int32), np.full((n, d), -1, dtype=np.int32)
            for a, name in enumerate(names):
                if name not in place_of:
                    hulls[:, 2 * a + 1] = covers[a].width
                    continue
                label = each.labels[:, place_of[name]] + offsets[name]
                low, high, _ = covers[a].hulls()
                hulls[:, 2 * a], hulls[:, 2 * a + 1] = low[label], high[label]
                uneven[:, a] = rows[a][label]
                offsets[name] += len(each.columns[place_of[name]].labels)
            common = np.array([number[form(value)] for value in each.values], dtype=np.int64)
            counts = each.histograms._replace(value=common[each.histograms.value])
            if len(np.unique(common)) < len(common):
                row = np.repeat(np.arange(n), counts.distinct)
                counts = Histograms.of(row, counts.value, counts.counts, n, len(values))
            if each.table is not None:
                np.add.at(table, common, each.table)
            releases.append(Boxes(hulls, uneven, counts, each.owner))
        resolved = tuple(each.resolved for each in linkables)
        return cls(names, covers, values, tuple(releases), bits, tables, folded, resolved)

    def codes(self, attribute: int, values: pa.Array) -> CodeArray:
        """Return (n,) the codes of values, which may be null."""
        cover = self.covers[attribute]
        codes = np.full(len(values), cover.missing, dtype=np.int32)
        known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        values = values.drop_null()
        if self.attributes[attribute] in self.folded:
            values = fold_texts(values.cast(pa.string()))
        codes[known] = cover.places(values)
        return codes

    @property
    def value_texts(self) -> list[str]:
        """The sensitive values as texts, with a unique text for a missing value."""
        absent = free_label(ABSENT, (value for value in self.values if value is not None))
        return [absent if value is None else value for value in self.values]

    def index(self) -> list[BoxIndex]:
        with ThreadPoolExecutor() as threads:
            return list(threads.map(lambda each: BoxIndex(*kernels.grow_tree(each.hulls), self.bits), self.releases))

    def make_lookups(self) -> list[Lookup]:
        """Return the boxes of each release for looking people up.

        If boxes contain others, a person is resolved to the inner one (docs/adr/0007-transparent-reader.md). In a
        release whose quasi-identifiers are not all known, any box that covers a person may be the person's.
        """
        found = []
        for each, tree, resolved in zip(self.releases, self.index(), self.resolved, strict=True):
            inner = outer = np.empty(0, dtype=np.int64)
            if resolved and kernels.any_overlap(each, tree):
                inner, outer = kernels.list_holders(each, tree)
            found.append(Lookup(tree, np.searchsorted(inner, np.arange(len(each.hulls) + 1)), outer))
        return found

    def look_up(self, lookups: Sequence[Lookup], queries: CodeArray) -> tuple[list[IntArray], list[Candidacy]]:
        """Return for each release (n_queries, n_values) the counts that it leaves, and their boxes."""
        sums = [np.zeros((len(queries), len(self.values)), dtype=np.int64) for _ in self.releases]
        found = [
            Candidacy(*kernels.resolve_queries(queries, *both)) for both in zip(self.releases, lookups, strict=True)
        ]
        for each, own, counts in zip(self.releases, found, sums, strict=True):
            kernels.sum_boxes(own.start, own.boxes, each.histograms, counts)
        return sums, found

    def look_up_all(self, lookups: Sequence[Lookup], queries: CodeArray, take: TakeBlock) -> list[Candidacy]:
        """Look up many queries in threads; *take* gets each block of them with its counts."""

        def look_up(block: slice) -> list[Candidacy]:
            sums, found = self.look_up(lookups, queries[block])
            take(block, sums)
            return found

        with ThreadPoolExecutor() as threads:
            blocks = list(threads.map(look_up, self.blocks(len(queries), _NEAR)))
        return [Candidacy.join(parts) for parts in zip(*blocks, strict=True)]

    def blocks(self, n_queries: int, most: int = _BLOCK) -> list[slice]:
        size = max(1, most // len(self.values))
        return [slice(begin, begin + size) for begin in range(0, max(n_queries, 1), size)]

    def queries_of(self, source: Source, columns_of: Mapping[str, str] | None = None) -> tuple[CodeArray, CodeArray]:
        """Return the distinct quasi values of a population as queries, and the query of each of its rows.

        *columns_of* has the source's column of each attribute, if its name differs.
        """
        names = [(columns_of or {}).get(name, name) for name in self.attributes]
        table = read_columns(source, names)
        columns = []
        for place, name in enumerate(names):
            codes, values = split_values(table.column(name))
            columns.append(np.append(self.codes(place, values), np.int32(self.covers[place].missing))[codes])
        people, first = number_rows(columns, table.num_rows)
        low = np.stack([codes[first] for codes in columns], axis=1)
        return np.stack([low, low + 1], axis=2).reshape(len(first), -1).astype(np.int32), people


def fold_name(name: str) -> str:
    """Return the normal form of a column's name, with equal separators.

    >>> fold_name("Zip_Code") == fold_name("zip-code")
    True
    """
    return fold_text(name.replace("_", " ").replace("-", " "))


def _can_fold(name: str, linkables: Sequence[Linkable]) -> bool:
    """Whether an attribute has texts only, and no release has two of them with the same normal form."""
    columns = [column for each in linkables for column in each.columns if column.name == name]
    for column in columns:
        texts = {text for cover in column.covers for text in cover.get("values", ())}
        if column.kind != "category" or len({fold_text(text) for text in texts}) < len(texts):
            return False
    return True


def _common(name: str, linkables: Sequence[Linkable], *, folded: bool) -> Covers:
    """Cut one attribute by the labels of all releases, one release after the other."""
    columns = [column for each in linkables for column in each.columns if column.name == name]
    kinds = sorted({column.kind for column in columns} - {"category"})
    if len(kinds) > 1:
        raise InputError(f"{name!r} is of kind {kinds[0]!r} in one release and of kind {kinds[1]!r} in another")
    if kinds == ["date"] and len({column.format for column in columns}) > 1:
        columns = [_in_common_form(column) for column in columns]
    formats = {column.format for column in columns if column.format is not None}
    lengths = {column.length for column in columns if column.length is not None}
    if len(formats) > 1 or len(lengths) > 1:
        raise InputError(f"the releases write {name!r} differently: formats or lengths differ")
    covers = [cover for column in columns for cover in column.covers]
    if folded:
        covers = [{**one, "values": [*map(fold_text, one["values"])]} if "values" in one else one for one in covers]
    kind, form, length = kinds[0] if kinds else "category", next(iter(formats), None), next(iter(lengths), None)
    return read_covers(LabelColumn(name, kind, (), tuple(covers), form, length))


def _in_common_form(column: LabelColumn) -> LabelColumn:
    """Return a column of dates with single values written as year-month-day, like the ends of intervals."""
    form = column.format
    if form is None:
        return column
    try:
        covers = tuple(
            {**cover, "values": [datetime.strptime(text, form).date().isoformat() for text in cover["values"]]}
            if "values" in cover
            else cover
            for cover in column.covers
        )
    except ValueError:
        raise InputError(f"a release has values of {column.name!r} that are not dates in its own format") from None
    return replace(column, covers=covers, format=None)


def _bits(covers: Sequence[Covers]) -> tuple[list[CodeArray], KeyArray]:
    """Return for each attribute (n_labels,) the row of each label with gaps, or -1; and all rows."""
    wide = [cover.hulls()[2] for cover in covers]
    n_rows = sum(int(each.sum()) for each in wide)
    words = max([1, *(cover.width + 63 >> 6 for cover, gaps in zip(covers, wide, strict=True) if gaps.any())])
    if n_rows * words > MOST_WORDS:
        raise UsageError("the releases' labels list too many values; link fewer attributes")
    bits = np.zeros((max(1, n_rows), words), dtype=np.uint64)
    rows, taken = [], 0
    for cover, gaps in zip(covers, wide, strict=True):
        row = np.full(len(gaps), -1, dtype=np.int32)
        labels = np.flatnonzero(gaps)
        row[labels] = np.arange(taken, taken + len(labels))
        rows.append(row)
        for label in labels.tolist():
            within = np.zeros(words * 64, dtype=np.bool_)
            for piece in range(cover.start[label], cover.start[label + 1]):
                within[cover.low[piece] : cover.high[piece]] = True
            bits[row[label]] = np.packbits(within, bitorder="little").view(np.uint64)
        taken += len(labels)
    return rows, bits

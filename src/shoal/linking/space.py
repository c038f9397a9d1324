"""The space in which several releases meet: every attribute cut wherever a label of any of them begins or ends."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError, UsageError
from shoal.linking.kernels import Boxes, BoxIndex, Histograms, grow_tree, sum_for_queries
from shoal.linking.linkable import ABSENT, Linkable, LinkColumn, read_columns
from shoal.manifest import Attribute
from shoal.release.sliced.table import number_rows
from shoal.sources.base import Source
from shoal.taxonomies.tree import free_label
from shoal.verify.covers import CoverError, Covers, read_covers

MOST_WORDS = 2**26
_BLOCK = 2**22  # counts that are held at a time
_NEAR = 2**16  # and that stay in the processor's cache meanwhile
TakeBlock: TypeAlias = Callable[[slice, list[IntArray], list[IntArray]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """All releases in common codes: attributes, sensitive values, and each release's boxes."""

    attributes: tuple[str, ...]
    covers: tuple[Covers, ...]
    values: tuple[str | None, ...]
    releases: tuple[Boxes, ...]
    bits: KeyArray  # (n_uneven_labels, n_words) which codes each label with gaps has
    tables: IntArray  # (n_releases, n_values) how often each release has each value
    folded: frozenset[str] = frozenset()  # attributes whose values are compared in their normal form

    @classmethod
    def of(cls, linkables: Sequence[Linkable], *, fold: bool = False) -> Space:
        """Bring releases together; an attribute that one of them does not have is unknown there.

        To *fold* is to compare values in their normal form. Texts of a quasi attribute that one release itself
        tells apart by more than that are compared as they are.
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
        return cls(names, covers, values, tuple(releases), bits, tables, folded)

    def codes(self, attribute: int, values: pa.Array) -> CodeArray:
        """Return (n,) the codes of values, null for missing ones."""
        cover = self.covers[attribute]
        codes = np.full(len(values), cover.missing, dtype=np.int32)
        known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        values = values.drop_null()
        if self.attributes[attribute] in self.folded:
            values = pa.array([fold_text(text) for text in values.cast(pa.string()).to_pylist()], pa.string())
        codes[known] = cover.places(values)
        return codes

    @property
    def value_texts(self) -> list[str]:
        """The sensitive values as texts, a missing one different from all others."""
        absent = free_label(ABSENT, (value for value in self.values if value is not None))
        return [absent if value is None else value for value in self.values]

    def index(self) -> list[BoxIndex]:
        """Return an index of each release's boxes."""
        with ThreadPoolExecutor() as threads:
            return list(threads.map(lambda each: BoxIndex(*grow_tree(each.hulls), self.bits), self.releases))

    def look_up(self, indexes: Sequence[BoxIndex], queries: CodeArray) -> tuple[list[IntArray], list[IntArray]]:
        """Return of each release (n_queries, n_values) the counts that it leaves, and its smallest box."""
        sums = [np.zeros((len(queries), len(self.values)), dtype=np.int64) for _ in self.releases]
        boxes = [np.empty(len(queries), dtype=np.int64) for _ in self.releases]
        for each, index, counts, box in zip(self.releases, indexes, sums, boxes, strict=True):
            sum_for_queries(queries, each, index, counts, box)
        return sums, boxes

    def look_up_all(self, indexes: Sequence[BoxIndex], queries: CodeArray, take: TakeBlock) -> None:
        """Look up many queries in threads; *take* is given each block of them with what ``look_up`` returns."""
        with ThreadPoolExecutor() as threads:
            blocks = self.blocks(len(queries), _NEAR)
            list(threads.map(lambda block: take(block, *self.look_up(indexes, queries[block])), blocks))

    def blocks(self, n_queries: int, most: int = _BLOCK) -> list[slice]:
        """Return runs of queries whose counts are held at a time."""
        size = max(1, most // len(self.values))
        return [slice(begin, begin + size) for begin in range(0, n_queries, size)]

    def queries_of(self, source: Source, columns_of: Mapping[str, str] | None = None) -> tuple[CodeArray, CodeArray]:
        """Return the distinct quasi values of a population as queries, and which of them each of its rows has.

        *columns_of* has the source's column of each attribute, where it is not called like that.
        """
        names = [(columns_of or {}).get(name, name) for name in self.attributes]
        table = read_columns(source, names)
        columns = []
        for place, name in enumerate(names):
            whole = table.column(name).combine_chunks()
            if not pa.types.is_dictionary(whole.type):
                whole = whole.dictionary_encode()
            code_of = np.append(self.codes(place, whole.dictionary), np.int32(self.covers[place].missing))
            columns.append(code_of[np.asarray(whole.indices.fill_null(len(whole.dictionary)))])
        people, first = number_rows(columns, table.num_rows)
        low = np.stack([codes[first] for codes in columns], axis=1)
        return np.stack([low, low + 1], axis=2).reshape(len(first), -1).astype(np.int32), people


def fold_text(text: str) -> str:
    """Return the normal form of a text: compatible letters, case and spaces are alike.

    >>> fold_text(" Lung  Infection"), fold_text("lung infection")
    ('lung infection', 'lung infection')
    """
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def fold_name(name: str) -> str:
    """Return the normal form of a column's name, in which separators are alike too.

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
    """Cut one attribute by the labels of all releases, which follow one another in the order of these."""
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
    entry: dict[str, Any] = {
        "name": name,
        "role": "quasi",
        "kind": kinds[0] if kinds else "category",
        "labels": {str(number): cover for number, cover in enumerate(covers)},
        "length": next(iter(lengths), None),
        "format": next(iter(formats), None),
    }
    attribute = Attribute.model_construct(**entry)
    try:
        return read_covers(attribute)
    except CoverError as error:
        raise InputError(f"the releases do not go together: {error}") from None


def _in_common_form(column: LinkColumn) -> LinkColumn:
    """Return a column of dates whose single values are written as year-month-day, as the ends of intervals are."""
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
    """Return of every attribute (n_labels,) the row of each label with gaps, or -1; and all rows."""
    wide = [cover.hulls()[2] for cover in covers]
    n_rows = sum(int(each.sum()) for each in wide)
    words = max([1, *(cover.width + 63 >> 6 for cover, gaps in zip(covers, wide, strict=True) if gaps.any())])
    if n_rows * words > MOST_WORDS:
        raise UsageError("the releases' labels list too many values each; link fewer attributes")
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

"""The space in which several releases meet: every attribute cut wherever a label of any of them begins or ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, KeyArray
from shoal.core.errors import InputError, UsageError
from shoal.linking import kernels
from shoal.linking.columns import LinkColumn
from shoal.linking.histograms import Histograms
from shoal.linking.linkable import Linkable
from shoal.manifest import Attribute
from shoal.verify.covers import CoverError, Covers, read_covers

MOST_WORDS = 2**26


@dataclass(frozen=True, slots=True, eq=False)
class Boxes:
    """Boxes of one release, or of several that meet, with what they leave."""

    hulls: CodeArray  # (n_boxes, 2 n_attributes) from and below, attribute by attribute
    uneven: CodeArray  # (n_boxes, n_members n_attributes) rows of bits for labels with gaps, else -1
    histograms: Histograms

    @property
    def sparse(self) -> kernels.Sparse:
        """The histograms as kernels take them."""
        return self.histograms.start, self.histograms.value, self.histograms.count


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """All releases in common codes: attributes, sensitive values, and each release's boxes."""

    attributes: tuple[str, ...]
    covers: tuple[Covers, ...]
    values: tuple[str | None, ...]
    releases: tuple[Boxes, ...]
    bits: KeyArray  # (n_uneven_labels, n_words) which codes each label with gaps has

    @classmethod
    def of(cls, linkables: Sequence[Linkable]) -> Space:
        """Bring releases together; an attribute that one of them does not have is unknown there."""
        names = tuple(dict.fromkeys(column.name for each in linkables for column in each.columns))
        covers = tuple(_common(name, linkables) for name in names)
        rows, bits = _bits(covers)
        values = tuple(dict.fromkeys(value for each in linkables for value in each.values))
        number = {value: place for place, value in enumerate(values)}
        offsets = dict.fromkeys(names, 0)
        releases = []
        for each in linkables:
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
            renumbered = each.histograms.renumbered(np.array([number[value] for value in each.values], dtype=np.int64))
            releases.append(Boxes(hulls, uneven, renumbered))
        return cls(names, covers, values, tuple(releases), bits)

    def codes(self, attribute: int, values: pa.Array) -> CodeArray:
        """Return (n,) the codes of values, null for missing ones."""
        cover = self.covers[attribute]
        codes = np.full(len(values), cover.missing, dtype=np.int32)
        known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False))
        codes[known] = cover.places(values.drop_null())
        return codes


def _common(name: str, linkables: Sequence[Linkable]) -> Covers:
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
        raise InputError(f"the releases do not write {name!r} alike: formats or lengths differ")
    covers = [cover for column in columns for cover in column.covers]
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
        raise InputError(f"a release has values of {column.name!r} that are no dates of its own format") from None
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

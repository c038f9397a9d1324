"""A published table as somebody reads it who knows a person's quasi values and wants the sensitive one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.linking.columns import LinkColumn, coded, labelled
from shoal.linking.histograms import Histograms, gathered
from shoal.release.sliced.table import SlicedPart, SlicedTable, numbered

MOST_BOXES = 2**25


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """What people are told of classes under one name."""

    name: str
    codes: CodeArray  # (n_classes,) into texts
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """The plan that a release was made by. A class of it is a set of points: one or several boxes, all alike."""

    digest: str
    promised: int | None  # values that releases by this plan leave to everybody; None if it promises something else
    owner: IntArray  # (n_boxes,) the class of each box, from 0
    shown: tuple[Shown, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Linkable:
    """Boxes over the quasi attributes, and how often each sensitive value may be that of somebody in the box.

    What a release leaves for a person is the sum over all boxes that cover the person's quasi values. A box is an
    equivalence class of a generalized table. Of a sliced table it is a combination of the parts' values that some
    bucket has: every entry of the sensitive part that a bucket holds beside them counts once, for any of them may
    be the person's. In both cases a count is the number of published sensitive values that may be this person's,
    and is never less than the number of people with these quasi values and that sensitive one.
    """

    name: str
    columns: tuple[LinkColumn, ...]
    labels: CodeArray  # (n_boxes, n_columns)
    histograms: Histograms  # (n_boxes rows)
    records: IntArray  # (n_boxes,) at most so many records are of somebody in the box
    values: tuple[str | None, ...]  # the sensitive values; None for a missing one
    n_rows: int
    classes: bool = True  # boxes are classes of people; those of a sliced table may fit one person only
    agreement: Agreement | None = None

    @property
    def owner(self) -> IntArray:
        """(n_boxes,) the class that a box is of: itself, unless classes are made of several boxes."""
        return np.arange(len(self.labels)) if self.agreement is None else self.agreement.owner

    def told(self, box: int) -> dict[str, str]:
        """Return the labels of the class that a box is of; none where they would tell of single people."""
        if not self.classes:
            return {}
        if self.agreement is not None:
            number = int(self.agreement.owner[box])
            return {shown.name: shown.texts[shown.codes[number]] for shown in self.agreement.shown}
        return {column.name: column.labels[self.labels[box, place]] for place, column in enumerate(self.columns)}


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The sensitive column: which values each of its texts stands for."""

    start: IntArray  # (n_texts + 1,)
    value: IntArray
    values: tuple[str | None, ...]

    @classmethod
    def of(cls, texts: Sequence[str | None], labels: Mapping[str, Any] | None, where: str) -> Candidates:
        """Read what the texts of the column stand for; a label stands for every value below it."""
        below: list[list[str | None]] = []
        for text in texts:
            if labels is None or text is None:
                below.append([text])
                continue
            if text not in labels:
                raise InputError(f"{where}: the sensitive column has texts that its manifest does not explain")
            cover = labels[text]
            below.append([*cover.get("values", ()), *([None] if cover.get("missing") else ())])
        if not all(below):
            raise InputError(f"{where}: the sensitive column has labels that cover no value; run `shoal verify` on it")
        number = {value: place for place, value in enumerate(dict.fromkeys(value for each in below for value in each))}
        return cls(
            start=np.cumsum([0, *map(len, below)], dtype=np.int64),
            value=np.array([number[value] for each in below for value in each], dtype=np.int64),
            values=tuple(number),
        )

    def counted(self, box: AnyIntArray, text: AnyIntArray, n_boxes: int) -> Histograms:
        """Count the candidates of rows, given each one's box and text."""
        n_texts = len(self.start) - 1
        rows = Histograms.of(box, text, np.ones(len(box), dtype=np.int64), n_boxes, n_texts)
        boxes = np.repeat(np.arange(n_boxes), rows.distinct)
        place, entry = gathered(self.start, rows.value)
        return Histograms.of(boxes[place], self.value[entry], rows.count[place], n_boxes, len(self.values))


def of_rows(
    name: str, columns: Sequence[tuple[LinkColumn, CodeArray]], text: CodeArray, candidates: Candidates
) -> Linkable:
    """Return a table each of whose rows is a record as it stands."""
    box, first = numbered([codes for _, codes in columns], len(text))
    labels = np.stack([codes[first] for _, codes in columns], axis=1) if columns else np.zeros((len(first), 0))
    return Linkable(
        name=name,
        columns=tuple(column for column, _ in columns),
        labels=labels.astype(np.int32),
        histograms=candidates.counted(box, text, len(first)),
        records=np.bincount(box, minlength=len(first)).astype(np.int64),
        values=candidates.values,
        n_rows=len(text),
    )


def of_generalized(
    name: str, table: pa.Table, manifest: Mapping[str, Any], known: set[str], sensitive: str
) -> Linkable:
    """Return a release whose rows are records with generalized quasi values."""
    entries = manifest["attributes"]
    columns = []
    for attribute, entry in entries.items():
        if attribute in known and entry["role"] != "sensitive":
            codes, values = coded(table.column(attribute))
            columns.append((labelled(attribute, entry, values, name), codes))
    text, texts = coded(table.column(sensitive))
    return of_rows(name, columns, text, Candidates.of(texts, entries[sensitive].get("labels"), name))


def of_sliced(name: str, table: SlicedTable, manifest: Mapping[str, Any], known: set[str], sensitive: str) -> Linkable:
    """Return a sliced or bucketized release: what the buckets leave whose every part has the person's values."""
    entries = manifest["attributes"]
    own = next(place for place, part in enumerate(table.parts) if sensitive in part.names)
    parts = [table.parts[own], *(part for place, part in enumerate(table.parts) if place != own)]
    columns: dict[str, LinkColumn] = {}
    numbers: dict[str, dict[str | None, int]] = {}
    for attribute in table.names:
        if attribute in known and entries[attribute]["role"] != "sensitive":
            values = list(
                dict.fromkeys(
                    value
                    for part in parts
                    if attribute in part.names
                    for value in coded(part.distinct.column(attribute))[1]
                )
            )
            columns[attribute] = labelled(attribute, entries[attribute], values, name)
            numbers[attribute] = {value: number for number, value in enumerate(values)}
    names = list(columns)
    text, texts = coded(parts[0].distinct.column(sensitive))
    candidates = Candidates.of(texts, entries[sensitive].get("labels"), name)
    bucket, labels, records, group = _groups(table, parts[0], names, numbers)
    counts = candidates.counted(group, text[parts[0].codes], len(bucket))
    row = np.arange(len(bucket))
    for part in parts[1:]:
        if not set(part.names) & set(names):
            continue
        there, theirs, many, _ = _groups(table, part, names, numbers)
        start = np.searchsorted(there, np.arange(table.n_buckets + 1)).astype(np.int64)
        if np.diff(start)[bucket].sum() > MOST_BOXES:
            raise UsageError(f"{name}: its parts can be combined in too many ways; link it for one --target")
        left, right = gathered(start, bucket)
        both = (labels[left] >= 0) & (theirs[right] >= 0)  # an attribute in two parts must agree
        agree = ~(both & (labels[left] != theirs[right])).any(axis=1)
        left, right = left[agree], right[agree]
        bucket, row = bucket[left], row[left]
        labels, records = np.maximum(labels[left], theirs[right]), np.minimum(records[left], many[right])
    box, first = numbered(list((labels + 1).T), len(labels))
    return Linkable(
        name=name,
        columns=tuple(columns.values()),
        labels=labels[first],
        histograms=counts.merged(row, box, len(first), len(candidates.values)),
        records=np.bincount(box, weights=records, minlength=len(first)).astype(np.int64),
        values=candidates.values,
        n_rows=table.n_rows,
        classes=False,
    )


def _groups(
    table: SlicedTable, part: SlicedPart, names: Sequence[str], numbers: Mapping[str, Mapping[str | None, int]]
) -> tuple[IntArray, CodeArray, IntArray, CodeArray]:
    """Return the combinations of a part's quasi values in each bucket, bucket by bucket.

    They are given as the bucket, the labels (-1 for attributes of other parts) and the number of entries; last comes
    the combination of each row.
    """
    labels = np.full((part.n_codes, len(names)), -1, dtype=np.int32)
    for place, name in enumerate(names):
        if name in part.names:
            codes, values = coded(part.distinct.column(name))
            labels[:, place] = np.array([numbers[name][value] for value in values], dtype=np.int32)[codes]
    combination, example = numbered(list((labels + 1).T), part.n_codes)
    group, first = numbered([table.bucket, combination[part.codes]], table.n_rows)
    bucket = table.bucket[first].astype(np.int64)
    many = np.bincount(group, minlength=len(first)).astype(np.int64)
    return bucket, labels[example][combination[part.codes[first]]], many, group


def chosen_sensitive(names: Sequence[Sequence[str]], asked: str | None) -> str:
    """Return the sensitive attribute that all of the releases have: the one asked for, or the only one."""
    common = [name for name in names[0] if all(name in other for other in names)]
    if asked is not None:
        if asked not in common:
            raise UsageError(f"{asked!r} is not a sensitive attribute of every release{did_you_mean(asked, common)}")
        return asked
    if not common:
        raise UsageError("the releases have no sensitive attribute in common, so there is nothing to link")
    if len(common) > 1:
        listed = ", ".join(repr(name) for name in common)
        raise UsageError(f"the releases have several sensitive attributes in common, {listed}; choose with --sensitive")
    return common[0]

"""A published table for an adversary who has a person's quasi values and wants the sensitive one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.core.errors import InputError, UsageError, did_you_mean
from shoal.core.kernels import gather_entries
from shoal.linking.kernels import Histograms
from shoal.manifest import Attribute, Manifest
from shoal.release.covers import ABSENT, Cover, LabelColumn
from shoal.release.forms.agreed import L_DIVERSITY, AgreedPlan
from shoal.release.published import encode_column, read_column
from shoal.release.release import CLASS
from shoal.release.sliced.table import SlicedPart, SlicedTable, number_rows

MOST_ENTRIES = 2**26  # of the classes' counts, repeated for each of their boxes
MOST_LISTED = 2**23  # values in the sides of all boxes
MOST_BOXES = 2**25


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """The plan that a release was made by.

    A class of a plan is a set of points: one or several boxes with the same counts.
    """

    digest: str
    promised: int | None  # number of values that the plan guarantees to all people, if it does
    owner: IntArray  # (n_boxes,) the class of each box, from 0
    shown: Mapping[str, NDArray[Any]]  # descriptions of classes, by name: (n_classes,) texts


@dataclass(frozen=True, slots=True, eq=False)
class Linkable:
    """Boxes over the quasi attributes, and how often each sensitive value may be the value of a person in the box.

    A release leaves a person the sum over the boxes that cover the person's quasi values and contain no other such box.
    A box is an equivalence class of a generalized table. In a sliced table it is a combination of the parts' values
    that some bucket has: every entry of the sensitive part in that bucket counts once, because any of them may be the
    person's. In both cases a count is the number of published sensitive values that may be this person's.
    """

    name: str
    columns: tuple[LabelColumn, ...]
    labels: CodeArray  # (n_boxes, n_columns)
    histograms: Histograms  # (n_boxes rows)
    records: IntArray  # (n_boxes,) largest number of records of people in the box
    values: tuple[str | None, ...]  # the sensitive values; None for a missing one
    n_rows: int
    classes: bool = True  # boxes are classes of people; a box of a sliced table may fit a single person
    agreement: Agreement | None = None
    table: IntArray | None = None  # (n_values,) how often each sensitive value is published, if it was counted
    resolved: bool = True  # all its quasi-identifiers are known, so people are in their most specific class

    @property
    def owner(self) -> IntArray:
        """(n_boxes,) the class of each box: itself, unless classes consist of several boxes."""
        return np.arange(len(self.labels)) if self.agreement is None else self.agreement.owner

    def records_in(self, boxes: IntArray) -> int:
        _, first = np.unique(self.owner[boxes], return_index=True)
        return int(self.records[boxes[first]].sum())

    def describe(self, box: int) -> dict[str, str]:
        """Return the labels of the class of a box; empty if they could describe a single person."""
        if not self.classes:
            return {}
        if self.agreement is not None:
            number = int(self.agreement.owner[box])
            return {name: str(texts[number]) for name, texts in self.agreement.shown.items()}
        labels = {column.name: column.labels[self.labels[box, place]] for place, column in enumerate(self.columns)}
        return {name: ABSENT if label is None else label for name, label in labels.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The sensitive column: the values that each of its texts covers."""

    start: IntArray  # (n_texts + 1,)
    value: IntArray
    values: tuple[str | None, ...]

    @classmethod
    def of(cls, texts: Sequence[str | None], labels: Mapping[str, Cover] | None, where: str) -> Candidates:
        """Read the values of the texts of the column; a label covers every value below it."""
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

    def count(self, box: AnyIntArray, text: AnyIntArray, n_boxes: int) -> Histograms:
        """Count the candidates of rows, given the box and text of each."""
        n_texts = len(self.start) - 1
        rows = Histograms.of(box, text, np.ones(len(box), dtype=np.int64), n_boxes, n_texts)
        if np.array_equal(self.value, np.arange(n_texts)):  # every text is a value
            return rows
        boxes = np.repeat(np.arange(n_boxes), rows.distinct)
        place, entry = gather_entries(self.start, rows.value)
        return Histograms.of(boxes[place], self.value[entry], rows.counts[place], n_boxes, len(self.values))

    def count_all(self, text: AnyIntArray) -> IntArray:
        """Return (n_values,) how many of all rows may have each value."""
        counts, rows = np.zeros(len(self.values), dtype=np.int64), np.bincount(text, minlength=len(self.start) - 1)
        np.add.at(counts, self.value, np.repeat(rows, np.diff(self.start)))
        return counts


def read_rows(
    name: str, columns: Sequence[tuple[LabelColumn, CodeArray]], text: CodeArray, candidates: Candidates
) -> Linkable:
    """Return a table in which each row is a record."""
    box, first = number_rows([codes for _, codes in columns], len(text))
    labels = np.stack([codes[first] for _, codes in columns], axis=1) if columns else np.zeros((len(first), 0))
    return Linkable(
        name=name,
        columns=tuple(column for column, _ in columns),
        labels=labels.astype(np.int32),
        histograms=candidates.count(box, text, len(first)),
        records=np.bincount(box, minlength=len(first)).astype(np.int64),
        values=candidates.values,
        n_rows=len(text),
        table=candidates.count_all(text),
    )


def read_generalized(
    name: str, table: pa.Table, manifest: Manifest, known: Collection[str], sensitive: str
) -> Linkable:
    """Return a release whose rows are records with generalized quasi values; without *sensitive*, only class sizes."""
    columns = [read_column(table.column(one), manifest.attributes[one], name) for one in known]
    if not sensitive:
        return read_rows(name, columns, np.zeros(table.num_rows, dtype=np.int32), Candidates.of([None], None, name))
    text, texts = encode_column(table.column(sensitive))
    return read_rows(name, columns, text, Candidates.of(texts, manifest.attributes[sensitive].labels, name))


def read_slices(name: str, table: SlicedTable, manifest: Manifest, known: Collection[str], sensitive: str) -> Linkable:
    """Return a sliced or bucketized release: the values left by buckets in which every part has the person's values."""
    own = next(place for place, part in enumerate(table.parts) if sensitive in part.names)
    parts = [table.parts[own], *(part for place, part in enumerate(table.parts) if place != own)]
    names = [name for name in table.names if name in known]
    columns, labels_of = [], [np.full((part.n_codes, len(names)), -1, dtype=np.int32) for part in parts]
    for place, attribute in enumerate(names):
        holders = [number for number, part in enumerate(parts) if attribute in part.names]
        whole = pa.chunked_array([c for n in holders for c in parts[n].distinct.column(attribute).chunks])
        column, codes = read_column(whole, manifest.attributes[attribute], name)
        columns.append(column)
        for number, part_codes in zip(
            holders, np.split(codes, np.cumsum([parts[n].n_codes for n in holders])), strict=False
        ):
            labels_of[number][:, place] = part_codes
    text, texts = encode_column(parts[0].distinct.column(sensitive))
    candidates = Candidates.of(texts, manifest.attributes[sensitive].labels, name)
    bucket, labels, records, group = _groups(table, parts[0], labels_of[0])
    counts = candidates.count(group, text[parts[0].codes], len(bucket))
    row = np.arange(len(bucket))
    for part, codes in zip(parts[1:], labels_of[1:], strict=True):
        if not set(part.names) & set(names):
            continue
        there, theirs, many, _ = _groups(table, part, codes)
        start = np.searchsorted(there, np.arange(table.n_buckets + 1)).astype(np.int64)
        if np.diff(start)[bucket].sum() > MOST_BOXES:
            raise UsageError(f"{name}: its parts can be combined in too many ways; link it for one --target")
        left, right = gather_entries(start, bucket)
        both = (labels[left] >= 0) & (theirs[right] >= 0)  # an attribute in two parts must agree
        agree = ~(both & (labels[left] != theirs[right])).any(axis=1)
        left, right = left[agree], right[agree]
        bucket, row = bucket[left], row[left]
        labels, records = np.maximum(labels[left], theirs[right]), np.minimum(records[left], many[right])
    box, first = number_rows(list((labels + 1).T), len(labels))
    return Linkable(
        name=name,
        columns=tuple(columns),
        labels=labels[first],
        histograms=counts.merge(row, box, len(first), len(candidates.values)),
        records=np.bincount(box, weights=records, minlength=len(first)).astype(np.int64),
        values=candidates.values,
        n_rows=table.n_rows,
        classes=False,
        table=candidates.count_all(text[parts[0].codes]),
    )


def _groups(table: SlicedTable, part: SlicedPart, labels: CodeArray) -> tuple[IntArray, CodeArray, IntArray, CodeArray]:
    """Return the combinations of a part's quasi values in each bucket, bucket by bucket.

    The result is the bucket, the labels (-1 for attributes of other parts), the number of entries, and the combination
    of each row. *labels* belong to the part's distinct rows.
    """
    combination, example = number_rows(list((labels + 1).T), part.n_codes)
    group, first = number_rows([table.bucket, combination[part.codes]], table.n_rows)
    bucket = table.bucket[first].astype(np.int64)
    many = np.bincount(group, minlength=len(first)).astype(np.int64)
    return bucket, labels[example][combination[part.codes[first]]], many, group


def choose_sensitive(names: Sequence[Sequence[str]], asked: str | None) -> str:
    """Return the sensitive attribute that all of the releases have: the one *asked* for, or the only one."""
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


def read_agreed_classes(
    name: str, table: pa.Table, manifest: Manifest, agreed: AgreedPlan, known: Collection[str], sensitive: str
) -> Linkable:
    """Return a release by a plan: each class is a set of boxes that contain exactly its points."""
    attributes = manifest.attributes
    if sensitive != agreed.sensitive or any(quasi not in attributes for quasi in agreed.quasi):
        raise InputError(f"{name}: its attributes differ from its plan's; run `shoal verify` on it")
    row = _classes(table.column(CLASS), agreed.classes, name)
    names = [quasi for quasi in agreed.quasi if quasi in known]
    places = [agreed.quasi.index(quasi) for quasi in names]
    sizes = np.bincount(row, minlength=agreed.classes).astype(np.int64)
    here = sizes[agreed.number] > 0  # the points of classes that occur
    owner, low, high = make_boxes(agreed.number[here], [agreed.points[place][here] for place in places])
    text, texts = encode_column(table.column(sensitive))
    candidates = Candidates.of(texts, manifest.attributes[sensitive].labels, name)
    counts = candidates.count(row, text, agreed.classes)
    if int(counts.distinct[owner].sum()) > MOST_ENTRIES:
        raise UsageError(f"{name}: the classes of its plan are too scattered to be linked with others")
    columns, labels = [], np.empty(low.shape, dtype=np.int32)
    for side, (quasi, at) in enumerate(zip(names, places, strict=True)):
        column, labels[:, side] = _side(attributes[quasi], agreed.quasi_values[at], low[:, side], high[:, side])
        columns.append(column)
    return Linkable(
        name=name,
        columns=tuple(columns),
        labels=labels,
        histograms=counts.merge(owner, np.arange(len(owner)), len(owner), len(candidates.values)),
        records=sizes[owner],
        values=candidates.values,
        n_rows=table.num_rows,
        table=candidates.count_all(text),
        agreement=Agreement(
            digest=agreed.digest,
            promised=int(agreed.promise.least) if agreed.promise.model == L_DIVERSITY else None,
            owner=owner,
            shown=_describe_classes(table, row, names, agreed.classes),
        ),
    )


def make_boxes(number: CodeArray, points: Sequence[CodeArray]) -> tuple[IntArray, CodeArray, CodeArray]:
    """Return disjoint boxes of each class that contain exactly its points: (n,) class, (n, d) from and below.

    Points become runs along the last attribute; equal runs that are adjacent along the previous attribute are joined,
    and so on.

    >>> make_boxes(np.zeros(5, int), [np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1])])[1:]
    (array([[0, 0],
           [2, 1]], dtype=int32), array([[2, 2],
           [3, 2]], dtype=int32))
    """
    owner = number.astype(np.int64)
    low = np.stack(points, axis=1).astype(np.int32) if points else np.zeros((len(number), 0), dtype=np.int32)
    first = np.lexsort((*low.T[::-1], owner))
    owner, low = owner[first], low[first]
    new = np.ones(len(owner), dtype=np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (low[1:] != low[:-1]).any(axis=1)  # equal points are one
    owner, low = owner[new], low[new]
    high = low + 1
    for side in reversed(range(low.shape[1])):
        others = [place for place in range(low.shape[1]) if place != side]
        sides = np.stack([end[:, place] for place in reversed(others) for end in (high, low)] + [low[:, side]])
        order = np.lexsort((sides[-1], *sides[:-1], owner))
        owner, low, high = owner[order], low[order], high[order]
        alike = (owner[1:] == owner[:-1]) & (low[1:, side] == high[:-1, side])
        for place in others:
            alike &= (low[1:, place] == low[:-1, place]) & (high[1:, place] == high[:-1, place])
        begins = np.flatnonzero(np.append(True, ~alike))
        ends = np.append(begins[1:], len(owner)) - 1
        joined = high[begins]
        joined[:, side] = high[ends, side]
        owner, low, high = owner[begins], low[begins], joined
    return owner, low, high


def _classes(column: pa.ChunkedArray, n_classes: int, name: str) -> IntArray:
    codes, texts = encode_column(column)
    numbers = [int(text) if text is not None and text.isdecimal() and len(text) < 10 else 0 for text in texts]
    if not texts or min(numbers) < 1 or max(numbers) > n_classes:
        raise InputError(f"{name}: column {CLASS!r} has classes that its plan does not have; run `shoal verify` on it")
    return np.array(numbers, dtype=np.int64)[codes] - 1


def _side(
    attribute: Attribute, values: Sequence[str], low: CodeArray, high: CodeArray
) -> tuple[LabelColumn, CodeArray]:
    """Return one attribute's sides of boxes as a column, and (n_boxes,) the side of each box."""
    ranges, label = np.unique(low.astype(np.int64) * (len(values) + 1) + high, return_inverse=True)
    begins, ends = np.divmod(ranges, len(values) + 1)
    if int((ends - begins).sum()) > MOST_LISTED:
        raise UsageError(
            f"the classes of a plan have too many different ranges of {attribute.name!r} to be linked with others"
        )
    spans = list(zip(begins.tolist(), ends.tolist(), strict=True))
    covers = tuple({"values": values[begin:end]} for begin, end in spans)
    labels = tuple(values[begin] for begin, _ in spans)
    column = LabelColumn(attribute.name, attribute.kind, labels, covers, attribute.format, attribute.length)
    return column, label.reshape(-1).astype(np.int32)


def _describe_classes(table: pa.Table, row: IntArray, names: Sequence[str], n_classes: int) -> dict[str, NDArray[Any]]:
    """Return the number of each class and its published labels, for descriptions."""
    example = np.zeros(n_classes, dtype=np.int64)
    example[row] = np.arange(len(row))
    shown: dict[str, NDArray[Any]] = {CLASS: np.arange(1, n_classes + 1)}
    for name in names:
        codes, texts = encode_column(table.column(name))
        shown[name] = np.array([text or "" for text in texts], dtype=object)[codes[example]]
    return shown

"""A release as boxes over the quasi attributes, and the sensitive values of the entries in each box and bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from shoal.attacks.kernels import Entries
from shoal.attacks.treatments import Treatments
from shoal.columns.base import Trace
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import Pairs, count_pairs, gather_entries
from shoal.linking.kernels import Boxes, BoxIndex, Histograms, grow_tree
from shoal.linking.linkable import Candidates, Linkable, read_agreed_classes
from shoal.linking.space import Space
from shoal.manifest import Attribute
from shoal.release.covers import LabelColumn, read_numbers
from shoal.release.published import PublishedRelease, encode_column, read_column
from shoal.release.release import CLASS
from shoal.release.sliced.table import column_codes, number_rows

MOST_VALUES = 50  # columns of numbers with more distinct values are guessed in ranges
N_RANGES = 20
BLURS = 4.0  # minimal width of a range as a multiple of the noise, which would otherwise choose the range


def rows_of(start: IntArray) -> IntArray:
    """Return the row of each entry, given where each row's entries start.

    >>> rows_of(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def encode_together(columns: Sequence[pa.ChunkedArray]) -> CodeArray:
    """Return (n,) codes of the rows of several columns, one after the other; equal texts have equal codes."""
    chunks = [chunk for column in columns for chunk in column.cast(pa.string()).chunks]
    return column_codes(pa.chunked_array(chunks, pa.string()))


def match_texts(
    ours: Sequence[pa.ChunkedArray], theirs: Sequence[pa.ChunkedArray], *, alone: bool
) -> tuple[IntArray, IntArray]:
    """Return the rows of two tables with equal texts that occur once in the second and, if *alone*, once in the first.

    Missing texts match no text.
    """
    n = len(ours[0])
    text, first = number_rows(list(map(encode_together, zip(ours, theirs, strict=True))), n + len(theirs[0]))
    here, there = (np.bincount(own, minlength=len(first)) for own in (text[:n], text[n:]))
    missing = np.logical_or.reduce(
        [np.append(*(side.is_null().to_numpy() for side in pair)) for pair in zip(ours, theirs, strict=True)]
    )
    once = (there == 1) & ((here == 1) | (not alone)) & ~missing[first]
    place = np.zeros(len(first), dtype=np.int64)
    place[text[n:]] = np.arange(len(theirs[0]))
    rows = np.flatnonzero(once[text[:n]])
    return rows, place[text[rows]]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The published texts of one attribute: the codes and the numbers that each of them covers."""

    number: Mapping[str | None, int]  # text -> label
    low: IntArray  # (n_labels,) code from
    high: IntArray  # (n_labels,) and below
    gaps: IntArray  # (n_labels,) row of the space's bits, -1 without gaps
    spans: FloatArray  # (n_labels, 2) numbers from and below; NaN for categories
    width: int  # number of codes of the attribute

    @property
    def tells(self) -> BoolArray:
        """(n_labels,) whether a label excludes any value."""
        return np.asarray(self.high - self.low < self.width)

    @property
    def middles(self) -> FloatArray:
        """(n_labels,) the middle of the numbers that each covers; NaN for categories and labels without ends."""
        ends = np.where(np.isfinite(self.spans), self.spans, np.nan)
        return np.asarray((ends[:, 0] + ends[:, 1]) / 2)


@dataclass(frozen=True, slots=True, eq=False)
class ViewPart:
    """Published columns whose values are linked; the attributes of other parts are unknown here."""

    known: BoolArray  # (n_known,) which of the quasi attributes it has
    boxes: Boxes
    spans: FloatArray  # (n_spans, 2) from and below, as numbers, of labels; the first is NaN, for categories
    places: CodeArray  # (n_boxes, n_known) which of the spans each label has
    index: BoxIndex
    owner: IntArray | None  # (n_boxes,) the class of each box; None: every box is one
    records: IntArray  # (n_classes,) published rows
    pairs: Pairs  # of classes and buckets

    def measure_widths(self, boxes: IntArray) -> IntArray:
        """Return (n, n_known) how many codes the labels of some boxes cover."""
        hulls, gaps = self.boxes.hulls[boxes], self.boxes.uneven[boxes]
        covered = np.append(np.bitwise_count(self.index.bits).sum(axis=1), 0)[gaps]
        return np.where(gaps < 0, hulls[:, 1::2] - hulls[:, ::2], covered).astype(np.int64)


def read_parts(
    contents: Sequence[tuple[pa.Table, CodeArray]],
    attributes: Mapping[str, Attribute],
    bucket: CodeArray,
    n_buckets: int,
    agreed: tuple[Linkable, CodeArray] | None = None,
    reach: Mapping[str, float] | None = None,
) -> tuple[Space, tuple[ViewPart, ...], tuple[Labels, ...]]:
    """Read parts, given the distinct rows of each, and which of them every published row has.

    For a release by a plan, *agreed* has the plan's boxes and (n_rows,) the class of each row. A published number of an
    attribute in *reach* covers all numbers within this distance.
    """
    quasi = {name: attribute for name, attribute in attributes.items() if attribute.role == "quasi"}
    columns = [
        [read_column(table.column(name), quasi[name], "the release") for name in table.column_names if name in quasi]
        for table, _ in contents
    ]
    near = reach or {}
    columns = [[(_widen(one, near[one.name]) if one.name in near else one, at) for one, at in own] for own in columns]
    linkables, numbers = [], []
    for (table, _), own in zip(contents, columns, strict=True):
        number, first = number_rows([codes for _, codes in own], table.num_rows)
        labels = np.array([codes[first] for _, codes in own], dtype=np.int32).reshape(-1, len(first)).T
        linkables.append(_boxes([column for column, _ in own], labels))
        numbers.append(number)
    if agreed is not None:
        plan = replace(_boxes(agreed[0].columns, agreed[0].labels), agreement=agreed[0].agreement)
        space = Space.of([*linkables, plan])
        parts = [_part(space, plan, space.releases[-1], agreed[1], bucket, n_buckets)]
    else:
        space = Space.of(linkables)
        parts = [
            _part(space, each, boxes, number[place], bucket, n_buckets)
            for each, boxes, number, (_, place) in zip(linkables, space.releases, numbers, contents, strict=True)
        ]
    return space, tuple(parts), tuple(_labels(space, name, columns, linkables) for name in space.attributes)


def read_agreed_boxes(release: PublishedRelease, table: pa.Table) -> tuple[Linkable, CodeArray]:
    """Return the boxes of the plan that a release was made by, and the class of each of its rows."""
    agreed = release.read_plan()
    boxes = read_agreed_classes(release.name, table, release.manifest, agreed, agreed.quasi, agreed.sensitive)
    return boxes, np.asarray(table.column(CLASS).cast(pa.int32()).combine_chunks()) - np.int32(1)


def _widen(column: LabelColumn, reach: float) -> LabelColumn:
    """Return a column of numbers each of which covers all numbers within *reach*."""
    values = [(place, cover["values"][0]) for place, cover in enumerate(column.covers) if "values" in cover]
    numbers = read_numbers([text for _, text in values], column.kind)
    covers = list(column.covers)
    for (place, _), number in zip(values, numbers.tolist(), strict=True):
        covers[place] = {"from": number - reach, "below": number + reach}
    return replace(column, covers=tuple(covers))


def _boxes(columns: Sequence[LabelColumn], labels: CodeArray) -> Linkable:
    """Return boxes in the form that linking uses, without counts."""
    none = np.empty(0, dtype=np.int64)
    return Linkable(
        name="the release",
        columns=tuple(columns),
        labels=labels,
        histograms=Histograms(np.zeros(len(labels) + 1, dtype=np.int64), none, none),
        records=np.ones(len(labels), dtype=np.int64),
        values=(),
        n_rows=len(labels),
    )


def _part(
    space: Space, each: Linkable, boxes: Boxes, class_of: CodeArray, bucket: CodeArray, n_buckets: int
) -> ViewPart:
    at = [space.attributes.index(column.name) for column in each.columns]
    known = np.zeros(len(space.attributes), dtype=np.bool_)
    known[at] = True
    spans, places = np.full((1, 2), np.nan), np.zeros((len(each.labels), len(known)), dtype=np.int32)
    for place, (column, a) in enumerate(zip(each.columns, at, strict=True)):
        if column.kind in ("number", "date"):
            places[:, a] = each.labels[:, place] + len(spans)
            spans = np.append(spans, column.spans, axis=0)
    n_classes = int(each.owner.max()) + 1
    return ViewPart(
        known=known,
        boxes=boxes,
        spans=spans,
        places=places,
        index=BoxIndex(*grow_tree(boxes.hulls), space.bits),
        owner=None if each.agreement is None else each.owner,
        records=np.bincount(class_of, minlength=n_classes),
        pairs=count_pairs(class_of, n_classes, bucket, n_buckets, np.ones(len(bucket), dtype=np.int64)),
    )


def _labels(space: Space, name: str, columns: Sequence[Sequence[Any]], linkables: Sequence[Linkable]) -> Labels:
    """Return the labels of an attribute in the first part that has it; they come first in the attribute's covers."""
    a = space.attributes.index(name)
    found = ((part, side) for part, own in enumerate(columns) for side, each in enumerate(own) if each[0].name == name)
    part, side = next(found)
    column, _ = columns[part][side]
    n_labels = len(column.labels)
    low, high, _ = space.covers[a].hulls()
    gaps = np.full(n_labels, -1, dtype=np.int64)
    gaps[linkables[part].labels[:, side]] = space.releases[part].uneven[:, a]
    return Labels(
        {text: place for place, text in enumerate(column.labels)},
        low[:n_labels].astype(np.int64),
        high[:n_labels].astype(np.int64),
        gaps,
        column.spans,
        space.covers[a].width,
    )


def scales_of(parts: Sequence[ViewPart]) -> FloatArray:
    """Return (n_known,) the difference of the largest and the smallest number of each attribute, NaN for categories."""
    found = []
    for a in range(len(parts[0].known)):
        ends = np.concatenate([part.spans[np.unique(part.places[:, a])] for part in parts])
        finite = np.where(np.isfinite(ends), ends, np.nan)
        found.append(np.maximum(np.fmax.reduce(finite[:, 1]) - np.fmin.reduce(finite[:, 0]), 1e-12))
    return np.array(found)


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """The published entries of one sensitive attribute, by their box and bucket.

    A generalized entry is spread evenly over the values below its label: Tian and Zhang's induced frequency. Numbers
    with many values are put into ranges with about the same number of published records. If labels are themselves
    ranges of numbers or days, as in a synthetic table, the attacks guess a label.
    """

    name: str
    part: int
    values: tuple[str | None, ...]
    edges: FloatArray | None  # (n_values - 1,) where one range ends and the next begins
    marginal: FloatArray  # (n_values,) shares of all published entries
    entries: Entries  # of each pair of box and bucket, weighted by records
    changed: bool  # whether a technique changed its numbers
    moved: float  # share of the values that are in another person's row
    within: tuple[str, ...]  # columns within whose groups values were moved
    kind: str
    format: str | None  # of days

    @classmethod
    def of(
        cls,
        part: int,
        pairs: Pairs,
        column: pa.ChunkedArray,
        place: CodeArray,
        attribute: Attribute,
        treatments: Treatments,
        like: Secret | None = None,
    ) -> Secret:
        """Count a column in which row r has the value ``column[place[r]]``, given the pairs of its part's rows.

        Numbers are put into the ranges of the secret *like*, if it has ranges.
        """
        name, trace, (codes, texts) = attribute.name, treatments.trace(attribute.name), encode_column(column)
        spans = None
        if any("from" in cover for cover in attribute.covers.values()):  # other labels list their values
            spans = LabelColumn.of(attribute, texts, "the release").spans
        if like is not None and like.edges is not None and (spans is not None or not attribute.boxed):
            edges: FloatArray | None = like.edges
        elif spans is not None:
            edges = _label_edges(codes[place], spans)
        else:
            edges = _edges(codes[place], texts, attribute, trace)
        if edges is None:
            candidates = Candidates.of(texts, attribute.labels, "the release")
        else:
            if spans is None:
                spans = np.stack([read_numbers(texts, attribute.kind, attribute.format)] * 2, axis=1)
            candidates = _in_ranges(spans, edges)
        n_pairs, n_values = len(pairs.second), len(candidates.values)
        row = np.ones(len(place), dtype=np.int64)
        counted = Histograms.of(pairs.pair_of, codes[place], row, n_pairs, len(texts))
        spread, which = gather_entries(candidates.start, counted.value)
        value, n_below = candidates.value[which], np.diff(candidates.start)[counted.value]
        weight = (counted.counts / n_below)[spread]
        start = np.concatenate([[0], np.cumsum(n_below)])[counted.start].astype(np.int64)
        marginal = np.bincount(value, weights=weight, minlength=n_values)
        return cls(
            name=name,
            part=part,
            values=candidates.values,
            edges=edges,
            marginal=marginal / marginal.sum(),
            entries=Entries(start, value, weight),
            changed=trace.numbers,
            moved=trace.moved,
            within=trace.within,
            kind=attribute.kind,
            format=attribute.format,
        )

    def count_in_classes(self, part: ViewPart, classes: AnyIntArray) -> FloatArray:
        """Return (n, n_values) how many records of some classes of its part have each value."""
        row, pair = gather_entries(part.pairs.start, classes)
        spread, place = gather_entries(self.entries.start, pair)
        shape = len(classes), len(self.values)
        key = row[spread] * shape[1] + self.entries.value[place]
        return np.bincount(key, self.entries.weight[place], shape[0] * shape[1]).reshape(shape).astype(np.float64)

    def codes(self, column: pa.ChunkedArray) -> CodeArray:
        """Return (n,) the place of each value of a column of people among the values, -1 for unpublished ones."""
        codes, texts = encode_column(column)
        if self.edges is not None:
            numbers = read_numbers(texts, self.kind, self.format)
            return _places(numbers, self.edges, "right")[codes].astype(np.int32)
        number = {value: place for place, value in enumerate(self.values)}
        return np.array([number.get(text, -1) for text in texts], dtype=np.int32)[codes]


def _edges(codes: CodeArray, texts: Sequence[str | None], attribute: Attribute, trace: Trace) -> FloatArray | None:
    """Return where to cut a column of numbers, or None if its values are guessed one by one.

    Changed numbers are cut half way between two of them, because a rounded number represents its neighbourhood. Cuts
    are farther apart than the noise.
    """
    changed = trace.numbers
    if attribute.kind != "number" or attribute.boxed or (len(texts) <= MOST_VALUES and not changed):
        return None
    numbers = read_numbers(texts, "number")[codes]
    rows = numbers[~np.isnan(numbers)]
    if not len(rows):
        return None
    edges = np.unique(np.quantile(rows, np.arange(1, N_RANGES) / N_RANGES, method="lower" if changed else "linear"))
    if changed:
        distinct = np.unique(rows)
        place = np.searchsorted(distinct, edges)
        place = place[place > 0]
        edges = (distinct[place - 1] + distinct[place]) / 2
    kept: list[float] = []
    for edge in edges.tolist():
        if not kept or edge - kept[-1] >= BLURS * trace.blur:
            kept.append(edge)
    return np.array(kept)


def _label_edges(codes: CodeArray, spans: FloatArray) -> FloatArray:
    """Return where labels begin and end; for very many labels, where some begin, with similar numbers of rows between.

    Labels do not overlap, so none of them is cut.
    """
    begins = spans[:, 0][np.isfinite(spans[:, 0])]
    if len(spans) <= MOST_VALUES or not len(begins):
        return np.unique(spans[np.isfinite(spans)])
    rows = spans[codes, 0]
    return np.unique(np.quantile(rows[np.isfinite(rows)], np.arange(1, N_RANGES) / N_RANGES, method="lower"))


def _places(numbers: FloatArray, edges: FloatArray, side: Literal["left", "right"]) -> IntArray:
    """Return the range of each number, given the edges; the last place is for values that are not numbers."""
    found = np.searchsorted(edges, numbers, side=side)
    return np.where(np.isnan(numbers), len(edges) + 1, found).astype(np.int64)


def _in_ranges(spans: FloatArray, edges: FloatArray) -> Candidates:
    """Return which ranges between edges each text overlaps, given the numbers that it covers."""
    ends = ["", *(f"{edge:g}" for edge in edges), ""]
    names = [f"[{low}, {high})" for low, high in pairwise(ends)]
    first = _places(spans[:, 0], edges, "right")
    last = np.maximum(_places(spans[:, 1], edges, "left"), first)
    start = np.concatenate([[0], np.cumsum(last + 1 - first)])
    text = np.repeat(np.arange(len(spans)), last + 1 - first)
    return Candidates(start, first[text] + np.arange(len(text)) - start[text], (*names, None))

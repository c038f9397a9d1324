"""A sensitive attribute as a release publishes it: its values, and which of them stand in which box and bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from shoal.attacks.parts import spans_of
from shoal.attacks.treatments import Treatments
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import Pairs
from shoal.linking.columns import coded, labelled
from shoal.linking.histograms import Histograms, gathered
from shoal.linking.linkable import Candidates
from shoal.taxonomies.parse import days, decimal_numbers

MOST_VALUES = 50  # numbers with more distinct values are guessed by ranges
N_RANGES = 20
BLURS = 4.0  # ranges are at least so many times as wide as noise, which would else decide which range it is


@dataclass(frozen=True, slots=True, eq=False)
class Secret:
    """The published entries of one sensitive attribute, by the box and the bucket in which they stand.

    A generalized entry is spread evenly over the values below its label: Tian and Zhang's induced frequency. Numbers
    with many values are put into ranges of about equally many published records; where labels are ranges of numbers
    or days themselves, as a synthetic table's are, what is guessed is a label.
    """

    name: str
    part: int
    values: tuple[str | None, ...]
    edges: FloatArray | None  # (n_values - 1,) where one range ends and the next begins
    marginal: FloatArray  # (n_values,) shares of all published entries
    entry: IntArray  # (n_pairs + 1,) pair p of box and bucket has the entries entry[p]:entry[p + 1]
    value: IntArray  # (n_entries,)
    weight: FloatArray  # (n_entries,) records
    changed: bool = False  # whether its numbers were changed
    moved: float = 0.0  # share of the values that stand in another row than their own
    within: tuple[str, ...] = ()  # columns whose groups kept their values when these were moved
    kind: str = "category"
    format: str | None = None  # of days

    @classmethod
    def of(
        cls,
        name: str,
        part: int,
        pairs: Pairs,
        column: pa.ChunkedArray,
        place: CodeArray,
        entry: Mapping[str, Any],
        treatments: Treatments,
        like: Secret | None = None,
    ) -> Secret:
        """Count a column of which row r has the value ``column[place[r]]``, given the pairs of its part's rows.

        Numbers are put into the ranges of another release's, if there are any.
        """
        codes, texts = coded(column)
        spans = _label_spans(name, texts, entry)
        ranges = like is not None and like.edges is not None and (spans is not None or "labels" not in entry)
        changed = treatments.renumbered(name)
        if like is not None and ranges:
            edges = like.edges
        elif spans is not None:
            edges = _label_edges(codes[place], spans)
        else:
            edges = _edges(codes[place], texts, entry, changed=changed)
            edges = None if edges is None else _apart(edges, BLURS * treatments.blur(name))
        if edges is None:
            candidates = Candidates.of(texts, entry.get("labels"), "the release")
        else:
            spans = _own_spans(texts, entry["kind"], entry.get("format")) if spans is None else spans
            candidates = _in_ranges(spans, edges)
        n_pairs, n_texts = len(pairs.second), len(texts)
        row = np.ones(len(place), dtype=np.int64)
        counted = Histograms.of(pairs.pair_of, codes[place], row, n_pairs, n_texts)
        spread, which = gathered(candidates.start, counted.value)
        value = candidates.value[which]
        weight = (counted.count / np.diff(candidates.start)[counted.value])[spread]
        ends = np.concatenate([[0], np.cumsum(np.diff(candidates.start)[counted.value])])
        n_values = len(candidates.values)
        marginal = np.bincount(value, weights=weight, minlength=n_values)
        return cls(
            name=name,
            part=part,
            values=candidates.values,
            edges=edges,
            marginal=marginal / marginal.sum(),
            entry=ends[counted.start].astype(np.int64),
            value=value,
            weight=weight,
            changed=changed,
            moved=treatments.moved(name),
            within=treatments.within(name),
            kind=entry["kind"],
            format=entry.get("format"),
        )

    def codes(self, column: pa.ChunkedArray) -> CodeArray:
        """Return (n,) which of the values each one of a column of people is, -1 for those that are not published."""
        codes, texts = coded(column)
        if self.edges is not None:
            own = _own_spans(texts, self.kind, self.format)[:, 0]
            return _places(own, self.edges, "right")[codes].astype(np.int32)
        number = {value: place for place, value in enumerate(self.values)}
        return np.array([number.get(text, -1) for text in texts], dtype=np.int32)[codes]


def _edges(
    codes: CodeArray, texts: Sequence[str | None], entry: Mapping[str, Any], *, changed: bool
) -> FloatArray | None:
    """Return where to cut a column of numbers, or None if it is to be taken value by value.

    Numbers that were *changed* are cut half way between two of them: a rounded one stands for what is around it.
    """
    if entry["kind"] != "number" or "labels" in entry or (len(texts) <= MOST_VALUES and not changed):
        return None
    numbers, valid = decimal_numbers(pa.array(texts, pa.string()))
    rows = numbers[codes[valid[codes]]]
    if not len(rows):
        return None
    edges = np.unique(np.quantile(rows, np.arange(1, N_RANGES) / N_RANGES, method="lower" if changed else "linear"))
    if not changed:
        return edges
    distinct = np.unique(rows)
    place = np.searchsorted(distinct, edges)
    place = place[place > 0]
    return np.asarray((distinct[place - 1] + distinct[place]) / 2)


def _apart(edges: FloatArray, least: float) -> FloatArray:
    """Return edges that are at least so far from each other."""
    kept: list[float] = []
    for edge in edges.tolist():
        if not kept or edge - kept[-1] >= least:
            kept.append(edge)
    return np.array(kept)


def _label_spans(name: str, texts: list[str | None], entry: Mapping[str, Any]) -> FloatArray | None:
    """Return (n_texts, 2) the numbers or days from and below which labels lie, or None if they list their values."""
    labels: Mapping[str, Any] = entry.get("labels", {})
    if not any("from" in cover for cover in labels.values()):
        return None
    return spans_of(labelled(name, entry, texts, "the release"))


def _label_edges(codes: CodeArray, spans: FloatArray) -> FloatArray:
    """Return where labels begin and end; of very many, where some of them begin, with about equally many rows between.

    Labels do not overlap, so that none of them is cut.
    """
    begins = spans[:, 0][np.isfinite(spans[:, 0])]
    if len(spans) <= MOST_VALUES or not len(begins):
        return np.unique(spans[np.isfinite(spans)])
    rows = spans[codes, 0]
    return np.unique(np.quantile(rows[np.isfinite(rows)], np.arange(1, N_RANGES) / N_RANGES, method="lower"))


def _own_spans(texts: Sequence[str | None], kind: str, form: str | None) -> FloatArray:
    """Return (n_texts, 2) values that stand for themselves, as numbers or days; NaN for what is none."""
    values = pa.array(texts, pa.string())
    numbers, valid = days(values, form) if kind == "date" else decimal_numbers(values)
    own = np.where(valid, numbers, np.nan)
    return np.stack([own, own], axis=1)


def _places(numbers: FloatArray, edges: FloatArray, side: Literal["left", "right"]) -> IntArray:
    """Return between which edges numbers lie; what is none has a place of its own behind all others."""
    found = np.searchsorted(edges, numbers, side=side)
    return np.where(np.isnan(numbers), len(edges) + 1, found).astype(np.int64)


def _in_ranges(spans: FloatArray, edges: FloatArray) -> Candidates:
    """Return which ranges between edges each text reaches into, given the numbers that it stands for."""
    ends = ["", *(f"{edge:g}" for edge in edges), ""]
    names = [f"[{low}, {high})" for low, high in pairwise(ends)]
    first = _places(spans[:, 0], edges, "right")
    last = np.maximum(_places(spans[:, 1], edges, "left"), first)
    start = np.concatenate([[0], np.cumsum(last + 1 - first)])
    text = np.repeat(np.arange(len(spans)), last + 1 - first)
    return Candidates(start, first[text] + np.arange(len(text)) - start[text], (*names, None))

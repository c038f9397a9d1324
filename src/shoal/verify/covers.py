"""What a published label stands for, as ranges of codes, and which code a source value has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.kernels import kernel
from shoal.verify.lines import Cover, CoverError, Line, NumberLine, TextLine, ValueLine

__all__ = ["CoverError", "Covers", "read_covers"]

_FLAGS = ("any", "missing")


@dataclass(frozen=True, slots=True, eq=False)
class Covers:
    """The labels of one attribute as code ranges; label i covers ranges ``start[i]:start[i + 1]``.

    Stretches that no label but "any" covers share the code of other values: labels that differ only by such
    a gap are neighbours.
    """

    attribute: Attribute
    labels: tuple[str | None, ...]  # None, the last, for missing values that are published as such
    start: IntArray  # (n_labels + 1,)
    low: CodeArray  # (n_ranges,)
    high: CodeArray  # (n_ranges,)
    width: int  # codes are below this; the last one stands for missing values
    line: Line
    codes: CodeArray  # (line.width,) the code of each stretch

    @property
    def missing(self) -> int:
        """The code of missing values."""
        return self.width - 1

    def places(self, values: pa.Array) -> CodeArray:
        """Return (n,) the code of each value; nulls are not among them."""
        return self.codes[self.line.places(values)]

    def declared(self) -> Iterable[Cover]:
        """Return the covers as the manifest writes them."""
        return (self.attribute.labels or {}).values()

    def unmet(self, met: BoolArray) -> int:
        """Return how many codes that labels cover are not among those *met*, missing values that are kept aside."""
        covered = np.zeros(self.width, dtype=np.bool_)
        for label in range(len(self.labels) - self.attribute.may_keep_missing):
            for piece in range(self.start[label], self.start[label + 1]):
                covered[self.low[piece] : self.high[piece]] = True
        return int((covered & ~met).sum())

    def hulls(self) -> tuple[CodeArray, CodeArray, BoolArray]:
        """Return the smallest range around each label, and whether it is wider than the label itself.

        One more label, the last, stands for texts that the manifest does not know and covers nothing.
        """
        pieces = np.diff(self.start)
        low = np.zeros(len(self.labels) + 1, dtype=np.int32)
        high = np.zeros(len(self.labels) + 1, dtype=np.int32)
        some = np.flatnonzero(pieces > 0)
        low[some] = self.low[self.start[some]]
        high[some] = self.high[self.start[some + 1] - 1]
        return low, high, np.append(pieces > 1, False)


def read_covers(attribute: Attribute) -> Covers:
    """Return the labels of an attribute as ranges, or raise CoverError if one has no meaning."""
    declared = attribute.labels or {}
    labels: tuple[str | None, ...] = tuple(declared)
    covers = list(declared.values())
    _check_written(attribute, covers)
    if attribute.may_keep_missing:
        _check_spread(attribute.name, declared)
        labels = (*labels, None)
        covers.append({"missing": True})
    line: Line
    if attribute.kind in ("number", "date"):
        line = NumberLine(attribute, covers)
    elif attribute.kind == "prefix":
        line = TextLine(attribute, covers)
    else:
        line = ValueLine(covers)
    owner, low, high = line.pieces
    for flag, begin in (("any", 0), ("missing", line.width - 1)):
        more = np.array([number for number, cover in enumerate(covers) if flag in cover], dtype=np.int64)
        owner = np.append(owner, more)
        low, high = np.append(low, np.full(more.shape, begin)), np.append(high, np.full(more.shape, line.width))
    flat = np.stack([low, high], axis=1)
    named = flat[flat[:, 1] - flat[:, 0] < line.width]
    begins, ends = (np.bincount(named[:, side], minlength=line.width + 1) for side in (0, 1))
    covered = np.cumsum(begins - ends)[: line.stretches] > 0
    codes = np.zeros(line.width, dtype=np.int32)
    codes[: line.stretches] = np.cumsum(covered) - covered
    n_covered = int(covered.sum())
    codes[: line.stretches][~covered] = n_covered
    codes[line.stretches :] = (n_covered, n_covered + 1)
    # below: (line.width + 1,) how many codes lie before each stretch
    below = np.append(np.cumsum(covered) - covered, (n_covered, n_covered + 1, n_covered + 2))
    order = np.lexsort((flat[:, 0], owner))
    start, lows, highs = _joined(len(covers), owner[order], below[flat[order, 0]], below[flat[order, 1]])
    return Covers(attribute, labels, start, lows, highs, n_covered + 2, line, codes)


@kernel
def _joined(n: int, owner: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, CodeArray, CodeArray]:
    """Join ranges of one owner that touch; owners ascend, and so do the ranges of each."""
    start = np.zeros(n + 1, dtype=np.int64)
    new_low = np.empty(low.shape[0], dtype=np.int32)
    new_high = np.empty(low.shape[0], dtype=np.int32)
    count = 0
    for i in range(low.shape[0]):
        if i > 0 and owner[i] == owner[i - 1] and low[i] <= new_high[count - 1]:
            new_high[count - 1] = max(new_high[count - 1], high[i])
            continue
        new_low[count], new_high[count] = low[i], high[i]
        count += 1
        start[owner[i] + 1] += 1
    return np.cumsum(start), new_low[:count].copy(), new_high[:count].copy()


def _check_written(attribute: Attribute, covers: Sequence[Cover]) -> None:
    """Raise CoverError if a cover is not written as its kind is; most covers have one of very few shapes."""
    shapes: dict[tuple[str, ...], list[Cover]] = {}
    for cover in covers:
        shapes.setdefault(tuple(cover), []).append(cover)
    for shape, alike in shapes.items():
        _check_alike(attribute, set(shape), alike)


def _check_alike(attribute: Attribute, shape: set[str], covers: Sequence[Cover]) -> None:
    allowed = {
        "number": ({"from", "below"}, {"values"}),
        "date": ({"from", "below"}, {"values"}),
        "prefix": ({"prefixes"}, {"values"}, {"prefixes", "values"}, {"from", "through"}),
        "category": ({"values"},),
    }[attribute.kind]
    what = f"a cover of {attribute.name!r}"
    if any(cover[flag] is not True for flag in _FLAGS if flag in shape for cover in covers):
        raise CoverError(f"{what} has a flag that is not true")
    rest = shape - set(_FLAGS)
    if "any" in shape:
        if shape != {"any"}:
            raise CoverError(f"{what} says more than 'any'")
        return
    if rest not in allowed and not (not rest and "missing" in shape):
        raise CoverError(f"{what} is not written as covers of kind {attribute.kind!r} are")
    if "through" in shape and not all(
        end is None or isinstance(end, str) for cover in covers for end in (cover["from"], cover["through"])
    ):
        raise CoverError(f"{what} has ends that are not text")
    for key in ("values", "prefixes"):
        if key in shape and not all(_is_list_of_texts(cover[key]) for cover in covers):
            raise CoverError(f"{what} has no list of texts under {key!r}")


def _check_spread(name: str, labels: Mapping[str, Cover]) -> None:
    """Raise CoverError if it is not clear over which values a record under a sensitive label spreads."""
    listed = {value for cover in labels.values() for value in cover.get("values", ())}
    for label, cover in labels.items():
        values = cover.get("values", ())
        if "any" in cover:
            raise CoverError(f"a cover of {name!r}, which is sensitive, says 'any' and does not list its values")
        if len(set(values)) != len(values):
            raise CoverError(f"a cover of {name!r} lists a value twice")
        if label in listed and (list(values) != [label] or "missing" in cover):
            raise CoverError(f"a label of {name!r} reads like a value and does not cover just this one")


def _is_list_of_texts(raw: object) -> bool:
    return isinstance(raw, list | tuple) and bool(raw) and all(isinstance(item, str) for item in raw)

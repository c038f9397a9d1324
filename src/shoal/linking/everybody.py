"""The linkage of whole populations: of given people, or of all combinations of classes."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, UsageError
from shoal.linking import kernels
from shoal.linking.histograms import Histograms
from shoal.linking.linkable import Linkable
from shoal.linking.result import Remaining, WorstCase
from shoal.linking.space import Boxes, Space
from shoal.linking.tree import Tree, grow
from shoal.release.sliced.table import numbered

WORST = 10
MOST_PAIRS = 2**24
_BLOCK = 2**22  # counts that are held at a time
_NONE = np.iinfo(np.int64).max
_PARTS, _FEW = 16, 4096  # parts that threads look at; boxes that are not worth it


def trees(space: Space) -> list[Tree]:
    """Return an index of each release's boxes."""
    return [grow(each.hulls) for each in space.releases]


def left_for(space: Space, indexes: Sequence[Tree], queries: CodeArray) -> tuple[list[IntArray], list[IntArray]]:
    """Return of each release (n_queries, n_values) the counts that it leaves, and a box that covers the query."""

    def one(each: Boxes, tree: Tree) -> tuple[IntArray, IntArray]:
        counts = np.zeros((len(queries), len(space.values)), dtype=np.int64)
        box = np.empty(len(queries), dtype=np.int64)
        kernels.summed_for(queries, each.hulls, each.uneven, each.sparse, space.bits, tree, counts, box)
        return counts, box

    with ThreadPoolExecutor() as threads:
        found = list(threads.map(one, space.releases, indexes))
    return [counts for counts, _ in found], [box for _, box in found]


def by_population(
    space: Space, linkables: Sequence[Linkable], queries: CodeArray, people: CodeArray, floor: int, texts: Sequence[str]
) -> dict[str, Any]:
    """Link for given people: *queries* are their distinct quasi values, *people* tells whose are which."""
    indexes = trees(space)
    rows = np.bincount(people, minlength=len(queries)).astype(np.int64)
    size = max(1, _BLOCK // len(space.values))
    distinct = np.zeros(len(queries), dtype=np.int64)
    frequency, entropy = np.zeros(len(queries)), np.zeros(len(queries))
    for begin in range(0, len(queries), size):
        block = slice(begin, begin + size)
        sums, _ = left_for(space, indexes, queries[block])
        left = np.minimum.reduce(sums)
        distinct[block] = (left > 0).sum(axis=1)
        total = np.maximum(left.sum(axis=1), 1)
        frequency[block] = total / np.maximum(left.max(axis=1), 1)
        shares = left / total[:, None]
        entropy[block] = np.exp(-(shares * np.log(np.where(left > 0, shares, 1.0))).sum(axis=1))
    linked = distinct > 0
    if not linked.any():
        raise InputError("nobody of the population can be in all of the releases; are they about the same people?")
    order = np.lexsort((frequency, distinct))
    chosen = order[linked[order]][: 20 * WORST]
    sums, boxes = left_for(space, indexes, queries[chosen])
    left = np.minimum.reduce(sums)
    members = np.stack(boxes, axis=1)
    owners = np.stack([each.owner[boxes] for each, boxes in zip(linkables, members.T, strict=True)], axis=1)
    _, unlike = np.unique(owners, axis=0, return_index=True)
    below = linked & (distinct < floor)
    return {
        "l": int(distinct[linked].min()),
        "frequency_l": float(frequency[linked].min()),
        "entropy_l": float(entropy[linked].min()),
        "people": len(people),
        "people_linked": int(rows[linked].sum()),
        "people_below": int(rows[below].sum()),
        "exact": True,
        "combinations": int(linked.sum()),
        "combinations_below": int(below.sum()),
        "combinations_empty": int((~linked).sum()),
        "worst": tuple(
            WorstCase(_told(linkables, members[place]), Remaining.of(left[place], texts))
            for place in np.sort(unlike)[:WORST].tolist()
        ),
    }


def by_classes(space: Space, linkables: Sequence[Linkable], floor: int, texts: Sequence[str]) -> dict[str, Any]:
    """Link for everybody who can be: all combinations of classes, one of each release, that have values in common."""
    indexes = trees(space)
    releases = [_held(space, *both) for both in zip(space.releases, indexes, strict=True)]
    overlapping = any(new is not old for new, old in zip(releases, space.releases, strict=True))
    boxes, members = releases[0], np.arange(len(linkables[0].labels))[:, None]
    for each, tree in zip(releases[1:-1], indexes[1:-1], strict=True):
        boxes, members = _joined(space, boxes, members, each, tree)
    last = releases[-1]
    owners = [each.owner[boxes] for each, boxes in zip(linkables[:-1], members.T, strict=True)]
    owner = numbered(owners, len(members))[0].astype(np.int64)
    most = max(int(np.add.reduceat(each.histograms.count, each.histograms.start[:-1]).max()) for each in releases)
    sequence = np.argsort(owner, kind="stable")

    def look(part: IntArray) -> _Seen:
        seen = _Seen.nothing(len(members), len(last.hulls))
        kernels.link_pairs(
            boxes.hulls, boxes.uneven, boxes.sparse, owner, part,
            last.hulls, last.uneven, last.sparse, linkables[-1].owner, space.bits, indexes[-1],
            len(space.values), floor, np.log(np.maximum(np.arange(most + 1), 1)),
            seen.below, seen.below_there, seen.met, seen.met_there, seen.worst, seen.least, seen.totals,
        )  # fmt: skip
        return seen

    with ThreadPoolExecutor() as threads:
        seen = _Seen.all(list(threads.map(look, _parts(sequence, owner))))
    totals, least = seen.totals, seen.least
    if not totals[0]:
        raise InputError("nobody can be in all of the releases with the same values; are they about the same people?")
    found = seen.worst[seen.worst[:, 0] < _NONE]
    return {
        "l": int(least[0]),
        "frequency_l": float(least[1]),
        "entropy_l": float(least[2]),
        "people": min(each.n_rows for each in linkables),
        "people_linked": _most_people(linkables, members[seen.met], seen.met_there),
        "people_below": _most_people(linkables, members[seen.below], seen.below_there),
        "exact": not overlapping,
        "combinations": int(totals[0]),
        "combinations_below": int(totals[1]),
        "combinations_empty": int(totals[2]),
        "worst": tuple(
            WorstCase(
                _told(linkables, [*members[one].tolist(), other]),
                Remaining.of(np.minimum(_row(boxes, one, len(texts)), _row(last, other, len(texts))), texts),
            )
            for _, _, one, other in found.tolist()
        ),
    }


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What looking at pairs of boxes found; see ``kernels.link_pairs``."""

    below: BoolArray
    below_there: BoolArray
    met: BoolArray
    met_there: BoolArray
    worst: IntArray
    least: FloatArray
    totals: IntArray

    @classmethod
    def nothing(cls, n_boxes: int, n_there: int) -> _Seen:
        """Return what is found before looking."""
        here, there = np.zeros(n_boxes, dtype=np.bool_), np.zeros(n_there, dtype=np.bool_)
        worst = np.full((WORST, 4), _NONE, dtype=np.int64)
        return cls(here, there, here.copy(), there.copy(), worst, np.full(3, np.inf), np.zeros(3, dtype=np.int64))

    @classmethod
    def all(cls, parts: Sequence[_Seen]) -> _Seen:
        """Return what several found together."""
        worst = np.concatenate([each.worst for each in parts])
        order = np.lexsort((-worst[:, 1], worst[:, 0]))
        return cls(
            below=np.logical_or.reduce([each.below for each in parts]),
            below_there=np.logical_or.reduce([each.below_there for each in parts]),
            met=np.logical_or.reduce([each.met for each in parts]),
            met_there=np.logical_or.reduce([each.met_there for each in parts]),
            worst=worst[order[:WORST]],
            least=np.minimum.reduce([each.least for each in parts]),
            totals=np.sum([each.totals for each in parts], axis=0),
        )


def _parts(sequence: IntArray, owner: IntArray) -> list[IntArray]:
    """Return boxes in several parts, none of which breaks up an owner."""
    if len(sequence) < _FEW:
        return [sequence]
    of = owner[sequence]
    edges = np.searchsorted(of, of[np.arange(1, _PARTS) * len(of) // _PARTS])
    return [part for part in np.split(sequence, np.unique(edges)) if len(part)]


def _held(space: Space, boxes: Boxes, tree: Tree) -> Boxes:
    """Add to what each box leaves what others do that hold it wholly: whoever is in it is in these too.

    Boxes of which no two overlap are returned as they are.
    """
    if not kernels.any_overlap(boxes.hulls, boxes.uneven, space.bits, tree):
        return boxes
    none = np.empty((0, 2), dtype=np.int64)
    pairs = np.empty((kernels.holding(boxes.hulls, boxes.uneven, space.bits, tree, none, False), 2), dtype=np.int64)
    kernels.holding(boxes.hulls, boxes.uneven, space.bits, tree, pairs, True)
    held = boxes.histograms.merged(pairs[:, 1], pairs[:, 0], len(boxes.hulls), len(space.values))
    return Boxes(boxes.hulls, boxes.uneven, held)


def _joined(space: Space, boxes: Boxes, members: IntArray, each: Boxes, tree: Tree) -> tuple[Boxes, IntArray]:
    """Return the boxes that meet one of another release, with what both leave."""

    def run(pairs: IntArray, entries: IntArray, write: bool) -> tuple[int, int]:
        return kernels.joined(
            boxes.hulls, boxes.uneven, boxes.sparse, each.hulls, each.uneven, each.sparse, space.bits, tree,
            len(space.values), pairs, entries, write,
        )  # fmt: skip

    n_pairs, n_entries = run(np.empty((0, 2), dtype=np.int64), np.empty((0, 3), dtype=np.int64), False)
    if n_entries > MOST_PAIRS:
        raise UsageError(
            f"the classes of three and more releases meet in too many ways ({n_pairs:,}); give the people with "
            "--population, or link two at a time"
        )
    pairs, entries = np.empty((n_pairs, 2), dtype=np.int64), np.empty((n_entries, 3), dtype=np.int64)
    run(pairs, entries, True)
    one, other = boxes.hulls[pairs[:, 0]], each.hulls[pairs[:, 1]]
    hulls = np.empty_like(one)
    hulls[:, ::2] = np.maximum(one[:, ::2], other[:, ::2])
    hulls[:, 1::2] = np.minimum(one[:, 1::2], other[:, 1::2])
    uneven = np.concatenate([boxes.uneven[pairs[:, 0]], each.uneven[pairs[:, 1]]], axis=1)
    left = Histograms.of(entries[:, 0], entries[:, 1], entries[:, 2], n_pairs, len(space.values))
    return Boxes(hulls, uneven, left), np.column_stack((members[pairs[:, 0]], pairs[:, 1]))


def _most_people(linkables: Sequence[Linkable], members: IntArray, there: BoolArray) -> int:
    """Return how many people can be in one of the combinations: each is a record of a class of every release."""
    chosen = [np.unique(members[:, place]) for place in range(members.shape[1])]
    chosen.append(np.flatnonzero(there))
    return min(min(each.n_rows, _records(each, boxes)) for each, boxes in zip(linkables, chosen, strict=True))


def _records(linkable: Linkable, boxes: IntArray) -> int:
    """Return how many records the classes of these boxes have."""
    _, first = np.unique(linkable.owner[boxes], return_index=True)
    return int(linkable.records[boxes[first]].sum())


def _told(linkables: Sequence[Linkable], members: Sequence[int] | IntArray) -> tuple[dict[str, str], ...]:
    """Return the labels of one class of each release."""
    return tuple(each.told(int(box)) for each, box in zip(linkables, members, strict=True))


def _row(boxes: Boxes, box: int, n_values: int) -> IntArray:
    start, value, count = boxes.sparse
    row = np.zeros(n_values, dtype=np.int64)
    row[value[start[box] : start[box + 1]]] = count[start[box] : start[box + 1]]
    return row

"""The boxes that labels span in the space of codes, whether they overlap or not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.verify.covers import Covers
from shoal.verify.kernels import inlined, kernel

Ragged: TypeAlias = tuple[CodeArray, IntArray, IntArray, CodeArray, CodeArray]  # labels and all their ranges
_SAMPLE = 32
_CROWDED = 8  # of the sample


class Spans(NamedTuple):
    """Boxes as their hulls; labels of an uneven box have gaps in it, which only their ranges tell."""

    hulls: CodeArray  # (n_boxes, 2 n_attributes) from and below, attribute by attribute
    uneven: BoolArray  # (n_boxes,)
    ragged: Ragged

    @classmethod
    def of(cls, covers: Sequence[Covers], labels: CodeArray) -> Spans:
        """Build from (n_boxes, n_attributes) label numbers."""
        n, d = labels.shape
        hulls = np.empty((n, 2 * d), dtype=np.int32)
        uneven = np.zeros(n, dtype=np.bool_)
        offsets, starts = np.zeros(d, dtype=np.int64), []
        n_labels = n_ranges = 0
        for a, cover in enumerate(covers):
            low, high, wider = cover.hulls()
            hulls[:, 2 * a], hulls[:, 2 * a + 1] = low[labels[:, a]], high[labels[:, a]]
            uneven |= wider[labels[:, a]]
            offsets[a] = n_labels
            # The label of unknown texts has no ranges: its start is the next attribute's.
            starts.append(cover.start + n_ranges)
            n_labels += len(cover.labels) + 1
            n_ranges += cover.low.shape[0]
        ragged = (
            labels,
            offsets,
            np.append(np.concatenate(starts), n_ranges),
            np.concatenate([cover.low for cover in covers]),
            np.concatenate([cover.high for cover in covers]),
        )
        return cls(hulls, uneven, ragged)

    def taken(self, order: IntArray) -> Spans:
        """Return the boxes in this order."""
        return Spans(self.hulls[order], self.uneven[order], (self.ragged[0][order], *self.ragged[1:]))

    def usual_widths(self) -> FloatArray:
        """Return (n_attributes,) how many codes hulls span in the mean."""
        return np.asarray(self.hulls[:, 1::2].mean(axis=0) - self.hulls[:, ::2].mean(axis=0), dtype=np.float64)

    def sizes(self) -> FloatArray:
        """Return (n_boxes,) the volume of each hull."""
        return _volumes(self.hulls)

    def crowded(self) -> bool:
        """Whether many boxes overlap, judged by how many cover a corner of a few of them.

        The answer only chooses between two ways to the same result.
        """
        n = self.hulls.shape[0]
        some = np.unique(np.arange(_SAMPLE) * n // _SAMPLE)[:n]
        corners = np.ascontiguousarray(self.hulls[some, ::2])
        return _meet(self.hulls, corners, -(-_CROWDED * some.shape[0] // _SAMPLE))


@kernel
def _volumes(hulls: CodeArray) -> FloatArray:
    out = np.ones(hulls.shape[0])
    for box in range(hulls.shape[0]):
        for a in range(hulls.shape[1] // 2):
            out[box] *= hulls[box, 2 * a + 1] - hulls[box, 2 * a]
    return out


@kernel
def _meet(hulls: CodeArray, corners: CodeArray, enough: int) -> bool:
    """Return whether enough of the corners are in more than one hull."""
    meetings = 0
    for i in range(corners.shape[0]):
        covering = 0
        for box in range(hulls.shape[0]):
            a = 0
            while a < corners.shape[1] and hulls[box, 2 * a] <= corners[i, a] < hulls[box, 2 * a + 1]:
                a += 1
            covering += a == corners.shape[1]
            if covering > 1:
                meetings += 1
                break
        if meetings >= enough:
            return True
    return False


@inlined
def in_hull(hulls: CodeArray, points: CodeArray, i: int, box: int) -> bool:
    """Whether point i lies in the hull of a box."""
    inside = True
    for a in range(hulls.shape[1] // 2):
        inside &= (points[i, a] >= hulls[box, 2 * a]) & (points[i, a] < hulls[box, 2 * a + 1])
    return inside


@kernel
def in_ranges(ragged: Ragged, points: CodeArray, i: int, owner: int) -> bool:
    """Whether the labels of a box cover point i, range by range."""
    labels, offsets, start, range_low, range_high = ragged
    for a in range(labels.shape[1]):
        label = offsets[a] + labels[owner, a]
        inside = False
        for r in range(start[label], start[label + 1]):
            if range_low[r] <= points[i, a] < range_high[r]:
                inside = True
                break
        if not inside:
            return False
    return True

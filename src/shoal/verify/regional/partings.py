"""Ways to part a release and its source so that the parts can be checked one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.coding import CodedRows, CodedSource, Layout
from shoal.verify.kernels import kernel
from shoal.verify.parts import Task
from shoal.verify.regional.cuts import CutTree

_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_NONE: BoolArray = np.zeros(0, dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """Where the rows of a batch go."""

    parts: CodeArray  # (n_rows,)
    crossed: BoolArray = field(default_factory=_NONE.copy)  # the cuts that rows cross
    crossing: CodeArray | None = None  # (n, n_labelled) labels of rows that do


class Parting(ABC):
    """Sends every row to one of ``n_parts``."""

    n_parts: int
    most: ClassVar[float] = 0.99  # of all rows in one part, or it is not worth while; memory is taken by different ones

    @abstractmethod
    def of_release(self, rows: CodedRows) -> Sent:
        """Return where rows of the release go."""

    @abstractmethod
    def of_source(self, rows: CodedSource) -> CodeArray:
        """Return (n_rows,) where rows of the source go."""

    @abstractmethod
    def of_population(self, points: CodeArray) -> CodeArray:
        """Return (n_rows,) where rows of a population go."""

    def groups(self, crossed: BoolArray) -> IntArray:  # noqa: ARG002  without cuts none is crossed
        """Return (n_groups + 1,) the first part of each group of parts that must be checked as one."""
        return np.arange(self.n_parts + 1)


@dataclass(frozen=True, slots=True, eq=False)
class ByCuts(Parting):
    """By cuts between boxes: classes stay whole, and every row finds its source rows beside it."""

    most: ClassVar[float] = 0.75
    tree: CutTree
    labelled: IntArray  # places of the tree's attributes among those with labels
    boxed: IntArray  # ... among those that rows are matched by
    quasi: IntArray  # ... among those that make classes

    @classmethod
    def of(cls, tree: CutTree, layout: Layout, attributes: IntArray) -> ByCuts:
        """Part by a tree over these attributes, given by their places among those with labels."""
        boxed, quasi = (
            [side.index(a) if a in side else -1 for a in attributes] for side in (layout.boxed, layout.quasi)
        )
        return cls(tree, attributes, np.array(boxed, dtype=np.int64), np.array(quasi, dtype=np.int64))

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        """The leaves of the tree."""
        return self.tree.n_leaves

    def of_release(self, rows: CodedRows) -> Sent:
        parts, crossed, crossing = self.tree.of_boxes(rows.labels, self.labelled)
        return Sent(parts, crossed, rows.labels[:, crossing].T if crossing.any() else None)

    def of_source(self, rows: CodedSource) -> CodeArray:
        return self.tree.of_points(rows.points, self.boxed)

    def of_population(self, points: CodeArray) -> CodeArray:
        return self.tree.of_points(points, self.quasi)

    def groups(self, crossed: BoolArray) -> IntArray:
        return self.tree.groups(crossed)


def cut_by(task: Task, labels: CodeArray, weights: IntArray, n_parts: int) -> ByCuts | None:
    """Return cuts for about *n_parts* that no box of a sample crosses; None if there are none, or no use for them.

    The sample are (n_boxes, n_labelled) *labels* and how many rows have them.
    """
    layout = task.layout
    sides = [layout.quasi] if task.promises else []
    sides += [layout.boxed] if task.key is not None else []
    if layout.by_values or (task.key is None and not task.populations):
        return None
    attributes = [a for a in range(len(layout.labelled)) if all(a in side for side in sides)]
    if not attributes:
        return None
    known = {**dict(zip(layout.quasi, task.quasi, strict=True)), **dict(zip(layout.boxed, task.boxed, strict=True))}
    heaviest = max(1, int(weights.sum()) // n_parts)
    tree = CutTree.of([known[a] for a in attributes], labels[:, attributes], weights, heaviest)
    return ByCuts.of(tree, layout, np.array(attributes, dtype=np.int64)) if tree.n_leaves > 1 else None


@kernel
def _spread(keys: KeyArray, salt: np.uint64, n_parts: np.uint64) -> CodeArray:
    out = np.empty(keys.shape[0], dtype=np.int32)
    for i in range(keys.shape[0]):
        word = (keys[i] ^ salt) * _SPREAD
        word = (word ^ (word >> _HALF)) * _MIX
        out[i] = ((word >> _HALF) * n_parts) >> _HALF
    return out


@dataclass(frozen=True, slots=True, eq=False)
class ByClass(Parting):
    """By what the class is: enough for promises, no use for comparing rows."""

    n_parts: int
    salt: int  # another one parts otherwise

    def of_release(self, rows: CodedRows) -> Sent:
        return Sent(_spread(rows.keys, np.uint64(self.salt), np.uint64(self.n_parts)))

    def of_source(self, rows: CodedSource) -> CodeArray:
        raise NotImplementedError("classes do not tell where source rows are")

    def of_population(self, points: CodeArray) -> CodeArray:
        raise NotImplementedError("classes do not tell where rows of a population are")


@dataclass(frozen=True, slots=True, eq=False)
class ByContent(Parting):
    """By contents: a row and the source rows that could be its own have the same."""

    n_parts: int
    salt: int

    def of_release(self, rows: CodedRows) -> Sent:
        assert rows.hashes is not None  # noqa: S101 - used only with a source
        return Sent(self._parts(rows.hashes))

    def of_source(self, rows: CodedSource) -> CodeArray:
        return self._parts(rows.hashes)

    def of_population(self, points: CodeArray) -> CodeArray:
        raise NotImplementedError("a population has no contents")

    def _parts(self, hashes: KeyArray) -> CodeArray:
        return _spread(hashes, np.uint64(self.salt), np.uint64(self.n_parts))

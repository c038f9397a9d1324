"""The check of a part that fits into memory: its classes, its promises, its truth."""

from __future__ import annotations

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.verify.boxes import BoxTree
from shoal.verify.comparing import false_rows
from shoal.verify.counting import Counting
from shoal.verify.guarantees import Judged, judge
from shoal.verify.parts import Findings, Part, Task, unchanged
from shoal.verify.room import Room
from shoal.verify.spans import Spans


def check_part(part: Part, task: Task, room: Room, counting: Counting | None = None) -> Findings:
    """Return what is found in a part, or raise OutgrownError if there is no room for it.

    *counting*, a new one of the task, keeps what was counted until then.
    """
    counting = task.counting(room) if counting is None else counting
    for rows, subjects in part.release(unchanged, labelled=counting.needs_labels):
        counting.add(rows, subjects)
    counting.settle()
    judged, uncovered = _judged(part, task, counting) if counting.rows else (None, {})
    return Findings(judged, uncovered, false_rows(part, task, counting, room) if task.key is not None else 0)


def _judged(part: Part, task: Task, counting: Counting) -> tuple[tuple[Judged, ...], dict[str, int]]:
    tables = part.tables()
    histograms = {subject: counting.histograms(place, tables[place]) for place, subject in enumerate(task.subjects)}
    covered = {name: _covered(part, task, counting, name) for name in task.populations}
    totals = {name: totals for name, (totals, _) in covered.items()}
    judged = tuple(judge(promise, task.manifest, counting.sizes, histograms, totals) for promise in task.promises)
    return judged, {name: uncovered for name, (_, uncovered) in covered.items()}


def _covered(part: Part, task: Task, counting: Counting, name: str) -> tuple[IntArray, int]:
    """Return (n_classes,) how many rows of a population each class covers, and how many no class covers."""
    tree = BoxTree.of(task.quasi, Spans.of(task.quasi, counting.class_labels()))

    def cover(points: CodeArray) -> tuple[IntArray, int]:
        found = np.zeros(counting.n_classes, dtype=np.int64)
        return found, tree.count(points, found)

    totals, uncovered = np.zeros(counting.n_classes, dtype=np.int64), 0
    for found, missed in part.population(name, cover):
        totals += found
        uncovered += missed
    return totals, uncovered

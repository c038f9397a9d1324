"""The check of a part that may be larger than memory: parted again and again until its parts fit."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.arrays import CodeArray, IntArray
from shoal.errors import UsageError
from shoal.progress import Progress, Silent
from shoal.verify.checking import check_part
from shoal.verify.counting import Counting
from shoal.verify.parts import Findings, Part, Task
from shoal.verify.regional.partings import ByClass, ByContent, cut_by
from shoal.verify.regional.routing import Routed, route
from shoal.verify.room import OutgrownError, Room

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BASE = 420 << 20  # bytes of the interpreter, its libraries, compiled kernels and labels
_THREAD = 150 << 20  # bytes of the batches that a thread reads and codes
_LEAST = 48 << 20
_SAMPLE = 1 << 20  # boxes that cuts are looked for in
_FEWEST, _MOST = 4, 1 << 12  # parts
_SPARE = 1.5  # how much smaller than what fits parts are made
_ROUNDS = 3  # of cuts, each with the boxes that crossed those before
_DEEPEST = 8  # parts of parts


@dataclass(frozen=True, slots=True)
class Means:
    """What a verification may use."""

    room: Room
    folder: Path | None = None  # for temporary files; None: the system's
    threads: int = 1
    spark: SparkSession | None = None  # whose workers check what they can

    @classmethod
    def of(cls, memory: int | None, folder: Path | None, threads: int) -> Means:
        """Divide *memory*, bytes of the whole process; where it is scarce there are fewer *threads*."""
        if memory is None:
            return cls(Room(), folder, threads)
        threads = max(1, min(threads, (memory - _BASE) // (2 * _THREAD)))
        return cls(Room(max(memory - _BASE - threads * _THREAD, _LEAST)), folder, threads)


def check(part: Part, task: Task, means: Means, progress: Progress, depth: int = 0) -> Findings:
    """Return what is found in a part, which may be the whole release; memory decides how, never what is found."""
    counting = task.counting(means.room)
    try:
        return check_part(part, task, means.room, counting)
    except OutgrownError as error:
        needed = error.needed  # the error itself knows what was being counted, which has to go
    if depth == _DEEPEST:
        raise _refused(means, needed)
    n_parts = _wanted(counting, part.n_rows, needed, means)
    sample = _sample(counting, task)
    del counting
    with ExitStack() as held:
        routed = _cut(part, task, means, sample, n_parts, held)
        if routed is not None:
            return _together(routed, task, means, progress, depth)
    if task.promises and task.key is not None:
        promised = check(part, task.promises_only, means, progress, depth + 1)
        compared = check(part, task.truth_only, means, progress, depth + 1)
        return replace(promised, false_rows=compared.false_rows)
    if task.populations:
        raise _refused(means, needed)
    with ExitStack() as held:
        routed = route(part, task, (ByClass if task.promises else ByContent)(n_parts, depth), means.folder, held)
        if not routed.parts:
            raise _refused(means, needed)
        return _together(routed, task, means, progress, depth)


def _together(routed: Routed, task: Task, means: Means, progress: Progress, depth: int) -> Findings:
    """Check all parts, some at a time, and join what is found."""
    share = replace(means, room=means.room.shared(means.threads), threads=1)
    found = Findings()
    with (
        ThreadPoolExecutor(means.threads) as threads,
        progress.step("checking regions", sum(part.n_rows for part in routed.parts)) as step,
    ):
        running = {threads.submit(check, part, task, share, Silent(), depth + 1): part for part in routed.parts}
        try:
            for done in as_completed(running):
                found = found.joined(done.result(), task)
                step.advance(running[done].n_rows)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def _cut(
    part: Part, task: Task, means: Means, sample: tuple[CodeArray, IntArray], n_parts: int, held: ExitStack
) -> Routed | None:
    """Send rows to both sides of cuts that no box crosses; None if there are no such cuts, or no use for them."""
    labels, weights = sample
    for _ in range(_ROUNDS):
        parting = cut_by(task, labels, weights, n_parts)
        if parting is None:
            return None
        with ExitStack() as files:
            routed = route(part, task, parting, means.folder, files)
            if routed.parts:
                held.push(files.pop_all())
                return routed
        labels = np.concatenate([labels, routed.crossing])
        weights = np.append(weights, np.zeros(len(routed.crossing), dtype=np.int64))
    return None


def _sample(counting: Counting, task: Task) -> tuple[CodeArray, IntArray]:
    """Return (n, n_labelled) labels of classes or boxes that were met, and how many rows they have."""
    layout = task.layout
    by_class = bool(task.promises) or layout.alike
    found = counting.class_labels() if by_class else counting.box_labels()
    weights = counting.sizes if task.promises else np.ones(len(found), dtype=np.int64)
    step = -(-len(found) // _SAMPLE) or 1
    found, weights = found[::step], weights[::step]
    labels = np.zeros((len(found), len(layout.labelled)), dtype=np.int32)
    if not layout.by_values or not by_class:
        labels[:, list(layout.quasi if by_class else layout.boxed)] = found
    return labels, weights.copy()


def _wanted(counting: Counting, n_rows: int, needed: int, means: Means) -> int:
    """Return how many parts to make, judged by how much of what was counted was new.

    Rows of a release come in random order; if these do not, there will be parts of parts.
    """
    limit = (means.room.limit or 1) // means.threads
    seen = max(counting.rows, 1)
    growth = max(1.0, n_rows / seen)
    if growth > 1:
        growth = min(growth, max(_growth(distinct, seen, n_rows) for distinct in counting.distinct))
    return int(min(max(_FEWEST, math.ceil(_SPARE * growth * needed / limit)), _MOST))


def _growth(distinct: int, seen: int, n_rows: int) -> float:
    """Return how many times as many distinct things all rows have, if all are equally frequent.

    Of d things s draws show d (1 - exp(-s / d)).

    >>> round(_growth(632, 1000, 10**9), 2), _growth(1000, 1000, 5000)
    (1.58, 5.0)
    """
    low, high = float(distinct), max(distinct, distinct * n_rows / seen)
    if distinct >= seen:
        return n_rows / seen
    for _ in range(50):
        middle = (low + high) / 2
        if middle * -math.expm1(-seen / middle) < distinct:
            low = middle
        else:
            high = middle
    return high * -math.expm1(-n_rows / high) / max(distinct, 1)


def _refused(means: Means, needed: int) -> UsageError:
    limit = means.room.limit or 0
    least = (_BASE + means.threads * _THREAD + max(needed, limit)) / (1 << 30)
    return UsageError(
        "this release does not fit into memory, and it cannot be checked in parts: no values part its classes; "
        f"allow more than {least:.1f} GiB"
    )

"""The check of a part that may be larger than memory: parted again and again until its parts fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import UsageError
from shoal.core.progress import Progress, Silent
from shoal.verify.boxes import BoxTree
from shoal.verify.coding import CodedRows, CodedSource
from shoal.verify.comparing import false_rows
from shoal.verify.counting import Counting, Table
from shoal.verify.guarantees import Judged, judge
from shoal.verify.parts import Findings, Part, Result, Task, unchanged
from shoal.verify.regional.files import PartsFile, sorted_by_parts
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.regional.partings import ByClass, ByContent, Parting, Sent, cut_by
from shoal.verify.room import OutgrownError, Room
from shoal.verify.spans import Spans

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MOST_CROSSING = 1 << 17  # rows that are kept as examples of boxes that cross cuts
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


@dataclass(frozen=True, slots=True, eq=False)
class Files:
    """Where the rows of all parts wait, and how they are written."""

    release: PartsFile
    source: PartsFile | None
    populations: dict[str, PartsFile]
    release_words: ReleaseWords
    source_words: PointWords
    population_words: PointWords


class Kept(Part):
    """Some of the parts that rows were sent to, checked as one."""

    def __init__(self, files: Files, begin: int, end: int, n_rows: int, tables: tuple[Table, ...]) -> None:
        self.n_rows = n_rows
        self._files = files
        self._begin, self._end = begin, end
        self._tables = tables

    def release(
        self, work: Callable[[CodedRows], Result], *, labelled: bool
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        for rows in self._files.release.read(self._begin, self._end):
            coded, subjects = self._files.release_words.unpack(rows, labelled=labelled)
            yield work(coded), subjects

    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:  # noqa: ARG002
        assert self._files.source is not None  # noqa: S101 - asked for only when a source is given
        for rows in self._files.source.read(self._begin, self._end):
            yield work(self._files.source_words.unpack(rows))

    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        for rows in self._files.populations[name].read(self._begin, self._end):
            yield work(self._files.population_words.points(rows))

    def tables(self) -> tuple[Table, ...]:
        return self._tables


@dataclass(frozen=True, slots=True, eq=False)
class Routed:
    """What became of the rows: parts to check, largest first, or none if one of them would be nearly all."""

    parts: tuple[Kept, ...]
    crossing: CodeArray  # (n, n_labelled) labels of boxes that cross cuts


def route(part: Part, task: Task, parting: Parting, folder: Path | None, held: ExitStack) -> Routed:
    """Send the rows of a part where *parting* says; the files stay open as long as *held*."""

    def file(n_words: int) -> PartsFile:
        opened = PartsFile(n_words, parting.n_parts, folder)
        held.callback(opened.close)
        return opened

    release_words = ReleaseWords(task)
    source_words = PointWords([cover.width for cover in task.boxed] if task.key is not None else (), with_hash=True)
    population_words = PointWords([cover.width for cover in task.quasi] if task.populations else (), with_hash=False)
    files = Files(
        release=file(release_words.n_words),
        source=file(source_words.n_words) if task.key is not None else None,
        populations={name: file(population_words.n_words) for name in task.populations},
        release_words=release_words,
        source_words=source_words,
        population_words=population_words,
    )
    crossed, crossing, counts = _send_release(part, task, parting, files)
    first = parting.groups(crossed)
    n_rows = np.add.reduceat(files.release.counts(), first[:-1])
    if n_rows.max() > parting.most * n_rows.sum():
        return Routed((), crossing)
    if files.source is not None:
        _send_source(part, parting, source_words, files.source)
    for name, target in files.populations.items():
        _send_population(part, name, parting, population_words, target)
    tables = tuple(
        table if table.counts is not None else replace(table, counts=count)
        for table, count in zip(part.tables()[: len(counts)], counts, strict=True)
    )
    groups = zip(first[:-1].tolist(), first[1:].tolist(), n_rows.tolist(), strict=True)
    parts = [Kept(files, begin, end, rows, tables) for begin, end, rows in groups if rows]
    return Routed(tuple(sorted(parts, key=lambda one: -one.n_rows)), crossing)


def _send_release(
    part: Part, task: Task, parting: Parting, files: Files
) -> tuple[BoolArray, CodeArray, list[IntArray]]:
    """Write the release; return which cuts rows cross, examples of them, and how often each value occurs."""
    words_of = files.release_words

    def send(rows: CodedRows) -> tuple[Sent, KeyArray]:
        return parting.of_release(rows), words_of.pack(rows)

    crossed: BoolArray = np.zeros(0, dtype=np.bool_)
    crossing: list[CodeArray] = []
    n_crossing = 0
    counts: list[IntArray] = [np.zeros(0, dtype=np.int64) for _ in task.subjects]
    for (sent, words), subjects in part.release(send, labelled=True):
        words_of.add_values(words, subjects)
        files.release.write(*sorted_by_parts(words, sent.parts, parting.n_parts))
        crossed = sent.crossed | crossed if len(crossed) else sent.crossed
        if sent.crossing is not None and n_crossing < _MOST_CROSSING:
            crossing.append(np.unique(sent.crossing, axis=0))
            n_crossing += len(crossing[-1])
        for place, values in enumerate(subjects[: len(counts)]):
            found = np.bincount(values, minlength=len(counts[place]))
            found[: len(counts[place])] += counts[place]
            counts[place] = found
    files.release.finish()
    boxes = np.concatenate(crossing) if crossing else np.zeros((0, len(task.layout.labelled)), dtype=np.int32)
    return crossed, boxes, counts


def _send_source(part: Part, parting: Parting, words: PointWords, file: PartsFile) -> None:
    def send(batch: CodedSource) -> tuple[KeyArray, IntArray]:
        return sorted_by_parts(words.pack(batch.points, batch.hashes), parting.of_source(batch), parting.n_parts)

    for rows, first in part.source(send, "routing the source"):
        file.write(rows, first)
    file.finish()


def _send_population(part: Part, name: str, parting: Parting, words: PointWords, file: PartsFile) -> None:
    def send(points: CodeArray) -> tuple[KeyArray, IntArray]:
        return sorted_by_parts(words.pack(points), parting.of_population(points), parting.n_parts)

    for rows, first in part.population(name, send):
        file.write(rows, first)
    file.finish()


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

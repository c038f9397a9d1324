"""Sending all rows of a part to the files of smaller parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.verify.coding import CodedRows, CodedSource
from shoal.verify.counting import Table
from shoal.verify.parts import Part, Result, Task
from shoal.verify.regional.files import PartsFile, sorted_by_parts
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.regional.partings import Parting, Sent

_MOST_CROSSING = 1 << 17  # rows that are kept as examples of boxes that cross cuts


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

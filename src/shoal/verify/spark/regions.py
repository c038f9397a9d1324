"""The check of one region by the task that its rows were sent to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from shoal.arrays import CodeArray, KeyArray
from shoal.progress import Silent
from shoal.sources.spark.exchange import received
from shoal.sources.spark.shared import Shared
from shoal.verify.coding import CodedRows, CodedSource
from shoal.verify.counting import Table
from shoal.verify.parts import Findings, Part, Result, Task
from shoal.verify.regional import Means, check
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.spark.messages import RELEASE, SOURCE, told_message, words_of

_TOGETHER = 1 << 18  # rows that are handed out at a time


class Arrived(Part):
    """The rows that were sent to one task."""

    def __init__(
        self,
        release: tuple[ReleaseWords, KeyArray],
        source: tuple[PointWords, KeyArray],
        tables: tuple[Table, ...],
    ) -> None:
        self._release_words, self._release = release
        self._source_words, self._source = source
        self._tables = tables
        self.n_rows = len(self._release)

    def release(
        self, work: Callable[[CodedRows], Result], *, labelled: bool
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        for rows in _some(self._release):
            coded, subjects = self._release_words.unpack(rows, labelled=labelled)
            yield work(coded), subjects

    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:  # noqa: ARG002
        for rows in _some(self._source):
            yield work(self._source_words.unpack(rows))

    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        raise NotImplementedError("populations are compared by the driver")

    def tables(self) -> tuple[Table, ...]:
        return self._tables


def _some(rows: KeyArray) -> Iterator[KeyArray]:
    for begin in range(0, len(rows), _TOGETHER):
        yield rows[begin : begin + _TOGETHER]


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRegion:
    """What a task tells of its region."""

    number: int
    release_rows: int
    source_rows: int
    found: Findings


@dataclass(frozen=True, slots=True, eq=False)
class CheckRegion:
    """Checks the rows that were sent to a task; what is for the driver is handed on to it."""

    task: Shared[Task]
    tables: tuple[Table, ...]
    release_words: ReleaseWords
    source_words: PointWords
    driver: int
    means: Means

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        arrived = [batch for _, batch in received(batches)]
        if number == self.driver:
            yield from arrived
            return
        release = words_of(arrived, RELEASE, self.release_words.n_words)
        source = words_of(arrived, SOURCE, self.source_words.n_words)
        del arrived
        found = Findings()
        if len(release):
            part = Arrived((self.release_words, release), (self.source_words, source), self.tables)
            found = check(part, self.task.value, self.means, Silent())
        yield told_message(CheckedRegion(number, len(release), len(source), found))

"""All rows of a release, its source and populations, coded as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.arrays import CodeArray
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.coding import CodedRows, CodedSource, ReleaseCoder, SourceCoder, SourceFacts
from shoal.verify.contents import Contents
from shoal.verify.counting import Table
from shoal.verify.parts import Part, Result, Task
from shoal.verify.points import PointReader
from shoal.verify.reading import BATCH, FAULTS, PublishedRows

if TYPE_CHECKING:
    from shoal.sources import Source


class UnreadableError(Exception):
    """The rows of the release cannot be read; *fault* is why."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__(fault)
        self.fault = fault


class Whole(Part):
    """The whole release: every reading codes it anew, and values keep their numbers."""

    def __init__(
        self,
        rows: PublishedRows,
        coder: ReleaseCoder,
        task: Task,
        progress: Progress,
        source: Source | None,
        contents: Contents | None,
        populations: Mapping[str, Source],
        threads: int,
    ) -> None:
        self.n_rows = task.manifest.rows
        self.met = 0  # rows of the release that the last reading met
        self.facts: SourceFacts | None = None  # of the last reading of the source
        self._known: dict[str, int] = {}  # how many rows whole readings met
        self._rows = rows
        self._coder = coder
        self._task = task
        self._progress = progress
        self._source = source
        self._contents = contents
        self._populations = populations
        self._threads = threads

    def release(
        self,
        work: Callable[[CodedRows], Result],
        *,
        labelled: bool,  # noqa: ARG002  they always are
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        coder = self._coder

        def task(batch: pa.RecordBatch) -> tuple[int, Result, dict[str, tuple[pa.Array, CodeArray]]]:
            rows, values = coder.code(batch)
            return rows.rows, work(rows), values

        self.met = 0
        with self._progress.step("reading the release", self.n_rows) as step:
            batches = self._ahead(self._rows.batches(coder.columns), task)
            while True:
                try:
                    n_rows, found, values = next(batches)
                    subjects = coder.number(values)
                except StopIteration:
                    break
                except MemoryError:  # Arrow's is one of the faults, but the file has none
                    raise
                except FAULTS as fault:
                    raise UnreadableError(fault) from None
                self.met += n_rows
                yield found, subjects
                step.advance(n_rows)
        self._check("the release", self.met)

    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:
        source, contents = self._source, self._contents
        assert source is not None and contents is not None  # noqa: S101, PT018 - asked for only when they are given
        coder = SourceCoder(self._task.manifest, self._task.boxed, contents)

        def task(batch: pa.RecordBatch) -> tuple[Result, SourceFacts]:
            rows, facts = coder.code(batch)
            return work(rows), facts

        self.facts = coder.nothing()
        with self._progress.step(title, source.n_rows) as step:
            for found, facts in self._ahead(
                _sliced(source.batches(coder.columns, dictionary=coder.dictionaries)), task
            ):
                self.facts += facts
                yield found
                step.advance(facts.rows)
        self._check(source.name, self.facts.rows)

    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        source, covers = self._populations[name], self._task.quasi
        columns = [cover.attribute.name for cover in covers]
        reader = PointReader(covers, self._task.manifest.missing_tokens)

        def task(batch: pa.RecordBatch) -> tuple[Result, int]:
            return work(reader.points(batch)), batch.num_rows

        with self._progress.step("reading the population", source.n_rows) as step:
            for found, n_rows in self._ahead(_sliced(source.batches(columns, dictionary=columns)), task):
                yield found
                step.advance(n_rows)

    def _ahead(self, batches: Iterator[pa.RecordBatch], task: Callable[[pa.RecordBatch], Result]) -> Iterator[Result]:
        """Yield task(batch) of every batch, worked on ahead; what reading took is free again after that."""
        try:
            yield from prepared(batches, task, self._threads)
        finally:
            pa.default_memory_pool().release_unused()

    def _check(self, name: str, n_rows: int) -> None:
        """Refuse tables of which two readings meet different numbers of rows."""
        if self._known.setdefault(name, n_rows) != n_rows:
            raise InputError(f"{name} changed while it was being read")

    def tables(self) -> tuple[Table, ...]:
        coder = self._coder
        return tuple(Table(coder.texts(subject), coder.n_values(subject)) for subject in coder.subjects)


def _sliced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are not too large, for memory."""
    for batch in batches:
        for begin in range(0, batch.num_rows, BATCH):
            yield batch.slice(begin, BATCH)

"""Passes over a release and over its source: what one of them finds, and the passes of this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray, IntArray, KeyArray
from shoal.core.progress import Progress
from shoal.verify.coding import CodedRows, CodedSource, Layout, ReleaseCoder, SourceCoder, SourceFacts, Subject
from shoal.verify.contents import Contents
from shoal.verify.counting import Counting, Share
from shoal.verify.covers import Covers
from shoal.verify.hashing import RowSums
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise
from shoal.verify.reading import BATCH, FAULTS, PublishedRows, prepare_ahead
from shoal.verify.truth import TOO_LONG, ClassNumbers, Witness, count_uncovered, sum_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.sources.base import Source

Batch = TypeVar("Batch")
Result = TypeVar("Result")
Values = dict[str, tuple[pa.Array, CodeArray]]
_BASE = 420 << 20  # bytes of the interpreter, its libraries, compiled kernels and labels
_THREAD = 150 << 20  # bytes of the batches that a thread reads and codes
_LEAST = 48 << 20


@dataclass(frozen=True, slots=True)
class Means:
    """What a verification may use."""

    limit: int | None = None  # bytes that classes may take; None: as many as there are
    threads: int = 1
    spark: SparkSession | None = None  # whose workers read what they can

    @classmethod
    def of(cls, memory: int | None, threads: int, spark: SparkSession | None = None) -> Means:
        """Divide *memory*, bytes of the whole process; where it is scarce there are fewer *threads*."""
        if memory is None:
            return cls(None, threads, spark)
        threads = max(1, min(threads, (memory - _BASE) // (2 * _THREAD)))
        return cls(max(memory - _BASE - threads * _THREAD, _LEAST), threads, spark)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What is asked of a release and, if there is one, of its source."""

    manifest: Manifest
    layout: Layout
    promises: tuple[Promise, ...]
    contents: Contents | None  # hashes what must be equal in both tables; None without a source
    covers: Mapping[str, Covers] | Future[dict[str, Covers]]
    located: bool = False  # whether rows of a population will be located in classes

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """The sensitive attributes, or combinations of them, that promises are about."""
        return tuple(dict.fromkeys(subject for promise in self.promises for subject in promise.subjects))

    @property
    def numbers(self) -> ClassNumbers:
        """How classes are numbered."""
        return ClassNumbers.of(self.manifest)

    def covers_of(self, places: Sequence[int]) -> list[Covers]:
        """Return what labels of some attributes cover, given by their places among those with labels."""
        covers = self.covers.result() if isinstance(self.covers, Future) else self.covers
        return [covers[self.layout.labelled[place]] for place in places]

    def settle(self) -> Question:
        """Return the same with covers that were read, which other processes can have."""
        return replace(self, covers=self.covers.result() if isinstance(self.covers, Future) else self.covers)

    def counting(self, share: Share, limit: int | None) -> Counting:
        """Return what counts the classes of a share."""
        return Counting(self.layout, len(self.subjects), share, limit, located=self.located)


@dataclass(slots=True, eq=False)
class Counted:
    """What a pass over the release found so far."""

    counting: Counting
    totals: list[IntArray]  # for each subject (n_values,) how often each value occurs in the whole release
    rows: int = 0
    sums: RowSums = field(default_factory=RowSums)  # of all rows, if there is a source

    @classmethod
    def nothing(cls, question: Question, share: Share, limit: int | None) -> Counted:
        """Return what no rows tell."""
        return cls(question.counting(share, limit), [np.zeros(0, dtype=np.int64) for _ in question.subjects])

    def add(self, rows: CodedRows, subjects: Sequence[CodeArray], sums: RowSums, *, classes: bool) -> None:
        """Count the next rows; *classes* only if some promise is about them."""
        self.rows += rows.rows
        self.sums += sums
        self.totals = [add_counts(total, np.bincount(own)) for total, own in zip(self.totals, subjects, strict=True)]
        if classes:
            self.counting.add(rows, subjects)


def add_counts(one: IntArray, other: IntArray) -> IntArray:
    """Return the sum of two arrays, of which the shorter goes on with zeros.

    >>> add_counts(np.array([1, 2]), np.array([5])).tolist()
    [6, 2]
    """
    total = np.zeros(max(len(one), len(other)), dtype=np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What a pass over the source found; what passes over different rows found can be added."""

    facts: SourceFacts
    sums: RowSums = field(default_factory=RowSums)  # of the rows that the witness puts in classes
    uncovered: int = 0  # of these, those that do not lie under the labels of their class
    gone: int = 0  # of these, those that lack a value for which they must have been dropped
    misfit: str | None = None  # why the witness tells of other rows or classes

    def __add__(self, other: Compared) -> Compared:
        """Return what both found."""
        return Compared(
            facts=self.facts + other.facts,
            sums=self.sums + other.sums,
            uncovered=self.uncovered + other.uncovered,
            gone=self.gone + other.gone,
            misfit=self.misfit or other.misfit,
        )


class Comparing:
    """Compares batches of the source with what the witness tells of them; several threads may at a time."""

    def __init__(self, question: Question) -> None:
        assert question.contents is not None  # noqa: S101 - asked for only with a source
        self._boxed = question.layout.boxed
        self._covers = question.covers_of(self._boxed)
        self._numbers = question.numbers
        self._key = question.contents.key
        self.coder = SourceCoder(question.manifest, self._covers, question.contents)

    def nothing(self) -> Compared:
        """Return what no rows tell."""
        return Compared(self.coder.nothing())

    def compare(self, batch: pa.RecordBatch, numbers: IntArray | str) -> Compared:
        """Take (n_columns, n_rows) the numbers of the rows' classes, or say why there are none."""
        rows, facts = self.coder.code(batch)
        if isinstance(numbers, str):
            return Compared(facts, misfit=numbers)
        if len(numbers) != self._numbers.n_columns or not self._numbers.hold(numbers):
            return Compared(facts, misfit="the witness tells of classes that the release cannot have")
        gone = 0
        if rows.stays is not None:
            gone = int((numbers[0, ~rows.stays] > 0).sum())
            numbers = numbers[:, rows.stays]
        inside = numbers[0] > 0
        points, hashes = rows.points, rows.hashes
        if not inside.all():
            numbers, points, hashes = numbers[:, inside], points[inside], hashes[inside]
        wrong = count_uncovered(numbers, self._numbers, points, list(zip(self._boxed, self._covers, strict=True)))
        return Compared(facts, sum_classes(self._key, hashes, numbers), wrong, gone)


class Reader(ABC):
    """Reads both tables as often as it is asked."""

    coder: ReleaseCoder  # knows, after a pass over the release, all its labels and values

    @abstractmethod
    def count(self, share: Share) -> Counted:
        """Read the release, and count the classes of a share; the counting may have let some of them go."""

    @abstractmethod
    def compare(self, witness: Witness) -> Compared:
        """Read the source beside the witness."""


class UnreadableError(Exception):
    """The rows of the release cannot be read; *fault* is why."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__(fault)
        self.fault = fault


class LocalReader(Reader):
    """Reads both tables in this process: batches are worked on ahead, and values keep their numbers."""

    def __init__(
        self, rows: PublishedRows, question: Question, source: Source | None, progress: Progress, means: Means
    ) -> None:
        schema = None if source is None else source.schema
        self.coder = ReleaseCoder(rows.schema, question.manifest, question.subjects, question.contents, schema)
        self._rows = rows
        self._question = question
        self._source = source
        self._progress = progress
        self._means = means

    def count(self, share: Share) -> Counted:
        counted = Counted.nothing(self._question, share, self._means.limit)
        numbers, contents, classes = self._question.numbers, self._question.contents, bool(self._question.promises)

        def code(batch: pa.RecordBatch) -> tuple[CodedRows, Values, RowSums]:
            rows, values = self.coder.code(batch)
            return rows, values, sum_published(rows, numbers, contents)

        for rows, values, sums in self._release(code):
            counted.add(rows, self.coder.number(values), sums, classes=classes)
        counted.counting.settle()
        return counted

    def labels(self) -> tuple[CodeArray, KeyArray]:
        """Return (n_rows, n_boxed) the labels of the release, and the hashes of its contents; its rows are few."""
        boxed = list(self._question.layout.boxed)
        found = [(rows.labels[boxed].T, rows.hashes) for rows, _ in self._release(self.coder.code)]
        hashes = [own for _, own in found if own is not None]
        return np.concatenate([own for own, _ in found]), np.concatenate(hashes)

    def _release(self, work: Callable[[pa.RecordBatch], Result]) -> Iterator[Result]:
        with self._progress.step("reading the release", self._question.manifest.rows) as step:
            batches = self._ahead(self._rows.batches(self.coder.columns), lambda batch: (work(batch), batch.num_rows))
            while True:
                try:
                    found, n_rows = next(batches)
                except StopIteration:
                    return
                except MemoryError:  # Arrow's is one of the faults, but the file has none
                    raise
                except FAULTS as fault:
                    raise UnreadableError(fault) from None
                yield found
                step.advance(n_rows)

    def compare(self, witness: Witness) -> Compared:
        comparing, n_rows = Comparing(self._question), 0

        def pair(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, IntArray | str]:
            nonlocal n_rows
            n_rows += batch.num_rows
            return batch, witness.read(n_rows - batch.num_rows, batch.num_rows)

        beside = (pair(batch) for batch in self._original(comparing.coder))
        found = comparing.nothing()
        for more in self._ahead(beside, lambda both: comparing.compare(*both)):
            found += more
        if witness.n_rows > n_rows:
            return replace(found, misfit=TOO_LONG)
        return found

    def source_rows(self) -> Iterator[tuple[CodedSource, SourceFacts]]:
        """Yield the rows of the source, and what they tell."""
        coder = Comparing(self._question).coder
        return self._ahead(self._original(coder), coder.code)

    def _original(self, coder: SourceCoder) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the source in batches that are not too large, for memory."""
        assert self._source is not None  # noqa: S101 - asked for only with a source
        with self._progress.step("comparing with the source", self._source.n_rows) as step:
            for batch in self._source.batches(coder.columns, dictionary=coder.dictionaries):
                for begin in range(0, batch.num_rows, BATCH):
                    yield batch.slice(begin, BATCH)
                step.advance(batch.num_rows)

    def _ahead(self, batches: Iterator[Batch], work: Callable[[Batch], Result]) -> Iterator[Result]:
        """Yield work(batch) of every batch, worked on ahead; what reading took is free again after that."""
        try:
            yield from prepare_ahead(batches, work, self._means.threads)
        finally:
            pa.default_memory_pool().release_unused()


def sum_published(rows: CodedRows, numbers: ClassNumbers, contents: Contents | None) -> RowSums:
    """Add up published rows by what they show; nothing without a source to compare with."""
    if contents is None or rows.hashes is None:
        return RowSums()
    return sum_classes(contents.key, rows.hashes, numbers.pack(rows.labels, rows.rows))

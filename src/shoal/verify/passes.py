"""Passes over a release and over its source, in this process, and the memory that they may use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.core.progress import Progress, Step
from shoal.verify.cells import CodedRows, Counting
from shoal.verify.coding import CodedSource, Compared, ReleaseCoder, SourceCoder
from shoal.verify.reading import BATCH, FAULTS, WORKERS, PublishedRows, prepare_ahead
from shoal.verify.truth import TOO_LONG, Witness

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.sources.base import Source

Populations = Mapping[str, "Source"]
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
    def of(cls, memory: int | None, threads: int = WORKERS, spark: SparkSession | None = None) -> Means:
        """Divide *memory*, bytes of the whole process; where it is scarce there are fewer *threads*."""
        if memory is None:
            return cls(None, threads, spark)
        threads = max(1, min(threads, (memory - _BASE) // (2 * _THREAD)))
        return cls(max(memory - _BASE - threads * _THREAD, _LEAST), threads, spark)


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """What a release is compared with, and what that may use."""

    source: Source | None
    witness: Witness | None
    populations: Populations
    labelled: pa.Table | None  # the values under defended labels
    progress: Progress
    means: Means


class UnreadableError(Exception):
    """The rows of the release cannot be read; *fault* is why."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__(fault)
        self.fault = fault


class Reader:
    """Reads both tables in this process, as often as it is asked: batches are worked on ahead."""

    def __init__(self, rows: PublishedRows, given: Given) -> None:
        self.rows = rows
        self.source = given.source
        self.progress = given.progress
        self.means = given.means

    def count(self, coder: ReleaseCoder, counting: Counting, n_rows: int) -> Counting:
        """Read the release, about *n_rows* rows, and count its classes."""
        for rows in self.code_release(coder, n_rows):
            counting.add(rows)
        counting.settle()
        return counting

    def code_release(self, coder: ReleaseCoder, n_rows: int) -> Iterator[CodedRows]:
        """Yield the rows of the release, or raise an UnreadableError."""
        with self.progress.step("reading the release", n_rows) as step:
            batches = prepare_ahead(self.rows.batches(coder.columns), coder.code, self.means.threads)
            while True:
                try:
                    rows = next(batches)
                except StopIteration:
                    return
                except MemoryError:  # Arrow's is one of the faults, but the file has none
                    raise
                except FAULTS as fault:
                    raise UnreadableError(fault) from None
                yield rows
                step.advance(rows.rows)

    def compare(self, coder: SourceCoder, witness: Witness) -> Compared:
        """Read the source beside the witness."""
        n_rows = 0

        def pair(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, IntArray | str]:
            nonlocal n_rows
            n_rows += batch.num_rows
            return batch, witness.read(n_rows - batch.num_rows, batch.num_rows)

        found = coder.nothing()
        beside = (pair(batch) for batch in self._original(coder))
        for more in prepare_ahead(beside, lambda both: coder.compare(*both), self.means.threads):
            found += more
        return replace(found, misfit=TOO_LONG) if witness.n_rows > n_rows else found

    def code_source(self, coder: SourceCoder) -> Iterator[CodedSource]:
        """Yield the rows of the source, and what they tell."""
        return prepare_ahead(self._original(coder), coder.code, self.means.threads)

    def _original(self, coder: SourceCoder) -> Iterator[pa.RecordBatch]:
        assert self.source is not None  # noqa: S101 - asked for only with a source
        with self.progress.step("comparing with the source", self.source.n_rows) as step:
            yield from read_in_steps(self.source, coder.columns, coder.dictionaries, step)


def read_in_steps(
    source: Source, columns: Sequence[str], dictionary: Sequence[str], step: Step
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in batches that are not too large, for memory."""
    for batch in source.batches(columns, dictionary=dictionary):
        for begin in range(0, batch.num_rows, BATCH):
            yield batch.slice(begin, BATCH)
        step.advance(batch.num_rows)

"""The local engine: Arrow record batches, packed keys, and a thread per core.

While one batch is read, other threads encode and sort earlier ones. Dictionaries grow in the order of the batches,
whatever thread is first, so the same source gives the same cells in the same order.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from shoal.core.arrays import KeyArray
from shoal.core.dictionaries import GrowingDictionary
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.core.randomness import Chance
from shoal.engines.regions.budget import Budget
from shoal.plan.cells import KeyLayout
from shoal.plan.counted import (
    CountedCells,
    LocatedBatch,
    SampledCells,
    Sorting,
    Thinning,
    factor_batch,
    look_up,
    pack_keys,
    some_rows,
    tally_values,
)
from shoal.policy.policy import Policy
from shoal.release.publication import Publication, PublishedRows
from shoal.sources.base import Source, SourceOptions, ahead
from shoal.sources.opening import open_source

if TYPE_CHECKING:
    from shoal.release.regions import RegionalPublication

__all__ = ["CountedCells", "LocalEngine", "SampledCells", "release_memory"]

R = TypeVar("R")


def release_memory() -> None:
    """Return the free memory of Arrow and, if possible, of the C library to the system."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


class KeptRows(Protocol):
    """Published rows that an engine keeps."""

    @property
    def rows(self) -> Any:
        """The rows as the verifier reads them: a ``schema`` and ``batches``."""

    @property
    def frame(self) -> object:
        """The rows as the user gets them."""

    def place(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns, and last the place of each row in the source."""

    def draw(self, n_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield about *n_rows* random rows, or all rows."""


class LocalEngine:
    """Counts and rewrites rows of one machine's files and tables."""

    keeps_order: ClassVar[bool] = True  # whether a source has the same order each time it is read

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(os.cpu_count() or 1, 8)

    def open(self, data: object, options: SourceOptions, held: ExitStack) -> Source:  # noqa: ARG002
        """Open a table; *held* ends when the run ends."""
        return open_source(data, options)

    def plan_regions(
        self,
        policy: Policy,
        source: Source,
        looked: SampledCells,
        budget: Budget,
        chance: Chance,
        folder: Path | None,
        progress: Progress,
        held: ExitStack,
    ) -> RegionalPublication:
        """Plan a table larger than memory region by region; its rows wait in *folder* until *held* ends."""
        from shoal.engines.regions.planning import Larger

        return Larger(policy, source, looked, self, budget, chance, folder, progress).publication(held)

    def apply(self, publication: Publication, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Rewrite the rows by a plan, in random order; *folder* is for temporary files."""
        return publication.rows(self, chance, folder, progress)

    def keep(self, publication: Publication, chance: Chance, progress: Progress) -> KeptRows | None:  # noqa: ARG002
        """Rewrite the rows and keep them; None if the engine does not keep rows."""
        return None

    def count(self, source: Source, columns: Sequence[str], progress: Progress) -> CountedCells:
        """Return the distinct combinations of *columns* and their records."""
        counted, _ = self._count(source, columns, progress, None)
        return counted

    def look(
        self, source: Source, columns: Sequence[str], progress: Progress, thinning: Thinning
    ) -> CountedCells | SampledCells:
        """Count the source, or only a sample of it if the source has too many cells."""
        counted, n_rows = self._count(source, columns, progress, thinning)
        if not thinning.sampling:
            return counted
        release_memory()
        sizes = [dictionary.size for dictionary in counted.dictionaries]
        return SampledCells.of(counted, thinning.share, thinning.all_tallies(sizes), n_rows)

    def _count(
        self, source: Source, columns: Sequence[str], progress: Progress, thinning: Thinning | None
    ) -> tuple[CountedCells, int]:
        dictionaries = tuple(GrowingDictionary() for _ in columns)
        layout, n_rows = KeyLayout.of_bits([1] * len(columns)), 0
        with ThreadPoolExecutor(self.threads) as pool, progress.step("counting", source.n_rows) as step:
            sorting = Sorting(pool)
            batches = source.batches(columns, dictionary=columns)
            for factors in ahead(pool, batches, factor_batch, self.threads + 1):
                tables = [
                    dictionary.codes(values) for dictionary, (_, values) in zip(dictionaries, factors, strict=True)
                ]
                sizes = [dictionary.size for dictionary in dictionaries]
                if not layout.holds(sizes):
                    wider = KeyLayout.roomy(sizes)
                    if n_rows:
                        sorting.finish().relay(layout, wider)
                    layout = wider
                n_rows += len(factors[0][0])
                step.advance(len(factors[0][0]))
                wanted = factors
                if thinning is not None and thinning.sampling:
                    for column, (codes, rows) in enumerate(zip(tables, tally_values(factors), strict=True)):
                        thinning.tally(column, codes, rows)
                    wanted = some_rows(factors, thinning.draw(factors))
                sorting.add(wanted, tables, layout, keep=self.threads)
                # Waiting for the sorting makes the moment of thinning independent of the threads.
                if thinning is not None and thinning.overflows(sorting.n_bound):
                    thinning.thin(sorting.finish(), layout, sizes)
            if not n_rows:
                raise InputError(f"{source.name} has no rows")
            run = sorting.finish().total()
        return CountedCells(tuple(columns), dictionaries, layout, run, n_rows), n_rows

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Read the source again; yield its batches in their order with the cell of every row."""

        def locate_batch(batch: pa.RecordBatch) -> LocatedBatch:
            cells = counted.run.find(_keys(batch, counted))
            if len(cells) and cells.min() < 0:
                raise InputError(f"{source.name} changed while it was being read; nothing was published")
            return LocatedBatch(batch.select(list(carried)), cells)

        with ThreadPoolExecutor(self.threads) as pool, progress.step("rewriting", counted.n_rows) as step:
            for located in ahead(pool, _batches(source, counted, carried), locate_batch, self.threads):
                yield located
                step.advance(len(located.cells))

    def locate_keys(
        self,
        source: Source,
        looked: SampledCells,
        carried: Sequence[str],
        progress: Progress,
        work: Callable[[pa.RecordBatch, KeyArray], R],
    ) -> Iterator[R]:
        """Read the source again; yield, in order, the results of *work* on each batch and its keys."""

        def on_batch(batch: pa.RecordBatch) -> tuple[R, int]:
            return work(batch.select(list(carried)), _keys(batch, looked.sample)), batch.num_rows

        n_rows = 0
        with ThreadPoolExecutor(self.threads) as pool, progress.step("routing", looked.n_rows) as step:
            for done, n_done in ahead(pool, _batches(source, looked.sample, carried), on_batch, self.threads):
                yield done
                n_rows += n_done
                step.advance(n_done)
        release_memory()
        if n_rows != looked.n_rows:
            raise InputError(f"{source.name} changed while it was being read; nothing was published")


def _batches(source: Source, counted: CountedCells, carried: Sequence[str]) -> Iterator[pa.RecordBatch]:
    wanted = list(dict.fromkeys([*counted.columns, *carried]))
    return source.batches(wanted, dictionary=counted.columns)


def _keys(batch: pa.RecordBatch, counted: CountedCells) -> KeyArray:
    """Return (n_words, n_rows) the keys of rows in the dictionaries and the layout of the counted cells."""
    factors = factor_batch(batch.select(list(counted.columns)))
    return pack_keys(factors, look_up(counted.dictionaries, factors, counted.columns), counted.layout)

"""The Spark engine, which runs the local engine's work on each partition."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray, KeyArray
from shoal.core.dictionaries import GrowingDictionary, factor_column
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import Progress, Silent
from shoal.core.randomness import Chance
from shoal.engines.local import CountedCells, LocalEngine, SampledCells
from shoal.engines.regions.budget import Budget
from shoal.engines.spark.rewriting import KeptOnSpark, chance_for, heaps_for, is_on_this_machine, rewrite_on_spark
from shoal.plan.cells import KeyLayout, Run, RunStack
from shoal.plan.counted import Factored, LocatedBatch, Thinning, pack_keys
from shoal.policy.policy import Policy
from shoal.release.publication import ClassPublication, Publication, PublishedRows, RegionalPublication
from shoal.sources.base import Source, SourceOptions, layers
from shoal.sources.frames import is_spark_frame
from shoal.sources.opening import open_source
from shoal.sources.spark.session import explain_failures, quiet, spark_session
from shoal.sources.spark.shipping import (
    CHUNK_ROWS,
    PIECES,
    Form,
    Shared,
    carry,
    collect_pieces,
    hold,
    make_piece,
    pieces_of,
    spark_schema,
    stream_pieces,
    unpack_message,
)
from shoal.sources.spark.source import SparkSource, open_spark_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Found = TypeVar("Found", CountedCells, SampledCells)


class SparkEngine(LocalEngine):
    """Counts and rewrites the rows of Spark DataFrames on Spark.

    The driver counts and rewrites rows that techniques or samples changed.
    """

    keeps_order: ClassVar[bool] = False

    def __init__(self, threads: int | None = None, master: str | None = None) -> None:
        super().__init__(threads)
        self._master = master
        self._of_frame = False  # whether the release is returned as a DataFrame

    def open(self, data: object, options: SourceOptions, held: ExitStack) -> Source:
        """Open a DataFrame, or Parquet files, on Spark."""
        self._of_frame = is_spark_frame(data)
        if isinstance(data, str | Path):
            source: Source = open_spark_files(Path(data), ready_session(self._master), options)
        elif isinstance(data, Source) or self._of_frame:
            source = open_source(data, options)
        else:
            raise UsageError(f"the Spark engine reads Spark DataFrames and Parquet files, not {type(data).__name__}")
        if isinstance(source, SparkSource) and source is not data:
            held.callback(source.forget)
        return source

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
        """Plan a table larger than the driver's memory on Spark, if its rows are there."""
        if not isinstance(source, SparkSource):
            return super().plan_regions(policy, source, looked, budget, chance, folder, progress, held)
        from shoal.engines.spark.regions import LargerOnSpark

        return LargerOnSpark(policy, source, looked, budget, chance, progress).publication(held)

    def apply(self, publication: Publication, chance: Chance, folder: Path | None, progress: Progress) -> PublishedRows:
        """Rewrite the rows on Spark if each is one record; on one machine Spark only finds their cells."""
        waiting = None
        if isinstance(publication, RegionalPublication) or not is_on_this_machine(publication.source):
            waiting = rewrite_on_spark(publication, chance, heaps_for(publication.n_rows))
        if waiting is None or not isinstance(publication, ClassPublication):
            return super().apply(publication, chance, folder, progress)
        return PublishedRows(publication.publish_heaps(waiting.heaps(), progress))

    def keep(self, publication: Publication, chance: Chance, progress: Progress) -> KeptOnSpark | None:
        """Rewrite the rows of a DataFrame to a DataFrame; None if the driver must make them."""
        *_, given = layers(publication.source)
        if not self._of_frame or not isinstance(given, SparkSource) or not isinstance(publication, ClassPublication):
            return None
        waiting = rewrite_on_spark(publication, chance, len(given.partitions))
        if waiting is None:
            return None
        with progress.step("rewriting", publication.n_rows) as step:
            placed = waiting.frame(publication)
            step.advance(publication.n_rows)
        return KeptOnSpark(placed, publication.n_rows)

    def count(self, source: Source, columns: Sequence[str], progress: Progress) -> CountedCells:
        """Return the distinct combinations of *columns* and their records, in the order of the local engine."""
        if not isinstance(source, SparkSource):
            return super().count(source, columns, progress)
        with progress.step("counting", source.n_rows) as step:
            counted = count_partitions(source, columns)
            assert counted is not None  # noqa: S101  there was no limit
            step.advance(counted.n_rows)
        return _complete(counted, source)

    def look(
        self, source: Source, columns: Sequence[str], progress: Progress, thinning: Thinning
    ) -> CountedCells | SampledCells:
        """Count the source, or only a sample of it if the source has too many cells for the driver."""
        if not isinstance(source, SparkSource):
            return super().look(source, columns, progress, thinning)
        with progress.step("counting", source.n_rows) as step:
            counted = count_partitions(source, columns, thinning.most_cells)
            if counted is not None:
                step.advance(counted.n_rows)
                return _complete(counted, source)
            looked = sample_partitions(source, columns, thinning.share_of(source.n_rows or 0), thinning.secret())
            step.advance(looked.n_rows)
        return _complete(looked, source)

    def locate(
        self, source: Source, counted: CountedCells, carried: Sequence[str], progress: Progress
    ) -> Iterator[LocatedBatch]:
        """Yield the batches of all partitions, in their order, with the cell of every row."""
        if not isinstance(source, SparkSource):
            yield from super().locate(source, counted, carried, progress)
            return
        wanted, form = source.select_columns(list(dict.fromkeys([*counted.columns, *carried])))
        keys = replace(counted, run=Run(counted.run.keys, counted.run.counts[:0]))  # workers need no counts
        work = LocatePartition(form, Shared(keys), tuple(carried))
        with explain_failures(source.name), progress.step("rewriting", counted.n_rows) as step:
            for _, batch in stream_pieces(pieces_of(wanted, work)):
                rest = batch.select(list(range(1, batch.num_columns))).rename_columns(list(carried))
                yield LocatedBatch(rest, np.array(batch.column(0)).astype(np.int64))
                step.advance(batch.num_rows)


def _complete(counted: Found, source: SparkSource) -> Found:
    if counted.n_rows != source.n_rows:
        raise InputError(f"{source.name} changed while it was being read; nothing was published")
    return counted


# Preparing workers before the first row is read.

_ROWS = 1 << 12  # at least as many as cores: Spark makes a partition for each core


def ready_session(master: str | None) -> SparkSession:
    """Return the session of a master after checking the version of shoal on all workers."""
    session = spark_session(master)
    make_ready(session)
    return session


def make_ready(session: SparkSession) -> None:
    """Import shoal on a worker per core before it is needed; raise if a worker has another version."""
    from shoal import __version__ as here

    def load(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            import shoal.engines.spark.rewriting  # imports everything that tasks need

            found = shoal.__version__
        except ImportError:
            found = "none"
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [found]})

    with quiet(), explain_failures("its workers"):
        found = session.range(_ROWS).mapInArrow(load, "version string").toArrow().column("version")
    others = sorted({*found.to_pylist()} - {here})
    if others:
        raise UsageError(f"every worker of Spark needs shoal {here}, as the driver has it; found: {', '.join(others)}")


# Counting cells on the partitions and merging them on the driver.

FAN_IN = 8  # pieces that a worker merges into one


class Merger:
    """Merges cells that were counted separately; values keep the order in which they arrive."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._dictionaries = tuple(GrowingDictionary() for _ in columns)
        self._stack = RunStack()
        self._layout = KeyLayout.of_bits([1] * len(columns))

    def add(self, factors: Factored, counts: IntArray) -> list[KeyArray]:
        """Add cells, given the indices and values of each column and the records; return the codes of the values."""
        tables = [dictionary.codes(values) for dictionary, (_, values) in zip(self._dictionaries, factors, strict=True)]
        sizes = [dictionary.size for dictionary in self._dictionaries]
        if not self._layout.holds(sizes):
            wider = KeyLayout.roomy(sizes)
            if self._stack.n_held:
                self._stack.relay(self._layout, wider)
            self._layout = wider
        self._stack.push(Run.of_cells(pack_keys(factors, tables, self._layout), counts))
        return tables

    def add_batch(self, cells: pa.RecordBatch) -> None:
        """Add a batch with a coded column for each attribute and the records of each cell."""
        *columns, counts = cells.columns
        self.add([factor_column(column) for column in columns], np.array(counts, dtype=np.int64))

    def exceeds(self, most_cells: int) -> bool:
        return self._stack.n_held > most_cells and len(self._stack.total().counts) > most_cells

    def total(self) -> CountedCells:
        run = self._stack.total()
        return CountedCells(self._columns, self._dictionaries, self._layout, run, int(run.counts.sum()))


def count_partitions(source: SparkSource, columns: Sequence[str], most_cells: int | None = None) -> CountedCells | None:
    """Return the cells of all rows; None if there are more than *most_cells*, which no process will hold then."""
    wanted, form = source.select_columns(columns)
    most = sys.maxsize if most_cells is None else most_cells
    with explain_failures(source.name):
        pieces = pieces_of(wanted, CountPartition(form, tuple(columns)))
        with hold(
            _merge_as_tree(pieces, len(source.partitions), partial(_merge_cells, tuple(columns), most))
        ) as waiting:
            if max(waiting.entries) > most:
                return None
            merger = Merger(columns)
            for _, cells in waiting.batches():
                merger.add_batch(cells)
                if merger.exceeds(most):
                    return None
            return merger.total()


def _merge_cells(columns: tuple[str, ...], most_cells: int, group: pa.Table) -> pa.Table:
    """Return one piece, or a few large ones, for neighbouring ones; one without cells if there are too many."""
    merger = Merger(columns)
    number = group.column("partition")[0].as_py() // FAN_IN
    for entries, message in zip(*group.sort_by("partition").select(["entries", "message"]).columns, strict=True):
        if entries.as_py() <= most_cells:
            merger.add_batch(unpack_message(message.as_buffer()))
        if entries.as_py() > most_cells or merger.exceeds(most_cells):
            return pa.Table.from_batches([carry(PIECES, number, most_cells + 1, b"")])
    return pa.Table.from_batches([make_piece(number, batch) for batch in cell_batches(merger.total())])


def _merge_as_tree(pieces: DataFrame, n_pieces: int, merge: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """Have each few neighbouring pieces merged by a task until few are left; values keep the order of the rows."""
    from pyspark.sql import functions

    while n_pieces > FAN_IN:
        with quiet():
            neighbours = functions.floor(functions.col("partition") / FAN_IN).alias("neighbours")
            pieces = pieces.groupBy(neighbours).applyInArrow(lambda group: merge(group), spark_schema(PIECES))
        n_pieces = -(-n_pieces // FAN_IN)
    return pieces


# Work on a partition: the local engine runs with the partition as its source.


@dataclass(frozen=True, slots=True, eq=False)
class CountPartition:
    """Counts the cells of a partition."""

    form: Form
    columns: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = self.form.open(number, batches)
        if source is not None:
            yield from cell_batches(LocalEngine(1).count(source, self.columns, Silent()))


@dataclass(frozen=True, slots=True, eq=False)
class LocatePartition:
    """Finds the cell of every row of a partition."""

    form: Form
    counted: Shared[CountedCells]
    carried: tuple[str, ...]

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells of rows and the carried columns."""
        source = self.form.open(number, batches)
        if source is None:
            return
        for located in LocalEngine(1).locate(source, self.counted.value, self.carried, Silent()):
            columns = [pa.array(located.cells.astype(np.int32)), *located.batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def cell_batches(counted: CountedCells) -> Iterator[pa.RecordBatch]:
    """Yield batches with a coded column for each attribute and the records of each cell."""
    columns = []
    for place, dictionary in enumerate(counted.dictionaries):
        narrow = np.min_scalar_type(-dictionary.size)
        codes = counted.codes(place).astype(narrow) - narrow.type(1)
        columns.append(pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), dictionary.values))
    columns.append(pa.array(counted.run.counts.astype(np.min_scalar_type(counted.run.counts.max(initial=0)))))
    batch = pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])
    for start in range(0, batch.num_rows, CHUNK_ROWS):
        yield batch.slice(start, CHUNK_ROWS)


# Sampling a table with too many cells for the driver. Each partition sends one message: every value of each column with
# its records, and the sampled cells.


@dataclass(frozen=True, slots=True, eq=False)
class SamplePartition:
    """Samples a share of a partition; a repeated task draws the same records."""

    form: Form
    columns: tuple[str, ...]
    share: float
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = self.form.open(number, batches)
        if source is None:
            return
        rng = chance_for(self.secret, f"sample {number}").generator
        thinning = Thinning.of_share(self.share, len(self.columns), lambda: rng)
        looked = LocalEngine(1).look(source, self.columns, Silent(), thinning)
        assert isinstance(looked, SampledCells)  # noqa: S101  with a fixed share it always is
        yield sample_message(looked)


class SampleMerger:
    """Merges samples of the same share; values keep the order in which they arrive."""

    def __init__(self, columns: Sequence[str], share: float) -> None:
        self._cells, self._share = Merger(columns), share
        self._tallies: list[IntArray] = [np.zeros(1, dtype=np.int64) for _ in columns]
        self._n_rows = 0

    def add(self, message: pa.RecordBatch) -> None:
        """Add the message of one partition."""
        *lists, counts = (column.flatten() for column in message.columns[:-1])
        factors = [(codes.to_numpy(), values) for values, _, codes in zip(*[iter(lists)] * 3, strict=True)]
        tables = self._cells.add(factors, counts.to_numpy())
        for place, (table, records) in enumerate(zip(tables, lists[1::3], strict=True)):
            longer = max(int(table.max()) + 1 - len(self._tallies[place]), 0)
            self._tallies[place] = np.pad(self._tallies[place], (0, longer))
            self._tallies[place][table.astype(np.int64)] += records.to_numpy()
        self._n_rows += int(message.columns[-1][0].as_py())

    def total(self) -> SampledCells:
        return SampledCells.of(self._cells.total(), self._share, tuple(self._tallies), self._n_rows)


def sample_message(looked: SampledCells) -> pa.RecordBatch:
    """Return a sample as one row of lists.

    For each column these are its values, their records and those of missing, and the sampled cells' indices of values,
    -1 for missing; then the cells' records and the number of rows that were read.
    """
    lists: list[pa.Array] = []
    for place, dictionary in enumerate(looked.dictionaries):
        codes = looked.sample.codes(place).astype(np.int32) - np.int32(1)
        lists += [dictionary.values, pa.array(np.roll(looked.tallies[place], -1)), pa.array(codes)]
    lists.append(pa.array(looked.sample.run.counts))
    columns = [pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values) for values in lists]
    columns.append(pa.array([looked.n_rows], pa.int64()))
    return pa.RecordBatch.from_arrays(columns, names=[str(place) for place in range(len(columns))])


def sample_partitions(source: SparkSource, columns: Sequence[str], share: float, secret: bytes) -> SampledCells:
    """Return all values of *columns* with their records, and the cells of a *share* of the rows."""
    wanted, form = source.select_columns(columns)
    with explain_failures(source.name):
        pieces = pieces_of(wanted, SamplePartition(form, tuple(columns), share, secret))
        merger = SampleMerger(columns, share)
        few = _merge_as_tree(pieces, len(source.partitions), partial(_merge_samples, tuple(columns), share))
        for _, message in collect_pieces(few):
            merger.add(message)
    return merger.total()


def _merge_samples(columns: tuple[str, ...], share: float, group: pa.Table) -> pa.Table:
    """Return one message for neighbouring ones."""
    merger = SampleMerger(columns, share)
    for message in group.sort_by("partition").column("message"):
        merger.add(unpack_message(message.as_buffer()))
    number = group.column("partition")[0].as_py() // FAN_IN
    return pa.Table.from_batches([make_piece(number, sample_message(merger.total()))])

"""Rewriting rows by a plan where their partitions are.

A task may run twice: a worker is lost, or Spark tries a slow one again. So nothing in a partition is drawn anew: deals
and keys follow from one secret of the run and from the partition's number, and both runs make the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.chance import Chance
from shoal.engines.local import CountedCells, LocalEngine
from shoal.errors import InputError
from shoal.plan import SPLIT, WITHHELD, Assignment, Dealer
from shoal.progress import Silent
from shoal.publishing import GeneralizedPublication
from shoal.publishing.columns import CellColumn, coded, without_dictionary
from shoal.sensitive_labels import SensitiveColumn
from shoal.sources.spark.session import told
from shoal.sources.spark.shipping import (
    PartitionForm,
    ShipPartition,
    arrow_schema,
    by_places,
    collected,
    on_partitions,
    pieces_of,
)
from shoal.sources.spark.source import SparkSource, kept
from shoal.spark.quotas import PartitionQuotas, dealt_quotas

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class TallyPartition:
    """Counts a partition's records of the cells that split."""

    form: PartitionForm
    counted: CountedCells
    split_cells: IntArray

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the numbers, among the split cells, of those that occur, and their records."""
        source = self.form.opened(batches)
        if source is None:
            return
        number_of = np.full(len(self.counted.run.counts), -1, dtype=np.int64)
        number_of[self.split_cells] = np.arange(len(self.split_cells))
        records = np.zeros(len(self.split_cells), dtype=np.int64)
        for located in LocalEngine(1).locate(source, self.counted, (), Silent()):
            found = number_of[located.cells]
            records += np.bincount(found[found >= 0], minlength=len(records))
        cells = np.flatnonzero(records)
        yield pa.RecordBatch.from_arrays([pa.array(cells), pa.array(records[cells])], names=["cell", "records"])


@dataclass(frozen=True, slots=True, eq=False)
class SensitiveRows:
    """What rows publish of one sensitive attribute."""

    own: CellColumn
    generalized: SensitiveColumn | None

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self.own.values.type if self.generalized is None else pa.string()

    def values(self, targets: CodeArray, cells: IntArray) -> pa.Array:
        """Return the values of rows, given their targets and cells."""
        index = self.own.index[cells]
        return coded(index, self.own.values) if self.generalized is None else self.generalized.values(targets, index)


@dataclass(frozen=True, slots=True, eq=False)
class RewritePartition:
    """Deals the rows of a partition to classes and publishes what these say, with a random key beside each row."""

    form: PartitionForm
    counted: CountedCells
    assignment: Assignment
    quotas: Mapping[int, PartitionQuotas]
    class_of_target: CodeArray | None
    classes: pa.RecordBatch  # (n_classes rows) what each class publishes of the quasi attributes
    sensitive: Mapping[str, SensitiveRows]
    carried: tuple[str, ...]
    names: tuple[str, ...]
    secret: bytes

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the published rows."""
        source = self.form.opened(batches)
        if source is None:
            return
        mine = self.quotas.get(number, PartitionQuotas(np.zeros(0, np.int64), np.zeros(0, np.int64)))
        assignment = replace(self.assignment, quota=mine.of(len(self.assignment.quota)))
        dealer = Dealer(assignment, np.random.default_rng(int.from_bytes(self._stream("deal", number, 0, 32))))
        located_batches = LocalEngine(1).locate(source, self.counted, self.carried, Silent())
        for place, located in enumerate(located_batches):
            targets = dealer.deal(located.cells)
            rows = np.flatnonzero(targets != WITHHELD)
            published = self._published(targets[rows], located.cells[rows], located.batch.take(pa.array(rows)))
            keys = np.frombuffer(self._stream("order", number, place, 8 * len(rows)), dtype=np.int64)
            yield pa.RecordBatch.from_arrays(
                [*published, pa.array(keys)], names=[str(i) for i in range(len(published) + 1)]
            )

    def _published(self, targets: CodeArray, cells: IntArray, carried: pa.RecordBatch) -> list[pa.Array]:
        classes = targets if self.class_of_target is None else self.class_of_target[targets]
        quasi = self.classes.take(pa.array(classes))
        arrays = dict(zip(quasi.schema.names, quasi.columns, strict=True))
        arrays |= {name: column.values(targets, cells) for name, column in self.sensitive.items()}
        arrays |= dict(zip(carried.schema.names, carried.columns, strict=True))
        return [without_dictionary(arrays[name]) for name in self.names]

    def _stream(self, use: str, number: int, place: int, n_bytes: int) -> bytes:
        return hashlib.shake_256(self.secret + f"{use} {number} {place}".encode()).digest(n_bytes)

    def schema(self) -> pa.Schema:
        """Return the types of what is published."""
        kinds = {field.name: field.type for field in self.form.schema}
        kinds |= {field.name: field.type for field in self.classes.schema}
        kinds |= {name: column.kind for name, column in self.sensitive.items()}
        return pa.schema([(name, kinds[name]) for name in self.names])


def rewritten(publication: GeneralizedPublication, source: SparkSource, chance: Chance) -> DataFrame:
    """Return the published rows in random order as a DataFrame that is computed, kept, and knows no source."""
    with told(source.name):
        frame = kept(_shuffled(publication, source, chance))
        _check(frame.count(), publication, source)
    return frame


def rewritten_pieces(publication: GeneralizedPublication, source: SparkSource, chance: Chance) -> DataFrame:
    """Return the same rows packed into pieces, computed and kept, for the driver to write."""
    from pyspark.sql import functions

    with told(source.name):
        frame = _shuffled(publication, source, chance)
        form = PartitionForm("the release", arrow_schema(frame), ())
        pieces = kept(pieces_of(by_places(frame), ShipPartition(form)))
        _check(pieces.agg(functions.sum("entries")).collect()[0][0], publication, source)
    return pieces


def _check(n_rows: int, publication: GeneralizedPublication, source: SparkSource) -> None:
    if n_rows != publication.n_rows:
        raise InputError(f"{source.name} changed while it was being read; nothing was published")


def _shuffled(publication: GeneralizedPublication, source: SparkSource, chance: Chance) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    wanted, work = partition_work(publication, source, chance)
    kinds = [*work.schema().types, pa.int64()]
    schema = pa.schema([(str(place), kind) for place, kind in enumerate(kinds)])
    rows = on_partitions(wanted, work, from_arrow_schema(schema))
    # By the hashes of their keys, so that no sample is needed: keys are random, and so is every row's place among all.
    key = str(len(work.names))
    shuffled = rows.repartition(len(source.partitions), key).sortWithinPartitions(key)
    return shuffled.drop(key).toDF(*work.names)


def partition_work(
    publication: GeneralizedPublication, source: SparkSource, chance: Chance
) -> tuple[DataFrame, RewritePartition]:
    """Return the columns that are read again, and what is done to them in each partition."""
    problem, plan = publication.encoding.problem, publication.plan
    counted = publication.counted
    assignment = plan.assignment.relocated(len(counted.run.counts), publication.encoding.kept)
    everything = np.arange(plan.n_classes, dtype=np.int32)
    classes = {column.attribute.name: without_dictionary(column.values(everything)) for column in publication.columns}
    carried = tuple(publication.policy.names("insensitive"))
    wanted, form = source.selected(list(dict.fromkeys([*counted.columns, *carried])))
    columns = zip(problem.sensitive, publication.sensitive_columns, strict=True)
    return wanted, RewritePartition(
        form=form,
        counted=counted,
        assignment=assignment,
        quotas=_quotas(source, counted, assignment, chance),
        class_of_target=None if plan.targets is None else plan.targets.class_of,
        classes=pa.RecordBatch.from_pydict(classes),
        sensitive={one.name: SensitiveRows(CellColumn.of(counted, one.name), labels) for one, labels in columns},
        carried=carried,
        names=tuple(publication.parts[0]),
        secret=chance.keys(4).tobytes(),
    )


def _quotas(
    source: SparkSource, counted: CountedCells, assignment: Assignment, chance: Chance
) -> dict[int, PartitionQuotas]:
    if not bool((assignment.class_of == SPLIT).any()):
        return {}
    wanted, form = source.selected(counted.columns)
    work = TallyPartition(form, counted, assignment.split_cells)
    with told(source.name):
        found = collected(pieces_of(wanted, work))
    held = {number: (np.array(batch.column(0)), np.array(batch.column(1))) for number, batch in found}
    return dealt_quotas(assignment, held, chance.generator)

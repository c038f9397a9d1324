"""Rows on their way into a file: the numbers under which they wait to be put in order, and what these publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from shoal.core.arrays import AnyIntArray, CodeArray, IntArray
from shoal.plan.counted import CountedCells, SeenValues
from shoal.plan.plan import KEPT, WITHHELD, Plan
from shoal.plan.problem import Attribute, Problem
from shoal.release.columns import (
    PublishedColumn,
    encode_values,
    key_ranges,
    key_type,
    source_values,
    value_indices,
    without_dictionary,
)
from shoal.release.figures import Findings
from shoal.release.witness import ROW
from shoal.sources.writers import Format, open_writer
from shoal.taxonomies.parse import texts


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """The numbers under which records wait, by their cells and by the targets that a plan sends them to."""

    class_of: CodeArray | None  # (n_targets,) None: targets are classes
    quasi: Sequence[AnyIntArray]  # (n_classes,) each; all quasi attributes, or one for all of them: the class
    own: Sequence[AnyIntArray]  # (n_counted_cells,) of each sensitive attribute: the index of its value, -1 if missing
    ranged: Sequence[AnyIntArray]  # (n_targets,) of each that has generalized values: the number of the range, or KEPT

    @classmethod
    def of(cls, counted: CountedCells, problem: Problem, plan: Plan, quasi: Sequence[AnyIntArray]) -> RowNumbers:
        """Number what the targets of a plan publish of sensitive attributes; *quasi* tells what its classes do."""
        own: list[AnyIntArray] = []
        ranged: list[AnyIntArray] = []
        for place, one in enumerate(problem.sensitive):
            n_values = len(source_values(counted, one.name))
            # in all regions of one type, whether or not some of their records publish a range
            own.append(value_indices(counted, one.name).astype(key_type(one.taxonomy, n_values)))
            if plan.targets is not None:
                lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
                keys = key_ranges(one.taxonomy, lo, hi, n_values)
                ranged.append(np.where(lo == KEPT, KEPT, keys).astype(keys.dtype))
        return cls(None if plan.targets is None else plan.targets.class_of, quasi, own, ranged)

    def wait(self, cells: IntArray, targets: CodeArray, beside: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the rows that are published under their numbers, and *beside* these what is carried along."""
        arrays = [without_dictionary(column) for column in beside.values()]
        if (targets == WITHHELD).any():
            kept = np.flatnonzero(targets != WITHHELD)
            cells, targets = cells[kept], targets[kept]
            arrays = [column.take(pa.array(kept)) for column in arrays]
        classes = targets if self.class_of is None else self.class_of[targets]
        numbers: list[AnyIntArray] = [own[cells] for own in self.own]
        if self.ranged:
            generalized = [ranged[targets] for ranged in self.ranged]
            numbers = [np.where(to == KEPT, own, to) for own, to in zip(numbers, generalized, strict=True)]
        numbers = [*(number[classes] for number in self.quasi), *numbers]
        names = [*(f"number {place}" for place in range(len(numbers))), *beside]
        return pa.RecordBatch.from_arrays([*map(pa.array, numbers), *arrays], names=names)

    def list_labelled(self, plan: Plan, counts: IntArray, kept: IntArray | None = None) -> tuple[pa.RecordBatch, ...]:
        """Return rows that publish a generalized value once each: their numbers, own values, and how many records.

        *counts* are the records of the cells, of which *kept* tells the places among the counted ones.
        """
        if plan.targets is None:
            return ()
        cell, class_of, records, target = plan.pieces(counts)
        some = np.flatnonzero((class_of >= 0) & (records > 0) & (plan.targets.lo[target] != KEPT).any(axis=1))
        place = cell[some] if kept is None else kept[cell[some]]
        beside = {f"value {number}": pa.array(own[place]) for number, own in enumerate(self.own)}
        return (self.wait(place, target[some], {**beside, "records": pa.array(records[some])}),)


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """What rows publish that wait under numbers: those of classes, or of what each quasi attribute publishes."""

    quasi: Mapping[str, PublishedColumn]
    sensitive: Mapping[str, PublishedColumn]
    source: Mapping[str, pa.Array]  # the sensitive attributes' values
    carried: tuple[str, ...]
    by_class: bool  # whether the numbers of all quasi attributes are one: that of the class

    @classmethod
    def of(
        cls,
        quasi: Mapping[str, PublishedColumn],
        sensitive: Sequence[Attribute],
        seen: SeenValues,
        findings: Findings,
        carried: tuple[str, ...],
        *,
        by_class: bool,
    ) -> RowColumns:
        """Write down what is published of sensitive attributes, beside what is of the others."""
        first = len(findings.ranges) - len(sensitive)
        columns = {
            one.name: PublishedColumn.of_sensitive(
                one, seen, findings.published[first + place], findings.kept[place], findings.ranges[first + place]
            )
            for place, one in enumerate(sensitive)
        }
        return cls(quasi, columns, {name: source_values(seen, name) for name in columns}, carried, by_class)

    @property
    def entries(self) -> dict[str, Mapping[str, object]]:
        """The manifest's entries on attributes with labels."""
        columns = {**self.quasi, **self.sensitive}
        return {name: column.entry for name, column in columns.items() if column.entry is not None}

    def publish(self, waiting: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return rows as they are published: the columns of these *names*, and last the places of rows if they wait."""
        waits = iter(range(waiting.num_columns))
        by_class = next(waits) if self.by_class else None
        places = {name: next(waits) if by_class is None else by_class for name in self.quasi}
        places |= dict(zip([*self.sensitive, *self.carried], waits, strict=False))
        wanted = list(names)
        if waiting.schema.names[-1] == ROW:
            wanted.append(ROW)
            places[ROW] = waiting.num_columns - 1
        arrays = []
        for name in wanted:
            found = waiting.column(places[name])
            found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
            column = self.quasi.get(name) or self.sensitive.get(name)
            arrays.append(found if column is None else column.take(found.to_numpy()))
        return pa.RecordBatch.from_arrays(arrays, names=wanted)

    def tabulate(self, labelled: Sequence[pa.RecordBatch]) -> pa.Table | None:
        """Return so many records of each row with a generalized value beside the values that they have, as texts."""
        if not labelled:
            return None
        waiting = pa.Table.from_batches(labelled).combine_chunks()
        names = [*self.quasi, *self.sensitive]
        columns = dict(zip(names, self.publish(waiting, names).columns, strict=True))
        for place, (name, column) in enumerate(self.sensitive.items()):
            if column.entry is not None:
                index = waiting.column(f"value {place}").combine_chunks().to_numpy()
                columns[f"value of {name}"] = encode_values(index, texts(self.source[name]))
        spelled = {name: column.cast(pa.string()) for name, column in columns.items()}
        return pa.table({**spelled, "records": waiting.column("records")})


def write_rows(path: Path, batches: Iterator[pa.RecordBatch], format: Format) -> str:  # noqa: A002
    """Write a file batch by batch, each made while the one before is written, and return the file's SHA-256."""
    first = next(batches)
    with open_writer(path, first.schema, format) as writer, ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.write, first)
        for batch in batches:
            writing.result()
            writing = pool.submit(writer.write, batch)
        writing.result()
    return writer.sha256


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(without_dictionary, batch.columns)), names=batch.schema.names)

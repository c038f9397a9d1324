"""Rows on their way to the file, as numbers until they are in random order, and the writing of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
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
from shoal.sources.base import ahead
from shoal.sources.writers import Format, open_writer
from shoal.taxonomies.parse import texts


@dataclass(frozen=True, slots=True, eq=False)
class RowNumbers:
    """The numbers of waiting records, by their cells and by the targets that a plan assigns them to."""

    class_of: CodeArray | None  # (n_targets,) None if targets are classes
    quasi: Sequence[AnyIntArray]  # (n_classes,) for each quasi attribute, or one array with the number of the class
    own: Sequence[AnyIntArray]  # (n_counted_cells,) for each sensitive attribute: index of the value, -1 if missing
    ranged: Sequence[AnyIntArray]  # (n_targets,) for each generalized sensitive attribute: key of the range, or KEPT

    @classmethod
    def of(cls, counted: CountedCells, problem: Problem, plan: Plan, quasi: Sequence[AnyIntArray]) -> RowNumbers:
        """Number the sensitive values of the targets of a plan; *quasi* has the numbers of classes."""
        own: list[AnyIntArray] = []
        ranged: list[AnyIntArray] = []
        for place, one in enumerate(problem.sensitive):
            n_values = len(source_values(counted, one.name))
            # all regions use the same type, even if some of them publish no range
            own.append(value_indices(counted, one.name).astype(key_type(one.taxonomy, n_values)))
            if plan.targets is not None:
                lo, hi = plan.targets.lo[:, place], plan.targets.hi[:, place]
                keys = key_ranges(one.taxonomy, lo, hi, n_values)
                ranged.append(np.where(lo == KEPT, KEPT, keys).astype(keys.dtype))
        return cls(None if plan.targets is None else plan.targets.class_of, quasi, own, ranged)

    def wait(self, cells: IntArray, targets: CodeArray, extra: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Return the published rows as numbers, followed by carried columns."""
        arrays = [without_dictionary(column) for column in extra.values()]
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
        names = [*(f"number {place}" for place in range(len(numbers))), *extra]
        return pa.RecordBatch.from_arrays([*map(pa.array, numbers), *arrays], names=names)

    def list_labelled(self, plan: Plan, counts: IntArray, kept: IntArray | None = None) -> tuple[pa.RecordBatch, ...]:
        """Return the distinct rows with a generalized value: their numbers, own values, and numbers of records.

        *counts* are the records of the cells; *kept* has the places of these cells among the counted ones.
        """
        if plan.targets is None:
            return ()
        cell, class_of, records, target = plan.pieces(counts)
        some = np.flatnonzero((class_of >= 0) & (records > 0) & (plan.targets.lo[target] != KEPT).any(axis=1))
        place = cell[some] if kept is None else kept[cell[some]]
        extra = {f"value {number}": pa.array(own[place]) for number, own in enumerate(self.own)}
        return (self.wait(place, target[some], {**extra, "records": pa.array(records[some])}),)


@dataclass(frozen=True, slots=True, eq=False)
class RowColumns:
    """The published values of waiting rows, numbered by classes or by the values of each quasi attribute."""

    quasi: Mapping[str, PublishedColumn]
    sensitive: Mapping[str, PublishedColumn]
    source: Mapping[str, pa.Array]  # the sensitive attributes' values
    carried: tuple[str, ...]
    by_class: bool  # whether the class is the only number of all quasi attributes

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
        columns = {**self.quasi, **self.sensitive}
        return {name: column.entry for name, column in columns.items() if column.entry is not None}

    def publish(self, waiting: pa.Table | pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """Return the published columns of these *names*, and the places of rows in the source if they are carried."""
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
        """Return the distinct rows with a generalized value, and their original values, as texts."""
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
    """Write a file batch by batch and return its SHA-256; the next batch is made while one is written."""
    first = next(batches)
    with open_writer(path, first.schema, format) as writer, ThreadPoolExecutor(1) as pool:
        for _ in ahead(pool, chain([first], batches), writer.write, depth=1):
            pass
    return writer.sha256


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(map(without_dictionary, batch.columns)), names=batch.schema.names)

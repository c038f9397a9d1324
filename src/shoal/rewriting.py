"""Apply: stream the source again and rewrite its rows by the plan, in random order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.arrays import CodeArray
from shoal.encoding import Encoding
from shoal.engines.local import CountedCells, LocalEngine
from shoal.errors import InputError
from shoal.labels import PublishedColumn
from shoal.plan import WITHHELD, Dealer, Plan
from shoal.policy import Policy
from shoal.progress import Progress
from shoal.sensitive_labels import SensitiveColumn
from shoal.shuffling import Shuffler
from shoal.sources import Source

_TARGET = "target"


@dataclass(frozen=True, slots=True, eq=False)
class Rewriter:
    """Everything that decides what a row becomes."""

    policy: Policy
    counted: CountedCells
    encoding: Encoding
    plan: Plan
    columns: tuple[PublishedColumn, ...]
    sensitive_columns: tuple[SensitiveColumn | None, ...]  # None: published as it is

    @classmethod
    def of(cls, policy: Policy, counted: CountedCells, encoding: Encoding, plan: Plan) -> Rewriter:
        """Write down the labels of all classes."""
        columns = tuple(PublishedColumn.of(a, plan, j) for j, a in enumerate(encoding.problem.quasi))
        places = range(len(encoding.problem.sensitive))
        sensitive = tuple(SensitiveColumn.of(place, counted, encoding, plan) for place in places)
        return cls(policy, counted, encoding, plan, columns, sensitive)

    def names(self, source: Source) -> list[str]:
        """Return the published columns in the order of the source; identifiers are not among them."""
        return [name for name in source.schema.names if self.policy.attributes[name].role != "identifier"]

    def rows(
        self,
        engine: LocalEngine,
        source: Source,
        rng: np.random.Generator,
        folder: Path | None,
        progress: Progress,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the published rows, about a million at a time."""
        problem = self.encoding.problem
        dealer = Dealer(self.plan.assignment.relocated(len(self.counted.run.counts), self.encoding.kept), rng)
        carried = self.policy.names("insensitive")
        n_rows = problem.cells.n_records - self.plan.n_withheld
        sensitive = {a.name: self._value_codes(a.name) for a in problem.sensitive}
        names = self.names(source)
        written = 0
        with Shuffler(n_rows, rng, folder) as shuffler:
            for located in engine.locate(source, self.counted, carried, progress):
                targets = dealer.deal(located.cells)
                kept = np.flatnonzero(targets != WITHHELD)
                cells = located.cells
                batch = located.batch
                if len(kept) < len(targets):
                    targets, cells, batch = targets[kept], cells[kept], batch.take(pa.array(kept))
                shuffler.add(_spilled(targets, [codes[cells] for codes in sensitive.values()], batch))
            with progress.step("writing", n_rows) as step:
                for heap in shuffler.heaps():
                    yield self._published(heap, list(sensitive), carried, names)
                    written += heap.num_rows
                    step.advance(heap.num_rows)
        if written != n_rows:
            raise InputError(f"{source.name} changed while it was being read; nothing was published")

    def _value_codes(self, name: str) -> CodeArray:
        """Return (n_counted_cells,) the dictionary index of each cell's sensitive value, -1 if missing."""
        return self.counted.codes(self.counted.columns.index(name)).astype(np.int32) - 1

    def _published(
        self, heap: pa.Table, sensitive: Sequence[str], carried: Sequence[str], names: Sequence[str]
    ) -> pa.RecordBatch:
        targets = heap.column(0).combine_chunks().to_numpy()
        classes = targets if self.plan.targets is None else self.plan.targets.class_of[targets]
        arrays: dict[str, pa.Array] = {column.attribute.name: column.values(classes) for column in self.columns}
        for number, name in enumerate(sensitive):
            indices = heap.column(1 + number).combine_chunks()
            generalized = self.sensitive_columns[number]
            if generalized is not None:
                arrays[name] = generalized.values(targets, indices.to_numpy())
                continue
            indices = pc.if_else(pc.less(indices, 0), pa.scalar(None, pa.int32()), indices)
            values = self.counted.dictionaries[self.counted.columns.index(name)].values
            text = pa.types.is_string(values.type)
            arrays[name] = pa.DictionaryArray.from_arrays(indices, values) if text else values.take(indices)
        for number, name in enumerate(carried):
            arrays[name] = heap.column(1 + len(sensitive) + number).combine_chunks()
        return pa.RecordBatch.from_arrays([arrays[name] for name in names], names=list(names))


def _spilled(targets: CodeArray, sensitive: Sequence[CodeArray], carried: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [pa.array(targets), *(pa.array(codes) for codes in sensitive)]
    names = [_TARGET, *(f"sensitive {number}" for number in range(len(sensitive)))]
    for name, column in zip(carried.schema.names, carried.columns, strict=True):
        plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        arrays.append(plain)
        names.append(f"carried {name}")
    return pa.RecordBatch.from_arrays(arrays, names=names)

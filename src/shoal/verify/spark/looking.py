"""The first look at a release: every partition tells how many rows it has, which values, and some of its boxes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import CodeArray, IntArray
from shoal.verify.coding import Met, ReleaseCoder
from shoal.verify.counting import Table
from shoal.verify.spark.messages import told_message
from shoal.verify.spark.released import ReleaseForm


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What one partition of a release tells."""

    rows: int
    met: Met
    counts: tuple[IntArray, ...]  # for each subject (n_values,) rows, by the partition's own numbers
    boxes: CodeArray  # (n_labelled, n) labels of some rows
    unused: tuple[str, ...]  # columns whose dictionaries hold entries of no row


@dataclass(frozen=True, slots=True, eq=False)
class LookPartition:
    """Looks at the rows of a partition."""

    form: ReleaseForm
    coder: ReleaseCoder  # one that has met nothing
    step: int  # the labels of each so manieth row are told

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was seen."""
        coder = self.coder.glancing()
        rows = self.form.opened(number, batches)
        n_rows, boxes = 0, [np.empty((len(coder.layout.labelled), 0), dtype=np.int32)]
        counts: list[IntArray] = [np.zeros(0, dtype=np.int64) for _ in coder.subjects]
        for batch in rows.batches(coder.columns):
            coded, values = coder.code(batch)
            for place, numbers in enumerate(coder.number(values)):
                counts[place] = added(counts[place], np.bincount(numbers))
            boxes.append(coded.labels[:, -n_rows % self.step :: self.step])
            n_rows += coded.rows
        yield told_message(Look(n_rows, coder.met, tuple(counts), np.hstack(boxes), rows.unused_entries()))


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """What all partitions tell together."""

    rows: int
    tables: tuple[Table, ...]  # for each subject
    boxes: CodeArray  # (n, n_labelled)
    unused: tuple[str, ...]


def looked(looks: Sequence[Look], coder: ReleaseCoder) -> Looked:
    """Add up what partitions tell, in their order; *coder* gives values one numbering for all."""
    counts: list[IntArray] = [np.zeros(0, dtype=np.int64) for _ in coder.subjects]
    for look in looks:
        for place, (numbers, rows) in enumerate(zip(coder.add(look.met), look.counts, strict=True)):
            found = np.zeros(coder.n_values(coder.subjects[place]), dtype=np.int64)
            found[numbers] = rows
            counts[place] = added(found, counts[place])
    tables = [Table(coder.texts(one), coder.n_values(one), n) for one, n in zip(coder.subjects, counts, strict=True)]
    return Looked(
        rows=sum(look.rows for look in looks),
        tables=tuple(tables),
        boxes=np.hstack([look.boxes for look in looks] or [np.empty((len(coder.layout.labelled), 0), np.int32)]).T,
        unused=tuple(dict.fromkeys(name for look in looks for name in look.unused)),
    )


def added(one: IntArray, other: IntArray) -> IntArray:
    """Return the sum of two arrays, of which the shorter goes on with zeros.

    >>> added(np.array([1, 2]), np.array([5])).tolist()
    [6, 2]
    """
    total = np.zeros(max(len(one), len(other)), dtype=np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total

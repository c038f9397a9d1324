"""Rows of a release and of its source, coded where they are and sent to the regions that they lie in."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.sources.spark.shipping import Form, Shared
from shoal.verify.coding import ReleaseCoder, SourceCoder, SourceFacts
from shoal.verify.regional.files import sorted_by_parts
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.regional.partings import Parting
from shoal.verify.spark.released import ReleaseForm

RELEASE, SOURCE = "release", "source"  # what rows are of
_WORD = 8  # bytes
_TOLD = "told"
ROWS_AT_ONCE = 1 << 21  # that are cut into pieces together, so that pieces are few and large


@dataclass(frozen=True, slots=True, eq=False)
class SentRelease:
    """What a partition tells of the rows of the release that it sent."""

    rows: IntArray  # (n_parts,)
    crossed: BoolArray  # the cuts that rows cross; none where rows are parted otherwise


@dataclass(frozen=True, slots=True, eq=False)
class SentSource:
    """What a partition tells of the rows of the source that it sent."""

    rows: IntArray  # (n_parts,)
    facts: SourceFacts


@dataclass(frozen=True, slots=True, eq=False)
class RouteRelease:
    """Codes the rows of a partition of the release, and sends them where *destinations* say their parts go."""

    form: ReleaseForm
    coder: Shared[ReleaseCoder]
    n_values: tuple[int, ...]  # that each subject has
    words: ReleaseWords
    parting: Parting
    destinations: IntArray  # (n_parts,)
    driver: int  # the destination of what is told

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield pieces of rows, and last what is told of them."""
        coder = self.coder.value
        n_parts, held = self.parting.n_parts, 0
        total: IntArray = np.zeros(n_parts, dtype=np.int64)
        crossed: BoolArray = np.zeros(0, dtype=np.bool_)
        words: list[KeyArray] = []
        parts: list[CodeArray] = []
        for batch in self.form.open(number, batches).batches(coder.columns):
            rows, values = coder.code(batch)
            subjects = coder.number(values)
            if tuple(coder.n_values(subject) for subject in coder.subjects) != self.n_values:
                raise InputError("the release changed while it was being read")
            sent = self.parting.of_release(rows)
            words.append(self.words.pack(rows))
            self.words.add_values(words[-1], subjects)
            parts.append(sent.parts)
            total += np.bincount(sent.parts, minlength=n_parts)
            crossed = sent.crossed | crossed if len(crossed) else sent.crossed
            held += rows.rows
            if held >= ROWS_AT_ONCE:
                yield from pieces(RELEASE, words, parts, self.destinations)
                words, parts, held = [], [], 0
        yield from pieces(RELEASE, words, parts, self.destinations)
        yield self.driver, told_message(SentRelease(total, crossed))


@dataclass(frozen=True, slots=True, eq=False)
class RouteSource:
    """Codes the rows of a partition of the source, and sends them where *destinations* say their parts go."""

    form: Form
    numbered: bool  # whether Spark sends the numbers of partitions, not rows
    coder: Shared[SourceCoder]
    words: PointWords
    parting: Parting
    destinations: IntArray
    driver: int

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield pieces of rows, and last what is told of them."""
        coder = self.coder.value
        if self.numbered:  # tasks have other numbers, for those of the release come before them
            (number,) = itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches)
            batches = iter(())
        source = self.form.open(number, batches)
        n_parts, held = self.parting.n_parts, 0
        total: IntArray = np.zeros(n_parts, dtype=np.int64)
        facts = coder.nothing()
        words: list[KeyArray] = []
        parts: list[CodeArray] = []
        for batch in () if source is None else source.batches(coder.columns, dictionary=coder.dictionaries):
            rows, more = coder.code(batch)
            facts += more
            words.append(self.words.pack(rows.points, rows.hashes))
            parts.append(self.parting.of_source(rows))
            total += np.bincount(parts[-1], minlength=n_parts)
            held += len(rows.hashes)
            if held >= ROWS_AT_ONCE:
                yield from pieces(SOURCE, words, parts, self.destinations)
                words, parts, held = [], [], 0
        yield from pieces(SOURCE, words, parts, self.destinations)
        yield self.driver, told_message(SentSource(total, facts))


def told_message(found: object) -> pa.RecordBatch:
    """Return what a task found."""
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(found, protocol=5)], pa.large_binary())], names=[_TOLD])


def told_of(message: pa.RecordBatch) -> Any:
    """Return what a task found, of its message."""
    return pickle.loads(message.column(0)[0].as_py())  # noqa: S301  what a task of this run has packed


def pieces(
    kind: str, words: list[KeyArray], parts: list[CodeArray], destinations: IntArray
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield destinations and the rows for them.

    Batches of (n_words, n_rows) *words* go where the *parts* of their rows are sent; parts sent to -1 are left out.
    """
    if not words:
        return
    n_parts = len(destinations)
    rows, first = sorted_by_parts(np.concatenate(words, axis=1), np.concatenate(parts), n_parts)
    width = pa.binary(_WORD * rows.shape[1])
    column = pa.FixedSizeBinaryArray.from_buffers(width, len(rows), [None, pa.py_buffer(rows)])
    for part in np.flatnonzero((np.diff(first) > 0) & (destinations >= 0)).tolist():
        some = column.slice(int(first[part]), int(first[part + 1] - first[part]))
        yield int(destinations[part]), pa.RecordBatch.from_arrays([some], names=[kind])


def words_of(batches: list[pa.RecordBatch], kind: str, n_words: int) -> KeyArray:
    """Return (n_rows, n_words) the rows of one kind among those that came to a task."""
    found = [_words(batch.column(0), n_words) for batch in batches if batch.schema.names == [kind]]
    return np.concatenate(found) if found else np.empty((0, n_words), dtype=np.uint64)


def _words(column: pa.FixedSizeBinaryArray, n_words: int) -> KeyArray:
    size = _WORD * n_words
    if column.type != pa.binary(size):
        raise ValueError("rows have another width than was agreed")
    words = np.frombuffer(
        column.buffers()[1], dtype=np.uint64, count=n_words * len(column), offset=size * column.offset
    )
    return words.reshape(len(column), n_words)

"""Rows of a release and of its source, coded where they are and sent to the regions that they lie in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shoal.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.errors import InputError
from shoal.sources.spark.shared import Shared
from shoal.sources.spark.shipping import Form
from shoal.verify.coding import ReleaseCoder, SourceCoder, SourceFacts
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.regional.partings import Parting
from shoal.verify.spark.messages import RELEASE, SOURCE, pieces, told_message
from shoal.verify.spark.released import ReleaseForm

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
        for batch in self.form.opened(number, batches).batches(coder.columns):
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
        source = self.form.opened(number, batches)
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

"""A release and its source, checked region by region by the tasks of Spark, and what they find put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress, Silent
from shoal.sources.spark.session import explain_failures
from shoal.sources.spark.shipping import Shared, collect_pieces, exchange, pieces_of, receive, route
from shoal.sources.spark.source import SparkFiles, SparkSource
from shoal.verify.coding import CodedRows, CodedSource, Met, ReleaseCoder, SourceCoder, SourceFacts
from shoal.verify.contents import Contents
from shoal.verify.counting import Table
from shoal.verify.parts import Checked, Findings, Part, Result, Task
from shoal.verify.reading import PublishedRows
from shoal.verify.regional.checking import Means, check
from shoal.verify.regional.packing import PointWords, ReleaseWords
from shoal.verify.regional.partings import ByClass, ByContent, Parting, cut_by
from shoal.verify.room import Room
from shoal.verify.spark.released import ReleaseForm, SparkFileRows, SparkRows
from shoal.verify.spark.routing import (
    RELEASE,
    SOURCE,
    RouteRelease,
    RouteSource,
    SentRelease,
    SentSource,
    told_message,
    told_of,
    words_of,
)

if TYPE_CHECKING:
    from shoal.sources.base import Source

_TOGETHER = 1 << 18  # rows that are handed out at a time
ROWS_PER_REGION = 1 << 19
SAMPLE = 1 << 20  # rows whose boxes show where there are cuts
_FEWEST, _MOST = 4, 1 << 12  # regions
_ROOM = Room(1 << 30)  # of a task; a region that needs more is checked in parts, with temporary files


def check_on_spark(
    rows: PublishedRows, coder: ReleaseCoder, task: Task, source: Source | None, contents: Contents | None,
    progress: Progress,
) -> Checked | None:  # fmt: skip
    """Return what tasks of Spark find, *coder* knowing afterwards all labels and values; None: the driver has to check.

    That is so if rows are not where tasks see them, if there is something to look at that tasks do not, or if Spark
    does not come to an end, for whatever reason.
    """
    shared = isinstance(rows, SparkRows | SparkFileRows) and (source is None or isinstance(source, SparkSource))
    if not shared or task.populations or not (task.promises or source):
        return None
    assert isinstance(rows, SparkRows | SparkFileRows)  # noqa: S101  as was just seen
    assert source is None or isinstance(source, SparkSource)  # noqa: S101  likewise
    try:
        with explain_failures("the release"):
            return _Checking(rows, coder, task.settled(), source, contents, progress).result()
    except InputError:
        return None


@dataclass(frozen=True, slots=True, eq=False)
class _Sent:
    """What became of rows that were sent to regions and checked there."""

    found: dict[int, Findings]  # of each destination
    release_rows: IntArray  # (n_parts,)
    crossed: BoolArray
    facts: SourceFacts | None


@dataclass(frozen=True, slots=True, eq=False)
class _Checking:
    rows: SparkRows | SparkFileRows
    coder: ReleaseCoder
    task: Task
    source: SparkSource | None
    contents: Contents | None
    progress: Progress

    def result(self) -> Checked | None:
        with self.progress.step("reading the release", self.task.manifest.rows) as step:
            seen = self._looked()
            step.advance(seen.rows)
        if not seen.rows or not ReleaseWords(self.task.truth_only).n_words + len(self.task.subjects):
            return None  # nothing of the rows would travel
        coder = Shared(self.coder)
        n_parts = min(max(-(-seen.rows // ROWS_PER_REGION), _FEWEST), _MOST)
        with self.progress.step("checking regions", seen.rows) as step:
            weights = np.ones(len(seen.boxes), dtype=np.int64)
            cuts = cut_by(self.task, seen.boxes, weights, n_parts)
            checked = None if cuts is None else self._parted(self.task, cuts, seen, coder)
            if checked is None:
                checked = self._by_hashes(n_parts, seen, coder)
            step.advance(seen.rows)
        return checked

    def _looked(self) -> Looked:
        """Return what all partitions tell, and take note of what they met."""
        frame, form = self.rows.select_columns(self.coder.glancing().columns)
        work = LookPartition(form, self.coder, max(self.task.manifest.rows // SAMPLE, 1))
        found = looked([told_of(message) for _, message in collect_pieces(pieces_of(frame, work))], self.coder)
        if isinstance(self.rows, SparkFileRows):
            self.rows.note_unused(found.unused)
        return found

    def _by_hashes(self, n_parts: int, seen: Looked, coder: Shared[ReleaseCoder]) -> Checked:
        """Check promises class by class, and compare rows content by content: that needs no cuts."""
        both = Checked(Findings(), seen.rows, None)
        if self.task.promises:
            both = self._sure(self.task.promises_only, ByClass(n_parts, 0), seen, coder)
        if self.source is not None:
            compared = self._sure(self.task.truth_only, ByContent(n_parts, 0), seen, coder)
            found = replace(both.found, false_rows=compared.found.false_rows)
            both = Checked(found, seen.rows, compared.facts)
        return both

    def _sure(self, task: Task, parting: Parting, seen: Looked, coder: Shared[ReleaseCoder]) -> Checked:
        checked = self._parted(task, parting, seen, coder)
        assert checked is not None  # noqa: S101  without cuts none is crossed
        return checked

    def _parted(self, task: Task, parting: Parting, seen: Looked, coder: Shared[ReleaseCoder]) -> Checked | None:
        """Send all rows where *parting* says, and those of regions that boxes join once more; None: nearly all is one.

        What tasks found in regions that turn out to be joined is void.
        """
        first = self._sent(task, parting, np.arange(parting.n_parts), seen, coder)
        groups = parting.groups(first.crossed)
        joined = np.flatnonzero(np.diff(groups) > 1)
        found = [first.found[int(groups[one])] for one in np.flatnonzero(np.diff(groups) == 1)]
        if len(joined):
            if np.add.reduceat(first.release_rows, groups[:-1]).max() > parting.most * seen.rows:
                return None
            destinations = np.full(parting.n_parts, -1, dtype=np.int64)
            for number, group in enumerate(joined.tolist()):
                destinations[groups[group] : groups[group + 1]] = number
            found += self._sent(task, parting, destinations, seen, coder).found.values()
        total = Findings()
        for one in found:
            total = total.joined(one, task)
        return Checked(total, seen.rows, first.facts)

    def _sent(
        self, task: Task, parting: Parting, destinations: IntArray, seen: Looked, coder: Shared[ReleaseCoder]
    ) -> _Sent:
        """Have rows sent to the destinations of their parts, and checked there; return what was found and counted."""
        driver = int(destinations.max()) + 1
        release_words = ReleaseWords(task)
        widths = [cover.width for cover in task.boxed] if task.key is not None else []
        source_words = PointWords(widths, with_hash=True)
        n_values = tuple(table.n_values for table in seen.tables)
        frame, form = self.rows.select_columns(self.coder.columns)
        sent = route(frame, RouteRelease(form, coder, n_values, release_words, parting, destinations, driver))
        if task.key is not None:
            assert self.source is not None and self.contents is not None  # noqa: S101, PT018  there is a key of it
            own = SourceCoder(task.manifest, task.boxed, self.contents)
            wanted, how = self.source.select_columns(own.columns)
            numbered = isinstance(self.source, SparkFiles)
            work = RouteSource(how, numbered, Shared(own), source_words, parting, destinations, driver)
            sent = sent.union(route(wanted, work))
        means = Means(_ROOM)
        check = CheckRegion(Shared(task), seen.tables, release_words, source_words, driver, means)
        messages = collect_pieces(pieces_of(exchange(sent, driver + 1), check))
        return self._added([told_of(message) for _, message in messages], destinations, seen, task)

    def _added(self, told: list[object], destinations: IntArray, seen: Looked, task: Task) -> _Sent:
        """Add up what tasks tell; raise unless every row was sent, and arrived where it was sent."""
        releases = [one for one in told if isinstance(one, SentRelease)]
        sources = [one for one in told if isinstance(one, SentSource)]
        regions = {one.number: one for one in told if isinstance(one, CheckedRegion)}
        n_parts = len(destinations)
        release_rows = sum((one.rows for one in releases), np.zeros(n_parts, dtype=np.int64))
        source_rows = sum((one.rows for one in sources), np.zeros(n_parts, dtype=np.int64))
        _same(int(release_rows.sum()), seen.rows)
        facts = None
        if task.key is not None:
            assert self.source is not None  # noqa: S101  there is a key of it
            facts = sources[0].facts
            for more in sources[1:]:
                facts += more.facts
            _same(facts.rows, self.source.n_rows)
            _same(int(source_rows.sum()), facts.rows - facts.dropped)
        for number in range(int(destinations.max()) + 1):
            here = destinations == number
            region = regions.setdefault(number, CheckedRegion(number, 0, 0, Findings()))
            _same(region.release_rows, int(release_rows[here].sum()))
            _same(region.source_rows, int(source_rows[here].sum()))
        crossed: BoolArray = np.zeros(max(len(one.crossed) for one in releases), dtype=np.bool_)
        for one in releases:
            crossed[: len(one.crossed)] |= one.crossed
        return _Sent({number: one.found for number, one in regions.items()}, release_rows, crossed, facts)


def _same(found: int, wanted: int | None) -> None:
    if found != wanted:
        raise InputError("rows were lost on their way, or the tables changed while they were being read")


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
        rows = self.form.open(number, batches)
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


class Arrived(Part):
    """The rows that were sent to one task."""

    def __init__(
        self,
        release: tuple[ReleaseWords, KeyArray],
        source: tuple[PointWords, KeyArray],
        tables: tuple[Table, ...],
    ) -> None:
        self._release_words, self._release = release
        self._source_words, self._source = source
        self._tables = tables
        self.n_rows = len(self._release)

    def release(
        self, work: Callable[[CodedRows], Result], *, labelled: bool
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        for rows in _some(self._release):
            coded, subjects = self._release_words.unpack(rows, labelled=labelled)
            yield work(coded), subjects

    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:  # noqa: ARG002
        for rows in _some(self._source):
            yield work(self._source_words.unpack(rows))

    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        raise NotImplementedError("populations are compared by the driver")

    def tables(self) -> tuple[Table, ...]:
        return self._tables


def _some(rows: KeyArray) -> Iterator[KeyArray]:
    for begin in range(0, len(rows), _TOGETHER):
        yield rows[begin : begin + _TOGETHER]


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRegion:
    """What a task tells of its region."""

    number: int
    release_rows: int
    source_rows: int
    found: Findings


@dataclass(frozen=True, slots=True, eq=False)
class CheckRegion:
    """Checks the rows that were sent to a task; what is for the driver is handed on to it."""

    task: Shared[Task]
    tables: tuple[Table, ...]
    release_words: ReleaseWords
    source_words: PointWords
    driver: int
    means: Means

    def __call__(self, number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what was found."""
        arrived = [batch for _, batch in receive(batches)]
        if number == self.driver:
            yield from arrived
            return
        release = words_of(arrived, RELEASE, self.release_words.n_words)
        source = words_of(arrived, SOURCE, self.source_words.n_words)
        del arrived
        found = Findings()
        if len(release):
            part = Arrived((self.release_words, release), (self.source_words, source), self.tables)
            found = check(part, self.task.value, self.means, Silent())
        yield told_message(CheckedRegion(number, len(release), len(source), found))

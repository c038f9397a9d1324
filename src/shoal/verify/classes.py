"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import CodeArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.verify.ahead import prepared
from shoal.verify.coding import CodedRows, CodedSource, Layout, PointReader, ReleaseCoder, SourceCoder, SourceFacts
from shoal.verify.contents import Contents
from shoal.verify.counting import Table
from shoal.verify.counts import source_counts
from shoal.verify.covers import Covers, read_covers
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.guarantees import conclude
from shoal.verify.labels import check_readings
from shoal.verify.manifest import Manifest
from shoal.verify.parts import Checked, Part, Result, Task
from shoal.verify.promises import Promise
from shoal.verify.reading import BATCH, FAULTS, PublishedRows, unreadable
from shoal.verify.regional.checking import Means, check
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.truth import contents_for, occurring, truth

if TYPE_CHECKING:
    from shoal.sources.base import Source

Populations = Mapping[str, "Source"]


def read_all_covers(manifest: Manifest) -> dict[str, Covers]:
    """Return what the labels of all attributes cover, or raise CoverError if one means nothing or reads otherwise."""
    boxed = [attribute for attribute in manifest.attributes if attribute.boxed]
    covers = {attribute.name: read_covers(attribute) for attribute in boxed}
    for attribute in boxed if manifest.agreed is None else ():  # the plan says what labels of its classes cover
        check_readings(attribute)
    return covers


def verify_classes(
    rows: PublishedRows,
    manifest: Manifest,
    reading: Future[dict[str, Covers]],
    source: Source | None,
    populations: Populations | None,
    progress: Progress,
    means: Means,
) -> tuple[list[Check], list[CheckedGuarantee] | None]:
    """Return checks and promises of a release in one part; no promises if its rows cannot be read.

    Labels are being read meanwhile; CoverError is raised if one has no meaning.
    """
    contents = None if source is None else contents_for(manifest, rows.schema, source)
    promises, given = _with_populations(manifest, populations or {})
    task = Task.of(manifest, Layout.of(manifest), promises, list(given), contents, reading)
    try:
        coder, checked = _checked(rows, task, source, contents, given, progress, means)
    except UnreadableError as unread:
        reading.result()
        return [unreadable(unread.fault)], None
    covers = reading.result()
    found, facts = checked.found, checked.facts
    checks = [check_rows(checked.rows, manifest), *check_dictionaries(rows)]
    if covers:
        checks.append(check_labels(coder.unknown, coder.idle))
    if manifest.levels:
        checks.append(_full_domain(manifest, covers))
    if checked.rows:
        checks += [_same_population(name, manifest, population) for name, population in given.items()]
    guarantees = []
    for place, promise in enumerate(promises):
        judged = None if found.judged is None else found.judged[place]
        uncovered = (found.uncovered or {}).get(str(promise.parameters.get("population")), 0)
        guarantees.append(conclude(promise, manifest, judged, uncovered, with_source=source is not None))
    if manifest.account is not None:
        checks.append(Check("truth", True, "the rows are nobody's, so they are not compared with people"))
    elif facts is not None:
        checks.append(source_counts(manifest, checked.rows, facts.counts()))
        checks += occurring([cover for cover in task.boxed if cover.attribute.role == "sensitive"], facts.met)
        checks.append(truth(found.false_rows, manifest))
    return checks, guarantees


def _checked(
    rows: PublishedRows,
    task: Task,
    source: Source | None,
    contents: Contents | None,
    populations: Populations,
    progress: Progress,
    means: Means,
) -> tuple[ReleaseCoder, Checked]:
    """Return what was found, and what numbered labels and values: on Spark if there is one and it can, else here."""

    def coder() -> ReleaseCoder:
        schema = None if source is None else source.schema
        return ReleaseCoder(rows.schema, task.manifest, task.subjects, contents, schema)

    if means.spark is not None:
        from shoal.verify.spark.checking import check_on_spark

        there = coder()
        checked = check_on_spark(rows, there, task, source, contents, progress)
        if checked is not None:
            return there, checked
    here = coder()
    whole = Whole(rows, here, task, progress, source, contents, populations, means.threads)
    found = check(whole, task, means, progress)
    return here, Checked(found, whole.met, whole.facts)


def _with_populations(manifest: Manifest, populations: Populations) -> tuple[list[Promise], dict[str, Source]]:
    """Return the promises, with an obstacle if a population cannot tell, and the populations that they need."""
    quasi = manifest.of_role("quasi")
    changed = any(not attribute.boxed or attribute.name in manifest.techniques for attribute in quasi)
    promises: list[Promise] = []
    given: dict[str, Source] = {}
    for promise in manifest.promises:
        name = promise.parameters.get("population")
        if isinstance(name, str) and promise.obstacle is None and name in populations:
            if changed:
                promise = replace(promise, obstacle="cannot check: a population has no values of changed attributes")
            else:
                given[name] = populations[name]
        promises.append(promise)
    for population in given.values():
        absent = [attribute.name for attribute in quasi if attribute.name not in population.schema.names]
        if absent:
            raise InputError(f"{population.name} lacks columns of the release: {', '.join(absent)}")
    return promises, given


def _full_domain(manifest: Manifest, covers: Mapping[str, Covers]) -> Check:
    """Check that labels of an attribute do not overlap, as is so at one level, and stand for one value at level 0."""
    for attribute in manifest.of_role("quasi"):
        cover = covers[attribute.name]
        order = np.argsort(cover.low, kind="stable")
        if (cover.low[order][1:] < cover.high[order][:-1]).any():
            return Check("levels", False, f"labels of {attribute.name} overlap, so they are not of one level")
        original = manifest.levels[attribute.name] == 0 and attribute.kind == "category"
        if original and any(len(entry.get("values", ())) > 1 or "any" in entry for entry in cover.declared()):
            return Check(
                "levels", False, f"{attribute.name} is at level 0, but a label of it stands for several values"
            )
    return Check("levels", True, "every quasi attribute bears labels of one level")


def _same_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not say which file the population was")
    same = population.digest() == declared
    detail = "the population is the declared one" if same else "the population differs from the declared one"
    return Check("population", same, detail)


class UnreadableError(Exception):
    """The rows of the release cannot be read; *fault* is why."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__(fault)
        self.fault = fault


class Whole(Part):
    """The whole release: every reading codes it anew, and values keep their numbers."""

    def __init__(
        self,
        rows: PublishedRows,
        coder: ReleaseCoder,
        task: Task,
        progress: Progress,
        source: Source | None,
        contents: Contents | None,
        populations: Mapping[str, Source],
        threads: int,
    ) -> None:
        self.n_rows = task.manifest.rows
        self.met = 0  # rows of the release that the last reading met
        self.facts: SourceFacts | None = None  # of the last reading of the source
        self._known: dict[str, int] = {}  # how many rows whole readings met
        self._rows = rows
        self._coder = coder
        self._task = task
        self._progress = progress
        self._source = source
        self._contents = contents
        self._populations = populations
        self._threads = threads

    def release(
        self,
        work: Callable[[CodedRows], Result],
        *,
        labelled: bool,  # noqa: ARG002  they always are
    ) -> Iterator[tuple[Result, tuple[CodeArray, ...]]]:
        coder = self._coder

        def task(batch: pa.RecordBatch) -> tuple[int, Result, dict[str, tuple[pa.Array, CodeArray]]]:
            rows, values = coder.code(batch)
            return rows.rows, work(rows), values

        self.met = 0
        with self._progress.step("reading the release", self.n_rows) as step:
            batches = self._ahead(self._rows.batches(coder.columns), task)
            while True:
                try:
                    n_rows, found, values = next(batches)
                    subjects = coder.number(values)
                except StopIteration:
                    break
                except MemoryError:  # Arrow's is one of the faults, but the file has none
                    raise
                except FAULTS as fault:
                    raise UnreadableError(fault) from None
                self.met += n_rows
                yield found, subjects
                step.advance(n_rows)
        self._check("the release", self.met)

    def source(self, work: Callable[[CodedSource], Result], title: str) -> Iterator[Result]:
        source, contents = self._source, self._contents
        assert source is not None and contents is not None  # noqa: S101, PT018 - asked for only when they are given
        coder = SourceCoder(self._task.manifest, self._task.boxed, contents)

        def task(batch: pa.RecordBatch) -> tuple[Result, SourceFacts]:
            rows, facts = coder.code(batch)
            return work(rows), facts

        self.facts = coder.nothing()
        with self._progress.step(title, source.n_rows) as step:
            for found, facts in self._ahead(
                _sliced(source.batches(coder.columns, dictionary=coder.dictionaries)), task
            ):
                self.facts += facts
                yield found
                step.advance(facts.rows)
        self._check(source.name, self.facts.rows)

    def population(self, name: str, work: Callable[[CodeArray], Result]) -> Iterator[Result]:
        source, covers = self._populations[name], self._task.quasi
        columns = [cover.attribute.name for cover in covers]
        reader = PointReader(covers, self._task.manifest.missing_tokens)

        def task(batch: pa.RecordBatch) -> tuple[Result, int]:
            return work(reader.points(batch)), batch.num_rows

        with self._progress.step("reading the population", source.n_rows) as step:
            for found, n_rows in self._ahead(_sliced(source.batches(columns, dictionary=columns)), task):
                yield found
                step.advance(n_rows)

    def _ahead(self, batches: Iterator[pa.RecordBatch], task: Callable[[pa.RecordBatch], Result]) -> Iterator[Result]:
        """Yield task(batch) of every batch, worked on ahead; what reading took is free again after that."""
        try:
            yield from prepared(batches, task, self._threads)
        finally:
            pa.default_memory_pool().release_unused()

    def _check(self, name: str, n_rows: int) -> None:
        """Refuse tables of which two readings meet different numbers of rows."""
        if self._known.setdefault(name, n_rows) != n_rows:
            raise InputError(f"{name} changed while it was being read")

    def tables(self) -> tuple[Table, ...]:
        coder = self._coder
        return tuple(Table(coder.texts(subject), coder.n_values(subject)) for subject in coder.subjects)


def _sliced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches that are not too large, for memory."""
    for batch in batches:
        for begin in range(0, batch.num_rows, BATCH):
            yield batch.slice(begin, BATCH)

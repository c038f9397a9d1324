"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, IntArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.verify.boxes import BoxTree, Spans
from shoal.verify.coding import Layout, PointReader, SourceFacts
from shoal.verify.counting import Counting, Share
from shoal.verify.covers import Covers, read_covers
from shoal.verify.form import check_dictionaries, check_labels, check_rows, check_source_counts
from shoal.verify.guarantees import Judged, conclude, judge
from shoal.verify.hashing import RowSums
from shoal.verify.labels import check_readings
from shoal.verify.manifest import Manifest
from shoal.verify.matching import MOST_ROWS, TooLargeError, count_unmatched
from shoal.verify.passes import Compared, Counted, LocalReader, Means, Question, Reader, UnreadableError
from shoal.verify.people import judge_people
from shoal.verify.promises import Promise
from shoal.verify.reading import BATCH, PublishedRows, prepare_ahead, report_unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.truth import Witness, check_values, contents_for, judge_truth

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
    witness: Witness | None,
    populations: Populations | None,
    progress: Progress,
    means: Means,
) -> tuple[list[Check], list[CheckedGuarantee] | None]:
    """Return checks and promises of a release in one part; no promises if its rows cannot be read.

    Labels are being read meanwhile; CoverError is raised if one has no meaning.
    """
    contents = None if source is None else contents_for(manifest, rows.schema, source)
    promises, given = _with_populations(manifest, populations or {})
    question = Question(manifest, Layout.of(manifest), promises, contents, reading, located=bool(given))
    located = {name: Population(name, one, question, progress, means) for name, one in given.items()}
    try:
        reader, found = _count_release(rows, question, source, witness, located, progress, means)
    except UnreadableError as unread:
        reading.result()
        return [report_unreadable(unread.fault)], None
    covers = reading.result()
    checks = [check_rows(found.rows, manifest), *check_dictionaries(rows)]
    if covers:
        checks.append(check_labels(reader.coder.unknown, reader.coder.idle))
    if manifest.levels:
        checks.append(_full_domain(manifest, covers))
    if found.rows:
        checks += [_same_population(name, manifest, population) for name, population in given.items()]
    guarantees = []
    for place, promise in enumerate(promises):
        name = str(promise.parameters.get("population"))
        missed = located[name].uncovered if name in located else 0
        judged = found.judged[place] if found.judged else None
        guarantees.append(conclude(promise, manifest, judged, missed, with_source=source is not None))
    if manifest.account is not None:
        checks.append(Check("truth", True, "the rows are nobody's, so they are not compared with people"))
    elif source is not None:
        checks += _compare_source(reader, found, question, witness)
    if any(promise.counts for promise in promises):
        told = None if witness is None or not checks[-1].ok else witness
        guarantees = judge_people(reader.coder, question, source, told, found.n_classes, guarantees)
    return checks, guarantees


@dataclass(slots=True)
class _Found:
    """What all passes over the release found."""

    rows: int = 0
    n_classes: int = 0
    sums: RowSums = field(default_factory=RowSums)
    judged: tuple[Judged, ...] = ()  # of each promise; none if there are no rows

    def add(self, judged: tuple[Judged, ...], promises: tuple[Promise, ...]) -> None:
        """Take what further classes make of the promises."""
        if self.judged:
            both = zip(self.judged, judged, promises, strict=True)
            judged = tuple(one.joined(other, promise) for one, other, promise in both)
        self.judged = judged


def _count_release(
    rows: PublishedRows,
    question: Question,
    source: Source | None,
    witness: Witness | None,
    populations: Mapping[str, Population],
    progress: Progress,
    means: Means,
) -> tuple[Reader, _Found]:
    """Return who read the release, and what was found: on Spark if there is one and it can, else here."""
    if means.spark is not None and not populations and (witness is not None or source is None):
        from shoal.verify.spark import SparkReader

        there = SparkReader.of(rows, question, source, progress, means)
        if there is not None:
            try:
                return there, _count_all(there, question, {})
            except InputError:  # Spark did not come to an end, for whatever reason
                pass
    here = LocalReader(rows, question, source, progress, means)
    return here, _count_all(here, question, populations)


def _count_all(reader: Reader, question: Question, populations: Mapping[str, Population]) -> _Found:
    """Count all classes, in as many passes over the release as memory asks for, and judge them."""
    found, waiting, n_passes = _Found(), [Share()], 0
    while waiting:
        counted = reader.count(waiting.pop())
        waiting += counted.counting.let_go
        n_passes += 1
        if n_passes > 1 and (counted.rows, counted.sums) != (found.rows, found.sums):
            raise InputError("the release changed while it was being read")
        found.rows, found.sums = counted.rows, counted.sums
        found.n_classes += counted.counting.n_classes
        if counted.counting.n_classes:
            found.add(_judge_classes(reader, question, counted, populations), question.promises)
    return found


def _judge_classes(
    reader: Reader, question: Question, counted: Counted, populations: Mapping[str, Population]
) -> tuple[Judged, ...]:
    counting, coder = counted.counting, reader.coder
    histograms = {}
    for place, subject in enumerate(question.subjects):
        table = counted.totals[place] if counting.share.bits else None
        histograms[subject] = counting.histograms(place, coder.texts(subject), coder.n_values(subject), table)
    totals = {name: population.covered_by(counting) for name, population in populations.items()}
    return tuple(judge(promise, question.manifest, counting.sizes, histograms, totals) for promise in question.promises)


def _compare_source(reader: Reader, found: _Found, question: Question, witness: Witness | None) -> Iterator[Check]:
    """Compare the release with its source: by the witness or, without one, by matching rows."""
    facts: SourceFacts
    if witness is not None:
        compared = reader.compare(witness)
        facts, shown = compared.facts, list(_by_witness(compared, found, question.manifest))
    else:
        assert isinstance(reader, LocalReader)  # noqa: S101 - without a witness nobody else reads
        facts, check = _by_matching(reader, found, question)
        shown = [check]
    yield check_source_counts(question.manifest, found.rows, facts.counts())
    boxed = question.covers_of(question.layout.boxed)
    yield from check_values([cover for cover in boxed if cover.attribute.role == "sensitive"], facts.met)
    yield from shown


def _by_witness(compared: Compared, found: _Found, manifest: Manifest) -> Iterator[Check]:
    if compared.misfit is not None:
        yield Check("witness", False, f"{compared.misfit}; or the source is another one, or in another order")
        yield Check("truth", False, "not shown: the witness does not fit the source")
    elif compared.gone:
        lost = f"the witness puts {compared.gone} source rows into classes that lack a value and were dropped"
        yield Check("truth", False, lost)
    elif compared.uncovered:
        wrong = (
            f"{compared.uncovered} source rows do not lie under the labels of the class that the witness puts them in"
        )
        yield Check("truth", False, wrong)
    elif compared.sums != found.sums:
        differ = f"the {found.rows} published rows are not the {compared.sums.rows} source rows of their classes"
        yield Check("truth", False, differ)
    else:
        yield judge_truth(manifest)


def _by_matching(reader: LocalReader, found: _Found, question: Question) -> tuple[SourceFacts, Check]:
    """Match rows one by one, as far as that is possible."""
    facts, points, hashes = None, [], []
    for rows, more in reader.source_rows():
        facts = more if facts is None else facts + more
        if facts.rows - facts.dropped <= MOST_ROWS:
            points.append(rows.points)
            hashes.append(rows.hashes)
    assert facts is not None  # noqa: S101 - a source has rows
    largest = max(found.rows, facts.rows - facts.dropped)
    if largest > MOST_ROWS:
        return facts, _not_done(f"{largest:,} rows are more than the {MOST_ROWS:,} that are matched")
    if not found.rows:
        return facts, judge_truth(question.manifest)
    try:
        labels, contents = reader.labels()
        covers = question.covers_of(question.layout.boxed)
        false_rows = count_unmatched(covers, labels, contents, np.concatenate(points), np.concatenate(hashes))
    except TooLargeError as large:
        return facts, _not_done(str(large))
    return facts, judge_truth(question.manifest, false_rows)


def _not_done(why: str) -> Check:
    return Check("truth", True, f"not checked: internal/witness.parquet is not there, and {why}", done=False)


class Population:
    """A table of people in which classes are looked for; a row may be covered by classes of any pass."""

    def __init__(self, name: str, source: Source, question: Question, progress: Progress, means: Means) -> None:
        self._name = name
        self._source = source
        self._question = question
        self._progress = progress
        self._means = means
        self._covered: list[BoolArray] = []  # of each batch

    @property
    def uncovered(self) -> int:
        """How many rows no class covers."""
        return sum(int((~covered).sum()) for covered in self._covered)

    def covered_by(self, counting: Counting) -> IntArray:
        """Return (n_classes,) how many rows each class covers."""
        covers = self._question.covers_of(self._question.layout.quasi)
        tree = BoxTree.of(Spans.of(covers, counting.class_labels()))
        reader = PointReader(covers, self._question.manifest.missing_tokens)

        def cover(batch: pa.RecordBatch) -> tuple[IntArray, BoolArray]:
            totals = np.zeros(counting.n_classes, dtype=np.int64)
            return totals, tree.count(reader.points(batch), totals)

        totals = np.zeros(counting.n_classes, dtype=np.int64)
        for number, (found, covered) in enumerate(prepare_ahead(self._batches(reader), cover, self._means.threads)):
            totals += found
            if number == len(self._covered):
                self._covered.append(covered)
            else:
                self._covered[number] |= covered
        return totals

    def _batches(self, reader: PointReader) -> Iterator[pa.RecordBatch]:
        columns = [cover.attribute.name for cover in reader.covers]
        with self._progress.step("reading the population", self._source.n_rows) as step:
            for batch in self._source.batches(columns, dictionary=columns):
                for begin in range(0, batch.num_rows, BATCH):
                    yield batch.slice(begin, BATCH)
                step.advance(batch.num_rows)


def _with_populations(manifest: Manifest, populations: Populations) -> tuple[tuple[Promise, ...], dict[str, Source]]:
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
    return tuple(promises), given


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

"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.verify import form, people
from shoal.verify.boxes import MOST_ROWS, BoxTree, Spans, TooLargeError, count_unmatched
from shoal.verify.cells import CodedRows, Counting
from shoal.verify.coding import Compared, PointReader, ReleaseCoder, SourceCoder
from shoal.verify.contents import RowSums
from shoal.verify.covers import Covers, check_readings, read_covers
from shoal.verify.guarantees import Judged, conclude, judge
from shoal.verify.manifest import Manifest
from shoal.verify.order import check_order
from shoal.verify.passes import Given, Populations, Reader, UnreadableError, read_in_steps
from shoal.verify.promises import Promise
from shoal.verify.reading import PublishedRows, prepare_ahead, report_unreadable
from shoal.verify.result import Check
from shoal.verify.truth import Witness, check_values, contents_for, judge_truth, report_unassigned

if TYPE_CHECKING:
    from shoal.sources.base import Source


_BOX, _SIDE = 100, 56  # bytes of a box, and of each attribute of it, in the tree by which a population is compared


def read_all_covers(manifest: Manifest) -> dict[str, Covers]:
    """Return what the labels of all attributes cover, or raise CoverError if one means nothing or reads otherwise."""
    covers = {attribute.name: read_covers(attribute) for attribute in manifest.labelled}
    levels = manifest.written.levels or manifest.written.method_parameters.get("levels")
    chosen = {name for name, level in levels.items() if level} if isinstance(levels, dict) else set()
    # what labels of a plan cover, the plan says
    for attribute in manifest.labelled if manifest.written.agreed is None else ():
        check_readings(attribute, generalized=attribute.name in chosen)
    return covers


def verify_classes(rows: PublishedRows, manifest: Manifest, covers: Mapping[str, Covers], given: Given) -> form.Answer:
    """Return checks and promises of a release in one part; no promises if its rows cannot be read."""
    source, witness = given.source, given.witness
    contents = None if source is None else contents_for(manifest, rows.schema, source)
    promises, populations = _with_populations(manifest, given.populations)
    subjects = tuple(dict.fromkeys(subject for promise in promises for subject in promise.subjects))
    coder = ReleaseCoder(rows.schema, manifest, subjects, contents, None if source is None else source.schema)
    located = {name: Population(one, manifest, covers, given) for name, one in populations.items()}
    reader = _choose_reader(rows, given, here=bool(located))
    try:
        asked = promises if source is not None else [(one.counts and people.weaken(one)) or one for one in promises]
        found = _count_all(reader, coder, manifest, asked, located)
    except UnreadableError as unread:
        return form.Answer([report_unreadable(unread.fault)])
    checks = [form.check_rows(found.rows, manifest), *form.check_dictionaries(rows)]
    if covers:
        checks.append(form.check_labels(manifest, found.labels))
    if manifest.written.levels:
        checks.append(_full_domain(manifest, covers))
    if found.rows:
        checks += [_same_population(name, manifest, population) for name, population in populations.items()]
    guarantees = []
    for place, promise in enumerate(promises):
        name = str(promise.parameters.get("population"))
        missed = located[name].uncovered if name in located else 0
        judged = found.judged[place] if found.judged else None
        if promise.counts is not None and source is None:
            guarantees.append(people.judge_records(promise, judged))
        else:
            guarantees.append(conclude(promise, manifest, judged, missed, with_source=source is not None))
    if manifest.written.synthetic is not None:
        checks.append(Check("truth", True, "the rows were drawn at random, so they are not compared with people"))
    elif contents is not None:
        checks += _compare_source(reader, coder, SourceCoder(manifest, covers, contents), found, manifest, witness)
    stated = None if witness is None or not checks[-1].ok else witness
    checks += _check_true_values(coder, manifest, rows, replace(given, witness=stated), found.n_classes)
    if source is not None and any(promise.counts for promise in promises):
        records = people.read_people(coder, manifest, rows.schema, source, stated, found.n_classes)
        guarantees = people.judge_people(promises, manifest, records, guarantees)
    if source is not None and witness is not None and all(check.ok for check in checks):
        checks += people.check_withheld(manifest, rows.schema, source, witness)
    return form.Answer(checks, guarantees, found.labels)


def _choose_reader(rows: PublishedRows, given: Given, *, here: bool) -> Reader:
    """Return who reads both tables: tasks of Spark if there are any and they can, else this process."""
    if given.means.spark is not None and not here and (given.witness is not None or given.source is None):
        from shoal.verify.spark import SparkReader

        if SparkReader.can_read(rows, given.source):
            return SparkReader(rows, given)
    return Reader(rows, given)


@dataclass(slots=True)
class _Found:
    """What reading the release found."""

    labels: form.LabelCounts
    rows: int = 0
    n_classes: int = 0
    sums: RowSums = field(default_factory=RowSums)
    tokens: list[KeyArray] = field(default_factory=list)  # in the order of the rows
    judged: list[Judged] = field(default_factory=list)  # of each promise; none if there are no rows


def _count_all(
    reader: Reader,
    coder: ReleaseCoder,
    manifest: Manifest,
    promises: Sequence[Promise],
    populations: Mapping[str, Population],
) -> _Found:
    """Count all classes and judge them, a share after another if they do not fit into memory."""
    subjects = tuple(dict.fromkeys(subject for promise in promises for subject in promise.subjects))
    side = _BOX + _SIDE * len(manifest.of_role("quasi")) if populations else 0
    asked = subjects if promises else None
    blank = Counting(asked, reader.means.limit, side, expected=manifest.rows)
    counting = reader.count(coder, blank, manifest.rows)
    none = {reader.name: reader.count(np.zeros(0, dtype=np.int32)) for reader in coder.labels}
    found = _Found(counting.labels or none, counting.rows, sums=counting.sums, tokens=counting.tokens)
    for cells in counting.shares():
        found.n_classes += len(cells.sizes)
        histograms = {subject: counting.histograms(cells, subject) for subject in subjects}
        totals = {name: one.count_covered(coder.classes.unpack(cells.classes)) for name, one in populations.items()}
        judged = [judge(promise, manifest, cells.sizes, histograms, totals) for promise in promises]
        if found.judged:
            both = zip(found.judged, judged, promises, strict=True)
            judged = [one.join(other, promise) for one, other, promise in both]
        found.judged = judged
    return found


class _TrueRows(Reader):
    """Reads rows of the source in place of the published ones, each in the class that the witness has for it."""

    def __init__(self, rows: PublishedRows, given: Given, published: Iterator[tuple[pa.RecordBatch, IntArray]]) -> None:
        super().__init__(rows, given)
        self._published = published

    def code_release(self, coder: ReleaseCoder, n_rows: int) -> Iterator[CodedRows]:  # noqa: ARG002
        for batch, classes in self._published:
            none = np.zeros((0, batch.num_rows), dtype=np.int32)
            yield CodedRows(batch.num_rows, none, {}, classes, *coder.read_values(batch), None, RowSums())


def _check_true_values(
    coder: ReleaseCoder, manifest: Manifest, rows: PublishedRows, given: Given, n_classes: int
) -> list[Check]:
    """Judge promises on the source's values of attributes whose published values do not follow from these."""
    promises = people.find_changed(manifest)
    if not promises or given.source is None:
        return []
    if given.witness is None:
        return [Check("true values", True, "not checked: internal/witness.parquet is missing or not true", done=False)]
    published = people.read_published(coder, manifest, rows.schema, given.source, given.witness)
    found = _count_all(_TrueRows(rows, given, published), coder, manifest, promises, {})
    blurred = any(not one.boxed and not manifest.is_traced(one) for one in manifest.of_role("quasi"))
    if blurred or found.n_classes != n_classes or any(promise.counts for promise in promises):
        return [Check("true values", False, "the class of each source row, or its person, cannot be determined")]
    faults = [
        f"{promise.model}: {judged.obstacle or f'{judged.failing} classes fail by the values before techniques'}"
        for promise, judged in zip(promises, found.judged, strict=bool(found.judged))
        if judged.obstacle or judged.failing
    ]
    return [Check.of("true values", "; ".join(faults), "the values before techniques keep the promises, too")]


def _compare_source(
    reader: Reader,
    coder: ReleaseCoder,
    original: SourceCoder,
    found: _Found,
    manifest: Manifest,
    witness: Witness | None,
) -> Iterator[Check]:
    """Compare the release with its source: by the witness or, without one, by matching rows."""
    if witness is not None:
        stated = reader.compare(original, witness)
        truth = _judge_witness(stated, found, manifest)
        yield check_order(found.tokens, stated.tokens)
    else:
        stated, truth = _match_rows(reader, coder, original, found, manifest)
        if manifest.labelled or manifest.averaging is not None:
            yield report_unassigned()
    yield form.check_source_counts(manifest, found.rows, form.count_source(stated.rows, stated.dropped, stated.moved))
    yield from check_values([cover for _, cover in original.generalized], stated.met)
    if stated.misfit is not None:
        yield Check("witness", False, f"{stated.misfit}; or the source is another one, or in another order")
    yield truth


def _judge_witness(stated: Compared, found: _Found, manifest: Manifest) -> Check:
    if stated.misfit is not None:
        return Check("truth", False, "not shown: the witness does not fit the source")
    if stated.gone:
        lost = f"the witness puts {stated.gone} source rows into classes that lack a value and were dropped"
        return Check("truth", False, lost)
    if stated.uncovered:
        columns = ", ".join(sorted(stated.outside))
        wrong = f"{stated.uncovered} source rows are not under their class's labels of {columns}, by the witness"
        return Check("truth", False, wrong)
    if stated.sums != found.sums:
        exact = ", ".join(one.name for one in manifest.attributes if not one.boxed and manifest.is_traced(one))
        differ = f"the {found.rows} published rows are not the {stated.sums.rows} source rows of their classes"
        return Check("truth", False, f"{differ}, by their values of {exact or 'no column'}")
    return judge_truth(manifest)


def _match_rows(
    reader: Reader, coder: ReleaseCoder, original: SourceCoder, found: _Found, manifest: Manifest
) -> tuple[Compared, Check]:
    """Match rows one by one, as far as that is possible."""
    stated, points, hashes = original.nothing(), [], []
    for rows in reader.code_source(original):
        stated += rows.stated
        if stated.rows - stated.dropped <= MOST_ROWS:
            points.append(rows.points)
            hashes.append(rows.hashes)
    largest = max(found.rows, stated.rows - stated.dropped)
    if largest > MOST_ROWS:
        return stated, _not_done(f"{largest:,} rows are more than the {MOST_ROWS:,} that are matched")
    if not found.rows:
        return stated, judge_truth(manifest)
    published = list(reader.code_release(coder, found.rows))
    labels = np.concatenate([rows.labels[original.places].T for rows in published])
    contents = np.concatenate([rows.hashes for rows in published if rows.hashes is not None])
    try:
        false_rows = count_unmatched(original.covers, labels, contents, np.concatenate(points), np.concatenate(hashes))
    except TooLargeError as large:
        return stated, _not_done(str(large))
    return stated, judge_truth(manifest, false_rows)


def _not_done(why: str) -> Check:
    why = f"not checked: internal/witness.parquet is not there, and {why}"
    return Check("truth", True, why, done=False, required=True)


class Population:
    """A table of people in which classes are looked for; a row may be covered by classes of any share."""

    def __init__(self, source: Source, manifest: Manifest, covers: Mapping[str, Covers], given: Given) -> None:
        self._source = source
        self._columns = [attribute.name for attribute in manifest.of_role("quasi")]
        self._covers = [covers[name] for name in self._columns]
        self._points = PointReader(self._covers, manifest.missing_tokens)
        self._given = given
        self._covered: list[BoolArray] = []  # of each batch

    @property
    def uncovered(self) -> int:
        """How many rows no class covers."""
        return sum(int((~covered).sum()) for covered in self._covered)

    def count_covered(self, labels: CodeArray) -> IntArray:
        """Return (n_classes,) how many rows each class covers, given (n_classes, n_quasi) labels."""
        tree = BoxTree.of(Spans.of(self._covers, labels))

        def cover(batch: pa.RecordBatch) -> tuple[IntArray, BoolArray]:
            totals = np.zeros(len(labels), dtype=np.int64)
            return totals, tree.count(self._points.points(batch), totals)

        totals = np.zeros(len(labels), dtype=np.int64)
        with self._given.progress.step("reading the population", self._source.n_rows) as step:
            batches = read_in_steps(self._source, self._columns, self._columns, step)
            for number, (found, covered) in enumerate(prepare_ahead(batches, cover, self._given.means.threads)):
                totals += found
                if number == len(self._covered):
                    self._covered.append(covered)
                else:
                    self._covered[number] |= covered
        return totals


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
        original = (manifest.written.levels or {})[attribute.name] == 0 and attribute.kind == "category"
        if original and any(len(entry.get("values", ())) > 1 or "any" in entry for entry in cover.entries()):
            return Check(
                "levels", False, f"{attribute.name} is at level 0, but a label of it stands for several values"
            )
    return Check("levels", True, "every quasi attribute bears labels of one level")


def _same_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.written.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not say which file the population was")
    same = population.digest() == declared.sha256
    detail = "the population is the declared one" if same else "the population differs from the declared one"
    return Check("population", same, detail)

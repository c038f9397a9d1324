"""The verification of a release by a plan: its form, what every class of the plan shows, and whether it is true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.core.progress import Progress
from shoal.verify.agreed.plan import CLASS, Plan
from shoal.verify.ahead import prepared
from shoal.verify.counting import Histograms, histograms_of
from shoal.verify.counts import SourceRows, source_counts
from shoal.verify.covers import Covers
from shoal.verify.exact import entropies, entropy_at_least
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.guarantees import agrees
from shoal.verify.kernels import kernel, paired
from shoal.verify.manifest import Manifest
from shoal.verify.numbering import LabelReader
from shoal.verify.promises import AGREED, PARAMETER, Promise
from shoal.verify.reading import FAULTS, CsvRows, PublishedRows, coded, unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.tally import Tally

if TYPE_CHECKING:
    from shoal.sources.base import Source

Answer = tuple[list[Check], list[CheckedGuarantee] | None]


def verify_agreed(
    rows: PublishedRows,
    manifest: Manifest,
    plan: Plan,
    covers: Mapping[str, Covers],
    source: Source | None,
    progress: Progress,
) -> Answer:
    """Return checks and promises of a release by a plan; no promises if its form does not let them be judged."""
    checks = [_attributes(manifest, plan), _class_column(rows)]
    if not all(check.ok for check in checks):
        return checks, None
    try:
        released = read_rows(rows, manifest, plan, progress)
    except FAULTS as fault:
        return [*checks, unreadable(fault)], None
    checks += [check_rows(released.rows, manifest), *check_dictionaries(rows)]
    checks.append(check_labels(released.unknown, released.idle))
    checks += [_classes(released), _values(released, plan), _records(released, plan)]
    checks.append(_hulls(released, plan, covers))
    guarantees = [_judged(promise, plan, released) for promise in manifest.promises]
    if source is not None:
        checks += _true(released, manifest, plan, source, progress)
    return checks, guarantees


def _attributes(manifest: Manifest, plan: Plan) -> Check:
    """The attributes are those of the plan, in its order and in its roles."""
    (part,) = manifest.parts
    roles = [attribute.role for attribute in manifest.attributes]
    same = part == (*plan.quasi, plan.sensitive) and roles == ["quasi"] * len(plan.quasi) + ["sensitive"]
    if not same:
        return Check("attributes", False, "the attributes and their roles are not those of the plan")
    if manifest.attributes[-1].boxed:
        return Check("attributes", False, "the sensitive attribute has labels, and not its own values")
    return Check("attributes", True, "the attributes and their roles are those of the plan")


def _class_column(rows: PublishedRows) -> Check:
    fits = isinstance(rows, CsvRows) or pa.types.is_integer(rows.schema.field(CLASS).type)
    return Check("class column", fits, "the classes are numbers" if fits else "the classes are not whole numbers")


def _classes(released: AgreedRows) -> Check:
    if released.strange_classes:
        return Check("classes", False, f"{released.strange_classes} rows have no number of a class of the plan")
    if released.mixed.any():
        return Check("classes", False, f"rows of {int(released.mixed.sum())} classes bear different labels")
    return Check("classes", True, "every row is in a class of the plan, and rows of a class bear the same labels")


def _values(released: AgreedRows, plan: Plan) -> Check:
    strange = released.strange_values
    detail = f"{strange} rows have a value of {plan.sensitive} that the plan does not know, or none"
    return Check("values", not strange, detail if strange else f"every value of {plan.sensitive} is one of the plan's")


def _records(released: AgreedRows, plan: Plan) -> Check:
    verb = "are enough for" if released.rows >= plan.records else "are fewer than"
    detail = f"{released.rows} records {verb} the plan's {plan.records}"
    return Check("records", released.rows >= plan.records, detail)


def _hulls(released: AgreedRows, plan: Plan, covers: Mapping[str, Covers]) -> Check:
    wrong = {}
    for place, (name, values) in enumerate(zip(plan.quasi, plan.quasi_values, strict=True)):
        found = wrong_hulls(covers[name], values, plan.points[place], plan.class_of, released.labels[:, place])
        if found:
            wrong[name] = found
    if wrong:
        listed = ", ".join(f"{name} ({number} classes)" for name, number in wrong.items())
        return Check("hulls", False, f"labels are not those around the points of their class: {listed}")
    return Check("hulls", True, "every label is the one around the points of its class")


def _judged(promise: Promise, plan: Plan, released: AgreedRows) -> CheckedGuarantee:
    """Return the promise beside what the classes of the plan keep; in doubt it does not hold."""

    def answer(achieved: float | None, ok: bool, detail: str) -> CheckedGuarantee:
        return CheckedGuarantee(promise.model, promise.parameters, promise.claimed, achieved, ok, detail)

    if promise.obstacle:
        return answer(None, False, promise.obstacle)
    asked = promise.model, promise.fraction(PARAMETER[promise.model]), promise.fraction("delta")
    if asked != (plan.model, plan.least, plan.delta):
        return answer(None, False, "it is not what the plan promises")
    empty = int((released.histograms.sizes == 0).sum())
    if empty:
        return answer(None, False, f"{empty} of {plan.n_classes} classes of the plan have no record")
    failing, achieved = _found(plan, released)
    if failing.any():
        return answer(achieved, False, f"{int(failing.sum())} of {plan.n_classes} classes do not keep it")
    if not agrees(promise.claimed, achieved):
        return answer(achieved, False, "the manifest's 'achieved' is not what the rows reach")
    return answer(achieved, True, f"all {plan.n_classes} classes of the plan keep it")


def _found(plan: Plan, released: AgreedRows) -> tuple[BoolArray, float]:
    """Return (n_classes,) which classes break the promise, and the least that they reach."""
    histograms = released.histograms
    if plan.model == AGREED[1]:
        # Sizes are exact, and so is the number that they are compared with.
        return histograms.sizes < int(plan.least), float(histograms.sizes.min())
    if plan.model == AGREED[2]:
        return ~entropy_at_least(histograms, Fraction(plan.least)), float(np.exp(entropies(histograms)).min())
    wanted = (np.arange(plan.n_classes, dtype=np.uint64)[:, np.newaxis] << np.uint64(32)) | plan.shown.astype(np.uint64)
    hidden = np.logical_or.reduce(~np.isin(wanted, released.keys), axis=1)
    return hidden, float(np.diff(histograms.start).min())


def _true(released: AgreedRows, manifest: Manifest, plan: Plan, source: Source, progress: Progress) -> list[Check]:
    """Compare with the source: as many records of every class have every value there."""
    absent = [name for name in (*plan.quasi, plan.sensitive) if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    original = read_source(source, plan, progress)
    checks = [source_counts(manifest, released.rows, SourceRows(original.rows, 0))]
    if original.outside:
        checks.append(Check("domain", False, f"{original.outside} source rows are outside the domain of the plan"))
    wrong = misplaced(released, original)
    detail = f"{wrong} rows differ from the source in their class or their value"
    right = "every class has just the values that the source has for it"
    return [*checks, Check("truth", not wrong, detail if wrong else right)]


@kernel
def _spanned(
    owner: IntArray,
    begin: IntArray,
    end: IntArray,
    order: IntArray,
    first: IntArray,
    last: IntArray,
    covered: IntArray,
) -> None:
    """Widen each label by the values of its pieces; *order* lists values by their codes."""
    for piece in range(owner.shape[0]):
        label = owner[piece]
        for at in range(begin[piece], end[piece]):
            first[label] = min(first[label], order[at])
            last[label] = max(last[label], order[at])
        covered[label] += end[piece] - begin[piece]


def wrong_hulls(cover: Covers, values: pa.Array, points: CodeArray, class_of: CodeArray, labels: CodeArray) -> int:
    """Return how many classes bear a label that covers neither just their hull nor all values of the plan.

    *points* are the values of the plan's points, in its order; *labels* the one that each class bears, -1 for none.
    The hull of a class is everything from its first value to its last, in the order of the plan.
    """
    n_values, n_labels = len(values), len(cover.labels)
    codes = cover.places(values)
    order = np.argsort(codes, kind="stable")
    # One more label, the last, covers nothing: it is that of unknown texts.
    first = np.full(n_labels + 1, n_values, dtype=np.int64)
    last = np.full(n_labels + 1, -1, dtype=np.int64)
    covered = np.zeros(n_labels + 1, dtype=np.int64)
    owner = np.repeat(np.arange(n_labels, dtype=np.int64), np.diff(cover.start))
    begin, end = (np.searchsorted(codes[order], side) for side in (cover.low, cover.high))
    _spanned(owner, begin, end, order, first, last, covered)
    low = np.full(len(labels), n_values, dtype=np.int64)
    high = np.full(len(labels), -1, dtype=np.int64)
    np.minimum.at(low, class_of, points)
    np.maximum.at(high, class_of, points)
    hull = (first[labels] == low) & (last[labels] == high) & (covered[labels] == high - low + 1)
    return int((~(hull | (covered[labels] == n_values)))[labels >= 0].sum())


@dataclass(frozen=True, slots=True, eq=False)
class AgreedRows:
    """What the published rows say."""

    rows: int
    strange_classes: int  # rows whose class is no number of a class
    strange_values: int  # rows whose sensitive value is none of the plan's
    labels: CodeArray  # (n_classes, n_quasi) label numbers, -1 for classes without rows
    mixed: BoolArray  # (n_classes,) rows of the class bear different labels
    unknown: tuple[str, ...]  # attributes with texts that are no labels
    idle: dict[str, int]  # attribute -> labels that no row has
    keys: KeyArray  # distinct class << 32 | value, ascending
    counts: IntArray  # how often each occurs
    histograms: Histograms


def placed(column: pa.Array, known: pa.Array) -> CodeArray:
    """Return (n_rows,) the place of each value, as text, among the known ones; their number for any other, or none.

    >>> placed(pa.array([34, None, 7]), pa.array(["7", "34"])).tolist()
    [1, 2, 0]
    """
    values, places = coded(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 and 0.0 are one value
    found = pc.index_in(values.cast(pa.string()), value_set=known, skip_nulls=True).fill_null(len(known))
    return np.append(np.asarray(found), len(known)).astype(np.int32)[places]


def read_rows(rows: PublishedRows, manifest: Manifest, plan: Plan, progress: Progress) -> AgreedRows:
    """Read the release once."""
    readers = [LabelReader(attribute) for attribute in manifest.of_role("quasi")]
    numbers = pa.array(np.arange(1, plan.n_classes + 1)).cast(pa.string())

    def prepare(batch: pa.RecordBatch) -> tuple[CodeArray, CodeArray, list[CodeArray]]:
        labels = [reader.read(batch.column(reader.name)) for reader in readers]
        return (
            placed(batch.column(CLASS), numbers),
            placed(batch.column(plan.sensitive), plan.sensitive_values),
            labels,
        )

    n_rows = strange_classes = strange_values = 0
    table = np.full((plan.n_classes, len(readers)), -1, dtype=np.int32)
    mixed = np.zeros(plan.n_classes, dtype=np.bool_)
    sizes = np.zeros(plan.n_classes, dtype=np.int64)
    tally = Tally()
    with progress.step("reading the release", manifest.rows) as step:
        for owner, value, labels in prepared(rows.batches(manifest.columns), prepare):
            n_rows += owner.shape[0]
            known = (owner < plan.n_classes) & (value < len(plan.sensitive_values))
            strange_classes += int((owner == plan.n_classes).sum())
            strange_values += int((value == len(plan.sensitive_values)).sum())
            own = owner[known]
            for place, label in enumerate(labels):
                _note(table[:, place], mixed, own, label[known])
            sizes += np.bincount(own, minlength=plan.n_classes)
            tally.add(paired(own, value[known]))
            step.advance(owner.shape[0])
    keys, counts = tally.result()
    texts = tuple(plan.sensitive_values.to_pylist())
    return AgreedRows(
        rows=n_rows,
        strange_classes=strange_classes,
        strange_values=strange_values,
        labels=table,
        mixed=mixed,
        unknown=tuple(reader.name for reader in readers if reader.met_unknown),
        idle={reader.name: reader.idle for reader in readers if reader.idle},
        keys=keys,
        counts=counts,
        histograms=histograms_of(tally, sizes, texts, len(texts)),
    )


def _note(label_of: CodeArray, mixed: BoolArray, owner: CodeArray, label: CodeArray) -> None:
    """Write down the label of each class where there is none yet, and which classes bear another one too."""
    new = label_of[owner] < 0
    label_of[owner[new]] = label[new]
    mixed[owner[label_of[owner] != label]] = True


@dataclass(frozen=True, slots=True, eq=False)
class AgreedSource:
    """What the source says of the same classes."""

    rows: int
    outside: int  # rows with a value or a combination that the plan does not have
    keys: KeyArray  # distinct class << 32 | value, ascending
    counts: IntArray


def read_source(source: Source, plan: Plan, progress: Progress) -> AgreedSource:
    """Read the source once and look up the class of every row."""
    columns, known = [*plan.quasi, plan.sensitive], [*plan.quasi_values, plan.sensitive_values]
    tally, n_points = Tally(), len(plan.class_of)
    n_rows = outside = 0
    with progress.step("comparing with the source", source.n_rows) as step:
        for codes in prepared(source.batches(columns, dictionary=columns), lambda batch: list(_codes(batch, known))):
            *quasi, value = codes
            point = plan.numbers.ids(quasi)
            inside = (point < n_points) & (value < len(plan.sensitive_values))
            n_rows += point.shape[0]
            outside += int((~inside).sum())
            tally.add(paired(plan.class_of[point[inside]], value[inside]))
            step.advance(point.shape[0])
    return AgreedSource(n_rows, outside, *tally.result())


def _codes(batch: pa.RecordBatch, known: Sequence[pa.Array]) -> Iterator[CodeArray]:
    for column, values in zip(batch.columns, known, strict=True):
        yield placed(column, values)


def misplaced(released: AgreedRows, original: AgreedSource) -> int:
    """Return how many rows of either table have no counterpart with their class and value in the other.

    Half of them, where both tables have as many rows.
    """
    keys = np.unique(np.concatenate([released.keys, original.keys]))
    difference = np.zeros(keys.shape[0], dtype=np.int64)
    difference[np.searchsorted(keys, released.keys)] += released.counts
    difference[np.searchsorted(keys, original.keys)] -= original.counts
    return int(max(difference[difference > 0].sum(), -difference[difference < 0].sum()))

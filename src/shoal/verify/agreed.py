"""Checking releases by an agency's plan: a row says its class in the plan and its sensitive value, nothing more.

Rameshwar and Tandon, "(l,delta)-diversity", and ``docs/adr/0018-agreed-releases.md``. Nothing in the plan is believed
before it fits together; then follow the form of the rows, what every class of the plan shows, and whether it is true.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from shoal.core.arrays import BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.errors import InputError
from shoal.core.kernels import compiled
from shoal.core.progress import Progress
from shoal.manifest import AgreedFile, Digest, Listed, ManifestError, StrictEntry, parse_json, read_entry
from shoal.verify.counting import histograms_of
from shoal.verify.covers import Covers
from shoal.verify.exact import Histograms, entropies, entropy_at_least
from shoal.verify.form import SourceRows, check_dictionaries, check_labels, check_rows, check_source_counts
from shoal.verify.guarantees import agrees
from shoal.verify.kernels import paired
from shoal.verify.manifest import Manifest, demand
from shoal.verify.numbering import LabelReader
from shoal.verify.promises import Promise
from shoal.verify.reading import FAULTS, CsvRows, PublishedRows, coded, prepare_ahead, report_unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.tally import Combinations, Tally

if TYPE_CHECKING:
    from shoal.sources.base import Source

CLASS = "class"
PARAMETER = {"l-delta-diversity": "l", "k-delta-anonymity": "k", "entropy-l-delta-diversity": "l"}  # model -> its own
AGREED = tuple(PARAMETER)
_ROUNDING = Fraction(1, 10**9)  # m is written in floating point
Answer = tuple[list[Check], list[CheckedGuarantee] | None]


def _refuse_repeated(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values):
        raise ValueError("has a value twice")
    return values


Number = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**53)]


class _Attribute(StrictEntry):
    name: Annotated[str, Field(min_length=1)]
    values: Annotated[Listed[str], Field(min_length=1), AfterValidator(_refuse_repeated)]


class _PlanFile(StrictEntry):
    """The plan as it is written."""

    format: Literal[2]
    kind: Literal["shoal-agency-plan"]
    quasi: Annotated[Listed[_Attribute], Field(min_length=1)]
    sensitive: _Attribute
    order: str
    arrangement: str
    promise: dict[str, Any]
    delta: Annotated[float, Field(gt=0, lt=1)]
    p: Annotated[float, Field(gt=0, le=1)]
    eta: Annotated[float, Field(ge=0)]
    n: Positive
    n_tight: Positive
    records: Positive
    m: float
    classes: Annotated[int, Field(ge=1, lt=2**31)]
    points: Listed[Annotated[Listed[Number], Field(min_length=1)]]
    runs: Annotated[Listed[Listed[Number]], Field(min_length=1)]
    values: Listed[Listed[Number]]
    digest: Digest


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A plan that fits together."""

    quasi: tuple[str, ...]
    quasi_values: tuple[pa.Array, ...]
    sensitive: str
    sensitive_values: pa.Array
    model: str
    least: Fraction
    delta: Fraction
    records: int
    n_classes: int
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    class_of: CodeArray  # (n_points,) from 0
    shown: CodeArray  # (n_classes, l) values that every class must show; (n_classes, 0) where none are named
    numbers: Combinations  # the n-th point has the number n; one code more than values stands for unknown ones


def read_plan(path: Path, declared: AgreedFile) -> Plan:
    """Return the plan beside the data, or raise a ManifestError: it is the declared one, unaltered, and sound."""
    demand(path.is_file(), "it cannot be read (no plain file)")  # of a pipe or a device the end may never come
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ManifestError(f"it cannot be read ({type(fault).__name__})") from None
    demand(hashlib.sha256(content).hexdigest() == declared.sha256, "its SHA-256 is not the declared one")
    try:
        raw = parse_json(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ManifestError("it is not UTF-8") from None
    written = read_entry(_PlanFile, raw, "it")
    # The digest is that of everything but the digest, with sorted keys and without blanks.
    rest = {key: value for key, value in dict(raw).items() if key != "digest"}  # type: ignore[call-overload]
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    found = hashlib.sha256(text.encode("ascii")).hexdigest()
    demand(found == written.digest, "it was altered: its digest is not that of its content")
    demand(found == declared.digest, "its digest is not the one that the manifest names")
    demand(written.classes == declared.classes, "it has another number of classes than the manifest says")
    return _fit(written)


def _fit(written: _PlanFile) -> Plan:
    """Return the plan, whose entries fit together, or raise a ManifestError."""
    names = [*(entry.name for entry in written.quasi), written.sensitive.name]
    demand(len(set(names)) == len(names), "it names an attribute twice")
    demand(CLASS not in names, f"it has an attribute called {CLASS!r}")
    demand(written.eta < written.p, "its p and eta are no probabilities that fit together")
    sizes = [len(entry.values) for entry in written.quasi]
    demand(len(written.points) == len(sizes), "it has not a list of points for every quasi attribute")
    points = tuple(np.array(column, dtype=np.int32) for column in written.points)
    n_points, n_classes = len(points[0]), written.classes
    demand(all(len(column) == n_points for column in points), "its points are not of one length")
    known = all(column.max() < size for column, size in zip(points, sizes, strict=True))
    demand(known, "its points have values that it does not list")
    numbers = Combinations([size + 1 for size in sizes])
    numbers.ids(points)
    demand(numbers.count == n_points, "it has a point twice")
    model, least = _read_promise(written)
    return Plan(
        quasi=tuple(entry.name for entry in written.quasi),
        quasi_values=tuple(pa.array(entry.values, pa.string()) for entry in written.quasi),
        sensitive=written.sensitive.name,
        sensitive_values=pa.array(written.sensitive.values, pa.string()),
        model=model,
        least=least,
        delta=Fraction(str(written.delta)),
        records=_check_records(written, model),
        n_classes=n_classes,
        points=points,
        class_of=_read_classes(written, n_points),
        shown=_read_shown(written, int(least) if model == AGREED[0] else 0),
        numbers=numbers,
    )


def _read_classes(written: _PlanFile, n_points: int) -> CodeArray:
    """Return (n_points,) the class of each point, from 0."""
    demand(all(len(run) == 2 for run in written.runs), "its runs are not pairs")
    number, length = np.array(written.runs, dtype=np.int64).T
    demand(
        bool((length >= 1).all()) and int(length.sum()) == n_points, "its runs are not as long as its points are many"
    )
    classes = np.arange(1, written.classes + 1) if written.classes <= n_points else np.zeros(0)
    demand(np.array_equal(np.unique(number), classes), "its runs are not of just its classes")
    return (np.repeat(number, length) - 1).astype(np.int32)


def _read_promise(written: _PlanFile) -> tuple[str, Fraction]:
    model = written.promise.get("model")
    demand(model in AGREED, "it promises what this verifier does not know")
    demand(set(written.promise) == {"model", PARAMETER[str(model)]}, "its promise has other parameters than its model")
    least = written.promise[PARAMETER[str(model)]]
    kinds = (int, float) if model == AGREED[2] else (int,)
    demand(type(least) in kinds, "it promises what is no number, or none that is whole")
    most = 2**53 if model == AGREED[1] else len(written.sensitive.values)
    demand(1 <= least <= most, "it promises less than 1, or more than there are")
    return str(model), Fraction(str(least))


def _check_records(written: _PlanFile, model: str) -> int:
    n, n_tight, m = written.n, written.n_tight, Fraction(str(written.m))
    demand(n_tight <= n and written.records in (n, n_tight), "its n, n_tight and records do not fit together")
    demand(written.classes <= m * (1 + _ROUNDING), "it has more classes than its m")
    own = model == AGREED[0] or (n == n_tight and m == written.classes)
    demand(own, "its n or m are not those of its promise")
    return written.records


def _read_shown(written: _PlanFile, l: int) -> CodeArray:
    if not l:
        demand(not written.values, "it names values of classes and does not promise them")
        return np.empty((written.classes, 0), dtype=np.int32)
    demand(len(written.values) == written.classes, "it has not a list of values for every class")
    demand(all(len(each) == l for each in written.values), "it has not l values for every class")
    values = np.array(written.values, dtype=np.int32)
    demand(int(values.max()) < len(written.sensitive.values), "it names values that it does not list")
    demand(bool((np.diff(values, axis=1) > 0).all()), "it names a value of a class twice, or not in order")
    return values


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
        return [*checks, report_unreadable(fault)], None
    checks += [check_rows(released.rows, manifest), *check_dictionaries(rows)]
    checks.append(check_labels(released.unknown, released.idle))
    checks += [_classes(released), _values(released, plan), _records(released, plan)]
    checks.append(_hulls(released, plan, covers))
    guarantees = [_judge(promise, plan, released) for promise in manifest.promises]
    if source is not None:
        checks += _compare(released, manifest, plan, source, progress)
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
        found = _count_wrong(covers[name], values, plan.points[place], plan.class_of, released.labels[:, place])
        if found:
            wrong[name] = found
    if wrong:
        listed = ", ".join(f"{name} ({number} classes)" for name, number in wrong.items())
        return Check("hulls", False, f"labels are not those around the points of their class: {listed}")
    return Check("hulls", True, "every label is the one around the points of its class")


def _judge(promise: Promise, plan: Plan, released: AgreedRows) -> CheckedGuarantee:
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
    failing, achieved = _reach(plan, released)
    if failing.any():
        return answer(achieved, False, f"{int(failing.sum())} of {plan.n_classes} classes do not keep it")
    if not agrees(promise.claimed, achieved):
        return answer(achieved, False, "the manifest's 'achieved' is not what the rows reach")
    return answer(achieved, True, f"all {plan.n_classes} classes of the plan keep it")


def _reach(plan: Plan, released: AgreedRows) -> tuple[BoolArray, float]:
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


def _compare(released: AgreedRows, manifest: Manifest, plan: Plan, source: Source, progress: Progress) -> list[Check]:
    """Compare with the source: as many records of every class have every value there."""
    absent = [name for name in (*plan.quasi, plan.sensitive) if name not in source.schema.names]
    if absent:
        raise InputError(f"{source.name} lacks {len(absent)} columns of the release: {', '.join(absent)}")
    original = read_source(source, plan, progress)
    checks = [check_source_counts(manifest, released.rows, SourceRows(original.rows, 0))]
    if original.outside:
        checks.append(Check("domain", False, f"{original.outside} source rows are outside the domain of the plan"))
    wrong = count_misplaced(released, original)
    detail = f"{wrong} rows differ from the source in their class or their value"
    right = "every class has just the values that the source has for it"
    return [*checks, Check("truth", not wrong, detail if wrong else right)]


@compiled
def _widen(
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


def _count_wrong(cover: Covers, values: pa.Array, points: CodeArray, class_of: CodeArray, labels: CodeArray) -> int:
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
    _widen(owner, begin, end, order, first, last, covered)
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


def find_places(column: pa.Array, known: pa.Array) -> CodeArray:
    """Return (n_rows,) the place of each value, as text, among the known ones; their number for any other, or none.

    >>> find_places(pa.array([34, None, 7]), pa.array(["7", "34"])).tolist()
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
            find_places(batch.column(CLASS), numbers),
            find_places(batch.column(plan.sensitive), plan.sensitive_values),
            labels,
        )

    n_rows = strange_classes = strange_values = 0
    table = np.full((plan.n_classes, len(readers)), -1, dtype=np.int32)
    mixed = np.zeros(plan.n_classes, dtype=np.bool_)
    sizes = np.zeros(plan.n_classes, dtype=np.int64)
    tally = Tally()
    with progress.step("reading the release", manifest.rows) as step:
        for owner, value, labels in prepare_ahead(rows.batches(manifest.columns), prepare):
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
        for codes in prepare_ahead(
            source.batches(columns, dictionary=columns), lambda batch: list(_codes(batch, known))
        ):
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
        yield find_places(column, values)


def count_misplaced(released: AgreedRows, original: AgreedSource) -> int:
    """Return how many rows of either table have no counterpart with their class and value in the other.

    Half of them, where both tables have as many rows.
    """
    keys = np.unique(np.concatenate([released.keys, original.keys]))
    difference = np.zeros(keys.shape[0], dtype=np.int64)
    difference[np.searchsorted(keys, released.keys)] += released.counts
    difference[np.searchsorted(keys, original.keys)] -= original.counts
    return int(max(difference[difference > 0].sum(), -difference[difference < 0].sum()))

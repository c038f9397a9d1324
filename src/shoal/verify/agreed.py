"""Checking releases by an agency's plan: a row says its class in the plan and its sensitive value, nothing more.

Rameshwar and Tandon, "(l,delta)-diversity", and ``docs/adr/0018-agreed-releases.md``. Nothing in the plan is believed
before it fits together; then follow the form of the rows, what every class of the plan shows, and whether it is true.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.progress import Progress
from shoal.manifest import AgreedFile, Digest, Listed, ManifestError, StrictEntry, parse_json, read_entry
from shoal.verify import form
from shoal.verify.boxes import find_unmet
from shoal.verify.covers import Covers
from shoal.verify.exact import entropies, entropy_at_least
from shoal.verify.guarantees import agrees
from shoal.verify.manifest import Manifest, demand
from shoal.verify.numbering import LabelReader, Numbering, Tally, histograms_of, pair
from shoal.verify.order import are_sampled, check_order
from shoal.verify.promises import Promise
from shoal.verify.reading import FAULTS, CsvRows, PublishedRows, encode, prepare_ahead, report_unreadable
from shoal.verify.result import Check, CheckedGuarantee

if TYPE_CHECKING:
    from shoal.sources.base import Source

CLASS = "class"
PARAMETER = {"l-delta-diversity": "l", "k-delta-anonymity": "k", "entropy-l-delta-diversity": "l"}  # model -> its own
AGREED = tuple(PARAMETER)
_ROUNDING = Fraction(1, 10**9)  # m is written in floating point
_HALF = np.uint64(32)  # bits of a value in a key


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
    numbers: Numbering  # the n-th point has the number n; one code more than values stands for unknown ones


def read_plan(path: Path, declared: AgreedFile) -> Plan:
    """Return the plan beside the data, or raise a ManifestError: it is the declared one, unaltered, and sound."""
    demand(path.is_file(), "it cannot be read (no plain file)")  # of a pipe or a device the end may never come
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise ManifestError(f"it cannot be read ({type(fault).__name__})") from None
    demand(hashlib.sha256(content).hexdigest() == declared.sha256, "its SHA-256 is not the declared one")
    plan, digest = parse_plan(content)
    demand(digest == declared.digest, "its digest is not the one that the manifest names")
    demand(plan.n_classes == declared.classes, "it has another number of classes than the manifest says")
    return plan


def parse_plan(content: bytes) -> tuple[Plan, str]:
    """Return a plan as it is written, and its digest, or raise a ManifestError: it is unaltered, and sound."""
    try:
        raw = parse_json(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ManifestError("it is not UTF-8") from None
    written = read_entry(_PlanFile, raw, "it")
    # The digest is that of everything but the digest, with sorted keys and without blanks.
    rest = {key: value for key, value in raw.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    found = hashlib.sha256(text.encode("ascii")).hexdigest()
    demand(found == written.digest, "it was altered: its digest is not that of its content")
    return _fit(written), found


def _fit(written: _PlanFile) -> Plan:
    """Return the plan, whose entries fit together, or raise a ManifestError."""
    quasi, sensitive = tuple(entry.name for entry in written.quasi), written.sensitive
    demand(len({*quasi, sensitive.name}) == len(quasi) + 1, "it names an attribute twice")
    demand(CLASS not in (*quasi, sensitive.name), f"it has an attribute called {CLASS!r}")
    demand(written.eta < written.p, "its p and eta are no probabilities that fit together")
    # points: every combination of quasi values that the plan knows
    sizes = [len(entry.values) for entry in written.quasi]
    demand(len(written.points) == len(sizes), "it has not a list of points for every quasi attribute")
    points = tuple(np.array(column, dtype=np.int32) for column in written.points)
    demand(len({len(column) for column in points}) == 1, "its points are not of one length")
    known = all(column.max() < size for column, size in zip(points, sizes, strict=True))
    demand(known, "its points have values that it does not list")
    numbers = Numbering(len(sizes))
    numbers.ids(points)
    demand(numbers.count == len(points[0]), "it has a point twice")
    # runs: so many points after the other are in the class of that number
    demand(all(len(run) == 2 for run in written.runs), "its runs are not pairs")
    number, length = np.array(written.runs, dtype=np.int64).T
    lasting = bool((length >= 1).all()) and int(length.sum()) == len(points[0])
    demand(lasting, "its runs are not as long as its points are many")
    classes = np.arange(1, written.classes + 1) if written.classes <= len(points[0]) else np.zeros(0)
    demand(np.array_equal(np.unique(number), classes), "its runs are not of just its classes")
    model, least = _read_promise(written)
    return Plan(
        quasi=quasi,
        quasi_values=tuple(pa.array(entry.values, pa.string()) for entry in written.quasi),
        sensitive=sensitive.name,
        sensitive_values=pa.array(sensitive.values, pa.string()),
        model=model,
        least=least,
        delta=Fraction(str(written.delta)),
        records=written.records,
        n_classes=written.classes,
        points=points,
        class_of=(np.repeat(number, length) - 1).astype(np.int32),
        shown=_read_shown(written, int(least) if model == AGREED[0] else 0),
        numbers=numbers,
    )


def _read_promise(written: _PlanFile) -> tuple[str, Fraction]:
    """Return the model of the plan and its parameter; the numbers that were computed for it fit to it."""
    model = written.promise.get("model")
    demand(model in AGREED, "it promises what this verifier does not know")
    demand(set(written.promise) == {"model", PARAMETER[str(model)]}, "its promise has other parameters than its model")
    least = written.promise[PARAMETER[str(model)]]
    kinds = (int, float) if model == AGREED[2] else (int,)
    demand(type(least) in kinds, "it promises what is no number, or none that is whole")
    most = 2**53 if model == AGREED[1] else len(written.sensitive.values)
    demand(1 <= least <= most, "it promises less than 1, or more than there are")
    n, n_tight, m = written.n, written.n_tight, Fraction(str(written.m))
    demand(n_tight <= n and written.records in (n, n_tight), "its n, n_tight and records do not fit together")
    demand(written.classes <= m * (1 + _ROUNDING), "it has more classes than its m")
    own = model == AGREED[0] or (n == n_tight and m == written.classes)
    demand(own, "its n or m are not those of its promise")
    return str(model), Fraction(str(least))


def _read_shown(written: _PlanFile, l: int) -> CodeArray:
    """Return (n_classes, l) the values that every class must show."""
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
) -> form.Answer:
    """Return checks and promises of a release by a plan; no promises if its form does not let them be judged."""
    numbered = isinstance(rows, CsvRows) or pa.types.is_integer(rows.schema.field(CLASS).type)
    checks = [
        Check.of("attributes", _find_stranger(manifest, plan), "the attributes and their roles are those of the plan"),
        Check.of("class column", not numbered and "the classes are not whole numbers", "the classes are numbers"),
    ]
    if not all(check.ok for check in checks):
        return form.Answer(checks)
    try:
        released = _read_rows(rows, manifest, plan, progress)
    except FAULTS as fault:
        return form.Answer([*checks, report_unreadable(fault)])
    n_rows, strange = released.rows, released.strange_values
    verb = "are enough for" if n_rows >= plan.records else "are fewer than"
    checks += [
        form.check_rows(n_rows, manifest),
        *form.check_dictionaries(rows),
        form.check_labels(manifest, released.shown),
        _check_classes(released),
        Check.of(
            "values",
            strange and f"{strange} rows have a value of {plan.sensitive} that the plan does not know, or none",
            f"every value of {plan.sensitive} is one of the plan's",
        ),
        Check("records", n_rows >= plan.records, f"{n_rows} records {verb} the plan's {plan.records}"),
        _check_hulls(released, plan, covers),
    ]
    guarantees = [_judge(promise, plan, released) for promise in manifest.promises]
    if source is not None:
        checks += _compare(released, manifest, plan, source, progress)
    return form.Answer(checks, guarantees, released.shown)


def _find_stranger(manifest: Manifest, plan: Plan) -> str | None:
    """Return a fault unless the attributes are those of the plan, in its order and in its roles."""
    (part,) = manifest.parts
    roles = [attribute.role for attribute in manifest.attributes]
    if part != (*plan.quasi, plan.sensitive) or roles != ["quasi"] * len(plan.quasi) + ["sensitive"]:
        return "the attributes and their roles are not those of the plan"
    return "the sensitive attribute has labels, and not its own values" if manifest.attributes[-1].boxed else None


@dataclass(slots=True, eq=False)
class AgreedRows:
    """What the published rows say."""

    shown: dict[str, IntArray]  # how many rows have each label
    labels: CodeArray  # (n_classes, n_quasi) label numbers, -1 for classes without rows
    mixed: BoolArray  # (n_classes,) rows of the class bear different labels
    tally: Tally  # of class << 32 | value
    rows: int = 0
    strange_classes: int = 0  # rows whose class is no number of a class
    strange_values: int = 0  # rows whose sensitive value is none of the plan's
    tokens: list[KeyArray] = field(default_factory=list)  # of the tally, in the order of the rows

    def note(self, owner: CodeArray, labels: list[CodeArray]) -> None:
        """Write down the labels of each class where there are none yet, and which classes bear others too."""
        for place, label in enumerate(labels):
            label_of = self.labels[:, place]
            new = label_of[owner] < 0
            label_of[owner[new]] = label[new]
            self.mixed[owner[label_of[owner] != label]] = True


def _read_rows(rows: PublishedRows, manifest: Manifest, plan: Plan, progress: Progress) -> AgreedRows:
    """Read the release once."""
    readers = [LabelReader(attribute) for attribute in manifest.of_role("quasi")]
    numbers = pa.array(np.arange(1, plan.n_classes + 1)).cast(pa.string())
    labels = np.full((plan.n_classes, len(readers)), -1, dtype=np.int32)
    shown = {reader.name: np.zeros(reader.radix, dtype=np.int64) for reader in readers}
    found = AgreedRows(shown, labels, np.zeros(plan.n_classes, dtype=np.bool_), Tally())

    def prepare(batch: pa.RecordBatch) -> tuple[CodeArray, CodeArray, list[CodeArray]]:
        owner = find_places(batch.column(CLASS), numbers)
        value = find_places(batch.column(plan.sensitive), plan.sensitive_values)
        return owner, value, [reader.read(batch.column(reader.name)) for reader in readers]

    with progress.step("reading the release", manifest.rows) as step:
        for owner, value, read in prepare_ahead(rows.batches(manifest.columns), prepare):
            inside, known = owner < plan.n_classes, value < len(plan.sensitive_values)
            both = inside & known
            found.rows += len(owner)
            found.strange_classes += int((~inside).sum())
            found.strange_values += int((~known).sum())
            found.note(owner[both], [label[both] for label in read])
            for reader, label in zip(readers, read, strict=True):
                shown[reader.name] += reader.count(label)
            keys = pair(owner[both], value[both])
            found.tally.add(keys)
            found.tokens.append(keys[are_sampled(keys, manifest.rows)])
            step.advance(len(owner))
    return found


def find_places(column: pa.Array, known: pa.Array) -> CodeArray:
    """Return (n_rows,) the place of each value, as text, among the known ones; their number for any other, or none.

    >>> find_places(pa.array([34, None, 7]), pa.array(["7", "34"])).tolist()
    [1, 2, 0]
    """
    values, places = encode(column)
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 and 0.0 are one value
    found = pc.index_in(values.cast(pa.string()), value_set=known, skip_nulls=True).fill_null(len(known))
    return np.append(np.asarray(found), len(known)).astype(np.int32)[places]


def _check_classes(released: AgreedRows) -> Check:
    fault = released.mixed.any() and f"rows of {int(released.mixed.sum())} classes bear different labels"
    if released.strange_classes:
        fault = f"{released.strange_classes} rows have no number of a class of the plan"
    return Check.of("classes", fault, "every row is in a class of the plan, and rows of a class bear the same labels")


def _check_hulls(released: AgreedRows, plan: Plan, covers: Mapping[str, Covers]) -> Check:
    wrong = []
    for place, (name, values) in enumerate(zip(plan.quasi, plan.quasi_values, strict=True)):
        found = _count_wrong(covers[name], values, plan.points[place], plan.class_of, released.labels[:, place])
        if found:
            wrong.append(f"{name} ({found} classes)")
    fault = wrong and f"labels are not those around the points of their class: {', '.join(wrong)}"
    return Check.of("hulls", fault, "every label is the one around the points of its class")


def _count_wrong(cover: Covers, values: pa.Array, points: CodeArray, class_of: CodeArray, labels: CodeArray) -> int:
    """Return how many classes bear a label that covers neither just their hull nor all values of the plan.

    *points* are the values of the plan's points, in its order; *labels* the one that each class bears, -1 for none.
    The hull of a class is everything from its first value to its last, in the order of the plan.
    """
    n_values, n_labels = len(values), len(cover.labels)
    codes = cover.places(values)
    order = np.argsort(codes, kind="stable")
    # (n_pieces,) each range of a label covers values begin to end in the order of codes
    owner = np.repeat(np.arange(n_labels), np.diff(cover.start))
    begin, end = (np.searchsorted(codes[order], side) for side in (cover.low, cover.high))
    times = end - begin
    covering = np.repeat(owner, times)
    covered = order[np.arange(times.sum()) + np.repeat(begin - np.cumsum(times) + times, times)]
    # One more label, the last, covers nothing: it is that of unknown texts.
    first, last = _find_ends(covering, covered, n_labels + 1, n_values)
    low, high = _find_ends(class_of, points, len(labels), n_values)
    total = np.bincount(covering, minlength=n_labels + 1)[labels]
    hull = (first[labels] == low) & (last[labels] == high) & (total == high - low + 1)
    return int((~(hull | (total == n_values)))[labels >= 0].sum())


def _find_ends(owner: AnyIntArray, values: AnyIntArray, n: int, n_values: int) -> tuple[IntArray, IntArray]:
    """Return (n,) the first and the last value of each owner."""
    first, last = np.full(n, n_values, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    np.minimum.at(first, owner, values)
    np.maximum.at(last, owner, values)
    return first, last


def _judge(promise: Promise, plan: Plan, released: AgreedRows) -> CheckedGuarantee:
    """Return the promise beside what the classes of the plan keep; in doubt it does not hold."""

    def answer(achieved: float | None, ok: bool, detail: str) -> CheckedGuarantee:
        return CheckedGuarantee(promise.model, promise.parameters, promise.claimed, achieved, ok, detail)

    if promise.obstacle:
        return answer(None, False, promise.obstacle)
    asked = promise.model, promise.fraction(PARAMETER[promise.model]), promise.fraction("delta")
    if asked != (plan.model, plan.least, plan.delta):
        return answer(None, False, "it is not what the plan promises")
    achieved, fault = judge_counts(plan, released.tally)
    if achieved is None or fault:
        return answer(achieved, False, fault)
    if not agrees(promise.claimed, achieved):
        return answer(achieved, False, "the manifest's 'achieved' is not what the rows reach")
    return answer(achieved, True, f"all {plan.n_classes} classes of the plan keep it")


def judge_counts(plan: Plan, tally: Tally) -> tuple[float | None, str]:
    """Return what the weakest class reaches by its counts of values, and what is wrong; "" if the promise is kept."""
    keys, counts = tally.result()
    sizes = np.bincount((keys >> _HALF).astype(np.int64), counts, plan.n_classes).astype(np.int64)
    if empty := int((sizes == 0).sum()):
        return None, f"{empty} of {plan.n_classes} classes of the plan have no record"
    texts = tuple(plan.sensitive_values.to_pylist())
    classes = histograms_of(tally, sizes, texts, len(texts))
    if plan.model == AGREED[0]:
        wanted = (np.arange(plan.n_classes, dtype=np.uint64)[:, np.newaxis] << _HALF) | plan.shown.astype(np.uint64)
        kept, reached = np.isin(wanted, keys).all(axis=1), np.diff(classes.start)
    elif plan.model == AGREED[1]:
        kept, reached = sizes >= int(plan.least), sizes
    else:
        kept, reached = entropy_at_least(classes, plan.least), np.exp(entropies(classes))
    fault = "" if kept.all() else f"{int((~kept).sum())} of {plan.n_classes} classes do not keep it"
    return float(reached.min()), fault


def _compare(
    released: AgreedRows, manifest: Manifest, plan: Plan, source: Source, progress: Progress
) -> Iterator[Check]:
    """Compare with the source: as many records of every class have every value there."""
    columns, known = [*plan.quasi, plan.sensitive], [*plan.quasi_values, plan.sensitive_values]
    form.demand_columns(source, columns)
    tally, n_rows, outside = Tally(), 0, 0
    tokens: list[KeyArray] = []

    def prepare(batch: pa.RecordBatch) -> list[CodeArray]:
        return [find_places(column, values) for column, values in zip(batch.columns, known, strict=True)]

    with progress.step("comparing with the source", source.n_rows) as step:
        for *quasi, value in prepare_ahead(source.batches(columns, dictionary=columns), prepare):
            point = plan.numbers.ids(quasi)
            inside = (point < len(plan.class_of)) & (value < len(plan.sensitive_values))
            n_rows += len(point)
            outside += int((~inside).sum())
            keys = pair(plan.class_of[point[inside]], value[inside])
            tally.add(keys)
            tokens.append(keys[are_sampled(keys, manifest.rows)])
            step.advance(len(point))
    yield form.check_source_counts(manifest, released.rows, form.SourceRows(n_rows, 0))
    if outside:
        yield Check("domain", False, f"{outside} source rows are outside the domain of the plan")
    mine, theirs = released.tally.result(), tally.result()
    # Rows of either table that have no counterpart with their class and value in the other.
    wrong = max(int(find_unmet(*mine, *theirs).sum()), int(find_unmet(*theirs, *mine).sum()))
    fault = wrong and f"{wrong} rows differ from the source in their class or their value"
    yield Check.of("truth", fault, "every class has just the values that the source has for it")
    yield check_order(released.tokens, tokens)

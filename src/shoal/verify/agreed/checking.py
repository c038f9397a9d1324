"""The verification of a release by a plan: its form, what every class of the plan shows, and whether it is true."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.arrays import BoolArray
from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.agreed.hulls import wrong_hulls
from shoal.verify.agreed.plan import CLASS, Plan
from shoal.verify.agreed.rows import AgreedRows, misplaced, read_rows, read_source
from shoal.verify.counts import SourceRows, source_counts
from shoal.verify.covers import Covers
from shoal.verify.exact import entropies, entropy_at_least
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.guarantees import agrees
from shoal.verify.manifest import Manifest
from shoal.verify.promises import AGREED, PARAMETER, Promise
from shoal.verify.reading import FAULTS, CsvRows, PublishedRows, unreadable
from shoal.verify.result import Check, CheckedGuarantee

if TYPE_CHECKING:
    from shoal.sources import Source

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

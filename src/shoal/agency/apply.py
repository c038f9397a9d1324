"""The owner's side: assign records to the classes of an agency's plan, and publish the release if all hold."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field

from shoal.anonymize.opening import Options, same_format
from shoal.anonymize.run import run
from shoal.columns.sampling import refuse_nobody
from shoal.core.arrays import BoolArray, CodeArray
from shoal.core.dictionaries import MISSING_CODE, encode_columns
from shoal.core.errors import InputError, UnreachableError, UsageError, did_you_mean
from shoal.core.progress import Progress, Silent
from shoal.core.wording import count_noun
from shoal.engines.local import CountedCells
from shoal.linking.ledger.records import Ledgered, ledger_options
from shoal.methods.base import Method
from shoal.plan.judging import judge_plan
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem
from shoal.policy.policy import AttributePolicy, Policy, Role
from shoal.release.forms import agreed as plans
from shoal.release.release import CLASS, Release
from shoal.sources.base import Source, SourceOptions
from shoal.sources.opening import open_source
from shoal.sources.writers import Format
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.construct import from_levels, scale_of
from shoal.taxonomies.scales import Categories, Numbers, index_in
from shoal.taxonomies.tree import Scale, Taxonomy

_EXACT = 2**53  # floating point cannot distinguish larger integers
MOST_LISTED = 1_000_000  # values in all labels of an attribute together


@dataclass(frozen=True, slots=True, eq=False)
class _NumbersByText(Numbers):
    """Numbers that are compared with the plan's values as text."""

    texts: pa.Array = field(kw_only=True)

    def locate(self, values: pa.Array) -> CodeArray:
        return index_in(values, self.texts)


class AgreedValues(TaxonomyBuilder):
    """The values of a plan in its order, each a leaf directly below the root.

    >>> AgreedValues(values=("9", "10", "40")).build(pa.array([])).label(0, 2)
    '[9, 10]'
    """

    name: ClassVar[str] = "agreed"
    title: ClassVar[str] = "the values of an agency's plan"

    values: tuple[str, ...]

    def build(self, values: pa.Array) -> Taxonomy:  # noqa: ARG002
        return from_levels(list(self.values), [], _make_scale(self.values), declared=True)


def _make_scale(values: tuple[str, ...]) -> Scale:
    scale = scale_of(values)
    if not isinstance(scale, Numbers):
        return scale
    if np.abs(scale.starts[[0, -1]]).max() >= _EXACT:
        return Categories(pa.array(values, pa.string()))
    copied = {each.name: getattr(scale, each.name) for each in fields(Numbers)}
    return _NumbersByText(**copied, texts=pa.array(values, pa.string()))


def find_hulls(agreed: plans.AgreedPlan) -> tuple[CodeArray, CodeArray]:
    """Return (n_classes, n_quasi) the first value of each class and the one after its last, from the plan alone.

    Labels of categories list their values. To limit these lists, the widest are widened to the whole domain.
    """
    shape = agreed.classes, len(agreed.quasi)
    lo, hi = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    for place, (column, values) in enumerate(zip(agreed.points, agreed.quasi_values, strict=True)):
        first = np.full(agreed.classes, len(values), dtype=np.int32)
        last = np.zeros(agreed.classes, dtype=np.int32)
        np.minimum.at(first, agreed.number, column)
        np.maximum.at(last, agreed.number, column)
        if _make_scale(values).kind == "category":
            first, last = _widen(first, last, len(values))
        lo[:, place], hi[:, place] = first, last + 1
    return lo, hi


def _widen(first: CodeArray, last: CodeArray, n_values: int) -> tuple[CodeArray, CodeArray]:
    """Widen the widest ranges to all values until the distinct ranges list few enough values."""
    distinct, which = np.unique(first.astype(np.int64) * n_values + last, return_inverse=True)
    width = distinct % n_values - distinct // n_values + 1
    order = np.argsort(width, kind="stable")
    widened = np.zeros(len(distinct), dtype=np.bool_)
    widened[order] = np.cumsum(width[order]) > MOST_LISTED
    wide = widened[which.reshape(-1)]
    return np.where(wide, 0, first).astype(np.int32), np.where(wide, n_values - 1, last).astype(np.int32)


def refuse_outside(agreed: plans.AgreedPlan, counted: CountedCells, name: str) -> None:
    """Raise if records have missing values or values outside the plan; the message counts them by column."""
    outside = []
    names = (*agreed.quasi, agreed.sensitive)
    for attribute, known in zip(names, (*agreed.quasi_values, agreed.sensitive_values), strict=True):
        column = counted.columns.index(attribute)
        records = np.bincount(counted.codes(column), weights=counted.run.counts).astype(np.int64)
        values, used = counted.in_use(column)
        strange = index_in(values, pa.array(known, pa.string())) < 0
        parts = []
        if many := int(strange.sum()):
            share = int(records[np.flatnonzero(used[1:])[strange] + 1].sum())
            parts.append(f"{count_noun(share, 'record')} with {count_noun(many, 'value')} outside the plan")
        if used[0]:
            parts.append(f"{count_noun(int(records[0]), 'record')} without a value")
        if parts:
            outside.append(f"column {attribute!r}: {' and '.join(parts)}")
    if outside:
        raise InputError(
            f"{name} has records outside the agreed domain: {'; '.join(outside)}. Correct them, or ask the agency for "
            "a plan with a larger domain; nothing was published"
        )


class AgreedClasses(Method):
    """Every record goes to the plan's class for its quasi values, or the release is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: ClassVar[str] = "agreed"
    title: ClassVar[str] = "the classes of an agency's plan"
    form: ClassVar[str] = "agreed"

    agreed: plans.AgreedPlan = Field(exclude=True, description="the plan")
    people: int | None = Field(
        default=None, exclude=True, repr=False, description="people that a column identifies; None: not counted"
    )

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:  # noqa: ARG002
        """Find the class of each cell; raise if records are too few or a class breaks the promise."""
        agreed, counts = self.agreed, problem.cells.counts
        class_of = agreed.locate([codes.astype(np.int64) for codes in problem.quasi_codes])
        if len(outside := np.flatnonzero(class_of < 0)):
            combined = np.unique(np.stack([codes[outside] for codes in problem.quasi_codes]), axis=1).shape[1]
            raise InputError(
                f"{count_noun(int(counts[outside].sum()), 'record')} outside the agreed domain: the plan lacks "
                f"{count_noun(combined, 'combination')} of the values of {', '.join(map(repr, agreed.quasi))}. Correct "
                "them, or ask the agency for a plan with a larger domain; nothing was published"
            )
        records = int(counts.sum())
        of_people = "" if self.people is None else f" of {self.people:,} people"
        missing = agreed.records - (records if self.people is None else self.people)
        if missing > 0:
            raise UnreachableError(
                f"there {'is 1 record' if records == 1 else f'are {records:,} records'}{of_people}, and the plan asks "
                f"for {agreed.records:,}{' people' if of_people else ''}: {missing:,} "
                f"{'is' if missing == 1 else 'are'} missing. Nothing was published; wait until there are enough"
            )
        lo, hi = find_hulls(agreed)
        plan = Plan.of_cells(lo, hi, class_of, counts)
        failing, what = self._find_failing(problem, plan, class_of)
        if failing.any():  # an event with a probability of at most delta
            raise UnreachableError(
                f"in {int(failing.sum()):,} of {agreed.classes:,} classes {what}. This had a "
                f"probability of at most delta = {agreed.delta:g} if the records are independent and the agency's "
                "distribution is right. Nothing was published; wait for more records"
            )
        return plan

    def _find_failing(self, problem: Problem, plan: Plan, class_of: CodeArray) -> tuple[BoolArray, str]:
        """Return (n_classes,) which classes break the promise, and how."""
        agreed, least = self.agreed, self.agreed.promise.least
        if agreed.promise.model == plans.L_DIVERSITY:  # a class must show all its values in the plan
            n_values = len(agreed.sensitive_values)
            shown = np.unique(class_of.astype(np.int64) * n_values + np.asarray(problem.cells.codes[-1]))
            wanted = np.arange(agreed.classes, dtype=np.int64)[:, np.newaxis] * n_values + agreed.values
            hidden = ~np.isin(wanted, shown)
            what = f"values that the plan names are absent, {int(hidden.sum()):,} in all"
            return np.logical_or.reduce(hidden, axis=1), what
        if agreed.promise.model == plans.K_ANONYMITY:
            missing = np.maximum(least - plan.sizes, 0)
            what = f"there are fewer than {least:,} records; {int(missing.sum()):,} are missing in all"
            return missing > 0, what
        what = f"values are less uncertain than {least:g} equally frequent ones"
        empty: BoolArray = plan.sizes == 0
        if empty.any():
            return empty, what
        holding = [requirement.model.holds(classes, whole) for requirement, classes, whole in judge_plan(problem, plan)]
        return ~np.concatenate(holding), what


def apply_plan(
    plan: str | Path,
    data: object,
    out: str | Path,
    *,
    format: Format | None = None,  # noqa: A002
    seed: int | None = None,
    progress: Progress | None = None,
    ledger: Ledgered = None,
    unit: str | None = None,
    strict: bool = False,
) -> Release:
    """Publish a table by an agency's plan and verify that every class satisfies its promise.

    Values are compared as text: 34 equals "34" in a column of any type. Columns outside the plan are not published
    (``evidence["left_out"]``). Values and combinations outside the plan raise ``InputError``; too few records, and
    classes that break the promise, raise ``UnreachableError``; both leave no files. If *unit* names the column that
    identifies people, the plan's number of records counts people. If *strict*, open high findings prevent publication.
    A *ledger* is as in :func:`shoal.anonymize`.
    """
    path = Path(plan)
    content = plans.read_plan_file(path)
    agreed = plans.parse_plan(content, path.name)
    source = open_source(data)
    left_out = _find_unknown_columns(agreed, source, path.name)
    people = None if unit is None else count_people(source, unit)
    own = {"agreed": agreed, "plan_file": content, "left_out": left_out, "people": people}
    return run(
        source,
        make_policy(agreed, left_out, people),
        Options(
            out=Path(out),
            format=format or same_format(data),
            seed=seed,
            ledger=ledger_options(ledger),
            strict=strict,
            admit=partial(refuse_outside, agreed, name=source.name),
            publish=partial(plans.publish_agreed, own),
        ),
        progress or Silent(),
    )


def count_people(source: Source, column: str) -> int:
    """Return the number of people that a column identifies; records without an identifier are an error."""
    if column not in source.schema.names:
        hint = did_you_mean(column, source.schema.names)
        raise UsageError(f"--unit: column {column!r} is not in {source.name}{hint}")
    _, (owner,) = encode_columns(source.batches([column], dictionary=[column]))
    refuse_nobody(column, int((owner == MISSING_CODE).sum()))
    return len(np.unique(owner))


def make_policy(agreed: plans.AgreedPlan, left_out: tuple[str, ...] = (), people: int | None = None) -> Policy:
    """Return the policy for a plan; other columns are treated as identifiers, which are never published."""

    def attribute(role: Role, values: tuple[str, ...]) -> AttributePolicy:
        return AttributePolicy(role, AgreedValues(values=values))

    quasi = {name: attribute("quasi", values) for name, values in zip(agreed.quasi, agreed.quasi_values, strict=True)}
    return Policy(
        attributes={
            **quasi,
            agreed.sensitive: attribute("sensitive", agreed.sensitive_values),
            **{name: AttributePolicy("identifier") for name in left_out},
        },
        privacy=(plans.make_model(agreed),),
        method=AgreedClasses(agreed=agreed, people=people),
        missing="category",
        max_withheld=0.0,
        source=SourceOptions(),
        document={"agreed": {"digest": agreed.digest, **agreed.promise.document(), "delta": agreed.delta}},
        folder=Path(),
    )


def _find_unknown_columns(agreed: plans.AgreedPlan, source: Source, plan: str) -> tuple[str, ...]:
    """Return the columns outside the plan; raise if the source lacks a column of the plan."""
    names, columns = (*agreed.quasi, agreed.sensitive), source.schema.names
    if CLASS in names:
        raise InputError(
            f"{plan} has an attribute {CLASS!r}, the name of the column of class numbers; ask the agency to rename it"
        )
    absent = [f"column {name!r}{did_you_mean(name, columns)}" for name in names if name not in columns]
    if absent:
        raise InputError(f"{source.name} lacks columns of the plan: {', '.join(absent)}; nothing was published")
    return tuple(name for name in columns if name not in names)

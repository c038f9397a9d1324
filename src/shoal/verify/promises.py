"""The guarantees of a manifest: the privacy models that they name, and how the classes of a release do by them.

A model is its parameters and a statement in SQL over the counts of equivalence classes. Models of sizes are here,
models of values in ``statements.py``. Another package that adds a privacy model registers a ``Model`` under the model's
name in the entry point group ``shoal.promises``. A model without a statement is never confirmed, so its releases are
not published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field, create_model

from shoal.core.wording import count_noun
from shoal.manifest import Attribute, ManifestError, Positive, StrictEntry, read_entry
from shoal.verify.engine import CannotCheckError, Engine
from shoal.verify.result import CheckedGuarantee

GROUP = "shoal.promises"  # of entry points
K = Annotated[int, Field(ge=1, lt=2**53)]
FROM_1 = Annotated[float, Field(ge=1)]
PART = Annotated[float, Field(gt=0, le=1)]
NAME = Annotated[str, Field(min_length=1)]
_UNIT = Annotated[float, Field(ge=0, le=1)]
_AGREES = 1e-9
ROUNDING = "1e-12"  # of sums of shares
Subject: TypeAlias = tuple[str, ...]  # a sensitive attribute, or several whose joint values are judged


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee of the manifest; ``obstacle`` says why it cannot be checked at all."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    subjects: tuple[Subject, ...] = ()
    obstacle: str | None = None
    counts: str | None = None  # the people that it is about: a unit or a household; None: records

    @property
    def kind(self) -> Model:
        """The privacy model; an unknown model has no statement."""
        return find_model(self.model) or Model({}, about="sizes")

    def fraction(self, name: str) -> Fraction:
        """Return a parameter as the decimal number that is written in the manifest."""
        return Fraction(str(self.parameters[name]))

    def whole(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self.parameters[name])


class Counts(NamedTuple):
    """A table with a row for each class and value: columns class, n (its records), value, c (those with the value).

    For a model of sizes the table has class and n only; for a model of populations it has class, n and covered.
    """

    table: str
    attribute: Attribute | None = None  # None for joint values of several attributes
    total: str = "(SELECT sum(n) FROM classes)"  # records of the release
    whole: str | None = None  # a relation of value, whole and total: its records in the release; None: from the table
    shares: bool = False  # whether c are shares in floating point and n is 1
    several: bool = False  # whether people are counted, who may have several values


class Answer(NamedTuple):
    """How classes do by a model: in SQL, over a relation with the column class and one or more rows for each class."""

    achieved: str  # an aggregate over the relation: the figure that the worst class reaches
    each: str  # a condition on a row; NULL if SQL does not decide it
    relation: str
    exact: str | None = None  # a query of the classes with their counts, by which undecided ones are settled
    doubt: str = "its frequencies are too fine to be compared exactly"  # why SQL may not decide


Statement: TypeAlias = Callable[[Promise, Counts], Answer]


@dataclass(frozen=True, slots=True)
class Model:
    """A privacy model as the verifier has it.

    *parameters* are types, as pydantic has them, and defaults; ``...``: must be given.
    """

    parameters: Mapping[str, tuple[Any, Any]]
    statement: Statement | None = None
    about: Literal["values", "sizes", "table", "population", "parts", "plan"] = "values"  # table: all classes together
    worst: Callable[..., float] = max  # of the figures of several classes
    mixes: bool = True  # whether mixtures of classes that satisfy it do, too; only then can sliced releases promise it
    labels: bool = False  # whether it may be about labels, by the frequencies that they induce
    demands: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = field(default=())  # of all parameters
    settle: Callable[[Promise, Mapping[str, Any]], bool] | None = None  # decides a class that SQL does not, exactly


def at_most(
    counts: Counts, top: str, bottom: str, limit: Fraction, *, strict: bool = False, share: bool = False
) -> str:
    """Return whether top / bottom <= limit: in whole numbers or, of shares, if it is clearly below."""
    if counts.shares:
        return "true" if share and limit >= 1 else f"{top} + {ROUNDING} <= {bottom} * {float(limit) * (1 - 1e-9)!r}"
    return f"{top} * {limit.denominator} {'<' if strict else '<='} {bottom} * {limit.numerator}"


def _count_records(promise: Promise, counts: Counts) -> Answer:
    return Answer("min(n)", f"n >= {promise.whole('k')}", counts.table)


def _count_population(promise: Promise, counts: Counts) -> Answer:
    return Answer("min(covered)", f"covered >= {promise.whole('k')}", counts.table)


def _limit_profit(promise: Promise, counts: Counts) -> Answer:
    gain, cost = promise.fraction("gain"), promise.fraction("cost")
    each = f"{gain.numerator * cost.denominator} <= n * {cost.numerator * gain.denominator}"
    return Answer(f"{float(gain)!r} / min(n)", each, counts.table)


def _limit_classes(classes: str, limit: str) -> Statement:
    """Return the statement that such classes are at most a share of the records."""

    def state(promise: Promise, counts: Counts) -> Answer:
        together = f"(SELECT 0 AS class, {classes} AS kinds, sum(n) AS records FROM {counts.table})"
        return Answer("max(kinds / records)", at_most(counts, "kinds", "records", promise.fraction(limit)), together)

    return state


def _limit_presence(promise: Promise, counts: Counts) -> Answer:
    each = f"covered > 0 AND {at_most(counts, 'n', 'covered', promise.fraction('max'))}"
    if (low := promise.fraction("min")) > 0:
        each += f" AND {at_most(counts, 'covered', 'n', 1 / low)}"
    return Answer("max(CASE WHEN covered > 0 THEN n / covered ELSE 'inf'::DOUBLE END)", each, counts.table)


_IN_ORDER = (lambda given: given["min"] <= given["max"], "'min' is greater than 'max'")
_PRESENCE = {"min": (_UNIT, 0), "max": (_UNIT, ...), "population": (NAME, ...)}
_SHARE = Annotated[float, Field(ge=0, lt=1)]
SIZES: Mapping[str, Model] = {
    "k-anonymity": Model({"k": (K, ...)}, _count_records, "sizes", min),
    "profitability": Model({"gain": (Positive, ...), "cost": (Positive, ...)}, _limit_profit, "sizes"),
    "average-risk": Model({"risk": (PART, ...)}, _limit_classes("count(*)", "risk"), "table"),
    "sample-uniqueness": Model(
        {"fraction": (_SHARE, ...)}, _limit_classes("count(*) FILTER (n = 1)", "fraction"), "table"
    ),
    "column-frequency": Model({"k": (K, ...)}, None, "parts", min),
    "k-map": Model({"k": (K, ...), "population": (NAME, ...)}, _count_population, "population", min),
    "delta-presence": Model(_PRESENCE, _limit_presence, "population", demands=(_IN_ORDER,)),
    # of releases by an agency's plan, and of these only; agreed.py asks the plan
    "l-delta-diversity": Model({"l": (K, ...), "delta": (Positive, ...)}, None, "plan"),
    "k-delta-anonymity": Model({"k": (K, ...), "delta": (Positive, ...)}, None, "plan"),
    "entropy-l-delta-diversity": Model({"l": (FROM_1, ...), "delta": (Positive, ...)}, None, "plan"),
}


@cache
def find_model(name: str) -> Model | None:
    """Return a model of this verifier or, if another package registered one, of that; None if it is unknown."""
    if name in SIZES:
        return SIZES[name]
    from shoal.verify.statements import VALUES  # k-anonymous releases do without it

    if name in VALUES:
        return VALUES[name]
    registered = (entry.load() for entry in entry_points(group=GROUP, name=name))
    return next((found for found in registered if isinstance(found, Model)), None)


@cache
def _shape_of(name: str) -> type[StrictEntry]:
    """Return the strict model of a model's parameters."""
    model = find_model(name)
    fields: dict[str, Any] = {} if model is None else dict(model.parameters)
    return create_model("Parameters", __base__=StrictEntry, **fields)


def read_promise(
    name: str, parameters: Mapping[str, Any], claimed: float | None, sensitive: Sequence[str], *, agreed: bool = False
) -> Promise:
    """Return the promise with defaults filled in; its obstacle says why it cannot be checked.

    A release by an agency's plan has its own promises, which no other release can make.
    """
    model = find_model(name)

    def refuse(why: str) -> Promise:
        return Promise(name, dict(parameters), claimed, obstacle=f"cannot check: {why}")

    if model is None or (model.about == "plan") != agreed:
        return refuse("this verifier does not know the model")
    about_values = model.about == "values"
    given = {key: value for key, value in parameters.items() if not about_values or key != "attribute"}
    try:
        read_entry(_shape_of(name), given, "parameters")
    except ManifestError as fault:
        return refuse(str(fault))
    full = {key: given.get(key, default) for key, (_, default) in model.parameters.items()}
    for holds, otherwise in model.demands:
        if not holds(full):
            return refuse(otherwise)
    if not about_values:
        return Promise(name, full, claimed)
    subjects = _find_subjects(parameters.get("attribute"), sensitive)
    if not subjects:
        return refuse("'attribute' names no sensitive attribute of the release")
    return Promise(name, {**full, "attribute": parameters.get("attribute")}, claimed, subjects)


def _find_subjects(named: Any, sensitive: Sequence[str]) -> tuple[Subject, ...]:
    if named is None:
        return tuple((name,) for name in sensitive)
    members = [named] if isinstance(named, str) else named
    if not isinstance(members, list | tuple) or not members or len(set(map(str, members))) != len(members):
        return ()
    return (tuple(members),) if all(member in sensitive for member in members) else ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """How classes do by a promise."""

    classes: int
    failing: int = 0
    achieved: float = math.nan
    obstacle: str | None = None  # why it cannot be checked


def judge(engine: Engine, promise: Promise, tables: Iterable[Counts], *, only: int | None = None) -> Judgement:
    """Return how many classes fail a promise, and the worst figure; *only* names one class.

    Each table has the counts of one subject, or of the classes if the model is about sizes.
    """
    kind = promise.kind
    if promise.obstacle or kind.statement is None:
        return Judgement(0, obstacle=promise.obstacle or "cannot check: this verifier does not know the model")
    where = "" if only is None else f" WHERE class = {only}"
    classes, failing, figures = 0, 0, []
    try:
        for counts in tables:
            answer = kind.statement(promise, counts)
            each = f"(SELECT *, {answer.each} AS ok FROM {answer.relation}{where})"
            found, bad, undecided, rows = engine.fetch_one(
                f"SELECT {answer.achieved}, count(DISTINCT class) FILTER (NOT ok), count(*) FILTER (ok IS NULL),"
                f" count(*) FROM {each}"
            )
            bad += len(settle(engine, promise, answer, each)) if undecided else 0
            total = engine.value(f"SELECT count(DISTINCT class) FROM {counts.table}")
            classes, failing = max(classes, int(total)), max(failing, int(bad))
            if rows or found is not None:
                figures.append(float(found))
    except CannotCheckError as fault:
        return Judgement(classes, obstacle=f"cannot check: {fault}")
    return Judgement(classes, failing, kind.worst(figures) if figures else math.nan)


def settle(engine: Engine, promise: Promise, answer: Answer, each: str) -> list[Any]:
    """Decide the classes that SQL leaves undecided in the relation *each*; return the failing ones."""
    if promise.kind.settle is None or answer.exact is None:
        raise CannotCheckError(answer.doubt)
    close = f"FROM ({answer.exact}) SEMI JOIN (SELECT class FROM {each} WHERE ok IS NULL) USING (class)"
    return [one["class"] for one in engine.read(close).to_pylist() if not promise.kind.settle(promise, one)]


def answer(promise: Promise, achieved: float | None, ok: bool, detail: str) -> CheckedGuarantee:
    """Return the result for a promise."""
    known = None if achieved is None or math.isnan(achieved) else achieved
    return CheckedGuarantee(promise.model, promise.parameters, promise.claimed, known, ok, detail, promise.counts)


def leave_unchecked(promise: Promise, why: str) -> CheckedGuarantee:
    """Return a promise that could not be judged because an input is missing."""
    return replace(answer(promise, None, True, f"not checked: {why}"), done=False)


def conclude(promise: Promise, found: Judgement, *, uncovered: int = 0, grounds: str = "") -> CheckedGuarantee:
    """Return the result for a promise, given the judgement of all classes; in doubt it fails.

    *uncovered* is the number of rows of its population that no class covers.
    """
    if found.obstacle:
        return answer(promise, None, False, found.obstacle)
    failing, together = found.failing, promise.kind.about == "table"
    if uncovered and promise.parameters.get("min", 0) > 0:
        failing = found.classes  # readers see that people whom no class covers are not in the table
    if failing:
        which = "all classes together fail it" if together else f"{failing} of {found.classes} classes fail it"
        return answer(promise, found.achieved, False, which)
    if not agrees(promise.claimed, found.achieved):
        return answer(promise, found.achieved, False, "the manifest's 'achieved' is not the figure of the rows")
    every = "all classes together" if together else f"all {count_noun(found.classes, 'class', 'classes')}"
    grounds = grounds if promise.counts is None else f", counted by {promise.counts}"
    return answer(promise, found.achieved, True, f"{every} satisfy it{grounds}")


def agrees(claimed: float | None, achieved: float) -> bool:
    """Whether the manifest claims the figure that was found."""
    return claimed is not None and math.isclose(claimed, achieved, rel_tol=_AGREES, abs_tol=_AGREES)

"""Releases by an agency's plan: the plan's promises, its written form, and its publication.

A plan has no counts of people, only classes and numbers. Its ``digest`` is the SHA-256 of the other keys, as JSON with
sorted keys and no blanks. It detects mistakes and careless edits; it is not a signature. A policy cannot name the
models defined here, because they need a plan.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from shoal.core.arrays import CodeArray, IntArray
from shoal.core.documents import read_json
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import pack
from shoal.core.wording import count_noun
from shoal.methods.base import AnyPlan
from shoal.models.base import PrivacyModel
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.k_anonymity import KAnonymity
from shoal.plan.counted import CountedCells
from shoal.policy.encoding import Encoding
from shoal.policy.policy import Policy
from shoal.release.columns import PublishedColumn
from shoal.release.forms.base import EXACT, LABELS, OwnColumn, Section, quote
from shoal.release.forms.classes import Classes, GeneralizedPublication
from shoal.release.release import CLASS
from shoal.sources.base import Source

PLAN_FILE = "plan.json"
FORMAT = 2
KIND = "shoal-agency-plan"
MOST_RECORDS = 2**53  # more records than any table has
FEWEST_COMBINATIONS = 20  # with fewer, all of them may have an even count by chance
_NUMBERS = ("delta", "p", "eta", "n", "n_tight", "records", "m", "classes")
_LISTS = ("quasi", "points", "runs", "values")
_KEYS = {"format", "kind", "sensitive", "order", "arrangement", "promise", "digest", *_NUMBERS, *_LISTS}
L_DIVERSITY = "l-delta-diversity"
K_ANONYMITY = "k-delta-anonymity"
ENTROPY = "entropy-l-delta-diversity"
PARAMETERS = {L_DIVERSITY: "l", K_ANONYMITY: "k", ENTROPY: "l"}
_WHOLE = (L_DIVERSITY, K_ANONYMITY)
Delta = Annotated[
    float, Field(gt=0, lt=1, description="probability that an owner with enough records has to wait for more")
]


@dataclass(frozen=True, slots=True)
class Promise:
    """Every class has at least this number of values or records, or this exponential of its entropy.

    >>> Promise("k-delta-anonymity", 5).parameter
    'k'
    """

    model: str
    least: int | float

    def __post_init__(self) -> None:
        """Refuse unknown models and numbers that promise nothing."""
        if self.model not in PARAMETERS:
            raise UsageError(f"unknown promise {self.model!r}; known are {', '.join(PARAMETERS)}")
        name = self.parameter
        whole = type(self.least) is int
        if self.model in _WHOLE and not whole:
            raise UsageError(f"{name} of {self.model} must be a whole number, got {self.least!r}")
        if not (whole or (type(self.least) is float and math.isfinite(self.least))):
            raise UsageError(f"{name} of {self.model} must be a number, got {self.least!r}")
        if self.least < 1:
            raise UsageError(f"{name} must be at least 1, got {self.least:g}")

    @property
    def parameter(self) -> str:
        return PARAMETERS[self.model]

    def document(self) -> dict[str, object]:
        return {"model": self.model, self.parameter: self.least}

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Promise:
        """Read the promise of a plan file; anything but a model and its number is a ``ValueError``."""
        model = document["model"]
        if not isinstance(model, str) or set(document) != {"model", PARAMETERS.get(model)}:
            raise ValueError("not a promise")
        try:
            return cls(model, document[PARAMETERS[model]])
        except UsageError as error:
            raise ValueError(str(error)) from None


class LDeltaDiversity(DistinctLDiversity):
    """Every class has the l values that the plan names for it. Rameshwar and Tandon, Definition 4.1."""

    name = L_DIVERSITY
    title = "every class shows the l sensitive values that the plan names for it (`values`)"
    weaknesses = "It holds among releases by the same plan. It bounds the values of a class, not their frequencies."

    delta: Delta


class KDeltaAnonymity(KAnonymity):
    """Every class of the plan has at least k records."""

    name = K_ANONYMITY
    title = "every class has at least k records"

    delta: Delta


class EntropyLDeltaDiversity(EntropyLDiversity):
    """Every class of the plan is as uncertain as l equally frequent values."""

    name = ENTROPY
    title = (
        "the sensitive values of every class are as uncertain as l equally frequent ones (the exponential of their "
        "entropy)"
    )

    delta: Delta


MODELS: dict[str, type[PrivacyModel]] = {
    kind.name: kind for kind in (LDeltaDiversity, KDeltaAnonymity, EntropyLDeltaDiversity)
}


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPlan:
    """A plan as an owner reads it."""

    quasi: tuple[str, ...]
    quasi_values: tuple[tuple[str, ...], ...]
    points: tuple[CodeArray, ...]  # n_quasi x (n_points,) into quasi_values
    number: CodeArray  # (n_points,) class of each point, from 0
    sensitive: str
    sensitive_values: tuple[str, ...]
    promise: Promise
    values: CodeArray  # (n_classes, l) into sensitive_values, ascending, for l-diversity; otherwise (n_classes, 0)
    delta: float
    p: float
    eta: float
    n: int
    n_tight: int
    records: int  # that an owner must have
    m: float
    classes: int
    order: str
    arrangement: str
    digest: str

    def locate(self, codes: Sequence[IntArray]) -> CodeArray:
        """Return (n_rows,) the class, from 0, of rows given as codes into the quasi values; -1 outside the domain.

        Codes that are not places of values represent unknown values.
        """
        sizes = [len(values) for values in self.quasi_values]
        known = np.logical_and.reduce([(c >= 0) & (c < size) for c, size in zip(codes, sizes, strict=True)])
        inside = np.flatnonzero(known)
        n_points = len(self.number)
        key = pack([np.append(points, c[inside]) for points, c in zip(self.points, codes, strict=True)], sizes)
        domain, asked = key[:n_points], key[n_points:]
        order = np.argsort(domain, kind="stable")
        place = np.minimum(np.searchsorted(domain, asked, sorter=order), n_points - 1)
        found = order[place]
        result = np.full(len(known), -1, dtype=np.int32)
        result[inside] = np.where(domain[found] == asked, self.number[found], -1)
        return result


def digest_plan(document: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def read_plan(path: Path) -> AgreedPlan:
    """Read a plan; refuse it if it was altered or contradicts itself."""
    return parse_plan(read_plan_file(path), path.name)


def read_plan_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path.name}: {error.strerror or 'input or output error'}") from None


def parse_plan(content: bytes, name: str) -> AgreedPlan:
    """Read a plan from the content of its file; duplicate keys are refused."""
    try:
        document = read_json(content)
    except ValueError:
        raise InputError(f"{name} is not JSON; fetch the plan again") from None
    return check_plan(document, name)


def check_plan(document: Any, name: str) -> AgreedPlan:
    """Check a plan that was parsed from JSON."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"{name} is not an agency's plan")
    if document.get("format") != FORMAT:
        raise InputError(f"{name} has another format than {FORMAT}, which this version of shoal reads")
    try:
        right = digest_plan(document) == document.get("digest")
    except (ValueError, TypeError, RecursionError):
        right = False
    if not right:
        raise InputError(f"{name} was altered: its digest does not match its content; fetch the plan again")
    if set(document) != _KEYS:
        raise InputError(f"{name} has not the keys of a plan: {', '.join(sorted(set(document) ^ _KEYS))}")
    try:
        return _read_document(document)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f": {error}" if type(error) is _ContradictionError else ""
        raise InputError(f"{name} contradicts itself{reason}; fetch the plan again") from None


class _ContradictionError(ValueError):
    """A contradiction, described without any content of the file."""


def _read_document(document: dict[str, Any]) -> AgreedPlan:
    values = tuple(_read_texts(entry["values"]) for entry in document["quasi"])
    names = _read_texts([entry["name"] for entry in document["quasi"]])
    sensitive = _read_texts(document["sensitive"]["values"])
    points = tuple(_read_integers(column) for column in document["points"])
    runs = _read_integers(document["runs"])
    _demand(len(points) == len(names) > 0, "a list of points for every quasi attribute")
    _demand(runs.ndim == 2 and runs.shape[1] == 2 and bool((runs[:, 1] > 0).all()), "runs of classes")
    n_points = len(points[0])
    _demand(all(column.ndim == 1 and len(column) == n_points for column in points), "points of one length")
    inside = all(column.min() >= 0 and column.max() < len(known) for column, known in zip(points, values, strict=True))
    _demand(inside, "points among the values")
    key = pack(points, [len(known) for known in values])
    _demand(len(np.unique(key)) == n_points, "every point once")
    _demand(len(runs) <= n_points and bool((runs[:, 1] <= n_points).all()), "a class for every point")
    _demand(int(runs[:, 1].sum()) == n_points, "a class for every point")
    n_classes, numbers = document["classes"], np.unique(runs[:, 0])
    _demand(len(numbers) == n_classes == numbers[-1] and numbers[0] == 1, "classes from 1 on")
    counts = {key: document[key] for key in ("n", "n_tight", "records", "classes")}
    _demand(all(type(number) is int for number in counts.values()), "whole numbers")
    n, n_tight, records, _ = counts.values()
    _demand(all(type(document[key]) in (int, float) for key in ("delta", "p", "eta", "m")), "numbers")
    delta, p, eta, m = (float(document[key]) for key in ("delta", "p", "eta", "m"))
    _demand(0 < delta < 1 and 0 <= eta < p <= 1, "0 < delta < 1 and eta < p <= 1")
    _demand(1 <= n_tight <= n and records in (n, n_tight), "n_tight <= n, and one of these for the records")
    promise = Promise.parse(document["promise"])
    _demand(max(n, promise.least) <= MOST_RECORDS, "numbers of records that can be counted")
    class_values = np.empty((n_classes, 0), dtype=np.int64)
    if promise.model == L_DIVERSITY:
        _demand(n_classes <= m * (1 + 1e-9), "no more classes than m")
        class_values = _read_integers(document["values"])
        _demand(class_values.shape == (n_classes, promise.least), "l values for every class")
        inside = class_values.min() >= 0 and class_values.max() < len(sensitive)
        _demand(inside, "values of classes among the sensitive values")
        _demand(bool((np.diff(class_values, axis=1) > 0).all()), "values of classes in ascending order")
    else:
        _demand(n_tight == n and m == n_classes, "one number of records, and m classes")
        _demand(document["values"] == [], "values of classes for l-diversity only")
    (name,) = _read_texts([document["sensitive"]["name"]])
    _demand(name not in names, "a sensitive attribute that is not quasi")
    return AgreedPlan(
        quasi=names,
        quasi_values=values,
        points=tuple(column.astype(np.int32) for column in points),
        number=(np.repeat(runs[:, 0], runs[:, 1]) - 1).astype(np.int32),
        sensitive=name,
        sensitive_values=sensitive,
        promise=promise,
        values=class_values.astype(np.int32),
        **counts,
        delta=delta,
        p=p,
        eta=eta,
        m=m,
        order=str(document["order"]),
        arrangement=str(document["arrangement"]),
        digest=str(document["digest"]),
    )


def _read_texts(values: Any) -> tuple[str, ...]:
    _demand(isinstance(values, list) and all(type(value) is str for value in values), "lists of texts")
    _demand(len(set(values)) == len(values), "every value once")
    "".join(values).encode()  # a lone surrogate, which only JSON can write, is a ValueError
    return tuple(values)


def _read_integers(values: Any) -> IntArray:
    array = np.array(values)
    _demand(array.dtype.kind == "i" and array.size > 0, "lists of whole numbers")
    return array.astype(np.int64)


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise _ContradictionError(f"a plan has {what}")


def make_model(agreed: AgreedPlan) -> PrivacyModel:
    parameters = {agreed.promise.parameter: agreed.promise.least, "delta": agreed.delta}
    return MODELS[agreed.promise.model].model_validate(parameters)


_MEANING = (
    "The column `class` is the number of a class of the plan. A row states only that a person of this class has this "
    "sensitive value. The generalized columns are for human readers: they show the range around all combinations of "
    "quasi values in the class. Such ranges overlap, and combinations within them may belong to other classes. Count "
    "and link by `class`; `plan.json` has the class of each combination of quasi values (`points` and `runs`)."
)
_WAIT = (
    "Delta is the probability that an owner with enough records must wait for more of them. It does not weaken an "
    "existing release: this one was published because all classes satisfy the promise."
)
_LINKED = (
    "A reader who links several releases by this plan and has the quasi values of a person finds the same class in "
    "all of them. "
)
_LINKED_VALUES = "Each shows the same l values there, so l values remain for every person after any number of releases."
_LINKED_OTHERS = (
    "Each release by itself satisfies the promise; the promise does not cover them together, but `shoal link` measures "
    "that."
)
_OTHER_PLANS = "Other releases have other classes; the promise does not cover linking this release with them."
_AMONG_RELEASES = (
    "Promises are about this release and others by the same plan. Together with other releases about the same people, "
    "it can reveal more: shoal link and the ledger measure that for the releases that they are given."
)
_COUNTING = "- Count and link by `class`. Ranges of other columns overlap; only the plan identifies the class."


class Agreed(Classes):
    """Records in the classes of an agency's plan, with the number of their class."""

    name: ClassVar[str] = "agreed"
    by_plan: ClassVar[bool] = True
    linkability: ClassVar[str | None] = (
        "Releases by the same plan have the same classes, so linking them does not divide any class."
    )

    @property
    def class_columns(self) -> tuple[str, ...]:
        return (CLASS,)

    def find_model(self, name: str) -> type[PrivacyModel]:
        return MODELS[name]

    def promises(self) -> list[str]:
        """Return the plan's promises for this release, and for several."""
        (promise,) = self.manifest.guarantees
        linked = _LINKED_VALUES if promise.model == L_DIVERSITY else _LINKED_OTHERS
        return [*self.promise_lines(), "", _WAIT, "", _LINKED + linked, "", _OTHER_PLANS]

    @property
    def _among_releases(self) -> str:
        return _AMONG_RELEASES

    def own_section(self) -> Section:
        agreed = self.manifest.agreed
        if agreed is None:
            raise TypeError("a release by a plan names it")
        plan = (
            "Several data owners publish by one plan, which an agency made without access to these data. It is in "
            f"`{agreed.file}` and has {count_noun(agreed.classes, 'class', 'classes')}; its digest is "
            f"`{agreed.digest}`."
        )
        return Section("classes", "Classes", [plan, "", _MEANING])

    def own_columns(self) -> list[OwnColumn]:
        return [OwnColumn(CLASS, "class", "number", f"the number of the record's class in `{PLAN_FILE}`")]

    def describe_missing(self) -> str:
        return "No value is missing."

    def advice(self) -> list[str]:
        return [_COUNTING, LABELS, EXACT]

    def _count_example(self) -> str:
        secret = quote(self.names_by_role()["sensitive"][0])
        return f'print(data.groupby("class")[{secret}].value_counts().head(20))\n'


@dataclass(frozen=True, slots=True, eq=False)
class AgreedPublication(GeneralizedPublication):
    """Whole records: the number of the class in the plan, the hull of that class, and the sensitive value."""

    agreed: AgreedPlan
    plan_file: bytes
    left_out: tuple[str, ...]  # columns that are not in the plan
    people: int | None  # the number of people, if a column identifies them

    @property
    def parts(self) -> Sequence[Sequence[str]]:
        """The attributes of the plan in its order, whatever order and other columns the source has."""
        return [[*self.agreed.quasi, self.agreed.sensitive]]

    @property
    def column_names(self) -> list[str]:
        return [CLASS, *self.parts[0]]

    @property
    def own_entries(self) -> Mapping[str, Any]:
        return {
            "agreed": {
                "file": PLAN_FILE,
                "sha256": hashlib.sha256(self.plan_file).hexdigest(),
                "digest": self.agreed.digest,
                "classes": self.agreed.classes,
            }
        }

    @property
    def own_evidence(self) -> Mapping[str, Any]:
        return {"records_needed": self.agreed.records, "people": self.people, "left_out": list(self.left_out)}

    @property
    def multiplicity(self) -> int:
        """The greatest common divisor of the counts of all combinations of values; 1 for few combinations.

        It exceeds 1 by chance with a probability of about 2 to the power of minus the number of combinations.
        """
        counts = self.encoding.problem.cells.counts
        return int(np.gcd.reduce(counts)) if len(counts) >= FEWEST_COMBINATIONS else 1

    @property
    def files(self) -> Mapping[str, bytes]:
        return {PLAN_FILE: self.plan_file}


def publish_agreed(
    own: Mapping[str, Any], policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> AgreedPublication:
    """Return the publication by an agency's plan, once the records have been assigned to its classes.

    *own* has the fields that only an :class:`AgreedPublication` has. The number of a row is published as its class.
    """
    found = AgreedPublication.of(policy, source, counted, encoding, plan, **own)
    numbers = PublishedColumn.of_values(pa.array(np.arange(1, found.plan.n_classes + 1, dtype=np.int32)))
    return replace(found, columns=replace(found.columns, quasi={CLASS: numbers, **found.columns.quasi}))

"""The models that a manifest may promise: which parameters of each make sense, and its formula.

Written here a second time on purpose: the verifier shares no code with the models it checks. Every formula is given the
classes of the published rows and answers for each class whether it holds, exactly, and what it reaches.

Another package that adds a privacy model registers its formula, a ``Model``, under the model's name in the entry point
group ``shoal.promises``. A model without a formula is never confirmed, so its releases are not published.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, create_model

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute, Listed, ManifestError, NotNegative, Positive, StrictEntry, read_entry
from shoal.verify import exact
from shoal.verify.exact import equal_distance, hierarchical_distance, largest_product, measure_ordered

GROUP = "shoal.promises"  # of entry points
_MOST_LIMITS = 100_000  # of a curve psi; whoever writes a larger l into a manifest wants the checker to be busy
Found: TypeAlias = tuple[BoolArray, FloatArray]  # for each class: does it hold, and what does it reach


@dataclass(frozen=True, slots=True)
class Promise:
    """One guarantee of the manifest; ``obstacle`` says why it cannot be checked at all."""

    model: str
    parameters: Mapping[str, Any]
    claimed: float | None
    subjects: tuple[tuple[str, ...], ...] = ()  # sensitive attributes; several in one = their joint values
    obstacle: str | None = None
    counts: str | None = None  # the people that it is about: a unit or a household; None: records

    def fraction(self, name: str) -> Fraction:
        """Return a parameter as the decimal number that is written in the manifest."""
        return Fraction(str(self.parameters[name]))

    def whole(self, name: str) -> int:
        """Return a parameter that is a whole number."""
        return int(self.parameters[name])


Formula: TypeAlias = Callable[[Promise, exact.Histograms, Attribute | None], Found]


@dataclass(frozen=True, slots=True)
class Model:
    """A privacy model as the verifier knows it.

    *parameters* are types, as pydantic has them, and defaults; ``...``: must be given. The *formula* gets the promise,
    the classes with their values of one sensitive attribute, and that attribute (None for joint values of several).
    """

    parameters: Mapping[str, tuple[Any, Any]]
    formula: Formula
    about: Literal["values", "sizes", "table", "population", "parts", "plan"] = "values"  # table: all classes together
    worst: Callable[..., float] = max  # of what several classes reach
    mixes: bool = True  # whether a mixture of classes that keep it keeps it too, so that sliced releases can promise it
    labels: bool = False  # whether it may be about labels, by the frequencies that they induce
    demands: tuple[tuple[Callable[[Mapping[str, Any]], bool], str], ...] = field(default=())  # of all parameters


def _count_sizes(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    return classes.sizes >= promise.whole("k"), classes.sizes.astype(np.float64)


def _find_harmful(promise: Promise, classes: exact.Histograms) -> BoolArray:
    """Return (n_values,) whether the policy does not call each value harmless; a missing value never is."""
    harmless = frozenset(map(fold_text, promise.parameters["harmless"]))
    if not harmless:
        return np.ones(classes.n_values, dtype=np.bool_)
    if len(classes.values) != classes.n_values:
        raise exact.CannotCheckError("joint values have no names that could be harmless")
    return np.array([value is None or fold_text(value) not in harmless for value in classes.values])


def _keep_harmful(promise: Promise, classes: exact.Histograms) -> exact.Histograms:
    """Return the classes with no records of harmless values, which the sizes still count."""
    if not promise.parameters["harmless"]:
        return classes
    return replace(classes, count=np.where(_find_harmful(promise, classes)[classes.value], classes.count, 0))


def _count_values(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    kinds, first = np.diff(classes.start).astype(np.float64), classes.start[:-1]
    if promise.parameters["harmless"] and classes.people is not None:
        # People may have several values: those values count that are needed to give everybody one.
        counts, owner = classes.rank()[0], classes.owner
        before = np.cumsum(counts) - counts
        needed = before - before[first][owner] < classes.sizes[owner]
        kinds = np.add.reduceat(needed.astype(np.float64), first)
    some = np.logical_or.reduceat(_find_harmful(promise, classes)[classes.value], first)
    return (kinds >= promise.whole("l")) | ~some, np.where(some, kinds, classes.total)


def _limit_largest(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    largest = _keep_harmful(promise, classes).largest
    holds = exact.at_most(largest, classes.sizes, 1 / promise.fraction("l"), share=True)
    some = largest > 0
    return holds, np.where(some, exact.divide(classes.sizes, np.where(some, largest, 1)), classes.total)


def _limit_entropy(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    kept, first = _keep_harmful(promise, classes), classes.start[:-1]
    if promise.parameters["harmless"]:  # people who are counted may have several values, of which one is the worst
        several = np.add.reduceat(classes.count, first) > classes.sizes if classes.people is not None else first < 0
        rarer = several[kept.owner] & (kept.count < kept.largest[kept.owner])
        kept = replace(kept, count=np.where(rarer, 0, kept.count))
    found = np.exp(exact.entropies(kept))
    return exact.entropy_at_least(kept, promise.fraction("l")), np.where(np.isinf(found), classes.total, found)


def _limit_recursively(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    l, first, harmful = promise.whole("l"), classes.start[:-1], _find_harmful(promise, classes)[classes.value]
    order = np.lexsort((~harmful, -classes.count, classes.owner))
    counts, rank = classes.count[order], np.arange(order.shape[0]) - classes.start[classes.owner]
    # (n_classes,) y: the rank of the most frequent harmful value, beyond all ranks if there is none
    y = np.minimum.reduceat(np.where(harmful[order], rank, order.shape[0]), first)
    at_y = rank == y[classes.owner]
    largest = np.add.reduceat(np.where(at_y, counts, 0), first)
    # Definition 4.3: the values from the l-th on if y is before it; otherwise from the one before it, without y
    later = np.where((y < l - 1)[classes.owner], rank >= l - 1, (rank >= l - 2) & ~at_y)
    tail = np.add.reduceat(np.where(later if l > 1 else rank >= 0, counts, 0), first)
    if promise.parameters["harmless"] and classes.people is not None:
        tail = tail - (np.add.reduceat(counts, first) - classes.sizes)  # nobody counts twice in it
    some = tail > 0
    reached = np.where(largest > 0, math.inf, 0.0)
    reached[some] = exact.divide(largest[some], tail[some])
    holds = np.asarray((largest == 0) | (l == 1))
    if l > 1:
        holds[some] |= exact.at_most(largest[some], tail[some], promise.fraction("c"), strict=True)
    return holds, reached


def psi_limits(promise: Promise) -> list[Fraction]:
    """Return psi(0), ..., psi(l - 1): what the most frequent values may make up together."""
    l, tau, psi = promise.whole("l"), promise.fraction("tau"), promise.parameters["psi"]
    if psi is None:
        if l > _MOST_LIMITS:
            raise exact.CannotCheckError(f"l is above {_MOST_LIMITS:,}")
        return [tau + (1 - tau) * Fraction(k, l - 1) for k in range(l)]
    limits = [Fraction(str(limit)) for limit in psi]
    if limits[0] != tau:
        raise exact.CannotCheckError("psi does not begin with tau")
    return limits


def _limit_most_frequent(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    tau, limits, first = promise.fraction("tau"), psi_limits(promise), classes.start[:-1]
    l = len(limits)
    counts, rank = _keep_harmful(promise, classes).rank()
    holds = np.ones(first.shape[0], dtype=np.bool_)
    reached = np.zeros(first.shape[0], dtype=np.float64)
    top = np.zeros_like(classes.sizes)
    for k in range(min(l - 1, int(rank.max()) + 1)):
        # top: (n_classes,) units of the k + 1 most frequent values
        top = top + np.add.reduceat(np.where(rank == k, counts, 0), first)
        holds &= exact.at_most(top, classes.sizes, limits[k], share=True)
        # Another tau bends the curve so that 1 - psi(k) stays in proportion to 1 - tau.
        bend = 1 - Fraction(k, l - 1) if tau == 1 else (1 - limits[k]) / (1 - tau)
        if bend > 0:
            reached = np.maximum(reached, 1 - (1 - exact.divide(top, classes.sizes)) / float(bend))
    return holds, reached


def _limit_share_and_size(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    largest = _keep_harmful(promise, classes).largest
    holds = exact.at_most(largest, classes.sizes, promise.fraction("alpha"))
    return holds & (classes.sizes >= promise.whole("k")), exact.divide(largest, classes.sizes)


def _limit_gain(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    # (p - q) / q = (c N - n C) / (n C), for values with p > q
    classes = exact.widen(classes, classes.total * int(classes.sizes.max()))
    whole, total, first = classes.whole[classes.value], classes.total, classes.start[:-1]
    bottom = classes.sizes[classes.owner] * whole
    harmful = _find_harmful(promise, classes)[classes.value]
    top = np.where(harmful, np.maximum(classes.count * total - bottom, 0), 0)
    gain = exact.divide(top, bottom)
    holds = exact.at_most(top, bottom, promise.fraction("beta"))
    if promise.parameters["enhanced"]:
        holds &= (top == 0) | exact.clearly_below(gain, -np.log(exact.divide(whole, total)), classes)
    return np.logical_and.reduceat(holds, first), np.maximum.reduceat(gain, first)


def _limit_change(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    classes = exact.widen(classes, classes.total * int(classes.sizes.max()))
    top = classes.count * classes.total
    bottom = classes.sizes[classes.owner] * classes.whole[classes.value]
    change = np.abs(np.log(exact.divide(top, bottom)))
    harmful, first = _find_harmful(promise, classes), classes.start[:-1]
    change[(top == bottom) | ~harmful[classes.value]] = 0.0
    reached = np.maximum.reduceat(change, first)
    reached[np.add.reduceat(harmful[classes.value].astype(np.int64), first) < harmful.sum()] = math.inf
    return exact.clearly_below(reached, float(promise.fraction("delta")), classes), reached


def _limit_distance(promise: Promise, classes: exact.Histograms, attribute: Attribute | None) -> Found:
    distance = promise.parameters["distance"]
    classes = exact.widen(classes, largest_product(classes, attribute))
    if distance == "equal":
        top, factor = equal_distance(classes)
    elif attribute is None:
        raise exact.CannotCheckError("joint values have no order and no taxonomy")
    else:
        top, factor = (measure_ordered if distance == "ordered" else hierarchical_distance)(classes, attribute)
    bottom = classes.sizes * classes.total * factor
    return exact.at_most(top, bottom, promise.fraction("t"), share=True), exact.divide(top, bottom)


def _limit_harmful(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    largest = _largest_harmful(promise, classes)
    return exact.at_most(largest, classes.sizes, promise.fraction("most"), share=True), exact.divide(
        largest, classes.sizes
    )


def harmful_items(promise: Promise, values: Sequence[str | None], n_values: int) -> list[list[int]]:
    """Return for each value the numbers of its harmful items; a missing value is an item of its own.

    Items with the same normal form are one.

    >>> promise = Promise("confidence-bounding", {"most": 0.2, "harmless": ["none"], "separator": ";"}, None)
    >>> harmful_items(promise, ["none", "gout", "flu; gout", None], 4)
    [[], [0], [1, 0], [2]]
    """
    harmless, separator = frozenset(map(fold_text, promise.parameters["harmless"])), promise.parameters["separator"]
    if not harmless and separator is None:
        return [[value] for value in range(n_values)]
    if len(values) != n_values:
        raise exact.CannotCheckError("joint values have no names that could be harmless, and no items")
    number: dict[str | None, int] = {}
    found = []
    for value in values:
        items: list[str | None] = [value]
        if value is not None:
            parts = [value] if separator is None else [part for part in value.split(separator) if part.strip()]
            items = list(dict.fromkeys(map(fold_text, parts)))
        found.append([number.setdefault(item, len(number)) for item in items if item is None or item not in harmless])
    return found


def _largest_harmful(promise: Promise, classes: exact.Histograms) -> NDArray[Any]:
    """Return (n_classes,) the most that a harmful value, or a harmful item of values that are sets, has."""
    of_value = harmful_items(promise, classes.values, classes.n_values)
    width = np.array([len(items) for items in of_value], dtype=np.int64)
    flat = np.array([item for items in of_value for item in items], dtype=np.int64)
    largest = np.zeros(classes.sizes.shape[0], dtype=classes.count.dtype)
    if not len(flat):
        return largest
    # every entry once for each item of its value
    repeat = width[classes.value]
    entry = np.repeat(np.arange(len(repeat)), repeat)
    within = np.arange(len(entry)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
    item = flat[(np.cumsum(width) - width)[classes.value[entry]] + within]
    n_items = int(flat.max()) + 1
    pair, place = np.unique(classes.owner[entry] * n_items + item, return_inverse=True)
    total = np.zeros(len(pair), dtype=classes.count.dtype)
    np.add.at(total, place, classes.count[entry])
    np.maximum.at(largest, pair // n_items, total)
    return largest


def _count_population(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    """Count the population that each class covers, which stands in place of its values."""
    covered = classes.count
    return covered >= promise.whole("k"), covered.astype(np.float64)


def _limit_presence(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    sizes, covered, low = classes.sizes, classes.count, promise.fraction("min")
    some = covered > 0
    reached = np.full(sizes.shape[0], math.inf)
    reached[some] = sizes[some] / covered[some]
    holds = some & (sizes > 0)
    holds[some] &= exact.at_most(sizes[some], covered[some], promise.fraction("max"))
    if low > 0:
        holds[some] &= exact.at_most(covered[some], sizes[some], 1 / low)
    return holds, reached


def _limit_attacks(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    gain, cost = promise.fraction("gain"), promise.fraction("cost")
    sizes, place = np.unique(classes.sizes, return_inverse=True)
    worthless = np.array([gain <= n * cost for n in sizes.tolist()], dtype=np.bool_)
    return worthless[place], float(gain) / classes.sizes


def _limit_classes(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    return _of_all(classes, Fraction(classes.sizes.shape[0], classes.total), promise.fraction("risk"))


def _limit_unique(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:
    unique = int(np.count_nonzero(classes.sizes == 1))
    return _of_all(classes, Fraction(unique, classes.total), promise.fraction("fraction"))


def _of_all(classes: exact.Histograms, share: Fraction, limit: Fraction) -> Found:
    """Return for each class what all of them together make of a limit."""
    n = classes.sizes.shape[0]
    return np.full(n, share <= limit, dtype=np.bool_), np.full(n, float(share))


def _refuse(promise: Promise, classes: exact.Histograms, _: Attribute | None) -> Found:  # noqa: ARG001
    raise exact.CannotCheckError("only a sliced release has parts to promise this model of")


def _check_curve(psi: tuple[float, ...]) -> tuple[float, ...]:
    if len(psi) < 2 or list(psi) != sorted(psi) or psi[0] <= 0 or psi[-1] != 1:
        raise ValueError("does not rise from above 0 to 1")
    return psi


_K = Annotated[int, Field(ge=1, lt=2**53)]
_TWO = Annotated[int, Field(ge=2, lt=2**53)]
_FROM_1 = Annotated[float, Field(ge=1)]
_PART = Annotated[float, Field(gt=0, le=1)]
_UNIT = Annotated[float, Field(ge=0, le=1)]
_NAME = Annotated[str, Field(min_length=1)]
_CURVE = Annotated[Listed[float], AfterValidator(_check_curve)]
_DISTANCE = Literal["equal", "ordered", "hierarchical"]
_BELOW_1 = Annotated[float, Field(ge=0, lt=1)]
_K_OF_POPULATION = {"k": (_K, ...), "population": (_NAME, ...)}
_PRESENCE = {"min": (_UNIT, 0), "max": (_UNIT, ...), "population": (_NAME, ...)}
_TAU = {"tau": (_PART, ...), "l": (_TWO, ...), "psi": (_CURVE, None), "weights": (dict[str, NotNegative], None)}
_HARM = {"harmless": (Listed[str], ())}
_ALL_OF_PSI = (lambda given: given["psi"] is None or len(given["psi"]) == given["l"], "'psi' does not have l numbers")
_IN_ORDER = (lambda given: given["min"] <= given["max"], "'min' is greater than 'max'")

MODELS: Mapping[str, Model] = {
    "k-anonymity": Model({"k": (_K, ...)}, _count_sizes, "sizes", min),
    "profitability": Model({"gain": (Positive, ...), "cost": (Positive, ...)}, _limit_attacks, "sizes"),
    "average-risk": Model({"risk": (_PART, ...)}, _limit_classes, "table"),
    "sample-uniqueness": Model({"fraction": (_BELOW_1, ...)}, _limit_unique, "table"),
    "column-frequency": Model({"k": (_K, ...)}, _refuse, "parts", min),
    "k-map": Model(_K_OF_POPULATION, _count_population, "population", min),
    "delta-presence": Model(_PRESENCE, _limit_presence, "population", demands=(_IN_ORDER,)),
    "distinct-l-diversity": Model({"l": (_K, ...), **_HARM}, _count_values, worst=min),
    "simple-l-diversity": Model({"l": (_FROM_1, ...), **_HARM}, _limit_largest, worst=min),
    "entropy-l-diversity": Model({"l": (_FROM_1, ...), **_HARM}, _limit_entropy, worst=min),
    "recursive-cl-diversity": Model({"c": (Positive, ...), "l": (_K, ...), **_HARM}, _limit_recursively),
    "tau-l-diversity": Model({**_TAU, **_HARM}, _limit_most_frequent, labels=True, demands=(_ALL_OF_PSI,)),
    "t-closeness": Model({"t": (NotNegative, ...), "distance": (_DISTANCE, "equal")}, _limit_distance),
    "alpha-k-anonymity": Model({"alpha": (_PART, ...), "k": (_K, ...), **_HARM}, _limit_share_and_size, mixes=False),
    "beta-likeness": Model({"beta": (Positive, ...), "enhanced": (bool, False), **_HARM}, _limit_gain),
    "delta-disclosure": Model({"delta": (Positive, ...), **_HARM}, _limit_change),
    "confidence-bounding": Model({"most": (_PART, ...), "separator": (_NAME, None), **_HARM}, _limit_harmful),
    # of releases by an agency's plan, and of these only; agreed.py asks the plan
    "l-delta-diversity": Model({"l": (_K, ...), "delta": (Positive, ...)}, _refuse, "plan"),
    "k-delta-anonymity": Model({"k": (_K, ...), "delta": (Positive, ...)}, _refuse, "plan"),
    "entropy-l-delta-diversity": Model({"l": (_FROM_1, ...), "delta": (Positive, ...)}, _refuse, "plan"),
}


@cache
def find_model(name: str) -> Model | None:
    """Return a model of this verifier or, if another package registered one, of that; None if nobody knows it."""
    if name in MODELS:
        return MODELS[name]
    for entry in entry_points(group=GROUP, name=name):
        found = entry.load()
        if isinstance(found, Model):
            return found
    return None


@cache
def _shape_of(name: str) -> type[StrictEntry]:
    """Return the strict model of a model's parameters."""
    model = find_model(name)
    fields: dict[str, Any] = {} if model is None else dict(model.parameters)
    return create_model("Parameters", __base__=StrictEntry, **fields)


def read_promise(
    name: str, parameters: Mapping[str, Any], claimed: float | None, sensitive: Sequence[str], *, agreed: bool = False
) -> Promise:
    """Return the promise with defaults filled in; whatever makes it uncheckable is its obstacle.

    A release by an agency's plan has promises of its own, which no other release can make.
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


def _find_subjects(named: Any, sensitive: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    if named is None:
        return tuple((name,) for name in sensitive)
    members = [named] if isinstance(named, str) else named
    if not isinstance(members, list | tuple) or not members or len(set(map(str, members))) != len(members):
        return ()
    return (tuple(members),) if all(member in sensitive for member in members) else ()


def worst_of(promise: Promise) -> Callable[..., float]:
    """Return which of several figures is the worst: the least, or the greatest."""
    model = find_model(promise.model)
    return max if model is None else model.worst


def evaluate(promise: Promise, classes: exact.Histograms, attribute: Attribute | None) -> Found:
    """Return whether each class keeps a promise, and what it reaches.

    *attribute* is None if the values are joint ones of several attributes.
    """
    model = find_model(promise.model)
    if model is None:
        raise exact.CannotCheckError("this verifier does not know the model")
    return model.formula(promise, classes, attribute)


def count_covered(sizes: IntArray, covered: IntArray) -> exact.Histograms:
    """Return classes with the rows of a population that each covers in place of values."""
    start = np.arange(len(sizes) + 1, dtype=np.int64)
    return exact.Histograms(sizes, start, np.zeros(len(sizes), dtype=np.int64), covered, (None,), 1)


def count_only(sizes: IntArray) -> exact.Histograms:
    """Return classes of which only the sizes are asked."""
    return count_covered(sizes, sizes)

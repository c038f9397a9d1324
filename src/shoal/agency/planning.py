"""From a distribution and a promise to a plan, and its file: classes, and the number of records to wait for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from shoal.agency.classes import (
    Classes,
    gather_classes,
    greedy_classes,
    independent_classes,
    make_unnamed,
)
from shoal.agency.distribution import JointDistribution
from shoal.agency.entropy import close_by_entropy, entropy_classes, entropy_samples
from shoal.agency.samples import (
    check_delta,
    class_bound,
    class_weights,
    classes_of_weight,
    enough_samples,
    failure_bound,
    k_classes,
    p_for_samples,
    paper_samples,
    subtract_eta,
)
from shoal.core.arrays import CodeArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.release.forms.agreed import (
    ENTROPY,
    FORMAT,
    K_ANONYMITY,
    KIND,
    L_DIVERSITY,
    MOST_RECORDS,
    Promise,
    digest_plan,
)
from shoal.release.release import write_text

Arrangement: TypeAlias = Literal["contiguous", "gathered", "independent"]
ARRANGEMENTS: dict[Arrangement, Callable[[JointDistribution, int, Fraction], Classes]] = {
    "contiguous": greedy_classes,
    "gathered": gather_classes,
    "independent": independent_classes,
}

Records: TypeAlias = Literal["paper", "tight"]
RECORDS: tuple[Records, ...] = ("paper", "tight")


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Classes and numbers under which every owner's release keeps a promise, except with probability delta."""

    distribution: JointDistribution
    arrangement: Arrangement
    classes: Classes
    promise: Promise
    delta: Fraction
    p: Fraction
    eta: Fraction
    m: Fraction
    n: int
    n_tight: int
    records: int  # that an owner must have

    def failure(self, n: int) -> float:
        """Return what the probability is at most that a release of n records misses the promise."""
        if self.promise.model == ENTROPY:
            raise UsageError("for entropy there is a number of records that is enough, but no bound for other numbers")
        if self.promise.model == L_DIVERSITY:
            return failure_bound(self.distribution, self.classes.weights, 1, n, self.eta)
        weights = class_weights(self.distribution, self.classes.number)
        return failure_bound(self.distribution, weights, int(self.promise.least), n, self.eta)


def make_plan(
    distribution: JointDistribution,
    *,
    promise: Promise | int,
    delta: Fraction,
    p: Fraction | None = None,
    samples: int | None = None,
    eta: Fraction = Fraction(0),
    arrangement: Arrangement = "contiguous",
    records: Records = "paper",
) -> Plan:
    """Plan with a given p, or with the p that makes the most classes from a given number of samples.

    Without either, the samples are as many as were counted. A p that was chosen is then raised as far as the classes
    stay the same, so that fewer records are enough. A whole number l is the promise of l values, (l,delta)-diversity.
    There, owners must have the paper's number of records or the tight one; other promises have one number.
    """
    kept = promise if isinstance(promise, Promise) else Promise(L_DIVERSITY, promise)
    _check_wanted(kept, delta, p, samples, eta, arrangement, records)
    if p is None and samples is None and not distribution.counted:
        raise UsageError("give p or a number of samples: probabilities do not say how many records there will be")
    n_samples = samples or distribution.total
    if kept.model != L_DIVERSITY:  # there is one number of records, and m is the number of classes
        number, n = _close_classes(distribution, kept, delta, p or n_samples, eta)
        lightest = distribution.probability(int(class_weights(distribution, number).min()))
        if p is not None and lightest < p:
            raise UnreachableError(f"all points together have no probability of {float(p):g}; take a smaller p")
        classes = make_unnamed(number)
        m = Fraction(classes.n_classes)
        return Plan(distribution, "contiguous", classes, kept, delta, p or lightest, eta, m, n, n, n)
    l = int(kept.least)
    chosen = p or p_for_samples(distribution, l, delta, n_samples, eta)
    classes = ARRANGEMENTS[arrangement](distribution, l, chosen)
    if p is None:
        chosen = distribution.probability(classes.weakest())
    m = class_bound(distribution.n_points, distribution.tail(l), l, chosen)
    n = paper_samples(m, l, chosen, delta, eta)
    n_tight = min(n, enough_samples(distribution, classes.weights, 1, delta, eta))
    needed = n_tight if records == "tight" else n
    return Plan(distribution, arrangement, classes, kept, delta, chosen, eta, m, n, n_tight, needed)


def _check_wanted(
    promise: Promise,
    delta: Fraction,
    p: Fraction | None,
    samples: int | None,
    eta: Fraction,
    arrangement: Arrangement,
    records: Records,
) -> None:
    """Refuse what no plan can be made for, whatever the distribution is."""
    check_delta(delta)
    if p is not None and samples is not None:
        raise UsageError("give p or the number of samples, not both")
    if samples is not None and samples < 1:
        raise UsageError(f"the number of samples must be at least 1, got {samples}")
    if arrangement not in ARRANGEMENTS:
        raise UsageError(f"unknown arrangement {arrangement!r}; known are {', '.join(ARRANGEMENTS)}")
    if records not in RECORDS:
        raise UsageError(f"unknown number of records {records!r}; known are {', '.join(RECORDS)}")
    if p is not None and p <= 0:
        raise UsageError(f"p must be above 0, got {float(p):g}")
    subtract_eta(Fraction(1) if p is None else p, eta)
    if promise.model != L_DIVERSITY and arrangement != "contiguous":
        raise UsageError(f"the arrangement {arrangement!r} is for l-diversity only; other classes are contiguous")
    if eta and promise.model == ENTROPY:
        raise UsageError("an eta above 0 cannot be carried through to entropies; plan for l-diversity or k-anonymity")


def _close_classes(
    distribution: JointDistribution,
    promise: Promise,
    delta: Fraction,
    size: Fraction | int,
    eta: Fraction,
) -> tuple[CodeArray, int]:
    """Return classes for k records or an entropy, of a probability or as many as so many samples allow, and their N."""
    if promise.model == K_ANONYMITY:
        k = int(promise.least)
        if isinstance(size, int):
            number = k_classes(distribution, k, delta, size, eta)
        else:
            number = classes_of_weight(distribution, size)
        return number, enough_samples(distribution, class_weights(distribution, number), k, delta, eta)
    l = float(promise.least)
    if isinstance(size, int):
        number = entropy_classes(distribution, l, delta, size)
    else:
        number = close_by_entropy(distribution, l, size)
    return number, entropy_samples(distribution, number, l, delta)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what is written, with its digest; a plan that no owner could ever follow is refused."""
    if plan.n >= MOST_RECORDS:
        raise UnreachableError(f"the plan would ask for {plan.n:.3g} records, more than any table has; take a larger p")
    known = plan.distribution
    document: dict[str, Any] = {
        "format": FORMAT,
        "kind": KIND,
        "quasi": [
            {"name": name, "values": list(values)} for name, values in zip(known.quasi, known.quasi_values, strict=True)
        ],
        "sensitive": {"name": known.sensitive, "values": list(known.sensitive_values)},
        "order": known.order,
        "arrangement": plan.arrangement,
        "promise": plan.promise.document(),
        "delta": round_up(plan.delta),
        "p": round_down(plan.p),
        "eta": float(plan.eta),
        "n": plan.n,
        "n_tight": plan.n_tight,
        "records": plan.records,
        "m": float(plan.m),
        "classes": plan.classes.n_classes,
        "points": [column.tolist() for column in known.points],
        "runs": _run_lengths(plan.classes.number),
        "values": plan.classes.values.tolist() if plan.classes.values.size else [],
    }
    return {**document, "digest": digest_plan(document)}


def round_down(value: Fraction) -> float:
    """Return the largest float that is not above a fraction, or the float that a decimal is written as.

    >>> round_down(Fraction("0.1")), round_down(Fraction(1, 3)) <= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    return near if Fraction(str(near)) == value or Fraction(near) <= value else float(np.nextafter(near, 0.0))


def round_up(value: Fraction) -> float:
    """Return the smallest float that is not below a fraction, or the float that a decimal is written as.

    >>> round_up(Fraction("0.1")), round_up(Fraction(1, 3)) >= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    return near if Fraction(str(near)) == value or Fraction(near) >= value else float(np.nextafter(near, 1.0))


def write_plan(plan: Plan, path: Path) -> dict[str, Any]:
    """Write a plan to a new file and return what is in it."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; choose another file or remove it first")
    document = plan_document(plan)
    entries = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")
    return document


def _run_lengths(number: CodeArray) -> list[list[int]]:
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(np.diff(number)) + 1))
    lengths = np.diff(np.append(first, len(number)))
    return [list(pair) for pair in zip((number[first] + 1).tolist(), lengths.tolist(), strict=True)]

"""From a distribution and a promise to a plan: classes, and the number of records to wait for."""

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
    check_l_and_p,
    gathered_classes,
    greedy_classes,
    independent_classes,
    without_values,
)
from shoal.agency.distribution import JointDistribution
from shoal.agency.entropy import entropy_classes, entropy_samples, varied_classes
from shoal.agency.k_anonymity import class_weights, classes_of_weight, k_classes, k_failure_bound, k_samples
from shoal.agency.samples import (
    bound_of,
    check_delta,
    failure_bound,
    p_for_samples,
    paper_samples,
    surely,
    tight_samples,
)
from shoal.core.arrays import CodeArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.release.forms.agreed import FORMAT, K_ANONYMITY, KIND, L_DIVERSITY, MOST_RECORDS, Promise, digest_plan
from shoal.release.release import write_text

Arrangement: TypeAlias = Literal["contiguous", "gathered", "independent"]
ARRANGEMENTS: dict[Arrangement, Callable[[JointDistribution, int, Fraction], Classes]] = {
    "contiguous": greedy_classes,
    "gathered": gathered_classes,
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
        if self.promise.model == L_DIVERSITY:
            return failure_bound(self.distribution, self.classes, n, self.eta)
        if self.promise.model == K_ANONYMITY:
            return k_failure_bound(self.distribution, self.classes.number, int(self.promise.least), n, self.eta)
        raise UsageError("for entropy there is a number of records that is enough, but no bound for other numbers")


def make_plan(
    distribution: JointDistribution,
    *,
    delta: Fraction,
    l: int | None = None,
    promise: Promise | None = None,
    p: Fraction | None = None,
    samples: int | None = None,
    eta: Fraction = Fraction(0),
    arrangement: Arrangement = "contiguous",
    records: Records = "paper",
) -> Plan:
    """Plan with a given p, or with the p that makes the most classes from a given number of samples.

    Without either, the samples are as many as were counted. A p that was chosen is then raised as far as the classes
    stay the same, so that fewer records are enough. *l* stands for the promise of l values, (l,delta)-diversity. There,
    owners must have the paper's number of records or the tight one; other promises have one number.
    """
    check_delta(delta)
    if (l is None) == (promise is None):
        raise UsageError("give l or a promise, and not both")
    wanted = promise or Promise(L_DIVERSITY, l or 0)
    if p is not None and samples is not None:
        raise UsageError("give p or the number of samples, not both")
    if p is None and samples is None:
        if not distribution.counted:
            raise UsageError("give p or a number of samples: probabilities do not say how many records there will be")
        samples = distribution.total
    if samples is not None and samples < 1:
        raise UsageError(f"the number of samples must be at least 1, got {samples}")
    if arrangement not in ARRANGEMENTS:
        raise UsageError(f"unknown arrangement {arrangement!r}; known are {', '.join(ARRANGEMENTS)}")
    if records not in RECORDS:
        raise UsageError(f"unknown number of records {records!r}; known are {', '.join(RECORDS)}")
    if p is not None and p <= 0:
        raise UsageError(f"p must be above 0, got {float(p):g}")
    surely(Fraction(1) if p is None else p, eta)
    if wanted.model == L_DIVERSITY:
        return _of_values(distribution, wanted, delta, p, samples or 0, eta, arrangement, records)
    if arrangement != "contiguous":
        raise UsageError(f"the arrangement {arrangement!r} is for l-diversity only; other classes are contiguous")
    if wanted.model == K_ANONYMITY:
        return _of_records(distribution, wanted, delta, p, samples or 0, eta)
    if eta:
        raise UsageError("an eta above 0 cannot be carried through to entropies; plan for l-diversity or k-anonymity")
    return _of_entropy(distribution, wanted, delta, p, samples or 0)


def _of_values(
    distribution: JointDistribution,
    promise: Promise,
    delta: Fraction,
    p: Fraction | None,
    samples: int,
    eta: Fraction,
    arrangement: Arrangement,
    records: Records,
) -> Plan:
    l = int(promise.least)
    chosen = p if p is not None else p_for_samples(distribution, l, delta, samples, eta)
    check_l_and_p(distribution, l, chosen)
    classes = ARRANGEMENTS[arrangement](distribution, l, chosen)
    if p is None:
        chosen = distribution.probability(classes.weakest())
    m = bound_of(distribution, l, chosen)
    n = paper_samples(m, l, chosen, delta, eta)
    n_tight = min(n, tight_samples(distribution, classes, delta, eta))
    needed = n_tight if records == "tight" else n
    return Plan(distribution, arrangement, classes, promise, delta, chosen, eta, m, n, n_tight, needed)


def _of_records(
    distribution: JointDistribution, promise: Promise, delta: Fraction, p: Fraction | None, samples: int, eta: Fraction
) -> Plan:
    k = int(promise.least)
    number = k_classes(distribution, k, delta, samples, eta) if p is None else classes_of_weight(distribution, p)
    n = k_samples(distribution, number, k, delta, eta)
    return _counted(distribution, number, promise, delta, p, eta, n)


def _of_entropy(
    distribution: JointDistribution, promise: Promise, delta: Fraction, p: Fraction | None, samples: int
) -> Plan:
    l = float(promise.least)
    number = entropy_classes(distribution, l, delta, samples) if p is None else varied_classes(distribution, l, p)
    n = entropy_samples(distribution, number, l, delta)
    return _counted(distribution, number, promise, delta, p, Fraction(0), n)


def _counted(
    distribution: JointDistribution,
    number: CodeArray,
    promise: Promise,
    delta: Fraction,
    p: Fraction | None,
    eta: Fraction,
    n: int,
) -> Plan:
    """Return the plan of a promise that rests on the classes alone: there is one number of records, and m is R."""
    lightest = distribution.probability(int(class_weights(distribution, number).min()))
    if p is not None and lightest < p:
        raise UnreachableError(f"all points together have no probability of {float(p):g}; take a smaller p")
    classes = without_values(number)
    m = Fraction(classes.n_classes)
    chosen = lightest if p is None else p
    return Plan(distribution, "contiguous", classes, promise, delta, chosen, eta, m, n, n, n)


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


def write_plan(plan: Plan, path: Path) -> str:
    """Write a plan to a new file and return its digest."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; choose another file or remove it first")
    document = plan_document(plan)
    entries = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")
    return str(document["digest"])


def _run_lengths(number: CodeArray) -> list[list[int]]:
    first = np.concatenate((np.zeros(1, dtype=np.int64), np.flatnonzero(np.diff(number)) + 1))
    lengths = np.diff(np.append(first, len(number)))
    return [list(pair) for pair in zip((number[first] + 1).tolist(), lengths.tolist(), strict=True)]

"""Planning: classes and a number of records from a distribution and a promise, and the plan file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from shoal.agency.classes import Classes, gather_classes, greedy_classes, independent_classes, sum_values
from shoal.agency.distribution import Entries, JointDistribution
from shoal.agency.samples import (
    MARGIN,
    chances_of,
    check_delta,
    class_bound,
    classes_of_weight,
    enough_samples,
    failure_bound,
    fewer_than,
    k_classes,
    least_linked,
    lightest,
    most_classes,
    p_for_samples,
    paper_samples,
    smallest,
    subtract_eta,
    sum_classes,
)
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.errors import UnreachableError, UsageError
from shoal.core.kernels import find_starts, inline_kernel, kernel
from shoal.release.forms import agreed
from shoal.release.release import write_text

Arrangement: TypeAlias = Literal["contiguous", "gathered", "independent"]
ARRANGEMENTS: dict[Arrangement, Callable[[JointDistribution, int, Fraction], Classes]] = {
    "contiguous": greedy_classes,
    "gathered": gather_classes,
    "independent": independent_classes,
}

Records: TypeAlias = Literal["paper", "tight", "linked"]
RECORDS: tuple[Records, ...] = ("paper", "tight", "linked")


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Classes and numbers of records with which releases satisfy the promise, except with probability delta."""

    distribution: JointDistribution
    arrangement: Arrangement
    classes: Classes
    promise: agreed.Promise
    delta: Fraction
    p: Fraction
    eta: Fraction
    m: Fraction
    n: int
    n_tight: int
    records: int  # demanded of each owner
    linked: bool = False  # whether linked releases also keep k records per class

    def failure(self, n: int) -> float:
        """Return an upper bound on the probability that a release of n records breaks the promise."""
        if self.linked or self.promise.model == agreed.ENTROPY:
            kind = "linked releases" if self.linked else "entropy"
            raise UsageError(f"for {kind} the plan has a sufficient number of records, but no bound for other numbers")
        if self.promise.model == agreed.L_DIVERSITY:
            return failure_bound(self.distribution, self.classes.weights, 1, n, self.eta)
        weights = sum_classes(self.distribution.point_weights(), self.classes.number)
        return failure_bound(self.distribution, weights, int(self.promise.least), n, self.eta)


def make_plan(
    distribution: JointDistribution,
    *,
    promise: agreed.Promise | int,
    delta: Fraction,
    p: Fraction | None = None,
    samples: int | None = None,
    eta: Fraction = Fraction(0),
    arrangement: Arrangement = "contiguous",
    records: Records = "paper",
) -> Plan:
    """Plan for a given p, or for the p that makes the most classes from a given number of samples.

    Without either, the samples are the counted records. A chosen p is then raised as far as the
    classes stay the same, which lowers the number of records. *promise* may be a whole number l, which means
    (l,delta)-diversity. Its owners need the paper's number of records or the tight one; other promises have one number.
    For k-anonymity, ``linked`` is the number of records with which k also remain in linked releases.
    """
    kept = promise if isinstance(promise, agreed.Promise) else agreed.Promise(agreed.L_DIVERSITY, promise)
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
    _check_promise(kept, eta, arrangement, records)
    if p is None and samples is None and not distribution.counted:
        raise UsageError("give p or a number of samples: probabilities do not determine the number of records")
    n_samples = samples or distribution.total
    if kept.model != agreed.L_DIVERSITY:  # one number of records; m is the number of classes
        linked = records == "linked"
        number, n = _close_classes(distribution, kept, delta, p or n_samples, eta, linked)
        lightest = distribution.probability(int(sum_classes(distribution.point_weights(), number).min()))
        if p is not None and lightest < p:
            raise UnreachableError(f"the probability of all points together is below {float(p):g}; choose a smaller p")
        n_classes = int(number.max()) + 1
        classes = Classes(number, np.empty((n_classes, 0), np.int64), np.empty((n_classes, 0), np.int32))
        m = Fraction(n_classes)
        return Plan(distribution, "contiguous", classes, kept, delta, p or lightest, eta, m, n, n, n, linked)
    l, arrange = int(kept.least), ARRANGEMENTS[arrangement]
    tight = None if records == "paper" else lambda p: arrange(distribution, l, p).weights
    chosen = p or p_for_samples(distribution, l, delta, n_samples, eta, tight)
    classes = arrange(distribution, l, chosen)
    if p is None:
        chosen = distribution.probability(classes.weakest())
    m = class_bound(distribution.n_points, distribution.tail(l), l, chosen)
    n = paper_samples(m, l, chosen, delta, eta)
    n_tight = min(n, enough_samples(distribution, classes.weights, 1, delta, eta))
    needed = n_tight if records == "tight" else n
    return Plan(distribution, arrangement, classes, kept, delta, chosen, eta, m, n, n_tight, needed)


def _check_promise(promise: agreed.Promise, eta: Fraction, arrangement: Arrangement, records: Records) -> None:
    if promise.model != agreed.L_DIVERSITY and arrangement != "contiguous":
        raise UsageError(f"the arrangement {arrangement!r} is for l-diversity only; other classes are contiguous")
    if records == "linked" and promise.model != agreed.K_ANONYMITY:
        raise UsageError(
            "records for linked releases are for k-anonymity: l-diversity holds for linked releases with any number, "
            "and entropy would need the exact number of the smallest release"
        )
    if eta and promise.model == agreed.ENTROPY:
        raise UsageError("an eta above 0 cannot be carried through to entropies; plan for l-diversity or k-anonymity")


def _close_classes(
    distribution: JointDistribution,
    promise: agreed.Promise,
    delta: Fraction,
    size: Fraction | int,
    eta: Fraction,
    linked: bool,
) -> tuple[CodeArray, int]:
    """Return classes for k-anonymity or entropy, for a probability or a number of samples, and their N."""
    if promise.model == agreed.K_ANONYMITY:
        k = int(promise.least)
        if isinstance(size, int):
            number = k_classes(distribution, k, delta, size, eta, linked)
        else:
            number = classes_of_weight(distribution, size)
        if linked:
            return number, smallest(lambda n: least_linked(distribution, number, n, delta, eta) < k, delta)
        return number, enough_samples(distribution, sum_classes(distribution.point_weights(), number), k, delta, eta)
    l = float(promise.least)
    if isinstance(size, int):
        number = entropy_classes(distribution, l, delta, size)
    else:
        number = close_by_entropy(distribution, l, size)
    return number, entropy_samples(distribution, number, l, delta)


def plan_document(plan: Plan) -> dict[str, object]:
    """Return the content of a plan file, with its digest; a plan that no owner could follow is refused."""
    if plan.n >= agreed.MOST_RECORDS:
        raise UnreachableError(f"the plan would need {plan.n:.3g} records, more than any table has; choose a larger p")
    known, number = plan.distribution, plan.classes.number
    starts = find_starts([number])
    runs = zip((number[starts] + 1).tolist(), np.diff(np.append(starts, len(number))).tolist(), strict=True)
    document: dict[str, object] = {
        "format": agreed.FORMAT,
        "kind": agreed.KIND,
        "quasi": [
            {"name": name, "values": list(values)} for name, values in zip(known.quasi, known.quasi_values, strict=True)
        ],
        "sensitive": {"name": known.sensitive, "values": list(known.sensitive_values)},
        "order": known.order,
        "arrangement": plan.arrangement,
        "promise": plan.promise.document(),
        "delta": round_toward(plan.delta, 1.0),
        "p": round_toward(plan.p, 0.0),
        "eta": float(plan.eta),
        "n": plan.n,
        "n_tight": plan.n_tight,
        "records": plan.records,
        "m": float(plan.m),
        "classes": plan.classes.n_classes,
        "points": [column.tolist() for column in known.points],
        "runs": [list(run) for run in runs],
        "values": plan.classes.values.tolist() if plan.classes.values.size else [],
    }
    return {**document, "digest": agreed.digest_plan(document)}


def round_toward(value: Fraction, end: float) -> float:
    """Return the nearest float on the side of *end*, or the float whose decimal is exactly the fraction.

    >>> round_toward(Fraction("0.1"), 0.0), round_toward(Fraction(1, 3), 0.0) <= Fraction(1, 3)
    (0.1, True)
    """
    near = float(value)
    on_side = Fraction(near) <= value if end < near else Fraction(near) >= value
    return near if Fraction(str(near)) == value or on_side else float(np.nextafter(near, end))


def write_plan(plan: Plan, path: Path) -> dict[str, object]:
    """Write a plan to a new file and return its content."""
    if path.exists() or path.is_symlink():
        raise UsageError(f"{path} exists already; choose another file or remove it first")
    document = plan_document(plan)
    entries = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    write_text(path, "{\n" + ",\n".join(entries) + "\n}\n")
    return document


FEWEST = 3  # records of a class; from here on, more records make a low entropy less probable
SHARES = tuple(Fraction(eighths, 8) for eighths in (2, 3, 4, 5, 6, 7))
USUAL_SHARE = Fraction(1, 2)
WORK_FOR_ENTRY = 200  # approximate time of one try, in reads of all entries
_NONE = Fraction(0)


def close_by_entropy(
    distribution: JointDistribution, l: float, p: Fraction, share: Fraction = USUAL_SHARE
) -> CodeArray:
    """Return (n_points,) runs of points, each with a probability of at least p and an entropy well above ln l.

    The margin is a share of the difference between the entropy of all records and ln l: classes with an entropy just
    above ln l would need an unbounded number of records. Proofs are in ``docs/l-delta-proofs.md``.
    """
    if not 0 < p <= 1:
        raise UsageError(f"p must be above 0 and at most 1, got {float(p):g}")
    least = math.log(l) + float(share) * _spare_entropy(distribution, l)
    return _close_varied(distribution.entries, distribution.threshold(p), least)


def _spare_entropy(distribution: JointDistribution, l: float) -> float:
    """Return the entropy of all records together minus ln l, rounded down."""
    whole = float(class_entropies(distribution, np.zeros(distribution.n_points, dtype=np.int32))[0][0])
    spare = whole - math.log(l)
    if spare <= 2 * MARGIN * whole:
        raise UnreachableError(
            f"all records together have values of {distribution.sensitive!r} as varied as {math.exp(whole):.6g} "
            f"equally frequent ones: no class can be sure of l = {l:g}; choose a smaller l"
        )
    return spare * (1 - MARGIN)


def class_entropies(distribution: JointDistribution, number: CodeArray) -> tuple[FloatArray, IntArray]:
    """Return (n_classes,) the entropy of the sensitive values of each class, and the number of its values."""
    summed = sum_values(distribution, number)
    owner = np.repeat(np.arange(len(summed.start) - 1), summed.distinct)
    shares = summed.counts / np.bincount(owner, weights=summed.counts)[owner]
    information = -shares * np.log(shares)
    return np.bincount(owner, weights=information, minlength=len(summed.start) - 1).astype(np.float64), summed.distinct


def entropy_samples(distribution: JointDistribution, number: CodeArray, l: float, delta: Fraction) -> int:
    """Return N so that all classes have entropy >= ln l among N records with probability at least 1 - delta.

    Half of delta covers classes with too few records, half entropies that are too low. Every class must have an entropy
    above ln l in the distribution itself, which must be exact.
    """
    records = records_wanted(distribution, number, l, delta)
    chances = chances_of(sum_classes(distribution.point_weights(), number), distribution.total, _NONE)
    wanted, group = np.unique(records, return_inverse=True)

    def failing(n: int) -> float:
        return sum(float(fewer_than(int(k), n, chances[group == i]).sum()) for i, k in enumerate(wanted))

    return smallest(failing, delta / 2)


def entropy_classes(distribution: JointDistribution, l: float, delta: Fraction, n: int) -> CodeArray:
    """Return the largest number of classes found for which n records suffice, over several shares of the entropy."""
    check_delta(delta)
    limit = float(delta / 2) * (1 - MARGIN)
    weights, spare = distribution.point_weights(), _spare_entropy(distribution, l)

    def enough(number: CodeArray) -> bool:
        try:
            wanted = records_wanted(distribution, number, l, delta)
        except UnreachableError:
            return False
        chances = chances_of(sum_classes(weights, number), distribution.total, _NONE)
        return float(fewer_bound(wanted, n, chances).sum()) <= limit

    def best(share: Fraction) -> CodeArray | None:
        least = math.log(l) + float(share) * spare
        return most_classes(
            lambda threshold: _close_varied(distribution.entries, threshold, least),
            enough,
            weights,
            min(low, high),
            high,
            WORK_FOR_ENTRY * len(distribution.codes),
        )

    low, high = lightest(distribution, FEWEST, limit, n, _NONE), int(distribution.weights.sum())
    made = [number for number in map(best, SHARES) if number is not None]
    if not made:
        raise UnreachableError(
            f"{n:,} samples are too few for an entropy of ln {l:g} and delta = {float(delta):g}, even with all records "
            "in one class; collect more, or choose a smaller l or a larger delta"
        )
    return max(made, key=lambda number: int(number.max()))


def records_wanted(distribution: JointDistribution, number: CodeArray, l: float, delta: Fraction) -> IntArray:
    """Return (n_classes,) the records with which each class misses ln l with at most its part of delta / 2."""
    check_delta(delta)
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l:g}")
    entropy, values = class_entropies(distribution, number)
    spare = entropy * (1 - MARGIN) - math.log(l) * (1 + MARGIN)
    if short := int((spare <= 0).sum()):
        raise UnreachableError(
            f"in the distribution, {short:,} of {len(spare):,} classes have an entropy of at most ln l = "
            f"{math.log(l):.6g}; make larger classes or choose a smaller l"
        )
    return _records(spare, values.astype(np.float64), float(delta) / 2 / len(spare))


def fewer_bound(records: IntArray, n: int, chances: FloatArray) -> FloatArray:
    """Return an upper bound on Pr[Binomial(n, chance) < records] by Chernoff; 1 if Chernoff gives no bound."""
    share = (records - 1) / n
    with np.errstate(divide="ignore", invalid="ignore"):
        upper = np.where(share > 0, share * np.log(share / chances), 0.0)
        apart = upper + (1 - share) * (np.log1p(-share) - np.log1p(-chances))
        bound = np.exp(-n * apart) * (1 + MARGIN)
    return np.where((share < chances) & (chances < 1), bound, np.where(share < chances, 0.0, 1.0))


def entropy_tail(records: FloatArray, spare: FloatArray, values: FloatArray) -> FloatArray:
    """Return an upper bound on the probability that this many records of a class have an entropy of at most ln l.

    exp(-2 n e^2 / (1 + ln n)^2) with e = spare - ln(1 + (values - 1)/n); 1 if e is not positive.
    """
    excess = np.maximum(spare - np.log1p((values - 1) / records), 0.0)
    return np.asarray(np.exp(-2 * records * excess**2 / (1 + np.log(records)) ** 2) * (1 + MARGIN))


def _records(spare: FloatArray, values: FloatArray, limit: float) -> IntArray:
    """Return the smallest numbers of records, at least 3, whose tail is below the limit: the tail falls from 3 on."""
    low = np.full(len(spare), FEWEST - 1, dtype=np.int64)
    high = np.full(len(spare), 2**40, dtype=np.int64)
    if (entropy_tail(high.astype(np.float64), spare, values) > limit).any():
        raise UnreachableError("the entropy of a class is so close to ln l that no number of records suffices")
    while (high - low > 1).any():
        middle = (low + high) // 2
        fails = entropy_tail(middle.astype(np.float64), spare, values) > limit
        apart = high - low > 1
        low = np.where(apart & fails, middle, low)
        high = np.where(apart & ~fails, middle, high)
    return high.astype(np.int64)


@inline_kernel
def _add_point(entries: Entries, point: int, sums: IntArray) -> tuple[int, float]:
    """Add a point to the sums of a class; return its weight and the increase of the sum of w ln w."""
    weight = 0
    logs = 0.0
    for entry in range(entries.starts[point], entries.starts[point + 1]):
        before = sums[entries.codes[entry]]
        after = before + entries.weights[entry]
        sums[entries.codes[entry]] = after
        weight += entries.weights[entry]
        logs += after * np.log(after)
        if before > 0:
            logs -= before * np.log(before)
    return weight, logs


@kernel
def _close_varied(entries: Entries, threshold: int, least: float) -> CodeArray:
    """Return (n_points,) the class of each point; a class ends once its weight and entropy suffice.

    An unfinished tail joins the class before it, and further ones, until they suffice together.
    """
    n_points = len(entries.starts) - 1
    number = np.empty(n_points, dtype=np.int32)
    sums = np.zeros(entries.n_values, dtype=np.int64)
    weight = 0
    logs = 0.0  # the sum of w ln w: the entropy is ln(weight) - logs/weight
    current = 0
    for point in range(n_points):
        number[point] = current
        added, more = _add_point(entries, point, sums)
        weight += added
        logs += more
        if weight > 0 and weight >= threshold and np.log(weight) - logs / weight >= least:
            current += 1
            weight = 0
            logs = 0.0
            sums[:] = 0
    if number[n_points - 1] < current:
        return number
    point = n_points - 1
    while point >= 0 and number[point] == current:
        point -= 1
    while point >= 0:
        joined = number[point]
        while point >= 0 and number[point] == joined:
            added, more = _add_point(entries, point, sums)
            weight += added
            logs += more
            point -= 1
        current = joined
        if weight >= threshold and np.log(weight) - logs / weight >= least:
            break
    number[point + 1 :] = current
    return number

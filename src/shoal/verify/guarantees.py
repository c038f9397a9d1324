"""Each promise recomputed from the published rows, by formulas written for this purpose alone.

Induced frequencies: what generalized sensitive labels say about the values under them.

A record whose sensitive value is published as a label spreads its weight over the values under the label, in
proportion to the adversary's weights (Tian and Zhang, (tau, l)-diversity).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.coding import Subject
from shoal.verify.confidence import confidence
from shoal.verify.counting import Histograms
from shoal.verify.distances import equal_distance, hierarchical_distance, largest_product, ordered_distance
from shoal.verify.exact import WIDEST, CannotCheckError, at_most, check_size, entropies, entropy_at_least, ratio, roomy
from shoal.verify.manifest import Manifest
from shoal.verify.promises import Promise
from shoal.verify.result import CheckedGuarantee

_FINEST = 900  # bits of a record's units; sums of them are still numbers that floating point knows
_MISSING = None
_AGREES = 1e-9
_ROUNDING = 1e-12
_MOST_LIMITS = 100_000  # of a curve psi; whoever writes a larger l into a manifest wants the checker to be busy
Totals = Mapping[str, IntArray]  # name of a population -> (n_classes,) its rows that each class covers
Found = tuple[BoolArray, FloatArray]  # for each class: does it hold, and what does it reach


def _distinct(promise: Promise, histograms: Histograms) -> Found:
    kinds = np.diff(histograms.start)
    return kinds >= promise.whole("l"), kinds.astype(np.float64)


def _simple(promise: Promise, histograms: Histograms) -> Found:
    largest = np.maximum.reduceat(histograms.count, histograms.start[:-1])
    return at_most(largest, histograms.sizes, 1 / promise.fraction("l")), ratio(histograms.sizes, largest)


def _entropy(promise: Promise, histograms: Histograms) -> Found:
    return entropy_at_least(histograms, promise.fraction("l")), np.exp(entropies(histograms))


def _recursive(promise: Promise, histograms: Histograms) -> Found:
    l = promise.whole("l")
    first, counts = histograms.start[:-1], _descending(histograms)
    largest = counts[first]
    rank = np.arange(counts.shape[0]) - first[histograms.owner]
    tail = np.add.reduceat(np.where(rank >= l - 1, counts, 0), first)
    some = tail > 0
    reached = np.full(largest.shape[0], math.inf)
    reached[some] = ratio(largest[some], tail[some])
    holds = np.full(largest.shape[0], l == 1, dtype=np.bool_)
    if l > 1:
        holds[some] = at_most(largest[some], tail[some], promise.fraction("c"), strict=True)
    return holds, reached


def psi_limits(promise: Promise) -> list[Fraction]:
    """Return psi(0), ..., psi(l - 1): what the most frequent values may make up together."""
    l, tau, psi = promise.whole("l"), promise.fraction("tau"), promise.parameters["psi"]
    if psi is None:
        if l > _MOST_LIMITS:
            raise CannotCheckError(f"l is above {_MOST_LIMITS:,}")
        return [tau + (1 - tau) * Fraction(k, l - 1) for k in range(l)]
    limits = [Fraction(str(limit)) for limit in psi]
    if limits[0] != tau:
        raise CannotCheckError("psi does not begin with tau")
    return limits


def _tau(promise: Promise, histograms: Histograms) -> Found:
    tau, limits = promise.fraction("tau"), psi_limits(promise)
    l = len(limits)
    first, counts = histograms.start[:-1], _descending(histograms)
    rank = np.arange(counts.shape[0]) - first[histograms.owner]
    holds = np.ones(first.shape[0], dtype=np.bool_)
    reached = np.zeros(first.shape[0], dtype=np.float64)
    top = np.zeros_like(histograms.sizes)
    for k in range(min(l - 1, int(rank.max()) + 1)):
        # top: (n_classes,) units of the k + 1 most frequent values
        top += np.add.reduceat(np.where(rank == k, counts, 0), first)
        holds &= at_most(top, histograms.sizes, limits[k])
        # Another tau bends the curve so that 1 - psi(k) stays in proportion to 1 - tau.
        bend = 1 - Fraction(k, l - 1) if tau == 1 else (1 - limits[k]) / (1 - tau)
        if bend > 0:
            reached = np.maximum(reached, 1 - (1 - ratio(top, histograms.sizes)) / float(bend))
    return holds, reached


def _alpha(promise: Promise, histograms: Histograms) -> Found:
    largest = np.maximum.reduceat(histograms.count, histograms.start[:-1])
    holds = at_most(largest, histograms.sizes, promise.fraction("alpha"))
    enough = histograms.sizes >= promise.whole("k")
    return holds & enough, ratio(largest, histograms.sizes)


def _beta(promise: Promise, histograms: Histograms) -> Found:
    # (p - q) / q = (c N - n C) / (n C), for values with p > q
    histograms = roomy(histograms, histograms.total * int(histograms.sizes.max()))
    whole, total = histograms.whole[histograms.value], histograms.total
    bottom = histograms.sizes[histograms.owner] * whole
    top = np.maximum(histograms.count * total - bottom, 0)
    gain = ratio(top, bottom)
    holds = at_most(top, bottom, promise.fraction("beta"))
    if promise.parameters["enhanced"]:
        limit = -np.log(ratio(whole, total))
        holds &= (top == 0) | (gain <= limit * (1 - _ROUNDING))
    first = histograms.start[:-1]
    return np.logical_and.reduceat(holds, first), np.maximum.reduceat(gain, first)


def _disclosure(promise: Promise, histograms: Histograms) -> Found:
    histograms = roomy(histograms, histograms.total * int(histograms.sizes.max()))
    whole, total = histograms.whole, histograms.total
    top = histograms.count * total
    bottom = histograms.sizes[histograms.owner] * whole[histograms.value]
    change = np.abs(np.log(ratio(top, bottom)))
    change[top == bottom] = 0.0
    reached = np.maximum.reduceat(change, histograms.start[:-1])
    reached[np.diff(histograms.start) < histograms.n_values] = math.inf
    return reached + _ROUNDING * (1 + reached) < float(promise.fraction("delta")), reached


def _closeness(promise: Promise, histograms: Histograms, attribute: Attribute | None) -> Found:
    distance = promise.parameters["distance"]
    histograms = roomy(histograms, largest_product(histograms, attribute))
    if distance == "equal":
        top, factor = equal_distance(histograms)
    elif attribute is None:
        raise CannotCheckError("joint values have no order and no taxonomy")
    elif distance == "ordered":
        top, factor = ordered_distance(histograms, attribute)
    else:
        top, factor = hierarchical_distance(histograms, attribute)
    bottom = histograms.sizes * histograms.total
    return at_most(top, bottom, promise.fraction("t") * factor), ratio(top, bottom) / factor


_BY_VALUES: Mapping[str, Callable[[Promise, Histograms], Found]] = {
    "distinct-l-diversity": _distinct,
    "simple-l-diversity": _simple,
    "entropy-l-diversity": _entropy,
    "recursive-cl-diversity": _recursive,
    "tau-l-diversity": _tau,
    "alpha-k-anonymity": _alpha,
    "beta-likeness": _beta,
    "confidence-bounding": confidence,
    "delta-disclosure": _disclosure,
}
_AT_LEAST = {
    "k-anonymity",
    "column-frequency",
    "distinct-l-diversity",
    "simple-l-diversity",
    "entropy-l-diversity",
    "k-map",
}


def _descending(histograms: Histograms) -> IntArray:
    """Return the counts of each class, largest first."""
    order = np.lexsort((-histograms.count, histograms.owner))
    return histograms.count[order]


def _by_population(promise: Promise, sizes: IntArray, totals: IntArray) -> Found:
    if promise.model == "k-map":
        return totals >= promise.whole("k"), totals.astype(np.float64)
    low, high = promise.fraction("min"), promise.fraction("max")
    some = totals > 0
    reached = np.full(sizes.shape[0], math.inf)
    reached[some] = sizes[some] / totals[some]
    holds = some & (sizes > 0)
    holds[some] &= at_most(sizes[some], totals[some], high)
    if low > 0:
        holds[some] &= at_most(totals[some], sizes[some], 1 / low)
    return holds, reached


def _find(
    promise: Promise, manifest: Manifest, sizes: IntArray, histograms: Mapping[Subject, Histograms], totals: Totals
) -> list[Found]:
    if promise.model == "k-anonymity":
        return [(sizes >= promise.whole("k"), sizes.astype(np.float64))]
    if promise.model == "column-frequency":
        raise CannotCheckError("only a sliced release has parts to promise this model of")
    if promise.model in ("k-map", "delta-presence"):
        if promise.parameters["population"] not in totals:
            raise CannotCheckError("its population table is not given; pass it to check this promise")
        return [_by_population(promise, sizes, totals[promise.parameters["population"]])]
    by_name = {attribute.name: attribute for attribute in manifest.attributes}
    found = []
    for subject in promise.subjects:
        values = histograms[subject]
        if any(by_name[name].boxed for name in subject):
            if len(subject) > 1:
                raise CannotCheckError("its joint values are generalized, which only single attributes may be")
            if promise.model != "tau-l-diversity":
                raise CannotCheckError(f"values of {subject[0]!r} are generalized, which only tau-l-diversity allows")
            values = induced(values, by_name[subject[0]], promise.parameters.get("weights"))
        found.append(reached_by(promise, values, by_name[subject[0]] if len(subject) == 1 else None))
    return found


def reached_by(promise: Promise, histograms: Histograms, attribute: Attribute | None) -> Found:
    """Return whether each class keeps a promise about sensitive values, and what it reaches.

    *attribute* is None if the values are joint ones of several attributes.
    """
    if promise.model == "t-closeness":
        return _closeness(promise, histograms, attribute)
    return _BY_VALUES[promise.model](promise, histograms)


@dataclass(frozen=True, slots=True)
class Judged:
    """What some classes make of a promise."""

    classes: int
    failing: int
    achieved: float
    obstacle: str | None = None  # why it cannot be checked

    def joined(self, other: Judged, promise: Promise) -> Judged:
        """Return what both, of different classes, make of it."""
        achieved = worst_of(promise)(self.achieved, other.achieved)
        obstacle = self.obstacle or other.obstacle
        return Judged(self.classes + other.classes, self.failing + other.failing, achieved, obstacle)


def judge(
    promise: Promise, manifest: Manifest, sizes: IntArray, histograms: Mapping[Subject, Histograms], totals: Totals
) -> Judged:
    """Return how many classes break a promise, and the worst that is reached; there is at least one class.

    *totals* tells, for each population that is given, how many rows of it each class covers.
    """
    if promise.obstacle:
        return Judged(sizes.shape[0], 0, math.nan, promise.obstacle)
    try:
        found = _find(promise, manifest, sizes, histograms, totals)
    except CannotCheckError as obstacle:
        return Judged(sizes.shape[0], 0, math.nan, f"cannot check: {obstacle}")
    failing = np.zeros(sizes.shape[0], dtype=np.bool_)
    for holds, _ in found:
        failing |= ~holds
    worst = worst_of(promise)
    achieved = worst(float(worst(reached)) for _, reached in found)
    return Judged(sizes.shape[0], int(failing.sum()), achieved)


def conclude(
    promise: Promise, manifest: Manifest, judged: Judged | None, uncovered: int, *, with_source: bool
) -> CheckedGuarantee:
    """Return the promise beside what all classes keep; in doubt it does not hold.

    *uncovered* is the number of rows of its population that no class covers.
    """

    def answer(achieved: float | None, ok: bool, detail: str) -> CheckedGuarantee:
        return CheckedGuarantee(
            promise.model, promise.parameters, promise.claimed, achieved, ok, detail, promise.counts
        )

    if promise.obstacle:
        return answer(None, False, promise.obstacle)
    if judged is None:
        return answer(None, False, "an empty release keeps no promise")
    if judged.obstacle:
        return answer(None, False, judged.obstacle)
    failing = judged.failing
    if promise.model == "delta-presence" and uncovered and promise.fraction("min") > 0:
        failing = judged.classes  # of whom no class covers, everybody knows that they are not in the table
    if failing:
        return answer(judged.achieved, False, f"{failing} of {judged.classes} classes do not keep it")
    if not agrees(promise.claimed, judged.achieved):
        return answer(judged.achieved, False, "the manifest's 'achieved' is not what the rows reach")
    grounds = _grounds(promise, manifest, with_source)
    if promise.counts is not None:
        grounds = f", counted by {promise.counts}"
    return answer(judged.achieved, True, f"all {judged.classes} classes keep it{grounds}")


def worst_of(promise: Promise) -> Callable[..., float]:
    """Return which of several figures is the worst: the least, or the greatest."""
    return min if promise.model in _AT_LEAST else max


def agrees(claimed: float | None, achieved: float) -> bool:
    """Whether the manifest claims what was found."""
    return claimed is not None and math.isclose(claimed, achieved, rel_tol=_AGREES, abs_tol=_AGREES)


def _grounds(promise: Promise, manifest: Manifest, with_source: bool) -> str:
    """Say what the answer rests on if sensitive values are generalized; a source shows which values occur."""
    boxed = {attribute.name for attribute in manifest.attributes if attribute.boxed}
    if not any(name in boxed for subject in promise.subjects for name in subject):
        return ""
    return ", on frequencies induced from the values that " + (
        "labels cover" if with_source else "occur according to the manifest"
    )


def induced(histograms: Histograms, attribute: Attribute, weights: Mapping[str, float] | None) -> Histograms:
    """Return histograms over base values, each record cut into so many units that all shares are whole.

    Without *weights* all values under a label are equally likely; with them, those that have none are ruled out.
    Units that 64 bits cannot count are counted by Python's integers.
    """
    shares = [_shares(value, attribute, weights) for value in histograms.values]
    factor = math.lcm(*(share.denominator for spread in shares for share in spread.values()))
    if factor.bit_length() > _FINEST:
        raise CannotCheckError("its induced frequencies are too fine to be compared exactly")
    codes: dict[str | None, int] = {}
    for spread in shares:
        for leaf in spread:
            codes.setdefault(leaf, len(codes))
    pieces = np.array([len(spread) for spread in shares], dtype=np.int64)
    first = np.cumsum(pieces) - pieces
    leaves = np.array([codes[leaf] for spread in shares for leaf in spread], dtype=np.int64)
    # Each entry becomes as many entries as there are values under its label; then equal values are joined.
    repeats = pieces[histograms.value]
    wide = factor * histograms.total >= WIDEST
    if wide:
        check_size(int(repeats.sum()))
    kind = np.dtype(object if wide else np.int64)
    units = np.array([int(share * factor) for spread in shares for share in spread.values()], dtype=kind)
    place = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    place += np.repeat(first[histograms.value], repeats)
    keys = np.repeat(histograms.owner, repeats) * len(codes) + leaves[place]
    joined, back = np.unique(keys, return_inverse=True)
    counts = np.zeros(joined.shape[0], dtype=kind)
    np.add.at(counts, back, np.repeat(histograms.count.astype(kind), repeats) * units[place])
    start = np.searchsorted(joined, np.arange(histograms.sizes.shape[0] + 1) * len(codes))
    return Histograms(
        sizes=histograms.sizes.astype(kind) * factor,
        start=start.astype(np.int64),
        value=joined % len(codes),
        count=counts,
        values=tuple(codes),
        n_values=len(codes),
    )


def _shares(value: str | None, attribute: Attribute, weights: Mapping[str, float] | None) -> dict[str | None, Fraction]:
    """Return how one record with this published value spreads over base values."""
    if value is None:
        return {_MISSING: Fraction(1)}
    cover = (attribute.labels or {}).get(value)
    if cover is None:
        raise CannotCheckError(f"{attribute.name!r} has texts that are no labels of the manifest")
    under: list[str | None] = list(cover.get("values", ()))
    if cover.get("missing"):
        under.append(_MISSING)
    if len(under) == 1:
        return {under[0]: Fraction(1)}
    amounts = {leaf: _weight(leaf, weights) for leaf in under}
    total = sum(amounts.values())
    if not total:
        raise CannotCheckError(f"a label of {attribute.name!r} covers no value that has a weight")
    return {leaf: amount / total for leaf, amount in amounts.items() if amount}


def _weight(leaf: str | None, weights: Mapping[str, float] | None) -> Fraction:
    if leaf is _MISSING or not weights:
        return Fraction(1)
    return Fraction(str(weights.get(leaf, 0)))

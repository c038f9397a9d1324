"""Each promise of the manifest judged on the classes of the published rows, and the answer in a sentence.

Generalized sensitive labels *induce* frequencies: a record spreads its weight over the values under its label, in
proportion to the adversary's weights (Tian and Zhang, (tau, l)-diversity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.core.arrays import IntArray
from shoal.core.dictionaries import fold_text
from shoal.manifest import Attribute
from shoal.verify.exact import WIDEST, CannotCheckError, Histograms, check_size
from shoal.verify.promises import Found, Promise, count_covered, count_only, evaluate, find_model, worst_of
from shoal.verify.result import CheckedGuarantee

if TYPE_CHECKING:
    from shoal.verify.manifest import Manifest

_FINEST = 900  # bits of a record's units; sums of them are still numbers that floating point knows
_MISSING = None
_AGREES = 1e-9
Subject = tuple[str, ...]  # a sensitive attribute, or several whose joint values are judged
Totals = Mapping[str, IntArray]  # name of a population -> (n_classes,) its rows that each class covers


@dataclass(frozen=True, slots=True)
class Judged:
    """What some classes make of a promise."""

    classes: int
    failing: int
    achieved: float
    obstacle: str | None = None  # why it cannot be checked
    sizes: IntArray | None = None  # (classes,) of a promise about all classes together

    def join(self, other: Judged, promise: Promise) -> Judged:
        """Return what both, of different classes, make of it."""
        if self.sizes is not None and other.sizes is not None:
            return judge_together(promise, np.concatenate([self.sizes, other.sizes]))
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
    if is_together(promise):
        return judge_together(promise, sizes)
    try:
        found = _evaluate_all(promise, manifest, sizes, histograms, totals)
    except CannotCheckError as obstacle:
        return Judged(sizes.shape[0], 0, math.nan, f"cannot check: {obstacle}")
    failing = np.zeros(sizes.shape[0], dtype=np.bool_)
    for holds, _ in found:
        failing |= ~holds
    worst = worst_of(promise)
    achieved = worst(float(worst(reached.min(), reached.max())) for _, reached in found)
    return Judged(sizes.shape[0], int(failing.sum()), achieved)


def is_together(promise: Promise) -> bool:
    """Whether a promise is about all classes together, and not about each."""
    model = find_model(promise.model)
    return model is not None and model.about == "table"


def judge_together(promise: Promise, sizes: IntArray) -> Judged:
    """Return what classes of these sizes together make of a promise, and keep the sizes for more of them."""
    n = sizes.shape[0]
    try:
        if promise.counts is not None:
            raise CannotCheckError("it is about records, and the release counts people")
        holds, reached = evaluate(promise, count_only(sizes), None)
    except CannotCheckError as obstacle:
        return Judged(n, 0, math.nan, f"cannot check: {obstacle}", sizes)
    return Judged(n, 0 if holds.all() else n, float(reached.max()), None, sizes)


def _evaluate_all(
    promise: Promise, manifest: Manifest, sizes: IntArray, histograms: Mapping[Subject, Histograms], totals: Totals
) -> list[Found]:
    """Return what each subject of a promise, or its classes as they are, make of it."""
    model = find_model(promise.model)
    if model is not None and model.about == "population":
        if promise.parameters["population"] not in totals:
            raise CannotCheckError("its population table is not given; pass it to check this promise")
        return [evaluate(promise, count_covered(sizes, totals[promise.parameters["population"]]), None)]
    if model is None or model.about != "values":
        return [evaluate(promise, count_only(sizes), None)]
    by_name = {attribute.name: attribute for attribute in manifest.attributes}
    found = []
    for subject in promise.subjects:
        values = histograms[subject]
        if any(by_name[name].boxed for name in subject):
            if len(subject) > 1:
                raise CannotCheckError("its joint values are generalized, which only single attributes may be")
            if not model.labels:
                raise CannotCheckError(f"values of {subject[0]!r} are generalized, which only tau-l-diversity allows")
            values = induce_frequencies(values, by_name[subject[0]], promise.parameters.get("weights"))
        found.append(evaluate(promise, values, by_name[subject[0]] if len(subject) == 1 else None))
    return found


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
    if uncovered and promise.parameters.get("min", 0) > 0:
        failing = judged.classes  # of whom no class covers, everybody knows that they are not in the table
    if failing:
        which = "all classes together" if is_together(promise) else f"{failing} of {judged.classes} classes"
        return answer(judged.achieved, False, f"{which} do not keep it")
    if not agrees(promise.claimed, judged.achieved):
        return answer(judged.achieved, False, "the manifest's 'achieved' is not what the rows reach")
    grounds = _grounds(promise, manifest, with_source)
    if promise.counts is not None:
        grounds = f", counted by {promise.counts}"
    together = " together" if is_together(promise) else ""
    return answer(judged.achieved, True, f"all {judged.classes} classes{together} keep it{grounds}")


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


def induce_frequencies(histograms: Histograms, attribute: Attribute, weights: Mapping[str, float] | None) -> Histograms:
    """Return histograms over base values, each record cut into so many units that all shares are whole.

    Without *weights* all values under a label are equally likely; with them, those that have none are ruled out.
    Units that 64 bits cannot count are counted by Python's integers.
    """
    shares = [spread_label(value, attribute, weights) for value in histograms.values]
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


def spread_label(
    value: str | None, attribute: Attribute, weights: Mapping[str, float] | None
) -> dict[str | None, Fraction]:
    """Return how one record with this published value spreads over base values, all spellings of one being one."""
    if value is None:
        return {_MISSING: Fraction(1)}
    cover = (attribute.labels or {}).get(value)
    if cover is None:
        raise CannotCheckError(f"{attribute.name!r} has values that are not labels of the manifest")
    under: list[str | None] = list(cover.get("values", ()))
    if cover.get("missing"):
        under.append(_MISSING)
    amounts = {None if leaf is _MISSING else fold_text(leaf): _weigh(leaf, weights) for leaf in under}
    if len(amounts) == 1:
        return {next(iter(amounts)): Fraction(1)}
    total = sum(amounts.values())
    if not total:
        raise CannotCheckError(f"a label of {attribute.name!r} covers no value that has a weight")
    return {leaf: amount / total for leaf, amount in amounts.items() if amount}


def _weigh(leaf: str | None, weights: Mapping[str, float] | None) -> Fraction:
    if leaf is _MISSING or not weights:
        return Fraction(1)
    return Fraction(str(weights.get(leaf, 0)))

"""How many records give every class entropy l-diversity; proofs in ``docs/l-delta-proofs.md``."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shoal.agency.distribution import JointDistribution
from shoal.agency.k_anonymity import class_weights, fewer_than
from shoal.agency.samples import MARGIN, check_delta, smallest
from shoal.arrays import CodeArray, FloatArray, IntArray
from shoal.errors import UnreachableError, UsageError


def class_entropies(distribution: JointDistribution, number: CodeArray) -> tuple[FloatArray, IntArray]:
    """Return (n_classes,) the entropy of the sensitive values of each class, and how many values it has."""
    class_of = np.repeat(number.astype(np.int64), np.diff(distribution.starts))
    keys, inverse = np.unique(class_of * distribution.n_values + distribution.codes, return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, inverse, distribution.weights)
    owner = keys // distribution.n_values
    shares = sums / class_weights(distribution, number)[owner]
    n_classes = int(number.max()) + 1
    entropies = np.bincount(owner, weights=-shares * np.log(shares), minlength=n_classes)
    return entropies.astype(np.float64), np.bincount(owner, minlength=n_classes).astype(np.int64)


def entropy_samples(distribution: JointDistribution, number: CodeArray, l: float, delta: Fraction) -> int:
    """Return N so that all classes have entropy >= ln l among N records with probability at least 1 - delta.

    Half of delta pays for classes with too few records, half for entropies that come out too low. Every class must
    have an entropy above ln l in the distribution itself, which must be exact.
    """
    check_delta(delta)
    if l < 1:
        raise UsageError(f"l must be at least 1, got {l:g}")
    entropies, values = class_entropies(distribution, number)
    spare = entropies * (1 - MARGIN) - math.log(l) * (1 + MARGIN)
    if short := int((spare <= 0).sum()):
        raise UnreachableError(
            f"{short:,} of {len(spare):,} classes have no entropy above ln l = {math.log(l):.6g} even in the "
            "distribution; make larger classes or ask for a smaller l"
        )
    each = float(delta) / 2 / len(spare)
    records = _records(spare, values.astype(np.float64), each)
    chances = np.clip(class_weights(distribution, number) / distribution.total * (1 - 1e-15), 0.0, 1.0)
    wanted, group = np.unique(records, return_inverse=True)

    def failing(n: int) -> float:
        return sum(float(fewer_than(int(k), n, chances[group == i]).sum()) for i, k in enumerate(wanted))

    return smallest(failing, delta / 2)


def entropy_tail(records: FloatArray, spare: FloatArray, values: FloatArray) -> FloatArray:
    """Return what the probability is at most that so many records of a class have an entropy of ln l or less.

    exp(-2 n e^2 / (1 + ln n)^2) with e = spare - ln(1 + (values - 1)/n); 1 if e is not positive.
    """
    room = np.maximum(spare - np.log1p((values - 1) / records), 0.0)
    return np.asarray(np.exp(-2 * records * room**2 / (1 + np.log(records)) ** 2) * (1 + MARGIN))


def _records(spare: FloatArray, values: FloatArray, limit: float) -> IntArray:
    """Return the smallest numbers of records, from 3 on, whose tail is below the limit: it falls from there."""
    low = np.full(len(spare), 2, dtype=np.int64)
    high = np.full(len(spare), 2**40, dtype=np.int64)
    if (entropy_tail(high.astype(np.float64), spare, values) > limit).any():
        raise UnreachableError("a class has so little entropy above ln l that no number of records is enough")
    while (high - low > 1).any():
        middle = (low + high) // 2
        fails = entropy_tail(middle.astype(np.float64), spare, values) > limit
        apart = high - low > 1
        low = np.where(apart & fails, middle, low)
        high = np.where(apart & ~fails, middle, high)
    return high.astype(np.int64)

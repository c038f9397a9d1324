"""Induced frequencies: what generalized sensitive labels say about the values under them.

A record whose sensitive value is published as a label spreads its weight over the values under the label, in
proportion to the adversary's weights (Tian and Zhang, (tau, l)-diversity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from shoal.verify.attributes import Attribute
from shoal.verify.counting import Histograms
from shoal.verify.exact import WIDEST, CannotCheckError, check_size

_FINEST = 900  # bits of a record's units; sums of them are still numbers that floating point knows
_MISSING = None


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

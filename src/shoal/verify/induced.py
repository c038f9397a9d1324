"""Induced frequencies: what generalized sensitive labels say about the values under them.

A record whose sensitive value is published as a label spreads its weight over the values under the label, in
proportion to the adversary's weights (Tian and Zhang, (tau, l)-diversity).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from shoal.verify.counting import Histograms
from shoal.verify.exact import CannotCheckError
from shoal.verify.manifest import Attribute

_WIDEST = 2**62
_MISSING = None


def induced(histograms: Histograms, attribute: Attribute, weights: Mapping[str, float] | None) -> Histograms:
    """Return histograms over base values, all counts multiplied by one common factor to stay whole."""
    shares = [_shares(value, attribute, weights) for value in histograms.values]
    factor = math.lcm(*(share.denominator for spread in shares for share in spread.values()))
    if factor * int(histograms.sizes.max()) >= _WIDEST:
        raise CannotCheckError("its induced frequencies are too fine to be compared exactly")
    codes: dict[str | None, int] = {}
    for spread in shares:
        for leaf in spread:
            codes.setdefault(leaf, len(codes))
    pieces = np.array([len(spread) for spread in shares], dtype=np.int64)
    first = np.cumsum(pieces) - pieces
    leaves = np.array([codes[leaf] for spread in shares for leaf in spread], dtype=np.int64)
    units = np.array([int(share * factor) for spread in shares for share in spread.values()], dtype=np.int64)
    # Each entry becomes as many entries as there are values under its label; then equal values are joined.
    repeats = pieces[histograms.value]
    place = np.arange(int(repeats.sum())) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    place += np.repeat(first[histograms.value], repeats)
    keys = np.repeat(histograms.owner, repeats) * len(codes) + leaves[place]
    amounts = np.repeat(histograms.count, repeats) * units[place]
    joined, back = np.unique(keys, return_inverse=True)
    counts = np.zeros(joined.shape[0], dtype=np.int64)
    np.add.at(counts, back, amounts)
    start = np.searchsorted(joined, np.arange(histograms.sizes.shape[0] + 1) * len(codes))
    return Histograms(
        sizes=histograms.sizes * factor,
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
    labels = attribute.labels or {}
    known = _known(attribute, weights)
    cover = labels.get(value, {"values": [value]})
    under: list[str | None] = list(known) if cover.get("any") else list(cover.get("values", ()))
    if cover.get("missing"):
        under.append(_MISSING)
    if len(under) == 1:
        return {under[0]: Fraction(1)}
    amounts = {leaf: known.get(leaf, Fraction(int(leaf is _MISSING))) for leaf in under}
    total = sum(amounts.values())
    if not total:
        raise CannotCheckError(f"a label of {attribute.name!r} covers no value that has a weight")
    return {leaf: amount / total for leaf, amount in amounts.items() if amount}


def _known(attribute: Attribute, weights: Mapping[str, float] | None) -> dict[str | None, Fraction]:
    if weights:
        return {leaf: Fraction(str(weight)) for leaf, weight in weights.items()}
    if attribute.order is not None:
        return dict.fromkeys(attribute.order, Fraction(1))
    covers = (attribute.labels or {}).values()
    return {leaf: Fraction(1) for cover in covers for leaf in cover.get("values", ())}

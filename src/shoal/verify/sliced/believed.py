"""Every promise judged on beliefs in floating point: it holds only if it does so by more than rounding can hide.

For a tuple of which all groups keep a promise in whole numbers this is not asked: a mixture of distributions that
keep one of these models keeps it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from shoal.core.arrays import BoolArray, FloatArray, IntArray
from shoal.manifest import Attribute
from shoal.verify.confidence import largest_harmful
from shoal.verify.counting import Histograms
from shoal.verify.distances import nodes_of, ranks_of
from shoal.verify.exact import CannotCheckError
from shoal.verify.guarantees import Found, psi_limits
from shoal.verify.kernels import kernel
from shoal.verify.promises import Promise
from shoal.verify.sliced.mixtures import Block

_MARGIN = 1e-9  # relative
_ROUNDING = 1e-12  # absolute, of differences that can be small while their terms are not


def _below(found: FloatArray, limit: FloatArray | float) -> BoolArray:
    return np.asarray(found <= np.asarray(limit) * (1 - _MARGIN), dtype=np.bool_)


def _largest(block: Block) -> FloatArray:
    return np.asarray(np.maximum.reduceat(block.share, block.start[:-1]), dtype=np.float64)


def _distinct(promise: Promise, block: Block) -> Found:
    kinds = np.diff(block.start)
    return kinds >= promise.whole("l"), kinds.astype(np.float64)


def _simple(promise: Promise, block: Block) -> Found:
    largest, l = _largest(block), float(promise.fraction("l"))
    return _below(largest, 1 / l) | (l <= 1), 1 / largest


def _entropy(promise: Promise, block: Block) -> Found:
    reached = np.exp(-np.add.reduceat(block.share * np.log(block.share), block.start[:-1]))
    l = float(promise.fraction("l"))
    return (reached >= l * (1 + _MARGIN)) | (l <= 1), reached


def _ranked(block: Block) -> tuple[FloatArray, IntArray]:
    """Return the shares of every tuple, largest first, and the rank of each from 0 on."""
    owner = np.repeat(np.arange(block.start.shape[0] - 1), np.diff(block.start))
    order = np.lexsort((-block.share, owner))
    return block.share[order], np.arange(owner.shape[0]) - block.start[owner]


def _recursive(promise: Promise, block: Block) -> Found:
    l, c = promise.whole("l"), float(promise.fraction("c"))
    shares, rank = _ranked(block)
    first = block.start[:-1]
    largest, tail = shares[first], np.add.reduceat(np.where(rank >= l - 1, shares, 0.0), first)
    reached = np.full(largest.shape[0], math.inf)
    np.divide(largest, tail, out=reached, where=tail > 0)
    return _below(largest, c * tail) | (l == 1), reached


def _tau(promise: Promise, block: Block) -> Found:
    tau, limits = promise.fraction("tau"), psi_limits(promise)
    l = len(limits)
    shares, rank = _ranked(block)
    top = np.zeros(block.start.shape[0] - 1)
    holds, reached = np.ones(top.shape[0], dtype=np.bool_), np.zeros(top.shape[0])
    for k in range(min(l - 1, int(rank.max()) + 1)):
        top += np.add.reduceat(np.where(rank == k, shares, 0.0), block.start[:-1])
        if limits[k] < 1:
            holds &= _below(top, float(limits[k]))
        bend = 1 - Fraction(k, l - 1) if tau == 1 else (1 - limits[k]) / (1 - tau)
        if bend > 0:
            reached = np.maximum(reached, 1 - (1 - top) / float(bend))
    return holds, reached


def _beta(promise: Promise, block: Block, histograms: Histograms) -> Found:
    share = (histograms.whole / histograms.total)[block.value]
    gain = np.maximum(block.share / share - 1, 0.0)
    limit = np.full(gain.shape[0], float(promise.fraction("beta")))
    if promise.parameters["enhanced"]:
        limit = np.minimum(limit, -np.log(share))
    first = block.start[:-1]
    return np.logical_and.reduceat(_below(gain + _ROUNDING, limit), first), np.maximum.reduceat(gain, first)


def _confidence(promise: Promise, block: Block, histograms: Histograms) -> Found:
    reached = largest_harmful(promise, histograms, block.start, block.value, block.share)
    most = float(promise.fraction("most"))
    return _below(reached, most) | (most >= 1), reached


def _disclosure(promise: Promise, block: Block, histograms: Histograms) -> Found:
    share = (histograms.whole / histograms.total)[block.value]
    reached = np.maximum.reduceat(np.abs(np.log(block.share / share)), block.start[:-1])
    reached[np.diff(block.start) < histograms.n_values] = math.inf
    return _below(reached + _ROUNDING, float(promise.fraction("delta"))), reached


def _closeness(promise: Promise, block: Block, histograms: Histograms, attribute: Attribute | None) -> Found:
    distance = promise.parameters["distance"]
    whole = np.asarray(histograms.whole / histograms.total, dtype=np.float64)
    if distance == "equal":
        share = whole[block.value]
        gaps = np.abs(block.share - share) - share
        found = (np.add.reduceat(gaps, block.start[:-1]) + 1) / 2
    elif attribute is None:
        raise CannotCheckError("joint values have no order and no taxonomy")
    elif distance == "ordered":
        ranks = ranks_of(histograms, attribute)
        ranked = np.empty(whole.shape[0])
        ranked[ranks] = whole
        found = _along_ranks(block.start, ranks[block.value], block.share, ranked)
    else:
        nodes, parents, heights = nodes_of(histograms, attribute)
        spread = np.zeros(parents.shape[0])
        spread[nodes] = whole
        found = _over_tree(block.start, nodes[block.value], block.share, spread, parents, heights)
    t = float(promise.fraction("t"))
    return _below(found + _ROUNDING, t) | (t >= 1), found


@kernel
def _along_ranks(start: IntArray, rank: IntArray, share: FloatArray, whole: FloatArray) -> FloatArray:
    n, m = start.shape[0] - 1, whole.shape[0]
    out = np.zeros(n)
    own = np.zeros(m)
    for t in range(n):
        for e in range(start[t], start[t + 1]):
            own[rank[e]] += share[e]
        carried = 0.0
        for r in range(m):
            carried += own[r] - whole[r]
            out[t] += abs(carried)
            own[r] = 0.0
    return np.asarray(out / max(1, m - 1))


@kernel
def _over_tree(
    start: IntArray, node: IntArray, share: FloatArray, whole: FloatArray, parents: IntArray, heights: IntArray
) -> FloatArray:
    n, m = start.shape[0] - 1, parents.shape[0]
    out = np.zeros(n)
    own, surplus, lack = np.zeros(m), np.zeros(m), np.zeros(m)
    for t in range(n):
        for e in range(start[t], start[t + 1]):
            own[node[e]] += share[e]
        for v in range(m):
            own[v] -= whole[v]
            surplus[v] = lack[v] = 0.0
        for v in range(m - 1, -1, -1):
            # Children come after their parents: all below v have settled what they could.
            extra = own[v] + surplus[v] - lack[v]
            out[t] += heights[v] * min(surplus[v], lack[v])
            if parents[v] >= 0:
                surplus[parents[v]] += max(extra, 0.0)
                lack[parents[v]] += max(-extra, 0.0)
            own[v] = 0.0
    return np.asarray(out / max(1, heights[0]))


_BY_SHARES: Mapping[str, Callable[[Promise, Block], Found]] = {
    "distinct-l-diversity": _distinct,
    "simple-l-diversity": _simple,
    "entropy-l-diversity": _entropy,
    "recursive-cl-diversity": _recursive,
    "tau-l-diversity": _tau,
}
_BY_TABLE: Mapping[str, Callable[[Promise, Block, Histograms], Found]] = {
    "beta-likeness": _beta,
    "confidence-bounding": _confidence,
    "delta-disclosure": _disclosure,
}
SERVED = (*_BY_SHARES, *_BY_TABLE, "t-closeness")


def believed(promise: Promise, block: Block, histograms: Histograms, attribute: Attribute | None) -> Found:
    """Return for each tuple of the block whether it keeps the promise, and what it reaches.

    *histograms* are those of all groups; *attribute* is None for joint values of several attributes.
    """
    if promise.model in _BY_SHARES:
        return _BY_SHARES[promise.model](promise, block)
    if promise.model in _BY_TABLE:
        return _BY_TABLE[promise.model](promise, block, histograms)
    return _closeness(promise, block, histograms, attribute)

"""What the sweep's compiled loops know of trees and models: plain arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray, KeyArray
from shoal.models.base import Curve
from shoal.plan.induced import Induced

_FINEST = 1 << 30


class TreeTables(NamedTuple):
    """The quasi attributes: the ancestors of every leaf at every level, all in one array.

    The node of leaf a of attribute j at level h is ``table[offset[j] + h * width[j] + a]``, -1 below the leaf's own
    level, which only ``uneven`` trees have. The sum of nodes times ``multiplier`` tells labels apart if it is
    ``exact``, and is a good hash if it is not. So that a key takes few looks at memory, small attributes share a
    column: ``shared`` holds a code for their leaves, and ``terms`` the sums for every such code and all their levels.
    """

    leaves: CodeArray  # (n_cells, n_quasi)
    table: CodeArray
    offset: IntArray  # (n_quasi,)
    width: IntArray  # (n_quasi,)
    multiplier: KeyArray  # (n_quasi,)
    exact: bool
    uneven: bool
    shared: CodeArray  # (n_cells, n_columns)
    column: IntArray  # (n_quasi,) of each attribute
    step: IntArray  # (n_quasi,) how far one level more leads in terms
    start: IntArray  # (n_columns,) of each column in terms
    terms: KeyArray


class Rules(NamedTuple):
    """Limits on the induced frequencies of sensitive attributes.

    Rule r looks at the sensitive attribute ``place[r]``. A record published as node v of it gives
    ``(weights[a] // common[v]) * share[v]`` units to every leaf a below v, ``factor[r]`` in all.
    The k most frequent leaves may have ``top / bottom`` of the class, for the k-th limit of the rule, and
    ``distinct[r]`` leaves must occur. Where a rule is defended, records of leaf a may make up ``cap_top / cap_bottom``
    of those in a class that publish the same label; they are counted at ``first_pair[r] + inner node * n_leaves + a``.
    """

    place: IntArray  # (n_rules,)
    factor: IntArray  # (n_rules,)
    n_leaves: IntArray  # (n_rules,)
    first_leaf: IntArray  # (n_rules + 1,) into weights
    weights: IntArray
    first_node: IntArray  # (n_rules + 1,) into lo, hi, common, share
    lo: IntArray
    hi: IntArray
    common: IntArray
    share: IntArray
    first_limit: IntArray  # (n_rules + 1,) into top, bottom
    top: IntArray
    bottom: IntArray
    distinct: IntArray  # (n_rules,)
    reference: FloatArray  # like weights: share of the whole table that a leaf may have; 0 unless a model compares
    cap_top: IntArray  # like weights
    cap_bottom: IntArray
    first_pair: IntArray  # (n_rules + 1,) no pairs where labels are not defended
    records: int  # that every class needs
    plain_records: int  # that a class needs in which no sensitive value is generalized


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule: the place of its attribute, how that spreads, its curve, the table it compares with, and its caps."""

    place: int
    induced: Induced
    curve: Curve
    reference: FloatArray | None = None  # (n_leaves,) shares of the whole table
    caps: Sequence[Fraction] | None = None  # (n_leaves,) of records under one label in a class; None: not defended


def build_rules(bound: Sequence[Rule], records: int, plain_records: int) -> Rules:
    """Flatten the rules."""
    weights, lo, hi, common, share, top, bottom, cap_top, cap_bottom = (_Parts() for _ in range(9))
    reference = [np.zeros(0, dtype=np.float64)]
    first_leaf, first_node, first_limit, first_pair = [0], [0], [0], [0]
    for rule in bound:
        induced, tree = rule.induced, rule.induced.taxonomy
        weights.append(induced.weights)
        lo.append(tree.lo)
        hi.append(tree.hi)
        divisor = np.ones(tree.n_nodes, dtype=np.int64)
        units = np.zeros(tree.n_nodes, dtype=np.int64)
        for node in np.flatnonzero(induced.allowed).tolist():
            if node >= tree.n_leaves:
                divisor[node] = np.gcd.reduce(induced.weights[tree.lo[node] : tree.hi[node]])
                units[node] = induced.factor // (int(induced.totals[node]) // int(divisor[node]))
        common.append(divisor)
        share.append(units)
        limits = [_rounded_down(limit) for limit in rule.curve.limits]
        top.append([limit.numerator for limit in limits])
        bottom.append([limit.denominator for limit in limits])
        reference.append(np.zeros(tree.n_leaves) if rule.reference is None else rule.reference)
        caps = [_rounded_down(cap) for cap in rule.caps or [Fraction(1)] * tree.n_leaves]
        cap_top.append([cap.numerator for cap in caps])
        cap_bottom.append([cap.denominator for cap in caps])
        n_inner = 0 if rule.caps is None else tree.n_nodes - tree.n_leaves
        first_pair.append(first_pair[-1] + n_inner * tree.n_leaves)
        first_leaf.append(first_leaf[-1] + tree.n_leaves)
        first_node.append(first_node[-1] + tree.n_nodes)
        first_limit.append(first_limit[-1] + len(limits))
    return Rules(
        place=_whole([rule.place for rule in bound]),
        factor=_whole([rule.induced.factor for rule in bound]),
        n_leaves=_whole([rule.induced.taxonomy.n_leaves for rule in bound]),
        first_leaf=_whole(first_leaf),
        weights=weights.joined(),
        first_node=_whole(first_node),
        lo=lo.joined(),
        hi=hi.joined(),
        common=common.joined(),
        share=share.joined(),
        first_limit=_whole(first_limit),
        top=top.joined(),
        bottom=bottom.joined(),
        distinct=_whole([values_needed(rule.curve) for rule in bound]),
        reference=np.concatenate(reference),
        cap_top=cap_top.joined(),
        cap_bottom=cap_bottom.joined(),
        first_pair=_whole(first_pair),
        records=records,
        plain_records=plain_records,
    )


def values_needed(curve: Curve) -> int:
    """Return how many values a class must have: F(k) >= k / v for every class with v values, so psi(k) >= k / v.

    >>> values_needed(Curve((Fraction(1, 2), Fraction(3, 5))))
    4
    """
    return max([curve.distinct, *(math.ceil(k / limit) for k, limit in enumerate(curve.limits, start=1))])


def _rounded_down(limit: Fraction) -> Fraction:
    """Return a limit whose products stay in 64 bits; a finer one becomes a little stricter."""
    return limit if limit.denominator <= _FINEST else Fraction(limit.numerator * _FINEST // limit.denominator, _FINEST)


def _whole(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


class _Parts(list[Any]):
    """Arrays that follow each other in one."""

    def joined(self) -> IntArray:
        return np.concatenate([np.zeros(0, dtype=np.int64), *(np.asarray(part, dtype=np.int64) for part in self)])

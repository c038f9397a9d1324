"""Defending labels of sensitive values: under one label of a class no value is much more likely than in the table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from shoal.core.arrays import CodeArray, IntArray
from shoal.models.exact import fraction
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Problem, Requirement


def caps_of(requirement: Requirement, problem: Problem, counts: IntArray | None = None) -> list[Fraction]:
    """Return (n_leaves,) how much each value may make up of the records under a label: tau, or its share if larger.

    The share is that in the whole table, or in *counts* records of each value.
    """
    if not isinstance(requirement.model, TauLDiversity):
        raise TypeError(f"{requirement.model.subject} allows no labels")
    if counts is None:
        counts = requirement.whole(problem.cells.counts).counts
    if counts is None:
        raise TypeError(f"{requirement.model.subject} needs counts of sensitive values")
    total, fewer = int(counts.sum()), 0
    if problem.box is not None and problem.max_withheld:  # what other regions withhold is not known: at most so many
        fewer = min(total * (problem.max_withheld + 1) // problem.cells.n_records + 1, total - 1)
    tau = fraction(requirement.model.tau)
    return [max(tau, Fraction(max(count - fewer, 0), max(total - fewer, 1))) for count in counts.tolist()]


def is_defended(problem: Problem, plan: Plan) -> bool:
    """Whether no label of a class that a plan publishes tells more than it may; exactly."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    for requirement in problem.requirements:
        place = requirement.place
        if plan.targets is None or place is None or not problem.may_generalize(place):
            continue
        values = requirement.values_at(cell)
        published = None  # regions do not know what others withhold
        if problem.box is None:
            published = np.bincount(values[class_of >= 0], records[class_of >= 0], requirement.n_values)
        caps = caps_of(requirement, problem, None if published is None else published.astype(np.int64))
        labels = np.stack([np.append(ends[:, place], KEPT) for ends in (plan.targets.lo, plan.targets.hi)], axis=1)
        lifted = np.flatnonzero((class_of >= 0) & (labels[target, 0] != KEPT))
        columns = np.column_stack([class_of[lifted], labels[target[lifted]]])
        _, group = np.unique(columns, axis=0, return_inverse=True)
        if not all_within(group.reshape(-1), values[lifted], records[lifted], caps):
            return False
    return True


def all_within(group: IntArray, values: CodeArray, records: IntArray, caps: list[Fraction]) -> bool:
    """Whether in no group of records a value has more than its cap."""
    pairs, place = np.unique(group * len(caps) + values, return_inverse=True)
    count = np.bincount(place.reshape(-1), records).astype(np.int64)
    total = np.bincount(group, records).astype(np.int64)[pairs // len(caps)]
    most = [caps[value] for value in (pairs % len(caps)).tolist()]
    return all(n <= cap * of for n, of, cap in zip(count.tolist(), total.tolist(), most, strict=True))

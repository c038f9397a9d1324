"""Generalizing sensitive values: of the whole table before the sweep, of the last class after it."""

from __future__ import annotations

import numpy as np

from shoal import kernels
from shoal.methods.sweep.kernels import lift
from shoal.methods.sweep.others import Others
from shoal.methods.sweep.state import Models, Parts
from shoal.problem import Problem


def generalized(
    problem: Problem, models: Models, parts: Parts, others: Others, rng: np.random.Generator
) -> Parts | None:
    """Generalize sensitive values of one class until it keeps every promise; None if that does not help.

    Tian and Zhang, steps 1, 2, 20 and 21: the record's value covers the dominant one, the least general first. Models
    other than theirs judge values, which are not generalized where they look.
    """
    for place, chosen in enumerate(models.of_place):
        if chosen:
            raised = _by_rules(problem, models, parts, place, chosen, rng)
            if raised is None:
                return None
            parts = raised
    if parts.records.sum() < models.rules.records or not others.accept(parts):
        return None
    return parts


def _by_rules(
    problem: Problem,
    models: Models,
    parts: Parts,
    place: int,
    chosen: tuple[int, ...],
    rng: np.random.Generator,
) -> Parts | None:
    tree, steps = problem.sensitive[place].taxonomy, models.steps[place]
    by_node = kernels.summed(parts.nodes[:, place].copy(), parts.records, tree.n_nodes)
    lifted = np.zeros(tree.n_nodes, dtype=np.int64)
    width = (tree.hi - tree.lo).astype(np.int64)
    if not lift(models.rules, np.array(chosen), steps, width, by_node, lifted):
        return None
    return parts.raised(place, lifted, steps, rng) if lifted.any() else parts

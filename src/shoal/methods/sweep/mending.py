"""Generalizing sensitive values: of the whole table before the sweep, of the last class after it."""

from __future__ import annotations

import numpy as np

from shoal import kernels
from shoal.judging import Judge
from shoal.methods.sweep.kernels import lift
from shoal.methods.sweep.others import Others, judge_of, values_of
from shoal.methods.sweep.state import Bound, Models, Parts
from shoal.problem import Problem


def generalized(
    problem: Problem, models: Models, parts: Parts, others: Others | None, rng: np.random.Generator
) -> Parts | None:
    """Generalize sensitive values of one class until it keeps every promise; None if that does not help.

    Tian and Zhang, steps 1, 2, 20 and 21: the record's value covers the dominant one, the least general first. Without
    *others* the class is the whole table, which models that compare with the table always accept.
    """
    locked = models.joint if others is None else models.frozen
    for place, chosen in enumerate(models.of_place):
        if chosen:
            raised = _by_rules(problem, models, parts, place, chosen, locked[place], rng)
            if raised is None:
                return None
            parts = raised
    for number, bound in enumerate(models.others):
        while not _holds(problem, bound, parts, None if others is None else others.judges[number]):
            if bound.requirement.place is None or locked[bound.requirement.place]:
                return None
            raised = _by_one(problem, models, parts, bound, rng)
            if raised is None:
                return None
            parts = raised
    if parts.records.sum() < models.rules.records:
        return None
    return parts


def _by_rules(
    problem: Problem,
    models: Models,
    parts: Parts,
    place: int,
    chosen: tuple[int, ...],
    locked: bool,
    rng: np.random.Generator,
) -> Parts | None:
    tree = problem.sensitive[place].taxonomy
    steps = np.arange(tree.n_nodes, dtype=np.int32) if locked else models.steps[place]
    by_node = kernels.summed(parts.nodes[:, place].copy(), parts.records, tree.n_nodes)
    lifted = np.zeros(tree.n_nodes, dtype=np.int64)
    width = (tree.hi - tree.lo).astype(np.int64)
    if not lift(models.rules, np.array(chosen), steps, width, by_node, lifted):
        return None
    return parts.raised(place, lifted, steps, rng) if lifted.any() else parts


def _by_one(problem: Problem, models: Models, parts: Parts, bound: Bound, rng: np.random.Generator) -> Parts | None:
    """Lift some records of the least general node that covers the most frequent value that can be lifted."""
    place, induced = bound.requirement.place, bound.induced
    assert place is not None  # noqa: S101 - for the type checker
    assert induced is not None  # noqa: S101
    tree, steps = problem.sensitive[place].taxonomy, models.steps[place]
    by_node = kernels.summed(parts.nodes[:, place].copy(), parts.records, tree.n_nodes)
    units = induced.counts(by_node[np.newaxis, :])[0]
    liftable = np.flatnonzero((by_node > 0) & (steps != np.arange(tree.n_nodes)))
    for leaf in np.argsort(-units, kind="stable").tolist():
        above = liftable[(tree.lo[liftable] <= leaf) & (tree.hi[liftable] > leaf)]
        if len(above):
            node = int(above[np.argmin(tree.hi[above] - tree.lo[above])])
            lifted = np.zeros(tree.n_nodes, dtype=np.int64)
            lifted[node] = max(1, int(by_node[node]) // 32)
            return parts.raised(place, lifted, steps, rng)
    return None


def _holds(problem: Problem, bound: Bound, parts: Parts, judge: Judge | None) -> bool:
    if judge is None:
        if bound.requirement.model.relative_to_whole:
            return True
        judge = judge_of(problem, bound, parts)
    population = bound.requirement.population
    people = None if population is None else np.array([population.sum()])
    edges = np.array([0, len(parts.cell)])
    (classes,) = judge.histograms(edges, values_of(bound, parts), parts.records, people)
    return bool(bound.requirement.model.holds(classes, judge.whole)[0])

"""Generalizing sensitive values: of the whole table before the sweep, of the last class after it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from shoal import kernels
from shoal.arrays import IntArray
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
    # records that have and publish the same are interchangeable until it is known how many are lifted
    group, found = parts.alike(problem)
    for place, chosen in enumerate(models.of_place):
        if chosen:
            raised = _by_rules(problem, models, found, place, chosen, rng)
            if raised is None:
                return None
            found = raised
    if parts.records.sum() < models.rules.records or not others.accept(found):
        return None
    return parts.published_as(group, found, rng)


def _by_rules(
    problem: Problem, models: Models, parts: Parts, place: int, chosen: tuple[int, ...], rng: np.random.Generator
) -> Parts | None:
    """Lift records, and others with them where labels are defended, until all rules on an attribute hold."""
    tree, steps = problem.sensitive[place].taxonomy, models.steps[place]
    width = (tree.hi - tree.lo).astype(np.int64)
    while True:  # every turn but the last lifts some record, so that it ends where all are at the root
        by_node = kernels.summed(parts.nodes[:, place].copy(), parts.records, tree.n_nodes)
        lifted = np.zeros(tree.n_nodes, dtype=np.int64)
        if not lift(models.rules, np.array(chosen), steps, width, by_node, lifted):
            return None
        accompanied = parts.raised(place, lifted, steps, rng) if lifted.any() else parts
        if np.diff(models.rules.first_pair)[list(chosen)].any():
            for r in chosen:
                found = _with_companions(problem, models, accompanied, r, rng)
                if found is None:
                    return None
                accompanied = found
        if accompanied is parts:
            return parts
        parts = accompanied


def _with_companions(problem: Problem, models: Models, parts: Parts, r: int, rng: np.random.Generator) -> Parts | None:
    """Lift records, drawn at random, to labels under which one value makes up too much, until there are none.

    Where a label covers too few records of other values, those of the one go on to a more general label; None if there
    is none.
    """
    rules, place = models.rules, int(models.rules.place[r])
    tree, steps = problem.sensitive[place].taxonomy, models.steps[place]
    leaves = slice(rules.first_leaf[r], rules.first_leaf[r + 1])
    top, bottom = rules.cap_top[leaves], rules.cap_bottom[leaves]

    def most(total: int) -> IntArray:
        return total // bottom * top + total % bottom * top // bottom

    node = tree.n_leaves
    while node < tree.n_nodes:
        nodes, own = parts.nodes[:, place], parts.own(problem)[:, place]
        at = np.flatnonzero(nodes == node)
        count = kernels.summed(own[at], parts.records[at], tree.n_leaves)
        total = int(count.sum())
        value = int(np.argmax(count - most(total)))
        if count[value] <= most(total)[value]:
            node += 1
            continue
        cap = Fraction(int(top[value]), int(bottom[value]))
        need = math.ceil(int(count[value]) / cap) - total
        below = (nodes < node) & (tree.lo[nodes] >= tree.lo[node]) & (tree.hi[nodes] <= tree.hi[node])
        others = np.flatnonzero(below & (own != value))
        offered = kernels.summed(own[others], parts.records[others], tree.n_leaves)
        if offered.sum() >= need:
            fitting = np.clip(most(total + need) - count, 0, offered)  # more of them would be too many in turn
            wanted = rng.multivariate_hypergeometric(
                fitting if fitting.sum() >= need else offered, need, method="marginals"
            )
            parts = parts.moved(
                place, [(others[own[others] == v], int(wanted[v])) for v in np.flatnonzero(wanted)], node, rng
            )
            node = int(parts.nodes[:, place][parts.nodes[:, place] >= tree.n_leaves].min())
        elif steps[node] == node:
            return None
        else:
            stay = math.floor((total - int(count[value])) * cap / (1 - cap))
            leaving = at[own[at] == value], int(count[value]) - stay
            parts = parts.moved(place, [leaving], int(steps[node]), rng)
    return parts

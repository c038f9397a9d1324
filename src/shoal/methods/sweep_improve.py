"""Improving a sweep: records of general classes go back to special ones, as long as every promise holds."""

from __future__ import annotations

import numpy as np

from shoal.arrays import FloatArray, IntArray
from shoal.methods.sweep_classes import Classes, Sweep
from shoal.methods.sweep_kernels import tally_units
from shoal.methods.sweep_pulling import covering_classes, pull
from shoal.methods.sweep_state import Parts
from shoal.plan import same_rows

_CANDIDATES = 12  # classes that a record is offered
_ROUNDS = 8
_MOST_UNITS = 1 << 27  # entries of the histograms of all classes
_WORTH = 1e-5  # of the table's information: a round that gains less is the last


def can_improve(sweep: Sweep, n_classes: int) -> bool:
    """Whether compiled loops can judge all models, and hold the histograms of all classes."""
    return not sweep.models.others and (n_classes + 1) * max(len(sweep.models.rules.weights), 1) <= _MOST_UNITS


def improved(sweep: Sweep, classes: Classes, parts: Parts) -> tuple[Parts, float]:
    """Return the parts with records moved to where they tell more, and what that gained.

    Parts without a class are those of the last one, which need not hold yet. Every move gains, and leaves every
    other class with all its promises.
    """
    problem, trees, rules = sweep.problem, sweep.trees, sweep.models.rules
    last = len(classes.item)
    information = np.append(_class_information(sweep, classes), _at_root(sweep))
    parts.owner = np.where(parts.owner < 0, last, parts.owner)
    best = information[:-1].max(initial=0.0)
    steps = [
        np.arange(len(step), dtype=np.int32) if frozen else step
        for step, frozen in zip(sweep.models.steps, sweep.models.frozen, strict=True)
    ]
    widths = [attribute.taxonomy.hi - attribute.taxonomy.lo for attribute in problem.sensitive]
    weights = [attribute.weight for attribute in problem.sensitive]
    first_node = np.cumsum([0, *(len(step) for step in steps)]).astype(np.int64)
    known = np.concatenate([np.zeros(0), *(weight / width for weight, width in zip(weights, widths, strict=True))])
    following = np.concatenate([np.zeros(0, dtype=np.int32), *steps])
    columns = problem.cells.codes[len(problem.quasi) :]
    whole = float(problem.cells.n_records) * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    total = 0.0
    for _ in range(_ROUNDS):
        own = np.zeros(parts.nodes.shape, dtype=np.int32)
        for place, column in enumerate(columns):
            own[:, place] = column[parts.cell]
        movable = np.flatnonzero((information[parts.owner] < best) | (parts.nodes != own).any(axis=1))
        movable = sweep.rng.permutation(movable)
        order = movable[np.argsort(information[parts.owner[movable]], kind="stable")]
        rows, row_of = _rows(parts, order)
        floor = np.full(len(rows), np.inf)
        np.minimum.at(floor, row_of[order], information[parts.owner[order]])
        candidates = covering_classes(
            rows,
            floor,
            trees.leaves,
            trees.table,
            trees.offset,
            trees.width,
            sweep.items.levels,
            classes.item,
            classes.nodes,
            information[:-1],
            _CANDIDATES,
        )
        units, sizes = tally_units(rules, parts.nodes, parts.owner, parts.records, last + 1)
        records = parts.records.copy()
        part, nodes, goal, gain = pull(
            order,
            row_of,
            own,
            parts.nodes,
            parts.owner,
            records,
            candidates,
            rules,
            units,
            sizes,
            information,
            known,
            first_node,
            following,
            last,
        )
        total += gain
        moved = Parts(parts.cell[part], nodes, np.ones(len(part), dtype=np.int64), goal)
        parts.records = records
        parts = _condensed(Parts.joined([parts.take(records > 0), moved]))
        if gain < _WORTH * whole:
            break
    parts.owner = np.where(parts.owner == last, -1, parts.owner)
    return parts, total / whole


def _class_information(sweep: Sweep, classes: Classes) -> FloatArray:
    known = np.zeros(len(classes.item))
    for j, attribute in enumerate(sweep.problem.quasi):
        tree = attribute.taxonomy
        known += attribute.weight / (tree.hi - tree.lo)[classes.nodes[:, j]]
    return known


def _at_root(sweep: Sweep) -> float:
    return sum(attribute.weight / attribute.taxonomy.n_leaves for attribute in sweep.problem.quasi)


def _rows(parts: Parts, order: IntArray) -> tuple[IntArray, IntArray]:
    """Return the cells that parts in *order* belong to, and (n_parts,) the place of each part's cell among them."""
    cells, place = np.unique(parts.cell[order], return_inverse=True)
    row_of = np.full(len(parts.cell), -1, dtype=np.int64)
    row_of[order] = place.reshape(-1)
    return cells, row_of


def _condensed(parts: Parts) -> Parts:
    """Put together parts of one cell in one class that publish the same."""
    first, same = same_rows((parts.cell, parts.owner, *parts.nodes.T))
    whole = parts.take(first)
    whole.records = np.bincount(same, weights=parts.records, minlength=len(first)).astype(np.int64)
    return whole

"""Improving a sweep: records of general classes go back to special ones, as long as every promise holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.methods.sweep.classes import Classes, Sweep
from shoal.methods.sweep.kernels import tally_pairs, tally_units
from shoal.methods.sweep.pulling import covering_classes, pull
from shoal.methods.sweep.state import Parts, information_of

_CANDIDATES = 12  # classes that a record is offered
_LOOKUPS = 1 << 25  # of a cell at an item: in larger tables only the least informative cells are offered others
_THREADS = 2
_ROUNDS = 8
_MOST_UNITS = 1 << 27  # entries of the histograms of all classes
_WORTH = 2e-4  # of the table's information: a round that gains less is the last


def can_improve(sweep: Sweep, n_classes: int) -> bool:
    """Whether compiled loops can judge all models, and hold the histograms of all classes."""
    rules = sweep.models.rules
    entries = len(rules.weights) + int(rules.first_pair[-1])
    return not sweep.models.others and (n_classes + 1) * max(entries, 1) <= _MOST_UNITS


def improved(sweep: Sweep, classes: Classes, parts: Parts, *, settled: bool) -> Parts:
    """Return the parts with records moved to where they tell more.

    If the last class is not *settled*, its parts are those without a class, and it need not hold yet. Every move gains,
    and leaves every other class with all its promises.
    """
    withheld = parts.take(parts.owner < 0) if settled else parts.take(parts.owner < -1)
    if settled:
        parts = parts.take(parts.owner >= 0)
        classes = Classes(classes.item[:-1], classes.nodes[:-1])
    problem, rules = sweep.problem, sweep.models.rules
    last = len(classes.item)
    root = np.array([[attribute.taxonomy.root for attribute in problem.quasi]])
    information = information_of(problem.quasi, np.concatenate([classes.nodes, root]))  # of classes, the last one's too
    parts = replace(parts, owner=np.where(parts.owner < 0, last, parts.owner))
    best = information[:-1].max(initial=0.0)
    caps = problem.max_generalized or (None,) * len(problem.sensitive)
    steps = [
        step if cap is None else np.arange(len(step), dtype=np.int32)
        for step, cap in zip(sweep.models.steps, caps, strict=True)
    ]
    widths = [attribute.taxonomy.hi - attribute.taxonomy.lo for attribute in problem.sensitive]
    weights = [attribute.weight for attribute in problem.sensitive]
    first_node = np.cumsum([0, *(len(step) for step in steps)]).astype(np.int64)
    known = np.concatenate([np.zeros(0), *(weight / width for weight, width in zip(weights, widths, strict=True))])
    following = np.concatenate([np.zeros(0, dtype=np.int32), *steps])
    whole = float(problem.cells.n_records) * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    units, sizes = tally_units(rules, parts.nodes, parts.owner, parts.records, last + 1)  # kept up to date by pull
    lifted = tally_pairs(rules, parts.nodes, parts.own(problem), parts.owner, parts.records, last + 1)
    changed = np.ones(last + 1, dtype=np.bool_)
    rows, candidates = _candidates(sweep, classes, parts, information)
    for _ in range(_ROUNDS):
        own = np.ascontiguousarray(parts.own(problem))
        row_of = np.searchsorted(rows, parts.cell)
        # who could not move finds the same again, unless something happened in a class that matters to it
        around = np.asarray(np.append(changed, False)[candidates].any(axis=1))
        stirred = around[row_of] | changed[parts.owner]
        movable = stirred & ((information[parts.owner] < best) | (parts.nodes != own).any(axis=1))
        if settled:
            movable &= parts.owner == last
        mixed = sweep.rng.permutation(np.flatnonzero(movable))
        order = mixed[np.argsort(information[parts.owner[mixed]], kind="stable")]
        changed = np.zeros(last + 1, dtype=np.bool_)
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
            lifted,
            sizes,
            information,
            known,
            first_node,
            following,
            -1 if settled else last,
            changed,
            *kernels.grouped(parts.owner.astype(np.int32), last + 1),
            sweep.rng,
        )
        moved = Parts(parts.cell[part], nodes, np.ones(len(part), dtype=np.int64), goal)
        parts.records = records
        parts = Parts.joined([parts.take(records > 0), moved])
        if gain < _WORTH * whole:
            break
    if not settled:
        parts.owner = np.where(parts.owner == last, -1, parts.owner)
    return Parts.joined([parts, withheld])


def _candidates(sweep: Sweep, classes: Classes, parts: Parts, information: FloatArray) -> tuple[IntArray, CodeArray]:
    """Return the cells whose records could tell more elsewhere, ascending, and for each the classes they may join."""
    rows, place = np.unique(parts.cell, return_inverse=True)
    floor = np.full(len(rows), np.inf)
    np.minimum.at(floor, place.reshape(-1), information[parts.owner])
    offered = _LOOKUPS // max(len(kernels.occurring(classes.item)), 1)
    if len(rows) > offered:
        least = np.argpartition(floor, offered)[:offered]
        floor[np.setdiff1d(np.arange(len(rows)), least)] = np.inf
    asked = np.flatnonzero(floor < np.inf)
    found = np.full((len(rows), _CANDIDATES), -1, dtype=np.int32)

    def look(some: IntArray) -> None:
        found[some] = covering_classes(
            rows[some],
            floor[some],
            sweep.trees,
            sweep.items.levels,
            classes.item,
            classes.nodes,
            information[:-1],
            _CANDIDATES,
        )

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(look, np.array_split(asked, _THREADS)))
    return rows, found

"""Improvement of an undefended sweep: records of general classes move to special ones while all guarantees hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel
from shoal.methods.sweep.classes import Classes, Sweep, label_keys
from shoal.methods.sweep.kernels import add_records, class_holds, room_for_judging, tally_classes
from shoal.methods.sweep.rules import Parts, Rules, information_of

_CANDIDATES = 12  # classes that each record may try
_LOOKUPS = 1 << 25  # of a cell at an item: in larger tables only the cells with least information look for candidates
_ROUNDS = 8
_MOST_UNITS = 1 << 27  # entries of the histograms of all classes
_WORTH = 1e-3  # of the table's information: a round that gains less is the last


def can_improve(sweep: Sweep, n_classes: int) -> bool:
    """Whether compiled loops can judge all models, and hold the histograms of all classes."""
    rules = sweep.models.rules
    return not sweep.models.others and (n_classes + 1) * max(len(rules.weights), 1) <= _MOST_UNITS


def improve(sweep: Sweep, classes: Classes, parts: Parts) -> Parts:
    """Return the parts after moves to more informative classes; parts without a class belong to the last one.

    Every move gains information, and no class loses a guarantee. The last class is completed later.
    """
    problem, rules = sweep.problem, sweep.models.rules
    last = len(classes.item)
    root = np.array([[attribute.taxonomy.root for attribute in problem.quasi]])
    information = information_of(problem.quasi, np.concatenate([classes.nodes, root]))  # (last + 1,)
    parts = parts._replace(owner=np.where(parts.owner < 0, last, parts.owner))
    best = information[:-1].max(initial=0.0)
    scratch = np.arange(max(1, int(rules.n_leaves.max(initial=1)))), room_for_judging(rules)
    whole = float(problem.cells.n_records) * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    tallies = tally_classes(rules, parts.nodes, parts.owner, parts.records, last + 1)  # pull updates them
    changed = np.ones(last + 1, dtype=np.bool_)
    rows, candidates = _find_candidates(sweep, classes, parts, information)
    for _ in range(_ROUNDS):
        own = parts.own_values(problem)
        row_of = np.searchsorted(rows, parts.cell)
        # a record that could not move cannot move now either, unless its class or a candidate has changed
        around = np.asarray(np.append(changed, False)[candidates].any(axis=1))
        stirred = around[row_of] | changed[parts.owner]
        movable = stirred & ((information[parts.owner] < best) | (parts.nodes != own).any(axis=1))
        mixed = sweep.rng.permutation(np.flatnonzero(movable))
        order = mixed[np.argsort(information[parts.owner[mixed]], kind="stable")]
        changed = np.zeros(last + 1, dtype=np.bool_)
        records = parts.records.copy()
        movers = Movers(row_of, own, parts.nodes, parts.owner, records)
        state, details = Tallies(*tallies, information, changed), sensitive_details(sweep)
        world = World(rules, movers, state, *details, candidates, last, *scratch)
        part, nodes, goal, gain = pull(world, order)
        moved = Parts(parts.cell[part], nodes, np.ones(len(part), dtype=np.int64), goal)
        parts = Parts.join([parts._replace(records=records).take(records > 0), moved])
        if gain < _WORTH * whole:
            break
    return parts._replace(owner=np.where(parts.owner == last, -1, parts.owner))


def sensitive_details(sweep: Sweep) -> tuple[IntArray, FloatArray, CodeArray]:
    """Return for all sensitive attributes: the first node of each, the information of each node, and its parent label.

    If the policy limits how many records of an attribute are generalized, each node is its own parent label.
    """
    sensitive = sweep.problem.sensitive
    caps = sweep.problem.max_generalized or (None,) * len(sensitive)
    steps = [
        step if cap is None else np.arange(len(step), dtype=np.int32)
        for step, cap in zip(sweep.models.steps, caps, strict=True)
    ]
    details = [one.weight / (one.taxonomy.hi - one.taxonomy.lo) for one in sensitive]
    return (
        np.cumsum([0, *(len(step) for step in steps)]).astype(np.int64),
        np.concatenate([np.zeros(0), *details]),
        np.concatenate([np.zeros(0, dtype=np.int32), *steps]),
    )


def _find_candidates(
    sweep: Sweep, classes: Classes, parts: Parts, information: FloatArray
) -> tuple[IntArray, CodeArray]:
    """Return the cells of parts in ascending order, and (n_rows, _CANDIDATES) more informative classes for each."""
    rows, place = np.unique(parts.cell, return_inverse=True)
    floor = np.full(len(rows), np.inf)
    np.minimum.at(floor, place.reshape(-1), information[parts.owner])
    most = _LOOKUPS // max(len(kernels.occurring(classes.item)), 1)
    found = np.full((len(rows), _CANDIDATES), -1, dtype=np.int32)
    asked = np.arange(len(rows)) if len(rows) <= most else np.argpartition(floor, most)[:most]
    found[asked] = covering_classes(sweep, classes, rows[asked], floor[asked], information, _CANDIDATES)
    return rows, found


def covering_classes(
    sweep: Sweep, classes: Classes, rows: IntArray, floor: FloatArray, information: FloatArray, most: int
) -> CodeArray:
    """Return (n_rows, most) classes whose labels cover the cells in *rows* and are more informative than *floor*.

    Rows are filled up with -1. The search visits items from special to general, so it finds the most informative
    classes first.
    """
    trees, nodes = sweep.trees, classes.nodes
    found = np.full((len(rows), most), -1, dtype=np.int32)
    n_found, searching = np.zeros(len(rows), dtype=np.int64), np.arange(len(rows))
    keys = (nodes.astype(np.uint64) * trees.multiplier).sum(axis=1)  # as label_keys has them
    by_key = np.lexsort((keys, classes.item))
    numbers, first = np.unique(classes.item[by_key], return_index=True)
    ends = [*first[1:].tolist(), len(by_key)][: len(first)]
    for number, begin, end in zip(numbers.tolist(), first.tolist(), ends, strict=True):
        some = by_key[begin:end]
        asked = label_keys(trees, sweep.items[number], rows[searching])
        there = some[np.searchsorted(keys[some], asked).clip(max=len(some) - 1)]
        hit = (keys[there] == asked) & (information[there] > floor[searching])
        there, row = there[hit], searching[hit]
        if not trees.exact:  # the keys are hashes
            own = trees.table[trees.offset + sweep.items[number] * trees.width + trees.leaves[rows[row]]]
            same = (own == nodes[there]).all(axis=1)
            there, row = there[same], row[same]
        found[row, n_found[row]] = there
        n_found[row] += 1
        searching = searching[n_found[searching] < most]
    return found


class Movers(NamedTuple):
    """The parts whose records may move."""

    row: IntArray  # (n_parts,) the row of candidates
    own: CodeArray  # (n_parts, n_sensitive) true values
    nodes: CodeArray  # (n_parts, n_sensitive) published nodes
    owner: IntArray  # (n_parts,) class
    records: IntArray  # (n_parts,) records that have not moved


class Tallies(NamedTuple):
    """The classes after the moves so far."""

    units: IntArray  # (n_classes, n_leaves of all rules)
    sizes: IntArray  # (n_classes,)
    information: FloatArray  # (n_classes,) of the labels of quasi-identifiers
    changed: BoolArray  # (n_classes,) whether a record left or joined in this round


class World(NamedTuple):
    """The input and state of ``pull``. Node v of sensitive attribute s has the number ``first_node[s] + v``."""

    rules: Rules
    parts: Movers
    classes: Tallies
    first_node: IntArray  # (n_sensitive,)
    detail: FloatArray  # (n_nodes of all sensitive attributes,) information of a node
    step: CodeArray  # (n_nodes of all sensitive attributes,) the node that it is generalized to; itself at the end
    candidates: CodeArray  # (n_rows, n_candidates) classes that a record may join, filled up with -1
    last: int  # the class that is completed later, and only needs its minimum size
    touched: IntArray  # every leaf
    best: IntArray  # scratch for judging


@light_kernel
def detail_of(world: World, s: int, node: int) -> float:
    return float(world.detail[world.first_node[s] + node])


@light_kernel
def _find_failing(world: World, there: int, nodes: CodeArray) -> int:
    """Return the rule that a class would fail if a record joined it under these nodes, or -1 if it would hold."""
    units = world.classes.units[there]
    add_records(world.rules, nodes, 1, units)
    failing = class_holds(world.rules, world.classes.sizes[there] + 1, units, world.touched, world.best)
    add_records(world.rules, nodes, -1, units)
    return int(failing)


@inline_kernel
def _find_goal(
    world: World, part: int, now: float, may_leave: bool, trial: CodeArray, chosen: CodeArray
) -> tuple[int, float]:
    """Return the class in which a record is most informative, and the gain; -1 if none is better than *now*.

    The search tries the record's own class, under less general values, and if it *may_leave* also the candidates.
    *chosen* (n_sensitive,) becomes the record's nodes in the new class; *trial* is scratch of the same shape.
    """
    parts, here, n_sensitive = world.parts, world.parts.owner[part], world.parts.nodes.shape[1]
    raised = False
    for s in range(n_sensitive):
        raised = raised or parts.nodes[part, s] != parts.own[part, s]
    goal, gain = -1, 1e-9
    for c in range(-1 if raised else 0, world.candidates.shape[1]):
        there = here if c < 0 else world.candidates[parts.row[part], c]
        if there < 0:
            break
        if (c >= 0 and (not may_leave or there == here)) or there == world.last:
            continue
        # 1. start with the record's true values
        value = world.classes.information[there]
        for s in range(n_sensitive):
            trial[s] = parts.own[part, s]
            value += detail_of(world, s, trial[s])
        # 2. generalize the value that the first failing rule is about, until the class holds or the gain is lost
        while value - now > gain:
            failing = _find_failing(world, there, trial)
            if failing < 0:
                goal, gain = there, value - now
                chosen[:] = trial
                break
            s = world.rules.place[failing]
            up = world.step[world.first_node[s] + trial[s]]
            if up == trial[s]:
                break
            value += detail_of(world, s, up) - detail_of(world, s, trial[s])
            trial[s] = up
    return goal, gain


@kernel
def pull(world: World, order: IntArray) -> tuple[IntArray, CodeArray, IntArray, float]:
    """Move records one by one to the class in which they are most informative, in the *order* of their parts.

    Return (n_moves,) part, (n_moves, n_sensitive) nodes and (n_moves,) class of each move, and the total gain. A class
    that satisfies the rules still does after every move.
    """
    rules, classes, parts, last = world.rules, world.classes, world.parts, world.last
    n_sensitive = parts.nodes.shape[1]
    trial, chosen = np.empty(n_sensitive, dtype=np.int32), np.empty(n_sensitive, dtype=np.int32)
    moved_part, moved_nodes, moved_class = [], [], []
    total = 0.0
    for part in order:
        here, units = parts.owner[part], classes.units[parts.owner[part]]
        while parts.records[part] > 0:
            # 1. remove one record, and check whether its class holds without it
            now = classes.information[here]
            for s in range(n_sensitive):
                now += detail_of(world, s, parts.nodes[part, s])
            add_records(rules, parts.nodes[part], -1, units)
            classes.sizes[here] -= 1
            may_leave = classes.sizes[here] >= rules.records and (
                here == last or class_holds(rules, classes.sizes[here], units, world.touched, world.best) < 0
            )
            # 2. find the best class; if there is none, put the record back and go on with the next part
            goal, gain = _find_goal(world, part, now, may_leave, trial, chosen)
            if goal < 0:
                add_records(rules, parts.nodes[part], 1, units)
                classes.sizes[here] += 1
                break
            # 3. add the record to that class
            add_records(rules, chosen, 1, classes.units[goal])
            classes.sizes[goal] += 1
            parts.records[part] -= 1
            total += gain
            classes.changed[here] = classes.changed[goal] = True
            moved_part.append(part)
            moved_class.append(goal)
            moved_nodes.append(chosen.copy())
    nodes_of_moves = np.empty((len(moved_part), n_sensitive), dtype=np.int32)
    for i in range(len(moved_part)):
        nodes_of_moves[i] = moved_nodes[i]
    return np.array(moved_part, dtype=np.int64), nodes_of_moves, np.array(moved_class, dtype=np.int64), total

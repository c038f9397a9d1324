"""Improving a sweep: records of general classes go back to special ones, as long as every promise holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel, same_rows
from shoal.methods.sweep.classes import THREADS, Classes, Sweep, TreeTables, label_keys, label_node, last_slot, slot_of
from shoal.methods.sweep.kernels import (
    add_records,
    class_holds,
    room_for_judging,
    tally_classes,
)
from shoal.methods.sweep.rules import Parts, Rules, information_of

_CANDIDATES = 12  # classes that a record is offered
_LOOKUPS = 1 << 25  # of a cell at an item: in larger tables only the least informative cells are offered others
_ROUNDS = 8
_MOST_UNITS = 1 << 27  # entries of the histograms of all classes
_MOST_REFUSED = 1 << 24  # classes times kinds of records: of more it is not kept who was refused
_WORTH = 1e-3  # of the table's information: a round that gains less is the last


def can_improve(sweep: Sweep, n_classes: int) -> bool:
    """Whether compiled loops can judge all models, and hold the histograms of all classes."""
    rules = sweep.models.rules
    return not sweep.models.others and (n_classes + 1) * max(len(rules.weights), 1) <= _MOST_UNITS


def improve(sweep: Sweep, classes: Classes, parts: Parts) -> Parts:
    """Return the parts with records moved to where they tell more; those without a class are the last one's.

    Every move gains, and leaves every class with all its promises but the last one, which is completed later.
    """
    problem, rules = sweep.problem, sweep.models.rules
    last = len(classes.item)
    root = np.array([[attribute.taxonomy.root for attribute in problem.quasi]])
    information = information_of(problem.quasi, np.concatenate([classes.nodes, root]))  # of classes, the last one's too
    parts = parts._replace(owner=np.where(parts.owner < 0, last, parts.owner))
    best = information[:-1].max(initial=0.0)
    detail = sensitive_details(sweep)
    touched, best_counts = np.arange(max(1, int(rules.n_leaves.max(initial=1)))), room_for_judging(rules)
    whole = float(problem.cells.n_records) * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    tallies = tally_classes(rules, parts.nodes, parts.owner, parts.records, last + 1)  # kept up to date by pull
    changed = np.ones(last + 1, dtype=np.bool_)
    rows, candidates = _candidates(sweep, classes, parts, information)
    nothing = np.zeros(problem.cells.n_cells, dtype=np.int32)
    kind_of_cell = same_rows((nothing, *problem.cells.codes[len(problem.quasi) :]))[1]
    n_kinds = int(kind_of_cell.max(initial=0)) + 1
    refused = np.full((last + 1, n_kinds if (last + 1) * n_kinds <= _MOST_REFUSED else 0), np.inf)
    for _ in range(_ROUNDS):
        own = parts.own_values(problem)
        row_of = np.searchsorted(rows, parts.cell)
        # who could not move finds the same again, unless something happened in a class that matters to it
        around = np.asarray(np.append(changed, False)[candidates].any(axis=1))
        stirred = around[row_of] | changed[parts.owner]
        movable = stirred & ((information[parts.owner] < best) | (parts.nodes != own).any(axis=1))
        mixed = sweep.rng.permutation(np.flatnonzero(movable))
        order = mixed[np.argsort(information[parts.owner[mixed]], kind="stable")]
        changed = np.zeros(last + 1, dtype=np.bool_)
        records = parts.records.copy()
        moving = row_of, own, parts.nodes, parts.owner, records
        kept = *tallies, information, changed
        besides = candidates, last, touched, best_counts, kind_of_cell[parts.cell], refused
        world = World._make([rules, *moving, *kept, *detail, *besides])
        part, nodes, goal, gain = pull(world, order)
        moved = Parts(parts.cell[part], nodes, np.ones(len(part), dtype=np.int64), goal)
        parts = Parts.join([parts._replace(records=records).take(records > 0), moved])
        if gain < _WORTH * whole:
            break
    return parts._replace(owner=np.where(parts.owner == last, -1, parts.owner))


def sensitive_details(sweep: Sweep) -> tuple[IntArray, FloatArray, CodeArray]:
    """Return where the nodes of each sensitive attribute begin, what each node tells, and what it is generalized to.

    Where the policy limits how many records are generalized, no more of them are.
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
        of_classes = classes.item, classes.nodes, information[:-1]
        found[some] = covering_classes(rows[some], floor[some], sweep.trees, sweep.items, *of_classes, _CANDIDATES)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(look, np.array_split(asked, THREADS)))
    return rows, found


@kernel
def covering_classes(
    rows: IntArray,
    floor: FloatArray,
    trees: TreeTables,
    levels: CodeArray,
    item: IntArray,
    nodes: CodeArray,
    information: FloatArray,
    most: int,
) -> CodeArray:
    """Return (n_rows, most) classes whose labels cover the cells in *rows* and tell more than ``floor``; -1 fills up.

    ``item`` ascends over the classes; items are looked at in this order, so the most informative are found first.
    """
    n_classes, d = nodes.shape
    mask = last_slot(n_classes)
    slots = np.full(mask + 1, -1, dtype=np.int32)
    for c in range(n_classes):
        key = np.uint64(0)
        for j in range(d):
            key += np.uint64(nodes[c, j]) * trees.multiplier[j]
        slot = slot_of(key, item[c], mask)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = c
    found = np.full((len(rows), most), -1, dtype=np.int32)
    n_found = np.zeros(len(rows), dtype=np.int64)
    searching, first = np.arange(len(rows)), 0
    while first < n_classes and len(searching):
        number = item[first]
        best = 0.0
        after = first
        while after < n_classes and item[after] == number:
            best = max(best, information[after])
            after += 1
        keys, left = label_keys(trees, levels[number], rows[searching]), 0
        for i in range(len(searching)):
            row, slot = searching[i], slot_of(keys[i], number, mask)
            searching[left] = row
            left += 1
            while best > floor[row] and slots[slot] >= 0:
                c = slots[slot]
                same = item[c] == number
                for j in range(d):
                    same = same and nodes[c, j] == label_node(trees, levels[number], rows[row], j)
                if same:
                    if information[c] > floor[row]:
                        found[row, n_found[row]] = c
                        n_found[row] += 1
                        if n_found[row] == most:
                            left -= 1
                    break
                slot = (slot + np.uint64(1)) & mask
        searching, first = searching[:left], after
    return found


class World(NamedTuple):
    """All that moves look at.

    Classes are kept up to date by every move. Node v of sensitive attribute s is ``first_node[s] + v``.
    """

    rules: Rules
    row_of: IntArray  # (n_parts,) the row of candidates
    own: CodeArray  # (n_parts, n_sensitive) the values that the records have
    nodes: CodeArray  # (n_parts, n_sensitive) what they publish
    owner: IntArray  # (n_parts,) class
    records: IntArray  # (n_parts,) lowered by every move
    units: IntArray  # (n_classes, n_leaves of all rules)
    sizes: IntArray  # (n_classes,)
    information: FloatArray  # (n_classes,) what their labels tell
    changed: BoolArray  # (n_classes,) whether they lost or won somebody
    first_node: IntArray  # (n_sensitive,)
    detail: FloatArray  # (n_nodes of all sensitive attributes,) what a node tells
    step: CodeArray  # (n_nodes of all sensitive attributes,) the node that it is generalized to; itself at the end
    candidates: CodeArray  # (n_rows, n_candidates) classes that a record may join; -1 fills up
    last: int  # the class that is completed later, and only keeps its number of records
    touched: IntArray  # every leaf
    best: IntArray  # scratch for judging
    kind_of: CodeArray  # (n_parts,) the same for records with the same sensitive values
    refused: FloatArray  # (n_classes, n_kinds) the least that a record told that a class, as it is, has no place for


@light_kernel
def detail_of(world: World, s: int, node: int) -> float:
    """Return what a node of the s-th sensitive attribute tells."""
    return float(world.detail[world.first_node[s] + node])


@light_kernel
def _fits(world: World, there: int, nodes: CodeArray) -> int:
    """Return the rule that a class fails if a record joins it under some nodes, -1 if it holds; nothing changes."""
    units = world.units[there]
    add_records(world.rules, nodes, 1, units)
    failing = class_holds(world.rules, world.sizes[there] + 1, units, world.touched, world.best)
    add_records(world.rules, nodes, -1, units)
    return int(failing)


@inline_kernel
def _find_goal(
    world: World, part: int, now: float, may_leave: bool, trial: CodeArray, chosen: CodeArray
) -> tuple[int, float]:
    """Return the class where a record tells most, -1 if nowhere more than *now*, and the gain.

    It may stay in its own class under less general values, and join a candidate if it *may_leave*. Its nodes there are
    *chosen*.
    """
    rules, here, own, n_sensitive = world.rules, world.owner[part], world.own[part], world.nodes.shape[1]
    raised = False
    for s in range(n_sensitive):
        raised = raised or world.nodes[part, s] != own[s]
    goal, gain, known = -1, 1e-9, world.refused.shape[1] > 0
    for c in range(-1 if raised else 0, world.candidates.shape[1]):
        there = here if c < 0 else world.candidates[world.row_of[part], c]
        if there < 0:
            break
        if (c >= 0 and (not may_leave or there == here)) or there == world.last:
            continue
        if c >= 0 and known and world.refused[there, world.kind_of[part]] <= now:
            continue
        value, first = world.information[there], goal < 0
        for s in range(n_sensitive):
            trial[s] = own[s]
            value += detail_of(world, s, own[s])
        # generalize the record's values as far as the class needs, and as the gain permits
        while value - now > gain:
            failing = _fits(world, there, trial)
            if failing < 0:
                goal, gain = there, value - now
                chosen[:] = trial
                break
            s = rules.place[failing]
            up = world.step[world.first_node[s] + trial[s]]
            if up == trial[s]:
                break
            value += detail_of(world, s, up) - detail_of(world, s, trial[s])
            trial[s] = up
        if c >= 0 and known and first and goal < 0:  # nobody with these values that tells as much or more can go there
            world.refused[there, world.kind_of[part]] = now
    return goal, gain


@kernel
def pull(world: World, order: IntArray) -> tuple[IntArray, CodeArray, IntArray, float]:
    """Move records where they tell more, one by one; return (part, nodes, class) of each move, and the gain.

    A record may go to a candidate class, or stay in its own with less general sensitive values; these are generalized
    as far as the class that it joins needs, and as the gain permits. No class that holds may cease to.
    """
    rules, n_sensitive, last = world.rules, world.nodes.shape[1], world.last
    trial, chosen = np.empty(n_sensitive, dtype=np.int32), np.empty(n_sensitive, dtype=np.int32)
    moved_part, moved_nodes, moved_class = [], [], []
    total = 0.0
    for part in order:
        here, units = world.owner[part], world.units[world.owner[part]]
        while world.records[part] > 0:
            # take the record out, and see whether its class holds without it
            now = world.information[here]
            for s in range(n_sensitive):
                now += detail_of(world, s, world.nodes[part, s])
            add_records(rules, world.nodes[part], -1, units)
            world.sizes[here] -= 1
            may_leave = world.sizes[here] >= rules.records and (
                here == last or class_holds(rules, world.sizes[here], units, world.touched, world.best) < 0
            )
            goal, gain = _find_goal(world, part, now, may_leave, trial, chosen)
            if goal < 0:
                add_records(rules, world.nodes[part], 1, units)
                world.sizes[here] += 1
                break
            # put it where it tells most
            add_records(rules, chosen, 1, world.units[goal])
            world.sizes[goal] += 1
            world.records[part] -= 1
            total += gain
            world.changed[here] = True
            world.changed[goal] = True
            world.refused[here] = np.inf
            world.refused[goal] = np.inf
            moved_part.append(part)
            moved_class.append(goal)
            moved_nodes.append(chosen.copy())
    nodes_of_moves = np.empty((len(moved_part), n_sensitive), dtype=np.int32)
    for i in range(len(moved_part)):
        nodes_of_moves[i] = moved_nodes[i]
    return np.array(moved_part, dtype=np.int64), nodes_of_moves, np.array(moved_class, dtype=np.int64), total

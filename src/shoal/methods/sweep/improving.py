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
    add_units,
    class_holds,
    decodable,
    limit_of,
    pair_of,
    room_for_judging,
    tally_classes,
)
from shoal.methods.sweep.rules import Parts, Rules, information_of

_LOOKED_AT = 32  # parts of a class, where others are looked for
_COMPANIONS = 16  # records of a class that are generalized for the sake of one that joins it

_CANDIDATES = 12  # classes that a record is offered
_LOOKUPS = 1 << 25  # of a cell at an item: in larger tables only the least informative cells are offered others
_ROUNDS = 8
_MOST_UNITS = 1 << 27  # entries of the histograms of all classes
_MOST_REFUSED = 1 << 24  # classes times kinds of records: of more it is not kept who was refused
_WORTH = 1e-3  # of the table's information: a round that gains less is the last


def can_improve(sweep: Sweep, n_classes: int) -> bool:
    """Whether compiled loops can judge all models, and hold the histograms of all classes."""
    rules = sweep.models.rules
    entries = len(rules.weights) + int(rules.first_pair[-1])
    return not sweep.models.others and (n_classes + 1) * max(entries, 1) <= _MOST_UNITS


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
    own = parts.own_values(problem)
    tallies = tally_classes(rules, parts.nodes, own, parts.owner, parts.records, last + 1)  # kept up to date by pull
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
        kept = *tallies, information, changed, *kernels.group_items(parts.owner.astype(np.int32), last + 1)
        besides = candidates, last, touched, best_counts, kind_of_cell[parts.cell], refused
        world = World._make([rules, *moving, *kept, *detail, *besides])
        part, nodes, goal, gain = pull(world, order, sweep.rng)
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


@light_kernel
def relabel(
    rules: Rules, nodes: CodeArray, own: CodeArray, s: int, node: int, records: int, units: IntArray, lifted: IntArray
) -> None:
    """Let records of a class that keep their s-th value publish a node instead, or the reverse if negative."""
    for r in range(len(rules.place)):
        if rules.place[r] == s:
            add_units(rules, r, nodes[s], -records, units)
            add_units(rules, r, node, records, units)
            lifted[pair_of(rules, r, node, own[s])] += records


@light_kernel
def rule_of_decodable(rules: Rules, nodes: CodeArray, lifted: IntArray) -> int:
    """Return -1 if the labels of a class, as far as they are among *nodes*, are defended; else a rule."""
    for r in range(len(rules.place)):
        node = nodes[rules.place[r]]
        if pair_of(rules, r, node, 0) >= 0 and decodable(rules, r, node, lifted) >= 0:
            return r
    return -1


@light_kernel
def lacking(rules: Rules, r: int, node: int, lifted: IntArray) -> tuple[int, int]:
    """Return a value that makes up too much under a label, and how many records of others would have to be there."""
    crowded = decodable(rules, r, node, lifted)
    base, place = rules.first_leaf[r] + crowded, rules.first_node[r] + node
    wanted = -(-lifted[pair_of(rules, r, node, crowded)] * rules.cap_bottom[base] // rules.cap_top[base])
    for leaf in range(rules.lo[place], rules.hi[place]):
        wanted -= lifted[pair_of(rules, r, node, leaf)]
    return crowded, int(wanted)


class World(NamedTuple):
    """All that moves look at.

    Classes are kept up to date by every move; class c has the parts ``members[first[c]:first[c + 1]]`` of the start.
    Node v of sensitive attribute s is ``first_node[s] + v``.
    """

    rules: Rules
    row_of: IntArray  # (n_parts,) the row of candidates
    own: CodeArray  # (n_parts, n_sensitive) the values that the records have
    nodes: CodeArray  # (n_parts, n_sensitive) what they publish
    owner: IntArray  # (n_parts,) class
    records: IntArray  # (n_parts,) lowered by every move
    units: IntArray  # (n_classes, n_leaves of all rules)
    lifted: IntArray  # (n_classes, n_pairs)
    sizes: IntArray  # (n_classes,)
    information: FloatArray  # (n_classes,) what their labels tell
    changed: BoolArray  # (n_classes,) whether they lost or won somebody
    first: IntArray  # (n_classes + 1,)
    members: IntArray
    first_node: IntArray  # (n_sensitive,)
    detail: FloatArray  # (n_nodes of all sensitive attributes,) what a node tells
    step: CodeArray  # (n_nodes of all sensitive attributes,) the node that it is generalized to; itself at the end
    candidates: CodeArray  # (n_rows, n_candidates) classes that a record may join; -1 fills up
    last: int  # the class that is completed later, and only keeps its number of records
    touched: IntArray  # every leaf
    best: IntArray  # scratch for judging
    kind_of: CodeArray  # (n_parts,) the same for records with the same sensitive values
    refused: FloatArray  # (n_classes, n_kinds) the least that a record told that a class, as it is, has no place for


class _Trial(NamedTuple):
    """One try to place a record."""

    nodes: CodeArray  # (n_sensitive,) what the record would publish
    lent: IntArray  # parts of the class of which a record is generalized with it
    at_stake: FloatArray  # (2,) what the record tells where it is, and the gain that a place must exceed


@light_kernel
def lend_companions(
    world: World, r: int, node: int, there: int, crowded: int, wanted: int, lent: IntArray, rng: np.random.Generator
) -> int:
    """Let records of a class publish a label beside those of a value that makes up too much; return how many.

    *lent* are the parts that give one each, found from a random place on, at most as many as are *wanted*.
    """
    rules, units, lifted = world.rules, world.units[there], world.lifted[there]
    members = world.members[world.first[there] : world.first[there + 1]]
    s, place, n_lent, total = rules.place[r], rules.first_node[r] + node, 0, wanted
    for leaf in range(rules.lo[place], rules.hi[place]):
        total += lifted[pair_of(rules, r, node, leaf)]
    begin = int(rng.random() * len(members))
    for i in range(min(len(members), _LOOKED_AT)):
        part = members[(begin + i) % len(members)]
        value, limit = world.own[part, s], rules.first_leaf[r] + world.own[part, s]
        free = world.records[part] > 0 and world.nodes[part, s] == value and value != crowded and n_lent < wanted
        if free and rules.lo[place] <= value < rules.hi[place]:
            most = limit_of(total, rules.cap_top[limit], rules.cap_bottom[limit])
            if lifted[pair_of(rules, r, node, value)] < most:
                relabel(rules, world.nodes[part], world.own[part], s, node, 1, units, lifted)
                lent[n_lent] = part
                n_lent += 1
    return n_lent


@light_kernel
def detail_of(world: World, s: int, node: int) -> float:
    """Return what a node of the s-th sensitive attribute tells."""
    return float(world.detail[world.first_node[s] + node])


@light_kernel
def _try_nodes(
    world: World, part: int, there: int, lends: bool, trial: _Trial, value: float, rng: np.random.Generator
) -> tuple[int, int, int, float]:
    """Let a record join a class, where it would tell *value*, under the nodes of a trial; the class is left as it was.

    Returned are the rule that fails (-1: none), how many companions it has, for which sensitive attribute, and what
    they lose. They are looked for if the class *lends* some, and if there is still a gain then.
    """
    rules, own, units, lifted = world.rules, world.own[part], world.units[there], world.lifted[there]
    size, place, n_lent, cost = world.sizes[there] + 1, 0, 0, 0.0
    add_records(rules, trial.nodes, own, 1, units, lifted)
    failing = class_holds(rules, size, units, world.touched, world.best)
    if failing < 0:
        failing = rule_of_decodable(rules, trial.nodes, lifted)
        if failing >= 0 and lends:
            place = rules.place[failing]
            crowded, wanted = lacking(rules, failing, trial.nodes[place], lifted)
            cost = wanted * (detail_of(world, place, own[place]) - detail_of(world, place, trial.nodes[place]))
            if wanted <= len(trial.lent) and value - cost - trial.at_stake[0] > trial.at_stake[1]:
                n_lent = lend_companions(world, failing, trial.nodes[place], there, crowded, wanted, trial.lent, rng)
                if n_lent == wanted:
                    failing = rule_of_decodable(rules, trial.nodes, lifted)
                if failing < 0:
                    failing = class_holds(rules, size, units, world.touched, world.best)
    for i in range(n_lent):
        other = trial.lent[i]
        relabel(rules, world.nodes[other], world.own[other], place, trial.nodes[place], -1, units, lifted)
    add_records(rules, trial.nodes, own, -1, units, lifted)
    return failing, n_lent, place, cost


@inline_kernel
def _find_goal(
    world: World, part: int, may_lose: bool, may_leave: bool, trial: _Trial, chosen: _Trial, rng: np.random.Generator
) -> tuple[int, int, int]:
    """Return the class where a record tells most, -1 if nowhere more, its companions there, and for which attribute.

    It may stay in its own class under less general values if that *may_lose* what it publishes, and join a candidate
    if it *may_leave*. Nodes and companions are those *chosen*.
    """
    rules, here, own, n_sensitive = world.rules, world.owner[part], world.own[part], world.nodes.shape[1]
    raised = False
    for s in range(n_sensitive):
        raised = raised or world.nodes[part, s] != own[s]
    goal, n_lent, lent_for, known = -1, 0, 0, world.refused.shape[1] > 0
    for c in range(-1 if raised else 0, world.candidates.shape[1]):
        there = here if c < 0 else world.candidates[world.row_of[part], c]
        if there < 0:
            break
        if not (may_lose if c < 0 else may_leave) or (c >= 0 and there == here) or there == world.last:
            continue
        if c >= 0 and known and world.refused[there, world.kind_of[part]] <= trial.at_stake[0]:
            continue
        value, first = world.information[there], goal < 0
        for s in range(n_sensitive):
            trial.nodes[s] = own[s]
            value += detail_of(world, s, own[s])
        # generalize the record's values as far as the class needs, and as the gain permits
        while value - trial.at_stake[0] > trial.at_stake[1]:
            failing, n_found, place, cost = _try_nodes(world, part, there, c >= 0, trial, value, rng)
            if failing < 0:
                goal, n_lent, lent_for = there, n_found, place
                trial.at_stake[1] = value - cost - trial.at_stake[0]
                chosen.nodes[:] = trial.nodes
                chosen.lent[:n_found] = trial.lent[:n_found]
                break
            s = rules.place[failing]
            up = world.step[world.first_node[s] + trial.nodes[s]]
            if up == trial.nodes[s]:
                break
            value += detail_of(world, s, up) - detail_of(world, s, trial.nodes[s])
            trial.nodes[s] = up
        if c >= 0 and known and first and goal < 0:  # nobody with these values that tells as much or more can go there
            world.refused[there, world.kind_of[part]] = trial.at_stake[0]
    return goal, n_lent, lent_for


@kernel
def pull(world: World, order: IntArray, rng: np.random.Generator) -> tuple[IntArray, CodeArray, IntArray, float]:
    """Move records where they tell more, one by one; return (part, nodes, class) of each move, and the gain.

    A record may go to a candidate class, or stay in its own with less general sensitive values; these are generalized
    as far as the class that it joins needs, and as the gain permits. No class that holds may cease to. Where the label
    of a record would tell too much, other records of the class that it joins are generalized with it, if the gain is
    worth that.
    """
    rules, n_sensitive, last, at_stake = world.rules, world.nodes.shape[1], world.last, np.zeros(2)
    trial = _Trial(np.empty(n_sensitive, dtype=np.int32), np.empty(_COMPANIONS, dtype=np.int64), at_stake)
    chosen = _Trial(np.empty(n_sensitive, dtype=np.int32), np.empty(_COMPANIONS, dtype=np.int64), at_stake)
    moved_part, moved_nodes, moved_class = [], [], []
    total = 0.0
    for part in order:
        here, own = world.owner[part], world.own[part]
        units, lifted = world.units[here], world.lifted[here]
        while world.records[part] > 0:
            # take the record out, and see whether its class holds without it
            now = world.information[here]
            for s in range(n_sensitive):
                now += detail_of(world, s, world.nodes[part, s])
            add_records(rules, world.nodes[part], own, -1, units, lifted)
            world.sizes[here] -= 1
            may_lose = here == last or rule_of_decodable(rules, world.nodes[part], lifted) < 0
            may_leave = world.sizes[here] >= rules.records and (
                here == last
                or (may_lose and class_holds(rules, world.sizes[here], units, world.touched, world.best) < 0)
            )
            at_stake[0], at_stake[1] = now, 1e-9
            goal, n_lent, place = _find_goal(world, part, may_lose, may_leave, trial, chosen, rng)
            if goal < 0:
                add_records(rules, world.nodes[part], own, 1, units, lifted)
                world.sizes[here] += 1
                break
            # put it where it tells most, and its companions' labels there
            add_records(rules, chosen.nodes, own, 1, world.units[goal], world.lifted[goal])
            world.sizes[goal] += 1
            world.records[part] -= 1
            total += at_stake[1]
            world.changed[here] = True
            world.changed[goal] = True
            world.refused[here] = np.inf
            world.refused[goal] = np.inf
            moved_part.append(part)
            moved_class.append(goal)
            moved_nodes.append(chosen.nodes.copy())
            for i in range(n_lent):
                other, node = chosen.lent[i], chosen.nodes[place]
                nodes = world.nodes[other].copy()
                relabel(rules, nodes, world.own[other], place, node, 1, world.units[goal], world.lifted[goal])
                world.records[other] -= 1
                nodes[place] = node
                moved_part.append(other)
                moved_class.append(goal)
                moved_nodes.append(nodes)
    nodes_of_moves = np.empty((len(moved_part), n_sensitive), dtype=np.int32)
    for i in range(len(moved_part)):
        nodes_of_moves[i] = moved_nodes[i]
    return np.array(moved_part, dtype=np.int64), nodes_of_moves, np.array(moved_class, dtype=np.int64), total

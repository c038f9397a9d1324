"""Compiled loops that pull records of general classes into special ones."""

from __future__ import annotations

import numpy as np

from shoal.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.compiled import compiled, inlined
from shoal.methods.sweep.grouping import MIX, label_node
from shoal.methods.sweep.kernels import add_units, judge
from shoal.methods.sweep.rules import Rules, TreeTables


@inlined
def _place(key: np.uint64, number: int, mask: np.uint64) -> np.uint64:
    mixed = (key ^ (key >> np.uint64(31)) ^ (np.uint64(number) << np.uint64(40))) * MIX
    return (mixed >> np.uint64(20)) & mask


@compiled
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
    size = 16
    while size < 2 * n_classes:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, dtype=np.int32)
    for c in range(n_classes):
        key = np.uint64(0)
        for j in range(d):
            key += np.uint64(nodes[c, j]) * trees.multiplier[j]
        slot = _place(key, item[c], mask)
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = c
    found = np.full((len(rows), most), -1, dtype=np.int32)
    n_found = np.zeros(len(rows), dtype=np.int64)
    codes = np.empty(d, dtype=np.int32)
    searching = np.arange(len(rows))
    n_searching = len(rows)
    first = 0
    while first < n_classes and n_searching:
        number = item[first]
        best = 0.0
        after = first
        while after < n_classes and item[after] == number:
            best = max(best, information[after])
            after += 1
        left = 0
        for i in range(n_searching):
            row = searching[i]
            cell = rows[row]
            searching[left] = row
            left += 1
            if best <= floor[row]:
                continue
            key = np.uint64(0)
            shallow = False
            for j in range(d):
                code = label_node(trees, levels[number], cell, j)
                shallow = shallow or code < 0
                codes[j] = code
                key += np.uint64(code) * trees.multiplier[j]
            if shallow:
                continue
            slot = _place(key, number, mask)
            while slots[slot] >= 0:
                c = slots[slot]
                same = item[c] == number
                for j in range(d):
                    if not same:
                        break
                    same = nodes[c, j] == codes[j]
                if same:
                    if information[c] > floor[row]:
                        found[row, n_found[row]] = c
                        n_found[row] += 1
                        if n_found[row] == most:
                            left -= 1
                    break
                slot = (slot + np.uint64(1)) & mask
        n_searching = left
        first = after
    return found


@inlined
def class_holds(rules: Rules, size: int, units: IntArray, touched: IntArray, best: IntArray) -> int:
    """Return -1 if a class with these units meets all rules, else the first rule that it does not meet."""
    for r in range(len(rules.place)):
        if judge(rules, r, size, units, touched, rules.n_leaves[r], best) != 0:
            return r
    return -1


@compiled
def pull(
    order: IntArray,
    row_of: IntArray,
    own: CodeArray,
    nodes: CodeArray,
    owner: IntArray,
    records: IntArray,
    candidates: CodeArray,
    rules: Rules,
    units: IntArray,
    sizes: IntArray,
    information: FloatArray,
    sensitive_information: FloatArray,
    first_node: IntArray,
    steps: CodeArray,
    last: int,
    changed: BoolArray,
) -> tuple[IntArray, CodeArray, IntArray, float]:
    """Move records where they tell more, one by one; return (part, nodes, class) of each move, and the gain.

    A record may go to a candidate class, or stay in its own with less general sensitive values; these are generalized
    as far as the class that it joins needs, and as the gain permits. No class that holds may cease to; the class
    *last* is mended later, and only keeps its number of records. *changed* marks classes that lost or won somebody.
    """
    n_sensitive = nodes.shape[1]
    n_limits = 1
    n_leaves = 1
    for r in range(len(rules.place)):
        n_limits = max(n_limits, rules.first_limit[r + 1] - rules.first_limit[r])
        n_leaves = max(n_leaves, rules.n_leaves[r])
    best = np.zeros(n_limits, dtype=np.int64)
    touched = np.arange(n_leaves)
    moved_part = []
    moved_nodes = []
    moved_class = []
    trial = np.empty(n_sensitive, dtype=np.int32)
    chosen = np.empty(n_sensitive, dtype=np.int32)
    total = 0.0
    for k in range(len(order)):
        part = order[k]
        here = owner[part]
        while records[part] > 0:
            now = information[here]
            raised = False
            for s in range(n_sensitive):
                now += sensitive_information[first_node[s] + nodes[part, s]]
                raised = raised or nodes[part, s] != own[part, s]
            for r in range(len(rules.place)):
                add_units(rules, r, nodes[part, rules.place[r]], -1, units[here])
            sizes[here] -= 1
            may_leave = sizes[here] >= rules.records and (
                here == last or class_holds(rules, sizes[here], units[here], touched, best) < 0
            )
            goal, gain = -1, 1e-9
            for c in range(-1 if raised else 0, candidates.shape[1]):
                there = here if c < 0 else candidates[row_of[part], c]
                if there < 0:
                    break
                if (c >= 0 and not may_leave) or (c >= 0 and there == here) or there == last:
                    continue
                value = information[there]
                for s in range(n_sensitive):
                    trial[s] = own[part, s]
                    value += sensitive_information[first_node[s] + trial[s]]
                while value - now > gain:
                    for r in range(len(rules.place)):
                        add_units(rules, r, trial[rules.place[r]], 1, units[there])
                    failing = class_holds(rules, sizes[there] + 1, units[there], touched, best)
                    for r in range(len(rules.place)):
                        add_units(rules, r, trial[rules.place[r]], -1, units[there])
                    if failing < 0:
                        goal, gain = there, value - now
                        chosen[:] = trial
                        break
                    s = rules.place[failing]
                    up = steps[first_node[s] + trial[s]]
                    if up == trial[s]:
                        break
                    value += sensitive_information[first_node[s] + up] - sensitive_information[first_node[s] + trial[s]]
                    trial[s] = up
            if goal < 0:
                for r in range(len(rules.place)):
                    add_units(rules, r, nodes[part, rules.place[r]], 1, units[here])
                sizes[here] += 1
                break
            for r in range(len(rules.place)):
                add_units(rules, r, chosen[rules.place[r]], 1, units[goal])
            sizes[goal] += 1
            records[part] -= 1
            total += gain
            changed[here] = True
            changed[goal] = True
            moved_part.append(part)
            moved_class.append(goal)
            moved_nodes.append(chosen.copy())
    n_moved = len(moved_part)
    out_part = np.empty(n_moved, dtype=np.int64)
    out_class = np.empty(n_moved, dtype=np.int64)
    out_nodes = np.empty((n_moved, n_sensitive), dtype=np.int32)
    for i in range(n_moved):
        out_part[i], out_class[i] = moved_part[i], moved_class[i]
        out_nodes[i] = moved_nodes[i]
    return out_part, out_nodes, out_class, total

"""Exchanges between classes: a few neighbouring records at a time are distributed anew, in the best way there is.

Records of classes swap, classes split, merge and dissolve: all are ways to distribute the same records.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel, places_ascending
from shoal.methods.sweep.classes import Classes, QuasiNodes, Sweep, quasi_nodes
from shoal.methods.sweep.improving import can_improve, sensitive_details
from shoal.methods.sweep.kernels import (
    add_records,
    class_holds,
    decodable,
    pair_of,
    room_for_judging,
    tally_classes,
    unit_share,
)
from shoal.methods.sweep.rules import Parts, Rules, information_of

_FEWEST, _MOST = 5, 10  # records that are distributed at a time: fewer in larger tables
_EFFORT = 1 << 17  # sets of records that a round looks at, about
_ROUNDS = 4
_WORTH = 2e-4  # of the table's information: a round that gains less is the last
_LARGEST = 1 << 21  # records: of more than these, rounds would reach too few
_LARGEST_DEFENDED = 1 << 14  # where labels are defended, exchanges in larger tables gain too little for their time


class Table(NamedTuple):
    """Records one by one, and the tallies of their classes, which every exchange keeps up to date.

    Node v of sensitive attribute s is ``first_node[s] + v``.
    """

    rules: Rules
    leaves: CodeArray  # (n_records, n_quasi)
    own: CodeArray  # (n_records, n_sensitive) the values that records have
    nodes: CodeArray  # (n_records, n_sensitive) what they publish
    owner: IntArray  # (n_records,) class
    labels: CodeArray  # (n_slots, n_quasi) of classes
    information: FloatArray  # (n_slots,) what labels tell
    units: IntArray  # (n_slots, n_leaves of all rules)
    lifted: IntArray  # (n_slots, n_pairs)
    sizes: IntArray  # (n_slots,) 0: free for a new class
    quasi: QuasiNodes
    first_node: IntArray
    detail: FloatArray  # what a sensitive node tells
    step: CodeArray  # the node that it is generalized to; itself at the end
    touched: IntArray  # every leaf of a rule
    best: IntArray  # scratch for judging


def exchange(sweep: Sweep, classes: Classes, parts: Parts) -> tuple[Classes, Parts]:
    """Return classes and parts after exchanges that each gain information; every class holds before and after."""
    problem, rules = sweep.problem, sweep.models.rules
    withheld, shown = parts.take(parts.owner < 0), parts.take(parts.owner >= 0)
    n, n_classes = int(shown.records.sum()), len(classes.item)
    together = min(n, max(_FEWEST, min(_MOST, (_EFFORT // max(n, 1)).bit_length() - 1)))
    turns = min(n, _EFFORT >> together)
    spare = min(n + 1 - n_classes, _ROUNDS * turns * together) + together  # there are never more classes than this
    largest = _LARGEST_DEFENDED if sweep.models.defend else _LARGEST
    if not 0 < n <= largest or not problem.quasi or not can_improve(sweep, n_classes + spare):
        return classes, parts
    shown = shown.take(np.repeat(np.arange(len(shown.cell)), shown.records))
    # records are sorted by what they are, and only equal ones by chance: neither seed nor the order of rows matters
    shown = shown.take(sweep.rng.permutation(n))
    by_label = np.lexsort(classes.nodes.T)
    classes = Classes(classes.item[by_label], classes.nodes[by_label])
    shown = shown._replace(owner=np.argsort(by_label)[shown.owner])
    columns = (shown.owner, *shown.nodes.T, *shown.own_values(problem).T, *sweep.trees.leaves[shown.cell].T)
    shown = shown.take(np.lexsort(columns))
    labels = np.concatenate([classes.nodes, np.zeros((spare, len(problem.quasi)), dtype=np.int32)])
    own = shown.own_values(problem)
    table = Table(
        rules,
        sweep.trees.leaves[shown.cell],
        own,
        shown.nodes,
        shown.owner,
        labels,
        information_of(problem.quasi, labels),
        *tally_classes(rules, shown.nodes, own, shown.owner, np.ones(n, dtype=np.int64), len(labels)),
        quasi_nodes(problem),
        *sensitive_details(sweep),
        np.arange(max(1, int(rules.n_leaves.max(initial=1)))),
        room_for_judging(rules),
    )
    whole = n * sum(attribute.weight for attribute in (*problem.quasi, *problem.sensitive))
    for turn in range(_ROUNDS):
        order = np.lexsort(np.roll(table.leaves, turn, axis=1).T)
        known = table.information[table.owner[order]] + information_of(problem.sensitive, table.nodes[order])
        begins = np.clip(np.argsort(known, kind="stable")[:turns] - together // 2, 0, n - together)
        first = np.sort(np.unique(begins, return_index=True)[1])
        if distribute(table, order, begins[first], together) < _WORTH * whole:
            break
    used, owner = np.unique(table.owner, return_inverse=True)
    item = np.append(classes.item, np.full(spare, len(sweep.items) - 1))[used]
    moved = Parts(shown.cell, table.nodes, np.ones(n, dtype=np.int64), owner.reshape(-1).astype(np.int64))
    return Classes(item, table.labels[used]), Parts.join([moved, withheld])


@light_kernel
def _detail_of(table: Table, s: int, node: int) -> float:
    """Return what a node of the s-th sensitive attribute tells."""
    return float(table.detail[table.first_node[s] + node])


@light_kernel
def _find_dominant(table: Table, n: int, nodes: CodeArray, r: int, units: IntArray) -> tuple[int, int]:
    """Return the record whose value covers the most frequent leaf, the least general, and its next node; -1: none."""
    rules, found, goal, most, narrow = table.rules, -1, -1, 0, 0
    s = rules.place[r]
    for i in range(n):
        node = nodes[i, s]
        place, up = rules.first_node[r] + node, table.step[table.first_node[s] + node]
        width = rules.hi[place] - rules.lo[place]
        for leaf in range(rules.lo[place], rules.hi[place]):
            count = units[rules.first_leaf[r] + leaf]
            better = count > most or (count == most and width < narrow)
            if up != node and better and unit_share(rules, r, node, leaf) > 0:
                found, goal, most, narrow = i, up, count, width
    return found, goal


@light_kernel
def _find_decodable(rules: Rules, lifted: IntArray) -> tuple[int, int, int]:
    """Return a rule, a label and the value that makes up too much of its records; -1: none."""
    for r in range(len(rules.place)):
        for node in range(rules.n_leaves[r], rules.first_node[r + 1] - rules.first_node[r]):
            if pair_of(rules, r, node, 0) >= 0:
                value = decodable(rules, r, node, lifted)
                if value >= 0:
                    return r, node, value
    return -1, -1, -1


@light_kernel
def _find_companion(
    table: Table, chosen: IntArray, n: int, nodes: CodeArray, r: int, label: int, crowded: int
) -> tuple[int, int]:
    """Return a record that is to be generalized where a label tells too much of a value, and to which node; -1: none.

    One of another value joins the label; if there is none, one of the crowded value goes on to a more general label.
    """
    rules, found, goal, least = table.rules, -1, -1, np.inf
    s, place = rules.place[r], rules.first_node[r] + label
    for i in range(n):
        node, value = nodes[i, s], table.own[chosen[i], s]
        told = _detail_of(table, s, node)
        below = rules.lo[place] <= value < rules.hi[place] and told > _detail_of(table, s, label)
        if value != crowded and below and told < least:
            found, goal, least = i, label, told
    up = table.step[table.first_node[s] + label]
    if found < 0 and up != label:
        for i in range(n):
            if nodes[i, s] == label and table.own[chosen[i], s] == crowded:
                found, goal = i, up
    return found, goal


@inline_kernel
def _place_records(table: Table, chosen: IntArray, n: int, nodes: CodeArray, slot: int) -> float:
    """Let records join a class; return what their sensitive values tell there, or -inf if it cannot hold.

    They are counted in the class's tallies afterwards, in both cases. Their values are generalized as far as needed.
    """
    rules, units, lifted = table.rules, table.units[slot], table.lifted[slot]
    for i in range(n):
        nodes[i] = table.own[chosen[i]]
        add_records(rules, nodes[i], table.own[chosen[i]], 1, units, lifted)
    table.sizes[slot] += n
    if table.sizes[slot] < rules.records:
        return -np.inf
    while True:  # every turn generalizes a record
        r = class_holds(rules, table.sizes[slot], units, table.touched, table.best)
        if r >= 0:
            i, up = _find_dominant(table, n, nodes, r, units)
        else:
            r, label, crowded = _find_decodable(rules, lifted)
            if r < 0:
                break
            i, up = _find_companion(table, chosen, n, nodes, r, label, crowded)
        if i < 0:
            return -np.inf
        add_records(rules, nodes[i], table.own[chosen[i]], -1, units, lifted)
        nodes[i, rules.place[r]] = up
        add_records(rules, nodes[i], table.own[chosen[i]], 1, units, lifted)
    known = 0.0
    for i in range(n):
        for s in range(nodes.shape[1]):
            known += _detail_of(table, s, nodes[i, s])
    return known


@kernel
def try_set(table: Table, window: IntArray, some: int, slot: int, each: float, stay: bool) -> float:
    """Let a set of records of a window join a class; return what they tell there, -inf if it cannot hold.

    The class's label tells *each* of them. If they do not *stay*, the class is left as it was.
    """
    n, chosen = 0, np.empty(len(window), dtype=np.int64)
    nodes = np.empty((len(window), table.own.shape[1]), dtype=np.int32)
    for b in range(len(window)):
        if some >> b & 1:
            chosen[n] = window[b]
            n += 1
    known = _place_records(table, chosen, n, nodes, slot)
    for i in range(n):
        if stay:
            table.nodes[chosen[i]], table.owner[chosen[i]] = nodes[i], slot
        else:
            add_records(table.rules, nodes[i], table.own[chosen[i]], -1, table.units[slot], table.lifted[slot])
    if not stay:
        table.sizes[slot] -= n
    return known + n * each


@light_kernel
def _count_old(table: Table, window: IntArray, nodes: CodeArray, owner: IntArray, records: int) -> None:
    """Put the records of a window in the classes where they were, or take them out if *records* is -1."""
    for b in range(len(window)):
        c = owner[b]
        add_records(table.rules, nodes[b], table.own[window[b]], records, table.units[c], table.lifted[c])
        table.sizes[c] += records


@light_kernel
def _find_covered(table: Table, window: IntArray, label: CodeArray) -> int:
    """Return the set of the records that a label covers."""
    cover = 0
    for b in range(len(window)):
        inside = True
        for j in range(len(label)):
            node, leaf = table.quasi.first[j] + label[j], table.leaves[window[b], j]
            inside = inside and table.quasi.lo[node] <= leaf < table.quasi.hi[node]
        cover |= int(inside) << b
    return cover


@inline_kernel
def _common_labels(table: Table, window: IntArray) -> tuple[CodeArray, FloatArray]:
    """Return (n_sets, n_quasi) the lowest common nodes of every set of records, and (n_sets,) what these tell."""
    n_sets, d = 1 << len(window), table.leaves.shape[1]
    labels, told = np.zeros((n_sets, d), dtype=np.int32), np.zeros(n_sets)
    for some in range(1, n_sets):
        b, rest = 0, some & (some - 1)
        while not some >> b & 1:
            b += 1
        for j in range(d):
            leaf, first = table.leaves[window[b], j], table.quasi.first[j]
            node = labels[rest, j] if rest else leaf
            while not table.quasi.lo[first + node] <= leaf < table.quasi.hi[first + node]:
                node = table.quasi.parent[first + node]
            labels[some, j] = node
            told[some] += table.quasi.told[first + node]
    return labels, told


@kernel
def fill_classes(table: Table, window: IntArray, stumps: IntArray) -> tuple[FloatArray, IntArray]:
    """Return (n_sets,) what every set of records tells at best in classes that have others, too; -inf: impossible.

    Beside it, (n_stumps, n_sets): of a set that is distributed to the classes up to one, who goes to this.
    """
    n_sets = 1 << len(window)
    told, taken = np.full(n_sets, -np.inf), np.zeros((len(stumps), n_sets), dtype=np.int64)
    told[0] = 0.0
    for i in range(len(stumps)):
        c = stumps[i]
        cover, before = _find_covered(table, window, table.labels[c]), told
        told = np.full(n_sets, -np.inf)
        some = cover
        while some >= 0:
            value = try_set(table, window, some, c, table.information[c], False)
            free = n_sets - 1 - some
            other = free if value > -np.inf else -1
            while other >= 0:
                if before[other] + value > told[other | some]:
                    told[other | some], taken[i, other | some] = before[other] + value, some
                other = (other - 1) & free if other else -1
            some = (some - 1) & cover if some else -1
    return told, taken


@kernel
def make_classes(table: Table, window: IntArray, known: FloatArray, slot: int) -> tuple[FloatArray, IntArray]:
    """Return (n_sets,) what every set of records tells at best in new classes, and the one of these with its first.

    ``known`` is what their common labels tell, and *slot* is free.
    """
    n_sets = 1 << len(window)
    told, split, value = np.full(n_sets, -np.inf), np.zeros(n_sets, dtype=np.int64), np.empty(n_sets)
    told[0] = 0.0
    for some in range(1, n_sets):
        value[some] = try_set(table, window, some, slot, known[some], False)
        rest = some & (some - 1)
        other = rest
        while other >= 0:
            if told[other] + value[some ^ other] > told[some]:
                told[some], split[some] = told[other] + value[some ^ other], some ^ other
            other = (other - 1) & rest if other else -1
    return told, split


@light_kernel
def _find_free(sizes: IntArray, slot: int) -> int:
    """Return the first slot without records from one on; there always is one."""
    while sizes[slot] > 0:
        slot = (slot + 1) % len(sizes)
    return slot


@kernel
def distribute(table: Table, order: IntArray, begins: IntArray, together: int) -> float:
    """Distribute records anew, so many of an *order* in which similar ones are neighbours; return the gain."""
    total, slot, n_sets = 0.0, 0, 1 << together
    for begin in begins:
        window = order[begin : begin + together].copy()
        nodes, owner = table.nodes[window], table.owner[window]
        before, most = 0.0, 0.0
        for b in range(together):
            before += table.information[owner[b]]
            for s in range(nodes.shape[1]):
                before += _detail_of(table, s, nodes[b, s])
                most += _detail_of(table, s, table.own[window[b], s])
            for j in range(table.leaves.shape[1]):
                most += table.quasi.told[table.quasi.first[j] + table.leaves[window[b], j]]
        if before >= most - 1e-9:
            continue
        _count_old(table, window, nodes, owner, -1)
        ordered = owner[places_ascending(owner)]
        first = np.ones(together, dtype=np.bool_)
        first[1:] = ordered[1:] != ordered[:-1]
        stumps = ordered[first & (table.sizes[ordered] > 0)]
        slot = _find_free(table.sizes, slot)
        labels, known = _common_labels(table, window)
        filled, taken = fill_classes(table, window, stumps)
        made, split = make_classes(table, window, known, slot)
        best, old = before + 1e-9, -1
        for some in range(n_sets):
            if filled[some] + made[n_sets - 1 - some] > best:
                best, old = filled[some] + made[n_sets - 1 - some], some
        if old < 0:
            _count_old(table, window, nodes, owner, 1)
            continue
        total += best - before
        new = n_sets - 1 - old
        for i in range(len(stumps) - 1, -1, -1):
            try_set(table, window, taken[i, old], stumps[i], 0.0, True)
            old ^= taken[i, old]
        while new:
            slot = _find_free(table.sizes, slot)
            table.labels[slot], table.information[slot] = labels[split[new]], known[split[new]]
            try_set(table, window, split[new], slot, 0.0, True)
            new ^= split[new]
    return total

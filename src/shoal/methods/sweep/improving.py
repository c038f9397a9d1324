"""Improving a sweep: records of general classes go back to special ones, as long as every promise holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import compiled, inlined
from shoal.methods.sweep.classes import Classes, Sweep
from shoal.methods.sweep.kernels import add_units, decodable, judge, limit_of, pair_of, tally_pairs, tally_units
from shoal.methods.sweep.labels import MIX, TreeTables, label_node
from shoal.methods.sweep.rules import Parts, Rules, information_of

_LOOKED_AT = 32  # parts of a class, where others are looked for
_COMPANIONS = 16  # records of a class that are generalized for the sake of one that joins it

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


@inlined
def add_record(rules: Rules, nodes: CodeArray, own: CodeArray, records: int, units: IntArray, lifted: IntArray) -> None:
    """Add records that publish some nodes to the units and pairs of a class, or take them away."""
    for r in range(len(rules.place)):
        node = nodes[rules.place[r]]
        add_units(rules, r, node, records, units)
        pair = pair_of(rules, r, node, own[rules.place[r]])
        if pair >= 0:
            lifted[pair] += records


@inlined
def relabel(
    rules: Rules, nodes: CodeArray, own: CodeArray, s: int, node: int, records: int, units: IntArray, lifted: IntArray
) -> None:
    """Let records of a class that keep their s-th value publish a node instead, or the reverse if negative."""
    for r in range(len(rules.place)):
        if rules.place[r] == s:
            add_units(rules, r, nodes[s], -records, units)
            add_units(rules, r, node, records, units)
            lifted[pair_of(rules, r, node, own[s])] += records


@inlined
def rule_of_decodable(rules: Rules, nodes: CodeArray, lifted: IntArray) -> int:
    """Return -1 if the labels of a class, as far as they are among *nodes*, are defended; else a rule."""
    for r in range(len(rules.place)):
        if (
            pair_of(rules, r, nodes[rules.place[r]], 0) >= 0
            and decodable(rules, r, nodes[rules.place[r]], lifted)[0] >= 0
        ):
            return r
    return -1


@inlined
def lacking(rules: Rules, r: int, node: int, lifted: IntArray) -> tuple[int, int]:
    """Return a value that makes up too much under a label, and how many records of others would have to be there."""
    crowded, _ = decodable(rules, r, node, lifted)
    base, place = rules.first_leaf[r] + crowded, rules.first_node[r] + node
    wanted = -(-lifted[pair_of(rules, r, node, crowded)] * rules.cap_bottom[base] // rules.cap_top[base])
    for leaf in range(rules.lo[place], rules.hi[place]):
        wanted -= lifted[pair_of(rules, r, node, leaf)]
    return crowded, int(wanted)


@inlined
def lend_companions(
    rules: Rules, r: int, node: int, units: IntArray, lifted: IntArray, members: IntArray, own: CodeArray,
    nodes: CodeArray, records: IntArray, lent: IntArray, rng: np.random.Generator,
) -> int:  # fmt: skip
    """Let records of a class publish a label beside those of which one value makes up too much; return how many.

    *lent* are the parts that give one each, found from a random place on, at most as many as are lacking.
    """
    crowded, wanted = lacking(rules, r, node, lifted)
    s, place, n_lent, total = rules.place[r], rules.first_node[r] + node, 0, wanted
    for leaf in range(rules.lo[place], rules.hi[place]):
        total += lifted[pair_of(rules, r, node, leaf)]
    begin = int(rng.random() * len(members))
    for i in range(min(len(members), _LOOKED_AT)):
        part = members[(begin + i) % len(members)]
        value, limit = own[part, s], rules.first_leaf[r] + own[part, s]
        free = records[part] > 0 and nodes[part, s] == value and value != crowded and n_lent < wanted
        if free and rules.lo[place] <= value < rules.hi[place]:
            most = limit_of(total, rules.cap_top[limit], rules.cap_bottom[limit])
            if lifted[pair_of(rules, r, node, value)] < most:
                relabel(rules, nodes[part], own[part], s, node, 1, units, lifted)
                lent[n_lent] = part
                n_lent += 1
    return n_lent


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
    lifted: IntArray,
    sizes: IntArray,
    information: FloatArray,
    sensitive_information: FloatArray,
    first_node: IntArray,
    steps: CodeArray,
    last: int,
    changed: BoolArray,
    first: IntArray,
    members: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, CodeArray, IntArray, float]:
    """Move records where they tell more, one by one; return (part, nodes, class) of each move, and the gain.

    A record may go to a candidate class, or stay in its own with less general sensitive values; these are generalized
    as far as the class that it joins needs, and as the gain permits. No class that holds may cease to; the class
    *last* is completed later, and only keeps its number of records. *changed* marks classes that lost or won somebody.
    Where the label of a record would tell too much, other records of the class that it joins are generalized with it,
    if the gain is worth that: class c has the parts ``members[first[c]:first[c + 1]]``.
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
    lent = np.empty(_COMPANIONS, dtype=np.int64)
    chosen_lent = np.empty(_COMPANIONS, dtype=np.int64)
    n_chosen, chosen_place, label_place = 0, 0, 0
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
            add_record(rules, nodes[part], own[part], -1, units[here], lifted[here])
            sizes[here] -= 1
            may_lose = here == last or rule_of_decodable(rules, nodes[part], lifted[here]) < 0
            may_leave = sizes[here] >= rules.records and (
                here == last or (may_lose and class_holds(rules, sizes[here], units[here], touched, best) < 0)
            )
            goal, gain = -1, 1e-9
            for c in range(-1 if raised else 0, candidates.shape[1]):
                there = here if c < 0 else candidates[row_of[part], c]
                if there < 0:
                    break
                if not (may_lose if c < 0 else may_leave) or (c >= 0 and there == here) or there == last:
                    continue
                value = information[there]
                for s in range(n_sensitive):
                    trial[s] = own[part, s]
                    value += sensitive_information[first_node[s] + trial[s]]
                while value - now > gain:
                    add_record(rules, trial, own[part], 1, units[there], lifted[there])
                    failing = class_holds(rules, sizes[there] + 1, units[there], touched, best)
                    n_lent, cost = 0, 0.0
                    if failing < 0:
                        failing = rule_of_decodable(rules, trial, lifted[there])
                        if failing >= 0 and c >= 0:
                            s = rules.place[failing]
                            _, wanted = lacking(rules, failing, trial[s], lifted[there])
                            cost = sensitive_information[first_node[s] + own[part, s]]
                            cost = wanted * (cost - sensitive_information[first_node[s] + trial[s]])
                            if wanted <= len(lent) and value - cost - now > gain:
                                n_lent = lend_companions(
                                    rules, failing, trial[s], units[there], lifted[there],
                                    members[first[there] : first[there + 1]], own, nodes, records, lent, rng,
                                )  # fmt: skip
                                if n_lent == wanted:
                                    failing = rule_of_decodable(rules, trial, lifted[there])
                                if failing < 0:
                                    failing = class_holds(rules, sizes[there] + 1, units[there], touched, best)
                            label_place = s
                    for i in range(n_lent):
                        relabel(
                            rules, nodes[lent[i]], own[lent[i]], label_place, trial[label_place], -1, units[there],
                            lifted[there],
                        )  # fmt: skip
                    add_record(rules, trial, own[part], -1, units[there], lifted[there])
                    if failing < 0:
                        goal, gain = there, value - cost - now
                        chosen[:] = trial
                        chosen_lent[:n_lent] = lent[:n_lent]
                        n_chosen, chosen_place = n_lent, label_place
                        break
                    s = rules.place[failing]
                    up = steps[first_node[s] + trial[s]]
                    if up == trial[s]:
                        break
                    value += sensitive_information[first_node[s] + up] - sensitive_information[first_node[s] + trial[s]]
                    trial[s] = up
            if goal < 0:
                add_record(rules, nodes[part], own[part], 1, units[here], lifted[here])
                sizes[here] += 1
                break
            add_record(rules, chosen, own[part], 1, units[goal], lifted[goal])
            sizes[goal] += 1
            records[part] -= 1
            total += gain
            changed[here] = True
            changed[goal] = True
            moved_part.append(part)
            moved_class.append(goal)
            moved_nodes.append(chosen.copy())
            for i in range(n_chosen):
                found = chosen_lent[i]
                node = chosen[chosen_place]
                relabel(rules, nodes[found], own[found], chosen_place, node, 1, units[goal], lifted[goal])
                records[found] -= 1
                moved_part.append(found)
                moved_class.append(goal)
                moved_nodes.append(nodes[found].copy())
                moved_nodes[-1][chosen_place] = node
    n_moved = len(moved_part)
    out_part = np.empty(n_moved, dtype=np.int64)
    out_class = np.empty(n_moved, dtype=np.int64)
    out_nodes = np.empty((n_moved, n_sensitive), dtype=np.int32)
    for i in range(n_moved):
        out_part[i], out_class[i] = moved_part[i], moved_class[i]
        out_nodes[i] = moved_nodes[i]
    return out_part, out_nodes, out_class, total

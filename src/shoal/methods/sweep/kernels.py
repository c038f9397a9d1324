"""Compiled loops of the sweep: records leave classes, or give up detail, until the rules hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel
from shoal.methods.sweep.rules import Rules

_SMALL = 1 << 31
_TOTALS = 64  # of records under a label, that are tried in steps


@light_kernel
def add_units(rules: Rules, r: int, node: int, records: int, units: IntArray) -> None:
    """Add the units of some records published as a node, or take them away if *records* is negative."""
    base = rules.first_leaf[r]
    if node < rules.n_leaves[r]:
        units[base + node] += records * rules.factor[r]
        return
    place = rules.first_node[r] + node
    for leaf in range(base + rules.lo[place], base + rules.hi[place]):
        units[leaf] += records * (rules.weights[leaf] // rules.common[place]) * rules.share[place]


@light_kernel
def unit_share(rules: Rules, r: int, node: int, leaf: int) -> int:
    """Return the units that a record published as a node gives to one leaf."""
    if node < rules.n_leaves[r]:
        return int(rules.factor[r]) if node == leaf else 0
    place = rules.first_node[r] + node
    if leaf < rules.lo[place] or leaf >= rules.hi[place]:
        return 0
    return int((rules.weights[rules.first_leaf[r] + leaf] // rules.common[place]) * rules.share[place])


@light_kernel
def limit_of(n: int, top: int, bottom: int) -> int:
    """Return floor(n top / bottom) without leaving 64 bits."""
    return (n // bottom) * top + (n % bottom) * top // bottom


@light_kernel
def judge(rules: Rules, r: int, size: int, units: IntArray, touched: IntArray, n_touched: int, best: IntArray) -> int:
    """Say what a rule thinks of a class: 0 it holds; -1 too few values; else at least so many records must leave.

    Whoever they are, fewer cannot do. *best* becomes the largest counts, falling.
    """
    n_limits = rules.first_limit[r + 1] - rules.first_limit[r]
    base = rules.first_leaf[r]
    for k in range(n_limits):
        best[k] = 0
    distinct = 0
    for t in range(n_touched):
        count = units[base + touched[t]]
        if count <= 0:
            continue
        distinct += 1
        k = n_limits
        while k > 0 and best[k - 1] < count:
            if k < n_limits:
                best[k] = best[k - 1]
            k -= 1
        if k < n_limits:
            best[k] = count
    if distinct < rules.distinct[r]:
        return -1
    n = size * rules.factor[r]
    total = 0
    leaving = 0
    for k in range(n_limits):
        top, bottom = rules.top[rules.first_limit[r] + k], rules.bottom[rules.first_limit[r] + k]
        total += best[k]
        small = n < _SMALL and bottom < _SMALL
        if total * bottom > n * top if small else total > limit_of(n, top, bottom):
            # The k largest lose at most f units with every record that leaves, so that S - t f <= psi (n - t f) needs
            # t >= (S - psi n) / ((1 - psi) f); rounded down it is a safe first step.
            needed = int((total - n * (top / bottom)) / ((1.0 - top / bottom) * rules.factor[r]) * (1.0 - 1e-9))
            leaving = max(leaving, needed, 1)
    return leaving


@light_kernel
def class_holds(rules: Rules, size: int, units: IntArray, touched: IntArray, best: IntArray) -> int:
    """Return -1 if a class with these units meets all rules, else the first rule that it does not meet."""
    for r in range(len(rules.place)):
        if judge(rules, r, size, units, touched, rules.n_leaves[r], best) != 0:
            return r
    return -1


@light_kernel
def dominant(
    rules: Rules, r: int, size: int, units: IntArray, touched: IntArray, n_touched: int, rng: np.random.Generator
) -> int:
    """Return the leaf that is most frequent, or most above its share of the table; among equal ones, by chance."""
    base = rules.first_leaf[r]
    n = size * rules.factor[r]
    leaf, most, equal = -1, -np.inf, 1
    for t in range(n_touched):
        count = units[base + touched[t]]
        excess = count - rules.reference[base + touched[t]] * n
        if count <= 0 or excess < most:
            continue
        equal = equal + 1 if excess == most else 1
        if equal == 1 or rng.random() * equal < 1.0:
            leaf, most = touched[t], excess
    return leaf


@light_kernel
def add_records(rules: Rules, nodes: CodeArray, records: int, units: IntArray) -> None:
    """Add records that publish some nodes to the units of a class, or take them away."""
    for r in range(len(rules.place)):
        add_units(rules, r, nodes[rules.place[r]], records, units)


@kernel
def tally_classes(
    rules: Rules, nodes: CodeArray, owner: IntArray, records: IntArray, n_classes: int
) -> tuple[IntArray, IntArray]:
    """Return (n_classes, n_leaves of all rules) units and (n_classes,) records of classes."""
    units = np.zeros((n_classes, len(rules.weights)), dtype=np.int64)
    sizes = np.zeros(n_classes, dtype=np.int64)
    for part in range(len(owner)):
        sizes[owner[part]] += records[part]
        add_records(rules, nodes[part], records[part], units[owner[part]])
    return units, sizes


class Members(NamedTuple):
    """The parts of classes: class c has ``order[first[c]:first[c + 1]]``, and part p publishes ``pattern[p]``."""

    first: IntArray  # (n_classes + 1,)
    order: IntArray
    pattern: CodeArray  # (n_parts,)


class _Class(NamedTuple):
    """One class while records leave it, by groups of one pattern each; arrays that all classes use in turn."""

    patterns: CodeArray  # (n_patterns, n_sensitive) nodes
    group_of: CodeArray  # (n_patterns,) the group of each pattern; -1: none
    pattern: IntArray  # (n_groups,)
    before: IntArray  # (n_groups,) records at the beginning
    remaining: IntArray  # (n_groups,) records now
    units: IntArray  # (n_leaves of all rules,)
    seen: BoolArray  # (n_leaves of all rules,) whether the class has units there
    touched: IntArray  # (n_rules, n_leaves) leaves that were seen
    n_touched: IntArray  # (n_rules,)
    group_of_leaf: IntArray  # (n_leaves of all rules,) the group that keeps a value, if values alone tell groups apart
    best: IntArray  # scratch for judging


@kernel
def room_for_judging(rules: Rules) -> IntArray:
    """Return an array for the largest counts that any rule limits."""
    n_limits = 1
    for r in range(len(rules.place)):
        n_limits = max(n_limits, rules.first_limit[r + 1] - rules.first_limit[r])
    return np.zeros(n_limits, dtype=np.int64)


@light_kernel
def _enter(rules: Rules, one: _Class, members: Members, c: int, stay: IntArray) -> tuple[int, int, bool]:
    """Put the records of a class in groups, count units; return groups, records, and whether no value is lifted."""
    n_groups, size, plain = 0, 0, True
    for i in range(members.first[c], members.first[c + 1]):
        part = members.order[i]
        pattern = members.pattern[part]
        if one.group_of[pattern] < 0:
            one.group_of[pattern] = n_groups
            one.pattern[n_groups], one.before[n_groups] = pattern, 0
            n_groups += 1
        one.before[one.group_of[pattern]] += stay[part]
        size += stay[part]
    alone = one.patterns.shape[1] == 1  # then a value that is kept is a pattern of its own
    for g in range(n_groups):
        one.remaining[g] = one.before[g]
        for r in range(len(rules.place)):
            node, base = one.patterns[one.pattern[g], rules.place[r]], rules.first_leaf[r]
            low, high = node, node + 1
            if node >= rules.n_leaves[r]:
                plain = False
                low, high = rules.lo[rules.first_node[r] + node], rules.hi[rules.first_node[r] + node]
            elif alone:
                one.group_of_leaf[base + node] = g
            for leaf in range(low, high):
                if not one.seen[base + leaf]:
                    one.seen[base + leaf] = True
                    one.touched[r, one.n_touched[r]] = leaf
                    one.n_touched[r] += 1
            add_units(rules, r, node, one.before[g], one.units)
    return n_groups, size, plain


@light_kernel
def _let_leave(rules: Rules, one: _Class, g: int, records: int) -> None:
    """Let records of a group leave."""
    one.remaining[g] -= records
    add_records(rules, one.patterns[one.pattern[g]], -records, one.units)


@light_kernel
def _choose_leaver(rules: Rules, one: _Class, n_groups: int, size: int, rule: int, rng: np.random.Generator) -> int:
    """Return the group of the record that leaves: by the rule, or anybody if there is none."""
    chosen = -1
    if rule < 0:
        seat = int(rng.random() * size)
        chosen = 0
        while seat >= one.remaining[chosen]:
            seat -= one.remaining[chosen]
            chosen += 1
    else:
        leaf = dominant(rules, rule, size, one.units, one.touched[rule], one.n_touched[rule], rng)
        chosen = one.group_of_leaf[rules.first_leaf[rule] + leaf]
        if chosen < 0 or one.remaining[chosen] <= 0:
            # of the pattern that takes most from the leaf; among equal ones every record has the same chance
            chosen, most, equal = -1, 0, 0
            for g in range(n_groups):
                gives = 0
                if one.remaining[g] > 0:
                    gives = unit_share(rules, rule, one.patterns[one.pattern[g], rules.place[rule]], leaf)
                if gives > most:
                    chosen, most, equal = g, gives, one.remaining[g]
                elif gives == most and gives > 0:
                    equal += one.remaining[g]
                    if rng.random() * equal < one.remaining[g]:
                        chosen = g
    return chosen


@light_kernel
def _leave(
    rules: Rules, one: _Class, n_groups: int, size: int, plain: bool, most: int, focus: int, rng: np.random.Generator
) -> int:
    """Let records leave a class until it holds and has at most so many; return how many stay, 0 if it cannot hold."""
    at_least = rules.plain_records if plain else rules.records
    while True:
        leaving, rule = 0, focus
        if size < at_least:
            return 0
        for r in range(len(rules.place)):
            leaving = judge(rules, r, size, one.units, one.touched[r], one.n_touched[r], one.best)
            if leaving != 0:
                rule = r
                break
        if leaving < 0:
            return 0
        if leaving == 0 and size <= most:
            return size
        for _ in range(min(leaving or size - most, size)):
            _let_leave(rules, one, _choose_leaver(rules, one, n_groups, size, rule, rng), 1)
            size -= 1


@light_kernel
def _clear(rules: Rules, one: _Class, n_groups: int) -> None:
    """Clear all arrays for the next class."""
    for g in range(n_groups):
        one.group_of[one.pattern[g]] = -1
    for r in range(len(rules.place)):
        for i in range(one.n_touched[r]):
            leaf = rules.first_leaf[r] + one.touched[r, i]
            one.units[leaf], one.seen[leaf], one.group_of_leaf[leaf] = 0, False, -1
        one.n_touched[r] = 0


@inline_kernel
def _start(rules: Rules, patterns: CodeArray, members: Members) -> _Class:
    """Return the arrays that all classes use in turn."""
    n_rules, n_leaves, widest = len(rules.place), len(rules.weights), 0
    for c in range(len(members.first) - 1):
        widest = max(widest, members.first[c + 1] - members.first[c])
    return _Class(
        patterns,
        np.full(len(patterns), -1, dtype=np.int32),
        np.empty(widest, dtype=np.int64),
        np.empty(widest, dtype=np.int64),
        np.empty(widest, dtype=np.int64),
        np.zeros(n_leaves, dtype=np.int64),
        np.zeros(n_leaves, dtype=np.bool_),
        np.empty((n_rules, max(1, rules.n_leaves.max() if n_rules else 1)), dtype=np.int64),
        np.zeros(n_rules, dtype=np.int64),
        np.full(n_leaves, -1, dtype=np.int64),
        room_for_judging(rules),
    )


@kernel
def settle(
    members: Members,
    patterns: CodeArray,
    rules: Rules,
    most: IntArray,
    focus: IntArray,
    rng: np.random.Generator,
    stay: IntArray,
) -> IntArray:
    """Let records leave each class until all rules hold and at most ``most[c]`` records are left; return the sizes.

    Parts have ``stay`` records each, which is lowered. The one who leaves is of the pattern that takes most from the
    dominant value of the first rule that fails, or of rule ``focus[c]`` if all hold (-1: any). A class that cannot hold
    ends empty. Patterns are nodes.
    """
    n_classes, one = len(members.first) - 1, _start(rules, patterns, members)
    sizes = np.zeros(n_classes, dtype=np.int64)
    for c in range(n_classes):
        n_groups, size, plain = _enter(rules, one, members, c, stay)
        sizes[c] = _leave(rules, one, n_groups, size, plain, most[c], focus[c], rng)
        for i in range(members.first[c], members.first[c + 1]):
            part = members.order[i]
            g = one.group_of[members.pattern[part]]
            stay[part] = draw_share(stay[part], one.before, one.remaining, g, rng) if sizes[c] else 0
        _clear(rules, one, n_groups)
    return sizes


@kernel
def screen(members: Members, patterns: CodeArray, rules: Rules, records: IntArray) -> BoolArray:
    """Return (n_groups,) whether each group has enough records, and satisfies every rule and cap without labels.

    Rules on attributes whose values may be generalized are left out, because labels may satisfy them.
    """
    one, found = _start(rules, patterns, members), np.zeros(len(members.first) - 1, dtype=np.bool_)
    for c in range(len(found)):
        n_groups, size, _ = _enter(rules, one, members, c, records)
        holds = size >= rules.plain_records
        for r in range(len(rules.place)):
            if not rules.capped[r]:
                holds = holds and judge(rules, r, size, one.units, one.touched[r], one.n_touched[r], one.best) == 0
                continue
            for t in range(one.n_touched[r]):
                leaf = rules.first_leaf[r] + one.touched[r, t]
                most = limit_of(size, rules.cap_top[leaf], rules.cap_bottom[leaf])
                holds = holds and one.units[leaf] <= most * rules.factor[r]
        found[c] = holds
        _clear(rules, one, n_groups)
    return found


@light_kernel
def draw_share(records: int, total: IntArray, wanted: IntArray, g: int, rng: np.random.Generator) -> int:
    """Return how many of a part's records are among the ``wanted[g]`` drawn from ``total[g]``; both are lowered."""
    if wanted[g] == 0:
        return 0
    if wanted[g] == total[g]:
        wanted[g] -= records
        total[g] -= records
        return records
    taken = 0
    for _ in range(records):
        if rng.random() * total[g] < wanted[g]:
            wanted[g] -= 1
            taken += 1
        total[g] -= 1
    return taken


@kernel
def lift(
    rules: Rules, chosen: IntArray, steps: CodeArray, width: IntArray, by_node: IntArray, lifted: IntArray
) -> bool:
    """Generalize sensitive values of one class, step by step, until the *chosen* rules on the attribute hold.

    ``by_node`` are the records of each node; ``lifted[node]`` counts those that went from a node to the next. Each time
    it is a record whose value covers the dominant leaf, the least general one. False: nothing more can be lifted.
    """
    n_leaves = rules.n_leaves[chosen[0]]
    touched = np.arange(n_leaves)
    best = room_for_judging(rules)
    units = np.zeros(len(rules.weights), dtype=np.int64)
    size = by_node.sum()
    for r in chosen:
        for node in range(len(by_node)):
            if by_node[node]:
                add_units(rules, r, node, by_node[node], units)
    while True:
        failing, excess = -1, 0
        for r in chosen:
            excess = judge(rules, r, size, units, touched, n_leaves, best)
            if excess != 0:
                failing = r
                break
        if failing < 0:
            return True
        highest = 0.0
        for k in range(rules.first_limit[failing], rules.first_limit[failing + 1]):
            highest = max(highest, rules.top[k] / rules.bottom[k])
        node, most = -1, 0
        for leaf in range(n_leaves):
            count = units[rules.first_leaf[failing] + leaf]
            if count <= most:
                continue
            candidate = -1
            for v in range(len(by_node)):
                useful = by_node[v] > 0 and steps[v] != v and unit_share(rules, failing, v, leaf) > 0
                if useful and (candidate < 0 or width[v] < width[candidate]):
                    candidate = v
            if candidate >= 0:
                node, most = candidate, count
        if node < 0:
            return False
        # Far from the goal several at once: where t records must leave, t (1 - psi) or more must be lifted.
        amount = max(1, min(by_node[node], int(excess * (1.0 - highest)) // (8 * n_leaves)))
        by_node[node] -= amount
        by_node[steps[node]] += amount
        lifted[node] += amount
        for r in chosen:
            add_units(rules, r, node, -amount, units)
            add_units(rules, r, steps[node], amount, units)


@kernel
def label_class(
    rules: Rules, chosen: IntArray, steps: CodeArray, width: IntArray, counts: IntArray, most: int
) -> tuple[int, IntArray]:
    """Return the label that costs a class least, and how many records of each value publish it; -1: no label helps.

    It is one of the labels above the most frequent value, for at most so many records. *width* are the leaves below
    each node.
    """
    node, goal, least, best = int(np.argmax(counts)), -1, np.inf, counts
    while node != steps[node]:
        node = int(steps[node])
        lifted = label_fewest(rules, chosen, node, counts, most)
        loss = lifted.sum() * (1.0 - 1.0 / width[node])
        if len(lifted) and loss < least:
            goal, least, best = node, loss, lifted
        if least == 0.0:
            break
    return goal, best


@kernel
def can_label(rules: Rules, chosen: IntArray, steps: CodeArray, counts: IntArray, most: IntArray) -> BoolArray:
    """Return (n_classes,) whether a label for at most so many records of each class makes it hold."""
    found = np.zeros(len(counts), dtype=np.bool_)
    for c in range(len(counts)):
        node, covered = int(np.argmax(counts[c])), 0
        while node != steps[node] and not found[c]:
            node = int(steps[node])
            place = rules.first_node[chosen[0]] + node
            covered = min(counts[c, rules.lo[place] : rules.hi[place]].sum(), most[c])
            # most groups hold without a label, or with as many as are allowed
            found[c] = (
                label_records(rules, chosen, node, counts[c], 0)[1]
                or label_records(rules, chosen, node, counts[c], covered)[1]
                or len(label_fewest(rules, chosen, node, counts[c], most[c])) > 0
            )
    return found


class Records(NamedTuple):
    """The records of classes: class c has the parts ``first[c]:first[c + 1]``."""

    first: IntArray  # (n_classes + 1,)
    value: CodeArray  # (n_parts,) of the sensitive attribute
    records: IntArray  # (n_parts,)


@kernel
def label_classes(
    rules: Rules, chosen: IntArray, steps: CodeArray, width: IntArray, members: Records, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return (n_classes,) the label of each class, -1 if none helps, and (n_parts,) the records that publish it.

    Which records of a value publish the label is drawn at random.
    """
    n_leaves, n_classes = rules.n_leaves[chosen[0]], len(members.first) - 1
    goal, taken = np.full(n_classes, -1, dtype=np.int64), np.zeros(len(members.value), dtype=np.int64)
    counts = np.zeros(n_leaves, dtype=np.int64)
    for c in range(n_classes):
        counts[:] = 0
        for part in range(members.first[c], members.first[c + 1]):
            counts[members.value[part]] += members.records[part]
        goal[c], lifted = label_class(rules, chosen, steps, width, counts, counts.sum())
        if goal[c] < 0 or lifted.sum() == 0:
            continue
        for part in range(members.first[c], members.first[c + 1]):
            taken[part] = draw_share(members.records[part], counts, lifted, members.value[part], rng)
    return goal, taken


@kernel
def label_fewest(rules: Rules, chosen: IntArray, node: int, counts: IntArray, most: int) -> IntArray:
    """Return how many records of each value of one class are to publish a label, as few as can be; empty: no way.

    At most so many do. Then the *chosen* rules on the attribute hold, and no value has more of the label than its cap.
    All limits are convex, so the totals that are possible have no gaps: totals are tried in steps, and by bisection
    between the first that succeeds and the one before it.
    """
    place = rules.first_node[chosen[0]] + node
    covered = min(counts[rules.lo[place] : rules.hi[place]].sum(), most)
    found, failed, total, step = np.zeros(0, dtype=np.int64), -1, 0, max(1, covered // _TOTALS)
    while True:
        lifted, holds = label_records(rules, chosen, node, counts, total)
        if holds:
            found, least = lifted, total
        elif total == covered:
            return found
        else:
            failed = total
        if not len(found):
            total = min(total + step, covered)
        elif least - failed == 1:
            return found
        else:
            total = (least + failed) // 2


@kernel
def label_records(rules: Rules, chosen: IntArray, node: int, counts: IntArray, total: int) -> tuple[IntArray, bool]:
    """Return (n_leaves,) how many of *total* records under a label should be of each value, and whether that holds.

    They are taken from the values that are most frequent then, down to a common level, as far as caps permit: whatever
    k is, no other choice leaves less to the k most frequent values.
    """
    n_leaves, place, base = len(counts), rules.first_node[chosen[0]] + node, rules.first_leaf[chosen[0]]
    factor, most = rules.factor[chosen[0]], np.zeros(n_leaves, dtype=np.int64)
    units = np.zeros(len(rules.weights), dtype=np.int64)
    for r in chosen:
        units[rules.first_leaf[r] : rules.first_leaf[r + 1]] = counts * rules.factor[r]
        add_units(rules, r, node, total, units)
    present = np.flatnonzero(counts)
    for leaf in present:
        if not rules.lo[place] <= leaf < rules.hi[place]:
            continue
        most[leaf] = counts[leaf]
        for r in chosen:
            cap = rules.first_leaf[r] + leaf
            most[leaf] = min(most[leaf], limit_of(total, rules.cap_top[cap], rules.cap_bottom[cap]))
    # the lowest level to which not more than all have to be taken
    below, level = -1, units[base : base + n_leaves].max()
    while level - below > 1:
        middle, taken = (below + level) // 2, 0
        for leaf in present:
            taken += min(max(-((middle - units[base + leaf]) // factor), 0), most[leaf])
        if taken > total:
            below = middle
        else:
            level = middle
    lifted, rest = np.zeros(n_leaves, dtype=np.int64), total
    for leaf in present:
        lifted[leaf] = min(max(-((level - units[base + leaf]) // factor), 0), most[leaf])
        rest -= lifted[leaf]
    for leaf in present:  # of one record more from each, some are still to be taken
        more = min(rest, min(max(-((below - units[base + leaf]) // factor), 0), most[leaf]) - lifted[leaf])
        lifted[leaf] += more
        rest -= more
    touched, best, holds = np.arange(n_leaves), room_for_judging(rules), rest == 0
    for r in chosen:
        units[rules.first_leaf[r] : rules.first_leaf[r + 1]] -= lifted * rules.factor[r]
        holds = holds and judge(rules, r, counts.sum(), units, touched, n_leaves, best) == 0
    return lifted, holds

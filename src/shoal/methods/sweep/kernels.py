"""Compiled loops of the sweep: remove records from classes, or generalize their values, until the rules hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from shoal.core.arrays import BoolArray, CodeArray, IntArray
from shoal.core.kernels import inline_kernel, kernel, light_kernel
from shoal.methods.sweep.rules import Rules

_SMALL = 1 << 31
_TOTALS = 64  # steps between the smallest and largest number of records under a label


@light_kernel
def add_units(rules: Rules, r: int, node: int, records: int, units: IntArray) -> None:
    """Add the units of some records published as a node; subtract them if *records* is negative."""
    base = rules.first_leaf[r]
    if node < rules.n_leaves[r]:
        units[base + node] += records * rules.factor[r]
        return
    place = rules.first_node[r] + node
    for leaf in range(base + rules.lo[place], base + rules.hi[place]):
        units[leaf] += records * (rules.weights[leaf] // rules.common[place]) * rules.share[place]


@light_kernel
def unit_share(rules: Rules, r: int, node: int, leaf: int) -> int:
    """Return the units that one record published as a node contributes to a leaf."""
    if node < rules.n_leaves[r]:
        return int(rules.factor[r]) if node == leaf else 0
    place = rules.first_node[r] + node
    if leaf < rules.lo[place] or leaf >= rules.hi[place]:
        return 0
    return int((rules.weights[rules.first_leaf[r] + leaf] // rules.common[place]) * rules.share[place])


@light_kernel
def limit_of(n: int, top: int, bottom: int) -> int:
    """Return floor(n top / bottom) without exceeding 64 bits."""
    return (n // bottom) * top + (n % bottom) * top // bottom


@light_kernel
def judge(rules: Rules, r: int, size: int, units: IntArray, touched: IntArray, n_touched: int, best: IntArray) -> int:
    """Check one rule on a class: return 0 if it holds and -1 if values are missing.

    Otherwise return a lower bound on the records that must leave, whichever they are. The function fills *best* with
    the largest counts in descending order.
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
            # Each record that leaves takes at most f units from the k largest values. So S - t f <= psi (n - t f)
            # requires t >= (S - psi n) / ((1 - psi) f), rounded down for safety.
            needed = int((total - n * (top / bottom)) / ((1.0 - top / bottom) * rules.factor[r]) * (1.0 - 1e-9))
            leaving = max(leaving, needed, 1)
    return leaving


@light_kernel
def class_holds(rules: Rules, size: int, units: IntArray, touched: IntArray, best: IntArray) -> int:
    """Return -1 if a class with these units satisfies all rules, otherwise the first rule that fails."""
    for r in range(len(rules.place)):
        if judge(rules, r, size, units, touched, rules.n_leaves[r], best) != 0:
            return r
    return -1


@light_kernel
def dominant(
    rules: Rules, r: int, size: int, units: IntArray, touched: IntArray, n_touched: int, rng: np.random.Generator
) -> int:
    """Return the leaf that is most frequent, or most above its share of the table; chance breaks ties."""
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
    """Add records that publish these nodes to the units of a class; subtract them if *records* is negative."""
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
    """One class while records leave it, grouped by pattern; all classes reuse these arrays."""

    patterns: CodeArray  # (n_patterns, n_sensitive) nodes
    group_of: CodeArray  # (n_patterns,) the group of each pattern, or -1
    pattern: IntArray  # (n_groups,)
    before: IntArray  # (n_groups,) records at first
    remaining: IntArray  # (n_groups,) records now
    units: IntArray  # (n_leaves of all rules,)
    seen: BoolArray  # (n_leaves of all rules,) whether the class has units there
    touched: IntArray  # (n_rules, n_leaves) the seen leaves
    n_touched: IntArray  # (n_rules,)
    best: IntArray  # scratch for judging


@kernel
def room_for_judging(rules: Rules) -> IntArray:
    """Return a scratch array for the largest counts that any rule limits."""
    n_limits = 1
    for r in range(len(rules.place)):
        n_limits = max(n_limits, rules.first_limit[r + 1] - rules.first_limit[r])
    return np.zeros(n_limits, dtype=np.int64)


@light_kernel
def _enter(rules: Rules, one: _Class, members: Members, c: int, stay: IntArray) -> tuple[int, int, bool]:
    """Group the records of a class and count units; return groups, records, and whether all publish plain values."""
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
    for g in range(n_groups):
        one.remaining[g] = one.before[g]
        for r in range(len(rules.place)):
            node, base = one.patterns[one.pattern[g], rules.place[r]], rules.first_leaf[r]
            low, high = node, node + 1
            if node >= rules.n_leaves[r]:
                plain = False
                low, high = rules.lo[rules.first_node[r] + node], rules.hi[rules.first_node[r] + node]
            for leaf in range(low, high):
                if not one.seen[base + leaf]:
                    one.seen[base + leaf] = True
                    one.touched[r, one.n_touched[r]] = leaf
                    one.n_touched[r] += 1
            add_units(rules, r, node, one.before[g], one.units)
    return n_groups, size, plain


@light_kernel
def _choose_leaver(rules: Rules, one: _Class, n_groups: int, size: int, rule: int, rng: np.random.Generator) -> int:
    """Return the group of the record that leaves next, for a rule that fails; any record if *rule* is -1."""
    chosen = -1
    if rule < 0:
        seat = int(rng.random() * size)
        chosen = 0
        while seat >= one.remaining[chosen]:
            seat -= one.remaining[chosen]
            chosen += 1
        return chosen
    # the pattern that contributes most to the dominant leaf; among equal ones every record has the same chance
    leaf = dominant(rules, rule, size, one.units, one.touched[rule], one.n_touched[rule], rng)
    most, equal = 0, 0
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
    """Remove records until a class holds and has at most *most*; return how many stay, or 0 if it cannot hold."""
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
            g = _choose_leaver(rules, one, n_groups, size, rule, rng)
            one.remaining[g] -= 1
            add_records(rules, one.patterns[one.pattern[g]], -1, one.units)
            size -= 1


@light_kernel
def _clear(rules: Rules, one: _Class, n_groups: int) -> None:
    for g in range(n_groups):
        one.group_of[one.pattern[g]] = -1
    for r in range(len(rules.place)):
        for i in range(one.n_touched[r]):
            leaf = rules.first_leaf[r] + one.touched[r, i]
            one.units[leaf], one.seen[leaf] = 0, False
        one.n_touched[r] = 0


@inline_kernel
def _start(rules: Rules, patterns: CodeArray, members: Members) -> _Class:
    """Return empty arrays, large enough for every class."""
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
    """Remove records from each class until all rules hold and at most ``most[c]`` records are left; return the sizes.

    The function lowers *stay* (n_parts,), the records of each part. The next record to leave has the pattern that
    contributes most to the dominant value of the first rule that fails, or of rule ``focus[c]`` if all hold (-1: any
    record). A class that cannot hold ends empty.
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

    If the values of an attribute may be generalized, only their caps are checked, because labels may satisfy the rule.
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
    """Return how many of a part's records are among the ``wanted[g]`` drawn from ``total[g]``, and lower both."""
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
def lift(rules: Rules, chosen: IntArray, steps: CodeArray, by_node: IntArray, lifted: IntArray) -> bool:
    """Generalize sensitive values of one class step by step, until the *chosen* rules on the attribute hold.

    ``by_node`` are the records of each node, and ``lifted[node]`` counts the records that move from a node to the next.
    Each step moves a record whose value covers the dominant leaf, under the most special node. Return False if none is
    left.
    """
    n_leaves = rules.n_leaves[chosen[0]]
    touched = np.arange(n_leaves)
    best = room_for_judging(rules)
    units = np.zeros(len(rules.weights), dtype=np.int64)
    size, base = by_node.sum(), rules.first_node[chosen[0]]
    width = rules.hi[base : base + len(by_node)] - rules.lo[base : base + len(by_node)]
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
        # Far from the goal, lift several: if t records must leave, at least t (1 - psi) must be lifted.
        amount = max(1, min(by_node[node], int(excess * (1.0 - highest)) // (8 * n_leaves)))
        by_node[node] -= amount
        by_node[steps[node]] += amount
        lifted[node] += amount
        for r in chosen:
            add_units(rules, r, node, -amount, units)
            add_units(rules, r, steps[node], amount, units)


@kernel
def label_class(rules: Rules, chosen: IntArray, steps: CodeArray, counts: IntArray, most: int) -> tuple[int, IntArray]:
    """Return the label that costs a class least, or -1 if none helps, and how many records of each value publish it.

    Candidates are the nodes above the most frequent value. At most *most* records may publish the label.
    """
    node, goal, least, best = int(np.argmax(counts)), -1, np.inf, counts
    while node != steps[node]:
        node = int(steps[node])
        lifted = label_fewest(rules, chosen, node, counts, most)
        place = rules.first_node[chosen[0]] + node
        loss = lifted.sum() * (1.0 - 1.0 / (rules.hi[place] - rules.lo[place]))
        if len(lifted) and loss < least:
            goal, least, best = node, loss, lifted
        if least == 0.0:
            break
    return goal, best


@kernel
def can_label(rules: Rules, chosen: IntArray, steps: CodeArray, counts: IntArray, most: IntArray) -> BoolArray:
    """Return (n_classes,) whether a label for at most ``most[c]`` records of each class makes it hold."""
    found = np.zeros(len(counts), dtype=np.bool_)
    for c in range(len(counts)):
        node, covered = int(np.argmax(counts[c])), 0
        while node != steps[node] and not found[c]:
            node = int(steps[node])
            place = rules.first_node[chosen[0]] + node
            covered = min(counts[c, rules.lo[place] : rules.hi[place]].sum(), most[c])
            # most groups hold without labels, or with the maximum number of labels
            found[c] = (
                label_records(rules, chosen, node, counts[c], 0)[1]
                or label_records(rules, chosen, node, counts[c], covered)[1]
                or len(label_fewest(rules, chosen, node, counts[c], most[c])) > 0
            )
    return found


@kernel
def label_classes(
    rules: Rules,
    chosen: IntArray,
    steps: CodeArray,
    first: IntArray,
    value: CodeArray,
    records: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Return (n_classes,) the label of each class, or -1 if none helps, and (n_parts,) the records that publish it.

    Class c has the parts ``first[c]:first[c + 1]`` with a *value* and *records* each. Chance decides which records of a
    value publish the label.
    """
    n_leaves, n_classes = rules.n_leaves[chosen[0]], len(first) - 1
    goal, taken = np.full(n_classes, -1, dtype=np.int64), np.zeros(len(value), dtype=np.int64)
    counts = np.zeros(n_leaves, dtype=np.int64)
    for c in range(n_classes):
        counts[:] = 0
        for part in range(first[c], first[c + 1]):
            counts[value[part]] += records[part]
        goal[c], lifted = label_class(rules, chosen, steps, counts, counts.sum())
        if goal[c] < 0 or lifted.sum() == 0:
            continue
        for part in range(first[c], first[c + 1]):
            taken[part] = draw_share(records[part], counts, lifted, value[part], rng)
    return goal, taken


@kernel
def label_fewest(rules: Rules, chosen: IntArray, node: int, counts: IntArray, most: int) -> IntArray:
    """Return the minimum number of records of each value that publish a label of one class; empty if none helps.

    Then the *chosen* rules on the attribute hold, and the share of each value under the label is within its cap. At
    most *most* records publish the label. All limits are convex, so the feasible totals form an interval: the search
    goes up in steps to a total that succeeds, and bisects between it and the last failure.
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
    """Return (n_leaves,) how many of *total* records under a label have each value, and whether the class then holds.

    The records come from the values that are most frequent then, down to a common level, as far as caps permit. For
    every k, no other choice leaves fewer records to the k most frequent values.
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
    # bisect the lowest level that takes at most *total* records
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
    for leaf in present:  # one more record from some values, to reach the total
        more = min(rest, min(max(-((below - units[base + leaf]) // factor), 0), most[leaf]) - lifted[leaf])
        lifted[leaf] += more
        rest -= more
    touched, best, holds = np.arange(n_leaves), room_for_judging(rules), rest == 0
    for r in chosen:
        units[rules.first_leaf[r] : rules.first_leaf[r + 1]] -= lifted * rules.factor[r]
        holds = holds and judge(rules, r, counts.sum(), units, touched, n_leaves, best) == 0
    return lifted, holds

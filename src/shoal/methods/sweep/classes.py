"""The sweep itself: from item to item, classes close when they hold, and who has to leave goes on.

Items are level vectors; compiled loops group cells by their labels at such a vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.core.kernels import kernel, light_kernel, pack, same_rows
from shoal.core.progress import Step
from shoal.methods.sweep.closing import Remainder
from shoal.methods.sweep.kernels import Members, screen, settle
from shoal.methods.sweep.rules import Bound, Models, Parts
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.tree import Taxonomy

_SCOUT_AGAIN = 0.7  # once so few of the parts are left, more of them may be pruned
_NO_LIMIT = np.iinfo(np.int64).max
_GIVEN_UP = 16  # a class that another model refuses gives up one record of so many, and asks again
_MOST_SCOUTS = 64
_TOGETHER = 8  # items that are looked at together
THREADS = 2
_COUNTED = 16  # bits of a number of records, and how large it is at most
_CROWD = (1 << _COUNTED) - 1
_BITS = 14  # of values: one for each of the most frequent, one for all others, and the last for generalized ones
_NOWHERE = np.uint64(2**64 - 1)  # the key of no label
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits have no pattern: it scatters keys


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Labels of classes: the item at which each closed, and its nodes."""

    item: IntArray  # (n_classes,)
    nodes: CodeArray  # (n_classes, n_quasi)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One run over the items of V."""

    problem: Problem
    items: CodeArray  # (n_items, n_quasi) levels
    trees: TreeTables
    models: Models
    rng: np.random.Generator
    remainder: Remainder | None = None  # of a defended sweep, whose classes close with all free records of their label

    def run(self, parts: Parts, step: Step) -> tuple[Classes, Parts]:
        """Return the closed classes and all parts; those that no class took are left to the last item's class."""
        live = Live(self, parts)
        closed: list[Parts] = []
        items: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        labels: list[CodeArray] = [np.zeros((0, self.items.shape[1]), dtype=np.int32)]
        n_classes = 0
        for item, possible in live.look_ahead(len(self.items) - 1):
            class_of, nodes = live.group_at(self.items[item], possible)
            if not len(nodes):
                continue
            first, order = kernels.group_items(class_of, len(nodes))
            members = possible[order]
            stay = live.remaining[members]
            population = [population_under(self.trees, other, self.items[item], nodes) for other in self.models.others]
            if self.remainder is not None:
                of_people = [other.judge.requirement.population is not None for other in self.models.others]
                people = [under for under, asked in zip(population, of_people, strict=True) if asked]
                sizes = self.remainder.close(first, live.parts.take(members), people)
                stay[np.repeat(sizes == 0, np.diff(first))] = 0
            else:
                sizes = self._settle(live, first, members, stay, population)
            held, staying = np.flatnonzero(sizes), np.flatnonzero(stay)
            if not len(held):
                continue
            number = np.full(len(nodes), -1, dtype=np.int64)
            number[held] = n_classes + np.arange(len(held))
            owner = number[class_of[order[staying]]]
            closed.append(live.parts.take(members[staying])._replace(records=stay[staying], owner=owner))
            items.append(np.full(len(held), item, dtype=np.int64))
            labels.append(nodes[held])
            n_classes += len(held)
            live.take(members, stay)
            step.advance(int(sizes.sum()))
        return Classes(np.concatenate(items), np.concatenate(labels)), Parts.join([*closed, live.take_left()])

    def _settle(
        self, live: Live, first: IntArray, members: IntArray, stay: IntArray, population: list[IntArray]
    ) -> IntArray:
        """Lower *stay* until every class of an item holds or is empty; return the sizes."""
        rules, patterns = self.models.rules, live.patterns
        everyone = Members(first, np.arange(len(stay)), live.pattern[members])
        n = len(first) - 1
        most, focus = np.full(n, _NO_LIMIT), np.full(n, -1, dtype=np.int64)
        sizes = settle(everyone, patterns, rules, most, focus, self.rng, stay)
        if not self.models.others:
            return sizes
        parts = live.parts.take(members)
        asked = np.arange(n)
        while True:
            asked = asked[sizes[asked] > 0]
            inside, edges = _ranges(first, asked)
            people = [under[asked] for under in population]
            holds, rule = self.models.others_hold(edges, parts.take(inside), stay[inside], people)
            asked, rule = asked[~holds], rule[~holds]
            if not len(asked):
                return sizes
            inside, edges = _ranges(first, asked)
            most = sizes[asked] - np.maximum(sizes[asked] // _GIVEN_UP, 1)
            some = Members(edges, inside, everyone.pattern)
            sizes[asked] = settle(some, patterns, rules, most, rule, self.rng, stay)


def _ranges(first: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the places ``first[c]:first[c + 1]`` of the chosen classes, and where each class starts among them.

    >>> _ranges(np.array([0, 2, 5, 6]), np.array([0, 2]))
    (array([0, 1, 5]), array([0, 2, 3]))
    """
    lengths = first[chosen + 1] - first[chosen]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(edges[-1]) + np.repeat(first[chosen] - edges[:-1], lengths), edges


class Live:
    """Parts with records that no class has taken yet.

    Many items share a *scout*, a level vector that is more general than all of them. A class that has too few values at
    the scout has no subset that could close at one of its items, now or later, so its parts are passed over there.
    """

    def __init__(self, sweep: Sweep, parts: Parts) -> None:
        problem, items, trees = sweep.problem, sweep.items, sweep.trees
        self._items, self._rules, self._defended = items, sweep.models.rules, sweep.remainder is not None
        self._taken = False  # whether a class closed since items were looked at together
        key = pack([parts.cell * 0, *trees.leaves[parts.cell].T], [1, *trees.width.tolist()])
        parts = parts.take(np.argsort(key, kind="stable"))  # neighbours have similar quasi values: memory is slow
        self._trees = trees._replace(leaves=trees.leaves[parts.cell])  # of parts
        n_leaves = np.array([attribute.taxonomy.n_leaves for attribute in problem.sensitive], dtype=np.int64)
        self._raised: BoolArray = np.asarray((parts.nodes >= n_leaves).any(axis=1))
        self._live = np.arange(len(parts.cell))
        self._scouts, self._scout_of_item = find_scouts(items)
        self._bits = np.uint64(1) << np.arange(len(self._scouts), dtype=np.uint64)
        wider = (self._scouts <= self._scouts[:, np.newaxis]).all(axis=2)  # who is pruned there is pruned here
        self._wider = np.where(wider, self._bits, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        self._scouted = np.full(len(self._scouts), np.inf)  # how many parts were live then
        self._pruned = np.zeros(len(parts.cell), dtype=np.uint64)  # a bit for every scout
        example, self.pattern = same_rows((*parts.nodes.T, np.zeros(len(parts.nodes), dtype=np.int32)))
        self.patterns = parts.nodes[example]
        self._of_pattern = np.bincount(self.pattern, weights=parts.records).astype(np.int64)
        self.parts = parts
        self.remaining = parts.records.copy()

    def look_ahead(self, n_items: int) -> Iterator[tuple[int, IntArray]]:
        """Yield items, one by one, with the parts that may close there, as long as a class can close anywhere.

        Several items are looked at together, by threads: what is taken meanwhile only makes their classes smaller.
        """
        with ThreadPoolExecutor(THREADS) as pool:
            for begin in range(0, n_items, _TOGETHER):
                self._forget_taken()
                crowd = self._crowd()
                if not crowd.enough[np.bitwise_or.reduce(crowd.held[self._live]) >> _COUNTED]:
                    return
                items = range(begin, min(begin + _TOGETHER, n_items))
                scouts, n_live = self._scout_of_item[items], len(self._live)
                asked = [scout for scout in np.unique(scouts).tolist() if n_live < _SCOUT_AGAIN * self._scouted[scout]]
                for scout, able in zip(asked, self._find_all(pool, self._scouts[asked], asked, crowd), strict=True):
                    self._scouted[scout] = n_live
                    self._pruned[self._live] |= self._bits[scout]
                    self._pruned[able] &= ~self._bits[scout]
                found = self._find_all(pool, self._items[items], scouts, crowd)
                self._taken = False
                ready = list(pool.map(self._find_closable, self._items[items], found)) if self._defended else found
                for item, crowded, closable in zip(items, found, ready, strict=True):
                    able = closable
                    if self._taken:  # then other groups may hold
                        able = crowded[self.remaining[crowded] > 0]
                        able = self._find_closable(self._items[item], able) if self._defended else able
                    yield item, able

    def group_at(self, levels: CodeArray, parts: IntArray) -> tuple[CodeArray, CodeArray]:
        """Return the classes of parts at a level vector (-1: too small), and the classes' nodes."""
        enough = self._rules.plain_records, self._rules.records
        return group_by_label(self._trees, levels, parts, self.remaining, self._raised, *enough)

    def take(self, members: IntArray, stay: IntArray) -> None:
        """Take the records that stay in classes out."""
        self.remaining[members] -= stay
        self._taken = True
        taken = np.bincount(self.pattern[members], weights=stay, minlength=len(self.patterns))
        self._of_pattern -= taken.astype(np.int64)

    def take_left(self) -> Parts:
        """Return what no class has taken."""
        self._forget_taken()
        owner = np.full(len(self._live), -1, dtype=np.int64)
        return self.parts.take(self._live)._replace(records=self.remaining[self._live], owner=owner)

    def _crowd(self) -> Crowd:
        """Return what parts that share a label must have together, by the rule that needs most values."""
        rules = self._rules
        least = rules.records if self._raised[self._live].any() else rules.plain_records
        bit, enough = np.zeros(len(self.patterns), dtype=np.int64), np.ones(1 << _BITS, dtype=np.bool_)
        if len(rules.place):
            r = int(np.argmax(rules.distinct))
            node, n_leaves = self.patterns[:, rules.place[r]], int(rules.n_leaves[r])
            # what a value adds: itself, or the share that it may have in a defended class
            adds = (rules.cap_top / rules.cap_bottom)[rules.first_leaf[r] :][:n_leaves]
            needed = 1 - 1e-9
            if not rules.capped[r]:
                adds, needed = np.ones(n_leaves), float(rules.distinct[r])
            count = np.bincount(node, self._of_pattern, n_leaves)[:n_leaves]
            of_leaf = np.argsort(np.argsort(-count, kind="stable")).clip(max=_BITS - 2)
            added = np.zeros(1)  # by all subsets of bits
            for one in range(_BITS - 1):
                added = np.append(added, added + adds[of_leaf == one].sum())
            enough[: len(added)] = added >= needed  # the last bit is for generalized values, which may be enough
            bit = np.where(node < n_leaves, of_leaf[np.minimum(node, n_leaves - 1)], _BITS - 1)
        records = np.minimum(self.remaining, _CROWD).astype(np.uint32)
        return Crowd(records | np.uint32(_CROWD + 1) << bit.astype(np.uint32)[self.pattern], min(least, _CROWD), enough)

    def _find_all(
        self, pool: ThreadPoolExecutor, levels: CodeArray, scouts: IntArray | list[int], crowd: Crowd
    ) -> list[IntArray]:
        """Return for each of several level vectors the parts that may close there, but those that its scout pruned."""
        given = self._trees, self._live, self._pruned, crowd
        return list(pool.map(lambda one, bits: find_crowded(*given, one, bits), levels, self._wider[scouts]))

    def _find_closable(self, levels: CodeArray, parts: IntArray) -> IntArray:
        """Return the parts whose group at a level vector satisfies all rules and caps, labels aside."""
        first, group = kernels.number_keys(label_keys(self._trees, levels, parts))
        edges, order = kernels.group_items(group, len(first))
        members = Members(edges, parts[order], self.pattern)
        return parts[screen(members, self.patterns, self._rules, self.remaining)[group]]

    def _forget_taken(self) -> None:
        """Forget what is taken; copy the rest to neighbouring places if it is less than half: memory is slow."""
        self._live = live = self._live[self.remaining[self._live] > 0]
        if 2 * len(live) >= len(self.remaining):
            return
        self._trees = self._trees._replace(leaves=self._trees.leaves[live])
        self.parts, self.pattern, self.remaining = self.parts.take(live), self.pattern[live], self.remaining[live]
        self._raised, self._pruned, self._live = self._raised[live], self._pruned[live], np.arange(len(live))


def population_under(trees: TreeTables, other: Bound, levels: CodeArray, nodes: CodeArray) -> IntArray:
    """Return (n_classes,) the people of a model's population under the labels of one item."""
    population = other.judge.requirement.population
    if population is None:
        return np.zeros(len(nodes), dtype=np.int64)
    cells = np.flatnonzero(population)
    group, labels = group_cells(trees, levels, cells, population[cells])
    people = kernels.sum_groups(group, population[cells], len(labels))
    _, same = same_rows((*np.concatenate([nodes, labels]).T,))
    total = np.zeros(int(same.max()) + 1, dtype=np.int64)
    total[same[len(nodes) :]] = people
    return total[same[: len(nodes)]]


def sort_items(
    attributes: Sequence[Attribute], columns: Sequence[AnyIntArray], chosen: CodeArray | None = None
) -> CodeArray:
    """Return (n_items, n_quasi) the items of V: combinations of tree levels (0 = root), in the order of the sweep.

    They are all that there are, or those *chosen*.

    Tian and Zhang, Definition 6: by average information, then by the levels of the attributes in the order of their
    importance, larger first. Given are the attributes, whose weights count as they are, and the leaves that occur.
    """
    average = [
        [Fraction(str(attribute.weight)) * share for share in level_information(attribute, column)]
        for attribute, column in zip(attributes, columns, strict=True)
    ]
    scale = math.lcm(*(share.denominator for shares in average for share in shares))
    whole = [[int(share * scale) for share in shares] for shares in average]
    every = product(*(range(attribute.taxonomy.height + 1) for attribute in attributes))
    vectors = sorted(
        every if chosen is None else map(tuple, chosen.tolist()),
        key=lambda levels: (sum(whole[j][level] for j, level in enumerate(levels)), levels),
        reverse=True,
    )
    return np.array(vectors, dtype=np.int32).reshape(len(vectors), len(attributes))


def find_scouts(items: CodeArray) -> tuple[CodeArray, IntArray]:
    """Return at most 64 level vectors, each more general than, or equal to, a cluster of items, and that of each item.

    Levels are rounded down to multiples of a step, the least step that leaves few enough vectors.
    """
    step = 2
    while True:
        levels, of_item = np.unique(items // step * step, axis=0, return_inverse=True)
        if len(levels) <= _MOST_SCOUTS:
            return levels, of_item.reshape(-1).astype(np.int64)
        step += 1


def level_information(attribute: Attribute, leaves: AnyIntArray) -> list[Fraction]:
    """Return I(S) of every level: the mean of 1 / leaves over its nodes, weighted by p'.

    The weight p' of a node is given by the policy, or is the number of its leaves that occur.

    >>> from shoal.taxonomies.files import from_nested
    >>> level_information(Attribute("a", from_nested({"a0": ["a1", "a2"]})), np.array([0, 1]))
    [Fraction(1, 2), Fraction(1, 1)]
    """
    taxonomy, given = attribute.taxonomy, attribute.value_weights or {}
    known = [(node, Fraction(str(given[label]))) for node, label in enumerate(taxonomy.labels) if label in given]
    occurs = np.zeros(taxonomy.n_leaves, dtype=np.int64)
    occurs[leaves] = 1
    running = np.concatenate([[0], np.cumsum(occurs)])
    averages = []
    for level in range(taxonomy.height + 1):
        nodes = np.flatnonzero(taxonomy.level == level)
        weights = running[taxonomy.hi[nodes]] - running[taxonomy.lo[nodes]]
        below = taxonomy.hi[nodes] - taxonomy.lo[nodes]
        # nodes with the same number of leaves are added up together, so that there are few fractions
        sizes, place = np.unique(below, return_inverse=True)
        of_size = np.bincount(place.reshape(-1), weights=weights).astype(np.int64)
        total = Fraction(int(weights.sum()))
        share = sum((Fraction(int(w), int(size)) for w, size in zip(of_size, sizes, strict=True)), Fraction(0))
        for node, weight in known:
            if taxonomy.level[node] == level:
                more = weight - int(running[taxonomy.hi[node]] - running[taxonomy.lo[node]])
                total, share = total + more, share + more / int(taxonomy.hi[node] - taxonomy.lo[node])
        averages.append(share / total if total else Fraction(0))
    return averages


def nodes_at_levels(taxonomy: Taxonomy) -> CodeArray:
    """Return (height + 1, n_leaves) the ancestor of each leaf at each tree level, -1 below the leaf's own level."""
    levels = np.arange(taxonomy.height + 1)
    table = np.stack([taxonomy.node_at(taxonomy.height - level) for level in levels.tolist()])
    return np.where(levels[:, np.newaxis] > taxonomy.level[: taxonomy.n_leaves], np.int32(-1), table)


@light_kernel
def label_node(trees: TreeTables, levels: CodeArray, cell: int, j: int) -> int:
    """Return the node of a cell's j-th quasi value at a level vector; -1 if its leaf is nearer to the root."""
    return int(trees.table[trees.offset[j] + levels[j] * trees.width[j] + trees.leaves[cell, j]])


@light_kernel
def slot_of(key: np.uint64, number: int, mask: np.uint64) -> np.uint64:
    """Return where to look for a label's key, together with a number, in a table of mask + 1 slots."""
    mixed = (key ^ (key >> np.uint64(31)) ^ (np.uint64(number) << np.uint64(40))) * MIX
    return (mixed >> np.uint64(20)) & mask


@light_kernel
def last_slot(n: int) -> np.uint64:
    """Return the last slot of a table for n keys, half of which stays empty: all bits of a slot's number."""
    size = 16
    while size < 2 * n:
        size *= 2
    return np.uint64(size - 1)


@kernel
def label_keys(trees: TreeTables, levels: CodeArray, live: IntArray) -> KeyArray:
    """Return (n_live,) the keys of the labels of live parts at a level vector; of none where a leaf is too shallow."""
    d, keys = len(levels), np.empty(len(live), dtype=np.uint64)
    first, shallow = np.zeros(d + 1, dtype=np.int64), np.zeros(d, dtype=np.bool_)
    first[1:] = np.cumsum(trees.width)
    of_leaf = np.empty(first[-1], dtype=np.uint64)
    for j in range(d):
        for leaf in range(trees.width[j]):
            node = trees.table[trees.offset[j] + levels[j] * trees.width[j] + leaf]
            of_leaf[first[j] + leaf] = np.uint64(node) * trees.multiplier[j]
            shallow[j] |= node < 0
    for i in range(len(live)):
        cell, key = live[i], np.uint64(0)
        for j in range(d):
            key += of_leaf[first[j] + trees.leaves[cell, j]]
        keys[i] = key
    for j in range(d):
        for i in range(len(live) if shallow[j] else 0):
            if label_node(trees, levels, live[i], j) < 0:
                keys[i] = _NOWHERE
    return keys


class Crowd(NamedTuple):
    """What parts have, and what those that share a label must have together, so that a subset of them may close."""

    held: KeyArray  # (n_parts,) up to _CROWD records, and behind these bits that of the sensitive value
    least: int  # records
    enough: BoolArray  # (1 << _BITS,) whether such values may be enough for a class


@kernel
def find_crowded(
    trees: TreeTables, live: IntArray, pruned: KeyArray, crowd: Crowd, levels: CodeArray, bits: np.uint64
) -> IntArray:
    """Return the parts, but those that were pruned, whose label at a level vector has enough records and values.

    Labels may share a slot of a table, so that some parts are returned of whose label this is not true. Parts are in
    the order of their first attribute: those with one node of it are looked at together, in a table that is small.
    """
    parts, n_asked, n, begin = np.empty(len(live), dtype=np.int64), 0, 0, 0
    for part in live:
        parts[n_asked] = part
        n_asked += pruned[part] & bits == 0
    parts = parts[:n_asked]
    keys, together = label_keys(trees, levels, parts), np.empty(last_slot(n_asked) + 1, dtype=np.uint32)
    while begin < n_asked:
        node, end = label_node(trees, levels, parts[begin], 0), begin + 1
        while end < n_asked and label_node(trees, levels, parts[end], 0) == node:
            end += 1
        mask = last_slot(end - begin)
        together[: mask + 1] = 0
        for i in range(begin, end):
            slot, held = slot_of(keys[i], 0, mask), int(crowd.held[parts[i]])
            before = int(together[slot])
            records = min((before & _CROWD) + (held & _CROWD), _CROWD)
            together[slot] = (before | held) & ~_CROWD | records
        for i in range(begin, end):
            parts[n] = parts[i]  # a branch that nobody can predict takes longer than this
            found = int(together[slot_of(keys[i], 0, mask)])
            n += crowd.enough[found >> _COUNTED] & (found & _CROWD >= crowd.least) & (keys[i] != _NOWHERE)
        begin = end
    return parts[:n].copy()


def group_by_label(
    trees: TreeTables,
    levels: CodeArray,
    live: IntArray,
    records: IntArray,
    raised: BoolArray,
    at_least: int,
    if_raised: int,
) -> tuple[CodeArray, CodeArray]:
    """Return (n_live,) the class of each live part at a level vector, and (n_classes, n_quasi) the nodes of classes.

    Parts whose leaves are too shallow, or whose class is too small, have class -1. A class is too small below
    *at_least* records, or below *if_raised* if some of its parts are *raised*.
    """
    keys, table = label_keys(trees, levels, live), trees.offset + levels * trees.width
    deep = keys != _NOWHERE
    if not trees.exact:
        columns = trees.table[table + trees.leaves[live[deep]]].T
        keys[deep] = pack([*columns], [int(column.max(initial=0)) + 1 for column in columns])
    first, group = kernels.number_keys(keys)
    lifted = kernels.sum_groups(group, raised[live].astype(np.int64), len(first)) > 0
    large = kernels.sum_groups(group, records[live], len(first)) >= np.where(lifted, if_raised, at_least)
    large &= deep[first]
    number = np.where(large, np.cumsum(large) - 1, -1).astype(np.int32)
    return number[group], trees.table[table + trees.leaves[live[first[large]]]]


class TreeTables(NamedTuple):
    """The quasi attributes: the ancestors of every leaf at every level, all in one array.

    The node of leaf a of attribute j at level h is ``table[offset[j] + h * width[j] + a]``, -1 below the leaf's own
    level. The sum of nodes times ``multiplier`` tells labels apart if it is ``exact``, and is a good hash if it is not.
    """

    leaves: CodeArray  # (n_cells, n_quasi)
    table: CodeArray
    offset: IntArray  # (n_quasi,)
    width: IntArray  # (n_quasi,)
    multiplier: KeyArray  # (n_quasi,)
    exact: bool


def tree_tables(problem: Problem) -> TreeTables:
    """Write down the quasi attributes for the compiled loops."""
    tables = [nodes_at_levels(attribute.taxonomy) for attribute in problem.quasi]
    radix, multiplier = 1, []
    for attribute in problem.quasi:
        multiplier.append(radix)
        radix *= attribute.taxonomy.n_nodes
    exact = radix < 1 << 63
    if not exact:
        multiplier = [pow(int(MIX), j + 1, 1 << 64) for j in range(len(tables))]
    factors = np.array(multiplier, dtype=np.uint64)
    leaves = np.stack([codes.astype(np.int32) for codes in problem.quasi_codes], axis=1)
    return TreeTables(
        leaves=leaves,
        table=np.concatenate([table.reshape(-1) for table in tables]),
        offset=np.cumsum([0, *(table.size for table in tables[:-1])]).astype(np.int64),
        width=np.array([table.shape[1] for table in tables], dtype=np.int64),
        multiplier=factors,
        exact=exact,
    )


class QuasiNodes(NamedTuple):
    """The nodes of all quasi attributes; node v of attribute j is ``first[j] + v``."""

    first: IntArray  # (n_quasi + 1,)
    parent: CodeArray
    lo: CodeArray
    hi: CodeArray
    level: CodeArray
    told: FloatArray  # what a label of this node tells


def quasi_nodes(problem: Problem) -> QuasiNodes:
    """Write down the nodes of the quasi attributes for the compiled loops."""
    trees = [attribute.taxonomy for attribute in problem.quasi]
    return QuasiNodes(
        np.cumsum([0, *(tree.n_nodes for tree in trees)]).astype(np.int64),
        np.concatenate([tree.parent for tree in trees]).astype(np.int32),
        np.concatenate([tree.lo for tree in trees]).astype(np.int32),
        np.concatenate([tree.hi for tree in trees]).astype(np.int32),
        np.concatenate([tree.level for tree in trees]).astype(np.int32),
        np.concatenate([one.weight / (one.taxonomy.hi - one.taxonomy.lo) for one in problem.quasi]),
    )


def group_cells(
    trees: TreeTables, levels: CodeArray, cells: IntArray, records: IntArray
) -> tuple[CodeArray, CodeArray]:
    """Return (n_cells,) the class of cells at a level vector, -1 where a leaf is too shallow, and classes' nodes."""
    trees = trees._replace(leaves=trees.leaves[cells])
    return group_by_label(trees, levels, np.arange(len(cells)), records, np.zeros(len(cells), dtype=np.bool_), 0, 0)

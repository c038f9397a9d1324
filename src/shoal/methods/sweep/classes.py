"""The sweep: it visits level vectors from special to general and closes the classes that satisfy the models.

An *item* is a vector with one taxonomy level for each quasi-identifier. At each item, compiled loops group the free
records by their labels. Records that a closed class does not keep are free for later, more general items.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.kernels import kernel, light_kernel, pack, same_rows
from shoal.core.progress import Step
from shoal.methods.sweep.closing import Remainder
from shoal.methods.sweep.kernels import Members, screen, settle
from shoal.methods.sweep.rules import BoundModel, Models, Parts
from shoal.plan.problem import Attribute, Problem
from shoal.taxonomies.tree import Taxonomy

_NO_LIMIT = np.iinfo(np.int64).max
_GIVEN_UP = 16  # if another model rejects a class, one of 16 records leaves before the next check
_COUNTED = 16  # bits that hold a number of records, which is capped at _CROWD
_CROWD = (1 << _COUNTED) - 1
_BITS = 14  # for values: one for each of the most frequent, one for all others, and the last for generalized values
_NOWHERE = np.uint64(2**64 - 1)  # the key of records without a label
MIX = np.uint64(0x9E3779B97F4A7C15)  # odd and without a pattern, to scatter keys


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The labels of classes: the item at which each class closed, and its nodes."""

    item: IntArray  # (n_classes,)
    nodes: CodeArray  # (n_classes, n_quasi)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """The input of one run over the items of V."""

    problem: Problem
    items: CodeArray  # (n_items, n_quasi) levels
    trees: TreeTables
    models: Models
    rng: np.random.Generator
    remainder: Remainder | None = None  # only in a defended sweep

    def run(self, parts: Parts, step: Step) -> tuple[Classes, Parts]:
        """Return the closed classes, and all parts; parts that no class took have owner -1."""
        live = Live(self, parts)
        closed: list[Parts] = []
        items: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        labels: list[CodeArray] = [np.zeros((0, self.items.shape[1]), dtype=np.int32)]
        n_classes = 0
        for item, possible in live.visit_items(len(self.items) - 1):
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
        rest = live.parts._replace(records=live.remaining, owner=np.full(len(live.remaining), -1, dtype=np.int64))
        closed.append(rest.take(live.remaining > 0))
        return Classes(np.concatenate(items), np.concatenate(labels)), Parts.join(closed)

    def _settle(
        self, live: Live, first: IntArray, members: IntArray, stay: IntArray, population: list[IntArray]
    ) -> IntArray:
        """Lower *stay* until every class of an item satisfies the models or is empty; return the sizes."""
        rules, patterns, pattern = self.models.rules, live.patterns, live.pattern[members]
        n, parts = len(first) - 1, live.parts.take(members)

        def gather(classes: IntArray) -> Members:
            place, inside = kernels.gather_entries(first, classes)
            return Members(np.searchsorted(place, np.arange(len(classes) + 1)), inside, pattern)

        most, focus = np.full(n, _NO_LIMIT), np.full(n, -1, dtype=np.int64)
        sizes, asked = settle(gather(np.arange(n)), patterns, rules, most, focus, self.rng, stay), np.arange(n)
        while self.models.others:
            asked = asked[sizes[asked] > 0]
            some = gather(asked)
            people = [under[asked] for under in population]
            holds, rule = self.models.others_hold(some.first, parts.take(some.order), stay[some.order], people)
            asked, rule = asked[~holds], rule[~holds]
            if not len(asked):
                break
            most = sizes[asked] - np.maximum(sizes[asked] // _GIVEN_UP, 1)
            sizes[asked] = settle(gather(asked), patterns, rules, most, rule, self.rng, stay)
        return sizes


class Live:
    """The parts with records that no class has taken yet."""

    def __init__(self, sweep: Sweep, parts: Parts) -> None:
        problem, trees = sweep.problem, sweep.trees
        self._items, self._rules, self._defended = sweep.items, sweep.models.rules, sweep.remainder is not None
        key = pack([parts.cell * 0, *trees.leaves[parts.cell].T], [1, *trees.width.tolist()])
        parts = parts.take(np.argsort(key, kind="stable"))  # similar quasi values share cache lines
        self._trees = trees._replace(leaves=trees.leaves[parts.cell])  # of parts
        n_leaves = np.array([attribute.taxonomy.n_leaves for attribute in problem.sensitive], dtype=np.int64)
        self._raised: BoolArray = np.asarray((parts.nodes >= n_leaves).any(axis=1))
        self._live = np.arange(len(parts.cell))
        example, self.pattern = same_rows((*parts.nodes.T, np.zeros(len(parts.nodes), dtype=np.int32)))
        self.patterns = parts.nodes[example]
        self.parts = parts
        self.remaining = parts.records.copy()
        self._crowd = self._measure_crowd()

    def visit_items(self, n_items: int) -> Iterator[tuple[int, IntArray]]:
        """Yield each item with the parts that may close there; stop once no class can close at any item."""
        for item in range(n_items):
            if not self._crowd.enough[np.bitwise_or.reduce(self._crowd.held[self._live]) >> _COUNTED]:
                return
            yield item, find_crowded(self._trees, self._live, self._crowd, self._items[item])

    def group_at(self, levels: CodeArray, parts: IntArray) -> tuple[CodeArray, CodeArray]:
        """Return the classes of parts at a level vector (-1: none), and the classes' nodes.

        Groups that are too small do not count as classes. In a defended sweep, neither do groups that fail a rule or
        cap even with labels.
        """
        enough = self._rules.plain_records, self._rules.records
        class_of, nodes = group_by_label(self._trees, levels, parts, self.remaining, self._raised, *enough)
        if self._defended:
            edges, order = kernels.group_items(class_of, len(nodes))
            holds = screen(Members(edges, parts[order], self.pattern), self.patterns, self._rules, self.remaining)
            number = np.append(np.where(holds, np.cumsum(holds) - 1, -1), -1).astype(np.int32)
            class_of, nodes = number[class_of], nodes[holds]
        return class_of, nodes

    def take(self, members: IntArray, stay: IntArray) -> None:
        """Remove the records that stay in classes."""
        self.remaining[members] -= stay
        self._live = live = self._live[self.remaining[self._live] > 0]
        if 2 * len(live) < len(self.remaining):  # compact the arrays, to use fewer cache lines
            self._trees = self._trees._replace(leaves=self._trees.leaves[live])
            self.parts, self.pattern, self.remaining = self.parts.take(live), self.pattern[live], self.remaining[live]
            self._raised, self._live = self._raised[live], np.arange(len(live))
        self._crowd = self._measure_crowd()

    def _measure_crowd(self) -> Crowd:
        """Return the minimum that parts with the same label need, by the rule that needs most values."""
        rules = self._rules
        least = rules.records if self._raised[self._live].any() else rules.plain_records
        bit, enough = np.zeros(len(self.patterns), dtype=np.int64), np.ones(1 << _BITS, dtype=np.bool_)
        if len(rules.place):
            r = int(np.argmax(rules.distinct))
            node, n_leaves = self.patterns[:, rules.place[r]], int(rules.n_leaves[r])
            # in a defended class each value contributes the share that it may have, otherwise it counts as one
            adds = (rules.cap_top / rules.cap_bottom)[rules.first_leaf[r] :][:n_leaves]
            needed = 1 - 1e-9
            if not rules.capped[r]:
                adds, needed = np.ones(n_leaves), float(rules.distinct[r])
            of_pattern = np.bincount(self.pattern, self.remaining, len(self.patterns))
            count = np.bincount(node, of_pattern, n_leaves)[:n_leaves]
            of_leaf = np.argsort(np.argsort(-count, kind="stable")).clip(max=_BITS - 2)
            added = np.zeros(1)  # for all subsets of bits
            for one in range(_BITS - 1):
                added = np.append(added, added + adds[of_leaf == one].sum())
            enough[: len(added)] = added >= needed  # generalized values (the last bit) may always be enough
            bit = np.where(node < n_leaves, of_leaf[np.minimum(node, n_leaves - 1)], _BITS - 1)
        records = np.minimum(self.remaining, _CROWD).astype(np.uint32)
        return Crowd(records | np.uint32(_CROWD + 1) << bit.astype(np.uint32)[self.pattern], min(least, _CROWD), enough)


def population_under(trees: TreeTables, other: BoundModel, levels: CodeArray, nodes: CodeArray) -> IntArray:
    """Return (n_classes,) how many people of a model's population the labels of one item cover."""
    population = other.judge.requirement.population
    if population is None:
        return np.zeros(len(nodes), dtype=np.int64)
    cells = np.flatnonzero(population)
    group, labels = group_by_label(trees, levels, cells, population)
    people = kernels.sum_groups(group, population[cells], len(labels))
    _, same = same_rows((*np.concatenate([nodes, labels]).T,))
    total = np.zeros(int(same.max()) + 1, dtype=np.int64)
    total[same[len(nodes) :]] = people
    return total[same[: len(nodes)]]


def sort_items(
    attributes: Sequence[Attribute], columns: Sequence[AnyIntArray], chosen: CodeArray | None = None
) -> CodeArray:
    """Return (n_items, n_quasi) the items of V, or the *chosen* ones, in the order of the sweep; level 0 is the root.

    Tian and Zhang, Definition 6: items are in descending order of average information; ties are broken by the levels
    of the attributes, the most important attribute first. *columns* are the leaves that occur.
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


def level_information(attribute: Attribute, leaves: AnyIntArray) -> list[Fraction]:
    """Return I(S) of every level: the mean of 1 / leaves over its nodes, weighted by p'.

    The policy gives the weight p' of a node; by default it is the number of its leaves that occur.

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
        # one fraction for all nodes with the same number of leaves, because fractions are slow
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
    """Return (height + 1, n_leaves) the ancestor of each leaf at each tree level, or -1 below the leaf's own level."""
    levels = np.arange(taxonomy.height + 1)
    table = np.stack([taxonomy.node_at(taxonomy.height - level) for level in levels.tolist()])
    return np.where(levels[:, np.newaxis] > taxonomy.level[: taxonomy.n_leaves], np.int32(-1), table)


@light_kernel
def label_node(trees: TreeTables, levels: CodeArray, cell: int, j: int) -> int:
    """Return the node of a cell's j-th quasi-identifier at a level vector, or -1 if its leaf is nearer to the root."""
    return int(trees.table[trees.offset[j] + levels[j] * trees.width[j] + trees.leaves[cell, j]])


@light_kernel
def slot_of(key: np.uint64, mask: np.uint64) -> np.uint64:
    """Return the slot of a key in a hash table of mask + 1 slots."""
    return (((key ^ (key >> np.uint64(31))) * MIX) >> np.uint64(20)) & mask


@light_kernel
def last_slot(n: int) -> np.uint64:
    """Return the last slot of a hash table that n keys fill at most by half."""
    size = 16
    while size < 2 * n:
        size *= 2
    return np.uint64(size - 1)


@kernel
def label_keys(trees: TreeTables, levels: CodeArray, live: IntArray) -> KeyArray:
    """Return (n_live,) the keys of the labels of live parts at a level vector; _NOWHERE if a leaf is too shallow."""
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
    """The records and values of parts, and the minimum that parts with the same label need for a class."""

    held: KeyArray  # (n_parts,) up to _CROWD records in the low bits, above them the bit of the sensitive value
    least: int  # records
    enough: BoolArray  # (1 << _BITS,) whether a set of values may be enough for a class


@kernel
def find_crowded(trees: TreeTables, live: IntArray, crowd: Crowd, levels: CodeArray) -> IntArray:
    """Return the parts whose label at a level vector has enough records and values for a class.

    Labels may share a slot of the hash table; then parts of other labels are returned too. Parts are sorted by their
    first attribute, and each of its nodes has its own table, which is small enough for the processor's cache.
    """
    n, begin, n_live = 0, 0, len(live)
    parts = np.empty(n_live, dtype=np.int64)
    keys, together = label_keys(trees, levels, live), np.empty(last_slot(n_live) + 1, dtype=np.uint32)
    while begin < n_live:
        node, end = label_node(trees, levels, live[begin], 0), begin + 1
        while end < n_live and label_node(trees, levels, live[end], 0) == node:
            end += 1
        mask = last_slot(end - begin)
        together[: mask + 1] = 0
        for i in range(begin, end):
            slot, held = slot_of(keys[i], mask), int(crowd.held[live[i]])
            before = int(together[slot])
            records = min((before & _CROWD) + (held & _CROWD), _CROWD)
            together[slot] = (before | held) & ~_CROWD | records
        for i in range(begin, end):
            parts[n] = live[i]  # faster than a branch that the processor cannot predict
            found = int(together[slot_of(keys[i], mask)])
            n += crowd.enough[found >> _COUNTED] & (found & _CROWD >= crowd.least) & (keys[i] != _NOWHERE)
        begin = end
    return parts[:n].copy()


def group_by_label(
    trees: TreeTables,
    levels: CodeArray,
    live: IntArray,
    records: IntArray,
    raised: BoolArray | None = None,
    at_least: int = 0,
    if_raised: int = 0,
) -> tuple[CodeArray, CodeArray]:
    """Return (n_live,) the class of each live part at a level vector, and (n_classes, n_quasi) the nodes of classes.

    Parts whose leaves are too shallow or whose class is too small have class -1. A class needs *at_least* records, or
    *if_raised* records if some of its parts are *raised* (publish generalized values).
    """
    keys, table = label_keys(trees, levels, live), trees.offset + levels * trees.width
    deep = keys != _NOWHERE
    if not trees.exact:
        columns = trees.table[table + trees.leaves[live[deep]]].T
        keys[deep] = pack([*columns], [int(column.max(initial=0)) + 1 for column in columns])
    first, group = kernels.number_keys(keys)
    needed = np.full(len(first), at_least)
    if raised is not None:
        needed[group[raised[live]]] = if_raised
    large = (kernels.sum_groups(group, records[live], len(first)) >= needed) & deep[first]
    number = np.where(large, np.cumsum(large) - 1, -1).astype(np.int32)
    return number[group], trees.table[table + trees.leaves[live[first[large]]]]


class TreeTables(NamedTuple):
    """The ancestors of every leaf of the quasi-identifiers at every level, in one array.

    The node of leaf a of attribute j at level h is ``table[offset[j] + h * width[j] + a]``, or -1 if the leaf is less
    deep than h. The key of a label is the sum of its nodes times ``multiplier``: unique if ``exact``, otherwise a hash.
    """

    leaves: CodeArray  # (n_cells, n_quasi)
    table: CodeArray
    offset: IntArray  # (n_quasi,)
    width: IntArray  # (n_quasi,)
    multiplier: KeyArray  # (n_quasi,)
    exact: bool


def tree_tables(problem: Problem) -> TreeTables:
    """Return the quasi-identifiers as arrays for compiled loops."""
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

"""Which combinations of levels are swept where there are too many to go through all: those that similar records share.

Groups of similar records are found in many orders; the most special levels at which such a group has one label are a
combination worth trying. What is left afterwards is looked at again, in larger groups.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel, pack, same_rows
from shoal.core.progress import Step
from shoal.methods.sweep.classes import Classes, QuasiNodes, Sweep, TreeTables, quasi_nodes, sort_items
from shoal.methods.sweep.closing import Remainder
from shoal.methods.sweep.rules import Models, Parts, Rules
from shoal.plan.problem import Problem

_NARROW = 1 << 12  # combinations of levels: so many are always gone through
_MOST_LOOKUPS = 1 << 31  # nodes of values at levels: more of them take longer than some seconds
_FEWEST_ITEMS = 64  # of a round, however large the table is
_FEWEST_ORDERS, _MOST_ORDERS = 8, 64
_ORDERED = 1 << 21  # records that are put in order, in a round
_SUBSTANTIAL = 0.1  # of the records: a round that takes fewer is followed by one with larger groups


def count_items(problem: Problem) -> int:
    return math.prod(attribute.taxonomy.height + 1 for attribute in problem.quasi)


def sweep_items(
    problem: Problem,
    trees: TreeTables,
    models: Models,
    parts: Parts,
    rng: np.random.Generator,
    step: Step,
    remainder: Remainder | None = None,
) -> tuple[Sweep, Classes, Parts]:
    """Sweep all combinations of levels, or selected ones if there are too many; return the sweep and what it found."""
    there = problem.cells.counts > 0  # the population's cells are in no class
    columns = [codes[there] for codes in problem.quasi_codes]
    every = count_items(problem)
    if every <= _NARROW or every * len(parts.cell) * len(problem.quasi) <= _MOST_LOOKUPS:
        sweep = Sweep(problem, sort_items(problem.quasi, columns), trees, models, rng, remainder)
        return sweep, *sweep.run(parts, step)
    root = np.zeros((1, len(problem.quasi)), dtype=np.int32)
    items, nodes = [np.zeros((0, len(problem.quasi)), dtype=np.int32)], [np.zeros((0, len(problem.quasi)), np.int32)]
    number, closed = [np.zeros(0, dtype=np.int64)], [parts.take(np.zeros(0, dtype=np.int64))]
    size, turn, n_items, n_classes = models.rules.plain_records, 0, 0, 0
    while len(vectors := select_items(problem, models.rules, parts, size, turn)):
        chosen = sort_items(problem.quasi, columns, vectors)
        sweep = Sweep(problem, np.concatenate([chosen, root]), trees, models, rng, remainder)
        classes, found = sweep.run(parts, step)
        held, before = found.take(found.owner >= 0), parts.records.sum()
        parts, turn = found.take(found.owner < 0), turn + 1
        items.append(chosen)
        nodes.append(classes.nodes)
        number.append(classes.item + n_items)
        closed.append(held._replace(owner=held.owner + n_classes))
        n_items, n_classes = n_items + len(chosen), n_classes + len(classes.item)
        if held.records.sum() < _SUBSTANTIAL * before:
            size *= 2
    sweep = Sweep(problem, np.concatenate([*items, root]), trees, models, rng, remainder)
    return sweep, Classes(np.concatenate(number), np.concatenate(nodes)), Parts.join([*closed, parts])


def select_items(problem: Problem, rules: Rules, parts: Parts, size: int, turn: int) -> CodeArray:
    """Return (n_items, n_quasi) levels: for each part the most special ones that it shares with a group.

    Groups have at least *size* records. Of too many combinations those are taken that suit most records. They depend
    on the table and the number of the *turn* only, not on chance.
    """
    n, d = len(parts.cell), len(problem.quasi)
    if parts.records.sum() < size:
        return np.zeros((0, d), dtype=np.int32)
    leaves = np.stack([codes[parts.cell] for codes in problem.quasi_codes], axis=1).astype(np.int32)
    sizes = [attribute.taxonomy.n_leaves for attribute in problem.quasi]
    known, levels = np.full(n, -1.0), np.zeros((n, d), dtype=np.int32)
    n_orders = min(_MOST_ORDERS, max(_FEWEST_ORDERS, _ORDERED // n))
    for attributes in attribute_orders(d, n_orders, turn).tolist():
        order = np.argsort(pack([leaves[:, j] for j in attributes], [sizes[j] for j in attributes]), kind="stable")
        sorted_parts = parts.take(order)
        best, shared = known[order], levels[order]
        share_levels(rules, quasi_nodes(problem), leaves[order], sorted_parts, size, best, shared)
        known[order], levels[order] = best, shared
    special = np.flatnonzero((known >= 0) & (levels > 0).any(axis=1))
    if not len(special):
        return np.zeros((0, d), dtype=np.int32)
    first, group = same_rows([*levels[special].T])
    suited = np.bincount(group, parts.records[special])
    most = max(_FEWEST_ITEMS, _MOST_LOOKUPS // (n * d))
    return levels[special[first[np.argsort(-suited, kind="stable")[:most]]]]


def attribute_orders(d: int, n: int, turn: int) -> IntArray:
    """Return at most n orders of d attributes, in which each is first about equally often; other ones in each turn.

    >>> attribute_orders(5, 3, 1).tolist()
    [[3, 4, 0, 1, 2], [4, 0, 1, 2, 3], [0, 2, 4, 1, 3]]
    """
    strides: IntArray = np.array([stride for stride in range(1, d + 1) if math.gcd(stride, d) == 1])
    n = min(n, d * len(strides))
    places = turn * n + np.arange(n)
    first, stride = places % d, strides[places // d % len(strides)]
    return (first[:, np.newaxis] + stride[:, np.newaxis] * np.arange(d)) % d


@kernel
def share_levels(
    rules: Rules, quasi: QuasiNodes, leaves: CodeArray, parts: Parts, size: int, known: FloatArray, levels: CodeArray
) -> None:
    """Let each part have the levels at which it and its neighbours have one label, if these tell more than it *knows*.

    Parts and their leaves are in an order in which similar ones are neighbours. A group begins at every part, and ends
    where it has *size* records and as many values as every rule needs.
    """
    n, d = leaves.shape
    label, n_rules = np.empty(d, dtype=np.int32), len(rules.place)
    seen, values = np.full(rules.first_node[-1], -1, dtype=np.int64), np.zeros(n_rules, dtype=np.int64)
    for begin in range(n):
        label[:] = leaves[begin]
        values[:] = 0
        records, end, enough = 0, begin, False
        while end < n and not enough:
            for j in range(d):
                while not (quasi.lo[quasi.first[j] + label[j]] <= leaves[end, j] < quasi.hi[quasi.first[j] + label[j]]):
                    label[j] = quasi.parent[quasi.first[j] + label[j]]
            records += parts.records[end]
            enough = records >= size
            for r in range(n_rules):
                node = rules.first_node[r] + parts.nodes[end, rules.place[r]]
                if seen[node] != begin:
                    seen[node] = begin
                    values[r] += rules.hi[node] - rules.lo[node]
                enough = enough and values[r] >= rules.distinct[r]
            end += 1
        if not enough:
            break
        told = 0.0
        for j in range(d):
            told += quasi.told[quasi.first[j] + label[j]]
        for part in range(begin, end):
            if told > known[part]:
                known[part] = told
                for j in range(d):
                    levels[part, j] = quasi.level[quasi.first[j] + label[j]]

"""Selection of level vectors for tables with too many of them.

The records are sorted in many attribute orders, which makes similar records neighbours. For each group of neighbours,
the most special levels at which the group has one label are worth a try. Later rounds do the same with larger groups
of the remaining records.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.core.arrays import CodeArray, FloatArray, IntArray
from shoal.core.kernels import kernel, pack, same_rows
from shoal.core.progress import Step
from shoal.methods.labels import Trees
from shoal.methods.sweep.classes import Classes, Sweep, TreeTables, sort_items
from shoal.methods.sweep.closing import Remainder
from shoal.methods.sweep.rules import Models, Parts, Rules
from shoal.plan.problem import Problem

_NARROW = 1 << 12  # vectors: up to this number, all are swept
_MOST_LOOKUPS = 1 << 31  # nodes of values at levels, to bound the time of a sweep to seconds
_LEAST_ITEMS = 64  # of a round, even for the largest table
_LEAST_ORDERS, _MOST_ORDERS = 8, 64
_ORDERED = 1 << 21  # records that a round sorts, over all orders
_SUBSTANTIAL = 0.1  # of the records: if a round takes fewer, the next one has larger groups


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
    """Sweep all level vectors, or selected ones if there are too many; return the sweep, its classes and all parts."""
    columns = [codes[problem.cells.counts > 0] for codes in problem.quasi_codes]  # without the population's cells
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
    """Return (n_items, n_quasi) levels: for each part, the most special ones that it shares with a group.

    Groups have at least *size* records. If there are too many vectors, the function returns the vectors
    of most records. The result does not depend on chance, only on the table and the number of the *turn*.
    """
    n, d = len(parts.cell), len(problem.quasi)
    if parts.records.sum() < size:
        return np.zeros((0, d), dtype=np.int32)
    leaves = np.stack([codes[parts.cell] for codes in problem.quasi_codes], axis=1).astype(np.int32)
    sizes, trees = [attribute.taxonomy.n_leaves for attribute in problem.quasi], Trees.of(problem.quasi, [False] * d)
    detail = np.concatenate([one.weight / (one.taxonomy.hi - one.taxonomy.lo) for one in problem.quasi])
    known, levels = np.full(n, -1.0), np.zeros((n, d), dtype=np.int32)
    n_orders = min(_MOST_ORDERS, max(_LEAST_ORDERS, _ORDERED // n))
    for attributes in attribute_orders(d, n_orders, turn).tolist():
        order = np.argsort(pack([leaves[:, j] for j in attributes], [sizes[j] for j in attributes]), kind="stable")
        sorted_parts = parts.take(order)
        best, shared = known[order], levels[order]
        share_levels(rules, trees, detail, leaves[order], sorted_parts, size, best, shared)
        known[order], levels[order] = best, shared
    special = np.flatnonzero((known >= 0) & (levels > 0).any(axis=1))
    if not len(special):
        return np.zeros((0, d), dtype=np.int32)
    first, group = same_rows([*levels[special].T])
    suited = np.bincount(group, parts.records[special])
    most = max(_LEAST_ITEMS, _MOST_LOOKUPS // (n * d))
    return levels[special[first[np.argsort(-suited, kind="stable")[:most]]]]


def attribute_orders(d: int, n: int, turn: int) -> IntArray:
    """Return at most n orders of d attributes, different ones in each turn; each attribute is first equally often.

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
    rules: Rules,
    trees: Trees,
    detail: FloatArray,
    leaves: CodeArray,
    parts: Parts,
    size: int,
    known: FloatArray,
    levels: CodeArray,
) -> None:
    """Improve the *levels* (n_parts, d) of parts to those at which their neighbours share a label.

    The order of the rows makes similar parts neighbours. A group begins at every part and ends as soon as it has
    *size* records and as many values as every rule needs. A part gets the levels of a group whose label is more
    informative than *known* (n_parts,), its best label so far. ``detail`` (n_nodes of all,) is the information of a
    node.
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
                base = trees.first_node[j]
                while not (trees.lo[base + label[j]] <= leaves[end, j] < trees.hi[base + label[j]]):
                    label[j] = trees.parent[base + label[j]]
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
        information = 0.0
        for j in range(d):
            information += detail[trees.first_node[j] + label[j]]
        for part in range(begin, end):
            if information > known[part]:
                known[part] = information
                for j in range(d):
                    levels[part, j] = trees.level[trees.first_node[j] + label[j]]

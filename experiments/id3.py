"""ID3 on generalized records: trained on published labels, asked about base values of people it never saw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from experiments.problems import sensitive_weights
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import InputError, UnreachableError
from shoal.core.progress import Progress, Silent
from shoal.plan.cells import Cells
from shoal.plan.plan import Plan
from shoal.plan.problem import Problem

LEAF = -1
_SAME_GAIN = 1e-9  # nats; gains nearer than that are equal, and the first attribute is taken
_PURE = 1 - 1e-12
_POINTS_AT_ONCE = 1 << 12


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Records to learn from, put together where they publish the same labels.

    A label is a range of leaves of its attribute. The records of an item count for one class each, or for several in
    parts where their own class value is generalized.
    """

    lo: CodeArray  # (n_items, n_attributes) first leaf
    hi: CodeArray  # (n_items, n_attributes) leaf after the last
    weights: FloatArray  # (n_items, n_classes) records
    n_leaves: tuple[int, ...]  # (n_attributes,)

    @classmethod
    def of_base_values(cls, codes: AnyIntArray, weights: FloatArray, n_leaves: tuple[int, ...]) -> Examples:
        """Build from records as they are: *codes* is (n_items, n_attributes) leaves."""
        lo = np.asarray(codes, dtype=np.int32)
        return cls(lo, lo + np.int32(1), weights, n_leaves)


@dataclass(frozen=True, slots=True, eq=False)
class DecisionTree:
    """A tree of questions; a node asks for one attribute and has a branch for each label that its records show.

    Branches of one node may overlap, for labels of different width do. A base value goes down all branches that cover
    it, each with the share of its records that the value would have if they were spread evenly over the label's
    leaves; where no branch covers it, the node itself answers.
    """

    attribute: CodeArray  # (n_nodes,) asked for, or LEAF
    lo: CodeArray  # (n_nodes,) the label by which a node is entered
    hi: CodeArray  # (n_nodes,)
    first: IntArray  # (n_nodes + 1,) children of node v are first[v] : first[v + 1]
    weights: FloatArray  # (n_nodes, n_classes) training records
    n_leaves: tuple[int, ...]

    @property
    def n_nodes(self) -> int:
        """Number of nodes, the root included."""
        return len(self.attribute)

    def votes(self, codes: AnyIntArray) -> FloatArray:
        """Return (n_points, n_classes) the training records that speak for each class at each base point."""
        found = np.zeros((len(codes), self.weights.shape[1]), dtype=np.float64)
        for start in range(0, len(codes), _POINTS_AT_ONCE):
            block = slice(start, start + _POINTS_AT_ONCE)
            self._descend(np.asarray(codes[block], dtype=np.int64), found[block])
        return found

    def predict(self, codes: AnyIntArray) -> IntArray:
        """Return (n_points,) the class with most votes at each base point; of equal ones the commoner in training."""
        by_frequency = np.argsort(-self.weights[0], kind="stable")
        best: IntArray = by_frequency[np.argmax(self.votes(codes)[:, by_frequency], axis=1)]
        return best

    def accuracy(self, codes: AnyIntArray, weights: FloatArray) -> float:
        """Return the share of records, *weights* of each class at each base point, whose class is predicted."""
        right = weights[np.arange(len(codes)), self.predict(codes)]
        return float(right.sum() / weights.sum())

    def _descend(self, codes: IntArray, found: FloatArray) -> None:
        """Add the votes of all nodes that the points come to rest in."""
        leaves = np.array([*self.n_leaves, 1], dtype=np.int64)  # the last stands for LEAF
        widest = int(leaves.max())
        point = np.arange(len(codes))
        node = np.zeros(len(codes), dtype=np.int64)
        share = np.ones(len(codes), dtype=np.float64)
        while len(point):
            asked = self.attribute[node]
            code = np.where(asked == LEAF, 0, codes[point, asked])
            # Points at one node with one value take the same branches: these are found once for all of them.
            key, pair = np.unique(node * widest + code, return_inverse=True)
            pair = pair.reshape(-1)
            children, n_children = self._branches(key // widest, key % widest)
            rests = n_children[pair] == 0
            self._vote(found, point[rests], node[rests], share[rests] / leaves[asked[rests]])
            starts = np.cumsum(n_children) - n_children
            counts = n_children[pair]
            point, share = np.repeat(point, counts), np.repeat(share, counts)
            node = children[_stretches(starts[pair], counts)]
            share = share / (self.hi[node] - self.lo[node])

    def _branches(self, node: IntArray, code: IntArray) -> tuple[IntArray, IntArray]:
        """Return the children that cover each (node, value), one after another, and how many each has."""
        counts = self.first[node + 1] - self.first[node]
        pair = np.repeat(np.arange(len(node)), counts)
        child = _stretches(self.first[node], counts)
        covers = (self.lo[child] <= code[pair]) & (code[pair] < self.hi[child])
        return child[covers], np.bincount(pair[covers], minlength=len(node))

    def _vote(self, found: FloatArray, point: IntArray, node: IntArray, share: FloatArray) -> None:
        for number in range(found.shape[1]):
            found[:, number] += np.bincount(point, share * self.weights[node, number], minlength=len(found))


def learn(examples: Examples) -> DecisionTree:
    """Grow a tree by information gain until nodes are pure or no attribute divides them; nothing is pruned.

    Quinlan, "Induction of decision trees" (Machine Learning 1, 1986). An attribute is asked for at most once on a way
    down. All nodes of one depth grow together.

    >>> outlook_and_wind = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> play = np.array([[2.0, 0.0], [0.0, 3.0], [4.0, 0.0], [1.0, 0.0]])
    >>> tree = learn(Examples.of_base_values(outlook_and_wind, play, (2, 2)))
    >>> tree.predict(outlook_and_wind).tolist()
    [0, 1, 0, 0]
    """
    occupied = examples.weights.sum(axis=1) > 0
    if not occupied.any():
        raise InputError("there are no records to learn from")
    weights = examples.weights[occupied]
    lo, hi = examples.lo[occupied], examples.hi[occupied]
    n_attributes = len(examples.n_leaves)
    ranges, label = _labels(lo, hi)
    size = len(ranges)

    depth: list[tuple[CodeArray, CodeArray, CodeArray, FloatArray, IntArray]] = []
    entered_lo, entered_hi = np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32)
    node = np.zeros(len(weights), dtype=np.int64)
    used = np.zeros((1, n_attributes), dtype=np.bool_)
    while len(used):
        here = _sum_groups(node, weights, len(used))
        asked = _choose(label, weights, node, used, here)
        goes = asked[node] != LEAF
        label, weights, node = label[:, goes], weights[goes], node[goes]
        taken = label[asked[node], np.arange(len(node))]
        branch, node_after = np.unique(node * size + taken, return_inverse=True)
        parent = branch // size
        depth.append((asked, entered_lo, entered_hi, here, np.bincount(parent, minlength=len(used))))
        entered_lo, entered_hi = ranges[branch % size].T
        used = used[parent]
        used[np.arange(len(parent)), asked[parent]] = True
        node = node_after.reshape(-1)
    asked, all_lo, all_hi, all_weights, children = (np.concatenate(parts) for parts in zip(*depth, strict=True))
    first = np.concatenate([[1], 1 + np.cumsum(children)]).astype(np.int64)
    return DecisionTree(asked, all_lo, all_hi, first, all_weights, examples.n_leaves)


def _labels(lo: CodeArray, hi: CodeArray) -> tuple[CodeArray, IntArray]:
    """Return (n_labels, 2) the distinct ranges, attribute after attribute, and (n_attributes, n_items) numbers."""
    ranges, numbers, n_labels = [], [], 0
    for column in range(lo.shape[1]):
        pairs = np.stack([lo[:, column], hi[:, column]], axis=1)
        distinct, number = np.unique(pairs, axis=0, return_inverse=True)
        ranges.append(distinct)
        numbers.append(number.reshape(-1) + n_labels)
        n_labels += len(distinct)
    return np.concatenate(ranges), np.stack(numbers)


def _choose(label: IntArray, weights: FloatArray, node: IntArray, used: BoolArray, here: FloatArray) -> CodeArray:
    """Return (n_nodes,) the attribute with the largest gain, or LEAF where the node is pure or cannot be divided."""
    total = here.sum(axis=1)
    pure = here.max(axis=1) >= total * _PURE
    remaining = np.full(used.shape, np.inf)  # (n_nodes, n_attributes) entropy after the question, in nats
    for a in range(used.shape[1]):
        items = np.flatnonzero(~used[node, a] & ~pure[node])
        if not len(items):
            continue
        size = int(label[a, items].max()) + 1
        branch, group = np.unique(node[items] * size + label[a, items], return_inverse=True)
        parts = _sum_groups(group.reshape(-1), weights[items], len(branch))
        parent = branch // size
        left = np.bincount(parent, _entropy_mass(parts), minlength=len(used))
        divides = np.bincount(parent, minlength=len(used)) > 1
        remaining[divides, a] = left[divides] / total[divides]
    least = remaining.min(axis=1)
    asked = np.argmax(remaining <= least[:, np.newaxis] + _SAME_GAIN, axis=1)
    return np.where(np.isfinite(least), asked, LEAF).astype(np.int32)


def _entropy_mass(weights: FloatArray) -> FloatArray:
    """Return (n,) records times the entropy of their classes, in nats."""
    total = weights.sum(axis=1)
    return np.asarray(_x_log_x(total) - _x_log_x(weights).sum(axis=1), dtype=np.float64)


def _x_log_x(values: FloatArray) -> FloatArray:
    return values * np.log(np.where(values > 0, values, 1.0))


def _sum_groups(group: IntArray, weights: FloatArray, n_groups: int) -> FloatArray:
    """Return (n_groups, n_classes) the weights of each group's items; every group has some."""
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(n_groups))
    return np.asarray(np.add.reduceat(weights[order], starts, axis=0), dtype=np.float64)


def _stretches(starts: IntArray, counts: IntArray) -> IntArray:
    """Return starts[0], starts[0] + 1, ... for counts[0] numbers, then the same for the next.

    >>> _stretches(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    result: IntArray = np.arange(total) + np.repeat(starts - (ends - counts), counts)
    return result


class Generalizing(Protocol):
    """A method whose classes publish ranges of values, from which a tree can learn."""

    def plan(self, problem: Problem, rng: np.random.Generator, progress: Progress) -> Plan:
        """Return a generalization, or raise UnreachableError."""


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidation:
    """The records of one table dealt into folds, the same for everything that is learned from it.

    A method anonymizes all folds but one, a tree learns from what that publishes, and it is asked about the original
    records of the last fold: these had no part in the release. ``baseline`` is the accuracy, fold by fold, of trees
    that learned from the original records.
    """

    held: tuple[IntArray, ...]  # n_folds x (n_cells,) records of each cell
    points: CodeArray  # (n_points, n_quasi) distinct base values of the quasi attributes
    point: IntArray  # (n_cells,) the point of each cell
    value: IntArray  # (n_cells,) the sensitive value of each cell
    n_values: int
    n_leaves: tuple[int, ...]
    baseline: tuple[float, ...]

    @classmethod
    def of(cls, problem: Problem, n_folds: int, rng: np.random.Generator) -> CrossValidation:
        """Deal the records and learn from the original ones."""
        cells = problem.cells
        fold = rng.permutation(cells.n_records) % n_folds
        cell = np.repeat(np.arange(cells.n_cells), cells.counts)
        held = tuple(np.bincount(cell[fold == number], minlength=cells.n_cells) for number in range(n_folds))
        codes = np.stack([np.asarray(column, dtype=np.int32) for column in problem.quasi_codes], axis=1)
        points, point = np.unique(codes, axis=0, return_inverse=True)
        dealt = cls(
            held=held,
            points=points,
            point=point.reshape(-1),
            value=np.asarray(cells.codes[len(problem.quasi)], dtype=np.int64),
            n_values=problem.sensitive[0].taxonomy.n_leaves,
            n_leaves=tuple(attribute.taxonomy.n_leaves for attribute in problem.quasi),
            baseline=(),
        )
        trees = (
            learn(Examples.of_base_values(points, dealt._at_points(cells.counts - records), dealt.n_leaves))
            for records in held
        )
        found = tuple(dealt._accuracy(tree, records) for tree, records in zip(trees, held, strict=True))
        return replace(dealt, baseline=found)

    @property
    def commonest(self) -> float:
        """The share of the commonest sensitive value: what one is right about without learning anything."""
        of_value = self._at_points(np.sum(self.held, axis=0)).sum(axis=0)
        return float(of_value.max() / of_value.sum())

    def ratio(self, method: Generalizing, problem: Problem, rng: np.random.Generator) -> float | None:
        """Return the accuracy relative to that of learning from original records.

        Folds whose others alone cannot meet the requirement are left out; None if that is so for all.
        """
        found, originally = [], []
        for records, baseline in zip(self.held, self.baseline, strict=True):
            part = without(problem, records)
            try:
                plan = method.plan(part, rng, Silent())
            except UnreachableError:
                continue
            lo, hi = plan.lo.astype(np.int32), plan.hi.astype(np.int32)
            tree = learn(Examples(lo, hi, sensitive_weights(part, plan), self.n_leaves))
            found.append(self._accuracy(tree, records))
            originally.append(baseline)
        return sum(found) / sum(originally) if found else None

    def _accuracy(self, tree: DecisionTree, records: IntArray) -> float:
        return tree.accuracy(self.points, self._at_points(records))

    def _at_points(self, records: IntArray) -> FloatArray:
        """Return (n_points, n_values) the records of each sensitive value at each point, given those of each cell."""
        size = len(self.points) * self.n_values
        flat = np.bincount(self.point * self.n_values + self.value, records, minlength=size)
        return flat.reshape(len(self.points), self.n_values).astype(np.float64)


def without(problem: Problem, records: IntArray) -> Problem:
    """Return the problem of the same table with so many records of each cell taken out."""
    counts = problem.cells.counts - records
    kept = np.flatnonzero(counts)
    return replace(
        problem,
        cells=Cells(tuple(column[kept] for column in problem.cells.codes), counts[kept]),
        requirements=tuple(
            requirement if requirement.values is None else replace(requirement, values=requirement.values[kept])
            for requirement in problem.requirements
        ),
    )

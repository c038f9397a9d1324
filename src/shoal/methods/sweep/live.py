"""The records that are still on their way: grouped by label, passed over where they have no hope, taken out."""

from __future__ import annotations

import numpy as np

from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.methods.sweep.grouping import group_by_label, without_hope
from shoal.methods.sweep.order import Items, Scouts
from shoal.methods.sweep.rules import Rules, TreeTables
from shoal.methods.sweep.state import Parts
from shoal.plan import same_rows
from shoal.problem import Problem

_SCOUT_AGAIN = 0.7  # once so few of the parts are left, more of them may be without hope


class Live:
    """Parts with records that no class has taken yet.

    Many items share a *scout*, a level vector that is more general than all of them. A class that has too few values at
    the scout has no subset that could close at one of its items, now or later, so its parts are passed over there.
    """

    def __init__(self, problem: Problem, items: Items, trees: TreeTables, rules: Rules, parts: Parts) -> None:
        self._problem = problem
        self._items = items
        self._trees = trees
        self._rules = rules
        self._row = parts.cell  # of the trees' leaves
        n_leaves = np.array([attribute.taxonomy.n_leaves for attribute in problem.sensitive], dtype=np.int64)
        self._raised: BoolArray = np.asarray((parts.nodes >= n_leaves).any(axis=1))
        self._live = np.arange(len(parts.cell))
        self._scouts = Scouts.of(items)
        self._bits = np.uint64(1) << np.arange(len(self._scouts.levels), dtype=np.uint64)
        self._scouted = np.full(len(self._scouts.levels), np.inf)  # how many parts were live then
        self._hopeless = np.zeros(len(parts.cell), dtype=np.uint64)  # a bit for every scout
        # of a generalized value it matters which it is, where labels are defended
        defended = np.isin(np.arange(parts.nodes.shape[1]), rules.place[np.diff(rules.first_pair) > 0])
        nodes = np.concatenate([parts.nodes, np.where(defended, parts.own(problem), parts.nodes)], axis=1)
        example, self.pattern = same_rows((*nodes.T, np.zeros(len(nodes), dtype=np.int32)))
        self.patterns = nodes[example]
        self._of_pattern = np.bincount(self.pattern, weights=parts.records).astype(np.int64)
        self.parts = parts
        self.remaining = parts.records.copy()

    def grouped(self, item: int) -> tuple[IntArray, CodeArray, CodeArray]:
        """Return the parts that may close at an item, their classes (-1: too small), and the classes' nodes."""
        self._move_together()
        scout = self._scouts.of_item[item]
        if len(self._live) < _SCOUT_AGAIN * self._scouted[scout]:
            self._ask(scout)
        hopeful = self._live[self._hopeless[self._live] & self._bits[scout] == 0]
        return hopeful, *self._at(self._items.levels[item], hopeful)

    def take(self, members: IntArray, stay: IntArray) -> None:
        """Take the records that stay in classes out."""
        self.remaining[members] -= stay
        self._live = self._live[self.remaining[self._live] > 0]
        taken = np.bincount(self.pattern[members], weights=stay, minlength=len(self.patterns))
        self._of_pattern -= taken.astype(np.int64)

    def any_class_can_close(self) -> bool:
        """Whether what is left covers as many different values as every rule needs."""
        patterns = self.patterns[self._of_pattern > 0]
        for r, place in enumerate(self._rules.place.tolist()):
            tree, nodes = self._problem.sensitive[place].taxonomy, patterns[:, place]
            edges = np.zeros(tree.n_leaves + 1, dtype=np.int64)
            np.add.at(edges, tree.lo[nodes], 1)
            np.add.at(edges, tree.hi[nodes], -1)
            weights = self._rules.weights[self._rules.first_leaf[r] : self._rules.first_leaf[r + 1]]
            covered = (np.cumsum(edges[:-1]) > 0) & (weights > 0)
            covered[nodes[nodes < tree.n_leaves]] = True  # who keeps a value shows it, whatever its weight
            if covered.sum() < self._rules.distinct[r]:
                return False
        return len(patterns) > 0

    def left(self) -> Parts:
        """Return what no class has taken."""
        parts = self.parts.take(self._live)
        parts.records = self.remaining[self._live]
        parts.owner = np.full(len(self._live), -1, dtype=np.int64)
        return parts

    def _at(self, levels: CodeArray, live: IntArray) -> tuple[CodeArray, CodeArray]:
        return group_by_label(
            self._trees,
            levels,
            live,
            self._row,
            self.remaining,
            self._raised,
            self._rules.plain_records,
            self._rules.records,
        )

    def _ask(self, scout: int) -> None:
        """Find out which parts are without hope at all items of a scout."""
        self._scouted[scout] = len(self._live)
        class_of, nodes = self._at(self._scouts.levels[scout], self._live)
        lost = without_hope(class_of, len(nodes), self._live, self.pattern, self.patterns, self._rules)
        self._hopeless[self._live] &= ~self._bits[scout]
        self._hopeless[self._live[lost]] |= self._bits[scout]

    def _move_together(self) -> None:
        """Copy what is still live to neighbouring places, once most of the rest is gone: memory is slow."""
        live = self._live
        if 2 * len(live) >= len(self.remaining):
            return
        rows = self._row[live]
        self._trees = self._trees._replace(leaves=self._trees.leaves[rows], shared=self._trees.shared[rows])
        self.parts, self.pattern, self.remaining = self.parts.take(live), self.pattern[live], self.remaining[live]
        self._raised, self._hopeless = self._raised[live], self._hopeless[live]
        self._row = self._live = np.arange(len(live))

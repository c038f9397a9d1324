"""The sweep itself: from item to item, classes close when they hold, and who has to leave goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import CodeArray, IntArray
from shoal.methods.sweep.kernels import settle
from shoal.methods.sweep.live import Live
from shoal.methods.sweep.order import Items
from shoal.methods.sweep.others import Others
from shoal.methods.sweep.rules import TreeTables
from shoal.methods.sweep.state import Models, Parts
from shoal.problem import Problem
from shoal.progress import Step

_NO_LIMIT = np.iinfo(np.int64).max
_GIVEN_UP = 16  # a class that another model refuses gives up one record of so many, and asks again


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Labels of classes: the item at which each closed, and its nodes."""

    item: IntArray  # (n_classes,)
    nodes: CodeArray  # (n_classes, n_quasi)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One run over the items of V."""

    problem: Problem
    items: Items
    trees: TreeTables
    models: Models
    others: Others
    rng: np.random.Generator

    def run(self, parts: Parts, step: Step) -> tuple[Classes, Parts]:
        """Return the closed classes and all parts; those that no class took are left to the last item's class."""
        live = Live(self.problem, self.items, self.trees, self.models.rules, parts)
        closed: list[Parts] = []
        items: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        labels: list[CodeArray] = [np.zeros((0, self.items.levels.shape[1]), dtype=np.int32)]
        n_classes = 0
        for item in range(len(self.items) - 1):
            if not live.any_class_can_close():
                break
            hopeful, class_of, nodes = live.grouped(item)
            if not len(nodes):
                continue
            first, order = kernels.grouped(class_of, len(nodes))
            members = hopeful[order]
            stay = live.remaining[members]
            sizes = self._settled(live, item, nodes, first, members, stay)
            held, staying = np.flatnonzero(sizes), np.flatnonzero(stay)
            if not len(held):
                continue
            number = np.full(len(nodes), -1, dtype=np.int64)
            number[held] = n_classes + np.arange(len(held))
            taken = live.parts.take(members[staying])
            taken.records = stay[staying]
            taken.owner = number[class_of[order[staying]]]
            closed.append(taken)
            items.append(np.full(len(held), item, dtype=np.int64))
            labels.append(nodes[held])
            n_classes += len(held)
            live.take(members, stay)
            step.advance(int(sizes.sum()))
        return Classes(np.concatenate(items), np.concatenate(labels)), Parts.joined([*closed, live.left()])

    def _settled(
        self, live: Live, item: int, nodes: CodeArray, first: IntArray, members: IntArray, stay: IntArray
    ) -> IntArray:
        """Lower *stay* until every class of an item holds or is empty; return the sizes."""
        rules, patterns, pattern = self.models.rules, live.patterns, live.pattern[members]
        n = len(nodes)
        most, focus = np.full(n, _NO_LIMIT), np.full(n, -1, dtype=np.int64)
        sizes = settle(first, np.arange(len(stay)), pattern, patterns, rules, most, focus, self.rng, stay)
        if not self.others.bound:
            return sizes
        population = self.others.population_under(self.trees, self.items.levels[item], nodes)
        parts = live.parts.take(members)
        asked = np.arange(n)
        while True:
            asked = asked[sizes[asked] > 0]
            inside, edges = _ranges(first, asked)
            people = [under[asked] for under in population]
            holds, rule = self.others.hold(edges, parts.take(inside), stay[inside], people)
            asked, rule = asked[~holds], rule[~holds]
            if not len(asked):
                return sizes
            inside, edges = _ranges(first, asked)
            most = sizes[asked] - np.maximum(sizes[asked] // _GIVEN_UP, 1)
            sizes[asked] = settle(edges, inside, pattern, patterns, rules, most, rule, self.rng, stay)


def _ranges(first: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Return the places ``first[c]:first[c + 1]`` of the chosen classes, and where each class starts among them.

    >>> _ranges(np.array([0, 2, 5, 6]), np.array([0, 2]))
    (array([0, 1, 5]), array([0, 2, 3]))
    """
    lengths = first[chosen + 1] - first[chosen]
    edges = np.concatenate([[0], np.cumsum(lengths)])
    return np.arange(edges[-1]) + np.repeat(first[chosen] - edges[:-1], lengths), edges

"""The sweep itself: from item to item, classes close when they hold, and who has to leave goes on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.judging import Judge
from shoal.methods.sweep_kernels import group_by_label, settle, without_hope
from shoal.methods.sweep_order import Items, Scouts
from shoal.methods.sweep_rules import TreeTables
from shoal.methods.sweep_state import Bound, Models, Parts, grouped_cells
from shoal.models.base import Whole
from shoal.plan import same_rows
from shoal.problem import Problem
from shoal.progress import Step

_SCOUT_AGAIN = 0.7  # once so few of the parts are left, more of them may be without hope
_NO_LIMIT = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """Labels of classes: the item at which each closed, and its nodes."""

    item: IntArray  # (n_classes,)
    nodes: CodeArray  # (n_classes, n_quasi)


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """One run over the items of V.

    Many items share a *scout*, a level vector that is more general than all of them. A class that has too few values at
    the scout has no subset that could close at one of its items, now or later, so its parts are passed over there.
    """

    problem: Problem
    items: Items
    trees: TreeTables
    models: Models
    wholes: tuple[Whole, ...]  # (n_others,) the table that each of the other models compares with
    rng: np.random.Generator

    def run(self, parts: Parts, step: Step) -> tuple[Classes, Parts]:
        """Return the closed classes and all parts; those that no class took are left to the last item's class."""
        _, pattern = same_rows((*parts.nodes.T, np.zeros(len(parts.cell), dtype=np.int32)))
        _, example = np.unique(pattern, return_index=True)
        patterns = parts.nodes[example]
        of_pattern = np.bincount(pattern, weights=parts.records).astype(np.int64)
        rules, trees, row = self.models.rules, self.trees, parts.cell
        raised = np.asarray((parts.nodes >= self._n_leaves()).any(axis=1))
        remaining = parts.records.copy()
        live = np.arange(len(remaining))
        closed: list[Parts] = []
        items: list[IntArray] = [np.zeros(0, dtype=np.int64)]
        labels: list[CodeArray] = [np.zeros((0, self.items.levels.shape[1]), dtype=np.int32)]
        n_classes = 0
        scouts = Scouts.of(self.items)
        bits = np.uint64(1) << np.arange(len(scouts.levels), dtype=np.uint64)
        scouted = np.full(len(scouts.levels), np.inf)  # how many parts were live then
        hopeless = np.zeros(len(live), dtype=np.uint64)  # a bit for every scout
        for item in range(len(self.items) - 1):
            if 2 * len(live) < len(remaining):  # what is far apart in memory costs more than copying it together
                parts, pattern, remaining, raised = parts.take(live), pattern[live], remaining[live], raised[live]
                trees = trees._replace(leaves=trees.leaves[row[live]], shared=trees.shared[row[live]])
                hopeless = hopeless[live]
                row = live = np.arange(len(remaining))
            cluster = scouts.of_item[item]
            if len(live) < _SCOUT_AGAIN * scouted[cluster]:
                scouted[cluster] = len(live)
                found = self._grouped(scouts.levels[cluster], trees, live, row, remaining, raised)
                lost = without_hope(found[0], len(found[1]), live, pattern, patterns, raised, rules)
                hopeless[live] &= ~bits[cluster]
                hopeless[live[lost]] |= bits[cluster]
            hopeful = live[hopeless[live] & bits[cluster] == 0]
            class_of, nodes = self._grouped(self.items.levels[item], trees, hopeful, row, remaining, raised)
            if not len(nodes):
                continue
            first, order = kernels.grouped(class_of, len(nodes))
            members = hopeful[order]
            stay = remaining[members]
            sizes = self._settled(first, parts, members, pattern[members], patterns, stay, item, nodes)
            held = np.flatnonzero(sizes)
            if not len(held):
                continue
            number = np.full(len(nodes), -1, dtype=np.int64)
            number[held] = n_classes + np.arange(len(held))
            staying = np.flatnonzero(stay)
            taken = parts.take(members[staying])
            taken.records = stay[staying]
            taken.owner = number[class_of[order[staying]]]
            closed.append(taken)
            items.append(np.full(len(held), item, dtype=np.int64))
            labels.append(nodes[held])
            n_classes += len(held)
            remaining[members] -= stay
            live = live[remaining[live] > 0]
            step.advance(int(sizes.sum()))
            of_pattern -= np.bincount(pattern[members], weights=stay, minlength=len(patterns)).astype(np.int64)
            if not self._any_class_can_close(patterns[of_pattern > 0]):
                break
        last = parts.take(live)
        last.records = remaining[live]
        last.owner = np.full(len(live), -1, dtype=np.int64)
        return Classes(np.concatenate(items), np.concatenate(labels)), Parts.joined([*closed, last])

    def _grouped(
        self,
        levels: CodeArray,
        trees: TreeTables,
        live: IntArray,
        row: IntArray,
        remaining: IntArray,
        raised: BoolArray,
    ) -> tuple[CodeArray, CodeArray]:
        """Return (n_live,) the class of live parts at a level vector, -1 if it is too small, and the classes' nodes."""
        rules = self.models.rules
        return group_by_label(trees, levels, live, row, remaining, raised, rules.plain_records, rules.records)

    def _any_class_can_close(self, patterns: CodeArray) -> bool:
        """Whether records with these patterns cover as many different values as every rule needs."""
        rules = self.models.rules
        for r, place in enumerate(rules.place.tolist()):
            tree = self.problem.sensitive[place].taxonomy
            nodes = patterns[:, place]
            edges = np.zeros(tree.n_leaves + 1, dtype=np.int64)
            np.add.at(edges, tree.lo[nodes], 1)
            np.add.at(edges, tree.hi[nodes], -1)
            weights = rules.weights[rules.first_leaf[r] : rules.first_leaf[r + 1]]
            covered = (np.cumsum(edges[:-1]) > 0) & (weights > 0)
            if covered.sum() < rules.distinct[r]:
                return False
        return len(patterns) > 0

    def _n_leaves(self) -> IntArray:
        return np.array([attribute.taxonomy.n_leaves for attribute in self.problem.sensitive], dtype=np.int64)

    def _settled(
        self,
        first: IntArray,
        parts: Parts,
        members: IntArray,
        pattern: CodeArray,
        patterns: CodeArray,
        stay: IntArray,
        item: int,
        nodes: CodeArray,
    ) -> IntArray:
        """Lower *stay* until every class holds or is empty; return the sizes."""
        n = len(first) - 1
        order = np.arange(len(stay))
        most, focus = np.full(n, _NO_LIMIT), np.full(n, -1, dtype=np.int64)
        rules = self.models.rules
        sizes = settle(first, order, pattern, patterns, rules, most, focus, self.rng, stay)
        if not self.models.others:
            return sizes
        population = self._population(item, nodes)
        inside_of = parts.take(members)
        asked = np.arange(n)
        while True:
            asked = asked[sizes[asked] > 0]
            holds, rule = self.judged(first, inside_of, stay, asked, [people[asked] for people in population])
            asked, rule = asked[~holds], rule[~holds]
            if not len(asked):
                break
            inside = np.concatenate([order[first[c] : first[c + 1]] for c in asked])
            edges = np.concatenate([[0], np.cumsum(first[asked + 1] - first[asked])])
            most = sizes[asked] - np.maximum(sizes[asked] // 16, 1)
            sizes[asked] = settle(edges, inside, pattern, patterns, rules, most, rule, self.rng, stay)
        return sizes

    def judged(
        self, first: IntArray, members: Parts, stay: IntArray, asked: IntArray, population: list[IntArray]
    ) -> tuple[BoolArray, IntArray]:
        """Return whether the *asked* classes meet the other models, and the rule of the first that they do not."""
        inside = np.concatenate([np.arange(first[c], first[c + 1]) for c in [*asked.tolist()]] or [first[:0]])
        inside = inside[stay[inside] > 0]
        place = np.searchsorted(first, inside, side="right") - 1
        edges = np.searchsorted(place, np.append(asked, len(first)))
        holds, rule = np.ones(len(asked), dtype=np.bool_), np.full(len(asked), -1, dtype=np.int64)
        for number, bound in enumerate(self.models.others):
            judge = Judge(bound.requirement, bound.induced, self.wholes[number])
            values = values_of(bound, members, inside)
            verdicts = [
                bound.requirement.model.holds(classes, judge.whole)
                for classes in judge.histograms(edges, values, stay[inside], population[number])
            ]
            verdict = np.concatenate(verdicts) if verdicts else holds
            rule[holds & ~verdict] = bound.rule
            holds &= verdict
        return holds, rule

    def _population(self, item: int, nodes: CodeArray) -> list[IntArray]:
        """Return for each of the other models (n_classes,) the people under each label; 0 where none are counted."""
        return [population_under(self.trees, bound, self.items.levels[item], nodes) for bound in self.models.others]


def values_of(bound: Bound, members: Parts, inside: IntArray) -> CodeArray | None:
    """Return what a requirement sees of parts: nodes of its attribute, joint values, or nothing."""
    requirement = bound.requirement
    if requirement.place is not None:
        return np.ascontiguousarray(members.nodes[inside, requirement.place])
    return None if requirement.values is None else requirement.values[members.cell[inside]]


def population_under(trees: TreeTables, bound: Bound, levels: CodeArray, nodes: CodeArray) -> IntArray:
    """Return (n_classes,) the people of a requirement's population under the labels of one item."""
    population = bound.requirement.population
    if population is None:
        return np.zeros(len(nodes), dtype=np.int64)
    cells = np.flatnonzero(population)
    group, labels = grouped_cells(trees, levels, cells, population[cells])
    people = kernels.summed(group, population[cells], len(labels))
    _, same = same_rows((*np.concatenate([nodes, labels]).T,))
    total = np.zeros(int(same.max()) + 1, dtype=np.int64)
    total[same[len(nodes) :]] = people
    return total[same[: len(nodes)]]

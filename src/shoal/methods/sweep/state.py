"""What the sweep knows of a problem: models as rules, quasi attributes as tables, records as parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray, KeyArray
from shoal.methods.sweep.defending import caps_of
from shoal.methods.sweep.grouping import MIX, group_by_label
from shoal.methods.sweep.order import nodes_at_levels
from shoal.methods.sweep.rules import Rule, Rules, TreeTables, build_rules
from shoal.models.base import Curve
from shoal.plan.induced import Induced
from shoal.plan.plan import KEPT, same_rows
from shoal.plan.plan import Parts as PlanParts
from shoal.plan.problem import Attribute, Problem, Requirement

_SHARED_TERMS = 1 << 14  # sums of one column: they stay in the nearest cache


@dataclass(slots=True, eq=False)
class Parts:
    """Records of one cell that publish the same nodes of the sensitive attributes, in the same class."""

    cell: IntArray  # (n_parts,)
    nodes: CodeArray  # (n_parts, n_sensitive)
    records: IntArray  # (n_parts,)
    owner: IntArray  # (n_parts,) class; -1: none yet

    @classmethod
    def of(cls, problem: Problem) -> Parts:
        """Start with every cell as one part that keeps its values."""
        cell = np.flatnonzero(problem.cells.counts)
        nothing = np.zeros((len(cell), 0), dtype=np.int32)
        parts = cls(cell, nothing, problem.cells.counts[cell], np.full(len(cell), -1, dtype=np.int64))
        return replace(parts, nodes=np.ascontiguousarray(parts.own(problem)))

    def own(self, problem: Problem) -> CodeArray:
        """Return (n_parts, n_sensitive) the values that the records have, whatever they publish."""
        columns = [np.asarray(column)[self.cell] for column in problem.cells.codes[len(problem.quasi) :]]
        return np.array(columns, dtype=np.int32).reshape(len(columns), len(self.cell)).T

    def alike(self, problem: Problem) -> tuple[CodeArray, Parts]:
        """Return (n_parts,) groups of parts with the same sensitive values and nodes, and each group as one part.

        The owner of such a part is the group's number.
        """
        nothing = np.zeros(len(self.cell), dtype=np.int32)
        example, group = same_rows((nothing, *self.nodes.T, *self.own(problem).T))
        records = np.bincount(group, self.records).astype(np.int64)
        return group, Parts(self.cell[example], self.nodes[example], records, np.arange(len(example)))

    def published_as(self, group: CodeArray, found: Parts, rng: np.random.Generator) -> Parts:
        """Return the same with so many records of each group, drawn at random, under the nodes that were *found*."""
        several: list[Parts] = []
        first, order = kernels.grouped(group, int(group.max(initial=-1)) + 1)
        variants, by_group = kernels.grouped(found.owner.astype(np.int32), len(first) - 1)
        for number in np.flatnonzero(np.diff(first)).tolist():
            rest = self.take(order[first[number] : first[number + 1]])
            for which in by_group[variants[number] : variants[number + 1]].tolist():
                some = replace(rest, nodes=np.repeat(found.nodes[which : which + 1], len(rest.cell), axis=0))
                some.records = rng.multivariate_hypergeometric(
                    rest.records, int(found.records[which]), method="marginals"
                ).astype(np.int64)
                rest = replace(rest, records=rest.records - some.records)
                several.append(some.take(some.records > 0))
        return Parts.joined(several)

    def take(self, which: IntArray | BoolArray) -> Parts:
        """Return some of the parts."""
        return Parts(self.cell[which], self.nodes[which], self.records[which], self.owner[which])

    @classmethod
    def joined(cls, several: Sequence[Parts]) -> Parts:
        """Return all parts of several."""
        return cls(
            np.concatenate([parts.cell for parts in several]),
            np.concatenate([parts.nodes for parts in several]),
            np.concatenate([parts.records for parts in several]),
            np.concatenate([parts.owner for parts in several]),
        )

    def raised(self, place: int, lifted: IntArray, steps: CodeArray, rng: np.random.Generator) -> Parts:
        """Return the same with ``lifted[node]`` records of each node, drawn at random, one step up."""
        parts = self
        for node in np.flatnonzero(lifted).tolist():  # a node's number is larger than that of all nodes below it
            here = np.flatnonzero(parts.nodes[:, place] == node)
            parts = parts.moved(place, [(here, int(lifted[node]))], int(steps[node]), rng)
        return parts

    def moved(self, place: int, several: Sequence[tuple[IntArray, int]], goal: int, rng: np.random.Generator) -> Parts:
        """Return the same with so many records of several lists of parts, drawn at random, published as a node."""
        here = np.concatenate([some for some, _ in several])
        drawn = np.concatenate(
            [rng.multivariate_hypergeometric(self.records[some], n, method="marginals") for some, n in several]
        )
        rest, moving = replace(self, records=self.records.copy()), self.take(here)
        rest.records[here] -= drawn
        moving.records = drawn.astype(np.int64)
        moving.nodes[:, place] = goal
        parts = Parts.joined([rest, moving])
        return parts.take(parts.records > 0)

    def as_plan(self, problem: Problem) -> PlanParts:
        """Return them as a plan takes them: ranges of leaves, KEPT where a record keeps its own value."""
        lo = np.full(self.nodes.shape, KEPT, dtype=np.int32)
        hi = np.zeros(self.nodes.shape, dtype=np.int32)
        for place, attribute in enumerate(problem.sensitive):
            own = problem.cells.codes[len(problem.quasi) + place][self.cell]
            tree, nodes = attribute.taxonomy, self.nodes[:, place]
            up = (nodes != own) & (tree.hi[nodes] - tree.lo[nodes] > 1)
            lo[up, place], hi[up, place] = tree.lo[nodes[up]], tree.hi[nodes[up]]
        return PlanParts(self.cell, self.owner, lo, hi, self.records)


def information_of(attributes: Sequence[Attribute], nodes: CodeArray) -> FloatArray:
    """Return (n,) what rows of nodes tell: for each attribute its weight, divided by the leaves below its node."""
    known = np.zeros(len(nodes))
    for j, attribute in enumerate(attributes):
        tree = attribute.taxonomy
        known += attribute.weight / (tree.hi - tree.lo)[nodes[:, j]]
    return known


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
    shared, column, step, start, terms = _shared_columns(tables, factors, leaves)
    return TreeTables(
        leaves=leaves,
        table=np.concatenate([table.reshape(-1) for table in tables]),
        offset=np.cumsum([0, *(table.size for table in tables[:-1])]).astype(np.int64),
        width=np.array([table.shape[1] for table in tables], dtype=np.int64),
        multiplier=factors,
        exact=exact,
        uneven=any(bool((table < 0).any()) for table in tables),
        shared=shared,
        column=column,
        step=step,
        start=start,
        terms=terms,
    )


def _shared_columns(
    tables: Sequence[CodeArray], factors: KeyArray, leaves: CodeArray
) -> tuple[CodeArray, IntArray, IntArray, IntArray, KeyArray]:
    """Put attributes together in columns, the smallest first, as long as all sums of a column are few."""
    groups: list[list[int]] = []
    sizes: list[int] = []
    for j in sorted(range(len(tables)), key=lambda j: tables[j].size):
        if groups and sizes[-1] * tables[j].size <= _SHARED_TERMS:
            groups[-1].append(j)
            sizes[-1] *= tables[j].size
        else:
            groups.append([j])
            sizes.append(tables[j].size)
    shared = np.zeros((len(leaves), len(groups)), dtype=np.int32)
    column, step = np.zeros(len(tables), dtype=np.int64), np.zeros(len(tables), dtype=np.int64)
    terms: list[KeyArray] = []
    for number, group in enumerate(groups):
        # sums: (levels of the group, leaves of the group)
        sums = np.zeros((1, 1), dtype=np.uint64)
        for j in group:
            n_levels, n_leaves = tables[j].shape
            products = tables[j].astype(np.uint64) * factors[j]
            sums = (sums[:, np.newaxis, :, np.newaxis] + products[np.newaxis, :, np.newaxis, :]).reshape(
                len(sums) * n_levels, sums.shape[1] * n_leaves
            )
            shared[:, number] = shared[:, number] * n_leaves + leaves[:, j]
        stride = sums.shape[1]
        for j in reversed(group):
            column[j], step[j] = number, stride
            stride *= tables[j].shape[0]
        terms.append(sums.reshape(-1))
    start = np.cumsum([0, *(len(part) for part in terms[:-1])]).astype(np.int64)
    return shared, column, step, start, np.concatenate(terms)


def grouped_cells(
    trees: TreeTables, levels: CodeArray, cells: IntArray, records: IntArray
) -> tuple[CodeArray, CodeArray]:
    """Return (n_cells,) the class of cells at a level vector, -1 where a leaf is too shallow, and classes' nodes."""
    nobody = np.zeros(len(cells), dtype=np.bool_)
    return group_by_label(trees, levels, np.arange(len(cells)), cells, records, nobody, 0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A requirement that the compiled loops do not judge, and the rule that tells them who should leave for it."""

    requirement: Requirement
    rule: int  # -1: nobody in particular


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The requirements of a problem, sorted by who judges them."""

    rules: Rules
    of_place: tuple[tuple[int, ...], ...]  # (n_sensitive,) rules about each sensitive attribute
    others: tuple[Bound, ...]  # judged by the models themselves
    defend: bool  # whether labels tell no more than tau or the base rate
    steps: tuple[CodeArray, ...]  # (n_sensitive,) the node that each node is generalized to; itself at the end

    @classmethod
    def of(cls, problem: Problem, *, defend: bool = False) -> Models:
        """Bind the requirements to the table; to *defend* labels means that they tell no more than the base rate."""
        rules: list[Rule] = []
        others: list[Bound] = []
        records = 1
        spreads: dict[int, list[Induced]] = {}
        for requirement in problem.requirements:
            model, curve, place = requirement.model, requirement.model.curve, requirement.place
            records = max(records, curve.records if curve is not None else 1)
            if place is None:
                if curve is None or requirement.values is not None:
                    others.append(Bound(requirement, -1))
                continue
            induced = requirement.induced(problem.cells.counts)
            spreads.setdefault(place, []).append(induced)
            reference = requirement.whole(problem.cells.counts).shares if model.relative_to_whole else None
            if curve is None:
                others.append(Bound(requirement, len(rules)))
            caps = caps_of(requirement, problem) if defend and problem.may_generalize(place) else None
            rules.append(Rule(place, induced, curve or Curve(), reference, caps))
        places = range(len(problem.sensitive))
        return cls(
            rules=build_rules(rules, records, max(records, problem.smallest_class)),
            of_place=tuple(tuple(r for r, rule in enumerate(rules) if rule.place == place) for place in places),
            others=tuple(others),
            defend=defend,
            steps=tuple(_steps(problem, place, spreads.get(place, [])) for place in places),
        )


def _steps(problem: Problem, place: int, spreads: Sequence[Induced]) -> CodeArray:
    """Return the steps that every rule about an attribute allows; none if its values may not be generalized."""
    tree = problem.sensitive[place].taxonomy
    if not problem.may_generalize(place):
        return np.arange(tree.n_nodes, dtype=np.int32)
    allowed = np.logical_and.reduce([induced.allowed for induced in spreads])
    return spreads[0].steps(allowed)

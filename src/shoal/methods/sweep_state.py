"""What the sweep knows of a problem: models as rules, quasi attributes as tables, records as parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal import kernels
from shoal.arrays import BoolArray, CodeArray, IntArray
from shoal.induced import Induced
from shoal.methods.sweep_kernels import label_codes
from shoal.methods.sweep_order import nodes_at_levels
from shoal.methods.sweep_rules import Rule, Rules, build_rules
from shoal.models.base import Curve
from shoal.plan import KEPT
from shoal.plan import Parts as PlanParts
from shoal.problem import Problem, Requirement


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
        columns = problem.cells.codes[len(problem.quasi) :]
        nodes = np.zeros((len(cell), len(columns)), dtype=np.int32)
        for place, column in enumerate(columns):
            nodes[:, place] = column[cell]
        return cls(cell, nodes, problem.cells.counts[cell], np.full(len(cell), -1, dtype=np.int64))

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
            here = np.flatnonzero((parts.nodes[:, place] == node) & (parts.records > 0))
            drawn = rng.multivariate_hypergeometric(parts.records[here], int(lifted[node]), method="marginals")
            moving = parts.take(here)
            moving.records = drawn.astype(np.int64)
            moving.nodes[:, place] = steps[node]
            parts.records = parts.records.copy()
            parts.records[here] -= drawn
            parts = Parts.joined([parts, moving.take(drawn > 0)])
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


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """The quasi attributes as compiled loops see them: the ancestors of every leaf at every level, in one array."""

    leaves: CodeArray  # (n_cells, n_quasi)
    table: CodeArray
    offset: IntArray  # (n_quasi,)
    width: IntArray  # (n_quasi,)

    @classmethod
    def of(cls, problem: Problem) -> Trees:
        """Write down the trees of a problem."""
        tables = [nodes_at_levels(attribute.taxonomy) for attribute in problem.quasi]
        return cls(
            leaves=np.stack([codes.astype(np.int32) for codes in problem.quasi_codes], axis=1),
            table=np.concatenate([table.reshape(-1) for table in tables]),
            offset=np.cumsum([0, *(table.size for table in tables[:-1])]).astype(np.int64),
            width=np.array([table.shape[1] for table in tables], dtype=np.int64),
        )

    def labels(self, cells: IntArray, levels: CodeArray) -> CodeArray:
        """Return (n_cells, n_quasi) the nodes of cells at a level vector; -1 first where a leaf is too shallow."""
        codes = np.zeros((len(cells), len(levels)), dtype=np.int32)
        label_codes(cells, self.leaves, self.table, self.offset, self.width, levels, codes)
        return codes


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """A requirement that the compiled loops do not judge, and the rule that tells them who should leave for it."""

    requirement: Requirement
    induced: Induced | None
    rule: int  # -1: nobody in particular


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The requirements of a problem, sorted by who judges them."""

    rules: Rules
    of_place: tuple[tuple[int, ...], ...]  # (n_sensitive,) rules about each sensitive attribute
    others: tuple[Bound, ...]  # judged by the models themselves
    steps: tuple[CodeArray, ...]  # (n_sensitive,) the node that each node is generalized to; itself at the end
    frozen: tuple[bool, ...]  # (n_sensitive,) whether values may not be generalized once the sweep runs
    joint: tuple[bool, ...]  # (n_sensitive,) whether values may not be generalized at all

    @classmethod
    def of(cls, problem: Problem, parts: Parts) -> Models:
        """Bind the requirements to a table in which *parts* are what is published of the sensitive values."""
        rules: list[Rule] = []
        others: list[Bound] = []
        records = 1
        spreads: dict[int, list[Induced]] = {}
        names = [attribute.name for attribute in problem.sensitive]
        frozen, joint = np.zeros(len(names), dtype=np.bool_), np.zeros(len(names), dtype=np.bool_)
        for requirement in problem.requirements:
            model, curve, place = requirement.model, requirement.model.curve, requirement.place
            records = max(records, curve.records if curve is not None else 1)
            if place is None:
                if curve is None or requirement.values is not None:
                    others.append(Bound(requirement, None, -1))
                joint[[names.index(name) for name in model.attributes]] = True
                continue
            induced = requirement.induced(problem.cells.counts)
            spreads.setdefault(place, []).append(induced)
            reference = None
            if model.relative_to_whole:
                frozen[place] = True
                by_node = kernels.summed(parts.nodes[:, place], parts.records, induced.taxonomy.n_nodes)
                reference = induced.counts(by_node[np.newaxis, :])[0] / (parts.records.sum() * induced.factor)
            if curve is None:
                others.append(Bound(requirement, induced, len(rules)))
            rules.append(Rule(place, induced, curve or Curve(), reference))
        places = range(len(names))
        return cls(
            rules=build_rules(rules, records, max(records, problem.smallest_class)),
            of_place=tuple(tuple(r for r, rule in enumerate(rules) if rule.place == place) for place in places),
            others=tuple(others),
            steps=tuple(_steps(problem, place, spreads.get(place, [])) for place in places),
            frozen=tuple((frozen | joint).tolist()),
            joint=tuple(joint.tolist()),
        )


def _steps(problem: Problem, place: int, spreads: Sequence[Induced]) -> CodeArray:
    """Return the steps that every rule about an attribute allows; none for an attribute without rules."""
    tree = problem.sensitive[place].taxonomy
    if not spreads:
        return np.arange(tree.n_nodes, dtype=np.int32)
    allowed = np.logical_and.reduce([induced.allowed for induced in spreads])
    return spreads[0].steps(allowed)

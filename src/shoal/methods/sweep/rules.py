"""The sweep's view of a problem: models as rules in plain arrays, caps that defend labels, and records as parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from shoal.core import kernels
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.kernels import same_rows
from shoal.models.base import Curve
from shoal.models.exact import fraction
from shoal.models.tau_l_diversity import TauLDiversity
from shoal.plan.judging import Judge
from shoal.plan.plan import KEPT, Plan
from shoal.plan.problem import Attribute, InducedFrequency, Problem, Requirement
from shoal.plan.reader import satisfy

_FINEST = 1 << 30


class Rules(NamedTuple):
    """Limits on the induced frequencies of sensitive attributes, as plain arrays.

    Rule r is about the sensitive attribute ``place[r]``. A record published as node v contributes ``(weights[a] //
    common[v]) * share[v]`` units to every leaf a below v, ``factor[r]`` in all. The k-th limit of a rule allows the k
    most frequent leaves ``top / bottom`` of the class, and ``distinct[r]`` leaves must occur. In a defended class, leaf
    a may have at most ``cap_top / cap_bottom`` of the records, and of the records under each label.
    """

    place: IntArray  # (n_rules,)
    factor: IntArray  # (n_rules,)
    n_leaves: IntArray  # (n_rules,)
    first_leaf: IntArray  # (n_rules + 1,) into weights
    weights: IntArray
    first_node: IntArray  # (n_rules + 1,) into lo, hi, common, share
    lo: IntArray
    hi: IntArray
    common: IntArray
    share: IntArray
    first_limit: IntArray  # (n_rules + 1,) into top, bottom
    top: IntArray
    bottom: IntArray
    distinct: IntArray  # (n_rules,)
    reference: FloatArray  # like weights: share of the whole table, 0 if the model does not compare with it
    cap_top: IntArray  # like weights
    cap_bottom: IntArray
    capped: BoolArray  # (n_rules,) whether caps apply: the sweep is defended and may generalize the attribute
    records: int  # minimum size of a class
    plain_records: int  # minimum size of a class without generalized sensitive values


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One rule about the sensitive attribute at *place*, before its arrays are concatenated with others."""

    place: int
    induced: InducedFrequency
    curve: Curve
    reference: FloatArray | None = None  # (n_leaves,) shares of the whole table
    caps: Sequence[Fraction] | None = None  # (n_leaves,) of the records under a label; None: not defended


def build_rules(bound: Sequence[Rule], records: int, plain_records: int) -> Rules:
    """Concatenate the arrays of all rules.

    Rule r has the entries ``first_leaf[r]:first_leaf[r + 1]`` of the arrays of leaves (weights, reference, caps),
    ``first_node[r]:first_node[r + 1]`` of the arrays of nodes, and likewise its limits.
    """
    trees = [rule.induced.taxonomy for rule in bound]
    units = [_node_units(rule.induced) for rule in bound]
    limits = [[_round_down(limit) for limit in rule.curve.limits] for rule in bound]
    caps = [
        _round_down(cap)
        for rule, tree in zip(bound, trees, strict=True)
        for cap in rule.caps or [Fraction(1)] * tree.n_leaves
    ]
    references = [
        np.zeros(tree.n_leaves) if rule.reference is None else rule.reference
        for rule, tree in zip(bound, trees, strict=True)
    ]
    return Rules(
        place=_join([[rule.place for rule in bound]]),
        factor=_join([[rule.induced.factor for rule in bound]]),
        n_leaves=_join([[tree.n_leaves for tree in trees]]),
        first_leaf=_firsts([tree.n_leaves for tree in trees]),
        weights=_join([rule.induced.weights for rule in bound]),
        first_node=_firsts([tree.n_nodes for tree in trees]),
        lo=_join([tree.lo for tree in trees]),
        hi=_join([tree.hi for tree in trees]),
        common=_join([common for common, _ in units]),
        share=_join([share for _, share in units]),
        first_limit=_firsts([len(some) for some in limits]),
        top=_join([[limit.numerator for limit in some] for some in limits]),
        bottom=_join([[limit.denominator for limit in some] for some in limits]),
        distinct=_join([[values_needed(rule.curve) for rule in bound]]),
        reference=np.concatenate([np.zeros(0), *references]),
        cap_top=_join([[cap.numerator for cap in caps]]),
        cap_bottom=_join([[cap.denominator for cap in caps]]),
        capped=np.array([rule.caps is not None for rule in bound], dtype=np.bool_),
        records=records,
        plain_records=plain_records,
    )


def _node_units(induced: InducedFrequency) -> tuple[IntArray, IntArray]:
    """Return (n_nodes,) the common divisor of the weights below each node, and the units per divisor."""
    tree = induced.taxonomy
    common, share = np.ones(tree.n_nodes, dtype=np.int64), np.zeros(tree.n_nodes, dtype=np.int64)
    for node in np.flatnonzero(induced.allowed).tolist():
        if node >= tree.n_leaves:
            common[node] = np.gcd.reduce(induced.weights[tree.lo[node] : tree.hi[node]])
            share[node] = induced.factor // (int(induced.totals[node]) // int(common[node]))
    return common, share


def _join(several: Sequence[Sequence[int] | AnyIntArray]) -> IntArray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *several]).astype(np.int64)


def _firsts(lengths: Sequence[int]) -> IntArray:
    return np.cumsum([0, *lengths]).astype(np.int64)


def values_needed(curve: Curve) -> int:
    """Return the minimum number of values of a class: with v values F(k) >= k / v, so the limit psi(k) must be >= k /
    v.

    >>> values_needed(Curve((Fraction(1, 2), Fraction(3, 5))))
    4
    """
    return max([curve.distinct, *(math.ceil(k / limit) for k, limit in enumerate(curve.limits, start=1))])


def _round_down(limit: Fraction) -> Fraction:
    """Return a limit whose products fit in 64 bits: finer fractions become slightly stricter."""
    return limit if limit.denominator <= _FINEST else Fraction(limit.numerator * _FINEST // limit.denominator, _FINEST)


def caps_of(requirement: Requirement, problem: Problem) -> list[Fraction]:
    """Return (n_leaves,) the cap of each value in a class: tau, or its share of the whole table if that is larger."""
    if not isinstance(requirement.model, TauLDiversity):
        raise TypeError(f"{requirement.model.subject} allows no labels")
    counts = requirement.model.values_of(requirement.whole(problem.cells.counts))
    total, tau = int(counts.sum()), fraction(requirement.model.tau)
    return [max(tau, Fraction(count, total)) for count in counts.tolist()]


def is_defended(problem: Problem, plan: Plan) -> bool:
    """Whether no value exceeds its cap in any class, nor under any label of a class, by exact comparison."""
    cell, class_of, records, target = plan.pieces(problem.cells.counts)
    if not satisfy(problem, class_of, cell, records, plan.n_classes).all():
        return False
    for requirement in problem.requirements if plan.targets is not None else ():
        place = requirement.place
        if plan.targets is None or place is None or not problem.may_generalize(place):
            continue
        labels = np.stack([np.append(ends[:, place], KEPT) for ends in (plan.targets.lo, plan.targets.hi)], axis=1)
        under = np.flatnonzero((class_of >= 0) & (labels[target, 0] != KEPT))
        _, group = same_rows((class_of[under], *labels[target[under]].T))
        n_leaves, caps = problem.sensitive[place].taxonomy.n_leaves, caps_of(requirement, problem)
        key = group.astype(np.int64) * n_leaves + requirement.values_at(cell[under])
        pairs, where = np.unique(key, return_inverse=True)
        count = np.bincount(where.reshape(-1), records[under]).astype(np.int64).tolist()
        total = np.bincount(group, records[under]).astype(np.int64)[pairs // n_leaves].tolist()
        if any(n > caps[v] * of for n, of, v in zip(count, total, (pairs % n_leaves).tolist(), strict=True)):
            return False
    return True


class Parts(NamedTuple):
    """Records of one cell that publish the same nodes of the sensitive attributes, in the same class."""

    cell: IntArray  # (n_parts,)
    nodes: CodeArray  # (n_parts, n_sensitive)
    records: IntArray  # (n_parts,)
    owner: IntArray  # (n_parts,) class, or -1

    @classmethod
    def of(cls, problem: Problem) -> Parts:
        """Return every cell as one part that publishes its true values."""
        cell = np.flatnonzero(problem.cells.counts)
        nothing = np.zeros((len(cell), 0), dtype=np.int32)
        parts = cls(cell, nothing, problem.cells.counts[cell], np.full(len(cell), -1, dtype=np.int64))
        return parts._replace(nodes=parts.own_values(problem))

    def own_values(self, problem: Problem) -> CodeArray:
        """Return (n_parts, n_sensitive) the true sensitive values."""
        columns = [np.asarray(column)[self.cell] for column in problem.cells.codes[len(problem.quasi) :]]
        return np.ascontiguousarray(np.array(columns, dtype=np.int32).reshape(len(columns), len(self.cell)).T)

    def alike(self, problem: Problem) -> tuple[CodeArray, Parts]:
        """Return (n_parts,) the group of parts with equal sensitive values and nodes, and every group as one part.

        The owner of such a part is the number of its group.
        """
        nothing = np.zeros(len(self.cell), dtype=np.int32)
        example, group = same_rows((nothing, *self.nodes.T, *self.own_values(problem).T))
        records = np.bincount(group, self.records).astype(np.int64)
        return group, Parts(self.cell[example], self.nodes[example], records, np.arange(len(example)))

    def publish_as(self, group: CodeArray, found: Parts, rng: np.random.Generator) -> Parts:
        """Return the parts under the *found* nodes; chance decides which records of a group publish which node.

        The owner of a found part is a group, and its records are how many of that group publish its nodes.
        """
        several: list[Parts] = []
        first, order = kernels.group_items(group, int(group.max(initial=-1)) + 1)
        variants, by_group = kernels.group_items(found.owner.astype(np.int32), len(first) - 1)
        for number in np.flatnonzero(np.diff(first)).tolist():
            rest = self.take(order[first[number] : first[number + 1]])
            for which in by_group[variants[number] : variants[number + 1]].tolist():
                n = int(found.records[which])
                drawn = rng.multivariate_hypergeometric(rest.records, n, method="marginals").astype(np.int64)
                nodes = np.repeat(found.nodes[which : which + 1], len(rest.cell), axis=0)
                several.append(rest._replace(nodes=nodes, records=drawn).take(drawn > 0))
                rest = rest._replace(records=rest.records - drawn)
        return Parts.join(several)

    def take(self, which: IntArray | BoolArray) -> Parts:
        return Parts._make(column[which] for column in self)

    @classmethod
    def join(cls, several: Sequence[Parts]) -> Parts:
        return cls._make(np.concatenate(columns) for columns in zip(*several, strict=True))

    def move(self, place: int, several: Sequence[tuple[IntArray, int]], goal: int, rng: np.random.Generator) -> Parts:
        """Return the parts after records were drawn at random from lists of parts, to publish the node *goal*."""
        here = np.concatenate([some for some, _ in several])
        drawn = np.concatenate(
            [rng.multivariate_hypergeometric(self.records[some], n, method="marginals") for some, n in several]
        )
        rest, moving = self._replace(records=self.records.copy()), self.take(here)
        rest.records[here] -= drawn
        moving.nodes[:, place] = goal
        parts = Parts.join([rest, moving._replace(records=drawn.astype(np.int64))])
        return parts.take(parts.records > 0)

    def as_plan(self, problem: Problem) -> tuple[IntArray, IntArray, IntArray, tuple[CodeArray, CodeArray]]:
        """Return cell, owner, records and published ranges (lo, hi), as plans take them."""
        own, lo = self.own_values(problem), np.full(self.nodes.shape, KEPT, dtype=np.int32)
        hi = np.zeros_like(lo)
        for place, attribute in enumerate(problem.sensitive):
            tree, nodes = attribute.taxonomy, self.nodes[:, place]
            up = (nodes != own[:, place]) & (tree.hi[nodes] - tree.lo[nodes] > 1)
            lo[up, place], hi[up, place] = tree.lo[nodes[up]], tree.hi[nodes[up]]
        return self.cell, self.owner, self.records, (lo, hi)


def information_of(attributes: Sequence[Attribute], nodes: CodeArray) -> FloatArray:
    """Return (n,) the information of rows of nodes: the sum of each attribute's weight / leaves below its node."""
    total = np.zeros(len(nodes))
    for j, attribute in enumerate(attributes):
        tree = attribute.taxonomy
        total += attribute.weight / (tree.hi - tree.lo)[nodes[:, j]]
    return total


class BoundModel(NamedTuple):
    """A requirement that the compiled loops cannot judge, and the rule that selects the records that leave for it."""

    judge: Judge
    rule: int  # -1: records leave at random

    def values_of(self, members: Parts) -> CodeArray | None:
        """Return the values of parts if the model sees values; such values are never generalized."""
        values = self.judge.requirement.values
        return None if values is None else values[members.cell]


@dataclass(frozen=True, slots=True, eq=False)
class Models:
    """The requirements of a problem, divided by who judges them."""

    rules: Rules
    of_place: tuple[tuple[int, ...], ...]  # (n_sensitive,) rules about each sensitive attribute
    others: tuple[BoundModel, ...]  # judged by the models themselves
    defend: bool  # whether labels reveal no more than tau or the base rate
    uneven: tuple[bool, ...]  # (n_sensitive,) whether the adversary's weights of occurring values differ
    steps: tuple[CodeArray, ...]  # (n_sensitive,) the node that each node is generalized to; the last is its own

    @classmethod
    def of(cls, problem: Problem, *, defend: bool = False) -> Models:
        """Bind the requirements to the table; if *defend*, labels must reveal no more than tau or the base rate."""
        rules: list[Rule] = []
        others: list[BoundModel] = []
        records = 1
        spreads: dict[int, list[InducedFrequency]] = {}
        for requirement in problem.requirements:
            model, curve, place = requirement.model, requirement.model.curve, requirement.place
            labels = place is not None and problem.may_generalize(place)
            if defend and not labels:
                records = max(records, model.smallest_class)
            records = max(records, curve.records if curve is not None else 1)
            if place is None:
                if curve is None or requirement.values is not None:
                    others.append(BoundModel(Judge.of(requirement, problem.cells.counts), -1))
                continue
            induced = requirement.induce(problem.cells.counts)
            spreads.setdefault(place, []).append(induced)
            reference = requirement.whole(problem.cells.counts).shares if model.relative_to_whole else None
            if curve is None:
                others.append(BoundModel(Judge.of(requirement, problem.cells.counts), len(rules)))
            caps = caps_of(requirement, problem) if defend and labels else None
            rules.append(Rule(place, induced, curve or Curve(), reference, caps))
            if caps is not None:
                records = max(records, math.ceil(1 / max(caps)), _common_divisor(requirement, problem, caps))
        places = range(len(problem.sensitive))
        return cls(
            rules=build_rules(rules, records, records if defend else max(records, problem.smallest_class)),
            of_place=tuple(tuple(r for r, rule in enumerate(rules) if rule.place == place) for place in places),
            others=tuple(others),
            defend=defend,
            uneven=tuple(
                any(has_uneven_weights(problem, place, one) for one in spreads.get(place, ())) for place in places
            ),
            steps=tuple(
                _steps(problem, place, spreads.get(place, []), [rule.caps for rule in rules if rule.place == place])
                for place in places
            ),
        )

    def others_hold(
        self, first: IntArray, members: Parts, records: IntArray, population: Sequence[IntArray]
    ) -> tuple[BoolArray, IntArray]:
        """Return whether classes satisfy all other models, and the rule of the first model that each class fails.

        Class c has the parts ``first[c]:first[c + 1]`` with *records* of each. *population* has, for each model, the
        people under the labels of all classes.
        """
        holds, rule = np.ones(len(first) - 1, dtype=np.bool_), np.full(len(first) - 1, -1, dtype=np.int64)
        for other, people in zip(self.others, population, strict=True):
            verdict = other.judge.holds(first, other.values_of(members), records, people)
            rule[holds & ~verdict] = other.rule
            holds &= verdict
        return holds, rule

    def others_accept(self, members: Parts) -> bool:
        """Whether one class under the root of all taxonomies satisfies all other models."""
        populations = [other.judge.requirement.population for other in self.others]
        people = [np.array([0 if population is None else population.sum()]) for population in populations]
        holds, _ = self.others_hold(np.array([0, len(members.cell)]), members, members.records, people)
        return bool(holds[0])


def has_uneven_weights(problem: Problem, place: int, induced: InducedFrequency) -> bool:
    """Whether the adversary's weights of occurring values differ; a weight of 0 counts."""
    return (
        len(np.unique(induced.weights[problem.cells.codes[len(problem.quasi) + place][problem.cells.counts > 0]])) > 1
    )


def _common_divisor(requirement: Requirement, problem: Problem, caps: Sequence[Fraction]) -> int:
    """Return a divisor of the size of every class, needed because some values of the table are at their caps.

    Neither a class nor the remaining records may exceed the cap, so all have exactly this share of such a value.
    """
    whole = requirement.as_one_class(problem.cells.counts)
    if requirement.people is not None or whole.counts is None:
        return 1
    shares = [Fraction(count, whole.size) for count in whole.counts.tolist()]
    return math.lcm(*(share.denominator for share, cap in zip(shares, caps, strict=True) if share >= cap))


def _steps(
    problem: Problem, place: int, spreads: Sequence[InducedFrequency], caps: Sequence[Sequence[Fraction] | None]
) -> CodeArray:
    """Return the node that each node is generalized to under every rule; itself if the attribute stays as it is.

    Labels are skipped if the caps of the values below them add up to less than 1: they can never be defended.
    """
    if not problem.may_generalize(place):
        return np.arange(problem.sensitive[place].taxonomy.n_nodes, dtype=np.int32)
    allowed, tree = np.logical_and.reduce([induced.allowed for induced in spreads]), problem.sensitive[place].taxonomy
    for some in caps:
        if some is not None:
            enough = [sum(some[lo:hi]) >= 1 for lo, hi in zip(tree.lo.tolist(), tree.hi.tolist(), strict=True)]
            allowed &= np.array(enough)
    return spreads[0].steps(allowed)

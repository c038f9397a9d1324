"""downcoding: minimally generalized classes isolate people who are one step down their hierarchies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from shoal.attacks import kernels
from shoal.attacks.base import FEWEST, NOBODYS, TREATED, People
from shoal.attacks.singling_out import Count, PredicateAttack, count_fulfilling
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import split_values
from shoal.core.errors import UsageError
from shoal.linking.kernels import Boxes, BoxIndex, Histograms, grow_tree
from shoal.release.sliced.table import number_rows
from shoal.taxonomies.fitting import default_builder
from shoal.taxonomies.tree import Taxonomy

CANDIDATES = 4  # predicates that are examined closely, for each that is tried


class DowncodingAttack(PredicateAttack):
    """Isolates people by a class's labels, one of which is moved a step down its hierarchy.

    Cohen, "Attacks on deidentification's defenses" (USENIX Security 2022): if a class is generalized no more than
    needed, its records are not all under one child of a label. So at least one person is under a child with few people,
    and most likely exactly one. A predicate is a class's labels with one of them replaced by a child. The predicates
    most likely to isolate one person come first, given the sizes of classes, that knowledge, and the distribution of
    values in the release. The baseline moves to random children of the same labels. On the control group the attack
    tries the same predicates.

    Hierarchies come from the policy or, without it, from the labels of the release.
    """

    name = "downcoding"
    title = "who can be isolated because classes are minimal"
    question = "singling out"
    bears_on = "identity"

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: classes must have labels of hierarchies."""
        if view.treatments.nobodys:
            return NOBODYS
        if view.sliced is not None or view.as_they_are or view.form.by_plan:
            return "classes were not generalized along hierarchies to fit their own records"
        return TREATED if view.treatments.of_quasi else None

    def ask(self, view: ReleaseView, everybody: People, rng: np.random.Generator) -> tuple[Count, Count]:
        levels = [Hierarchy.of(view, place, everybody) for place in range(len(view.known))]
        classes = Classes.of(view.read_records()[0], levels)
        steps = Steps.likeliest(classes, levels, self.n_targets, rng)
        if len(steps.owner) < FEWEST:
            raise UsageError(f"there are fewer than {FEWEST} steps down from labels of classes, too few for an attack")
        by_chance = steps.by_chance(classes, levels, rng)
        return partial(steps.count, classes, levels), partial(by_chance.count, classes, levels)


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes of a release as nodes, and the distribution of records over the leaves of each hierarchy."""

    nodes: IntArray  # (n_classes, n_known)
    records: IntArray  # (n_classes,)
    before: tuple[FloatArray, ...]  # of each attribute (n_leaves + 1,) records before each leaf

    @classmethod
    def of(cls, labels: CodeArray, levels: Sequence[Hierarchy]) -> Classes:
        number, first = number_rows(list(labels.T), len(labels))
        nodes = np.stack([each.node_of[own] for each, own in zip(levels, labels[first].T, strict=True)], axis=1)
        spread = tuple(each.before(own) for each, own in zip(levels, labels.T, strict=True))
        return cls(nodes, np.bincount(number), spread)

    def mass(self, attribute: int, low: AnyIntArray, high: AnyIntArray) -> FloatArray:
        """Return how many records are expected between leaves of an attribute."""
        before = self.before[attribute]
        return np.asarray(before[np.minimum(high, len(before) - 1)] - before[low])


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Predicates: a class, one of its attributes, and a child of its label there."""

    owner: IntArray  # (n,) the class
    attribute: IntArray  # (n,)
    child: IntArray  # (n,) a node

    def __getitem__(self, places: AnyIntArray) -> Steps:
        return Steps(self.owner[places], self.attribute[places], self.child[places])

    @classmethod
    def likeliest(cls, classes: Classes, levels: Sequence[Hierarchy], n: int, rng: np.random.Generator) -> Steps:
        """Return up to n steps that are most likely to isolate one person, one for each class and attribute."""
        found, chances = [], []
        for place, each in enumerate(levels):
            steps = _step_down(classes, place, each)
            found.append(steps)
            chances.append(_alone(classes, each, steps))
        every = cls(*(np.concatenate([getattr(each, name) for each in found]) for name in cls.__slots__))
        if not len(every.owner):
            raise UsageError("no published label has others below it; give the policy, which has the hierarchies")
        chance = np.concatenate(chances)
        order = rng.permutation(len(chance))
        order = order[np.argsort(-chance[order], kind="stable")]
        _, first = np.unique((every.owner * len(levels) + every.attribute)[order], return_index=True)
        close = order[np.sort(first)[: CANDIDATES * n]]
        chance = chance[close] * np.exp(-_others(classes, levels, every[close]))
        return every[close[np.argsort(-chance, kind="stable")[:n]]]

    def by_chance(self, classes: Classes, levels: Sequence[Hierarchy], rng: np.random.Generator) -> Steps:
        """Return steps to a random child of the same labels."""
        child = self.child.copy()
        for place, each in enumerate(levels):
            own = np.flatnonzero(self.attribute == place)
            node = classes.nodes[self.owner[own], place]
            child[own] = each.child[rng.integers(each.start[node], each.start[node + 1])]
        return Steps(self.owner, self.attribute, child)

    def nodes(self, classes: Classes) -> IntArray:
        nodes = classes.nodes[self.owner].copy()
        nodes[np.arange(len(nodes)), self.attribute] = self.child
        return nodes

    def count(self, classes: Classes, levels: Sequence[Hierarchy], people: People, most: int) -> IntArray:
        """Return (n,) how many of the people satisfy each predicate, counted up to *most*."""
        hulls = _hulls(levels, self.nodes(classes))
        n, d = len(hulls), len(levels)
        low, high = (hulls[:, side::2].reshape(-1).astype(np.int64) for side in (0, 1))
        no_gaps = np.full(n * d, -1, dtype=np.int64)
        asked = kernels.Conditions(np.arange(n + 1) * d, np.tile(np.arange(d), n), low, high, no_gaps)
        columns = np.stack([*(each.leaves(people) for each in levels), people.person])
        return count_fulfilling(columns, asked, np.zeros((1, 1), dtype=np.uint64), most)


def _step_down(classes: Classes, attribute: int, each: Hierarchy) -> Steps:
    """Return every step down from the labels of one attribute."""
    node = classes.nodes[:, attribute]
    count = each.start[node + 1] - each.start[node]
    owner = np.repeat(np.arange(len(node)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return Steps(owner, np.full(len(owner), attribute), each.child[each.start[node[owner]] + within])


def _alone(classes: Classes, each: Hierarchy, steps: Steps) -> FloatArray:
    """Return (n,) the probability that one record of the class is under the child, if not all are under one child.

    Of n records with probability p each, exactly one is under the child with probability n p (1 - p)^(n - 1).
    """
    if not len(steps.owner):
        return np.empty(0)
    attribute = int(steps.attribute[0])
    node = classes.nodes[steps.owner, attribute]
    whole = np.maximum(classes.mass(attribute, each.lo[node], each.hi[node]), 1e-300)
    share = np.minimum(classes.mass(attribute, each.lo[steps.child], each.hi[steps.child]) / whole, 1.0)
    records = classes.records[steps.owner]
    together = np.bincount(steps.owner, share**records, len(classes.records))[steps.owner]
    chance = records * share * (1 - share) ** (records - 1) / np.maximum(1 - together, 1e-12)
    return np.asarray(np.where(records > 1, np.minimum(chance, 1.0), share))


def _others(classes: Classes, levels: Sequence[Hierarchy], steps: Steps) -> FloatArray:
    """Return (n,) how many records of other classes are expected to satisfy each predicate."""
    asked, hulls = _hulls(levels, steps.nodes(classes)), _hulls(levels, classes.nodes)
    d = len(levels)
    none = np.empty(0, dtype=np.int64)
    even = Boxes(hulls, np.full((len(hulls), d), -1, dtype=np.int32), Histograms(none, none, none), none)
    index = BoxIndex(*grow_tree(hulls), np.zeros((1, 1), dtype=np.uint64))
    none_near = np.zeros((1, d), dtype=np.int32)
    gower = kernels.Gower(np.zeros((1, 2)), none_near, np.zeros(d), none_near[0])
    start, box, _ = kernels.find_covering(asked, np.zeros((len(asked), d)), even, index, gower, 0)
    step = np.repeat(np.arange(len(asked)), np.diff(start))
    share = np.where(box == steps.owner[step], 0.0, classes.records[box].astype(np.float64))
    for a in range(d):
        low = np.maximum(asked[step, 2 * a], hulls[box, 2 * a])
        high = np.minimum(asked[step, 2 * a + 1], hulls[box, 2 * a + 1])
        whole = classes.mass(a, hulls[box, 2 * a], hulls[box, 2 * a + 1])
        share *= classes.mass(a, low, high) / np.maximum(whole, 1e-300)
    return np.bincount(step, share, len(asked)).astype(np.float64)


def _hulls(levels: Sequence[Hierarchy], nodes: IntArray) -> CodeArray:
    """Return (n, 2 n_known) from and below, in leaves; the root also covers values that the hierarchy does not have."""
    hulls = np.empty((len(nodes), 2 * len(levels)), dtype=np.int32)
    for place, each in enumerate(levels):
        lo, hi = each.lo[nodes[:, place]], each.hi[nodes[:, place]]
        hulls[:, 2 * place] = lo
        hulls[:, 2 * place + 1] = hi + (hi - lo == each.n_leaves)
    return hulls


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """The hierarchy of one quasi attribute: nodes are ranges of leaves, and each label is a node.

    It is the policy's, if given, or made of the published labels, which must be nested or disjoint.
    """

    name: str
    lo: IntArray  # (n_nodes,)
    hi: IntArray  # (n_nodes,) exclusive
    start: IntArray  # (n_nodes + 1,)
    child: IntArray  # (n_children,) node v has the children start[v]:start[v + 1]
    node_of: IntArray  # (n_labels,) the node of each label of the view
    n_leaves: int
    tree: Taxonomy | None
    position: IntArray  # (n_codes,) without a tree, the leaf of each code of the view
    attribute: int

    @classmethod
    def of(cls, view: ReleaseView, attribute: int, everybody: People) -> Hierarchy:
        name = view.known[attribute]
        tree = build_known_tree(view, name, everybody)
        position = np.empty(0, dtype=np.int64)
        if tree is None:
            label_lo, label_hi, position = _in_line(name, find_covered_codes(view, attribute))
            lo, hi, n_leaves = label_lo, label_hi, len(position)
        else:
            number = view.labels[attribute].number
            node = {label: place for place, label in enumerate(tree.labels)}
            own = np.empty(len(number), dtype=np.int64)
            own[list(number.values())] = [node.get(str(text), -1) for text in number]
            if (own < 0).any():
                raise UsageError(f"labels of {name!r} are not nodes of the policy's taxonomy, but cut to fit the data")
            lo, hi, n_leaves = tree.lo.astype(np.int64), tree.hi.astype(np.int64), tree.n_leaves
            label_lo, label_hi = lo[own], hi[own]
        width = n_leaves + 1
        key = np.unique(lo * width + (width - 1 - hi))  # wider ones first
        lo, hi = key // width, width - 1 - key % width
        parent = _parents(lo, hi)
        order = np.argsort(parent, kind="stable")
        start = np.searchsorted(parent[order], np.arange(len(lo) + 1))
        node_of = np.searchsorted(key, label_lo * width + (width - 1 - label_hi))
        return cls(name, lo, hi, start, order, node_of, n_leaves, tree, position, attribute)

    def leaves(self, people: People) -> CodeArray:
        """Return (n,) the leaf of each person's value, one beyond all leaves for an unknown value."""
        if self.tree is None:
            return self.position[people.codes[:, self.attribute]].astype(np.int32)
        codes = self.tree.encode(people.table.column(self.name))
        return np.where(codes < 0, self.n_leaves, codes).astype(np.int32)

    def find_children(self, labels: AnyIntArray, people: People) -> IntArray:
        """Return (n,) the child of each label that covers the person's value, -1 if the label has no children."""
        parent, node_of = np.full(len(self.lo), -1), np.full(self.n_leaves + 1, -1)
        parent[self.child[self.start[0] :]] = np.repeat(np.arange(len(self.lo)), np.diff(self.start))
        for node, (begin, end) in enumerate(zip(self.lo.tolist(), self.hi.tolist(), strict=True)):
            node_of[begin:end] = node  # the narrowest comes last
        below, top = node_of[self.leaves(people)], self.node_of[labels]
        while (climbing := (below >= 0) & (parent[below] != top)).any():
            below = np.where(climbing, parent[below], below)
        return below

    def before(self, labels: AnyIntArray) -> FloatArray:
        """Return (n_leaves + 1,) how many published records lie before each leaf, each spread evenly over its label."""
        records = np.bincount(self.node_of[labels], minlength=len(self.lo))
        each = records / (self.hi - self.lo)
        steps = np.bincount(self.lo, each, self.n_leaves + 1) - np.bincount(self.hi, each, self.n_leaves + 1)
        return np.concatenate([[0.0], np.cumsum(np.maximum(np.cumsum(steps)[:-1], 0.0))])


def build_known_tree(view: ReleaseView, name: str, everybody: People) -> Taxonomy | None:
    """Return the policy's taxonomy of an attribute for the values of all people; None without a policy."""
    attribute = None if view.policy is None else view.policy.attributes.get(name)
    if attribute is None:
        return None
    column = everybody.table.column(name)
    codes, values = split_values(column)
    values = values.take(pa.array(np.unique(codes[codes < len(values)])))  # others are unused entries of a dictionary
    tree = (attribute.taxonomy or default_builder(values.type, values)).build(values)
    if column.null_count:
        tree = tree.with_missing()
    if (tree.encode(values) < 0).any():
        raise UsageError(f"column {name!r} has values outside the policy's taxonomy: it is not the release's policy")
    return tree


def find_covered_codes(view: ReleaseView, attribute: int) -> BoolArray:
    """Return (n_labels, n_codes) which codes of an attribute each label covers."""
    stated, code = view.labels[attribute], np.arange(int(view.widths[attribute]))
    under = (code >= stated.low[:, None]) & (code < stated.high[:, None])
    gaps = np.flatnonzero(stated.gaps >= 0)
    if len(gaps):
        bits = np.ascontiguousarray(view.space.bits[stated.gaps[gaps]]).view(np.uint8)
        under[gaps] &= np.unpackbits(bits, axis=1, bitorder="little")[:, : len(code)].astype(np.bool_)
    return np.asarray(under)


def _in_line(name: str, under: BoolArray) -> tuple[IntArray, IntArray, IntArray]:
    """Put codes into an order in which every label is a range, and return the ranges and the place of each code.

    Sorted by whether the widest label has them, then the next, the codes of nested labels are adjacent. If labels
    overlap otherwise, one of them is split.
    """
    sizes = under.sum(axis=1)
    packed = np.packbits(under[np.argsort(-sizes, kind="stable")], axis=0)
    order = np.lexsort(packed[::-1])
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    lined = under[:, order]
    lo = lined.argmax(axis=1)
    hi = under.shape[1] - lined[:, ::-1].argmax(axis=1)
    if (hi - lo != sizes).any():
        raise UsageError(f"labels of {name!r} overlap without being nested: they are not of a hierarchy")
    return lo, hi, position


def _parents(lo: IntArray, hi: IntArray) -> IntArray:
    """Return (n,) the smallest range around each of nested ranges, given in descending width; -1 if there is none."""
    parent = np.full(len(lo), -1, dtype=np.int64)
    above: list[int] = []
    for node, begin in enumerate(lo.tolist()):
        while above and hi[above[-1]] <= begin:
            above.pop()
        parent[node] = above[-1] if above else -1
        above.append(node)
    return parent

"""downcoding: classes that are no wider than they need be, undone a step, so that single people stand out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shoal.attacks import kernels
from shoal.attacks.base import FEWEST, Attack, Trials
from shoal.attacks.guessing import NOBODYS, TREATED
from shoal.attacks.hierarchies import Nested
from shoal.attacks.isolation import counted_up_to, isolated, isolated_elsewhere, smaller_control
from shoal.attacks.people import People
from shoal.attacks.predicates import counted
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.linking.tree import grow
from shoal.release.sliced.table import numbered

CANDIDATES = 4  # predicates that are looked at closely, for each that is tried


class DowncodingAttack(Attack):
    """Isolates people by a class's labels, one of which is taken a step down its hierarchy.

    Cohen, "Attacks on deidentification's defenses" (USENIX Security 2022): if a class is generalized no more than
    needed, its records are not all under one child of a label. So there is somebody under a child that has few
    people, and most likely one. A predicate is a class's labels with one of them replaced by a child; those come first
    that isolate one person most likely, given the sizes of classes, that knowledge, and how values are spread in the
    release. The baseline takes children of the same labels by chance. On the control group the attack's own
    predicates are tried.

    Hierarchies are the policy's or, without it, made of the labels that the release shows.
    """

    name = "downcoding"
    title = "who can be isolated, since classes are no wider than needed"
    question = "singling out"
    of_people = False

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: classes must have labels of hierarchies."""
        if view.treatments.nobodys:
            return NOBODYS
        if view.sliced is not None or view.as_they_are or view.form.by_plan:
            return "no class was generalized along hierarchies for the sake of its own records"
        return TREATED if view.treatments.of_quasi else None

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Try predicates on all people of the source and of the control group."""
        levels = [Nested.of(view, place, targets) for place in range(len(view.known))]
        classes = Classes.of(view.linked(rng), levels)
        steps = Steps.likeliest(classes, levels, self.n_targets, rng)
        if len(steps.owner) < FEWEST:
            raise UsageError(f"there are fewer than {FEWEST} steps down from labels of classes, which tell nothing")
        elsewhere, notes = None, []
        if control is not None:
            found = steps.fulfilled(classes, levels, control, counted_up_to(control.n_people, targets.n_people))
            elsewhere = isolated_elsewhere(found, control.n_people, targets.n_people)
            if control.n_people < targets.n_people:
                notes.append(smaller_control(control.n_people, targets.n_people))
        return Trials(
            self.name,
            isolated(steps.fulfilled(classes, levels, targets, 2)),
            elsewhere,
            isolated(steps.by_chance(classes, levels, rng).fulfilled(classes, levels, targets, 2)),
            notes=tuple(notes),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The classes of a release as nodes, and how records are spread over the leaves of each hierarchy."""

    nodes: IntArray  # (n_classes, n_known)
    records: IntArray  # (n_classes,)
    before: tuple[FloatArray, ...]  # of each attribute (n_leaves + 1,) records before each leaf

    @classmethod
    def of(cls, labels: CodeArray, levels: Sequence[Nested]) -> Classes:
        """Count the classes of rows with these labels."""
        number, first = numbered(list(labels.T), len(labels))
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
    def likeliest(cls, classes: Classes, levels: Sequence[Nested], n: int, rng: np.random.Generator) -> Steps:
        """Return up to n steps that isolate one person most likely, one for each class and attribute."""
        found, chances = [], []
        for place, each in enumerate(levels):
            steps = _down(classes, place, each)
            found.append(steps)
            chances.append(_alone(classes, each, steps))
        every = cls(*(np.concatenate([getattr(each, name) for each in found]) for name in cls.__slots__))
        if not len(every.owner):
            raise UsageError("no published label has others below it; give the policy, which tells what is below")
        chance = np.concatenate(chances)
        order = rng.permutation(len(chance))
        order = order[np.argsort(-chance[order], kind="stable")]
        _, first = np.unique((every.owner * len(levels) + every.attribute)[order], return_index=True)
        close = order[np.sort(first)[: CANDIDATES * n]]
        chance = chance[close] * np.exp(-_others(classes, levels, every[close]))
        return every[close[np.argsort(-chance, kind="stable")[:n]]]

    def by_chance(self, classes: Classes, levels: Sequence[Nested], rng: np.random.Generator) -> Steps:
        """Return steps to a random child of the same labels."""
        child = self.child.copy()
        for place, each in enumerate(levels):
            own = np.flatnonzero(self.attribute == place)
            node = classes.nodes[self.owner[own], place]
            child[own] = each.child[rng.integers(each.start[node], each.start[node + 1])]
        return Steps(self.owner, self.attribute, child)

    def nodes(self, classes: Classes) -> IntArray:
        """Return (n, n_known) the predicates' nodes."""
        nodes = classes.nodes[self.owner].copy()
        nodes[np.arange(len(nodes)), self.attribute] = self.child
        return nodes

    def fulfilled(self, classes: Classes, levels: Sequence[Nested], people: People, most: int) -> IntArray:
        """Return (n,) how many of the people fulfil each, counted up to *most*."""
        hulls = _hulls(levels, self.nodes(classes))
        n, d = len(hulls), len(levels)
        return counted(
            np.stack([*(each.leaves(people) for each in levels), people.person]),
            np.arange(n + 1) * d,
            np.tile(np.arange(d), n),
            hulls[:, ::2].reshape(-1).astype(np.int64),
            hulls[:, 1::2].reshape(-1).astype(np.int64),
            np.full(n * d, -1, dtype=np.int64),
            np.zeros((1, 1), dtype=np.uint64),
            most,
        )


def _down(classes: Classes, attribute: int, each: Nested) -> Steps:
    """Return every step down from the labels of one attribute."""
    node = classes.nodes[:, attribute]
    count = each.start[node + 1] - each.start[node]
    owner = np.repeat(np.arange(len(node)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    return Steps(owner, np.full(len(owner), attribute), each.child[each.start[node[owner]] + within])


def _alone(classes: Classes, each: Nested, steps: Steps) -> FloatArray:
    """Return (n,) how likely one record of the class is under the child, if not all are under one child.

    Of n records with chance p each, one is under the child with n p (1 - p)^(n - 1); that all are under one child is
    ruled out.
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


def _others(classes: Classes, levels: Sequence[Nested], steps: Steps) -> FloatArray:
    """Return (n,) how many records of other classes are expected to fulfil each predicate."""
    asked, hulls = _hulls(levels, steps.nodes(classes)), _hulls(levels, classes.nodes)
    d = len(levels)
    even, nothing = np.full((len(hulls), d), -1, dtype=np.int32), np.zeros(d)
    start, box, _ = kernels.covering(
        asked, np.zeros((len(asked), d)), hulls, even, np.zeros((1, 1), dtype=np.uint64), grow(hulls),
        np.zeros((1, 2 * d)), nothing, np.zeros(d, dtype=np.int32), False,
    )  # fmt: skip
    step = np.repeat(np.arange(len(asked)), np.diff(start))
    share = np.where(box == steps.owner[step], 0.0, classes.records[box].astype(np.float64))
    for a in range(d):
        low = np.maximum(asked[step, 2 * a], hulls[box, 2 * a])
        high = np.minimum(asked[step, 2 * a + 1], hulls[box, 2 * a + 1])
        whole = classes.mass(a, hulls[box, 2 * a], hulls[box, 2 * a + 1])
        share *= classes.mass(a, low, high) / np.maximum(whole, 1e-300)
    return np.bincount(step, share, len(asked)).astype(np.float64)


def _hulls(levels: Sequence[Nested], nodes: IntArray) -> CodeArray:
    """Return (n, 2 n_known) from and below, in leaves; a node above all leaves has what lies beyond them too."""
    hulls = np.empty((len(nodes), 2 * len(levels)), dtype=np.int32)
    for place, each in enumerate(levels):
        lo, hi = each.lo[nodes[:, place]], each.hi[nodes[:, place]]
        hulls[:, 2 * place] = lo
        hulls[:, 2 * place + 1] = hi + (hi - lo == each.n_leaves)
    return hulls

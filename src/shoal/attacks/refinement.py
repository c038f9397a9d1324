"""refinement: classes that overlap, sorted out by counting who can be in which of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shoal.attacks.answers import (
    NO_ANSWER,
    Answers,
    Asked,
    SensitiveAttack,
    certain,
    find_share,
    guess_likeliest,
    mode,
    not_their_own,
)
from shoal.attacks.base import TREATED, People, Trials
from shoal.attacks.parts import Secret, rows_of
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_rows, same_rows

ROUNDS = 200  # of scaling, after which beliefs hardly change


class RefinementAttack(SensitiveAttack):
    """Counts who can be in which of the classes that overlap, and guesses the likeliest value of what is then left.

    The adversary knows the quasi values of everybody in the data. The unknowns are how many people of each kind are in
    each class that covers them; each kind has its people, and each class its records. Of these linear
    constraints every bound is a whole number, for they are those of a flow; so the bounds are exact. Of all numbers
    that fit, those of greatest entropy are believed. The baseline guesses from all classes that cover a person.

    The variant ``pinned`` says the value of somebody only if every class in which the person can be has this value
    alone; its baseline is the most frequent value, for the same people.
    """

    name = "refinement"
    title = "whose class and value remain once people and records are counted"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: classes must be boxes that can overlap."""
        reason = super().refuses(view)
        if reason is None and view.sliced is not None:
            return "the release has buckets; the other attacks count where a person's rows can be"
        if reason is None and (view.as_they_are or view.form.by_plan):
            return "no two classes overlap, so counting says nothing beyond what each class says alone"
        if reason is None and view.treatments.of_quasi:
            return TREATED
        return reason or not_their_own(view)

    def judge(self, view: ReleaseView, secret: Secret, asked: Asked, rng: np.random.Generator) -> Trials:
        """Sort out all people of the source, and count what is said of the targets."""
        places = Places.of(view, asked.everybody)
        counts = secret.count_in_classes(view.parts[secret.part])
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        shares = np.append(shares, np.zeros((1, counts.shape[1])), axis=0)  # that of withheld records is not known
        shown = shares > 0
        shown[-1] = True  # a record that was withheld may have any value
        believed, possible = places.sums(places.expected, shares), places.sums(places.possible, shown) > 0
        alone = np.where(possible.sum(axis=1) == 1, possible.argmax(axis=1), NO_ANSWER)

        def answer(people: People) -> tuple[Answers, Answers]:
            kind, truth = places.kinds(people), people.secrets[secret.name]
            blind = guess_likeliest(view.believe(secret, people), mode(secret), rng)
            weights = np.append(believed, np.zeros((1, believed.shape[1])), axis=0)[kind]
            sure = np.append(alone, NO_ANSWER)[kind]
            guess, usual = guess_likeliest(weights, blind, rng), np.where(sure == NO_ANSWER, NO_ANSWER, mode(secret))
            return (
                Answers(people, guess, blind, truth, find_share(weights, guess)),
                Answers(people, sure, usual, truth, (sure != NO_ANSWER).astype(np.float64)),
            )

        guessed, pinned = answer(asked.members)
        guessed_there, pinned_there = (None, None) if asked.others is None else answer(asked.others)
        before = certain(view, view.find_left(secret, asked.members))
        added = int(((pinned.guess != NO_ANSWER) & ~before).sum())
        kind = places.kinds(asked.members)
        located = int((places.several & (places.n_possible == 1))[kind].sum())
        note = (
            f"of {len(kind):,} people, {int(places.several[kind].sum()):,} are covered by several classes; counting "
            f"leaves {located:,} of these in one, and {added:,} people with one value who had several"
        )
        variants = {"pinned": pinned.try_beside(pinned_there, "pinned", view)}
        return replace(guessed.try_beside(guessed_there, self.name, view), variants=variants, notes=(note,))


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Kinds of people with the same quasi values, and the classes that cover them: one edge for each such pair.

    One more class, the last, has the records that were withheld.
    """

    codes: CodeArray  # (n_kinds, n_known)
    people: IntArray  # (n_kinds,)
    records: IntArray  # (n_classes + 1,)
    kind: IntArray  # (n_edges,)
    place: IntArray  # (n_edges,) the class
    expected: FloatArray  # (n_edges,) people of the kind in the class, of greatest entropy
    possible: BoolArray  # (n_edges,) whether any of the kind can be in the class

    @classmethod
    def of(cls, view: ReleaseView, everybody: People) -> Places:
        """Count people and records, and solve for where they can be."""
        first, kind_of = same_rows(list(everybody.codes.T))
        codes, people = everybody.codes[first], np.bincount(kind_of)
        part = view.parts[0]
        (start, boxes), _ = view.cover(part, view.hulls(codes), everybody.numbers[first], near=False)
        kind = rows_of(start)
        if (np.diff(start) <= 1).all():
            raise UsageError("no two classes cover one person, so counting says nothing beyond what each class says")
        withheld = len(everybody) - view.n_rows
        records = np.append(part.records, max(0, withheld))
        if withheld > 0:
            kind = np.append(kind, np.arange(len(codes)))
            boxes = np.append(boxes, np.full(len(codes), len(part.records)))
        possible = feasible(people, records, kind, boxes)
        if possible is None:
            raise UsageError("the people of the source do not fit into the classes: the release is not of this table")
        return cls(codes, people, records, kind, boxes, scale_links(people, records, kind, boxes, possible), possible)

    @property
    def n_possible(self) -> IntArray:
        """(n_kinds,) in how many classes people of each kind can be."""
        return np.bincount(self.kind[self.possible], minlength=len(self.people))

    @property
    def several(self) -> BoolArray:
        """(n_kinds,) whether several classes cover people of each kind."""
        return np.bincount(self.kind[self.place < len(self.records) - 1], minlength=len(self.people)) > 1

    def sums(self, weights: FloatArray | BoolArray, of_class: FloatArray | BoolArray) -> FloatArray:
        """Return (n_kinds, n_values) what classes have, summed over each kind's edges with their weights."""
        found = np.zeros((len(self.people), of_class.shape[1]))
        for value in range(of_class.shape[1]):
            found[:, value] = np.bincount(self.kind, weights * of_class[self.place, value], len(self.people))
        return found

    def kinds(self, people: People) -> AnyIntArray:
        """Return (n,) the kind of each person, -1 for those of whom there is none in the data."""
        return find_rows(list(self.codes.T), list(people.codes.T))


def feasible(people: IntArray, records: IntArray, kind: IntArray, place: IntArray) -> BoolArray | None:
    """Return (n_edges,) whether people of a kind can be in a class when all fit, or None if they cannot all fit.

    One way in which all fit is a flow through the edges. An edge that it does not use is used by another way just if
    the flow can be turned round a circle through it: if both its ends are strongly connected in what the flow leaves.

    >>> feasible(np.array([1, 1]), np.array([1, 1]), np.array([0, 0, 1]), np.array([0, 1, 1])).tolist()
    [True, False, True]
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, maximum_flow

    n_kinds, n_classes = len(people), len(records)
    total = int(people.sum())
    if total != records.sum():
        return None
    source, sink = n_kinds + n_classes, n_kinds + n_classes + 1
    tail = np.concatenate([np.full(n_kinds, source), kind, n_kinds + np.arange(n_classes)])
    head = np.concatenate([np.arange(n_kinds), n_kinds + place, np.full(n_classes, sink)])
    capacity = np.concatenate([people, np.full(len(kind), total), records]).astype(np.int32)
    graph = csr_array((capacity, (tail, head)), shape=(sink + 1, sink + 1))
    found = maximum_flow(graph, source, sink)
    if found.flow_value != total:
        return None
    used = np.asarray(found.flow[kind, n_kinds + place]).reshape(-1) > 0
    tail = np.concatenate([kind, (n_kinds + place)[used]])  # more can go through every edge, and less where some goes
    head = np.concatenate([n_kinds + place, kind[used]])
    left = csr_array((np.ones(len(tail), dtype=np.int8), (tail, head)), shape=(source, source))
    _, part = connected_components(left, directed=True, connection="strong")
    return np.asarray(used | (part[kind] == part[n_kinds + place]))


def scale_links(
    people: IntArray, records: IntArray, kind: IntArray, place: IntArray, possible: BoolArray
) -> FloatArray:
    """Return (n_edges,) the numbers of greatest entropy that add up to people and to records, nearly so."""
    links = possible.astype(np.float64)
    for _ in range(ROUNDS):
        links *= (records / np.maximum(np.bincount(place, links, len(records)), 1e-300))[place]
        links *= (people / np.maximum(np.bincount(kind, links, len(people)), 1e-300))[kind]
    return links

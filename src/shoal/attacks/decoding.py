"""decoding: the label of a sensitive value reveals the value that is too frequent in its class.

refinement: counting people and records shows in which of several overlapping classes a person can be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from shoal.attacks import sensitive
from shoal.attacks.base import FEWEST, TREATED, People, Trials, name_size
from shoal.attacks.exposure import Outcomes, judge
from shoal.attacks.parts import Secret, ViewPart, encode_together, rows_of
from shoal.attacks.view import ReleaseView
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.errors import UsageError
from shoal.core.kernels import find_rows, gather_entries, same_rows
from shoal.core.wording import percent
from shoal.linking.kernels import Histograms
from shoal.linking.linkable import Candidates
from shoal.release.published import encode_column


class DecodingAttack(sensitive.SensitiveAttack):
    """States for every record under a label the value below the label that its class shows most often.

    A method that generalizes sensitive values only if one is too frequent, as the sweep does unless it defends its
    labels, thereby reveals which value that was. Of values that a class shows equally often, the attack states the most
    frequent one among people who are not in the data, whose frequencies are public, or else among records without a
    label.

    Trials are the records under labels, whose values are in the data holder's file. Without the file they are estimated
    from the people of each class; if classes overlap, from the numbers of each kind of people in each class that
    *refinement* finds. A guess is then right for at most as many records as labels hide of its value. The baseline is
    the guarantee: the larger of tau and the value's share in the source. The control group are people whom the same
    classes cover, with the same guesses.
    """

    name = "decoding"
    title = "the values behind labels of sensitive values"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: sensitive values must be published under labels, in classes of the people's own values."""
        reason = super().refuses(view)
        if reason is None and (view.sliced is not None or not any(_has_labels(view, name) for name in view.secrets)):
            return "no sensitive value was generalized, so there are no labels to decode"
        if reason is None and view.treatments.of_quasi:
            return TREATED
        return reason or sensitive.not_their_own(view)

    def judge(
        self,
        view: ReleaseView,
        secret: Secret,
        asked: sensitive.AttackGroups,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Trials:
        """Decode every label of every class, and count the records for which the guess is right."""
        everybody, n_values = asked.everybody.secrets[secret.name], len(secret.values)
        known = None if asked.others is None else asked.others.secrets[secret.name]
        labelled = decode(view, secret, None if known is None else np.bincount(known[known >= 0], minlength=n_values))
        n = int(labelled.records.sum())
        if n < FEWEST:
            raise UsageError(f"fewer than {FEWEST} records are published under labels, too few for an attack")
        usual = np.bincount(everybody[everybody >= 0], minlength=n_values) / len(everybody)
        promised = np.maximum(_read_tau(view, secret.name), usual[labelled.guess])
        first = np.unique(view.parts[secret.part].pairs.pair_of, return_index=True)[1]  # row of each class
        right = labelled.find_true(view, secret, first)
        stated = right is not None
        if right is None:
            right = labelled.estimate_right(count_values(view, secret, asked.everybody))
        labels = view.read_records(first)[0]
        which = np.repeat(np.arange(len(labelled.records)), labelled.records)
        said = [np.diff(np.floor(np.cumsum(each[which]) + 0.5), prepend=0.0) > 0 for each in (right, promised)]
        inside = Outcomes(said[0], labelled.belief[which], labels[labelled.owner[which]], said[1])
        others = None if asked.others is None or known is None else labelled.ask(view, asked.others, known, labels)
        tried = judge(self.name, view, inside, others)
        found, allowed = (int(each.sum()) for each in said)
        note = (
            f"{n:,} records are published under labels; for {found:,} of them the guessed value is right, and the "
            f"guarantee allows {allowed:,}"
            f"{'' if stated else '; their values are estimated, because internal/labels.parquet is missing'}"
        )
        tried = replace(tried, notes=(note,))
        worst = tried.worst_case[1]
        if worst.risk.low <= 0 or worst.baseline is None or worst.success.success > worst.baseline.success:
            return tried
        share = f"{percent(worst.risk.value)} of the guesses that chance would miss are right"
        return replace(tried, conclusion=f"{name_size(worst.risk)}: {share}, no more than the guarantee allows")


class LabelledRecords(NamedTuple):
    """The records under one label in one class, for every such label and class."""

    owner: IntArray  # (n,) the class
    records: IntArray  # (n,)
    label: IntArray  # (n,) the published text, by its code
    guess: IntArray  # (n,) the guessed value
    entry: IntArray  # (m,) the place above of each value below a label
    value: IntArray  # (m,) the value
    shown: FloatArray  # (n_classes, n_values) records that show a value by itself

    @property
    def belief(self) -> FloatArray:
        """(n,) the share of the guess among the values below the label that the class shows."""
        return self.find_right(self.shown)

    def find_right(self, left: FloatArray) -> FloatArray:
        """Return (n,) the share of the records that have the guessed value, given the records *left* behind labels."""
        total = np.bincount(self.entry, left[self.owner[self.entry], self.value], len(self.owner))
        return np.asarray(left[self.owner, self.guess] / np.maximum(total, 1e-300))

    def estimate_right(self, of_class: FloatArray) -> FloatArray:
        """Return the same share, given (n_classes, n_values) how many people of each class have each value.

        No value is right for more records than labels hide in the whole release.
        """
        right = self.find_right(np.maximum(of_class - self.shown, 0.0))
        hidden = np.maximum(of_class.sum(axis=0) - self.shown.sum(axis=0), 0.0)
        said = np.bincount(self.guess, right * self.records, len(hidden))
        return np.asarray(right * np.minimum(1.0, hidden / np.maximum(said, 1e-300))[self.guess])

    def find_true(self, view: ReleaseView, secret: Secret, first: IntArray) -> FloatArray | None:
        """Return the same share by the data holder's file, given a row of each class; None without a file.

        A file without the records of each class and label belongs to another release.
        """
        table, own = view.release.read_labelled(), f"value of {secret.name}"
        if table is None or own not in table.column_names:
            return None
        rows = view.rows.take(pa.array(first))
        codes = [encode_together([rows.column(name), table.column(name)]) for name in view.known]
        owner = find_rows([column[: len(first)] for column in codes], [column[len(first) :] for column in codes])
        texts, (label, stated) = encode_column(view.rows.column(secret.name))[1], encode_column(table[secret.name])
        number = {text: place for place, text in enumerate(texts)}
        label = np.array([number.get(text, -1) for text in stated])[label]
        entry = find_rows([self.owner, self.label], [owner, label])
        value, records = secret.codes(table.column(own)), table.column("records").to_numpy()
        known = np.flatnonzero(entry >= 0)
        if (np.bincount(entry[known], records[known], len(self.records)) != self.records).any():
            raise UsageError("internal/labels.parquet does not have the records that the release has under labels")
        met = known[value[known] == self.guess[entry[known]]]
        return np.asarray(np.bincount(entry[met], records[met], len(self.records)) / self.records)

    def ask(self, view: ReleaseView, people: People, truth: CodeArray, labels: CodeArray) -> Outcomes | None:
        """Guess for people in the same classes the value of most labelled records of their class."""
        (start, classes), _ = view.cover_closely(view.parts[0], view.hulls(people.codes), people.numbers, near=False)
        most, order = np.full(len(labels), -1), np.argsort(self.records, kind="stable")
        most[self.owner[order]] = order  # the last of a class has most records
        person, entry = rows_of(start), most[classes]
        known = np.flatnonzero((entry >= 0) & (truth[person] >= 0))
        kept = known[np.unique(person[known], return_index=True)[1]]  # each person once, in any class
        entry, true = entry[kept], truth[person[kept]]
        return Outcomes(self.guess[entry] == true, self.belief[entry], labels[classes[kept]]) if len(kept) else None


def decode(view: ReleaseView, secret: Secret, usual: FloatArray | IntArray | None) -> LabelledRecords:
    """Return the guess for every label, given the usual frequency of values.

    By default the usual frequency is that in records without a label.
    """
    codes, texts = encode_column(view.rows.column(secret.name))
    candidates = Candidates.of(texts, view.manifest.attributes[secret.name].labels, "the release")
    pairs, n_values = view.parts[secret.part].pairs, len(secret.values)
    counted = Histograms.of(pairs.pair_of, codes, np.ones(len(codes), dtype=np.int64), len(pairs.second), len(texts))
    owner, alone = rows_of(counted.start), np.diff(candidates.start)[counted.value] == 1
    single = candidates.value[candidates.start[counted.value]]
    shown = _count(owner[alone], single[alone], (len(pairs.second), n_values), counted.counts[alone])
    often = shown.sum(axis=0) if usual is None else usual
    owner, records = owner[~alone], counted.counts[~alone]
    entry, place = gather_entries(candidates.start, counted.value[~alone])
    value = candidates.value[place]
    order = np.lexsort((often[value], shown[owner[entry], value], entry))  # the best of an entry comes last
    last = np.cumsum(np.bincount(entry, minlength=len(owner))) - 1
    return LabelledRecords(owner, records, counted.value[~alone], value[order][last], entry, value, shown)


def count_values(view: ReleaseView, secret: Secret, everybody: People) -> FloatArray:
    """Return (n_classes, n_values) how many people in each class have each value, on average if classes overlap."""
    part, truth = view.parts[secret.part], everybody.secrets[secret.name]
    shape = len(part.records), len(secret.values)
    class_of = view.find_classes(part, everybody)
    own = class_of >= 0
    if (np.bincount(class_of[own], minlength=shape[0]) == part.records).all():  # all are in their most specific class
        own &= truth >= 0
        return _count(class_of[own], truth[own], shape)
    places = Places.of(view, everybody)
    kind = places.kinds(everybody)
    of_kind = _count(kind[truth >= 0], truth[truth >= 0], (len(places.people), shape[1])) / places.people[:, np.newaxis]
    inside = places.place < len(part.records)  # the last one has the records that were withheld
    found = np.zeros(shape)
    np.add.at(found, places.place[inside], places.expected[inside, np.newaxis] * of_kind[places.kind[inside]])
    return found


def _count(row: AnyIntArray, value: AnyIntArray, shape: tuple[int, int], weight: IntArray | None = None) -> FloatArray:
    key = row.astype(np.int64) * shape[1] + value
    return np.bincount(key, weight, shape[0] * shape[1]).reshape(shape).astype(np.float64)


def _has_labels(view: ReleaseView, name: str) -> bool:
    shown, covers = set(view.rows.column(name).unique().to_pylist()), view.manifest.attributes[name].covers
    return any(text in shown and len(cover.get("values", ())) > 1 for text, cover in covers.items())


def _read_tau(view: ReleaseView, name: str) -> float:
    """Return the share of a class that no value may exceed by the release's guarantee; 0 without one."""
    given = [each.parameters for each in view.manifest.guarantees if "tau" in each.parameters]
    return min((float(each["tau"]) for each in given if each.get("attribute") in (None, name)), default=0.0)


ROUNDS = 200  # of scaling, after which beliefs change little


class RefinementAttack(sensitive.SensitiveAttack):
    """Counts the people who can be in each of several overlapping classes, and guesses the likeliest remaining value.

    The adversary has the quasi values of all people in the data. The unknowns are how many people of each kind are in
    each class that covers them; the people of each kind and the records of each class are given. These linear
    constraints describe a flow, so every bound is a whole number and exact. Among all feasible solutions the attack
    uses the one with maximum entropy. The baseline guesses from all classes that cover a person.
    """

    name = "refinement"
    title = "whose class and value remain once people and records are counted"
    of_records = True

    def refuses(self, view: ReleaseView) -> str | None:
        """Return why not: classes must be boxes that can overlap."""
        reason = super().refuses(view)
        if reason is None and view.sliced is not None:
            return "the release has buckets; other attacks count the buckets that can hold a person's rows"
        if reason is None and (view.as_they_are or view.form.by_plan):
            return "no two classes overlap, so counting adds nothing to the values of each class"
        if reason is None and view.treatments.of_quasi:
            return TREATED
        return reason or sensitive.not_their_own(view)

    def judge(
        self, view: ReleaseView, secret: Secret, asked: sensitive.AttackGroups, rng: np.random.Generator
    ) -> Trials:
        """Find the classes of all people of the source, and count the answers about the targets."""
        places = Places.of(view, asked.everybody)

        def answer(people: People) -> sensitive.Answers:
            blind = sensitive.guess_likeliest(view.believe(secret, people), sensitive.mode(secret), rng)
            weights = places.find_weights(places.kinds(people), secret, view.parts[secret.part])
            guess = sensitive.guess_likeliest(weights, blind, rng)
            share = sensitive.find_share(weights, guess)
            return sensitive.Answers(people, guess, blind, people.secrets[secret.name], share)

        others = None if asked.others is None else answer(asked.others)
        kind, n_kinds = places.kinds(asked.members), len(places.people)
        several = np.bincount(places.kind[places.place < len(places.records) - 1], minlength=n_kinds) > 1
        located = several & (np.bincount(places.kind[places.possible], minlength=n_kinds) == 1)
        note = (
            f"of {len(kind):,} people, {int(several[kind].sum()):,} are covered by several classes; counting "
            f"leaves {int(located[kind].sum()):,} of these in one"
        )
        return replace(answer(asked.members).try_beside(others, self.name, view), notes=(note,))


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
    expected: FloatArray  # (n_edges,) people of the kind in the class, with maximum entropy
    possible: BoolArray  # (n_edges,) whether a person of the kind can be in the class

    @classmethod
    def of(cls, view: ReleaseView, everybody: People) -> Places:
        """Count people and records, and solve for the classes in which people can be."""
        first, kind_of = same_rows(list(everybody.codes.T))
        codes, people = everybody.codes[first], np.bincount(kind_of)
        part = view.parts[0]
        (start, boxes), _ = view.cover(part, view.hulls(codes), everybody.numbers[first], near=False)
        kind = rows_of(start)
        if (np.diff(start) <= 1).all():
            raise UsageError("no two classes cover one person, so counting adds nothing to the values of each class")
        withheld = len(everybody) - view.n_rows
        records = np.append(part.records, max(0, withheld))
        if withheld > 0:
            kind = np.append(kind, np.arange(len(codes)))
            boxes = np.append(boxes, np.full(len(codes), len(part.records)))
        possible = feasible(people, records, kind, boxes)
        if possible is None:
            raise UsageError("the people of the source do not fit into the classes: the release is not of this table")
        return cls(codes, people, records, kind, boxes, scale_links(people, records, kind, boxes, possible), possible)

    def find_weights(self, kind: AnyIntArray, secret: Secret, part: ViewPart) -> FloatArray:
        """Return (n, n_values) the belief in each value for people of these kinds, -1 for none.

        A withheld record adds no belief.
        """
        asked, person = np.unique(kind, return_inverse=True)
        edge = np.flatnonzero(np.isin(self.kind, asked) & (self.place < len(part.records)))
        classes, place = np.unique(self.place[edge], return_inverse=True)
        counts = secret.count_in_classes(part, classes)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
        weights = np.zeros((len(asked), len(secret.values)))
        np.add.at(weights, np.searchsorted(asked, self.kind[edge]), self.expected[edge, np.newaxis] * shares[place])
        return weights[person]

    def kinds(self, people: People) -> AnyIntArray:
        """Return (n,) the kind of each person, -1 for people unlike anyone in the data."""
        return find_rows(list(self.codes.T), list(people.codes.T))


def feasible(people: IntArray, records: IntArray, kind: IntArray, place: IntArray) -> BoolArray | None:
    """Return (n_edges,) whether people of a kind can be in a class if all people fit, or None if they cannot all fit.

    One way to place all people is a flow through the edges. Another way uses an edge without flow if and only if the
    flow can be redirected along a cycle through it, that is, if its ends are strongly connected in the residual graph.

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
    tail = np.concatenate([kind, (n_kinds + place)[used]])  # flow can grow on every edge, and shrink on used ones
    head = np.concatenate([n_kinds + place, kind[used]])
    left = csr_array((np.ones(len(tail), dtype=np.int8), (tail, head)), shape=(source, source))
    _, part = connected_components(left, directed=True, connection="strong")
    return np.asarray(used | (part[kind] == part[n_kinds + place]))


def scale_links(
    people: IntArray, records: IntArray, kind: IntArray, place: IntArray, possible: BoolArray
) -> FloatArray:
    """Return (n_edges,) the numbers of maximum entropy that add up to people and to records, approximately."""
    links = possible.astype(np.float64)
    for _ in range(ROUNDS):
        links *= (records / np.maximum(np.bincount(place, links, len(records)), 1e-300))[place]
        links *= (people / np.maximum(np.bincount(kind, links, len(people)), 1e-300))[kind]
    return links
